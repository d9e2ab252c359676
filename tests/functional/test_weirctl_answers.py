#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whatever weirctl is answered, by a control API that is played: absurd things, half of it, too much."""
import contextlib
import re
import sys

from ctl import READ, ctl, says
from fake_api import FakeApi, block, drip, healthy, job, stuck
from tap import case, check, main, seed


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
            for words in ('jobs', 'blocks --stuck', 'counters'):
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

    def endless(handler):
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n')
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b' ' * (1 << 20))
        handler.close_connection = True

    with FakeApi() as api:
        for route, words in ((cut, 'transfer closed'), (noise, 'does not answer as'), (hangs_up, 'closes the'),
                             (drip, 'no answer .* for 1000 ms')):
            api.routes['/v1/jobs'] = route
            says(ctl(api.address, 'jobs', '-t', '1s' if route is drip else '100s'), 3, words)
        api.routes['/v1/jobs'] = endless
        says(ctl(api.address, 'jobs', '-t', '200s'), 3, 'larger than 8192 KiB')
        api.routes['/v1/jobs'] = {'jobs': []}
        # The largest that a switch sends: as many names of missing sources as an answer may have.
        api.routes['/v1/blocks'] = {'blocks': [block(b, missing=range(256)) for b in range(64)],
                                    'stuck': [stuck()] * 256}
        check('only the first 256' in says(ctl(api.address, 'blocks', '--stuck', '-t', '200s'), 0).out, 'all')


@case
def heavy_answers():
    """An answer costs time as it is long, not as the square of it."""
    with FakeApi() as api:
        def quick(status, *words):
            run = says(ctl(api.address, *words, '-t', '200s', columns=80), status)
            return run

        api.fill()
        api.routes['/v1/jobs'] = {'jobs': [job('x' * 7000000, 1), job('y' * 300, 2)]}
        out = quick(0, 'jobs').out
        check(all(len(line) <= 80 for line in out.split('\n')), '%s', out)
        check(re.search(r'^x+…  ', out, re.M), '%s', out)
        api.routes['/v1/jobs'] = (500, {'error': {'code': 'z' * 1000000, 'message': 'w' * 5000000}})
        check(len(quick(1, 'jobs').err) < 6000, 'all of the message')
        api.routes['/v1/jobs'] = {'jobs': [job('x' * 20000000, 1)]}
        err = ' '.join(quick(3, 'jobs').err.split())
        check('is larger than 8192 KiB' in err, '%s', err)
        api.fill()
        many = [{'name': 'p%d' % p, 'missed': p} for p in range(100000)]
        api.routes['/v1/ports'] = {'ports': many}
        quick(0, 'ports')


if __name__ == '__main__':
    sys.exit(main())
