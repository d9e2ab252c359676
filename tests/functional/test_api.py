#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The control API of a real switch: as docs/openapi.yaml says, and what it does not say."""
import contextlib
import fcntl
import grp
import hashlib
import http.client
import os
import socket
import stat
import time

from control import PORT, Control, make_certificate
from openapi import Document
from rack import SWITCH_ADDRESS, Rack, RackError, job
from process import answer_to, cpu_seconds, memory_kib
from tap import case, check, main, seed, wait_for


IDLE_S = 15  # API_IDLE_S: who is silent for so long is closed


@contextlib.contextmanager
def switch(jobs=None, start=True, hosts=2, **section):
    with Rack(hosts=hosts, jobs=jobs or [job(1, 2)]) as rack:
        api = Control(rack, **section)
        if start:
            rack.start_switch()
        yield rack, api
        if rack.switch is not None and rack.switch.status is None:
            rack.stop_switch()


def expect(answer, status, code=None):
    check(answer.status == status, 'status %d, not %d: %s', answer.status, status, answer.text)
    if code is not None:
        check(answer.code == code, 'code %s, not %s', answer.code, code)
        check(answer.body['error']['status'] == status, '%s', answer.body)
        check(len(answer.body['error']['message']) > 10, '%s', answer.body)


def hash_of(token):
    return hashlib.sha256(token.encode()).hexdigest()


# -- what the document says

@case
def every_answer_is_as_the_document_says():
    document = Document()
    with switch(tenants=[{'name': 'vision', 'token_sha256': hash_of('v')}]) as (_rack, api):
        count = 0
        for path, method, operation in document.served():
            if method != 'GET':
                continue
            values = {'/v1/ports/{name}': 'p1', '/v1/jobs/{name}': 'job1', '/{file}': 'app.js'}
            found = api.unix('GET', path.replace('{name}', values.get(path, ''))
                             .replace('{file}', values.get(path, '')))
            check(found.status == 200, '%s: %s', path, found.text)
            if found.headers['Content-Type'] == 'application/json':
                document.check(operation, found.status, found.body)
            check(found.headers['X-Content-Type-Options'] == 'nosniff', '%s', found.headers)
            head = api.unix('HEAD', path.replace('{name}', values.get(path, ''))
                            .replace('{file}', values.get(path, '')))
            check(head.status == 200 and head.text == b'', 'HEAD %s: %d', path, head.status)
            count += 1
        check(count >= 10, 'only %d operations', count)


@case
def the_answers_are_true():
    began = time.time()
    with switch() as (rack, api):
        rack.ping(0, rack.address(1))
        status, counters = api.get('/v1/status'), api.get('/v1/counters')
        check(status['pid'] == rack.switch.pid, '%s', status['pid'])
        check(status['address'] == SWITCH_ADDRESS and status['udp_port'] == 12000, '%s', status)
        check(status['packets']['received'] > 0 and status['packets']['off_by'] == 0, '%s', status)
        pool = status['pools']['packets']
        check(0 < pool['free'] <= pool['size'], '%s', pool)
        check(0 < status['memory']['free'] < status['memory']['total'], '%s', status['memory'])
        ports = api.get('/v1/ports')['ports']
        check([p['name'] for p in ports] == ['p0', 'p1', 'exception'], '%s', ports)
        check(all(p['up'] for p in ports) and ports[0]['rx_packets'] >= 3, '%s', ports)
        check(api.get('/v1/ports/p0')['id'] == 0, 'p0')
        found = api.get('/v1/jobs/job1')
        check(found['origin'] == 'file' and found['state'] == 'joining', '%s', found)
        check([m['address'] for m in found['members']] == [rack.address(0), rack.address(1)],
              '%s', found['members'])
        check('members' not in api.get('/v1/jobs')['jobs'][0], 'members in the list')
        config = api.get('/v1/config')
        check(config['switch']['address'] == SWITCH_ADDRESS + '/24', '%s', config)
        check(config['workers']['burst'] == 32, 'defaults: %s', config['workers'])
        check(began <= counters['time'] <= time.time(), '%s', counters['time'])
        stats = rack.check_packets()
        again = api.get('/v1/counters')
        check(again['drops'] == stats['drops'], '%s is not %s', again['drops'], stats['drops'])
        check(api.get('/v1/ready') == {'ready': True}, 'ready')
        check(0 < api.get('/v1/health')['uptime'] < time.time() - began, 'uptime')


