# SPDX-License-Identifier: BSD-3-Clause
"""The control API of a rack's switch, spoken to by Python's own HTTP client; docs/openapi.json judges what it answers.

    api = Control(rack)                 # before start_switch: the configuration listens
    rack.start_switch()
    status = api.get('/v1/status')
    api.do('PATCH', '/v1/jobs/none', {'timeout_ms': 9}, 404, 'unknown_job', token='...')
"""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import time

from filter_files import BY_PORT, elf, offer_filters
from openapi import Document
from tap import Skip, check, wait_for
from rack import SWITCH_ADDRESS, Api, Rack

PORT = 18080
SECONDS = 300


def hash_of(token):
    return hashlib.sha256(token.encode()).hexdigest()


def tenant(name, token=None, **more):
    """A tenant of the configuration; its token is its name by default."""
    return dict(more, name=name, token_sha256=hash_of(token or name))


def make_certificate(folder, name='weir'):
    """A self-signed certificate for the switch, on loopback and its own address: files of it and its
    key."""
    if not shutil.which('openssl'):
        raise Skip('needs openssl')
    made = [os.path.join(folder, '%s.%s' % (name, what)) for what in ('crt', 'key')]
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=weir',
                    '-addext', 'subjectAltName=IP:127.0.0.1,IP:' + SWITCH_ADDRESS,
                    '-out', made[0], '-keyout', made[1]], check=True, timeout=120,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return made


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read()

    @property
    def body(self):
        return json.loads(self.text)

    @property
    def code(self):
        """Of an error."""
        return self.body['error']['code']


