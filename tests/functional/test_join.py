#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that join through the control API: by a played one before a real switch, over the links
that they train on; and what they say when it refuses, lies, or is not there."""
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from fake_api import FakeApi
from tap import Skip, case, check, main
from rack import SWITCH_ADDRESS, Rack, job

BUILD = os.environ['WEIR_BUILD']
PERF = os.path.join(BUILD, 'apps', 'host', 'weir-perf')
PORT = 8080
SHORT = ('-b', '4K', '-e', '64K', '-f', '4', '-n', '3')
LAUNCHERS = [('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'), ('SLURM_PROCID', 'SLURM_NTASKS'),
             ('RANK', 'WORLD_SIZE'), ('WEIR_RANK', 'WEIR_SIZE'), ('PMI_RANK', 'PMI_SIZE')]


def environment(rank=None, size=None, launcher=3, **more):
    """What a launcher leaves, and nothing of the one that started this test."""
    names = {name for pair in LAUNCHERS for name in pair}
    made = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_') and k not in names}
    if rank is not None:
        made.update(zip(LAUNCHERS[launcher % len(LAUNCHERS)], (str(rank), str(size))))
    made.update(more)
    return made


class Ended:
    def __init__(self, process, seconds=40):
        began = time.monotonic()
        try:
            self.out, self.err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError('still running after %d s' % seconds) from None
        self.status, self.seconds = process.returncode, time.monotonic() - began

    def __str__(self):
        return 'status %s after %.1f s\n%s%s' % (self.status, self.seconds, self.out, self.err)


def start(address, *options, **settings):
    """weir-perf here, as rank 0 of 2 of the job "ring" unless told otherwise."""
    known = dict(rank=0, size=2, WEIR_SWITCH=address, WEIR_JOB='ring')
    known.update(settings)
    return subprocess.Popen([PERF, *SHORT, '--timeout', '5000', *options], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(**known))


def fails(run, *patterns, within=4):
    check(run.status == 1, 'not status 1: %s', run)
    check(run.seconds < within, 'not within %g s: %s', within, run)
    check(run.err.count('\n') == 1, 'not a line: %s', run)
    for pattern in patterns:
        check(re.search(pattern, run.err), '"%s" is not in:\n%s', pattern, run)


def error(status, code, key=None, message='so it is', **more):
    return status, {'error': dict(status=status, code=code, key=key, message=message, **more)}


def answer(rank, size, number=1, **more):
    """What the switch says to a member that it takes."""
    made = {'job': number, 'name': 'ring', 'source': rank, 'size': size, 'generation': 0,
            'window': 64, 'elements': 256, 'type': 'fp32', 'op': 'sum', 'timeout_ms': 1000,
            'switch': {'address': SWITCH_ADDRESS, 'udp_port': 12000, 'udp_port_ext': 12001}}
    made.update(more)
    return made


class Members:
    """The members of one job as the control API keeps them."""

    def __init__(self, api, size, name='ring', token=None):
        self.size, self.token, self.now, self.ever = size, token, {}, {}
        api.routes['/v1/status'] = {'name': 'played', 'address': SWITCH_ADDRESS}
        api.routes['/v1/jobs/%s/members' % name] = self.join
        for rank in range(size):
            api.routes['/v1/jobs/%s/members/%d' % (name, rank)] = self.leave

    def trusted(self, handler):
        return not self.token or handler.headers.get('Authorization') == 'Bearer ' + self.token

    def join(self, handler):
        if not self.trusted(handler):
            return error(401, 'unauthorized', message='this token is nobody\'s')
        rank = handler.body['rank']
        self.now[rank] = self.ever[rank] = handler.body
        return answer(rank, self.size, membership=1000 + rank)

    def leave(self, handler):
        if not self.trusted(handler):
            return error(401, 'unauthorized')
        rank, membership = map(int, re.findall(r'[0-9]+', handler.path.rsplit('/', 1)[1]))
        check(membership == 1000 + rank, '%s', handler.path)
        del self.now[rank]
        return {}


def hosts_with(rack, address, each=None, options=(), only=None, **settings):
    """A weir-perf on every host, or on `only` these, told nothing but where the switch is, the job,
    and who it is."""
    runs = []
    for host in range(rack.hosts) if only is None else only:
        report = os.path.join(rack.folder, 'report-%d-%d.json' % (host, len(rack.processes)))
        known = dict(rank=host, size=rack.hosts, launcher=host, WEIR_SWITCH=address,
                     WEIR_JOB='ring')
        known.update(settings)
        known.update(each(host) if each else {})
        run = rack.spawn(host, [PERF, *SHORT, '--timeout', '20000', '--json', report, *options],
                         'perf', environment(**known))
        run.json = report
        runs.append(run)
    return runs


def right(runs):
    for run in runs:
        run.wait(50)
        with open(run.json) as file:
            rows = json.load(file)['rows']
        check(rows and all(row['wrong'] == 0 for row in rows), '%s: %s', run.name, rows)


@case
def hosts_join_over_the_links_that_they_train_on():
    with Rack(hosts=3, jobs=[job(1, 3, name='ring')]) as rack:
        rack.start_switch()
        with rack.inside('sw'):
            api = FakeApi(tcp=True, host=SWITCH_ADDRESS, port=PORT)
        with api:
            members = Members(api, 3)
            for again in range(2):  # the second is the job's next generation
                right(hosts_with(rack, api.address, options=['--create'] if again else []))
                check(not members.now, 'members that did not leave: %s', members.now)
                for rank, body in members.ever.items():
                    want = {'rank': rank, 'size': 3, 'address': rack.address(rank)}
                    check(body == dict(want, create={}) if again else body == want, '%s', body)
                check(len(members.ever) == 3, '%s', members.ever)
                members.ever.clear()
            api.routes['/v1/status'] = {'address': '192.0.2.1'}
            for run in hosts_with(rack, api.address):
                out = run.wait(10, 1)
                check('no way to the switch\'s address 192.0.2.1' in out, '%s', out)
        rack.stop_switch()


@case
def a_token_that_is_wrong():
    with Rack(hosts=2, jobs=[job(1, 2, name='ring')]) as rack:
        rack.start_switch()
        with rack.inside('sw'):
            api = FakeApi(tcp=True, host=SWITCH_ADDRESS, port=PORT)
        with api:
            members = Members(api, 2, token='s3cret')
            for run in hosts_with(rack, api.address, WEIR_TOKEN='guessed'):
                out = run.wait(20, 1)
                check('refuses the token of WEIR_TOKEN' in out, '%s', out)
                check('guessed' not in out, 'the token is in the log: %s', out)
            for run in hosts_with(rack, api.address):
                check('WEIR_TOKEN_FILE' in run.wait(20, 1), '%s', run.output)
            check(not members.ever, '%s', members.ever)
            path = os.path.join(rack.folder, 'token')
            with open(path, 'w') as file:
                file.write('s3cret\n')
            right(hosts_with(rack, api.address, WEIR_TOKEN_FILE=path))
            check(not members.now and len(members.ever) == 2, '%s', members.now)
        rack.stop_switch()


TENANTS = [{'name': 'lab', 'token_sha256': hashlib.sha256(b's3cret').hexdigest(), 'admin': False},
           {'name': 'other', 'token_sha256': hashlib.sha256(b'0ther').hexdigest(), 'admin': False}]


@contextlib.contextmanager
def switch_with_api(hosts, jobs=(), tenants=None):
    """A rack whose switch has a control API on its own address; yields rack and URL."""
    api = {'listen': ['tcp:SWITCH:%d' % PORT]}
    if tenants:
        api['tenants'] = tenants
    with Rack(hosts=hosts, jobs=jobs, changes={'api': api}) as rack:
        rack.start_switch()
        address = 'http://%s:%d' % (SWITCH_ADDRESS, PORT)
        yield rack, address
        rack.stop_switch()


@case
def a_real_switch_makes_the_job():
    with switch_with_api(3, tenants=TENANTS) as (rack, address):
        for run in hosts_with(rack, address, WEIR_TOKEN='s3cret'):
            check('weir-perf --create' in run.wait(20, 1), '%s', run.output)
        for _ in range(2):
            right(hosts_with(rack, address, options=['--create'], WEIR_TOKEN='s3cret'))
        # A job of three by this name is there.
        [run] = hosts_with(rack, address, WEIR_TOKEN='s3cret', size=2, rank=0)[:1]
        check('size' in run.wait(20, 1), '%s', run.output)


@case
def a_real_switch_and_a_wrong_token():
    with switch_with_api(2, tenants=TENANTS) as (rack, address):
        for run in hosts_with(rack, address, options=['--create'], WEIR_TOKEN='guessed'):
            check('refuses the token of WEIR_TOKEN' in run.wait(20, 1), '%s', run.output)
        for run in hosts_with(rack, address, options=['--create']):
            check('WEIR_TOKEN_FILE' in run.wait(20, 1), '%s', run.output)
        right(hosts_with(rack, address, options=['--create'], WEIR_TOKEN='s3cret'))


@case
def a_job_of_the_file_needs_no_token():
    with switch_with_api(2, [job(1, 2, name='ring')]) as (rack, address):
        right(hosts_with(rack, address))
        for run in hosts_with(rack, address, WEIR_JOB='nobody', options=['--create']):
            check('refuses without a token' in run.wait(20, 1), '%s', run.output)


def ask(rack, method, path, body=None):
    """What the control API of a real switch says to its administrator."""
    out = rack.call('sw', ['curl', '-sS', '--max-time', '5', '-X', method,
                           '-H', 'Authorization: Bearer adm1n',
                           *(['-d', json.dumps(body), '-H', 'Content-Type: application/json']
                             if body else []), 'http://%s:%d%s' % (SWITCH_ADDRESS, PORT, path)])
    return json.loads(out) if out else None


OPERATED = TENANTS + [{'name': 'desk', 'token_sha256': hashlib.sha256(b'adm1n').hexdigest(),
                       'admin': True}]


def one_is_in(rack):
    """Wait until the job has its first member."""
    until = time.monotonic() + 15
    while ask(rack, 'GET', '/v1/jobs/ring').get('joined') != 1:
        check(time.monotonic() < until, 'nobody has joined')
        time.sleep(0.1)


@case
def a_rank_is_taken():
    """Two hosts are told that they are rank 0: the second hears of the first."""
    with switch_with_api(2, tenants=OPERATED) as (rack, address):
        settings = dict(options=['--create', '--join-timeout', '20000'], WEIR_TOKEN='s3cret')
        [first] = hosts_with(rack, address, lambda _: dict(rank=0), only=[0], **settings)
        one_is_in(rack)
        [second] = hosts_with(rack, address, lambda _: dict(rank=0), only=[1], **settings)
        check('has another host this rank' in second.wait(15, 1), '%s', second.output)
        [last] = hosts_with(rack, address, only=[1], **settings)
        right([first, last])


@case
def the_next_of_a_rank_stays_when_the_last_one_leaves():
    """A supervisor starts a rank again before the one that has failed is gone."""
    def rank_1(timeout):
        return hosts_with(rack, address, only=[1], WEIR_TOKEN='s3cret',
                          options=['--create', '--join-timeout', timeout])[0]

    with switch_with_api(2, tenants=OPERATED) as (rack, address):
        failed = rank_1('3000')
        one_is_in(rack)
        again = rank_1('20000')
        failed.wait(15, 1)
        time.sleep(1)  # on the wire, too, the last that asked is the one that lives
        right([again] + hosts_with(rack, address, only=[0], options=['--create'],
                                   WEIR_TOKEN='s3cret'))


LONG = ('-b', '1M', '-e', '1M', '-n', '100000')


def hears(run, seconds, *patterns):
    """The run fails within so many seconds, and its error says why."""
    began = time.monotonic()
    out = run.wait(seconds, 1)
    for pattern in patterns:
        check(re.search(pattern, out), '"%s" is not in:\n%s', pattern, out)
    return time.monotonic() - began


def under_way(rack, runs, name='ring'):
    """Wait until the job has a generation, and blocks."""
    until = time.monotonic() + 20
    while not ask(rack, 'GET', '/v1/jobs/' + name).get('counters', {}).get('blocks_complete'):
        check(time.monotonic() < until, 'nothing happens: %s', runs[0].output)
        time.sleep(0.05)


@case
def a_job_that_is_deleted_under_its_hosts():
    """They need not wait for their own timeouts, of 20 s: neither those that joined here nor those
    that have addresses alone."""
    with switch_with_api(4, [job(9, 2, 2, name='static')], OPERATED) as (rack, address):
        runs = hosts_with(rack, address, only=[0, 1], size=2, options=['--create', *LONG],
                          WEIR_TOKEN='s3cret')
        alone = [rack.perf(2 + i, 9, *LONG, '--timeout', '20000', source=i) for i in range(2)]
        under_way(rack, runs)
        under_way(rack, alone, 'static')
        for name in ('ring', 'static'):
            ask(rack, 'DELETE', '/v1/jobs/' + name)
        for run in runs:
            check(hears(run, 8, 'job "ring" is gone at the switch .says http://.*: it was deleted')
                  < 6, 'late')
        for run in alone:
            hears(run, 4, 'job 9 is gone at the switch: it was deleted')
        # The name is another job's by the time that a host asks.
        runs = hosts_with(rack, address, only=[0, 1], size=2, options=['--create', *LONG],
                          WEIR_TOKEN='s3cret')
        under_way(rack, runs)
        ask(rack, 'DELETE', '/v1/jobs/ring')
        for run in runs:
            hears(run, 8, 'is gone at the switch')


@case
def a_member_that_is_removed_expires_or_is_replaced():
    """While it sends nothing; it hears of it when it sends again."""
    def removed(rack, job_path):
        ask(rack, 'DELETE', job_path + '/members/1')

    def expired(rack, job_path):
        ask(rack, 'PATCH', job_path, {'expire_s': 1})
        until = time.monotonic() + 15
        while ask(rack, 'GET', job_path)['members'][1]['state'] != 'expired':
            check(time.monotonic() < until, 'rank 1 does not expire')
            time.sleep(0.1)

    def replaced(rack, job_path):
        removed(rack, job_path)
        other = {'rank': 1, 'size': 2, 'address': rack.address(2)}
        check(ask(rack, 'POST', job_path + '/members', other).get('source') == 1, 'not taken')

    with switch_with_api(3, tenants=OPERATED) as (rack, address):
        for how, words in ((removed, 'no longer a member .*: it has left, or was removed'),
                           (expired, 'no longer a member .*: it was silent for longer than the'),
                           (replaced, r'rank 1 of job "replaced" is another host now, 10\.77\.0\.3')):
            runs = hosts_with(rack, address, only=[0, 1], size=2, options=['--create', *LONG],
                              WEIR_TOKEN='s3cret', WEIR_JOB=how.__name__)
            under_way(rack, runs, how.__name__)
            runs[1].signal(signal.SIGSTOP)
            how(rack, '/v1/jobs/' + how.__name__)
            runs[1].signal(signal.SIGCONT)
            hears(runs[1], 8, words)
            runs[0].kill()


@case
def a_straggler_is_named_by_its_address():
    """Also before the job's own timeout has passed, when the switch tells nobody yet."""
    for timeout in (500, 30000):
        shape = job(1, 2, name='ring', timeout_ms=timeout)
        with switch_with_api(2, [shape], OPERATED) as (rack, address):
            runs = hosts_with(rack, address, options=['--timeout', '4000', *LONG],
                              WEIR_TOKEN='adm1n')
            under_way(rack, runs)
            runs[1].kill()
            hears(runs[0], 12, r'rank 1 \(10\.77\.0\.2, last heard [0-9.]+ s ago\)')