@case
def what_is_not_there_is_refused():
    with switch() as (_rack, api):
        for path in ('/v1', '/v2/status', '/v1/nothing', '/v1/status/', '/v1//status', '/v1/%00',
                     '/v1/jobs/job1/x', '/nothing', '/v1/ports/p7', '/v1/' + 'a' * 2000):
            expect(api.unix('GET', path), 404, 'unknown_path')
        expect(api.unix('GET', '/v1/jobs/none'), 404, 'unknown_job')
        expect(api.unix('GET', '/v1/jobs/%3Cimg%20onerror%3E%ff'), 404, 'unknown_job')
        for method in ('PUT', 'DELETE', 'OPTIONS', 'BREW', 'get'):
            found = api.unix(method, '/v1/status')
            expect(found, 405, 'method_not_allowed')
            check(found.headers['Allow'] == 'GET, HEAD', 'Allow: %s', found.headers['Allow'])
        found = api.unix('GET', '/v1/status?verbose=1')
        expect(found, 400, 'unknown_key')
        check(found.body['error']['key'] == 'verbose', '%s', found.body)
        found = api.unix('GET', '/v1/blocks?limit=1&limit=2')
        expect(found, 400, 'duplicate')
        check(found.body['error']['key'] == 'limit', '%s', found.body)
        expect(api.unix('GET', '/v1/status?a=1&a=2'), 400, 'unknown_key')
        # A path in another spelling is the same path.
        expect(api.unix('GET', '/v1/%73tatus'), 200)
        expect(api.unix('GET', '/v1/status', body='{}'), 400, 'unknown_key')


@case
def bodies_have_a_limit():
    with switch() as (_rack, api):
        expect(api.unix('GET', '/v1/status', body=b'x' * 65537), 413, 'too_large')
        # One that says that it is far too large is not read at all.
        found = api.raw(b'GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n')
        check(b' 413 ' in found and b'too_large' in found, '%s', found)

        def pieces(count):
            for _ in range(count):
                yield b'x' * 1000

        with contextlib.closing(api.connect()) as connection:
            connection.request('GET', '/v1/status', body=pieces(100), encode_chunked=True,
                               headers={'Transfer-Encoding': 'chunked'})
            check(connection.getresponse().status == 413, 'chunked')
        # One without an end is cut off.
        with contextlib.closing(api.connect()) as connection:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request('GET', '/v1/status', body=pieces(4000), encode_chunked=True,
                                   headers={'Transfer-Encoding': 'chunked'})
                check(connection.getresponse().status == 413, 'without an end')
        expect(api.unix('GET', '/v1/status', headers={'X-Long': 'x' * 20000}), 431)
        expect(api.unix('GET', '/v1/health'), 200)


# -- listeners

@case
def the_unix_socket_is_made_and_removed():
    with switch() as (rack, api):
        folder = os.path.dirname(api.path)
        check(stat.S_IMODE(os.stat(folder).st_mode) == 0o755, 'the folder')
        found = os.stat(api.path)
        check(stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o660, '%o',
              found.st_mode)
        # What is served is not taken over, and stays.
        second = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', rack.write_config(
            '{"switch": {"name": "%s-b", "address": "10.77.0.253/24"}, "memory_mb": 128,'
            '"eal": ["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf"],'
            '"ports": [{"name": "p0", "device": "net_null0,no-rx=1"}],'
            '"api": {"listen": ["unix:%s"]}}' % (rack.name[5:], api.path), 'second.json')])
        check(second.end(20) == 1 and 'another process listens on' in second.output, '%s', second.output)
        expect(api.unix('GET', '/v1/health'), 200)
        rack.stop_switch()
        check(not os.path.exists(api.path), 'the socket is still there')


