# SPDX-License-Identifier: BSD-3-Clause
"""The stage of the comparison: a rack whose links have a rate, and the systems that are compared on it.

Every host has one link, `eth0`, through weir-switch. With bridge=True it has a second one like it,
`eth1`, through a bridge of the kernel's: an ordinary switch, for who wants to see the others on one.
Each link is limited by `tc tbf` at both ends, so both directions have the rate of their own.
"""
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from rack import SWITCH_ADDRESS, Rack, RackError, job, tail  # noqa: E402 (the path comes first)

JOB = 1
MTU = 9000
BURST = 20_000  # bytes that a link may send at once: two frames
QUEUE = 2_000_000  # bytes that wait before a link; beyond, they are lost


class Stage(Rack):
    """A rack with limited links. rate: Mbit/s."""

    def __init__(self, build, hosts, rate, settings, bridge=False):
        self.rate, self.bridge = rate, bridge
        changes = {'workers': settings.get('workers', {})}
        super().__init__(build, hosts=hosts, mtu=MTU, changes=changes,
                         jobs=[job(JOB, hosts, **settings.get('job', {}))])

    def device(self, port):
        # The ring's own way around the queueing discipline would be one around the rate, too.
        return super().device(port).replace('qdisc_bypass=1', 'qdisc_bypass=0')

    def _limit(self, place, interface):
        self.call(place, ['tc', 'qdisc', 'replace', 'dev', interface, 'root', 'tbf', 'rate',
                          '%dmbit' % self.rate, 'burst', str(BURST), 'limit', str(QUEUE)])

    def _lay_cables(self):
        super()._lay_cables()
        for host in range(self.hosts):
            self._limit(host, 'eth0')
            self._limit('sw', 'p%d' % host)
            # TCP keeps its window from one repetition to the next: a rest would cost the others.
            with self.inside(host), open('/proc/sys/net/ipv4/tcp_slow_start_after_idle', 'w') as file:
                file.write('0')
        if self.bridge:
            self._lay_bridge()

    def _lay_bridge(self):
        self._ip_in('sw', 'link add br0 mtu %d type bridge' % MTU, 'link set br0 up')
        for host in range(self.hosts):
            self._ip_in('sw', 'link add b%d mtu %d type veth peer name eth1 netns %s mtu %d' % (
                host, MTU, self.namespace(host), MTU), 'link set b%d master br0 up' % host)
            self._ip_in(host, 'address add %s/24 dev eth1' % self.bridge_address(host),
                        'link set eth1 up')
            self.call(host, ['ethtool', '-K', 'eth1', 'tx', 'off'])
            self.call('sw', ['ethtool', '-K', 'b%d' % host, 'tx', 'off'])
            self._limit(host, 'eth1')
            self._limit('sw', 'b%d' % host)

    @staticmethod
    def bridge_address(host):
        return '10.78.0.%d' % (host + 1)

    def close(self):
        """Also what the racks' processes have started: mpirun's children are not ours, but nobody
        else's processes are in these namespaces."""
        for place in self.places():
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                shown = subprocess.run(['ip', 'netns', 'pids', self.namespace(place)], check=False,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10)
                for pid in shown.stdout.split():
                    with contextlib.suppress(OSError):
                        os.kill(int(pid), signal.SIGKILL)
        super().close()


def tcp_share(stage, bridge=False, seconds=1.0):
    """What share of a link's rate one TCP stream carries as payload, from host 0 to host 1."""
    address = stage.bridge_address if bridge else stage.address
    with stage.inside(1):
        listener = socket.create_server((address(1), 0))
    listener.settimeout(10)
    seen = []

    def receive():
        connection, _ = listener.accept()
        connection.settimeout(10)
        with connection, contextlib.suppress(OSError):
            while True:
                data = connection.recv(1 << 18)
                if not data:
                    return
                seen.append((time.monotonic(), len(data)))

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    with stage.inside(0):
        connection = socket.socket()
    chunk = bytes(1 << 16)
    with connection:
        connection.settimeout(10)
        connection.connect((address(1), listener.getsockname()[1]))
        until = time.monotonic() + seconds + 0.2
        while time.monotonic() < until:
            connection.sendall(chunk)
    thread.join(20)
    listener.close()
    # Without the first moments, in which the stream finds its rate.
    start = seen[0][0] + 0.2
    moved = sum(size for when, size in seen if start < when <= start + seconds)
    return moved * 8 / seconds / (stage.rate * 1e6)


