#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl against a control API that is played: its tables, its words, its manners."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import ssl
import struct
import subprocess
import sys
import tempfile
import termios
import time

from ctl import WEIRCTL, Ended, ctl, good, says
from fake_api import FakeApi, block, healthy, job, members, port
from tap import Skip, case, check, main, seed

ENTER, LEAVE = '\033[?1049h', '\033[?1049l'
READ = ['status', 'health', 'ports', 'jobs', 'job ring', 'members ring', 'blocks', 'blocks --stuck',
        'counters', 'config', 'tenants', 'faults', 'top --once --interval 100ms']


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
        api.routes['/v1/status']['books']['off_by'] = 3
        check('the books are off by 3' in good(ctl(api.address, 'status')), 'off_by')
        out = good(ctl(api.address, 'ports'))
        check(re.search(r'^p1 +up +net_af_packet1 .* 1234567  1\.25 GiB +1234609 .* 7 +0$', out, re.M),
              '%s', out)
        out = good(ctl(api.address, 'jobs'))
        check(re.search(r'^ring +1  running  4 of 4 +64 +2469071 .* wait +1\.0 s ', out, re.M),
              '%s', out)
        check(re.search(r'^eval .* partial +250 ms .* file$', out, re.M), '%s', out)
        out = good(ctl(api.address, 'job', 'ring'))
        check('blocks   sum of fp32, 256 elements each, window 64, results unicast\n' in out,
              '%s', out)
        check(re.search(r'^blocks_complete +2469071$', out, re.M), '%s', out)
        out = good(ctl(api.address, 'members', 'ring'))
        check(re.search(r'^   2  joined  10\.77\.0\.3 .* 12\.4 s ago +12\.3 s ', out, re.M), '%s', out)
        check('of the time' not in out, '12 s in years: %s', out)
        whole = api.routes['/v1/jobs/ring']
        whole['created'] = time.time() - 600
        for member in whole['members']:
            member['waited'] = 0.02
        whole['members'][2]['waiting'] = 12.28
        out = good(ctl(api.address, 'members', 'ring'))
        check('rank 2 (10.77.0.3) has 100 % of the time' in out, 'blocks that are open: %s', out)
        check(re.search(r' 12\.3 s +64 ', out), '%s', out)
        out = good(ctl(api.address, 'counters'))
        check(re.search(r'^port p0 +tx_packets\.results +1234567$', out, re.M), '%s', out)
        check(' 0\n' not in out and 'malformed' not in out, '%s', out)
        out = good(ctl(api.address, 'tenants'))
        check(re.search(r'^research  1 of 4  16\.0 MiB of 64\.0 MiB  128 of 1024 ', out, re.M),
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
        good(ctl(api.address, 'job', 'set', 'new', '--rate-mbit', '100', '--rejoin', 'recall'))
        check(asked(api, 'PATCH', '/v1/jobs/new') == {'rate_mbit': 100, 'rejoin': 'recall'}, 'set')
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
        run = says(ctl(api.address, 'job', 'delete', 'new', '--wait', '-t', '400ms'), 1, 'still drains')
        check(run.seconds < 3, '%s', run)
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
                  ('faults', 'set', '/nowhere/at/all'), ('faults', '--port', 'p0'), ('top', '--json')):
        says(ctl('unix:/nowhere', *words), 2, 'weirctl')
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
            run = subprocess.run([WEIRCTL, '-s', api.address, 'jobs'], stdout=full, timeout=10,
                                 stderr=subprocess.PIPE)
            check(run.returncode == 1 and b'standard output' in run.stderr, '%s', run)