@case
def who_has_not_joined_is_named():
    with switch_with_api(3, tenants=OPERATED) as (rack, address):
        [run] = hosts_with(rack, address, only=[0], options=['--create', '--join-timeout', '1500'],
                           WEIR_TOKEN='s3cret')
        hears(run, 8, 'missing: ranks 1-2', r'rank 1 \(has not joined\), rank 2',
              r'job "ring" \(\d+\) did not begin')


@case
def a_switch_that_restarts():
    with switch_with_api(2, tenants=OPERATED) as (rack, address):
        made = hosts_with(rack, address, only=[0, 1], WEIR_JOB='made', size=2,
                          options=['--create', *LONG], WEIR_TOKEN='s3cret')
        under_way(rack, made, 'made')
        rack.switch.kill()
        rack.start_switch()
        for run in made:
            hears(run, 12, 'job "made" is gone at the switch')


@case
def a_switch_that_is_not_there():
    with Rack(hosts=2) as rack:  # links, and no switch
        [run, _] = hosts_with(rack, 'http://%s:%d' % (SWITCH_ADDRESS, PORT),
                              options=['--join-timeout', '1000'])
        began = time.monotonic()
        out = run.wait(15, 1)
        check(time.monotonic() - began < 5, 'took %.1f s', time.monotonic() - began)
        check(re.search(r'(No route to host|for (1000|9[0-9][0-9]) ms)', out), '%s', out)
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        run = Ended(start('http://127.0.0.1:%d' % free.getsockname()[1]))
        fails(run, 'Connection refused', 'is the switch running', 'api.listen', within=3)
        free.listen(8)  # takes connections and says nothing
        run = Ended(start('http://127.0.0.1:%d' % free.getsockname()[1], '--join-timeout', '700'))
        fails(run, 'no answer .* for [67][0-9][0-9] ms', within=4)
    fails(Ended(start('unix:/nowhere/at.all')), 'No such file', 'is the switch running')
    fails(Ended(start('10.77.0.254')), 'none of http://')
    fails(Ended(start('http://127.0.0.1:99999')), 'control address')


