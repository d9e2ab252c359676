# SPDX-License-Identifier: BSD-3-Clause
"""A rack whose links have a rate, and the systems that are compared on it. `tc tbf` limits each link at both ends, so
each direction has the rate for itself."""
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from rack import SWITCH_ADDRESS, Rack, RackError, job, tail  # noqa: E402 (the path comes first)

JOB = 1
MTU = 9000
BURST = 20_000  # bytes that a link may send at once: two frames
QUEUE = 2_000_000  # bytes that wait before a link; more are lost


class LimitedRack(Rack):
    """A rack with limited links. rate: Mbit/s."""

    def __init__(self, build, hosts, rate, settings):
        self.rate = rate
        super().__init__(build, hosts=hosts, mtu=MTU, changes={'workers': settings.get('workers', {})},
                         jobs=[job(JOB, hosts, **settings.get('job', {}))])

    def device(self, port):
        # The ring must not bypass the queueing discipline, which has the rate.
        return super().device(port).replace('qdisc_bypass=1', 'qdisc_bypass=0')

    def _lay_cables(self):
        super()._lay_cables()
        for host in range(self.hosts):
            for place, interface in ((host, 'eth0'), ('sw', 'p%d' % host)):
                self.call(place, ['tc', 'qdisc', 'replace', 'dev', interface, 'root', 'tbf', 'rate',
                                  '%dmbit' % self.rate, 'burst', str(BURST), 'limit', str(QUEUE)])
            # TCP keeps its window during the turns of the other systems.
            with self.inside(host), open('/proc/sys/net/ipv4/tcp_slow_start_after_idle', 'w') as file:
                file.write('0')

    def tcp_share(self, seconds=1):
        """What one TCP stream from host 0 to host 1 gets of the link, as a share."""
        with self.inside(1):
            listener = socket.create_server((self.address(1), 0))
        with self.inside(0):
            sender = socket.create_connection(listener.getsockname(), 10)
        receiver, chunk, received = listener.accept()[0], bytes(1 << 16), 0
        sender.setblocking(False)
        # Without the first moments, in which the stream finds its rate.
        start = time.monotonic() + 0.2
        while time.monotonic() < start + seconds:
            readable, writable, _ = select.select([receiver], [sender], [], 0.1)
            if writable:
                sender.send(chunk)
            if readable:
                count = len(receiver.recv(1 << 18))
                received += count if time.monotonic() > start else 0
        for opened in (listener, sender, receiver):
            opened.close()
        return received * 8 / seconds / (self.rate * 1e6)


class System:
    """One system, up on every host: a socket to each of its ranks.

    name: of the system, as printed. algorithms: names that its ranks know.
    """

    def __init__(self, rack, name, algorithms, start):
        self.rack, self.name, self.algorithms = rack, name, algorithms
        self.path = os.path.join(rack.folder, 'rank-%d.sock' % len(os.listdir(rack.folder)))
        self.ranks = {}
        until = time.monotonic() + 60
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(rack.hosts)
            self.processes = start(self.path)
            links = []
            while len(links) < rack.hosts:
                self._wait(listener, until)
                links.append(listener.accept()[0])
        for link in links:
            answer = self.answer(link, until)
            if answer['ranks'] != rack.hosts:
                raise RackError('%s: %d ranks, not %d' % (name, answer['ranks'], rack.hosts))
            self.ranks[answer['rank']] = link

    def _failed(self, what):
        return RackError('%s: %s\n%s' % (self.name, what, '\n'.join(tail(p.log, 5) for p in self.processes)))

    def _wait(self, source, until):
        """Until something comes from a socket."""
        while not select.select([source], [], [], 0.2)[0]:
            for process in self.processes:
                if process.status is not None:
                    raise self._failed('%s ended with status %d' % (process.name, process.status))
            if time.monotonic() > until:
                raise self._failed('no answer in time')

    def answer(self, link, until):
        """A line of a rank."""
        line = b''
        while not line.endswith(b'\n'):
            self._wait(link, until)
            data = link.recv(4096)
            if not data:
                time.sleep(0.3)  # its last words
                raise self._failed('a rank went away')
            line += data
        return json.loads(line)

    def run(self, order, seconds):
        """An order to all ranks. Returns the answers, by rank."""
        line = ('run %(collective)s %(type)s %(total)d %(algorithm)s %(warmup)d %(iterations)d '
                '%(seed)d %(check)d\n' % order)
        for link in self.ranks.values():
            link.sendall(line.encode())
        until = time.monotonic() + seconds
        return [self.answer(self.ranks[rank], until) for rank in sorted(self.ranks)]

    def close(self):
        """Ranks leave when nobody is at the other end."""
        for link in self.ranks.values():
            link.close()
        for process in self.processes:
            with contextlib.suppress(RackError):
                process.end(10)