@case
def no_connection():
    says(ctl('unix:/nowhere/at.sock', 'jobs'), 3, 'no socket /nowhere/at.sock: is the switch running, '
         'and has its configuration a section "api"')
    with FakeApi() as api:
        api.fill()
        api.stop()
        says(ctl(api.address, 'jobs'), 3, 'nobody listens on .*: is the switch running')
        says(ctl(api.address, 'top'), 3, 'nobody listens')
    with FakeApi(tcp=True) as api:
        api.stop()
        says(ctl(api.address, 'jobs'), 3, 'Connection refused.*api.listen')
    with FakeApi() as api:
        api.routes['/v1/jobs'] = lambda handler: time.sleep(3)
        api.routes['/v1/trace'] = lambda handler: time.sleep(1) or {'traceEvents': []}
        run = says(ctl(api.address, 'jobs', '--timeout', '300ms'), 3, 'no answer from .* within 0.3 s')
        check(run.seconds < 2, '%s', run)
        # What is asked to take time has this time beside the timeout.
        says(ctl(api.address, '-t', '600ms', 'trace', '--for', '1s', '-o', '-'), 0, 'traceEvents')


@case
def the_only_socket():
    """Without an address: the socket in /run/weir, of which there must be one."""
    script = 'mount -t tmpfs none /run && mkdir /run/weir && mount --bind %s /run/weir && exec %s jobs'

    def run(folder):
        env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        done = subprocess.run(['unshare', '-m', 'sh', '-c', script % (folder, WEIRCTL)], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10, text=True)
        if 'mount:' in done.stdout or 'unshare:' in done.stdout:
            raise Skip('no mounts of its own: ' + done.stdout.strip())
        return Ended(done.returncode, done.stdout, '', 0)

    with tempfile.TemporaryDirectory(prefix='weir-run-') as folder:
        says(run(folder), 3, 'no socket in /run/weir: is the switch running')
        with open(os.path.join(folder, 'no.socket'), 'w'):
            pass
        with FakeApi(folder=folder, name='one.sock') as api:
            api.fill()
            says(run(folder), 0, '^JOB ')
            with FakeApi(folder=folder, name='two.sock'):
                says(run(folder), 3, '2 switches in /run/weir: .*two.sock.*-s unix:/run/weir/NAME')


@case
def tokens():
    with FakeApi() as api, tempfile.TemporaryDirectory(prefix='weir-token-') as folder:
        name = os.path.join(folder, 'token')

        def guarded(handler):
            if handler.headers.get('Authorization') == 'Bearer s3cret':
                return healthy()['/v1/jobs']
            return (401, {'error': {'status': 401, 'code': 'unauthorized', 'key': None,
                                    'message': 'no tenant has this token'}})
        api.routes['/v1/jobs'] = guarded
        says(ctl(api.address, 'jobs'), 1, 'no tenant has this token', '--token-file FILE')
        for text, status in (('s3cret\n', 0), ('wrong', 1)):
            with open(name, 'w') as file:
                file.write(text)
            run = ctl(api.address, 'jobs', '--token-file', name)
            says(run, status, 'JOB' if status == 0 else 'does not accept the token in ' + name)
            check('s3cret' not in run.out + run.err, '%s', run)
            says(ctl(api.address, 'jobs', WEIR_TOKEN_FILE=name), status)
            # As libweir: an option, the token itself, a file of it; set to nothing is not set.
            said = 'JOB' if status == 0 else 'does not accept the token in WEIR_TOKEN\n'
            says(ctl(api.address, 'jobs', WEIR_TOKEN=text.strip(), WEIR_TOKEN_FILE='/no'), status, said)
            says(ctl(api.address, 'jobs', '--token-file', name, WEIR_TOKEN='other'), status)
            says(ctl(api.address, 'jobs', WEIR_TOKEN='', WEIR_TOKEN_FILE=name), status)
        says(ctl(api.address, 'jobs', WEIR_TOKEN='two words'), 2, 'WEIR_TOKEN: it should be one token')
        for text in ('', 'two words\n', 'a\r\nHost: evil\n', 'x' * 5000):
            with open(name, 'w', newline='') as file:
                file.write(text)
            says(ctl(api.address, 'jobs', '--token-file', name), 2, 'should hold one token')
        says(ctl(api.address, 'jobs', '--token-file', folder + '/none'), 2, 'No such file')
        api.routes['/v1/jobs'] = (403, {'error': {'status': 403, 'code': 'forbidden',
                                                  'message': 'not yours'}})
        says(ctl(api.address, 'jobs'), 1, 'not yours', 'only an admin may')


