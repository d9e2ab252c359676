#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl against a control API that is played: its tables, its words, its manners, and how it finds a switch."""
import contextlib
import json
import os
import pty
import re
import select
import ssl
import subprocess
import sys
import tempfile
import time

from ctl import READ, WEIRCTL, Ended, ctl, good, says
from control import make_certificate
from fake_api import FakeApi, block, drip, fault, faults, healthy, job, port, stuck
from tap import Skip, case, check, main, seed

NO_FAULTS = {'seed': 0, 'held': 0, 'rules': [], 'elapsed_ms': 0, 'held_now': 0, 'spared': 7}


@contextlib.contextmanager
def switch(**more):
    """A switch with two jobs, one of which waits for rank 2."""
    with FakeApi(**more) as api:
        api.fill()
        yield api


def asked(api, method, path):
    check(api.asked and api.asked[-1][:2] == (method, path), 'asked %s %s', method, api.asked)
    return api.asked[-1][2]


def error(status, code, message, **more):
    return (status, {'error': dict({'status': status, 'code': code, 'key': None, 'message': message}, **more)})


def change(path, **more):
    """Changes what is at a path, such as /v1/status packets."""
    def do(api):
        at = api.routes[path.split()[0]]
        for key in path.split()[1:]:
            at = at[key]
        at.update(more)
    return do


def answers(path, value):
    return lambda api: api.routes.update({path: value})


def slow_member(api):
    whole = api.routes['/v1/jobs/ring']
    whole['members'][2].update(waited=0.02, waiting=12.28)
    whole['remarks'] = [{'text': 'rank 2 (10.77.0.3) caused 100 % of the time'}]


# What the switch has changed, the command, and lines of its output; those with a dash in front must not be there.
SHOWN = (
    (None, 'status', r'^switch   demo, weir-switch 0\.1\.0, process 4242, up 2 h 13 min$', r'^     1      2    2  23 %   123M ',
     r'^memory   37\.0 MiB free of 160 MiB, 64\.0 MiB for blocks$', r'^packets   8192  6000  27 %$', '-off by', '-injected'),
    (change('/v1/status packets', off_by=3), 'status', 'the sum is off by 3'),
    (change('/v1/status faults', rules=5, elapsed_ms=12400, hit=615, held_now=3), 'status',
     '^faults   5 rules injected 12.4 s ago, 615 packets hit: weirctl faults$'),
    (None, 'ports', r'^p1 +up +net_af_packet1 .* 1234567  1\.25 GiB +1234609 .* 3 +41\.0 ms +7 +5 +6 +0 +0 +0  no$'),
    (None, 'jobs', r'^ring +1  running  4 of 4 +64 +2469071 .* wait +1\.0 s ', r'^eval .* partial +250 ms .* file$'),
    (answers('/v1/jobs', {'jobs': []}), 'jobs', '^no jobs$'),
    (None, 'job ring', '^blocks   sum of fp32, 256 elements each, window 64, results unicast$', r'^blocks_complete +2469071$'),
    (change('/v1/jobs/ring', deterministic=True, authenticate=True), 'job ring', 'results unicast, deterministic, authenticated$'),
    (None, 'members ring', r'^   2  joined  10\.77\.0\.3 .* 12\.4 s ago +12\.3 s ', '-of the time'),
    (slow_member, 'members ring', r'^rank 2 \(10\.77\.0\.3\) caused 100 % of the time$', r' 12\.3 s +64 '),
    (None, 'counters', r'^port p0 +tx_packets\.results +1234567$', '- 0$', '-malformed'),
    (None, 'tenants', r'^research  1 of 4  2 of 1024  16\.0 MiB of 64\.0 MiB  128 of 1024 '),
    (None, 'health', r'^status +ok\nuptime +2 h 13 min$'),
    (answers('/v1/blocks', {'blocks': [block(17)], 'next': '1000-1-17'}), 'blocks --limit 1', '^more follow: --after 1000-1-17$'),
    (None, 'blocks --limit 64', '-more follow'),
    (None, 'blocks --stuck', r'^job ring: 64 blocks 17\.\.80 wait for rank 2 \(10\.77\.0\.3\), last heard 12\.4 s ago; policy wait: '
     r'nothing will happen until it sends\n  the oldest open for 12\.6 s$'),
    (answers('/v1/blocks', {'blocks': [], 'stuck': [stuck('eval', 'waits', None)]}), 'blocks --stuck', r'\Ajob eval: waits\n\Z'),
    (answers('/v1/blocks', {'blocks': [], 'stuck': []}), 'blocks --stuck', r'\Anothing is stuck\n\Z'),
    (None, 'faults', '^faults   set 12.4 s ago, seed 9007199254740993; 3 packets held, 1024 at most by each',
     r'^   0  p0 +in +contributions, job 3 +1\.25 % +drop +12345  123 +0$',
     r'^   1  any +out +results, job 3, source 2, blocks 5\.\.9 +1 in 100 +delay 500 us to 1\.5 ms +12345 ',
     r'^   2  any +in +any +numbers 1\.\.3, 7 +corrupt 2 bits +12345  123 +4$',
     r'^   3  any +in +any +bursts: begin 1 %, end 20 %, hit 100 %, else 0 %; 1 s to 1\.25 s, each 60 s +blackout ',
     r'^   4  any +in +any +0\.0001 % +reorder by up to 3 '),
    (change('/v1/faults', rules=[fault(action='delay', delay='pareto', us=20, most_us=10000000, job=3),
                                 fault(action='delay', us=10000000, first_block=7)]), 'faults show',
     'delay pareto, least of 20 us, at most 10 s', 'aggregation, job 3', r'aggregation, blocks 7\.\.'),
    (answers('/v1/faults', NO_FAULTS), 'faults', r'\Ano faults\n\Z'),
)


