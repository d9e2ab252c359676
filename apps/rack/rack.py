#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rack on one machine: hosts and a switch in network namespaces of their own.

    with Rack(hosts=4, jobs=[job(1, 4)]) as rack:
        rack.start_switch()
        runs = [rack.perf(i, 1, '-b', '4096', '-e', '4096') for i in range(4)]
        for run in runs:
            run.wait(30)
        rack.stop_switch()

Host i has the interface `eth0` with the address 10.77.0.(i+1)/24; its other end is `p<i>` in the
switch's namespace, where weir-switch opens it as a DPDK port. The demo, the measuring
programs and the functional tests use this module.

Every wait has a bound. A rack ends only processes that it started, and always removes its
namespaces: at the end of `with`, at exit, on SIGINT, SIGTERM and SIGHUP. The next rack removes
what a killed process left, or this command:

    rack.py sweep
"""
import atexit
import contextlib
import ctypes
import hashlib
import http.client
import json
import math
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PREFIX = 'weir'
NETNS = '/run/netns'
DPDK = '/run/dpdk'
SOCKETS = '/run/weir'
SWITCH_ADDRESS = '10.77.0.254'
SWITCH_MAC = '02:77:00:00:00:fe'
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
CAP_SYS_ADMIN = 21
PR_SET_PDEATHSIG = 1
BURST = 20_000  # bytes that a limited link may send at once: two frames
QUEUE = 2_000_000  # bytes that wait before a limited link; more are lost
FRAMES_LEAST = 128  # of a ring
BUSY_SECONDS = 300  # the least bound of a wait: the machine may be busy
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

libc = ctypes.CDLL(None, use_errno=True)
live = []  # racks that are up, for atexit


class RackError(Exception):
    """An error, with the last lines of the log."""


def tail(path, lines=25, start='    '):
    """The last lines of a file, indented."""
    try:
        with open(path, errors='replace') as file:
            return '\n'.join(start + line.rstrip() for line in file.readlines()[-lines:])
    except OSError as error:
        return '%s(%s)' % (start, error)


def command(argv, given='', seconds=BUSY_SECONDS):
    """Run a command to its end; given: its input. Returns its output; raises RackError if it fails."""
    done = subprocess.run(argv, input=given, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=seconds)
    if done.returncode != 0:
        raise RackError('%s: exit status %d: %s' % (' '.join(argv), done.returncode,
                                                   done.stdout.strip()))
    return done.stdout


def ip(*commands, options=()):
    """Run ip commands, each a string, in one process."""
    command(['ip', *options, '-batch', '-'], '\n'.join(commands) + '\n')


def owner(name):
    """The pid in a name that a rack gave, weir-<pid>-<number>[-<place>], or a test of EAL,
    weir_<what>_<pid>, or a bench's switch and folder, weir-bench-<pid>[-<name>], or of a socket, weir-<pid>-<number>.sock;
    None for other names.
    """
    found = re.fullmatch(r'weir-(\d+)-\d+(?:-\w+)?(?:\.sock(?:\.lock)?)?|weir(?:-bench-|(?:_[a-z]+)*_)(\d+)(?:-\w+)?',
                         name)
    return int(found.group(1) or found.group(2)) if found else None


def abandoned(name):
    """Does this belong to a process that has ended? An earlier one may have had our pid."""
    pid = owner(name)
    if pid == os.getpid():
        return not any(name.startswith(rack.name) for rack in live)
    return pid is not None and not os.path.exists('/proc/%d' % pid)


def remove(path):
    """A file that may be gone already."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def sweep():
    """Remove the leftovers of ended processes. Returns the names."""
    gone = []
    for folder in (NETNS, DPDK, SOCKETS, tempfile.gettempdir()):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if not abandoned(name):
                continue
            if folder == NETNS:
                subprocess.run(['ip', 'netns', 'del', name], check=False, timeout=BUSY_SECONDS,
                               stderr=subprocess.DEVNULL)
            elif folder == SOCKETS:
                remove(os.path.join(folder, name))
            else:
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
            gone.append(os.path.join(folder, name))
    return gone