@case
def tls():
    with tempfile.TemporaryDirectory(prefix='weir-tls-') as folder:
        key, certificate = folder + '/key.pem', folder + '/certificate.pem'
        try:
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                            'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=weir',
                            '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out',
                            certificate], check=True, timeout=30, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            raise Skip('openssl is not there')
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with FakeApi(tcp=True, context=context) as api:
            api.fill()
            says(ctl(api.address, 'jobs', '--ca', certificate), 0, '^JOB ')
            says(ctl(api.address, 'jobs', WEIR_CA=certificate), 0, '^JOB ')
            says(ctl(api.address, 'jobs', '--ca', certificate, WEIR_CA='/none'), 0, '^JOB ')
            says(ctl(api.address, 'jobs', WEIR_CA=''), 3, '--ca FILE or WEIR_CA names the certificate')
            says(ctl(api.address.replace('https', 'http'), 'jobs'), 3, 'did not answer|closed')
            says(ctl(api.address, 'jobs', '--ca', folder + '/none'), 3, '--ca')
        with FakeApi(tcp=True) as api:
            api.fill()
            says(ctl(api.address + '/', 'jobs', http_proxy='http://127.0.0.1:1'), 0, '^JOB ')
            check(api.asked[-1][1] == '/v1/jobs', '%s', api.asked)


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
        bodies = [b'', b'{', b'[]', b'null', b'7', b'<html>hello</html>', b'\xff\xfe', b'{"a":1e999}',
                  b'[' * 100000, b'{"jobs":' * 3000, b'{}', b'{"jobs":7}', (500, b'oops'),
                  (500, {'error': 'x'}), (302, b''), (204, b''), (500, {'error': {}})]
        for body in bodies:
            api.unknown = body
            for words in ('jobs', 'blocks --stuck', 'top --once --interval 100ms', 'counters'):
                run = ctl(api.address, *words.split(), columns=80)
                check(run.status in (0, 1), '%s: %s: %s', str(body)[:40], words, run)
                if words != 'counters':
                    continue
                check(run.status == 1 and 'weirctl: ' in run.err, '%s: %s', str(body)[:40], run)
        for _ in range(12):
            api.routes = {path: (200, spoil(random, value)) for path, value in healthy().items()}
            for words in READ + ['counters --watch --count 1 --interval 100ms']:
                run = ctl(api.address, *words.split(), columns=80)
                check(run.status in (0, 1), '%s: %s', words, run)
                check(not re.search('[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]', run.out + run.err),
                      '%s: %r', words, run.out + run.err)
                check(words == 'config' or all(len(line) <= 80 for line in run.out.split('\n')),
                      '%s: %s', words, run)


@case
def broken_transfers():
    def cut(handler):
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"jobs": [')
        handler.close_connection = True

    def noise(handler):
        handler.wfile.write(bytes(range(256)))
        handler.close_connection = True

    def hangs_up(handler):
        handler.close_connection = True

    def drips(handler):
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n')
        for _ in range(30):
            handler.wfile.write(b' ')
            handler.wfile.flush()
            time.sleep(0.1)
        handler.close_connection = True

    def endless(handler):
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n')
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b' ' * (1 << 20))
        handler.close_connection = True

    with FakeApi() as api:
        for route in (cut, noise, hangs_up, drips):
            api.routes['/v1/jobs'] = route
            run = says(ctl(api.address, 'jobs', '-t', '1s'), 3, 'weirctl: ')
            check(run.seconds < 3, '%s', run)
        api.routes['/v1/jobs'] = endless
        says(ctl(api.address, 'jobs', '-t', '20s'), 3, 'larger than 8 MiB')
        api.routes['/v1/jobs'] = {'jobs': []}
        # Large, and right: 1024 blocks with 256 missing sources each.
        api.routes['/v1/blocks'] = {'blocks': [block(b, missing=range(256)) for b in range(1024)]}
        run = says(ctl(api.address, 'blocks', '--stuck', '-t', '30s'), 0,
                   '1024 blocks 0..1023 wait for rank 0 .*; and for 252 more: ranks 4..255')
        check('only the 1024 oldest' in run.out, '%s', run)


