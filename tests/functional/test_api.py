#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The control API of a real switch: as docs/openapi.json says, and what it does not say; its listeners; blocks that wait;
and changes while a worker stands still."""
import contextlib
import fcntl
import grp
import http.client
import json
import os
import re
import socket
import stat
import subprocess
import time

from control import PORT, Control, hash_of, make_certificate, switch, tenant
from openapi import Document
from process import answer_to, cpu_seconds, frozen
from tap import case, check, main, shared, wait_for
from rack import SWITCH_ADDRESS, Rack, RackError, job
from wire import Peer, join_all

BEGAN = time.time()


@shared
def plain():
    with switch(jobs=[job(1, 2)], names=['Rack7.example.org']) as found:
        yield found


@shared
def guarded():
    with switch(jobs=[job(1, 2)], tenants=[tenant('vision', 'look'), tenant('ops', 'run', admin=True)]) as found:
        yield found


def expect(answer, status, code=None):
    check(answer.status == status, 'status %d, not %d: %s', answer.status, status, answer.text)
    if code is not None:
        check(answer.code == code, 'code %s, not %s', answer.code, code)
        check(answer.body['error']['status'] == status, '%s', answer.body)
        check(len(answer.body['error']['message']) > 10, '%s', answer.body)


# -- what the document says

@case
def every_answer_is_as_the_document_says():
    _, api = guarded()
    paths = [path for path, method, _ in Document().operations() if method == 'GET']
    check(len(paths) >= 10, 'only %d operations', len(paths))
    for path in paths:
        values = {'/v1/ports/{name}': 'p1', '/v1/jobs/{name}': 'job1', '/v1/programs/{name}': 'forward', '/{file}': 'app.js'}
        path = re.sub('{.*}', values.get(path, ''), path)
        found = api.unix('GET', path)
        check(found.status == 200, '%s: %s', path, found.text)
        if found.headers['Content-Type'] == 'application/json':
            Document().judge('GET', path, found.status, found.body)
        check(found.headers['X-Content-Type-Options'] == 'nosniff', '%s', found.headers)
        head = api.unix('HEAD', path)
        check(head.status == 200 and head.text == b'', 'HEAD %s: %d', path, head.status)


@case
def examples_are_as_the_document_says():
    """A request that is an example is taken; an answer has what its example has, and the same kinds of values."""
    document = Document()
    with switch(programs=['loaded.so'], filters=['filter.o']) as (_rack, api):
        api.do('POST', '/v1/jobs', {'name': 'ring', 'size': 4}, 201)
        for path, method, operation in document.operations():
            for status, response in operation['responses'].items():
                content = document.resolve(response).get('content', {}).get('application/json')
                if content is not None:
                    document.match(content['schema'], content['example'], '%s %s %s' % (method, path, status))
            if 'requestBody' not in operation:
                continue
            content = operation['requestBody']['content']['application/json']
            document.match(content['schema'], content['example'], '%s %s' % (method, path))
            new = {'/v1/jobs': {'name': 'other'}, '/v1/programs': {'file': 'loaded.so'},
                   '/v1/filters': {'file': 'filter.o'}}.get(path)
            api.do(method, path.replace('{name}', 'ring'), {**content['example'], **(new or {})}, 201 if new else 200)
        found = api.tcp('GET', '/openapi.json')
        check(json.loads(found.text) == document.root, 'the switch serves another document')


@case
def the_answers_are_true():
    rack, api = plain()
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
    check([m['address'] for m in found['members']] == [rack.address(0), rack.address(1)], '%s', found['members'])
    check('members' not in api.get('/v1/jobs')['jobs'][0], 'members in the list')
    config = api.get('/v1/config')
    check(config['switch']['address'] == SWITCH_ADDRESS + '/24', '%s', config)
    check(config['workers']['burst'] == 32, 'defaults: %s', config['workers'])
    check(BEGAN <= counters['time'] <= time.time(), '%s', counters['time'])
    stats = rack.check_packets()
    check(api.get('/v1/counters')['drops'] == stats['drops'], 'not %s', stats['drops'])
    check(api.get('/v1/ready') == {'ready': True}, 'ready')
    check(0 < api.get('/v1/health')['uptime'] < time.time() - BEGAN, 'uptime')
    # Also to hosts, over their links.
    found = rack.call(0, ['curl', '-sS', '-m', '60', 'http://%s:%d/v1/jobs/job1' % (SWITCH_ADDRESS, PORT)])
    check('"name":"job1"' in found, '%s', found)


@case
def the_log_is_read():
    rack, api = plain()

    def lines(after=None):
        found = api.get('/v1/log' + ('' if after is None else '?after=%d' % after))
        return found['lines'], found['last'], found['missed']
    _, before, _ = lines()
    api.do('POST', '/v1/jobs', {'name': 'logged', 'size': 2}, 201)
    new, last, missed = lines(before)
    check(len(new) == 1 and 'msg="job created"' in new[0] and 'job=logged' in new[0] and missed == 0, '%s', new)
    check(last == (-1 if before is None else before) + 1 and lines(last) == ([], last, 0), '%s', lines(last))
    for number in range(150):  # more lines than are kept
        api.do('PATCH', '/v1/jobs/logged', {'timeout_ms': 1 + number}, 200)
        api.do('PATCH', '/v1/jobs/logged', {'timeout_ms': 1000}, 200)
    new, end, missed = lines(last)
    check(len(new) == 256 and missed == end - last - 256 > 0, '%d lines, %d missed', len(new), missed)
    run = subprocess.run([rack.program(('ctl', 'weirctl')), '-s', 'unix:' + api.path, 'log', '--after', str(end - 2)],
                         capture_output=True, text=True, timeout=60, check=True)
    check(run.stdout.splitlines() == new[-2:], '%s', run)
    api.do('DELETE', '/v1/jobs/logged')


@case
def what_is_not_there_is_refused():
    _, api = plain()
    for path in ('/v1', '/v2/status', '/v1/nothing', '/v1/status/', '/v1//status', '/v1/%00', '/v1/jobs/job1/x', '/nothing',
                 '/v1/ports/p7', '/v1/' + 'a' * 2000):
        expect(api.unix('GET', path), 404, 'unknown_path')
    for name in 'none', '%3Cimg%20onerror%3E%ff':
        expect(api.unix('GET', '/v1/jobs/' + name), 404, 'unknown_job')
    for method in ('PUT', 'DELETE', 'OPTIONS', 'BREW', 'get'):
        found = api.unix(method, '/v1/status')
        expect(found, 405, 'method_not_allowed')
        check(found.headers['Allow'] == 'GET, HEAD', 'Allow: %s', found.headers['Allow'])
    for path, code, key in (('/v1/status?verbose=1', 'unknown_key', 'verbose'), ('/v1/status?a=1&a=2', 'unknown_key', 'a'),
                            ('/v1/blocks?limit=1&limit=2', 'duplicate', 'limit')):
        api.do('GET', path, None, 400, code, key)
    # A path in another spelling is the same path.
    expect(api.unix('GET', '/v1/%73tatus'), 200)
    expect(api.unix('GET', '/v1/status', body='{}'), 400, 'unknown_key')


@case
def bodies_have_a_limit():
    _, api = plain()
    expect(api.unix('GET', '/v1/status', body=b'x' * 65537), 413, 'too_large')
    # One that says that it is far too large is not read at all.
    found = api.raw(b'GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n')
    check(b' 413 ' in found and b'too_large' in found, '%s', found)
    for count in (100, 4000):  # in pieces; and without an end: cut off
        with contextlib.closing(api.connect()) as connection:
            with contextlib.suppress(*[OSError, http.client.HTTPException] if count == 4000 else []):
                connection.request('GET', '/v1/status', body=(b'x' * 1000 for _ in range(count)), encode_chunked=True,
                                   headers={'Transfer-Encoding': 'chunked'})
                check(connection.getresponse().status == 413, '%d pieces', count)
    expect(api.unix('GET', '/v1/status', headers={'X-Long': 'x' * 20000}), 431)
    expect(api.unix('GET', '/v1/health'), 200)


# -- listeners

def refused(rack, reason):
    try:
        rack.start_switch()
        check(False, 'started')
    except RackError as error:
        check(reason in str(error), '%s', error)


@case
def sockets_are_made_and_removed_and_those_of_others_stay():
    """Only a socket that the kernel says nobody serves is stale."""
    with Rack(hosts=2) as rack:
        api = Control(rack)
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
        del rack.changes['api']['socket_group']
        with rack.inside('sw'), contextlib.closing(socket.create_server(('127.0.0.1', PORT))):
            refused(rack, 'api: tcp:127.0.0.1:%d: Address already in use' % PORT)
        with open(api.path, 'w') as file:
            file.write('precious')
        refused(rack, 'exists and is not a socket')
        with open(api.path) as file:
            check(file.read() == 'precious', 'the file was changed')
        os.unlink(api.path)
        rack.start_switch()
        rack.switch.kill()
        check(os.path.exists(api.path), 'a killed switch leaves its socket')
        rack.changes['api']['socket_group'] = 'daemon'
        rack.start_switch()
        found = os.stat(api.path)
        check(stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o660, '%o', found.st_mode)
        check(found.st_gid == grp.getgrnam('daemon').gr_gid, 'group')
        # What is served is not taken over, and stays.
        second = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', rack.write_config(json.dumps({
            'switch': {'name': rack.name[5:] + '-b', 'address': '10.77.0.253/24'}, 'memory_mb': 128, 'eal': rack.config()['eal'],
            'ports': [{'name': 'p0', 'device': 'net_null0,no-rx=1'}], 'api': {'listen': ['unix:' + api.path]}}), 'second.json')])
        check(second.end(20) == 1 and 'another process listens on' in second.output, '%s', second.output)
        expect(api.unix('GET', '/v1/health'), 200)
        rack.stop_switch()
        check(os.listdir(folder) == [], 'left: %s', os.listdir(folder))


# -- who may

@case
def tokens_decide_who_may():
    _, api = guarded()
    # root on the Unix socket
    api.get('/v1/tenants')
    check(len(api.get('/v1/jobs')['jobs']) == 1, 'an administrator sees every job')
    for path in ('/v1/health', '/v1/ready', '/v1/status', '/'):
        expect(api.tcp('GET', path), 200)
    for path in ('/v1/jobs', '/v1/config', '/v1/counters', '/v1/tenants', '/v1/jobs/job1'):
        found = api.tcp('GET', path)
        expect(found, 401, 'unauthorized')
        check(found.headers['WWW-Authenticate'].startswith('Bearer'), '%s', found.headers)
    for wrong in ('loo', 'lookx', '', 'LOOK', 'x' * 5000):
        for way, path in ((api.tcp, '/v1/jobs'), (api.tcp, '/v1/health'), (api.unix, '/v1/jobs')):
            expect(way('GET', path, token=wrong), 401, 'unauthorized')
    check(api.get('/v1/jobs', token='look') == {'jobs': []}, "a tenant sees others' jobs")
    api.do('GET', '/v1/jobs/job1', None, 404, 'unknown_job', token='look')
    check(api.get('/v1/counters', token='look')['jobs'] == [], 'counters')
    for way in api.tcp, api.unix:
        expect(way('GET', '/v1/config', token='look'), 403, 'forbidden')
    for path in ('/v1/config', '/v1/tenants', '/v1/jobs/job1'):
        api.get(path, token='run')
    check('look' not in str(api.get('/v1/config')) and
          hash_of('look') not in str(api.get('/v1/config')), 'the configuration tells tokens')


@case
def reading_can_be_closed():
    """By a reload, here: SIGHUP does not end the switch."""
    rack, api = plain()
    for is_open in (False, True):
        rack.changes['api']['open_read'] = is_open
        rack.write_config()
        check('configuration reloaded' in answer_to(rack), 'refused')
        expect(api.unix('GET', '/v1/status'), 200)
        for path in '/v1/status', '/v1/jobs':
            expect(api.tcp('GET', path), *(200,) if is_open else (403, 'forbidden'))


@case
def pages_of_other_sites_get_nothing():
    _, api = plain()

    def ask(**headers):
        return api.tcp('GET', '/v1/status', headers=headers)

    for host in ('127.0.0.1', '10.77.0.254:18080', '[::1]:18080', 'localhost', 'rack7.example.org:18080'):
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


@case
def tls_on_tcp_alone():
    with Rack(hosts=2) as rack:
        api = Control(rack)
        (crt, key), other = make_certificate(rack.folder, 'one'), make_certificate(rack.folder, 'other')
        for wrong, reason in ((other[1], 'do not match'), ('/nowhere', '/nowhere: No such file')):
            rack.changes['api']['tls'] = {'certificate': crt, 'key': wrong}
            refused(rack, reason)
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


# -- clients that are slow, and none

@case
def slow_clients_delay_nobody():
    _, api = plain()
    with contextlib.closing(api.connect('sw')) as one:
        one.sock.sendall(b'GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ')
        expect(api.unix('GET', '/v1/status'), 200)
        one.sock.sendall(b'x\r\n\r\n')
        check(one.sock.recv(12) == b'HTTP/1.1 200', 'a request in two parts is not answered')
    slow = []
    for _ in range(20):
        with contextlib.suppress(OSError):
            slow.append(api.connect('sw'))
            slow[-1].sock.sendall(b'GET /v1/status HTTP/1.1\r\nX-Slow: ')

    def is_closed():
        """A byte now and then, and so a time, is no reason to stay; who has sent none has less."""
        for connection in slow:
            with contextlib.suppress(OSError):
                connection.sock.send(b'x', socket.MSG_DONTWAIT)
        for ask in (lambda: api.unix('GET', '/v1/status'),
                    lambda: api.tcp('GET', '/v1/status', place=0, address=SWITCH_ADDRESS)):
            expect(ask(), 200)
        try:
            return slow[0].sock.recv(1, socket.MSG_DONTWAIT) == b''
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    wait_for(is_closed, 'slow requests are kept for ever')

    def is_let_in():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return api.tcp('GET', '/v1/status').status == 200
        return False

    # The address has its connections back, once the others are closed like the first.
    wait_for(is_let_in, 'the address is not let in')
    for connection in slow:
        connection.close()


@case
def the_control_thread_sleeps():
    """With idle and half-dead connections open, it takes next to nothing."""
    rack, api = plain()
    kept = [api.connect() for _ in range(10)] + [api.connect('sw') for _ in range(8)]
    for connection in kept[:5]:
        expect(api.ask(connection, 'GET', '/v1/health'), 200)
    for connection in kept[15:]:
        connection.sock.sendall(b'GET /v1')
        connection.sock.shutdown(socket.SHUT_WR)
    before, began = cpu_seconds(rack.switch.pid, rack.switch.pid), time.monotonic()
    time.sleep(1)  # of which it takes a share
    share = (cpu_seconds(rack.switch.pid, rack.switch.pid) - before) / (time.monotonic() - began)
    check(share < 0.1, 'the control thread took %.0f %% of a CPU', 100 * share)
    for connection in kept:
        connection.close()


# -- GET /v1/blocks: who is missing, and why in sentences

def stuck(api):
    """The only entry of what is stuck, as soon as there is one."""
    (found,) = wait_for(lambda: api.get('/v1/blocks?stuck=1')['stuck'], 'nothing is stuck')
    return found


@case
def missing_are_sources_that_the_job_has():
    """Whatever ids they have. Sentences name them, and say what the policy does."""
    ids = {1: 0, 5: 1, 9: 2, 10: 3, 11: 4, 20: 5, 21: 6}  # and the host of each
    sources = [{'id': i, 'address': Rack.address(host)} for i, host in ids.items()]
    policies = {'wait': r'wait: nothing will happen until they send',
                'partial': r'partial: results without them go out in \d+\.\d s',
                'error': r'error: the blocks fail in \d+\.\d s'}
    jobs = [dict(job(number, 7), sources=sources, generation=7, policy=policy, timeout_ms=60000)
            for number, policy in enumerate(policies)]
    with switch(hosts=2, jobs=jobs) as (rack, api):
        for number, policy in enumerate(policies):
            with Peer(rack, 1, number, 5) as peer:
                peer.generation = 7
                for block in (5, 6, 9):
                    peer.send(block, [1, 2])

                def found():
                    return [one for one in api.get('/v1/blocks?stuck=1')['stuck'] if one['job'] == 'job%d' % number]
                wait_for(lambda: found() and '3 blocks' in found()[0]['text'], '%s', found)
                (one,) = found()
            never = '; '.join(r'rank %d \(10\.77\.0\.%d\), never heard' % (r, ids[r] + 1) for r in (1, 9, 10, 11))
            check(re.fullmatch(r'3 blocks 5\.\.6, 9 wait for %s; and for 2 more: ranks 20\.\.21; policy %s' % (
                never, policies[policy]), one['text']), '%s', one['text'])
            check(re.fullmatch(r'the oldest open for [\d.]+ s, no new contribution for [\d.]+ s; 1 of 7 sources have '
                               'contributed; generation 7', one['detail']), '%s', one['detail'])
            check((one['severity'], one['who']) == ('failure', 'ranks 1, 9..11, 20..21'), '%s', one)
            check(one['reason'] == 'blocks' and [m['rank'] for m in one['missing']] == [r for r in ids if r != 5], '%s', one)
        blocks = api.get('/v1/blocks?job=job0')['blocks']
        check(len(blocks) == 3 and (blocks[0]['heard'], blocks[0]['size']) == (1, 7), '%s', blocks)
        check([(one['rank'], one['address']) for one in blocks[0]['missing']] ==
              [(i, Rack.address(host)) for i, host in ids.items() if i != 5], '%s', blocks[0])
        check([member['rank'] for member in api.get('/v1/jobs/job0')['members']] == list(ids), 'members')


@case
def who_does_not_acknowledge_is_named():
    """Of policy partial, while all blocks are done and the hosts wait for one of them."""
    with switch(jobs=[job(1, 2, window=1, policy='partial', timeout_ms=50)]) as (rack, api):
        with Peer(rack, 0, 1, 0) as peer, Peer(rack, 1, 1, 1) as silent:
            join_all([peer, silent])
            silent.send(0, [1])
            for number in range(2):
                peer.send(number, [1])
                check(peer.receive().block == number, 'result')

            def speaks():
                peer.send(1, [1])
                peer.receive(0.2)
                return api.get('/v1/blocks?stuck=1')['stuck']
            wait_for(speaks, 'nothing is stuck: %s', lambda: api.get('/v1/jobs/job1'))
            check(re.fullmatch(r'its results wait for the acknowledgement of rank 1 \(10\.77\.0\.2\), last heard '
                               r'[\d.]+ s ago; policy partial: after 10\.0 s of silence the others continue without '
                               'it', stuck(api)['text']), '%s', stuck(api))
            check(stuck(api)['reason'] == 'acknowledgement', '%s', stuck(api))


# -- while a worker stands still, what is answered is true, and nothing is left behind

@case
def a_deleted_job_drains_until_the_worker_has_let_go():
    rack, api = plain()
    before = api.memory()
    api.create('one', 2)
    check(api.memory() != before, 'the job takes no memory: %s', before)
    with frozen(rack.switch.pid, 'worker'):
        check(api.do('DELETE', '/v1/jobs/one', status=202)['state'] == 'draining', 'it does not drain')
        check(('one', 'draining') in [(j['name'], j['state']) for j in api.get('/v1/jobs')['jobs']], 'it is gone')
    wait_for(lambda: api.memory() == before, '%s, and before %s', api.memory, before)
    check([j['name'] for j in api.get('/v1/jobs')['jobs']] == ['job1'], 'it still drains')


@case
def a_join_that_makes_the_job_is_whole_or_nothing():
    rack, api = plain()
    api.patient = False
    try:
        with frozen(rack.switch.pid, 'worker'):
            answer = api.unix('POST', '/v1/jobs/ring/members', {'rank': 0, 'size': 2, 'address': '10.77.0.1', 'create': {}})
        said = [(j['name'], j['joined']) for j in api.get('/v1/jobs')['jobs'] if j['name'] != 'job1']
        check(said == ([('ring', 1)] if answer.status == 200 else []), '%d %s: %s', answer.status, answer.text, said)
    finally:
        api.patient = True


@case
def faults_are_taken_when_the_worker_turns_again():
    """A change waits half a second for it, and a second one is refused: nothing is freed that it sees."""
    section = {'seed': 1, 'rules': [{'direction': 'in', 'action': 'drop', 'chance_ppm': 0}]}
    with switch() as (rack, api):
        api.patient = False
        api.do('PUT', '/v1/faults', None, 400, 'bad_json')
        api.do('PUT', '/v1/faults', section)
        rack.stats_at_rest()  # it has taken them
        with frozen(rack.switch.pid, 'worker'):
            check(api.do('PUT', '/v1/faults', dict(section, seed=2))['seed'] == 2, 'not taken')
            api.do('PUT', '/v1/faults', dict(section, seed=3), 503, 'busy')
            api.do('DELETE', '/v1/faults', status=503)
            check(api.get('/v1/faults')['seed'] == 2, 'refused, and yet changed')
        wait_for(lambda: api.unix('PUT', '/v1/faults', dict(section, seed=4)).status == 200, 'still busy')
        check('worker 0 is stuck: it has not taken the new faults yet' in rack.switch.output, 'not said')


if __name__ == '__main__':
    main()