@case
def what_is_not_known_is_asked_for():
    with FakeApi(tcp=True) as api:
        Members(api, 2)
        fails(Ended(start(api.address, WEIR_JOB='')), 'which job', 'WEIR_JOB')
        fails(Ended(start(api.address, rank=None)), 'which rank', 'mpirun')
        fails(Ended(start(api.address, rank=2)), r'rank 2 \(\S+\) of a job of 2 ranks \(\S+\): they are 0\.\.1$')
        fails(Ended(start(api.address, WEIR_TOKEN_FILE='/nowhere')), '/nowhere: No such file')
        fails(Ended(start(api.address, WEIR_TOKEN='a b')), 'blanks')
        check(not api.asked, 'asked although it knew better: %s', api.asked)


@case
def refusals():
    with FakeApi(tcp=True) as api:
        Members(api, 2)
        api.routes['/v1/status']['address'] = '127.0.0.1'

        def refused(said, *patterns, **options):
            api.routes['/v1/jobs/ring/members'] = said
            fails(Ended(start(api.address)), *patterns, **options)

        refused(error(401, 'unauthorized'), "wants a tenant's token: WEIR_TOKEN_FILE")
        refused(error(403, 'forbidden', message='job of another tenant'), 'another tenant')
        refused(error(404, 'unknown_job'), 'weirctl job create', 'weir-perf --create')
        refused(error(409, 'conflict', 'address', 'rank 0 is 10.77.0.9'), '10.77.0.9', 'this rank')
        refused(error(409, 'conflict', 'size', 'the job has 4'), 'the job has 4', 'disagree')
        refused(error(507, 'no_memory', needed={'blocks': 128}, free={'blocks': 100}),
                'blocks 128 needed; blocks 100 free', 'smaller window')
        refused(error(400, 'out_of_range', 'rank', 'too large'), 'rank: too large')
        refused((404, b'<html>not found</html>'), 'not as a switch')
        busy = []

        def later(_handler):
            busy.append(1)
            return error(*((503, 'busy'), (429, 'too_often'), (403, 'quota'))[len(busy) - 1])

        refused(later, 'quota')
        check(len(busy) == 3, 'asked %d times', len(busy))
        check(not [a for a in api.asked if a[0] == 'DELETE'], 'left without having joined')