def need_root():
    """Namespaces need root. Without it, this process becomes root of a user namespace, with a network and a /run of its own, for
    the files of `ip` and EAL; as root of a user namespace already (unshare -Urn), it keeps that. Call it while there is one
    thread. Raises RackError where the kernel does not let it."""
    with open('/proc/self/status') as file:
        is_root = int(re.search(r'^CapEff:\t(\w+)', file.read(), re.M).group(1), 16) >> CAP_SYS_ADMIN & 1
    with open('/proc/self/uid_map') as file:
        if is_root and file.read().split() == ['0', '0', str(2 ** 32 - 1)]:
            return
    maps = {} if is_root else {'setgroups': 'deny', 'uid_map': '0 %d 1' % os.geteuid(), 'gid_map': '0 %d 1' % os.getegid()}
    try:
        if libc.unshare((0 if is_root else CLONE_NEWUSER) | CLONE_NEWNS | CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), 'unshare')
        for name, text in maps.items():
            with open('/proc/self/' + name, 'w') as file:
                file.write(text)
        command(['mount', '--make-rprivate', '/'])
        command(['mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/run'])
    except (OSError, RackError) as error:
        raise RackError('no network namespaces: %s; be root, or let the kernel give users namespaces (docs/faults.md, "In your CI")' %
                        error) from None
    Rack.rootless = True
    most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))


class Api(http.client.HTTPConnection):
    """A connection to the control API on a Unix socket."""

    def __init__(self, path, seconds=60):
        super().__init__('weir', timeout=seconds)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # While the listener's queue is full, connect() waits for so long; with settimeout() it would fail at once.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', math.ceil(self.timeout), 0))
        self.sock.connect(self.path)
        self.sock.settimeout(self.timeout)

    def ask(self, method, target, body=None):
        """The body of the answer, from JSON or as text; raises RackError unless the answer is a success. While a worker has
        no CPU to take a change, asks again."""
        until = time.monotonic() + BUSY_SECONDS
        while True:
            status, content = self._ask(method, target, body)
            error = content.get('error', {}) if isinstance(content, dict) else {}
            if status != 503 or 'worker' not in str(error.get('message')) or time.monotonic() > until:
                break
            time.sleep(0.05)
        if status >= 300:
            raise RackError('%s %s: %d %s' % (method, target, status, ': '.join(
                filter(None, (error.get('key'), error.get('message'))))))
        return content

    def _ask(self, method, target, body):
        """The status of the answer, and its body."""
        try:
            self.request(method, target, body=None if body is None else json.dumps(body),
                         headers={} if body is None else {'Content-Type': 'application/json'})
            answer = self.getresponse()
            content = answer.read().decode()
            if 'json' in answer.getheader('Content-Type', ''):
                content = json.loads(content)
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            raise RackError('%s %s: %s' % (method, target, error)) from None
        return answer.status, content


