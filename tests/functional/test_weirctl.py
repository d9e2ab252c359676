#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl against a control API that is played: its tables, its words, its manners."""
import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

from ctl import READ, WEIRCTL, ctl, good, says
from fake_api import FakeApi, healthy, job, port
from tap import case, check, main


def asked(api, method, path):
    check(api.asked and api.asked[-1][:2] == (method, path), 'asked %s %s', method, api.asked)
    return api.asked[-1][2]


@case
def tables():
    with FakeApi() as api:
        api.fill()
        out = good(ctl(api.address, 'status'))
        check('switch   demo, weir-switch 0.1.0, process 4242, up 2 h 13 min\n' in out, '%s', out)
        check('memory   37.0 MiB free of 160 MiB, 64.0 MiB for blocks\n' in out, '%s', out)
        check(re.search(r'^     1      2    2  23 %   123M ', out, re.M), '%s', out)
        check(re.search(r'^packets   8192  6000  27 %$', out, re.M), '%s', out)
        check('off by' not in out, '%s', out)
        api.routes['/v1/status']['packets']['off_by'] = 3
        check('the sum is off by 3' in good(ctl(api.address, 'status')), 'off_by')
        out = good(ctl(api.address, 'ports'))
        check(re.search(r'^p1 +up +net_af_packet1 .* 1234567  1\.25 GiB +1234609 .* 3 +41 +7 +5 +6 +0 +0 +0  no$', out, re.M),
              '%s', out)
        out = good(ctl(api.address, 'jobs'))
        check(re.search(r'^ring +1  running  4 of 4 +64 +2469071 .* wait +1\.0 s ', out, re.M),
              '%s', out)
        check(re.search(r'^eval .* partial +250 ms .* file$', out, re.M), '%s', out)
        out = good(ctl(api.address, 'job', 'ring'))
        check('blocks   sum of fp32, 256 elements each, window 64, results unicast\n' in out,
              '%s', out)
        check(re.search(r'^blocks_complete +2469071$', out, re.M), '%s', out)
        api.routes['/v1/jobs/ring'].update(deterministic=True, authenticate=True)
        out = good(ctl(api.address, 'job', 'ring'))
        check('results unicast, deterministic, authenticated\n' in out, '%s', out)
        out = good(ctl(api.address, 'members', 'ring'))
        check(re.search(r'^   2  joined  10\.77\.0\.3 .* 12\.4 s ago +12\.3 s ', out, re.M), '%s', out)
        check('of the time' not in out, '12 s in years: %s', out)
        whole = api.routes['/v1/jobs/ring']
        whole['created'] = time.time() - 600
        for member in whole['members']:
            member['waited'] = 0.02
        whole['members'][2]['waiting'] = 12.28
        out = good(ctl(api.address, 'members', 'ring'))
        check('rank 2 (10.77.0.3) caused 100 % of the time' in out, 'blocks that are open: %s', out)
        check(re.search(r' 12\.3 s +64 ', out), '%s', out)
        out = good(ctl(api.address, 'counters'))
        check(re.search(r'^port p0 +tx_packets\.results +1234567$', out, re.M), '%s', out)
        check(' 0\n' not in out and 'malformed' not in out, '%s', out)
        out = good(ctl(api.address, 'tenants'))
        check(re.search(r'^research  1 of 4  2 of 1024  16\.0 MiB of 64\.0 MiB  128 of 1024 ', out, re.M),
              '%s', out)
        check(json.loads(good(ctl(api.address, 'config'))) == api.routes['/v1/config'], 'config')
        check(good(ctl(api.address, 'health')) == 'ok, up 2 h 13 min\n', 'health')
        api.routes['/v1/jobs'] = {'jobs': []}
        check(good(ctl(api.address, 'jobs')) == 'no jobs\n', 'jobs')


@case
def nothing_is_wider_than_the_terminal():
    with FakeApi() as api:
        api.fill()
        for columns in (40, 60, 80, 132):
            for words in READ:
                if words == 'config':
                    continue
                for line in good(ctl(api.address, *words.split(), columns=columns)).split('\n'):
                    check(len(line) <= columns, '%s: wider than %d: %s', words, columns, line)