class Control:
    """Listens on a Unix socket, on loopback and on the switch's own address."""

    def __init__(self, rack, **section):
        self.rack = rack
        self.path = os.path.join(rack.folder, 'run', 'api.sock')
        self.tls = None
        section.setdefault('listen', ['unix:' + self.path, 'tcp:127.0.0.1:%d' % PORT,
                                      'tcp:SWITCH:%d' % PORT])
        rack.changes['api'] = section

    def connect(self, place=None, address='127.0.0.1'):
        """An open connection: the Unix socket's, or TCP from a place of the rack."""
        if place is None:
            connection = Api(self.path, SECONDS)
        elif self.tls is None:
            connection = http.client.HTTPConnection(address, PORT, timeout=SECONDS)
        else:
            connection = http.client.HTTPSConnection(address, PORT, timeout=SECONDS,
                                                     context=self.tls)
        if place is None:
            connection.connect()
        else:
            with self.rack.inside(place):
                connection.connect()
        return connection

    patient = True  # asks again while a change would wait for a worker that has no CPU

    def ask(self, connection, method, path, body=None, token=None, headers=()):
        answer = self.ask_once(connection, method, path, body, token, headers)
        until = time.monotonic() + SECONDS
        while self.patient and answer.status == 503 and b'worker' in answer.text and time.monotonic() < until:
            time.sleep(0.05)
            answer = self.ask_once(connection, method, path, body, token, headers)
        return answer

    def ask_once(self, connection, method, path, body, token, headers):
        headers = dict(headers)
        if token is not None:
            headers['Authorization'] = 'Bearer ' + token
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault('Content-Type', 'application/json')
        connection.request(method, path, body=body, headers=headers)
        answer = Answer(connection.getresponse())
        if method == 'POST' and answer.status == 200 and path.endswith('/members') and answer.body.get('key'):
            self.rack.keys[answer.body['job'], answer.body['source']] = base64.b64decode(answer.body['key'])
        return answer

    def unix(self, method, path, *args, **more):
        with contextlib.closing(self.connect()) as connection:
            return self.ask(connection, method, path, *args, **more)

    def tcp(self, method, path, *args, place='sw', address='127.0.0.1', **more):
        with contextlib.closing(self.connect(place, address)) as connection:
            return self.ask(connection, method, path, *args, **more)

    def do(self, method, path, body=None, status=200, code=None, key=None, **who):
        """Ask, on the Unix socket or, with a token or from a place, over TCP. Returns the body. status: or several."""
        answer = (self.tcp if who else self.unix)(method, path, body, **who)
        check(answer.status in (status if isinstance(status, tuple) else (status,)), '%s %s: %d %s', method, path,
              answer.status, answer.text)
        Document().judge(method, path, answer.status, answer.body)
        check(code in (None, answer.status >= 400 and answer.code), '%s: %s', path, answer.text)
        check(key is None or answer.body['error'].get('key') == key, '%s: %s', path, answer.text)
        return answer.body

    def get(self, path, **who):
        return self.do('GET', path, **who)

    # -- jobs

    def create(self, name, size, status=201, **more):
        who = {k: more.pop(k) for k in ('token', 'place', 'address', 'code', 'key') if k in more}
        return self.do('POST', '/v1/jobs', dict(more, name=name, size=size), status, **who)

    def join(self, name, rank, size, host, **more):
        """host: of a rack, or None: whoever asks."""
        who = {k: more.pop(k) for k in ('token', 'status', 'code', 'key', 'place', 'address') if k in more}
        where = {'address': self.rack.address(host)} if host is not None else {}
        return self.do('POST', '/v1/jobs/%s/members' % name, dict(more, rank=rank, size=size, **where), **who)

    def job_of(self, name, hosts, **more):
        """A job of these hosts, all of them in. Returns its id."""
        made = self.create(name, len(hosts), **more)
        for rank, host in enumerate(hosts):
            self.join(name, rank, len(hosts), host)
        return made['id']

    def leave(self, name, rank, status=200, code=None, **who):
        return self.do('DELETE', '/v1/jobs/%s/members/%s' % (name, rank), None, status, code, **who)

    def delete(self, name):
        """And wait until it is gone."""
        self.do('DELETE', '/v1/jobs/' + name, status=(200, 202))
        wait_for(lambda: not any(j['name'] == name for j in self.get('/v1/jobs')['jobs']), '%s does not go', name)

    def jobs(self, **who):
        """{name: job} of those that are not leaving."""
        return {j['name']: j for j in self.get('/v1/jobs', **who)['jobs'] if j['state'] != 'draining'}

    def memory(self):
        """What jobs take."""
        found = self.get('/v1/status')['memory']
        return {key: found[key] for key in ('free', 'data', 'blocks_reserved', 'blocks_used')}

    def raw(self, data, seconds=SECONDS, place=None):
        """Bytes to the server and whatever comes back until it closes, or time is up."""
        connection = self.connect(place)
        with contextlib.closing(connection):
            connection.sock.settimeout(seconds)
            got = b''
            with contextlib.suppress(OSError):
                connection.sock.sendall(data)
                connection.sock.shutdown(socket.SHUT_WR)
                while True:
                    part = connection.sock.recv(65536)
                    if not part:
                        break
                    got += part
            return got

    def wait_read(self):
        """Wait until the switch has taken all connections on PORT, and read all that they said."""
        def queued():
            with open('/proc/%d/net/tcp' % self.rack.switch.pid) as file:
                rows = [line.split() for line in file.readlines()[1:]]
            return [row for row in rows if int(row[1].split(':')[1], 16) == PORT and
                    int(row[4].split(':')[1], 16) != 0]
        wait_for(lambda: not queued(), 'the switch does not read: %s', queued)

    def trust(self, certificate):
        """Speak TLS from now on, and trust this certificate alone."""
        self.tls = ssl.create_default_context(cafile=certificate)


def offer_programs(rack, *files):
    """A directory with these programs of the tests, for its switch. Returns the directory."""
    folder = os.path.join(rack.folder, 'programs')
    os.mkdir(folder, 0o755)
    for name in files:
        shutil.copy(os.path.join(os.environ['WEIR_BUILD'], 'tests', name), folder)
        os.chmod(os.path.join(folder, name), 0o644)
    rack.changes['program_directory'] = folder
    return folder


@contextlib.contextmanager
def switch(hosts=2, jobs=(), changes=None, workers=1, programs=(), filters=(), **section):
    """A rack whose switch runs, and its API; in the end it has to stop in order. section: `api` of its configuration."""
    with Rack(hosts=hosts, jobs=list(jobs), changes=changes, workers=workers) as rack:
        offer_programs(rack, *programs)
        offer_filters(rack, {name: elf(BY_PORT) for name in filters})
        control = Control(rack, **section)
        rack.start_switch()
        yield rack, control
        rack.stop_switch()


@contextlib.contextmanager
def cleared(found):
    """Rack and API of a switch that cases share; it has no job of the API afterwards."""
    yield found
    for name, job in found[1].jobs().items():
        if job['origin'] == 'api':
            found[1].delete(name)


@contextlib.contextmanager
def running(*shape, **more):
    """A rack (arguments are its) whose switch runs; in the end packets add up, at rest and after an orderly stop."""
    with Rack(*shape, **more) as rack:
        rack.start_switch()
        yield rack
        rack.check_packets()
        rack.stop_switch()