class System:
    """One system, up on every host: a socket to each of its ranks.

    name: of the system, as printed. algorithms: names that its ranks know.
    """

    def __init__(self, stage, name, algorithms, start):
        self.stage, self.name, self.algorithms = stage, name, algorithms
        self.path = os.path.join(stage.folder, 'rank-%d.sock' % len(os.listdir(stage.folder)))
        self.ranks = {}
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(stage.hosts)
        self.processes = start(self.path)
        with listener:
            self._accept(listener, time.monotonic() + 60)

    def _accept(self, listener, until):
        links = []
        while len(links) < self.stage.hosts:
            self._alive(until)
            if select.select([listener], [], [], 0.2)[0]:
                links.append(Link(listener.accept()[0]))
        for link in links:
            answer = link.answer(self, until)
            if answer['ranks'] != self.stage.hosts:
                raise RackError('%s: %d ranks, not %d' % (self.name, answer['ranks'],
                                                         self.stage.hosts))
            self.ranks[answer['rank']] = link

    def _alive(self, until):
        for process in self.processes:
            if process.status is not None:
                raise RackError('%s ended with status %d\n%s' % (process.name, process.status,
                                                                tail(process.log)))
        if time.monotonic() > until:
            raise RackError('%s: no answer in time\n%s' % (self.name, '\n'.join(
                tail(p.log, 5) for p in self.processes)))

    def run(self, order, seconds):
        """An order to all ranks. Returns the answers, by rank."""
        line = ('run %(collective)s %(type)s %(total)d %(algorithm)s %(warmup)d %(iterations)d '
                '%(seed)d %(check)d %(file)s\n' % order)
        for rank, link in self.ranks.items():
            link.send(line.replace(' %s\n' % order['file'], ' %s%s\n' % (
                order['file'], '' if order['file'] == '-' else '.%d' % rank)))
        until = time.monotonic() + seconds
        return [self.ranks[rank].answer(self, until) for rank in sorted(self.ranks)]

    def close(self):
        """Ranks leave when nobody is at the other end."""
        for link in self.ranks.values():
            link.socket.close()
        for process in self.processes:
            with contextlib.suppress(RackError):
                process.end(10)


class Link:
    """A rank, at the other end of a socket."""

    def __init__(self, connection):
        self.socket, self.buffer = connection, b''

    def send(self, line):
        self.socket.sendall(line.encode())

    def answer(self, system, until):
        while b'\n' not in self.buffer:
            if select.select([self.socket], [], [], 0.2)[0]:
                data = self.socket.recv(4096)
                if not data:
                    time.sleep(0.3)  # its last words
                    raise RackError('%s: a rank went away\n%s' % (system.name, '\n'.join(
                        tail(p.log, 5) for p in system.processes)))
                self.buffer += data
            else:
                system._alive(until)
        line, self.buffer = self.buffer.split(b'\n', 1)
        return json.loads(line)


def weir(stage):
    """Weir's ranks: a process on each host, through the switch."""
    def start(path):
        return [stage.spawn(host, [stage.program(('compare', 'compare-weir')), path, SWITCH_ADDRESS,
                                   stage.address(host), str(JOB), str(host), str(stage.hosts)])
                for host in range(stage.hosts)]

    return System(stage, 'Weir', ('default',), start)


def gloo(stage, program, bridge=False):
    """Gloo's: they find each other by files."""
    folder = os.path.join(stage.folder, 'gloo' + '-bridge' * bridge)
    os.mkdir(folder)

    def start(path):
        return [stage.spawn(host, [program, path, 'eth1' if bridge else 'eth0', folder, str(host),
                                   str(stage.hosts)]) for host in range(stage.hosts)]

    return System(stage, 'Gloo', ('ring', 'bcube', 'halving'), start)