@case
def a_stale_socket_is_replaced_and_nothing_else():
    with switch() as (rack, api):
        rack.switch.popen.kill()
        rack.switch.popen.wait(10)
        check(os.path.exists(api.path), 'a killed switch leaves its socket')
        rack.start_switch()
        expect(api.unix('GET', '/v1/health'), 200)
        rack.stop_switch()
        with open(api.path, 'w') as file:
            file.write('precious')
        try:
            rack.start_switch()
            check(False, 'started over a file')
        except RackError as error:
            check('exists and is not a socket' in str(error), '%s', error)
        with open(api.path) as file:
            check(file.read() == 'precious', 'the file was changed')


@case
def sockets_of_others_stay():
    """Only a socket that the kernel says nobody serves is stale."""
    def refused(rack, reason):
        try:
            rack.start_switch()
            check(False, 'started')
        except RackError as error:
            check(reason in str(error), '%s', error)

    with switch(start=False) as (rack, api):
        folder = os.path.dirname(api.path)
        os.mkdir(folder, 0o755)
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as other:
            other.bind(api.path)
            refused(rack, "whether it is in use can't be told")
            check(stat.S_ISSOCK(os.stat(api.path).st_mode), "another program's socket is gone")
        os.unlink(api.path)
        with open(api.path + '.lock', 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            refused(rack, 'another process listens on')
        os.chmod(folder, 0o777)
        refused(rack, 'all users may write to')
        os.chmod(folder, 0o755)
        rack.changes['api']['socket_group'] = 'no-such-group'
        refused(rack, 'there is no group')
        check(os.listdir(folder) == [], 'left: %s', os.listdir(folder))
        rack.changes['api']['socket_group'] = 'daemon'
        rack.start_switch()
        check(os.stat(api.path).st_gid == grp.getgrnam('daemon').gr_gid, 'group')
        expect(api.unix('GET', '/v1/health'), 200)
        rack.stop_switch()
        check(os.listdir(folder) == [], 'left: %s', os.listdir(folder))


@case
def a_port_in_use_is_said_in_a_line():
    with switch(start=False) as (rack, _api):
        with rack.inside('sw'):
            taken = socket.create_server(('127.0.0.1', PORT))
        with contextlib.closing(taken):
            try:
                rack.start_switch()
                check(False, 'started')
            except RackError as error:
                check('api: tcp:127.0.0.1:%d: Address already in use' % PORT in str(error), '%s',
                      error)


@case
def hosts_reach_it_over_their_links():
    with switch() as (rack, api):
        found = rack.call(0, ['curl', '-sS', '-m', '60',
                              'http://%s:%d/v1/jobs/job1' % (SWITCH_ADDRESS, PORT)])
        check('"name":"job1"' in found, '%s', found)
        expect(api.tcp('GET', '/v1/status', place=1, address=SWITCH_ADDRESS), 200)


# -- who may

@case
def tokens_decide_who_may():
    tenants = [{'name': 'vision', 'token_sha256': hash_of('look')},
               {'name': 'ops', 'token_sha256': hash_of('run').upper(), 'admin': True}]
    with switch(tenants=tenants) as (_rack, api):
        # root on the Unix socket
        expect(api.unix('GET', '/v1/tenants'), 200)
        check(len(api.get('/v1/jobs')['jobs']) == 1, 'an administrator sees every job')
        for path in ('/v1/health', '/v1/ready', '/v1/status', '/'):
            expect(api.tcp('GET', path), 200)
        for path in ('/v1/jobs', '/v1/config', '/v1/counters', '/v1/tenants', '/v1/jobs/job1'):
            found = api.tcp('GET', path)
            expect(found, 401, 'unauthorized')
            check(found.headers['WWW-Authenticate'].startswith('Bearer'), '%s', found.headers)
        for wrong in ('loo', 'lookx', '', 'LOOK', 'x' * 5000):
            expect(api.tcp('GET', '/v1/jobs', token=wrong), 401, 'unauthorized')
            expect(api.tcp('GET', '/v1/health', token=wrong), 401, 'unauthorized')
            expect(api.unix('GET', '/v1/jobs', token=wrong), 401, 'unauthorized')
        found = api.tcp('GET', '/v1/jobs', token='look')
        expect(found, 200)
        check(found.body == {'jobs': []}, "a tenant sees others' jobs: %s", found.body)
        expect(api.tcp('GET', '/v1/jobs/job1', token='look'), 404, 'unknown_job')
        check(api.tcp('GET', '/v1/counters', token='look').body['jobs'] == [], 'counters')
        expect(api.tcp('GET', '/v1/config', token='look'), 403, 'forbidden')
        expect(api.unix('GET', '/v1/config', token='look'), 403, 'forbidden')
        for path in ('/v1/config', '/v1/tenants', '/v1/jobs/job1'):
            expect(api.tcp('GET', path, token='run'), 200)
        check('look' not in str(api.get('/v1/config')) and
              hash_of('look') not in str(api.get('/v1/config')), 'the configuration tells tokens')


@case
def reading_can_be_closed():
    with switch(open_read=False) as (_rack, api):
        expect(api.unix('GET', '/v1/status'), 200)
        expect(api.tcp('GET', '/v1/status'), 403, 'forbidden')
        expect(api.tcp('GET', '/v1/jobs'), 403, 'forbidden')


@case
def pages_of_other_sites_get_nothing():
    with switch(names=['Rack7.example.org']) as (_rack, api):
        def ask(**headers):
            return api.tcp('GET', '/v1/status', headers=headers)

        for host in ('127.0.0.1', '10.77.0.254:18080', '[::1]:18080', 'localhost',
                     'rack7.example.org:18080'):
            expect(ask(Host=host), 200)
            expect(ask(Host=host, Origin='http://' + host), 200)
        for host in ('evil.example', 'evil.example:18080', '127.0.0.1.evil.example', 'rack7', ''):
            expect(ask(Host=host), 421, 'misdirected')
            expect(ask(Host=host, Origin='http://' + host), 421, 'misdirected')
        for origin in ('http://evil.example', 'null', 'http://127.0.0.1', 'http://localhost:18080'):
            expect(ask(Host='127.0.0.1:18080', Origin=origin), 403, 'forbidden')
        found = api.tcp('DELETE', '/v1/jobs/job1/members/0', headers={'Host': 'evil.example'})
        expect(found, 421, 'misdirected')
        # Whoever is on this machine's socket is no page.
        expect(api.unix('GET', '/v1/status', headers={'Host': 'anything'}), 200)


# -- TLS

@case
def tls_on_tcp_alone():
    with switch(start=False) as (rack, api):
        crt, key = make_certificate(rack.folder, 'one')
        rack.changes['api']['tls'] = {'certificate': crt, 'key': key}
        rack.start_switch()
        expect(api.unix('GET', '/v1/health'), 200)
        # In the clear, nothing is told.
        try:
            found = api.tcp('GET', '/v1/health').text
        except (OSError, http.client.HTTPException):
            found = b''
        check(b'uptime' not in found, '%s', found)
        api.trust(crt)
        with contextlib.closing(api.connect('sw')) as connection:
            check(connection.sock.version() in ('TLSv1.2', 'TLSv1.3'), 'version')
            for _ in range(3):  # one connection, several requests
                expect(api.ask(connection, 'GET', '/v1/status'), 200)
        expect(api.tcp('GET', '/v1/jobs', place=0, address=SWITCH_ADDRESS), 200)
        old = rack.spawn('sw', ['openssl', 's_client', '-tls1_1', '-cipher', 'ALL:@SECLEVEL=0',
                                '-connect', '127.0.0.1:%d' % PORT])
        check(old.end(10) != 0 and 'Cipher is (NONE)' in old.output, '%s', old.output)
        rack.stop_switch()


@case
def certificates_that_do_not_fit_are_refused():
    with switch(start=False) as (rack, _api):
        one, other = make_certificate(rack.folder, 'one'), make_certificate(rack.folder, 'other')
        for tls, reason in (({'certificate': one[0], 'key': other[1]}, 'does not start'),
                            ({'certificate': one[0], 'key': '/nowhere'}, '/nowhere: No such file')):
            rack.changes['api']['tls'] = tls
            try:
                rack.start_switch()
                check(False, 'started')
            except RackError as error:
                check(reason in str(error), '%s', error)


# -- hostile clients

def garbled(random):
    """Something like a request."""
    method = random.choice(['GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'HEAD', 'OPTIONS', 'G\0T',
                            '\xff\xfe', '', 'CONNECT', 'TRACE'])
    target = random.choice(['/v1/status', '/v1/jobs', '/v1/jobs/job1', '/v1/jobs/job1/members',
                            '/v1/jobs/job1/members/0', '/v1/ports/p0', '/v1/counters', '/', '*',
                            '/v1/jobs/%2e%2e%2f', '/v1/jobs/' + '%' * random.randrange(9),
                            '/' * random.randrange(1, 3000), '/../../etc/passwd',
                            '/v1/blocks?limit=' + '9' * random.randrange(40),
                            '/v1/jobs?' + '&'.join('k%d=%s' % (i, 'v' * i) for i in range(20)),
                            'http://a/v1/status', '/\x01\x02', '?', '/v1/trace?ms=-1'])
    headers = []
    for _ in range(random.randrange(6)):
        headers.append(random.choice([
            'Content-Length: %d' % random.choice([0, 1, 10, 65536, 65537, 2 ** 31, 2 ** 63, -1]),
            'Content-Length: x', 'Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked',
            'Authorization: Bearer ' + 'x' * random.randrange(6000), 'Authorization: \xff',
            'Host: ' + 'h' * random.randrange(300), 'Expect: 100-continue', 'Connection: close',
            'Connection: upgrade', 'Content-Type: application/json', ': empty', 'no colon', '\0',
            ' folded: x', 'Cookie: ' + ';' * random.randrange(5000), 'Range: bytes=0-1']))
    body = random.choice(['', '{}', '{"name":"x","size":2}', '{"name":', '[' * 3000, '\xff' * 10,
                          '5\r\nhello\r\n0\r\n\r\n', 'ffffffffffffffff\r\nx', '-1\r\n',
                          '{"rank":0,"size":2,"rank":1}', '{"a":1e999}', '"\\ud800"', '0' * 70000])
    text = '%s %s %s\r\n%s\r\n%s' % (
        method, target, random.choice(['HTTP/1.1', 'HTTP/1.0', 'HTTP/9.9', 'HTTP', '']),
        ''.join(h + random.choice(['\r\n', '\r\n', '\n', '\r']) for h in headers), body)
    data = bytearray(text.encode('latin-1'))
    for _ in range(random.choice([0, 0, 1, 3])):
        if data:
            data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[:random.choice([len(data), len(data), random.randrange(len(data) + 1)])])


