# SPDX-License-Identifier: BSD-3-Clause
"""A switch's control API that is played: answers of the right shape, and absurd ones.

    with FakeApi() as api:                  # over a Unix socket
        api.routes['/v1/jobs'] = {'jobs': []}
        subprocess.run([WEIRCTL, '-s', api.address, 'jobs'])

A route is the path without its query. Its value is a JSON value, or bytes (sent as they are), or
(status, value), or a function of the handler (`.command`, `.body`, `.headers`) that returns one of
these. As a switch does over TCP, a body that does not say that it is JSON is refused. `api.asked` lists what was asked:
(method, path with query, body, headers).
"""
import contextlib
import http.server
import json
import os
import shutil
import socket
import socketserver
import tempfile
import threading
import time


class UnixServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    address_family = socket.AF_UNIX
    daemon_threads = True

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = 'switch', 0


class TcpServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    timeout = 20

    def setup(self):
        super().setup()
        self.server.api.connections.add(self.connection)

    def answer(self):
        api, self.kind = self.server.api, 'application/json'
        length = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(length) if length else None
        self.body = json.loads(body) if body else None
        api.asked.append((self.command, self.path, self.body, dict(self.headers)))
        found = api.find(self)
        if body and self.headers.get('Content-Type') != 'application/json':
            found = api.wrong_type
        if callable(found):
            found = found(self)
        if found is None:  # the function has answered, in its way
            return
        status, value = found if isinstance(found, tuple) else (200, found)
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for header in (('Content-Type', self.kind), ('Content-Length', str(len(data))), *api.headers):
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def address_string(self):
        return 'client'

    def log_message(self, *_):
        pass


