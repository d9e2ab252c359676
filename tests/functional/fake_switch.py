# SPDX-License-Identifier: BSD-3-Clause
"""A switch that only answers HTTP: the page's files, and an API whose numbers are made up. The test
decides what happens in it: hosts die, names are hostile, the server goes away or stalls."""
import math
import os
import socket
import threading
import time
import urllib.parse

from fake_api import FakeApi, Handler, TcpServer, healthy, job, port, worker

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
        answer = job(
            self.name, self.number, origin='file', size=self.size, joined=self.joined, generation=7, policy=self.policy,
            timeout_ms=50, state=self.state, element_bytes=4, blocks_in_flight=64 if self.dead else 23,
            buffers={'used': 64 if self.dead else 41, 'reserved': 128},
            latency={'blocks': int(time.monotonic() * 1000), 'seconds': int(time.monotonic() * 1000) * 412e-6},
            counters={'contributions': int(total), 'blocks_complete': int(total / self.size), 'blocks_partial': 0,
                      'blocks_error': 0})
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


class FakeSwitch(FakeApi):
    """`with FakeSwitch(jobs) as switch: browser.go(switch.address)`; routes come before what it would answer."""

    headers = (('Content-Security-Policy', SECURITY), ('X-Content-Type-Options', 'nosniff'), ('Cache-Control', 'no-cache'))

    def __init__(self, jobs, ports=('p0', 'p1', 'p2', 'p3'), name='rack7'):
        super().__init__(tcp=True)
        self.address += '/'
        self.jobs, self.ports, self.name = jobs, ports, name
        self.spoofed = {}  # by port
        self.began = time.monotonic() - 97000
        self.token = None
        self.faults = {'rules': 0, 'elapsed_ms': 0, 'hit': 0, 'held_now': 0}
        self.flow = threading.Event()  # while clear, nothing is answered
        self.flow.set()

    def start(self):
        """Again, after stop()."""
        self.serve(TcpServer(self.server.server_address, Handler))
        self.thread.start()

    def stop(self):
        """Gone: the socket closed, and all connections with it."""
        super().stop()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.connections.clear()

    def __exit__(self, *_):
        self.flow.set()
        super().__exit__()

    def find(self, handler):
        self.flow.wait(60)
        path = handler.path.split('?')[0]
        if path in self.routes:
            return self.routes[path]
        if path.startswith('/v1/'):
            if self.token and handler.headers.get('Authorization') != 'Bearer %s' % self.token:
                return 401, {'error': {'status': 401, 'code': 'unauthorized', 'message': 'no'}}
            return self.api(path) or self.unknown
        name = path.lstrip('/') or 'index.html'
        handler.kind = TYPES.get(os.path.splitext(name)[1], 'text/plain')
        try:
            with open(os.path.join(PAGE, os.path.basename(name)), 'rb') as file:
                return file.read()
        except OSError:
            return 404, b''

    def api(self, path):
        parts = path.split('/')[2:]
        if parts[0] == 'jobs' and len(parts) == 2:
            name = urllib.parse.unquote(parts[1])
            return next((one.about(True) for one in self.jobs if one.name == name), None)
        return {'health': self.health, 'status': self.status, 'jobs': self.all_jobs,
                'ports': self.all_ports, 'counters': self.counters, 'history': self.history,
                'blocks': self.blocks}.get(parts[0], lambda: None)()

    def uptime(self):
        return time.monotonic() - self.began

    def health(self):
        return {'status': 'ok', 'uptime': self.uptime()}

    def busy(self, worker):
        share = 0.1 if all(one.stalled() for one in self.jobs) else 0.7
        return share + 0.12 * math.sin(time.monotonic() / 5 + worker)

    def status(self):
        packets = int(self.uptime() * 1.9e6)
        return dict(
            healthy()['/v1/status'], name=self.name, uptime=self.uptime(), ports=len(self.ports), jobs=len(self.jobs),
            workers=[dict(worker(n), busy=self.busy(n), hops_in=packets // 4, hops_out=packets // 4) for n in range(4)],
            memory={'total': 64 << 20, 'free': 45 << 20, 'data': 1, 'blocks_capacity': 4096, 'blocks_reserved': 896,
                    'blocks_used': 171},
            packets={'received': packets, 'created': packets, 'sent': packets, 'consumed': packets - 500,
                     'dropped': self.drop('duplicate', 0) + 3120, 'in_flight': 204, 'off_by': 0},
            faults=self.faults)

    def rate(self, number, age):
        jobs = sum(one.at(age) for one in self.jobs) * 1082 * 8 / len(self.ports)
        return jobs * (1 + 0.04 * math.sin(age / 7 + number))

    def all_ports(self):
        return {'ports': [dict(
            port(n), name=name, mtu=1500, queue_full={'results': 0, 'bulk': 31 if n == 1 else 0}, stalled=0, too_long=0,
            spoofed=self.spoofed.get(name, 0), queues=dict(port(n)['queues'], waiting=0, oldest_ms=0))
                          for n, name in enumerate(self.ports)]}

    @staticmethod
    def drop(reason, rate):
        return {'duplicate': 18233, 'late': 412, 'queue_full': 31}.get(reason, 0) + int(
            time.monotonic() * rate)

    def drop_rate(self, reason, age):
        stalled = any(one.dead and min(one.silence(r) for r in one.dead) > age for one in self.jobs)
        return {'duplicate': 4100 if stalled else 3 * (math.sin(age / 9) > 0.8), 'late': 0.4 *
                (age % 17 == 0), 'queue_full': 31 if age == 140 else 0}.get(reason, 0)

    def counters(self):
        return {'time': time.time(), 'drops': {r: self.drop(r, 0) for r in (
            'duplicate', 'late', 'queue_full', 'malformed', 'no_mbuf')}}

    def all_jobs(self):
        return {'jobs': [one.about(False) for one in self.jobs]}

    def history(self):
        ages = range(SAMPLES - 1, -1, -1)
        return {
            'interval': 1, 'time': time.time(),
            'ports': [{'name': name, 'rx_bps': [self.rate(n, age) for age in ages],
                       'tx_bps': [self.rate(n, age) * 0.97 for age in ages],
                       'spoofed': [self.spoofed.get(name, 0) * (age == 60) for age in ages]}
                      for n, name in enumerate(self.ports)],
            'jobs': [{'name': one.name, 'contributions': [one.at(age) for age in ages],
                      'blocks': [one.at(age) / one.size for age in ages],
                      'late_share': [[r, one.share(r)] for r in range(one.size)]} for one in self.jobs],
            'drops': {r: [self.drop_rate(r, age) for age in ages]
                      for r in ('duplicate', 'late', 'queue_full', 'malformed')}}

    def blocks(self):
        return {'blocks': [], 'total': 0, 'stuck': [entry for one in self.jobs for entry in one.stuck()]}