@case
def heavy_answers():
    """An answer costs time as it is long, not as the square of it."""
    with FakeApi() as api:
        def quick(status, *words):
            run = says(ctl(api.address, *words, '-t', '20s', columns=80), status)
            check(run.seconds < 8, '%s took %.1f s', words, run.seconds)
            return run

        api.fill()
        api.routes['/v1/jobs'] = {'jobs': [job('x' * 7000000, 1), job('y' * 300, 2)]}
        out = quick(0, 'jobs').out
        check(all(len(line) <= 80 for line in out.split('\n')), '%s', out)
        check(re.search(r'^x+…  ', out, re.M), '%s', out)
        check(quick(0, 'top', '--once', '--interval', '100ms').out.count('xxxx') < 9, 'top')
        api.routes['/v1/jobs'] = (500, {'error': {'code': 'z' * 1000000, 'message': 'w' * 5000000}})
        check(len(quick(1, 'jobs').err) < 1000, 'all of the message')
        api.routes['/v1/jobs'] = {'jobs': [job('x' * 20000000, 1)]}
        err = ' '.join(quick(3, 'jobs').err.split())
        check('is larger than 8 MiB' in err, '%s', err)
        api.fill()
        api.routes['/v1/blocks'] = {'blocks': [block(b, 'job-%d' % b) for b in range(40000)]}
        out = quick(0, 'blocks', '--stuck', '--limit', '1000000').out
        check(len(re.findall('^job job-', out, re.M)) == 40000, 'not all')
        out = quick(0, 'blocks', '--stuck').out
        check(len(re.findall('^job job-', out, re.M)) == 1024, 'more than was asked for')
        api.fill()
        many = [{'name': 'p%d' % p, 'missed': p} for p in range(100000)]
        api.routes['/v1/ports'] = {'ports': many}
        quick(0, 'top', '--once', '--interval', '100ms')


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
        check(re.search(r'^drops +late +reset +2$', out, re.M), '%s', out)
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
        # A name that could be guessed, and a link behind it, is nobody's way to another file.
        os.symlink(folder + '/victim', name + '.part')
        previous = os.umask(0o027)
        try:
            says(ctl(api.address, 'trace', '-o', name), 0)
        finally:
            os.umask(previous)
        check(os.stat(name).st_mode & 0o777 == 0o640, '%o', os.stat(name).st_mode)
        check(sorted(os.listdir(folder)) == ['t.json', 't.json.part'], '%s', os.listdir(folder))


class Terminal:
    """weirctl top in a terminal of its own."""

    def __init__(self, address, *words, rows=24, columns=80):
        self.output = ''
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(LC_ALL='C.UTF-8', TERM='xterm', WEIR_SWITCH=address)
            os.environ.pop('COLUMNS', None)
            os.execv(WEIRCTL, [WEIRCTL, 'top', *words])
        self.resize(rows, columns)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self.fd)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            return False
        self.output += more.decode(errors='replace')
        return bool(more)

    def until(self, pattern, seconds=10):
        """Until this is in what came since the last call."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.output):
            check(time.monotonic() < end, '"%s" is not on the screen: %r', pattern, self.output[-3000:])
            self.read(0.1)
        found, self.output = self.output, ''
        return found

    def key(self, text):
        os.write(self.fd, text.encode())

    def flags(self):
        return termios.tcgetattr(self.fd)[3]

    def end(self, seconds=5):
        """Returns waitpid's status, and checks that the terminal is as it was."""
        end = time.monotonic() + seconds
        while True:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            check(time.monotonic() < end, 'it does not end: %r', self.output[-500:])
        while self.read(0):
            pass
        check(LEAVE in self.output and '\033[?25h' in self.output, 'not restored: %r', self.output)
        with contextlib.suppress(termios.error):
            check(self.flags() & termios.ECHO and self.flags() & termios.ICANON, 'no echo')
        return status


