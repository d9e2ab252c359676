# SPDX-License-Identifier: BSD-3-Clause
"""A rack whose links have a rate, and the systems that are compared on it. `tc tbf` limits each link at both ends, so
each direction has the rate for itself."""
import contextlib
import glob
import importlib.util
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

import mpi  # noqa: E402 (the path comes first)
from rack import Rack, RackError, job, tail  # noqa: E402

# What is compared: MPI's name.
COLLECTIVES = {'allreduce': 'allreduce', 'broadcast': 'bcast', 'reducescatter': 'reduce_scatter_block',
               'allgather': 'allgather', 'alltoall': 'alltoall'}
WITH_WEIR = 'Open MPI + Weir'
FLAT = WITH_WEIR + ', flat'
OTHERS = {'openmpi': 'Open MPI', 'gloo': 'Gloo', 'torch': 'PyTorch'}  # by the names of --systems
JOB = 1
MTU = 9000


def keep_window(rack, host):
    """TCP keeps its window during the turns of the other systems."""
    with rack.inside(host), open('/proc/sys/net/ipv4/tcp_slow_start_after_idle', 'w') as file:
        file.write('0')


class LimitedRack(Rack):
    """A rack with limited links. rate: Mbit/s."""

    limited = True

    def __init__(self, build, hosts, rate, settings):
        self.rate = rate
        self.job = settings.get('job', {})
        super().__init__(build, hosts=hosts, mtu=MTU, jobs=[job(JOB, hosts, **self.job)], changes={
            'workers': settings.get('workers', {}), 'api': {'listen': ['tcp:SWITCH:%d' % mpi.PORT], 'open_jobs': 8}})

    def _lay_cables(self):
        super()._lay_cables()
        for host in range(self.hosts):
            for place, interface in ((host, 'eth0'), ('sw', 'p%d' % host)):
                self.limit(place, interface, self.rate)
            keep_window(self, host)

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

    name: of the system, as printed. algorithms: {collective: names that its ranks know}. per_host: its ranks on a host.
    """

    def __init__(self, rack, name, algorithms, start, per_host=1):
        self.rack, self.name, self.algorithms, expected = rack, name, algorithms, rack.hosts * per_host
        self.path = os.path.join(rack.folder, 'rank-%d.sock' % len(os.listdir(rack.folder)))
        self.ranks, self.measured = {}, set()
        until = time.monotonic() + 300
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(expected)
            self.processes = start(self.path)
            links = []
            while len(links) < expected:
                self._wait(listener, until)
                links.append(listener.accept()[0])
        for link in links:
            answer = self.answer(link, until)
            if answer['ranks'] != expected:
                raise RackError('%s: %d ranks, not %d' % (name, answer['ranks'], expected))
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
        self.measured.add(order['collective'])
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


def weir(rack, collectives=tuple(COLLECTIVES)):
    """Weir by libweir: a process on each host, which knows its rack's switch."""
    def start(path):
        return [rack.spawn(host, [rack.program(('compare', 'compare-weir')), path, rack.at(host)[0].switch_address,
                                  rack.address(host), str(JOB), str(host), str(rack.hosts)])
                for host in range(rack.hosts)]

    return System(rack, 'Weir', dict.fromkeys(collectives, ('default',)), start)


def gloo(rack, program, order=None):
    """Gloo: a process on each host; they find each other by files. order: hosts in the order of ranks."""
    folder = tempfile.mkdtemp(prefix='gloo-', dir=rack.folder)

    def start(path):
        return [rack.spawn(host, [program, path, 'eth0', folder, str(rank), str(rack.hosts)])
                for rank, host in enumerate(order or range(rack.hosts))]

    return System(rack, 'Gloo', {'allreduce': ('ring', 'bcube', 'halving'), 'broadcast': ('default',)}, start)


# Open MPI's numbers of AllReduce's algorithms (coll_tuned_allreduce_algorithm).
MPI_ALGORITHMS = {'default': None, 'ring': 4, 'rabenseifner': 6}


def open_mpi(rack, program, algorithm='default', per_host=1, order=None):
    """Open MPI, so many ranks on each host. order: hosts in the order of ranks."""
    mca = {}
    if MPI_ALGORITHMS[algorithm] is not None:
        mca = {'coll_tuned_use_dynamic_rules': 1, 'coll_tuned_allreduce_algorithm': MPI_ALGORITHMS[algorithm]}

    def start(path):
        return [mpi.start(rack, [program, path], order or rack.hosts, per_host, mca=mca, name='openmpi-' + algorithm).process]

    return System(rack, 'Open MPI', {collective: (algorithm,) for collective in COLLECTIVES
                                     if algorithm == 'default' or collective == 'allreduce'}, start, per_host)


