#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Requests to every route that are almost right, by callers who may: an administrator and a tenant.

What the switch takes, its document has to allow; what it refuses changes nothing, and is told as the
document says. WEIR_SEED repeats a run, WEIR_FUZZ says how many requests it has."""
import contextlib
import copy
import hashlib
import http.client
import json
import os
import re

from control import Control
from openapi import Document
from rack import Rack, job
from process import memory_kib
from tap import case, check, main, seed

# What is large is given back when it is freed: a reload's 4 MiB are no growth of the heap.
os.environ['GLIBC_TUNABLES'] = 'glibc.malloc.mmap_threshold=131072'
COUNT = int(os.environ.get('WEIR_FUZZ') or 320)
RING = {'name': 'ring', 'size': 2, 'window': 16, 'elements': 64}
BODIES = {
    ('/v1/jobs', 'POST'): {'name': 'new', 'size': 2, 'window': 8, 'elements': 32, 'type': 'fp32',
                           'op': 'sum', 'deterministic': True, 'policy': 'wait', 'timeout_ms': 100, 'results': 'unicast',
                           'expire_s': 0, 'rate_mbit': 1, 'authenticate': False},
    ('/v1/jobs/{name}', 'PATCH'): {'timeout_ms': 7, 'policy': 'partial', 'rate_mbit': 3,
                                   'expire_s': 0},
    ('/v1/jobs/{name}/members', 'POST'): {'rank': 1, 'size': 2, 'address': '10.77.0.2',
                                          'create': {'window': 16, 'elements': 64}},
    ('/v1/faults', 'PUT'): {'seed': 3, 'held': 5, 'rules': [
        {'direction': 'in', 'action': 'drop', 'what': 'result', 'job': 255, 'choice': 'list',
         'list': [1, 7]}]},
}
NAMES = ['ring'] * 20 + ['job1', 'none', '%72ing', 'RING', '.', '..', '%2e%2e', '%00', '%', '%zz',
         'a%2fb', '%ff%fe', 'r' * 31, 'r' * 32, 'r' * 300, '%3Cb%3E', "';--", '%0d%0aX:1', '-1', '0',
         '256', '1e2', '']
VALUES = [None, True, False, 0, 1, -1, 2, 3, 255, 256, 257, 65535, 65536, 2 ** 31, 2 ** 32 + 2, 2 ** 63 - 1,
          -2 ** 63, 1.0, 2.5, 1e300, '', 'ring', 'new', 'x' * 31, 'x' * 32, 'x' * 5000, '2', 'SUM', 'sum ',
          'wait|error', '\u00e9', '\u0000', '\U0001f600', '%s%n%p', '10.77.0.1', '10.77.0.254', '10.77.0.255',
          '0.0.0.0', '224.0.0.1', '239.1.1.1', '10.77.0.1 ', '010.077.0.1', '::1', [], {}, [1], [[]],
          {'name': 'new'}, {'': 0}, {'size': 2}]
QUERIES = ['', 'limit=1', 'limit=0', 'limit=1025', 'limit=-1', 'limit=1e1', 'limit=' + '9' * 30,
           'stuck=1', 'stuck=2', 'stuck', 'job=ring', 'job=%00', 'job=', 'ms=0', 'ms=1', 'ms=10001', 'ms=x',
           'a=b', '&&', '=', 'limit=1&limit=1', '%6cimit=1', 'job=ring&stuck=0&limit=3', '%', 'ms=1&ms=1']
HEADERS = [{'Content-Type': 'text/plain'}, {'Content-Type': 'application/jsonx'},
           {'Content-Type': ''}, {'Authorization': 'Bearer'}, {'Authorization': 'Basic dg=='},
           {'Authorization': 'bearer v'}, {'Authorization': 'Bearer v '}, {'Authorization': ''},
           {'Authorization': 'Bearer ring~0~' + 64 * 'A'}, {'Authorization': 'Bearer %s~%s~' % (40 * 'x', 40 * '9')},
           {'Origin': 'http://evil.example'}, {'Host': 'evil.example'}, {'Connection': 'close'},
           {'X-HTTP-Method-Override': 'DELETE'}, {'Expect': 'something'}, {'Range': 'bytes=0-0'},
           {'Accept-Encoding': 'gzip'}, {'X': 'y' * 9000}]

METHODS = ['G\0T', '\xff\xfe', '', 'CONNECT', 'TRACE', 'HEAD', 'OPTIONS']
TARGETS = ['*', '/v1/jobs/%2e%2e%2f', '/v1/jobs/%%%%%', '/' * 3000, '/../../etc/passwd', 'http://a/v1/status', '/\x01\x02', '?',
           '/v1/jobs?' + '&'.join('k%d=%s' % (i, 'v' * i) for i in range(20))]
LINES = ['Content-Length: 65537', 'Content-Length: %d' % 2 ** 63, 'Content-Length: -1', 'Content-Length: x',
         'Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked', 'Authorization: \xff', 'Host: ' + 'h' * 300,
         'Expect: 100-continue', 'Connection: upgrade', ': empty', 'no colon', '\0', ' folded: x', 'Cookie: ' + ';' * 5000]


def change(random, body):
    """A body with something else in it, in one place or two."""
    made = json.loads(json.dumps(body))
    for _ in range(random.choice([0, 1, 1, 1, 2])):
        place = made
        while isinstance(place.get('create'), dict) and random.random() < 0.4:
            place = place['create']
        keys = sorted(place) or ['name']
        key = random.choice(keys)
        what = random.randrange(5)
        if what == 0:
            place.pop(key, None)
        elif what == 1:
            place[random.choice(['Name', 'id', 'create', 'tenant', '', 'a.b', 'members[0]', '\u0000k',
                                 'k' * 2000])] = copy.deepcopy(random.choice(VALUES))
        else:
            place[key] = copy.deepcopy(random.choice(VALUES))
    return made


def spoil(random, text):
    """JSON that is no more quite that, or not what it was."""
    return random.choice([
        lambda: text[:random.randrange(len(text) + 1)],
        lambda: text + random.choice([b' ', b'\n', b'{}', b'\0', b',']),
        lambda: text.replace(b'"', b"'", 2),
        lambda: text[:-1] + b',"size":2,"size":3}',
        lambda: b'\xef\xbb\xbf' + text,
        lambda: text.replace(b':', b':-', 1),
        lambda: b'[' * random.randrange(1, 5000),
        lambda: b'{"create":' * random.randrange(1, 2500),
        lambda: b'[' + text + b']',
        lambda: b'\xff' + text,
        lambda: random.choice([b'null', b'1', b'""', b'{"size":NaN}', b'{"size":1e999}', b'{}', b' ']),
        lambda: b' ' * random.choice([65000, 65536, 70000]) + text,
        lambda: bytes(b ^ (1 << random.randrange(8)) if random.random() < 0.02 else b for b in text),
    ])()


def no_twice(pairs):
    check(len(pairs) == len(dict(pairs)), 'a key is there twice, and was taken')
    return dict(pairs)


class Fuzz:
    def __init__(self, rack, api, random):
        self.rack, self.api, self.random = rack, api, random
        self.document = Document()
        self.operations = {(path, method): operation
                           for path, method, operation in self.document.operations()}
        self.kept = None  # a connection for looking
        self.seen = {}
        self.memory = []  # KiB, after each request

    def ask(self, method, path, body=None):
        if self.kept is None:
            self.kept = self.api.connect()
        return self.api.ask(self.kept, method, path, body)

    def state(self):
        """All that a request could have changed."""
        jobs = self.ask('GET', '/v1/jobs').body['jobs']
        jobs = [self.ask('GET', '/v1/jobs/' + j['name']).body for j in jobs
                if j['state'] != 'draining']
        return jobs, self.ask('GET', '/v1/tenants').body, self.ask('GET', '/v1/config').body

    def reset(self):
        """The tenant's job ring with one member, and the file's job1."""
        for made in self.state()[0]:
            if made['origin'] == 'api':
                self.ask('DELETE', '/v1/jobs/' + made['name'])
        self.api.tcp('POST', '/v1/jobs', RING, token='v')
        self.ask('POST', '/v1/jobs/ring/members', {'rank': 0, 'size': 2, 'address': '10.77.0.1'})
        self.before = self.state()
        check(any(j['name'] == 'ring' and j['tenant'] == 'vision' and j['joined'] == 1
                  for j in self.before[0]), 'no ring: %s', self.before[0])

    def make(self):
        """One request: (template of its path, method, path, body, headers)."""
        random = self.random
        where = sorted(BODIES if random.random() < 0.5 else self.operations)
        template, method = random.choice(where)
        path = template.replace('{rank}', random.choice(['0', '1', '1'] + NAMES))
        path = re.sub(r'\{\w+\}', lambda _: random.choice(NAMES), path)
        if random.random() < 0.1:
            path = random.choice([path + '/', path.replace('/v1', '/v1/', 1), path.upper(), '/' + path,
                                  path + '/members', path.replace('/', '%2f')])
        path += '?' + random.choice(QUERIES) if random.random() < 0.2 else ''
        body = BODIES.get((template, method))
        if random.random() < 0.1:
            method = random.choice(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'PUT', 'OPTIONS'])
        text = None
        if body is not None or random.random() < 0.1:
            text = json.dumps(change(random, body or {})).encode()
            text = spoil(random, text) if random.random() < 0.3 else text
        headers = {'Content-Type': 'application/json'} if text is not None else {}
        headers.update(random.choice(HEADERS) if random.random() < 0.2 else {})
        return template, method, path, text, headers

    def send(self, made):
        """With an administrator's rights, or the tenant's."""
        _, method, path, text, headers = made
        if self.random.random() < 0.5:
            return self.api.unix(method, path, text, headers=headers)
        if 'Authorization' not in headers:
            headers = dict(headers, Authorization='Bearer v')
        return self.api.tcp(method, path, text, headers=headers)

    def judge(self, made, answer):
        template, method, path, text, _ = made
        operation = self.operations.get((template, method), {'responses': {}})
        self.seen[answer.status] = self.seen.get(answer.status, 0) + 1
        check(200 <= answer.status < 500 or answer.status in (503, 507), 'status %d', answer.status)
        if answer.status >= 400 and method != 'HEAD' and answer.status != 431:
            error = self.document.root['components']['schemas']['Error']
            self.document.match(error, answer.body, 'body')
        if answer.status >= 300 or method in ('GET', 'HEAD'):
            now = self.state()
            check(now == self.before, 'it changed: %s', [j for j in now[0] if j not in self.before[0]])
            return
        # Taken: then the document allows it. (Another path than the template's has no other schema.)
        schema = operation.get('requestBody', {}).get('content', {}).get('application/json')
        if schema is not None and '/members' in path or template == path.split('?')[0]:
            value = json.loads(text, object_pairs_hook=no_twice) if text else None
            if schema is not None:
                self.document.match(schema['schema'], value, 'request')
        self.reset()

    def check_alive(self, number):
        check(self.rack.switch.status is None, 'it died:\n%s', self.rack.switch.output[-3000:])
        self.memory.append(memory_kib(self.rack.switch.pid))


@contextlib.contextmanager
def switch(random):
    token = hashlib.sha256(b'v').hexdigest()
    tenants = [{'name': 'vision', 'token_sha256': token, 'quota': {'changes_per_s': 0}}]
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        api = Control(rack, tenants=tenants)
        rack.start_switch()
        fuzz = Fuzz(rack, api, random)
        fuzz.reset()
        yield fuzz
        fuzz.reset()  # it still does all that it should
        if not os.environ.get('ASAN_OPTIONS') and len(fuzz.memory) >= 4:
            # The least of the last quarter and of the second: what a request needs comes and goes.
            quarter = len(fuzz.memory) // 4
            grown = min(fuzz.memory[-quarter:]) - min(fuzz.memory[quarter:2 * quarter])
            print('# %d KiB more' % grown)
            # Threads that are late at the same time fill more places for snapshots, each with a history of the jobs.
            check(grown < 16384, '%d KiB more', grown)
        fuzz.kept.close()
        rack.stop_switch()  # everything returned, and under a sanitizer nothing leaked


@case
def requests_that_are_almost_right():
    with switch(seed()) as fuzz:
        for number in range(COUNT):
            made = fuzz.make()
            try:
                with contextlib.suppress(http.client.InvalidURL, UnicodeEncodeError):
                    fuzz.judge(made, fuzz.send(made))
                fuzz.check_alive(number)
            except Exception as error:
                raise AssertionError('request %d: %r: %s' % (number, made, error)) from error
        print('# answers: %s' % sorted(fuzz.seen.items()), flush=True)
        for status in (200, 201, 400, 404, 405):
            check(COUNT < 300 or status in fuzz.seen, 'none was %d', status)


@case
def bytes_that_were_a_request():
    random = seed()
    with switch(random) as fuzz:
        for number in range(COUNT // 5):
            _, method, path, text, headers = fuzz.make()
            text = text or b''
            if random.random() < 0.3:
                method, path = random.choice([(method, random.choice(TARGETS)), (random.choice(METHODS), path)])
            head = '%s %s %s\r\nHost: x\r\nContent-Length: %d\r\n' % (
                method, path, random.choice(['HTTP/1.1'] * 6 + ['HTTP/1.0', 'HTTP/9.9', 'HTTP', '']), len(text))
            head += ''.join('%s: %s\r\n' % pair for pair in headers.items())
            head += ''.join(line + random.choice(['\r\n', '\r\n', '\n', '\r']) for line in random.sample(LINES, 2)) * (
                random.random() < 0.3)
            data = bytearray(head.encode('latin-1') + b'\r\n' + text)
            for _ in range(random.choice([1, 1, 2, 8])):
                if not data:
                    break
                at = random.randrange(min(len(data), 400))
                what = random.randrange(4)
                if what == 0:
                    data[at] = random.randrange(256)
                elif what == 1:
                    del data[at:at + random.randrange(1, 9)]
                elif what == 2:
                    data[at:at] = random.choice([b'\r\n', b'\0', b' ', b'\n', b'9', b'%', bytes(data[:at])])
                else:
                    data = data[:random.randrange(1, len(data) + 1)]
            got = fuzz.api.raw(bytes(data), 0.1)
            fuzz.check_alive(number)
            if not got or re.search(rb'HTTP/1\.[01] 2', got):
                fuzz.reset()  # it may well have been one still, and a busy machine answers later
            else:
                check(fuzz.state() == fuzz.before, 'request %d changed something: %r', number, data)


if __name__ == '__main__':
    main()