@case
def garbled_requests_change_nothing():
    random = seed()
    with switch(tenants=[{'name': 'v', 'token_sha256': hash_of('v')}]) as (rack, api):
        def state():
            jobs = api.get('/v1/jobs')
            return jobs, api.get('/v1/config'), api.get('/v1/tenants')

        before = state()
        for number in range(250):
            # Over TCP: nobody there has a token, and nothing may happen.
            api.raw(garbled(random), 0.5, place='sw')
            if number == 50:
                memory = memory_kib(rack.switch.pid)
            check(rack.switch.status is None, 'it died of request %d:\n%s', number,
                  rack.switch.output)
        expect(api.unix('GET', '/v1/health'), 200)
        check(state() == before, 'something changed: %s', state())
        if not os.environ.get('ASAN_OPTIONS'):
            grown = memory_kib(rack.switch.pid) - memory
            check(grown < 2048, '%d KiB more', grown)
        rack.stop_switch()


def is_let_in(api):
    try:
        return api.tcp('GET', '/v1/status').status == 200
    except (OSError, http.client.HTTPException):
        return False


@case
def slow_clients_delay_nobody():
    with switch() as (rack, api):
        slow, began = [], time.monotonic()
        for _ in range(20):
            with contextlib.suppress(OSError):
                connection = api.connect('sw')
                connection.sock.sendall(b'GET /v1/status HTTP/1.1\r\nX-Slow: ')
                slow.append(connection)
        open_until = None
        while time.monotonic() - began < 300 and open_until is None:
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sock.send(b'x', socket.MSG_DONTWAIT)
            for ask in (lambda: api.unix('GET', '/v1/status'),
                        lambda: api.tcp('GET', '/v1/status', place=0, address=SWITCH_ADDRESS)):
                expect(ask(), 200)
            time.sleep(1)
            # A byte a second, and so a time, is no reason to stay.
            if time.monotonic() - began > 3:
                first = slow[0].sock
                first.settimeout(0.01)
                with contextlib.suppress(socket.timeout, TimeoutError):
                    try:
                        gone = first.recv(1) == b''
                    except ConnectionError:
                        gone = True
                    if gone:
                        open_until = time.monotonic() - began
        check(open_until is not None, 'slow requests are kept for ever')
        check(open_until > 4, 'closed after %.1f s', open_until)
        # The address has its connections back, once the others are closed like the first.
        wait_for(lambda: is_let_in(api), 'the address is let in')
        for connection in slow:
            connection.close()


