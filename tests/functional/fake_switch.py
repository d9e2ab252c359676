# SPDX-License-Identifier: BSD-3-Clause
"""A switch that only answers HTTP: the page's files, and an API whose numbers are made up. The test
decides what happens in it: hosts die, names are hostile, the server goes away or stalls."""
import http.server
import json
import math
import os
import socket
import threading
import time
import urllib.parse

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'ctrl', 'api', 'page')
SECURITY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8',
         '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml'}
SAMPLES = 300


class Job:
    def __init__(self, number, name, size, slow=None, rate=2e5):
        self.number, self.name, self.size, self.rate = number, name, size, rate
        self.slow = slow or {}  # rank → share of the waiting
        self.dead = {}  # rank → monotonic time of its death
        self.state, self.joined, self.policy = 'running', size, 'wait'
        self.address = lambda rank: '10.77.%d.%d' % (number - 1, rank + 1)
        self.tree, self.switches, self.waits = None, [], None  # parents; names of sources; for a parent

    def silence(self, rank):
        return time.monotonic() - self.dead[rank] if rank in self.dead else 0.002 + rank * 1e-4

    def stalled(self):
        return bool(self.dead) or self.state != 'running'

    def at(self, age):
        """Contributions per second, `age` seconds ago."""
        if self.state != 'running' or any(self.silence(r) > age for r in self.dead):
            return 0
        now = time.monotonic() - age
        step = 0.35 + 0.65 * (math.sin(now / 3.1) > -0.4)  # compute, communicate
        return self.rate * self.size * step * (1 + 0.05 * math.sin(now * 1.7 + self.number))

    def share(self, rank):
        rest = max(0.0, 1 - sum(self.slow.values()))
        return self.slow.get(rank, rest / max(1, self.size - len(self.slow)))

    def about(self, members):
        total = sum(self.at(age) for age in range(SAMPLES))
        answer = {
            'id': self.number, 'name': self.name, 'tenant': None, 'origin': 'file', 'size': self.size,
            'joined': self.joined, 'generation': 7, 'window': 64, 'elements': 256, 'type': 'fp32', 'element_bytes': 4,
            'op': 'sum', 'policy': self.policy, 'timeout_ms': 50, 'results': 'unicast',
            'state': self.state, 'blocks_in_flight': 64 if self.dead else 23,
            'buffers': {'used': 64 if self.dead else 41, 'reserved': 128}, 'created': 1.7e9,
            'latency': {'blocks': int(time.monotonic() * 1000),
                        'seconds': int(time.monotonic() * 1000) * 412e-6},
            'counters': {'contributions': int(total), 'blocks_complete': int(total / self.size),
                         'blocks_partial': 0, 'blocks_error': 0}}
        if members:
            if self.tree:
                answer['tree'] = self.tree
            answer['members'] = [{
                **self.below(rank), 'address': self.address(rank), 'port': 'p%d' % (rank % 4), 'udp': 12000,
                'joined': 1.7e9 if rank < self.joined else None,
                'last_heard': self.silence(rank) if rank < self.joined else None,
                'silent': rank >= self.joined or self.silence(rank) > 3,
                'waited': 100 * self.share(rank), 'last': 5,
                'state': 'joined' if rank < self.joined else 'expected'} for rank in range(self.size)]
            answer['remarks'] = [self.remark('silent', 'failure', rank, 'others send, and nothing comes from %s, last heard '
                                             '%.1f s ago' % (self.host(rank), self.silence(rank)))
                                 for rank in self.dead if self.silence(rank) > 3]
            answer['remarks'] += [self.remark('late', 'note', rank, '%s caused %d %% of the time' % (
                self.host(rank), 100 * share)) for rank, share in self.slow.items() if share > 0.5]
        return answer

    def host(self, rank):
        return 'rank %d (%s)' % (rank, self.address(rank))

    def remark(self, reason, severity, rank, text):
        return {'job': self.name, 'reason': reason, 'severity': severity, 'missing': [self.below(rank)],
                'who': 'rank %d' % rank, 'text': text, 'detail': None}

    def below(self, source):
        """The ranks of a source: its own, or those of a switch with four hosts."""
        if self.switches:
            return {'rank': 4 * source, 'ranks': 4, 'name': self.switches[source]}
        return {'rank': source}

    def stuck(self):
        """Entries of GET /v1/blocks?stuck=1, with sentences as the switch makes them."""
        def entry(reason, ranks, text, detail=None):
            missing = [{**self.below(r), 'address': self.address(r)} for r in ranks]
            who = ', '.join(self.switches[r] for r in ranks) if self.switches else 'rank%s %s' % (
                's' * (len(ranks) > 1), ', '.join(map(str, ranks)))
            severity = 'note' if reason == 'join' else 'failure' if any(self.silence(r) > 3 for r in ranks) else 'warning'
            return [{'job': self.name, 'reason': reason, 'severity': severity, 'missing': missing, 'who': who,
                     'text': text, 'detail': detail}]

        if self.waits:
            silent = self.tree['parents'][0]['silent_ms']
            return [dict(entry('parent', [], 'block 17 waits for %s, last heard %.1f s ago' % (self.waits, silent / 1e3))[0],
                         parent=self.waits, who=self.waits, severity='failure' if silent > 3000 else 'warning')]

        gone = [rank for rank in self.dead if self.silence(rank) > 1]
        if gone:
            return entry('blocks', gone, '64 blocks 17..80 wait for %s; policy %s' % ('; and for '.join(
                '%s, last heard %.1f s ago' % (self.host(r), self.silence(r)) for r in gone),
                self.policy), 'the oldest open for %.1f s' % self.silence(gone[0]))
        return entry('join', range(self.joined, self.size), 'has not begun: %d of %d sources have joined' % (
            self.joined, self.size)) if self.state == 'joining' else []