@case
def what_is_shown():
    for changed, words, *patterns in SHOWN:
        with switch() as api:
            if changed:
                changed(api)
            run = says(ctl(api.address, *words.split()), 0, *(p for p in patterns if p[0] != '-'))
            for pattern in patterns:
                check(pattern[0] != '-' or not re.search(pattern[1:], run.out, re.M), '%s: %s', pattern, run)


@case
def nothing_is_wider_than_the_terminal():
    with switch() as api:
        for columns in (20, 40, 80, 132):
            for words in READ:
                if words != 'config':
                    for line in good(ctl(api.address, *words.split(), columns=columns)).split('\n'):
                        check(len(line) <= columns, '%s: wider than %d: %s', words, columns, line)


@case
def json_is_what_the_switch_says():
    with switch() as api:
        exact = b'{"jobs": [ {"name":"ring" ,"big": 18446744073709551615, "u": "\\u001b[2J"} ]}'
        api.routes['/v1/jobs'] = exact
        check(good(ctl(api.address, 'jobs', '--json')) == exact.decode() + '\n', 'not as it came')
        for words in ('status', 'ports', 'blocks --stuck', 'counters', 'job ring', 'tenants', 'config'):
            path = '/v1/' + {'job ring': 'jobs/ring'}.get(words, words.split()[0])
            check(json.loads(good(ctl(api.address, '-j', *words.split()))) == api.routes[path], '%s', words)
        check(json.loads(good(ctl(api.address, 'config'))) == api.routes['/v1/config'], 'config')
        run = says(ctl(api.address, '--json', 'job', 'none'), 1, 'unknown_path')
        check(json.loads(run.out)['error']['status'] == 404, '%s', run)
        api.routes['/v1/jobs'] = b'<html>no</html>'
        check(says(ctl(api.address, '--json', 'jobs'), 1, 'not answer in JSON').out == '', 'output')


@case
def json_is_no_order_to_a_terminal():
    exact = '{"jobs": [{"name": "a\u009b31m\u00e4\u4e2d\U0001f600\u007f"}],\r "x": 18446744073709551615}'
    shown = r'{"jobs": [{"name": "a\u009b31m\u00e4\u4e2d\ud83d\ude00\u007f"}],  "x": 18446744073709551615}'
    with FakeApi() as api:
        api.routes['/v1/jobs'] = api.routes['/v1/trace'] = exact.encode()
        for words in (['jobs', '--json'], ['trace', '-o', '-'], ['trace', '-o', '/dev/tty']):
            pid, fd = pty.fork()
            if pid == 0:
                os.execv(WEIRCTL, [WEIRCTL, '-s', api.address, *words])
            out = b''
            with contextlib.suppress(OSError):
                while select.select([fd], [], [], 10)[0]:
                    out += os.read(fd, 4096)
            os.close(fd)
            check(os.waitpid(pid, 0)[1] == 0, '%s: %s', words, out)
            check(shown.encode() in out and not re.search(rb'[\x7f-\xff]', out), '%s: %s', words, out)
        check(ctl(api.address, 'jobs', '--json').out == exact + '\n', 'not as it came')