class WeirByMpi(System):
    """Open MPI with Weir's component, in a temporary job with the settings of Weir's own. flat: each rank talks to Weir,
    and not one of each host."""

    def __init__(self, rack, program, per_host=1, flat=False):
        self.settings = {'flat': int(flat), 'min_hosts': 2, 'settings': settings_text(rack)}
        super().__init__(rack, FLAT if flat else WITH_WEIR, dict.fromkeys(COLLECTIVES, ('default',)),
                         lambda path: self._start([program, path], per_host), per_host)

    def _start(self, words, per_host):
        self.mpirun = mpi.start(self.rack, words, self.rack.hosts, per_host, weir='component', name='openmpi-weir',
                                settings=self.settings)
        return [self.mpirun.process]

    def close(self):
        """Raises RackError if a collective that was measured never ran on Weir."""
        super().close()
        reports = self.mpirun.reports.values()
        missing = [c for c in self.measured if not all(report['offloaded'][COLLECTIVES[c]] for report in reports)]
        if missing or len(reports) != len(self.ranks):
            raise self._failed('not on Weir: %s' % (', '.join(missing) or 'a rank without a report'))


def torch(rack, library):
    """PyTorch: a process on each host, in which the backends weir and gloo have a process group each. Weir's has a temporary
    job with the settings of Weir's own."""
    around = {key: value for key, value in os.environ.items() if not key.startswith('WEIR_')}
    around.update(PYTHONPATH=os.path.join(ROOT, 'apps', 'python'), OMP_NUM_THREADS='1', WORLD_SIZE=str(rack.hosts),
                  MASTER_ADDR=rack.address(0), MASTER_PORT='29400', GLOO_SOCKET_IFNAME='eth0', USE_LIBUV='0', WEIR_SWITCH=mpi.SWITCH,
                  WEIR_SETTINGS=settings_text(rack), WEIR_LIBRARY=rack.program(('libweir', 'libweir.so')))

    def start(path):
        return [rack.spawn(host, [sys.executable, os.path.join(HERE, 'bench_torch.py'), library, path], 'torch',
                           dict(around, RANK=str(host))) for host in range(rack.hosts)]

    return System(rack, 'PyTorch', {'allreduce': ('weir', 'gloo')}, start)


def settings_text(rack):
    """Of Weir's own job, for those that make another."""
    return ' '.join('%s=%s' % pair for pair in rack.job.items())


def compile_others(folder, say, wanted=tuple(OTHERS)):
    """Build the programs of the systems that are wanted and installed, unless they are there and newer than their sources.
    Returns {'Open MPI': path, 'Gloo': path, 'PyTorch': path}; PyTorch's is a library."""
    os.makedirs(folder, exist_ok=True)
    verify = glob.glob(os.path.join(ROOT, 'apps', 'verify', '*.c'))
    loop = [os.path.join(HERE, 'bench.c'), *verify]
    own = {name: os.path.join(HERE, name) for name in ('bench_mpi.c', 'bench_gloo.cc', 'bench_torch.c')}
    flags = ['-O2', '-Wall', '-Wextra', '-I' + ROOT]
    c = ['-std=gnu11', '-D_GNU_SOURCE', *flags]
    made = {}
    headers = [path for place in ('apps/verify', 'apps/libweir', 'pktbuf/wire') for path in glob.glob(os.path.join(ROOT, place, '*.h'))]
    changed = max(map(os.path.getmtime, glob.glob(os.path.join(HERE, '*.[ch]*')) + verify + headers))

    def run(*words):
        path = words[words.index('-o') + 1]
        if os.path.exists(path) and os.path.getmtime(path) > changed:
            return
        words = [word if word != path else path + '.new' for word in words]
        done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if done.returncode != 0:
            raise RackError('%s\n%s' % (' '.join(words), done.stdout))
        os.replace(path + '.new', path)

    if 'openmpi' in wanted and shutil.which('mpicc.openmpi') and shutil.which('mpirun.openmpi'):
        made['Open MPI'] = os.path.join(folder, 'compare-openmpi')
        run('mpicc.openmpi', *c, '-o', made['Open MPI'], *loop, own['bench_mpi.c'], '-lm')
    if 'gloo' in wanted and shutil.which('g++') and os.path.exists('/usr/include/gloo/allreduce.h'):
        made['Gloo'] = os.path.join(folder, 'compare-gloo')
        compiled = made['Gloo'] + '-bench.o'
        run('gcc', *c, '-r', '-o', compiled, *loop)
        run('g++', *flags, '-o', made['Gloo'], compiled, own['bench_gloo.cc'], '-lgloo', '-lpthread')
    if 'torch' in wanted and importlib.util.find_spec('torch'):
        made['PyTorch'] = os.path.join(folder, 'compare-torch.so')
        run('gcc', *c, '-shared', '-fPIC', '-o', made['PyTorch'], *loop, own['bench_torch.c'], '-lm')
    for name in wanted:
        if OTHERS[name] not in made:
            say('%s is not installed' % OTHERS[name])
    return made