@case
def answers_that_lie():
    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(80):
            handler.wfile.write(b' ')
            handler.wfile.flush()
            time.sleep(0.1)

    with FakeApi(tcp=True) as api:
        Members(api, 2)
        api.routes['/v1/status']['address'] = '127.0.0.1'

        def lied(said, *patterns, options=(), within=4):
            api.routes['/v1/jobs/ring/members'] = said
            fails(Ended(start(api.address, *options)), *patterns, within=within)

        for said in (b'', b'null', b'[' * 60000, b'\xff', answer(1, 2), answer(0, 3),
                     answer(0, 2, window=0), answer(0, 2, elements=2**63), answer(0, 2, switch=7)):
            lied(said, 'makes no sense')
        lied(b' ' * (1 << 24), 'larger than 64 KiB')
        lied(drip, 'no answer', options=['--join-timeout', '800'])
        # It promises a switch where there is none: the join over UDP has what is left of the time.
        lied(answer(0, 2, switch={'address': '127.0.0.1', 'udp_port': 9, 'udp_port_ext': 10}),
             '127.0.0.1:10 has not answered', options=['--join-timeout', '800'])
        check(api.asked[-1][:2] == ('DELETE', '/v1/jobs/ring/members/0'), '%s', api.asked[-1])
        api.routes['/v1/status'] = {'address': 3}
        lied(answer(0, 2), 'makes no sense .address in /v1/status')