@case
def many_addresses_keep_nobody_out():
    """More idle connections than there are, from as many addresses as it takes."""
    with switch(tenants=[{'name': 'v', 'token_sha256': hash_of('v')}]) as (rack, api):
        def idle(number):
            with rack.inside('sw'):
                return socket.create_connection(('127.0.0.1', PORT), 60,
                                                ('127.0.0.%d' % (2 + number), 0))

        def is_open(connection):
            connection.settimeout(0.001)
            try:
                return connection.recv(1) != b''
            except (socket.timeout, TimeoutError):
                return True
            except OSError:
                return False

        def settled(most, seconds=60):
            """How many of `kept` are open, as soon as that is no more than `most`."""
            until = time.monotonic() + seconds
            while True:
                still = sum(is_open(connection) for connection in kept)
                if still <= most or time.monotonic() > until:
                    return still

        with contextlib.closing(api.connect('sw')) as known:
            expect(api.ask(known, 'GET', '/v1/jobs', token='v'), 200)
            kept, began = [], time.monotonic()
            for turn in range(16):
                kept += [idle(number) for number in range(18)]
                expect(api.tcp('GET', '/v1/status', token='v'), 200)
            still = settled(256)
            if time.monotonic() - began < IDLE_S:
                check(0 < still, 'all of %d are closed', len(kept))
                # Who has shown a token stays.
                expect(api.ask(known, 'GET', '/v1/jobs', token='v'), 200)
            check(still <= 256, '%d of %d are open', still, len(kept))
            check(settled(0) == 0, 'kept for ever')
            # One address alone: not all that it asks for.
            began = time.monotonic()
            kept += [idle(0) for _ in range(160)]
            still = settled(128)
            check(still <= 128 and (still > 0 or time.monotonic() - began >= IDLE_S), '%d of one address', still)
        for connection in kept:
            connection.close()


@case
def the_control_thread_sleeps():
    """With idle and half-dead connections open, it takes next to nothing."""
    with switch() as (rack, api):
        kept = [api.connect() for _ in range(10)] + [api.connect('sw') for _ in range(8)]
        for connection in kept[:5]:
            expect(api.ask(connection, 'GET', '/v1/health'), 200)
        for connection in kept[15:]:
            connection.sock.sendall(b'GET /v1')
            connection.sock.shutdown(socket.SHUT_WR)

        before, began = cpu_seconds(rack.switch.pid, rack.switch.pid), time.monotonic()
        time.sleep(3)  # of which it takes a share
        share = (cpu_seconds(rack.switch.pid, rack.switch.pid) - before) / (time.monotonic() - began)
        check(share < 0.1, 'the control thread took %.0f %% of a CPU', 100 * share)
        for connection in kept:
            connection.close()


# -- signals

@case
def hangup_does_not_end_it():
    with switch() as (rack, api):
        answer_to(rack)
        expect(api.unix('GET', '/v1/health'), 200)
        rack.stop_switch()


if __name__ == '__main__':
    main()