@case
def jobs_are_made_changed_and_ended():
    with FakeApi() as api:
        made = dict(job('new', 7), members=[])
        api.routes.update({'/v1/jobs': (201, made), '/v1/jobs/new': made})
        says(ctl(api.address, 'job', 'create', 'new', '--size', '4', '--window', '32', '--type', 'int32', '--timeout-ms', '250',
                 '--policy', 'partial', '--authenticate', '--expire-s', '30', '--op', 'max', '--deterministic'), 0,
             'job      new, id 7, running')
        body = asked(api, 'POST', '/v1/jobs')
        check(body == {'name': 'new', 'size': 4, 'window': 32, 'type': 'int32', 'timeout_ms': 250, 'policy': 'partial',
                       'authenticate': True, 'expire_s': 30, 'op': 'max', 'deterministic': True}, '%s', body)
        good(ctl(api.address, 'job', 'set', 'new', '--rate-mbit', '100', '--rejoin', 'revoke'))
        check(asked(api, 'PATCH', '/v1/jobs/new') == {'rate_mbit': 100, 'rejoin': 'revoke'}, 'set')
        left = [3]

        def drains(handler):
            left[0] -= 1
            if handler.command == 'DELETE':
                return (202, {'state': 'draining'})
            return made if left[0] > 0 else FakeApi.unknown
        api.routes['/v1/jobs/new'] = drains
        says(ctl(api.address, 'job', 'delete', 'new', '--wait'), 0, r'\Agone\n\Z')
        says(ctl(api.address, 'job', 'delete', 'new'), 0, 'draining')
        check(asked(api, 'DELETE', '/v1/jobs/new') is None, 'delete')
        left[0] = 1000
        says(ctl(api.address, 'job', 'delete', 'new', '--wait', '-t', '400ms'), 1, 'still draining')
        for answer, *patterns in (
                (error(507, 'no_memory', 'no room for this job'), 'no room for this job'),
                (error(400, 'out_of_range', '3 is no power of 2', key='window'),
                 r'weirctl: window: 3 is no power of 2 \(out_of_range\)'),
                (error(403, 'forbidden', 'not yours'), 'not yours', 'only an administrator may')):
            api.routes['/v1/jobs'] = answer
            says(ctl(api.address, 'job', 'create', 'new', '--size', '4'), 1, *patterns)


@case
def usage():
    for words in ((), ('surprise',), ('job',), ('jobs', 'x'), ('job', 'create', 'x'), ('job', 'set', 'x'), ('jobs', '--stuck'),
                  ('blocks', '--limit', '-1'), ('blocks', '--limit'), ('trace', '--for', '5 years', '-o', 'x'), ('trace',),
                  ('status', '--timeout', '0'), ('status', '-t', '2h'), ('--surprise',), ('job', 'create', 'x', '--size', '-4'),
                  ('faults', 'x'), ('faults', 'set'), ('faults', 'add'), ('faults', 'set', '/nowhere/at/all'),
                  ('faults', '--port', 'p0'), *(('faults', 'add', 'drop', *more.split(' ')) for more in (
                      '--percent 101', '--percent 1e1', '--percent 0.00001', '--list 1,,2', '--list ', '--list 1,', '--list x',
                      '--list 1,2 --nth 3', '--seed 9223372036854775808'))):
        says(ctl('unix:/nowhere', *words), 2, 'weirctl')
    for words, name in (('statu', 'status'), ('job crate x --size 2', 'job create'), ('job list x', 'jobs'), ('list jobs', 'jobs'),
                        ('job list', 'jobs'), ('job crate', 'job create'), ('job deletee', 'job delete'), ('members ls', 'members'),
                        ('port', 'ports'), ('jobs list', 'jobs'), ('faults ad drop', 'faults add'), ('tenant', 'tenants')):
        says(ctl('unix:/nowhere', *words.split()), 2, 'did you mean "%s"' % name)
    for words in ('-- list', '-- crate', '-- test', 'delta'):  # as a job's name
        says(ctl('unix:/nowhere', 'job', *words.split()), 3, 'no connection')
    for address, status in (('gopher://x', 2), ('unix:', 2), ('unix:' + '/x' * 100, 3)):
        says(ctl(address, 'jobs'), status, 'unix:PATH' if status == 2 else 'weirctl')
    out = good(ctl(None, '--help'))
    check(all(len(line) <= 90 for line in out.split('\n')), '--help: %s', out)
    check(re.match(r'weirctl \d+\.\d+\.\d+\n$', good(ctl(None, '--version'))), 'version')
    with switch() as api, open('/dev/full', 'w') as full:
        run = subprocess.run([WEIRCTL, '-s', api.address, 'jobs'], stdout=full, timeout=800, stderr=subprocess.PIPE)
        check(run.returncode == 1 and b'standard output' in run.stderr, '%s', run)