class FakeSwitch:
    """`with FakeSwitch(jobs) as switch: browser.go(switch.address)`."""

    def __init__(self, jobs, ports=('p0', 'p1', 'p2', 'p3'), name='rack7'):
        self.jobs, self.ports, self.name = jobs, ports, name
        self.spoofed = {}  # by port
        self.began = time.monotonic() - 97000
        self.absent = set()  # paths that answer 404
        self.answers = {}  # path → (status, body): instead of what would be answered
        self.token = None
        self.faults = {'rules': 0, 'elapsed_ms': 0, 'hit': 0, 'held_now': 0}
        self.flow = threading.Event()  # while clear, nothing is answered
        self.flow.set()
        self.asked = []
        self.port = 0
        self.server, self.connections = None, set()
        self.start()

    address = property(lambda self: 'http://127.0.0.1:%d/' % self.port)

    def start(self):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            timeout = 20

            def setup(self):
                super().setup()
                fake.connections.add(self.connection)

            def do_GET(self):
                fake.answer(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, block_on_close = True, False

            def handle_error(self, *_):
                pass  # a browser that went away

        self.server = Server(('127.0.0.1', self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        """Gone: the socket closed, and all connections with it."""
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.connections.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.flow.set()
        self.stop()

    def answer(self, request):
        self.flow.wait(60)
        path = request.path.split('?')[0]
        self.asked.append(request.path)
        wanted = 'Bearer %s' % self.token
        if request.path in self.answers or path in self.answers:
            status, body = self.answers.get(request.path) or self.answers[path]
            kind = 'application/json'
        elif path.startswith('/v1/'):
            known = self.api(path)
            status, body, kind = 200, known, 'application/json'
            if path in self.absent or known is None:
                status, body = 404, {'error': {'status': 404, 'code': 'unknown_path', 'message': 'no'}}
            elif self.token and request.headers.get('Authorization') != wanted:
                status, body = 401, {'error': {'status': 401, 'code': 'unauthorized', 'message': 'no'}}
        else:
            name = path.lstrip('/') or 'index.html'
            kind = TYPES.get(os.path.splitext(name)[1], 'text/plain')
            try:
                with open(os.path.join(PAGE, os.path.basename(name)), 'rb') as file:
                    status, body = 200, file.read()
            except OSError:
                status, body = 404, b''
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request.send_response(status)
        for key, value in (('Content-Type', kind), ('Content-Length', len(data)),
                           ('Content-Security-Policy', SECURITY),
                           ('X-Content-Type-Options', 'nosniff'), ('Cache-Control', 'no-cache')):
            request.send_header(key, str(value))
        request.end_headers()
        request.wfile.write(data)

    def api(self, path):
        parts = path.split('/')[2:]
        if parts[0] == 'jobs' and len(parts) == 2:
            name = urllib.parse.unquote(parts[1])
            return next((job.about(True) for job in self.jobs if job.name == name), None)
        return {'health': self.health, 'status': self.status, 'jobs': self.all_jobs,
                'ports': self.all_ports, 'counters': self.counters, 'history': self.history,
                'blocks': self.blocks}.get(parts[0], lambda: None)()

    def uptime(self):
        return time.monotonic() - self.began

    def health(self):
        return {'status': 'ok', 'uptime': self.uptime()}

    def busy(self, worker):
        share = 0.1 if all(job.stalled() for job in self.jobs) else 0.7
        return share + 0.12 * math.sin(time.monotonic() / 5 + worker)

    def status(self):
        packets = int(self.uptime() * 1.9e6)
        return {
            'name': self.name, 'version': '0.1.0', 'pid': 4711, 'uptime': self.uptime(),
            'address': '10.77.0.254', 'mac': '02:00:00:00:00:fe', 'udp_port': 12000,
            'udp_port_ext': 12001, 'ports': len(self.ports), 'jobs': len(self.jobs),
            'workers': [{'id': n, 'lcore': n + 1, 'cpu': n + 2, 'busy': self.busy(n), 'turns': 1,
                         'hops_in': packets // 4, 'hops_out': packets // 4, 'threads_live': 12 + n}
                        for n in range(4)],
            'memory': {'total': 64 << 20, 'free': 45 << 20, 'data': 1, 'blocks_capacity': 4096,
                       'blocks_reserved': 896, 'blocks_used': 171},
            'pools': {'packets': {'size': 65535, 'free': 61020}, 'headers': {'size': 16383, 'free': 16100},
                      'attaches': {'size': 16383, 'free': 15002}},
            'packets': {'received': packets, 'created': packets, 'sent': packets, 'consumed': packets - 500,
                        'dropped': self.drop('duplicate', 0) + 3120, 'in_flight': 204, 'off_by': 0},
            'faults': self.faults}

    def rate(self, port, age):
        jobs = sum(job.at(age) for job in self.jobs) * 1082 * 8 / len(self.ports)
        return jobs * (1 + 0.04 * math.sin(age / 7 + port))

    def all_ports(self):
        return {'ports': [{
            'id': n, 'name': name, 'device': 'net_af_packet%d' % n, 'up': True,
            'mac': '02:00:00:00:01:%02x' % n, 'mtu': 1500, 'rx_packets': 1, 'rx_bytes': 1,
            'tx_packets': {'results': 1, 'bulk': 1}, 'tx_bytes': {'results': 1, 'bulk': 1},
            'queue_full': {'results': 0, 'bulk': 31 if n == 1 else 0}, 'stalled': 0, 'too_long': 0, 'missed': 0,
            'spoofed': self.spoofed.get(name, 0), 'policed': 0,
            'queues': {'rx': 4, 'tx': 4, 'steered': True, 'waiting': 0, 'oldest_ms': 0, 'stalled': False, 'copied': False}} for n, name in enumerate(self.ports)]}

    @staticmethod
    def drop(reason, rate):
        return {'duplicate': 18233, 'late': 412, 'queue_full': 31}.get(reason, 0) + int(
            time.monotonic() * rate)

    def drop_rate(self, reason, age):
        stalled = any(job.dead and min(job.silence(r) for r in job.dead) > age for job in self.jobs)
        return {'duplicate': 4100 if stalled else 3 * (math.sin(age / 9) > 0.8), 'late': 0.4 *
                (age % 17 == 0), 'queue_full': 31 if age == 140 else 0}.get(reason, 0)

    def counters(self):
        return {'time': time.time(), 'drops': {r: self.drop(r, 0) for r in (
            'duplicate', 'late', 'queue_full', 'malformed', 'no_mbuf')}}

    def all_jobs(self):
        return {'jobs': [job.about(False) for job in self.jobs]}

    def history(self):
        ages = range(SAMPLES - 1, -1, -1)
        return {
            'interval': 1, 'time': time.time(),
            'ports': [{'name': name, 'rx_bps': [self.rate(n, age) for age in ages],
                       'tx_bps': [self.rate(n, age) * 0.97 for age in ages],
                       'spoofed': [self.spoofed.get(name, 0) * (age == 60) for age in ages]}
                      for n, name in enumerate(self.ports)],
            'jobs': [{'name': job.name, 'contributions': [job.at(age) for age in ages],
                      'blocks': [job.at(age) / job.size for age in ages],
                      'late_share': [[r, job.share(r)] for r in range(job.size)]} for job in self.jobs],
            'drops': {r: [self.drop_rate(r, age) for age in ages]
                      for r in ('duplicate', 'late', 'queue_full', 'malformed')}}

    def blocks(self):
        return {'blocks': [], 'total': 0, 'stuck': [entry for job in self.jobs for entry in job.stuck()]}