@case
def json_is_what_the_switch_says():
    with FakeApi() as api:
        api.fill()
        exact = b'{"jobs": [ {"name":"ring" ,"big": 18446744073709551615, "u": "\\u001b[2J"} ]}'
        api.routes['/v1/jobs'] = exact
        check(good(ctl(api.address, 'jobs', '--json')) == exact.decode() + '\n', 'not as it came')
        for words in ('status', 'ports', 'blocks --stuck', 'counters', 'job ring', 'tenants'):
            path = '/v1/' + {'job ring': 'jobs/ring'}.get(words, words.split()[0])
            check(json.loads(good(ctl(api.address, '-j', *words.split()))) == api.routes[path],
                  '%s', words)
        run = says(ctl(api.address, '--json', 'job', 'none'), 1, 'unknown_path')
        check(json.loads(run.out)['error']['status'] == 404, '%s', run)
        api.routes['/v1/jobs'] = b'<html>no</html>'
        run = says(ctl(api.address, '--json', 'jobs'), 1, 'not answer in JSON')
        check(run.out == '', '%s', run)


@case
def json_is_no_order_to_a_terminal():
    exact = '{"jobs": [{"name": "a\u009b31m\u00e4\u4e2d\U0001f600\u007f"}],\r "x": 18446744073709551615}'
    shown = (r'{"jobs": [{"name": "a\u009b31m\u00e4\u4e2d\ud83d\ude00\u007f"}],  '
             '"x": 18446744073709551615}')
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
        run = ctl(api.address, 'jobs', '--json')
        check(run.out == exact + '\n', 'not as it came')


@case
def jobs_are_made_changed_and_ended():
    with FakeApi() as api:
        made = dict(job('new', 7), members=[])
        api.routes['/v1/jobs'] = (201, made)
        api.routes['/v1/jobs/new'] = made
        says(ctl(api.address, 'job', 'create', 'new', '--size', '4', '--window', '32', '--type',
                 'int32', '--timeout-ms', '250', '--policy', 'partial', '--authenticate',
                 '--expire-s', '30', '--op', 'max', '--deterministic'), 0, 'job      new, id 7, running')
        body = asked(api, 'POST', '/v1/jobs')
        check(body == {'name': 'new', 'size': 4, 'window': 32, 'type': 'int32', 'timeout_ms': 250,
                       'policy': 'partial', 'authenticate': True, 'expire_s': 30, 'op': 'max',
                       'deterministic': True}, '%s', body)
        good(ctl(api.address, 'job', 'set', 'new', '--rate-mbit', '100', '--rejoin', 'revoke'))
        check(asked(api, 'PATCH', '/v1/jobs/new') == {'rate_mbit': 100, 'rejoin': 'revoke'}, 'set')
        api.routes['/v1/jobs/new'] = (202, {'state': 'draining'})
        says(ctl(api.address, 'job', 'delete', 'new'), 0, 'draining')
        check(asked(api, 'DELETE', '/v1/jobs/new') is None, 'delete')
        left = [3]

        def drains(handler):
            left[0] -= 1
            if handler.command == 'DELETE':
                return (202, {'state': 'draining'})
            return made if left[0] > 0 else FakeApi.unknown
        api.routes['/v1/jobs/new'] = drains
        says(ctl(api.address, 'job', 'delete', 'new', '--wait'), 0, '^gone\n$')
        left[0] = 1000
        says(ctl(api.address, 'job', 'delete', 'new', '--wait', '-t', '400ms'), 1, 'still draining')
        api.routes['/v1/jobs'] = (507, {'error': {
            'status': 507, 'code': 'no_memory', 'key': None, 'message': 'no room for this job',
            'needed': {'blocks': 128, 'memory': 1048576}, 'free': {'blocks': 100, 'memory': 4096}}})
        says(ctl(api.address, 'job', 'create', 'new', '--size', '4'), 1, 'no room for this job',
             'needed: 128 blocks, 1.00 MiB memory', 'free: 100 blocks, 4.00 KiB memory')
        api.routes['/v1/jobs'] = (400, {'error': {
            'status': 400, 'code': 'out_of_range', 'key': 'window', 'message': '3 is no power of 2'}})
        says(ctl(api.address, 'job', 'create', 'new', '--size', '4', '--window', '3'), 1,
             r'weirctl: window: 3 is no power of 2 \(out_of_range\)')