@case
def rates():
    with switch() as api:
        turn = [0]

        def counters(_handler):
            turn[0] += 1
            answer = healthy()['/v1/counters']
            answer['time'] += turn[0] * 2
            answer['drops']['queue_full'] += 30 * turn[0]
            answer['ports'][1] = port(1, turn[0])
            answer['drops']['late'] -= turn[0] // 3
            return answer
        api.routes['/v1/counters'] = counters
        watch = ('counters', '--watch', '--interval', '100ms', '--count')
        run = says(ctl(api.address, *watch, '2'), 0, r'^\d\d:\d\d:\d\d over 2\.0 s$(.|\n)*^\d\d:\d\d:\d\d over 2\.0 s$',
                   r'^drops +queue_full +15/s +67$', r'^port p1 +rx_packets +617k/s +2469134$', r'^drops +late +- +2 \(reset\)$')
        check('port p0' not in run.out, '%s', run)
        lines = good(ctl(api.address, '-j', *watch, '2')).split('\n')
        check(len(lines) == 3 and all(json.loads(line)['drops'] for line in lines[:2]), '%s', lines)
        api.routes['/v1/counters'] = healthy()['/v1/counters']
        says(ctl(api.address, *watch, '1'), 0, 'nothing counted')


@case
def traces():
    with switch() as api, tempfile.TemporaryDirectory(prefix='weir-trace-') as folder:
        name = folder + '/t.json'
        says(ctl(api.address, 'trace', '--for', '20ms', '-o', name), 0, 'perfetto')
        check(asked(api, 'GET', '/v1/trace?ms=20') is None, 'trace')
        with open(name) as file:
            check(json.load(file) == api.routes['/v1/trace'], 'another trace')
        for to, status, why in ((folder + '/no/t.json', 1, 'No such file'), ('/dev/null', 0, ''), ('/dev/full', 1, 'No space left')):
            says(ctl(api.address, 'trace', '-o', to), status, why)
        check(not os.path.isfile('/dev/null'), '/dev/null is a file now')
        api.routes['/v1/trace'] = error(409, 'busy', 'somebody traces already')
        says(ctl(api.address, 'trace', '-o', name), 1, 'somebody traces')
        check(os.listdir(folder) == ['t.json'] and os.path.getsize(name), '%s', os.listdir(folder))


@case
def what_is_stuck_is_asked_for():
    with switch() as api:
        for words, path in (((), 'stuck=1'), (('--job', 'a/b&c', '--limit', '7'), 'job=a%2Fb%26c&stuck=1&limit=7')):
            ctl(api.address, 'blocks', '--stuck', *words)
            check(('GET', '/v1/blocks?' + path) in [a[:2] for a in api.asked], '%s', api.asked)
        for answer in (error(503, 'busy', 'too much to do'), FakeApi.unknown, b'<html>', {'blocks': []}):
            api.routes['/v1/blocks'] = answer
            run = says(ctl(api.address, 'blocks', '--stuck'), 1, 'weirctl: ')
            check('nothing is stuck' not in run.out, '%s', run)