@case
def leaving_is_bounded():
    """The control API hangs when the member leaves: that holds nobody for long."""
    with FakeApi(tcp=True) as api:
        Members(api, 2)
        api.routes['/v1/status']['address'] = '127.0.0.1'
        api.routes['/v1/jobs/ring/members'] = answer(0, 2, switch={
            'address': '127.0.0.1', 'udp_port': 9, 'udp_port_ext': 10})
        api.routes['/v1/jobs/ring/members/0'] = lambda _: time.sleep(15)
        run = Ended(start(api.address, '--join-timeout', '500'))
        fails(run, 'has not answered', within=5)
        check(run.seconds > 2, 'did not try to leave: %s', run)


@case
def trust():
    """A switch behind TLS: only with the right certificate."""
    with tempfile.TemporaryDirectory(prefix='weir-join-') as folder:
        key, certificate = folder + '/key.pem', folder + '/certificate.pem'
        try:
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                            'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=switch',
                            '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out',
                            certificate], check=True, timeout=30, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            raise Skip('openssl is not there') from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with FakeApi(tcp=True, context=context) as api:
            Members(api, 2)
            api.routes['/v1/status']['address'] = '127.0.0.1'
            api.routes['/v1/jobs/ring/members'] = error(404, 'unknown_job')
            fails(Ended(start(api.address)), 'WEIR_CA')
            check(not api.asked, 'it was asked before it was trusted: %s', api.asked)
            fails(Ended(start(api.address, WEIR_CA=certificate)), 'weirctl job create')
            fails(Ended(start(api.address, '--ca', certificate)), 'weirctl job create')


if __name__ == '__main__':
    main()