def drip(handler):
    """An answer whose bytes come one by one, each in time, until the client has gone."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n')
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b' ')
            handler.wfile.flush()
            time.sleep(0.1)
    handler.close_connection = True


class FakeApi:
    unknown = (404, {'error': {'status': 404, 'code': 'unknown_path', 'key': None,
                               'message': 'there is no such path'}})

    headers = ()  # more, of each answer
    wrong_type = (415, {'error': {'status': 415, 'code': 'wrong_type', 'key': None,
                                  'message': 'a body needs the header Content-Type: application/json'}})

    def __init__(self, tcp=False, context=None, folder=None, name='fake.sock', host='127.0.0.1',
                 port=0):
        self.routes, self.asked, self.connections = {}, [], set()
        self.made = None if folder else tempfile.mkdtemp(prefix='weir-fake-api-')
        if tcp:
            self.serve(TcpServer((host, port), Handler))
            self.address = '%s://%s:%d' % ('https' if context else 'http', host, self.server.server_port)
        else:
            path = os.path.join(folder or self.made, name)
            self.serve(UnixServer(path, Handler))
            self.address = 'unix:' + path
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    def serve(self, server):
        self.server = server
        self.server.handle_error = lambda *_: None  # a client that goes is no error
        self.server.api = self
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()
        if self.made:
            shutil.rmtree(self.made, ignore_errors=True)

    def stop(self):
        """No more connections: the socket stays, and nobody listens."""
        self.server.shutdown()
        self.server.server_close()

    def find(self, handler):
        """The value of a route."""
        return self.routes.get(handler.path.split('?')[0], self.unknown)

    def fill(self):
        """The answers of a switch with two jobs, one of which waits for rank 2."""
        self.routes.update(healthy())


def worker(number):
    return {'id': number, 'lcore': number + 1, 'cpu': number + 1, 'busy': 0.43 - 0.2 * number,
            'turns': 123456789, 'hops_in': 4567, 'hops_out': 4568, 'threads_live': 3}


def port(number, scale=1):
    return {'id': number, 'name': 'p%d' % number, 'device': 'net_af_packet%d' % number, 'up': True,
            'mac': '02:57:45:49:52:%02x' % number, 'mtu': 9000, 'rx_packets': 1234567 * scale,
            'rx_bytes': 1345678901 * scale, 'tx_packets': {'results': 1234567 * scale, 'bulk': 42},
            'tx_bytes': {'results': 1345678901 * scale, 'bulk': 4200},
            'queue_full': {'results': 0, 'bulk': 7}, 'stalled': 5, 'too_long': 6, 'missed': 0, 'spoofed': 0, 'policed': 0,
            'queues': {'rx': 1, 'tx': 2, 'steered': False, 'waiting': 3, 'oldest_ms': 41, 'stalled': False, 'copied': True}}


def fault(**more):
    """A rule as GET /v1/faults tells it."""
    found = {'direction': 'in', 'what': 'any', 'job': -1, 'source': -1, 'first_block': 0,
             'last_block': 4294967295, 'choice': 'chance', 'chance_ppm': 1000000, 'nth': 1, 'list': [],
             'enter_ppm': 0, 'leave_ppm': 1000000, 'good_ppm': 0, 'bad_ppm': 1000000, 'from_ms': 0,
             'to_ms': 0, 'repeat_ms': 0, 'action': 'drop', 'distance': 1, 'delay': 'constant', 'us': 0,
             'most_us': 10000000, 'shape_percent': 200, 'bits': 1, 'matched': 12345, 'hit': 123,
             'spared': 0}
    found.update(more)
    return found


def faults():
    return {'seed': 9007199254740993, 'held': 1024, 'elapsed_ms': 12400, 'held_now': 3, 'spared': 7,
            'rules': [
                fault(port='p0', what='contribution', job=3, chance_ppm=12500),
                fault(direction='out', what='result', job=3, source=2, first_block=5, last_block=9,
                      choice='every', nth=100, action='delay', delay='uniform', us=500, most_us=1500),
                fault(choice='list', list=[7, 1, 2, 3], action='corrupt', bits=2, spared=4),
                fault(choice='burst', enter_ppm=10000, leave_ppm=200000, action='blackout',
                      from_ms=1000, to_ms=1250, repeat_ms=60000),
                fault(action='reorder', distance=3, chance_ppm=1)]}


COUNTERS = ('contributions duplicates late asked_again probes acknowledged blocks_opened blocks_complete blocks_partial '
            'blocks_error blocks_mismatch blocks_waiting held_back expired expelled stale results joins '
            'generations revokes').split()


def job(name, number, **more):
    counters = dict.fromkeys(COUNTERS, 0)
    counters.update(contributions=9876543, blocks_opened=2469135, blocks_complete=2469071,
                    blocks_waiting=12, results=9876284, joins=4, generations=1)
    found = {'id': number, 'name': name, 'tenant': None, 'origin': 'api', 'size': 4, 'joined': 4,
             'generation': 3, 'window': 64, 'elements': 256, 'type': 'fp32', 'op': 'sum',
             'policy': 'wait', 'timeout_ms': 1000, 'results': 'unicast', 'state': 'running',
             'blocks_in_flight': 64, 'buffers': {'used': 64, 'reserved': 128},
             'created': 1700000000.5, 'counters': counters}
    found.update(more)
    return found


def members(dead=None, size=4):
    return [{'rank': r, 'address': '10.77.0.%d' % (r + 1), 'port': 'p%d' % r, 'udp': 40000 + r,
             'joined': 1700000001, 'membership': 1000 + r, 'last_heard': 12.4 if r == dead else 0.0004,
             'waited': 12.3 if r == dead else 0.02, 'last': 64 if r == dead else 3,
             'state': 'joined'} for r in range(size)]


def block(number, name='ring', missing=(2,), **more):
    found = {'job': name, 'block': number, 'generation': 3, 'state': 'open', 'age': 12.6,
             'idle': 12.39, 'heard': 4 - len(missing), 'size': 4,
             'missing': [{'rank': r, 'address': '10.77.0.%d' % (r + 1), 'last_heard': 12.4}
                         for r in missing], 'policy': 'wait', 'policy_in': None}
    found.update(more)
    return found


def stuck(name='ring', text='64 blocks 17..80 wait for rank 2 (10.77.0.3), last heard 12.4 s ago; policy wait: '
          'nothing will happen until it sends', detail='the oldest open for 12.6 s'):
    return {'job': name, 'reason': 'blocks', 'missing': block(1)['missing'], 'text': text, 'detail': detail}


def healthy():
    drops = {'no_program': 0, 'malformed': 0, 'duplicate': 812, 'late': 3, 'queue_full': 7}
    jobs = [job('ring', 1), job('eval', 2, origin='file', policy='partial', timeout_ms=250,
                                blocks_in_flight=5)]
    pool = {'size': 8192, 'free': 6000}
    return {
        '/v1/health': {'status': 'ok', 'uptime': 7985.3},
        '/v1/status': {
            'name': 'demo', 'version': '0.1.0', 'pid': 4242, 'uptime': 7985.3,
            'address': '10.77.0.254', 'mac': '02:57:45:49:52:01', 'udp_port': 12000,
            'udp_port_ext': 12001, 'workers': [worker(0), worker(1)], 'ports': 2, 'jobs': 2,
            'memory': {'total': 167772160, 'free': 38797312, 'data': 67108864,
                       'blocks_capacity': 16384, 'blocks_reserved': 256, 'blocks_used': 69},
            'pools': {'packets': pool, 'headers': pool, 'attaches': pool},
            'packets': {'received': 9876543, 'created': 9876284, 'sent': 9876300,
                        'consumed': 9875700, 'dropped': 822, 'in_flight': 5, 'off_by': 0},
            'faults': {'rules': 0, 'elapsed_ms': 0, 'hit': 0, 'held_now': 0}},
        '/v1/faults': faults(),
        '/v1/ports': {'ports': [port(0), port(1)]},
        '/v1/counters': {'time': 1700007985.25, 'packets': {'received': 9876543}, 'drops': drops,
                         'workers': [{'id': n, 'turns': worker(n)['turns']} for n in range(2)],
                         'ports': [{key: port(n)[key] for key in
                                    ('name', 'rx_packets', 'rx_bytes', 'tx_packets', 'tx_bytes',
                                     'queue_full', 'missed')} for n in range(2)],
                         'jobs': [dict(j['counters'], id=j['id'], name=j['name']) for j in jobs]},
        '/v1/config': {'name': 'demo', 'memory_mb': 160},
        '/v1/jobs': {'jobs': jobs},
        '/v1/jobs/ring': dict(jobs[0], members=members(dead=2)),
        '/v1/jobs/eval': dict(jobs[1], members=members()),
        '/v1/blocks': {'blocks': [block(b) for b in range(17, 81)], 'stuck': [stuck()]},
        '/v1/tenants': {'tenants': [
            {'name': 'research', 'jobs': 1, 'members': 2, 'memory': 1 << 24, 'blocks': 128, 'rate_mbit': 0,
             'quota': {'jobs': 4, 'members': 1024, 'memory_mb': 64, 'blocks': 1024, 'rate_mbit': 10000}},
            {'name': 'guests', 'jobs': 1, 'memory': 1 << 22, 'blocks': 128, 'rate_mbit': 0}]},
        '/v1/trace': {'traceEvents': [{'name': 'parse', 'ph': 'X', 'ts': 1.0, 'dur': 0.2}]},
    }