@case
def faults_of_a_file_are_set():
    section = {'seed': 7, 'rules': [{'direction': 'in', 'action': 'drop', 'nth': 3, 'choice': 'every'}]}
    told = dict(faults(), rules=[fault(port='p0')])
    bare = {k: v for k, v in told['rules'][0].items() if k not in ('matched', 'hit', 'spared')}
    with switch() as api, tempfile.TemporaryDirectory(prefix='weir-ctl-') as folder:
        path = os.path.join(folder, 'faults.json')

        def given(value):
            with open(path, 'w') as file:
                file.write(value if isinstance(value, str) else json.dumps(value))
            return ctl(api.address, 'faults', 'set', path)
        # A section, a whole configuration, and what `faults --json` printed.
        for value, body in ((section, section), ({'switch': {}, 'faults': section}, section),
                            (told, {'seed': told['seed'], 'held': 1024, 'rules': [bare]}), (NO_FAULTS, {'rules': []})):
            good(given(value))
            found = asked(api, 'PUT', '/v1/faults')
            check(found == body, '%s, not %s', found, body)
        run = subprocess.run([WEIRCTL, '-s', api.address, 'faults', 'set', '-'], timeout=800, input=json.dumps(section), text=True,
                             stdout=subprocess.PIPE)
        check(run.returncode == 0 and asked(api, 'PUT', '/v1/faults') == section, '%s', run)
        before = len(api.asked)
        for value, why in (('{"rules": [}', r'faults\.json:1:\d+: '), ({'jobs': []}, '"rules" is missing'), ([], '"rules" is missing')):
            says(given(value), 2, why)
        check(len(api.asked) == before, 'the switch was asked for it')
        api.routes['/v1/faults'] = error(400, 'out_of_range', 'no', key='faults.rules[0].us')
        says(given(section), 1, r'faults\.rules\[0\]\.us: no \(out_of_range\)')
        says(ctl(api.address, 'faults', 'add', 'delay', '--us', '99999999'), 1, 'out_of_range')


@case
def one_line_adds_a_rule():
    # What is there, the words, and what is asked for; rules of both directions come twice.
    for there, words, rule, directions in (
            (NO_FAULTS, 'drop --direction in --percent 1 --job 3 --port p0 --seed 9223372036854775807',
             {'chance_ppm': 10000, 'job': 3, 'port': 'p0', 'action': 'drop'}, ['in']),
            (dict(faults(), rules=[fault()]), 'delay --list 1,5,9 --us 10 --most-us 20 --delay uniform --job eval --what result '
             '--source 1 --first-block 2 --last-block 3 --from-ms 4 --to-ms 5 --repeat-ms 6',
             {'action': 'delay', 'choice': 'list', 'list': [1, 5, 9], 'us': 10, 'most_us': 20, 'delay': 'uniform', 'job': 2,
              'what': 'result', 'source': 1, 'first_block': 2, 'last_block': 3, 'from_ms': 4, 'to_ms': 5, 'repeat_ms': 6},
             ['in', 'out']),
            (NO_FAULTS, 'corrupt --nth 7 --bits 2 --direction out', {'action': 'corrupt', 'choice': 'every', 'nth': 7, 'bits': 2}, ['out'])):
        with switch() as api:
            api.routes['/v1/faults'] = there
            good(ctl(api.address, 'faults', 'add', *words.split()))
            body = asked(api, 'PUT', '/v1/faults')
            check(body['rules'][len(there['rules']):] == [dict(rule, direction=one) for one in directions], '%s', body)
            check(body.get('seed') == (2 ** 63 - 1 if '--seed' in words else there['seed'] or None), '%s', body)
            before = len(api.asked)
            says(ctl(api.address, 'faults', 'add', 'drop', '--job', 'none'), 1, 'there is no job none')
            check({a[0] for a in api.asked[before:]} == {'GET'}, '%s', api.asked[before:])
            good(ctl(api.address, 'faults', 'clear'))
            check(asked(api, 'DELETE', '/v1/faults') is None, 'clear')
            del api.routes['/v1/faults']
            says(ctl(api.address, 'faults', 'add', 'drop'), 1, 'cannot inject faults')


# -- whatever the switch answers

def absurd(random):
    """A JSON value that nobody expects."""
    kind = random.randrange(9)
    if kind == 0:
        return {random.choice('abc') * random.randrange(90): absurd(random) for _ in range(3)}
    if kind == 1:
        return [absurd(random) for _ in range(random.randrange(4))]
    return random.choice([None, True, -1, 1e308, -1e-9, 2 ** 64 - 1, '', '\x1b[2J\x07', '\u202e' * 9,
                          'w' * 5000, '%s%n%d', '\U0001f600 \u4e2d\u6587'])