def others_of(session):
    """The processes of a session, but for its leader, that have not ended."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError), open('/proc/%s/stat' % pid) as file:
            state, _, _, found = file.read().rpartition(')')[2].split()[:4]
            if int(found) == session != int(pid) and state not in 'ZX':
                yield int(pid)


class Process:
    """A process in a namespace of the rack (place None: in this one), its output in a file. What it started ends with it, unless
    that has a session of its own."""

    def __init__(self, rack, place, argv, name, env=None):
        self.name, self.argv = name, argv
        self.log = os.path.join(rack.folder, name + '.log')
        self.began = time.monotonic()
        self.signalled = False
        parent = os.getpid()

        def tie():
            # It dies with its parent, even if that is killed.
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        # A session of its own, as if on a machine of its own. Linux divides a CPU among sessions first
        # (sched_autogroup), and a session that has both processes that nap and processes that compute can keep all
        # others off the CPUs for a minute (Linux 6.18).
        with open(self.log, 'wb') as out:
            self.popen = subprocess.Popen(
                ([] if place is None else ['ip', 'netns', 'exec', rack.namespace(place)]) + argv, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, preexec_fn=tie, env=env, start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    @property
    def status(self):
        """The exit status, negative for a signal; None while it runs."""
        with contextlib.suppress(ChildProcessError):
            if self.popen.returncode is None and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._end_session()
        return self.popen.poll()

    def _end_session(self):
        """Before the leader is reaped: later its number may be another's."""
        until = time.monotonic() + BUSY_SECONDS
        while others := list(others_of(self.pid)):
            if time.monotonic() > until:
                raise RackError('%s: process %d does not end' % (self.name, others[0]))
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    @property
    def output(self):
        with open(self.log, errors='replace') as file:
            return file.read()

    def end(self, seconds):
        """Wait for the end. Returns the exit status; raises RackError when it takes longer."""
        seconds = max(seconds, BUSY_SECONDS)
        until = time.monotonic() + seconds
        while self.status is None:
            if time.monotonic() > until:
                raise RackError('%s: still running after %g s\n%s' % (self.name, seconds, tail(self.log)))
            time.sleep(0.01)
        return self.status

    def wait(self, seconds, status=0):
        """Wait for the end and for this exit status. Returns the output."""
        found = self.end(seconds)
        if found != status:
            raise RackError('%s: exit status %d, not %d: %s\n%s' % (
                self.name, found, status, ' '.join(self.argv), tail(self.log)))
        return self.output

    def wait_line(self, line, seconds):
        """Wait until a line of the output begins with this."""
        seconds = max(seconds, BUSY_SECONDS)
        until = time.monotonic() + seconds
        while True:
            ended = self.status is not None
            if any(text.startswith(line) for text in self.output.splitlines()):
                return
            if ended:
                raise RackError('%s: ended with status %d before it said "%s"\n%s' % (
                    self.name, self.status, line, tail(self.log)))
            if time.monotonic() > until:
                raise RackError('%s: did not say "%s" within %g s\n%s' % (
                    self.name, line, seconds, tail(self.log)))
            time.sleep(0.01)

    def signal(self, number):
        """SIGKILL, SIGSTOP and SIGCONT go to the process group."""
        if self.status is None:
            self.signalled = True
            (os.killpg if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT) else os.kill)(self.pid, number)

    def kill(self):
        if self.status is None:
            self.signal(signal.SIGKILL)
            self.end(BUSY_SECONDS)


def job(number, sources, first=0, **options):
    """A job's configuration: `sources` hosts from host `first` on, source i on host first + i."""
    made = {
        'id': number,
        'name': 'job%d' % number,
        'sources': [{'id': i, 'address': '10.77.0.%d' % (first + i + 1)} for i in range(sources)],
        'window': 64,
        'elements': 256,
        'timeout_ms': 1000,
    }
    made.update(options)
    return made