# How mpirun starts its daemon on another host: AGENT ADDRESS COMMAND...
AGENT = '''#!/bin/sh
host=$((${1##*.} - 1))
shift
exec setpriv --pdeathsig KILL ip netns exec %s-h$host unshare --uts \\
	sh -c 'hostname "$1"; shift; exec sh -c "$*"' sh weir-h$host "$@"
'''
# Open MPI's numbers of AllReduce's algorithms (coll_tuned_allreduce_algorithm).
MPI_ALGORITHMS = {'default': None, 'ring': 4, 'rabenseifner': 6}


def open_mpi(stage, program, algorithm='default', bridge=False):
    """Open MPI's: mpirun on host 0, a daemon of its on each other."""
    agent = os.path.join(stage.folder, 'agent')
    if not os.path.exists(agent):
        with open(agent, 'w') as file:
            file.write(AGENT % stage.name)
        os.chmod(agent, 0o755)
    address = stage.bridge_address if bridge else stage.address
    interface = 'eth1' if bridge else 'eth0'
    name = 'openmpi-' + algorithm + '-bridge' * bridge
    temporary = os.path.join(stage.folder, name)
    os.mkdir(temporary)
    values = {
        'plm_rsh_agent': agent, 'plm_rsh_no_tree_spawn': 1, 'pml': 'ob1', 'btl': 'tcp,self',
        'btl_tcp_if_include': interface, 'oob_tcp_if_include': interface,
        # Ranks share CPUs: who waits must let the others run.
        'mpi_yield_when_idle': 1, 'hwloc_base_binding_policy': 'none',
        'orte_tmpdir_base': temporary, 'orte_leave_session_attached': 1,
        'rmaps_base_oversubscribe': 1,
    }
    if MPI_ALGORITHMS[algorithm] is not None:
        values.update(coll_tuned_use_dynamic_rules=1,
                      coll_tuned_allreduce_algorithm=MPI_ALGORITHMS[algorithm])

    def start(path):
        words = ['unshare', '--uts', 'sh', '-c', 'hostname weir-h0; exec "$@"', 'sh', 'mpirun',
                 '--allow-run-as-root', '--map-by', 'node', '-np', str(stage.hosts), '--host',
                 ','.join(address(host) + ':1' for host in range(stage.hosts))]
        for key, value in values.items():
            words += ['--mca', key, str(value)]
        return [stage.spawn(0, words + [program, path], name=name)]

    return System(stage, 'Open MPI', (algorithm,), start)


def compile_others(folder, say):
    """Build the programs of the systems that are installed. Returns {'Open MPI': path, 'Gloo': path}."""
    os.makedirs(folder, exist_ok=True)
    common = [os.path.join(HERE, name) for name in ('bench.c', 'bench_data.c')]
    flags = ['-O2', '-Wall', '-Wextra', '-I' + ROOT]
    made = {}

    def run(*words):
        done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120)
        if done.returncode != 0:
            raise RackError('%s\n%s' % (' '.join(words), done.stdout))

    if shutil.which('mpicc') and shutil.which('mpirun'):
        made['Open MPI'] = os.path.join(folder, 'compare-openmpi')
        run('mpicc', '-std=gnu11', '-D_GNU_SOURCE', *flags, '-o', made['Open MPI'], *common,
            os.path.join(HERE, 'bench_mpi.c'), '-lm')
    if shutil.which('g++') and os.path.exists('/usr/include/gloo/allreduce.h'):
        objects = []
        for source in common:
            objects.append(os.path.join(folder, os.path.basename(source) + '.o'))
            run('gcc', '-std=gnu11', '-D_GNU_SOURCE', *flags, '-c', '-o', objects[-1], source)
        made['Gloo'] = os.path.join(folder, 'compare-gloo')
        run('g++', *flags, '-o', made['Gloo'], *objects, os.path.join(HERE, 'bench_gloo.cc'),
            '-lgloo', '-lpthread')
    for name in ('Open MPI', 'Gloo'):
        if name not in made:
            say('%s is not installed' % name)
    return made