def spoil(random, value, share=0.1):
    """The value with parts of it missing, or absurd."""
    if random.random() < share:
        return absurd(random)
    if isinstance(value, dict):
        return {k: spoil(random, v, share) for k, v in value.items() if random.random() > share / 2}
    if isinstance(value, list):
        return [spoil(random, v, share) for v in value if random.random() > share / 2]
    return value


@case
def absurd_answers():
    """Whatever comes: no crash, no wait, no command to the terminal, an end that says so."""
    random = seed()
    with FakeApi() as api:
        for body in (b'', b'{', b'[]', b'null', b'7', b'<html>hello</html>', b'\xff\xfe', b'{"a":1e999}', b'[' * 100000,
                     b'{"jobs":' * 3000, b'{}', b'{"jobs":7}', (500, b'oops'), (500, {'error': 'x'}), (302, b''), (204, b''),
                     (500, {'error': {}})):
            api.unknown = body
            for words in (['jobs'], ['blocks', '--stuck']):
                run = ctl(api.address, *words, columns=80)
                check(run.status in (0, 1), '%s: %s: %s', str(body)[:40], words, run)
            says(ctl(api.address, 'counters', columns=80), 1, 'weirctl: ')
        for _ in range(6):
            api.routes = {path: (200, spoil(random, value)) for path, value in healthy().items()}
            for words in READ + ['counters --watch --count 1 --interval 100ms']:
                run = ctl(api.address, *words.split(), columns=80)
                check(run.status in (0, 1), '%s: %s', words, run)
                check(not re.search('[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]', run.out + run.err), '%s: %r', words, run.out + run.err)
                check(words == 'config' or all(len(line) <= 80 for line in run.out.split('\n')), '%s: %s', words, run)


def sends(data, again=False):
    def send(handler):
        with contextlib.suppress(OSError):
            handler.wfile.write(data)
            while again:
                handler.wfile.write(b' ' * (1 << 20))
        handler.close_connection = True
    return send