def weir(rack):
    """Weir: a process on each host."""
    def start(path):
        return [rack.spawn(host, [rack.program(('compare', 'compare-weir')), path, SWITCH_ADDRESS,
                                  rack.address(host), str(JOB), str(host), str(rack.hosts)])
                for host in range(rack.hosts)]

    return System(rack, 'Weir', ('default',), start)


def gloo(rack, program):
    """Gloo: a process on each host; they find each other by files."""
    folder = os.path.join(rack.folder, 'gloo')
    os.mkdir(folder)

    def start(path):
        return [rack.spawn(host, [program, path, 'eth0', folder, str(host), str(rack.hosts)])
                for host in range(rack.hosts)]

    return System(rack, 'Gloo', ('ring', 'bcube', 'halving'), start)


# How mpirun starts its daemon on another host: AGENT ADDRESS COMMAND... No shell stays between them: the daemon has
# to die with mpirun, as the switch that would carry the end of its connection may be gone.
AGENT = '''#!/bin/sh
host=$((${1##*.} - 1))
shift
exec setpriv --pdeathsig KILL ip netns exec %s-h$host unshare --uts \\
	sh -c 'hostname "$1"; shift; exec sh -c "exec $*"' sh weir-h$host "$@"
'''
# Open MPI's numbers of AllReduce's algorithms (coll_tuned_allreduce_algorithm).
MPI_ALGORITHMS = {'default': None, 'ring': 4, 'rabenseifner': 6}


def open_mpi(rack, program, algorithm='default'):
    """Open MPI: mpirun on host 0 and its daemon on each other host."""
    agent = os.path.join(rack.folder, 'agent')
    if not os.path.exists(agent):
        with open(agent, 'w') as file:
            file.write(AGENT % rack.name)
        os.chmod(agent, 0o755)
    name = 'openmpi-' + algorithm
    temporary = os.path.join(rack.folder, name)
    os.mkdir(temporary)
    values = {
        'plm_rsh_agent': agent, 'plm_rsh_no_tree_spawn': 1, 'pml': 'ob1', 'btl': 'tcp,self',
        'btl_tcp_if_include': 'eth0', 'oob_tcp_if_include': 'eth0',
        # Ranks share CPUs: a rank that waits must let the others run.
        'mpi_yield_when_idle': 1, 'hwloc_base_binding_policy': 'none',
        'orte_tmpdir_base': temporary, 'orte_leave_session_attached': 1,
        'rmaps_base_oversubscribe': 1,
    }
    if MPI_ALGORITHMS[algorithm] is not None:
        values.update(coll_tuned_use_dynamic_rules=1,
                      coll_tuned_allreduce_algorithm=MPI_ALGORITHMS[algorithm])

    def start(path):
        words = ['unshare', '--uts', 'sh', '-c', 'hostname weir-h0; exec "$@"', 'sh', 'mpirun',
                 '--allow-run-as-root', '--map-by', 'node', '-np', str(rack.hosts), '--host',
                 ','.join(rack.address(host) + ':1' for host in range(rack.hosts))]
        for key, value in values.items():
            words += ['--mca', key, str(value)]
        return [rack.spawn(0, words + [program, path], name=name)]

    return System(rack, 'Open MPI', (algorithm,), start)


def compile_others(folder, say):
    """Build the programs of the systems that are installed. Returns {'Open MPI': path, 'Gloo': path}."""
    os.makedirs(folder, exist_ok=True)
    sources = {name: os.path.join(HERE, name) for name in ('bench.c', 'bench_mpi.c', 'bench_gloo.cc')}
    flags = ['-O2', '-Wall', '-Wextra', '-I' + ROOT]
    made = {}

    def run(*words):
        done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120)
        if done.returncode != 0:
            raise RackError('%s\n%s' % (' '.join(words), done.stdout))

    if shutil.which('mpicc') and shutil.which('mpirun'):
        made['Open MPI'] = os.path.join(folder, 'compare-openmpi')
        run('mpicc', '-std=gnu11', '-D_GNU_SOURCE', *flags, '-o', made['Open MPI'], sources['bench.c'],
            sources['bench_mpi.c'], '-lm')
    if shutil.which('g++') and os.path.exists('/usr/include/gloo/allreduce.h'):
        made['Gloo'] = os.path.join(folder, 'compare-gloo')
        loop = made['Gloo'] + '-bench.o'
        run('gcc', '-std=gnu11', '-D_GNU_SOURCE', *flags, '-c', '-o', loop, sources['bench.c'])
        run('g++', *flags, '-o', made['Gloo'], loop, sources['bench_gloo.cc'], '-lgloo', '-lpthread')
    for name in ('Open MPI', 'Gloo'):
        if name not in made:
            say('%s is not installed' % name)
    return made