class Rack:
    """Hosts, links and a switch. A context manager; see the top of the file.

    build: the build directory. hosts: [1, 250]. mtu: of every link, bytes. offload: whether hosts
    leave checksums to an interface that does not exist (a veth's default); the switch then
    sees wrong checksums, so it is off. limited: links may have a rate (limit()).
    """

    count = 0
    switch_address, switch_mac, prefix = SWITCH_ADDRESS, SWITCH_MAC, 24
    limited = False
    holds = False  # whether the switch may hold frames in the end, to hosts that are gone
    first_cpu = 0  # of the first worker, among the CPUs of this process
    nap_us = 50  # of a worker that finds nothing
    rootless = False  # other processes do not see its /run (need_root)

    def __init__(self, build=None, hosts=2, mtu=1500, jobs=(), workers=1, threads=20,
                 changes=None):
        self.build = os.path.abspath(build or os.environ.get('WEIR_BUILD') or
                                     os.path.join(ROOT, 'build'))
        self.hosts, self.mtu = hosts, mtu
        self.jobs, self.workers, self.threads = list(jobs), workers, threads
        self.changes = changes or {}
        Rack.count += 1
        self.name = '%s-%d-%d' % (PREFIX, os.getpid(), Rack.count)
        self.folder = os.path.join(tempfile.gettempdir(), self.name)
        self.stats_file = os.path.join(self.folder, 'stats.json')
        self.processes, self.numbers, self.runtimes = [], {}, set()
        self.keys = {}  # of sources that joined over the API: (job, source): bytes
        self.sockets = set()
        self.switch = None

    # -- namespaces and links

    def namespace(self, place):
        """place: 'sw' or a host's number."""
        return '%s-%s' % (self.name, place if place == 'sw' else 'h%d' % place)

    def at(self, host):
        """The rack of a host and its number there: more than one rack in a `Tree`."""
        return self, host

    def places(self):
        return ['sw'] + list(range(self.hosts))

    @staticmethod
    def address(host):
        return '10.77.0.%d' % (host + 1)

    @staticmethod
    def mac(host):
        return '02:77:00:00:00:%02x' % (host + 1)

    def __enter__(self):
        sweep()
        catch_signals()
        live.append(self)
        try:
            os.mkdir(self.folder)
            self._lay_cables()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, *_):
        for process in self.processes if kind else ():
            if (process.status or 0) < 0 and not process.signalled:
                print('# %s: ended by signal %d\n%s' % (process.name, -process.status, tail(process.log, start='#     ')), flush=True)
        self.close()

    def _lay_cables(self):
        ip(*['netns add %s' % self.namespace(p) for p in self.places()])
        for place in self.places():
            with self.inside(place):
                # The kernel's own packets would make counters depend on timing.
                for key in ('all', 'default'):
                    path = '/proc/sys/net/ipv6/conf/%s/disable_ipv6' % key
                    if os.path.exists(path):
                        with open(path, 'w') as file:
                            file.write('1')
        switch = self.namespace('sw')
        ip(*['link add p%d netns %s mtu %d type veth peer name eth0 netns %s mtu %d address %s' % (
            p, switch, self.mtu, self.namespace(p), self.mtu, self.mac(p))
            for p in range(self.hosts)])
        for place in self.places():
            if place == 'sw':
                # The kernel here would answer ARP for its TAP interface's address on any of them.
                self._ip_in(place, 'link set lo up',
                            *['link set p%d arp off up' % p for p in range(self.hosts)])
            else:
                self._ip_in(place, 'link set lo up',
                            'address add %s/%d dev eth0' % (self.address(place), self.prefix), 'link set eth0 up')
                self.call(place, ['ethtool', '-K', 'eth0', 'tx', 'off'])

    def _ip_in(self, place, *commands):
        ip(*commands, options=('-n', self.namespace(place)))

    @contextlib.contextmanager
    def inside(self, place):
        """Put this thread into a namespace; a socket opened there stays there."""
        with open('/proc/thread-self/ns/net') as home, \
                open(os.path.join(NETNS, self.namespace(place))) as there:
            if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                raise RackError('setns: %s' % os.strerror(ctypes.get_errno()))
            try:
                yield
            finally:
                libc.setns(home.fileno(), CLONE_NEWNET)

    # -- processes

    def call(self, place, argv, seconds=BUSY_SECONDS):
        """Run a command to its end. Returns its output."""
        return command(['ip', 'netns', 'exec', self.namespace(place)] + argv, seconds=seconds)

    def spawn(self, place, argv, name=None, env=None):
        """Start a process; a switch in a session of its own. Returns a Process."""
        name = name or os.path.basename(argv[0])
        number = self.numbers[name] = self.numbers.get(name, 0) + 1
        process = Process(self, place, argv, '%s-%s-%d' % (name, place, number), env)
        self.processes.append(process)
        return process

    def ping(self, host, address, count=3, interval=0.2, background=False):
        """Ping from a host; every reply has to come, within 60 s each."""
        process = self.spawn(host, ['ping', '-n', '-c', str(count), '-i', str(interval), '-W', '60',
                                    address], 'ping')
        if background:
            return process
        return process.wait(count * (interval + 60) + 5)

    def limit(self, place, interface, rate):
        """Limit what an interface sends to a rate in Mbit/s. Of a port of the switch: only in a `limited` rack."""
        self.call(place, ['tc', 'qdisc', 'replace', 'dev', interface, 'root', 'tbf', 'rate', '%dmbit' % rate,
                          'burst', str(BURST), 'limit', str(QUEUE)])

    def wire(self, place, interface='eth0'):
        """What an interface carried: the kernel's rx_bytes, tx_packets and so on."""
        found = json.loads(command(['ip', '-n', self.namespace(place), '-s', '-j', 'link', 'show',
                                    'dev', interface]))[0]['stats64']
        return {'%s_%s' % (way, key): found[way][key]
                for way in ('rx', 'tx') for key in ('bytes', 'packets')}

    # -- the switch

    def program(self, name, build=None):
        """build: instead of the rack's; a build directory or where Weir is installed."""
        places = [os.path.join(build or self.build, *path) for path in (('apps', *name), ('bin', name[-1]))]
        path = next(filter(os.path.exists, places), None)
        if path is None:
            raise RackError('%s is not built' % places[0])
        return path

    @property
    def switch_name(self):
        """In its configuration; racks beside each other have different ones."""
        return self.name[len(PREFIX) + 1:]

    def config(self):
        """The switch's configuration; `changes` replace or, where both are objects, merge."""
        cpus = sorted(os.sched_getaffinity(0))
        made = {
            # DPDK's file prefix is weir-NAME: racks beside each other need their own.
            'switch': {'name': self.switch_name, 'address': '%s/%d' % (self.switch_address, self.prefix),
                       'mac': self.switch_mac},
            'eal': ['--no-huge', '--no-pci', '--no-telemetry', '--no-shconf'],
            'memory_mb': 256,
            'workers': {'count': self.workers,
                        'cpus': [cpus[(self.first_cpu + i) % len(cpus)] for i in range(self.workers)],
                        # Workers that share a CPU nap longer, so that hosts get the rest of it.
                        'threads': self.threads, 'idle': 'sleep', 'idle_sleep_us': self.nap_us * max(1, self.workers // len(cpus))},
            'exception': {'interface': 'weir0'},
            'ports': self.ports(),
            'jobs': self.jobs,
        }

        def merge(into, changes):
            for key, value in changes.items():
                if isinstance(value, dict) and isinstance(into.get(key), dict):
                    merge(into[key], value)
                else:
                    into[key] = value

        if os.environ.get('WEIR_BATCH'):
            made['workers']['batch'] = int(os.environ['WEIR_BATCH'])
        merge(made, self.changes)
        return made

    def ports(self):
        return [{'name': 'p%d' % p, 'device': self.device(p)} for p in range(self.hosts)]

    def device(self, port, interface=None):
        """A veth end as a DPDK device; a ring's frame holds the MTU and some headers."""
        frame, block = (2048, 4096) if self.mtu <= 1500 else (9216, 36864)
        # A queueing discipline, which has the rate, must not be bypassed.
        return 'net_af_packet%d,iface=%s,framesz=%d,blocksz=%d,framecnt=%d,qdisc_bypass=%d' % (
            port, interface or 'p%d' % port, frame, block, self.frames(frame), not self.limited)

    def frames(self, bytes_):
        """How many of these a ring of a port holds; root may lock memory without a limit. Each port has two rings."""
        may, frames = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], 1024
        while self.rootless and may != resource.RLIM_INFINITY and 2 * frames * bytes_ > may:
            frames //= 2
        if frames < FRAMES_LEAST:
            raise RackError('without root, the rings of a port need locked memory of %d KiB, not %d: raise "ulimit -l" (memlock in '
                            'limits.conf)' % (2 * FRAMES_LEAST * bytes_ >> 10, may >> 10))
        return frames

    def write_config(self, text=None, name='switch.json'):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as file:
            file.write(text if text is not None else json.dumps(self.config(), indent=1) + '\n')
        return path

    def start_switch(self, path=None, seconds=30, wait=True):
        """Start weir-switch and wait until it is up, or leave the waiting to wait_switch()."""
        path = path or self.write_config()
        with open(path) as file:
            config = json.load(file)
        # EAL's folder and the sockets, which a switch that is killed leaves behind.
        self.runtimes.add(os.path.join(DPDK, 'weir-' + config['switch']['name']))
        self.sockets.update(w[len('unix:'):] for w in config.get('api', {}).get('listen', [])
                            if w.startswith('unix:'))
        self.switch = self.spawn('sw', [
            self.program(('switch', 'weir-switch')), '-c', path,
            '--stats-file', self.stats_file], 'switch')
        if wait:
            self.wait_switch(seconds)
        return self.switch

    def wait_switch(self, seconds=30):
        self.switch.wait_line('weir-switch: ready', seconds)

    def read_stats(self, seconds=BUSY_SECONDS):
        """Ask the running switch for its statistics."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.stats_file)
        self.switch.signal(signal.SIGUSR1)
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.switch.status is None:
            try:
                with open(self.stats_file) as file:
                    return json.load(file)
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.01)
        raise RackError('%s: no statistics within %g s\n%s' % (self.switch.name, seconds,
                                                               tail(self.switch.log)))

    def stats_at_rest(self, seconds=BUSY_SECONDS):
        """Statistics when nothing moves: two reads alike, nothing in flight, and between them each worker has looked
        for packets. So the switch has taken all that was sent before the call."""
        until = time.monotonic() + seconds
        before, turns = None, []
        while True:
            now = self.read_stats()
            counts = {k: now[k] for k in ('received', 'created', 'sent', 'consumed', 'in_flight',
                                          'drops')}
            if counts != before or now['in_flight'] != 0:
                before, turns = counts, [worker['turns'] + 2 for worker in now['workers']]
            elif all(worker['turns'] > turn for worker, turn in zip(now['workers'], turns)):
                return now
            if time.monotonic() > until:
                raise RackError('the switch did not come to rest in %g s: %s' % (seconds, counts))
            time.sleep(0.02)

    @staticmethod
    def add_up(stats):
        """Raises RackError unless each packet has one end: packet conservation."""
        dropped = sum(stats['drops'].values())
        got = stats['received'] + stats['created']
        gone = stats['sent'] + stats['consumed'] + dropped + stats['in_flight']
        if got != gone:
            raise RackError('packets do not add up: received %d + created %d = %d, but sent %d + '
                            'consumed %d + dropped %d + in flight %d = %d' % (
                                stats['received'], stats['created'], got, stats['sent'],
                                stats['consumed'], dropped, stats['in_flight'], gone))

    def check_packets(self):
        """Packet conservation in the running switch, at rest. Returns the statistics."""
        now = self.stats_at_rest()
        self.add_up(now)
        return now

    def stop_switch(self, number=signal.SIGTERM, seconds=20):
        """Stop weir-switch: it must return everything, say so last, and its counters must add up.

        Returns its last statistics.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.stats_file)
        self.switch.signal(number)
        output = self.switch.wait(seconds)
        last = (output.splitlines() or [''])[-1]
        if last != 'weir-switch: stopped, everything returned':
            raise RackError('%s: last line is "%s"\n%s' % (self.switch.name, last,
                                                          tail(self.switch.log)))
        try:
            with open(self.stats_file) as file:
                final = json.load(file)
        except (OSError, json.JSONDecodeError) as error:
            raise RackError('%s: no last statistics: %s' % (self.switch.name, error)) from None
        self.add_up(final)
        lost = {k: v for k, v in final['leaks'].items() if v != 0}
        if lost or final['in_flight'] != 0 and not self.holds:
            raise RackError('%s: leaked %s, %d in flight' % (self.switch.name, lost,
                                                             final['in_flight']))
        self.switch = None
        return final

    # -- the hosts

    def transfer(self, sender, receiver, size, seconds=BUSY_SECONDS):
        """Send random bytes over TCP from host to host, by the kernel's stack. Returns both ends' sha256."""
        with self.inside(receiver):
            listener = socket.create_server((self.address(receiver), 0))
        listener.settimeout(seconds)
        data, seen = os.urandom(size), []

        def receive():
            try:
                connection, _ = listener.accept()
                connection.settimeout(seconds)
                with connection, connection.makefile('rb') as stream:
                    seen.append(hashlib.file_digest(stream, 'sha256').hexdigest())
            except OSError as error:
                seen.append(str(error))

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        with self.inside(sender):
            connection = socket.socket()
        with connection, listener:
            connection.settimeout(seconds)
            connection.connect((self.address(receiver), listener.getsockname()[1]))
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            thread.join(seconds)
        return hashlib.sha256(data).hexdigest(), seen[0] if seen else 'the receiver did not end'

    def key_options(self, number, source):
        """weir-perf's, for the key of a source, if there is one in `keys`."""
        key = self.keys.get((number, source))
        if key is None:
            return []
        path = os.path.join(self.folder, 'source-%d-%d.key' % (number, source))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as file:
            file.write(key.hex())
        return ['--source-key', '--key-file', path]

    def perf(self, host, number, *options, source=None, build=None):
        """Start weir-perf, of another build perhaps, on a host for a job; its report is in the process's `json`."""
        source = host if source is None else source
        sources = [j['tree']['ranks'] if 'tree' in j else j['sources']['count'] if isinstance(j['sources'], dict) else
                   len(j['sources']) for j in self.jobs if j['id'] == number]
        report = os.path.join(self.folder, 'perf-%d-%d-%d.json' % (number, source,
                                                                  len(self.processes)))
        process = self.spawn(host, [
            self.program(('perf', 'weir-perf'), build), '--switch', self.switch_address, '--job', str(number),
            '--source', str(source), '--address', self.address(host), '--json=' + report]
            + ['--sources=%d' % n for n in sources] + self.key_options(number, source)
            + [str(o) for o in options],
            'perf-job%d' % number)
        process.json = report
        return process

    # -- the end

    def close(self):
        """End the processes, remove namespaces and files. Idempotent, quick, never raises."""
        if self not in live:
            return
        held = [(s, signal.signal(s, signal.SIG_IGN)) for s in SIGNALS]
        try:
            for end in (lambda process: process.signal(signal.SIGKILL), Process.kill):
                for process in self.processes:
                    with contextlib.suppress(RackError):
                        end(process)
            subprocess.run(['ip', '-force', '-batch', '-'], text=True, check=False, timeout=BUSY_SECONDS,
                           input=''.join('netns del %s\n' % self.namespace(p)
                                         for p in self.places()
                                         if os.path.exists(os.path.join(NETNS,
                                                                        self.namespace(p)))),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if not os.environ.get('WEIR_KEEP'):
                shutil.rmtree(self.folder, ignore_errors=True)
            for runtime in self.runtimes:
                shutil.rmtree(runtime, ignore_errors=True)
            for path in self.sockets:
                remove(path)
                remove(path + '.lock')
            live.remove(self)
        finally:
            for number, handler in held:
                signal.signal(number, handler)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def catch_signals():
    """A signal unwinds the stack, so that every `with` closes."""
    def leave(number, _frame):
        raise SystemExit(128 + number)

    for number in SIGNALS:
        # A shell's background job ignores SIGINT; here it ends the rack. SIGHUP stays ignored under
        # nohup.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)


@atexit.register
def close_all():
    for rack in list(live):
        rack.close()


def main():
    if sys.argv[1:] != ['sweep']:
        sys.exit(__doc__)
    for name in sweep():
        print('rack: removed %s' % name)


if __name__ == '__main__':
    main()