@case
def broken_and_heavy_transfers():
    """An answer costs time as it is long, not as the square of it."""
    with switch() as api:
        for route, limit, status, words in (
                (sends(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"jobs": ['), '100s', 3, 'transfer closed|bytes missing'),
                (sends(bytes(range(256))), '100s', 3, 'does not answer as'), (sends(b''), '100s', 3, 'closes the'),
                (drip, '1s', 3, r'no answer (.|\n)* for 1000 ms'),
                (sends(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n', True), '200s', 3, r'larger\s+than\s+8192\s+KiB'),
                ({'jobs': [job('x' * 20000000, 1)]}, '200s', 3, r'is\s+larger\s+than\s+8192\s+KiB'),
                ({'jobs': [job('x' * 7000000, 1), job('y' * 300, 2)]}, '200s', 0, r'^x+…  '),
                ((500, {'error': {'code': 'z' * 1000000, 'message': 'w' * 5000000}}), '200s', 1, 'w')):
            api.routes['/v1/jobs'] = route
            run = says(ctl(api.address, 'jobs', '-t', limit, columns=80), status, words)
            check(len(run.out + run.err) < 6000 and all(len(line) <= 80 for line in run.out.split('\n')), '%s', run)
        # The largest that a switch sends: as many names of missing sources as an answer may have.
        api.routes['/v1/blocks'] = {'blocks': [block(b, missing=range(256)) for b in range(64)], 'stuck': [stuck()] * 256}
        says(ctl(api.address, 'blocks', '--stuck', '-t', '200s'), 0, '^there may be more: --limit N')
        api.routes['/v1/ports'] = {'ports': [{'name': 'p%d' % p, 'missed': p} for p in range(100000)]}
        good(ctl(api.address, 'ports', '-t', '200s', columns=80))


# -- sockets, tokens, certificates

@case
def no_connection():
    says(ctl('unix:/nowhere/at.sock', 'jobs'), 3, '/nowhere/at.sock .No such file or directory.: is the switch running')
    for tcp, why in ((False, 'Connection refused.: is the switch running'), (True, 'Connection refused.*api.listen')):
        with FakeApi(tcp=tcp) as api:
            api.stop()
            says(ctl(api.address, 'jobs'), 3, why)
    with FakeApi() as api:
        # What is asked to take time, and takes it, has this time beside the timeout.
        api.routes['/v1/trace'] = lambda handler: time.sleep(3) or {'traceEvents': []}
        says(ctl(api.address, '-t', '2s', 'trace', '--for', '3s', '-o', '-'), 0, 'traceEvents')


@case
def the_only_socket():
    """Without an address: the socket in /run/weir, of which there must be one."""
    script = 'mount -t tmpfs none /run && mkdir /run/weir && mount --bind %s /run/weir && exec %s jobs'

    def run(folder):
        env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        done = subprocess.run(['unshare', '-m', 'sh', '-c', script % (folder, WEIRCTL)], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=800, text=True)
        if 'mount:' in done.stdout or 'unshare:' in done.stdout:
            raise Skip('no mounts of its own: ' + done.stdout.strip())
        return Ended(done.returncode, done.stdout, '')

    with tempfile.TemporaryDirectory(prefix='weir-run-') as folder:
        says(run(folder), 3, 'no socket in /run/weir: is the switch running')
        with open(os.path.join(folder, 'no.socket'), 'w'):
            pass
        with switch(folder=folder, name='one.sock'):
            says(run(folder), 0, '^JOB ')
            with FakeApi(folder=folder, name='two.sock'):
                says(run(folder), 3, '2 switches in /run/weir: .*two.sock.*-s unix:/run/weir/NAME')


@case
def tokens():
    with FakeApi() as api, tempfile.TemporaryDirectory(prefix='weir-token-') as folder:
        name = os.path.join(folder, 'token')
        api.routes['/v1/jobs'] = lambda handler: healthy()['/v1/jobs'] if handler.headers.get(
            'Authorization') == 'Bearer s3cret' else error(401, 'unauthorized', 'no tenant has this token')

        def holds(text):
            with open(name, 'w', newline='') as file:
                file.write(text)
        says(ctl(api.address, 'jobs'), 1, 'no tenant has this token', '--token-file FILE')
        for text, status, said, of_variable in (
                ('s3cret\n', 0, 'JOB', 'JOB'),
                ('wrong', 1, 'does not accept the token in ' + name, 'does not accept the token in WEIR_TOKEN\n')):
            holds(text)
            # As libweir: an option, the token itself, a file of it; set to nothing is not set.
            for words, variables, why in (
                    (['--token-file', name], {'WEIR_TOKEN': 'other'}, said), ([], {'WEIR_TOKEN': '', 'WEIR_TOKEN_FILE': name}, said),
                    ([], {'WEIR_TOKEN': text.strip(), 'WEIR_TOKEN_FILE': '/no'}, of_variable)):
                run = says(ctl(api.address, 'jobs', *words, **variables), status, why)
                check('s3cret' not in run.out + run.err, '%s', run)
        says(ctl(api.address, 'jobs', WEIR_TOKEN='two words'), 2, 'WEIR_TOKEN: the token is empty, or has blanks')
        for text in ('', 'two words\n', 'a\r\nHost: evil\n', 'x' * 5000):
            holds(text)
            says(ctl(api.address, 'jobs', '--token-file', name), 2, 'must contain one token|the token is empty, or has blanks')
        says(ctl(api.address, 'jobs', '--token-file', folder + '/none'), 2, 'No such file')


@case
def a_setting_in_milliseconds_takes_a_time():
    with switch() as api:
        for value, want in ('2s', 2000), ('1500us', 2), ('700', 700):
            api.routes['/v1/jobs/ring'] = healthy()['/v1/jobs/ring']
            good(ctl(api.address, 'job', 'set', 'ring', '--timeout-ms', value))
            check(api.asked[-1][2] == {'timeout_ms': want}, '%s: %s', value, api.asked[-1])
        says(ctl(api.address, 'job', 'set', 'ring', '--timeout-ms', '2x'), 2, 'timeout_ms 2x: must be a whole number')


@case
def a_token_of_the_environment_is_for_its_switch():
    """Elsewhere it would replace the rights that the caller has without it, and a stranger would read it."""
    with FakeApi() as local, FakeApi(tcp=True) as tcp, tempfile.NamedTemporaryFile('w') as file:
        file.write('option\n')
        file.flush()

        def sent(api, *words, **variables):
            api.fill()
            good(ctl(None, '-s', api.address, *words, 'jobs', **variables))
            return api.asked[-1][3].get('Authorization')
        for variables in ({'WEIR_TOKEN': 'around'}, {'WEIR_TOKEN_FILE': file.name}):
            token = 'Bearer ' + variables.get('WEIR_TOKEN', 'option')
            check(sent(local, **variables) is None, 'to a socket')
            check(sent(tcp, **variables) == token, 'not over TCP')
            for api, other in (local, tcp), (tcp, local):
                check(sent(api, WEIR_SWITCH=other.address, **variables) is None, 'to %s', api.address)
                check(sent(api, WEIR_SWITCH=api.address, **variables) == token, 'not to %s', api.address)
                check(sent(api, '--token-file', file.name, WEIR_SWITCH=other.address, **variables) == 'Bearer option', 'an option')


@case
def tls():
    with tempfile.TemporaryDirectory(prefix='weir-tls-') as folder:
        certificate, key = make_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with switch(tcp=True, context=context) as api:
            for words, variables, status, why in (
                    (['--ca', certificate], {'WEIR_CA': '/none'}, 0, '^JOB '), ([], {'WEIR_CA': certificate}, 0, '^JOB '),
                    ([], {'WEIR_CA': ''}, 3, 'WEIR_CA .*names the certificate'), (['--ca', folder + '/none'], {}, 3, 'WEIR_CA')):
                says(ctl(api.address, 'jobs', *words, **variables), status, why)
            says(ctl(api.address.replace('https', 'http'), 'jobs'), 3, 'does not answer|closes')
        with switch(tcp=True) as api:
            says(ctl(api.address + '/', 'jobs', http_proxy='http://127.0.0.1:1'), 0, '^JOB ')
            check(api.asked[-1][1] == '/v1/jobs', '%s', api.asked)


@case
def changes_can_be_tried():
    """--dry-run goes on as dry_run=1, with the request that the change would send."""
    with switch() as api, tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        json.dump({'rules': []}, file)
        file.flush()
        api.routes.update({'/v1/jobs': lambda h: dict(job('new', 7), dry_run=True), '/v1/jobs/ring/members/2': {'dry_run': True},
                           '/v1/jobs/ring': lambda h: {'state': 'gone', 'dry_run': True} if h.command == 'DELETE' else job('ring', 1),
                           '/v1/faults': NO_FAULTS, '/v1/reload': {'jobs_%s' % what: n for n, what in enumerate(
                               ('created', 'changed', 'replaced', 'deleted'))}})
        for words, method, path, what in (
                ('job create new --size 2', 'POST', '/v1/jobs?dry_run=1', 'job +new, id 7'),
                ('job set ring --timeout-ms 7', 'PATCH', '/v1/jobs/ring?dry_run=1', 'job +ring'),
                ('job delete ring', 'DELETE', '/v1/jobs/ring?dry_run=1', 'gone'),
                ('member delete ring 2', 'DELETE', '/v1/jobs/ring/members/2?dry_run=1', 'gone'),
                ('faults set ' + file.name, 'PUT', '/v1/faults?dry_run=1', 'no faults'),
                ('faults add drop', 'PUT', '/v1/faults?dry_run=1', 'no faults'),
                ('faults clear', 'DELETE', '/v1/faults?dry_run=1', 'no faults'),
                ('reload', 'POST', '/v1/reload?dry_run=1', r'jobs created +0\njobs changed +1\njobs replaced +2\njobs deleted +3')):
            says(ctl(api.address, *words.split(), '--dry-run'), 0, '^dry run, nothing changes:\n', what)
            asked(api, method, path)
        api.routes['/v1/jobs'] = {'deleted': 3, 'draining': 0}
        says(ctl(api.address, 'job', 'delete', '--prefix', 'run-', '--dry-run'), 0, '3 deleted')
        asked(api, 'DELETE', '/v1/jobs?prefix=run-&dry_run=1')
        says(ctl(api.address, 'job', 'delete', 'ring', '--dry-run', '--json'), 0, r'\A{[^}]*}\s*\Z')


if __name__ == '__main__':
    sys.exit(main())