@case
def top_frame():
    with FakeApi() as api:
        api.fill()
        api.routes['/v1/jobs']['jobs'][1]['counters']['blocks_partial'] = 17
        out = good(ctl(api.address, 'top', '--once', '--interval', '100ms', columns=110))
        check('\033' not in out and '\x01' not in out and '\x02' not in out, '%r', out)
        check('lcore  1 [|||||||         ]  43 %' in out, '%s', out)
        check('job ring, for 12.6 s: 64 blocks 17..80 wait for rank 2' in out, '%s', out)
        check(re.search(r'^ring .* 64 of 64  \[\|{16}\] ', out, re.M), '%s', out)
        check(re.search(r'^eval .* 5 of 64  \[\| {15}\] +0/s +17 ', out, re.M), '%s', out)
        check(out.index('duplicate') < out.index('queue_full') < out.index('late '), '%s', out)
        del api.routes['/v1/blocks'], api.routes['/v1/counters']
        out = good(ctl(api.address, 'top', '--once', '--interval', '100ms'))
        check('STUCK' not in out and 'DROPS' not in out and 'PORT' in out, '%s', out)


@case
def top_in_a_terminal():
    with FakeApi() as api:
        api.fill()
        with Terminal(api.address, '--interval', '200ms') as terminal:
            screen = terminal.until(r'(?s)queue_full.*\033\[J')
            check(ENTER in screen and '\033[1;31m' in screen, '%r', screen)
            for line in screen.split('\r\n'):
                plain = re.sub(r'\033\[[?\d;]*[A-Za-z]', '', line)
                check(len(plain) <= 80, 'wider than the terminal: %s', plain)
            check(screen.count('\r\n') < 24 * screen.count('\033[H'), 'it scrolls: %r', screen)
            terminal.resize(10, 40)
            terminal.until(r'\033\[J')
            screen = terminal.until(r'\033\[J.*?\033\[H(.|\n)*\033\[J')
            frame = screen.split('\033[H')[-1]
            check(frame.count('\r\n') < 10, '%r', frame)
            terminal.key('q')
            check(terminal.end() == 0, 'q')
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, signal.SIGTERM),
                               (signal.SIGHUP, signal.SIGHUP)):
            with Terminal(api.address) as terminal:
                terminal.until(r'\033\[J')
                os.kill(terminal.pid, number)
                check(terminal.end() == status, '%s', number)


@case
def top_loses_the_switch_and_finds_it_again():
    with tempfile.TemporaryDirectory(prefix='weir-run-') as folder:
        with FakeApi(folder=folder) as api:
            api.fill()
            with Terminal(api.address, '--interval', '200ms', '-t', '500ms') as terminal:
                terminal.until(r'\033\[J')
                api.routes['/v1/status'] = lambda handler: time.sleep(2)
                terminal.until('no answer for .*no answer from')
                # A slow switch does not make the keys slow.
                api.fill()
                terminal.output = ''
                terminal.until(r'\033\[H\d\d:\d\d:\d\d  demo[^\r]*\r\nlcore')
                api.routes['/v1/ports'] = lambda handler: time.sleep(20)
        with FakeApi(folder=folder, name='b.sock') as api:
            api.fill()
            with Terminal(api.address, '--interval', '100ms', '-t', '20s') as terminal:
                terminal.until(r'\033\[J')
                api.routes['/v1/status'] = lambda handler: time.sleep(10)
                time.sleep(0.5)
                began = time.monotonic()
                terminal.key('q')
                terminal.end()
                check(time.monotonic() - began < 2, 'q took %.1f s', time.monotonic() - began)


@case
def top_is_stopped_and_goes_on():
    with FakeApi() as api:
        api.fill()
        with Terminal(api.address, '--interval', '200ms') as terminal:
            terminal.until(r'\033\[J')
            os.kill(terminal.pid, signal.SIGTSTP)
            terminal.until(re.escape(LEAVE))
            check(os.waitpid(terminal.pid, os.WUNTRACED)[1] & 0xff == 0x7f, 'not stopped')
            check(terminal.flags() & termios.ECHO, 'no echo while stopped')
            os.kill(terminal.pid, signal.SIGCONT)
            terminal.until(re.escape(ENTER))
            terminal.key('q')
            check(terminal.end() == 0, 'q')


if __name__ == '__main__':
    sys.exit(main())