@case
def usage():
    for words in ((), ('surprise',), ('job',), ('jobs', 'x'), ('job', 'create', 'x'),
                  ('job', 'set', 'x'), ('jobs', '--stuck'), ('blocks', '--limit', '-1'),
                  ('blocks', '--limit'), ('trace', '--for', '5 years', '-o', 'x'), ('trace',),
                  ('status', '--timeout', '0'), ('status', '-t', '2h'), ('--surprise',),
                  ('job', 'create', 'x', '--size', '-4'), ('faults', 'x'), ('faults', 'set'),
                  ('faults', 'add'), ('faults', 'add', 'drop', '--percent', '101'),
                  ('faults', 'add', 'drop', '--percent', '1e1'),
                  ('faults', 'add', 'drop', '--percent', '0.00001'),
                  ('faults', 'add', 'drop', '--list', '1,,2'), ('faults', 'add', 'drop', '--list', ''),
                  ('faults', 'add', 'drop', '--list', '1,'), ('faults', 'add', 'drop', '--list', 'x'),
                  ('faults', 'add', 'drop', '--list', '1,2', '--nth', '3'),
                  ('faults', 'add', 'drop', '--seed', '9223372036854775808'),
                  ('faults', 'set', '/nowhere/at/all'), ('faults', '--port', 'p0')):
        says(ctl('unix:/nowhere', *words), 2, 'weirctl')
    for words, name in (('statu', 'status'), ('job crate x --size 2', 'job create'), ('job list x', 'jobs'),
                        ('list jobs', 'jobs'), ('job list', 'jobs'), ('job crate', 'job create'), ('job deletee', 'job delete'),
                        ('members ls', 'members'), ('port', 'ports'), ('jobs list', 'jobs'), ('faults ad drop', 'faults add'),
                        ('tenant', 'tenants')):
        says(ctl('unix:/nowhere', *words.split()), 2, 'did you mean "%s"' % name)
    for word in ('list', 'crate', 'delta', 'test'):  # as a job's name
        says(ctl('unix:/nowhere', 'job', '--', word), 3, 'no connection')
    says(ctl('unix:/nowhere', 'job', 'delta'), 3, 'no connection')
    says(ctl('gopher://x', 'jobs'), 2, 'unix:PATH')
    says(ctl('unix:', 'jobs'), 2, 'unix:PATH')
    says(ctl('unix:' + '/x' * 100, 'jobs'), 3, 'weirctl')
    out = good(ctl(None, '--help'))
    for line in out.split('\n'):
        check(len(line) <= 90, '--help: %s', line)
    check(re.match(r'weirctl \d+\.\d+\.\d+\n$', good(ctl(None, '--version'))), 'version')
    if os.path.exists('/dev/full'):
        with FakeApi() as api, open('/dev/full', 'w') as full:
            api.fill()
            run = subprocess.run([WEIRCTL, '-s', api.address, 'jobs'], stdout=full, timeout=800,
                                 stderr=subprocess.PIPE)
            check(run.returncode == 1 and b'standard output' in run.stderr, '%s', run)


@case
def rates():
    with FakeApi() as api:
        api.fill()
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
        out = good(ctl(api.address, 'counters', '--watch', '--count', '2', '--interval', '100ms'))
        check(len(re.findall(r'^\d\d:\d\d:\d\d over 2\.0 s$', out, re.M)) == 2, '%s', out)
        check(re.search(r'^drops +queue_full +15/s +67$', out, re.M), '%s', out)
        check(re.search(r'^port p1 +rx_packets +617k/s +2469134$', out, re.M), '%s', out)
        check(re.search(r'^drops +late +- +2 \(reset\)$', out, re.M), '%s', out)
        check('port p0' not in out, '%s', out)
        lines = good(ctl(api.address, '-j', 'counters', '-w', '--count', '2', '--interval',
                         '100ms')).split('\n')
        check(len(lines) == 3 and all(json.loads(line)['drops'] for line in lines[:2]), '%s', lines)
        api.routes['/v1/counters'] = healthy()['/v1/counters']
        out = good(ctl(api.address, 'counters', '-w', '--count', '1', '--interval', '100ms'))
        check('nothing counted' in out, '%s', out)


@case
def traces():
    with FakeApi() as api, tempfile.TemporaryDirectory(prefix='weir-trace-') as folder:
        api.fill()
        name = folder + '/t.json'
        says(ctl(api.address, 'trace', '--for', '20ms', '-o', name), 0, 'perfetto')
        check(asked(api, 'GET', '/v1/trace?ms=20') is None, 'trace')
        with open(name) as file:
            check(json.load(file) == api.routes['/v1/trace'], 'another trace')
        api.routes['/v1/trace'] = (409, {'error': {'status': 409, 'code': 'busy',
                                                   'message': 'somebody traces already'}})
        says(ctl(api.address, 'trace', '-o', name), 1, 'somebody traces')
        with open(name) as file:
            check(file.read(), 'the file is gone')
        api.fill()
        says(ctl(api.address, 'trace', '-o', folder + '/no/t.json'), 1, 'No such file')
        says(ctl(api.address, 'trace', '-o', '/dev/null'), 0)
        check(not os.path.isfile('/dev/null'), '/dev/null is a file now')
        if os.path.exists('/dev/full'):
            says(ctl(api.address, 'trace', '-o', '/dev/full'), 1, 'No space left')
        check(os.listdir(folder) == ['t.json'], '%s', os.listdir(folder))


if __name__ == '__main__':
    sys.exit(main())
