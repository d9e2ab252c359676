#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The whole switch over real ports, beside dpdk-testpmd on the same frames, with one generator (traffic.c). It checks
every result of the switch, and testpmd's frames by their headers alone. Where it has time to spare beside both, a ratio is
that of the devices. Where it has none beside testpmd, testpmd's rate is that of the generator, and the ratio flatters the
switch; such rows are marked.

ports: rates in a closed loop. latency: from a block's last contribution to its first result, and of an ordinary frame of the
same size, both beside testpmd with as many frames per second of that size, of which as many are samples. rfc2544: the
highest rate without loss, by bisection (RFC 2544, 26.1). Trials are far shorter than the RFC's 60 s unless --trial says
so; a trial that failed while others held a CPU is repeated.

The worker of each device has the last CPU, the generator the first, where the device's control thread sleeps. Both devices
live at once, and the device that is not measured is paused. Measurements come in pairs, of the switch and of testpmd, in
alternating order; the pair in the middle counts. The kernel counts how long the generator or the device waited for a CPU
during a measurement: a disturbed pair is measured again, some times.
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

from report import HERE, Column, Parser, Report, number, number_in, numbers, program, scheduled, span

sys.path[:0] = [os.path.join(HERE, '..', place) for place in ('rack', 'faults')]  # in the source, and installed

from rack import Process, RackError, catch_signals, sweep, tail  # noqa: E402

SOURCES_MAX, WINDOW_MAX = 64, 4096  # of traffic.c
FRAME_MOST = 1514
HEAD = 58  # bytes of a contribution without elements, with frame check sequence
WIRE_EXTRA = 24  # of Ethernet: frame check sequence, preamble, gap
MEMORY_MB = 96  # of each: generator, switch, testpmd
START_SECONDS = 10
TRIES = 6
RETRIES = 2  # times as many pairs
LIMIT = 0.03  # a pair that is disturbed more is measured again
BUSY = 0.05  # a generator with less idle time is the limit, not the device
UNLOADED = 100000  # frames per second: one at a time
PHASES = 4  # of --phase for latencies: tails need samples
KEPT_RATE = 0.98  # a trial at less than this share of its schedule does not count
RATE_LEAST = 1000  # below, nothing passes
SWITCH, TESTPMD = 0, 1  # devices
NAMES = ('weir-switch', 'dpdk-testpmd')


def options(bench, words):
    parser = Parser(bench)
    if bench != 'rfc2544':
        parser.add_argument('--elements', type=numbers(1 if bench == 'ports' else 4, 2000), default='1024,256,64', metavar='LIST',
                            help='elements of a contribution, fp32')
    if bench != 'latency':
        parser.add_argument('--frames', type=numbers(64, 1518), default='64,128,256,512,1024,1280,1518', metavar='LIST',
                            help='bytes of a frame, with check sequence')
    if bench == 'latency':
        parser.add_argument('--loads', type=numbers(0, 200), default='0,50,80,95', metavar='LIST',
                            help="frames offered, percent of the switch's capacity; 0: %d per second" % UNLOADED)
    if bench == 'rfc2544':
        parser.add_argument('--trial', dest='trial_ms', type=span('ms', 1, 60000), default='20ms', metavar='TIME', help='length of a trial')
        parser.add_argument('--resolution', type=number(0.1, 50, float), default=2, metavar='PERCENT',
                            help='end the search when the rate is known to this percentage')
    parser.add_argument('--sources', type=number(2, SOURCES_MAX), default=8, metavar='N', help='sources of the job')
    parser.add_argument('--window', type=number(1, WINDOW_MAX), default=64, metavar='N', help='blocks in flight, a power of two')
    devices = parser.add_argument_group('Devices')
    devices.add_argument('--slots', type=number(64, 16384), default=512, metavar='N',
                         help='slots of a ring of memif, a power of two')
    devices.add_argument('--idle', choices=('spin', 'yield', 'sleep'), default='spin',
                         help="what the switch's worker does without work")
    devices.add_argument('--rx-checksum', choices=('software', 'off'), default='software',
                         help='whether the switch verifies the checksums of contributions')
    devices.add_argument('--switch', metavar='PATH', default=program('switch', NAMES[SWITCH]), help='weir-switch')
    parser.common()
    chosen = parser.parse_args(words)
    for name in ('window', 'slots'):
        if getattr(chosen, name) & (getattr(chosen, name) - 1):
            parser.error('--%s must be a power of two' % name)
    # All three are on huge pages, or none.
    if chosen.huge == 'auto' and number_in('/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages') < 3 * MEMORY_MB // 2:
        chosen.huge = 'no'
    return chosen


class Devices:
    """The switch, with two jobs of `elements` or none, and testpmd, and the generator between two memif ports of each.

    The generator is the server, the device the client, whose memory holds the rings. A frame lies in one slot: `bsize` and
    all mbufs are as large as the largest frame. The fast paths of the driver need exactly that, and DPDK 22.11 copies a
    segment of a chain past the end of a smaller slot.
    """

    def __init__(self, chosen, elements, frame_bytes):
        self.chosen, self.elements = chosen, elements
        self.cpus = sorted(os.sched_getaffinity(0))
        # At least what DPDK's mbufs have: short frames have no advantage.
        self.buffer = max(2048, (frame_bytes + 127) // 128 * 128)
        self.devices, self.generator = [], None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='weir-bench-%d-' % os.getpid())
        try:
            ends = [self.ends(device, port) for device in (SWITCH, TESTPMD) for port in range(2)]
            self.generator = subprocess.Popen(
                [program('bench', 'weir-bench'), 'traffic', '--buffer', str(self.buffer), '--huge', self.chosen.huge,
                 *(ours for ours, _ in ends)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.ask('up', SWITCH)  # it listens now
            for device, argv in enumerate((self.switch_command(ends[:2]), self.testpmd_command(ends[2:]))):
                self.devices.append(Process(self, None, argv, NAMES[device]))
                self.wait(device)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.resume(SWITCH)
                self.devices[SWITCH].signal(signal.SIGTERM)
                self.devices[SWITCH].wait(START_SECONDS)  # only the switch checks its counters at its end
        finally:
            self.close()

    def close(self):
        for process in self.devices:
            process.kill()
        if self.generator:
            self.generator.kill()
            self.generator.communicate()
        sweep()

    def ends(self, device, port):
        """Arguments of the generator's end and of the device's. An abstract socket leaves no file."""
        both = 'id=%d,bsize=%d,rsize=%d,socket-abstract=yes,socket=weir_%d_%d' % (
            port, self.buffer, self.chosen.slots.bit_length() - 1, os.getpid(), device)
        return 'net_memif_g%dp%d,role=server,%s' % (device, port, both), 'net_memif%d,role=client,%s' % (port, both)

    def switch_command(self, ends):
        eal = ['--no-pci', '--no-shconf', '--no-telemetry']
        made = {
            'switch': {'name': 'bench-%d' % os.getpid(), 'address': '10.77.0.254/16'}, 'memory_mb': MEMORY_MB,
            'eal': eal + (['--no-huge'] if self.chosen.huge == 'no' else ['--in-memory', '--single-file-segments']),
            'workers': {'count': 1, 'cpus': [self.cpus[-1]], 'main_cpu': self.cpus[0], 'idle': self.chosen.idle},
            'pools': {'frame_bytes': self.buffer},
            'ports': [{'name': 'p%d' % p, 'device': theirs, 'rx_checksum': self.chosen.rx_checksum}
                      for p, (_, theirs) in enumerate(ends)],
            'jobs': [{'id': 1 + i, 'name': 'job%d' % i, 'sources': {'count': self.chosen.sources, 'first': '10.77.1.0'},
                      'window': self.chosen.window, 'elements': self.elements, 'generation': 7, 'timeout_ms': 60000,
                      'results': results} for i, results in enumerate(('unicast', '239.77.0.1')) if self.elements]}
        path = os.path.join(self.folder, 'switch.json')
        with open(path, 'w') as file:
            json.dump(made, file)
        return [self.chosen.switch, '-c', path]

    def testpmd_command(self, ends):
        """io: what its engine is at its fastest; frames are not touched. Without --stats-period it ends with its input."""
        return ['dpdk-testpmd', '--lcores', '0@%d,1@%d' % (self.cpus[0], self.cpus[-1]), '--no-pci', '--no-shconf', '--no-telemetry',
                '-m', str(MEMORY_MB), '--file-prefix', 'weir_testpmd_%d' % os.getpid(), *('--vdev=' + theirs for _, theirs in ends),
                *(['--no-huge'] if self.chosen.huge == 'no' else ['--in-memory', '--single-file-segments']), '--',
                '--forward-mode=io', '--port-topology=paired', '--nb-cores=1', '--total-num-mbufs=4096', '--burst=32',
                '--stats-period=65534', '--disable-link-check', '--no-lsc-interrupt', '--mbuf-size=%d' % (self.buffer + 128)]

    def ask(self, command, device, *words):
        """What the generator answers to a command."""
        try:
            print(command, device, *words, file=self.generator.stdin, flush=True)
            answer = self.generator.stdout.readline().split()
        except BrokenPipeError:
            answer = []
        if not answer and self.generator.wait(60) == 2:
            sys.exit(2)  # it has said why it can't run here
        if not answer:
            raise RackError('the generator has ended')
        if answer == ['failed']:
            self.blame(device, 'measures nothing')
        return [None if word == 'nan' else float(word) for word in answer]

    def wait(self, device):
        """Until the device's ports see ours and it forwards; then pause it."""
        until = time.monotonic() + START_SECONDS
        while self.devices[device].status is None and time.monotonic() < until:
            if self.ask('up', device) == [1]:
                time.sleep(0.01)  # more probes are in flight, and are ignored
                self.pause(device)
                return
            time.sleep(0.001)
        self.blame(device, 'does not forward')

    def blame(self, device, what):
        """Its statistics name the drops."""
        process = self.devices[device]
        lives = process.status is None
        if lives and device == SWITCH:
            self.resume(device)
            process.signal(signal.SIGUSR1)
            time.sleep(0.2)
        raise RackError('%s: %s; the process %s:\n%s' % (NAMES[device], what, 'lives' if lives else 'has ended', tail(process.log)))

    def pause(self, device):
        process = self.devices[device]
        process.signal(signal.SIGSTOP)
        # It ends or stops; it can delay neither.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, device):
        self.devices[device].signal(signal.SIGCONT)

    @contextlib.contextmanager
    def selected(self, device):
        """The device has the worker's CPU."""
        self.resume(device)
        yield
        self.pause(device)

    def make(self, device, elements, frame_bytes, multicast=False):
        """Its traffic from now on; elements 0: ordinary frames of so many bytes, without check sequence."""
        with self.selected(device):
            self.ask('make', device, self.chosen.sources if elements else 0, self.chosen.window, elements, frame_bytes,
                     int(multicast))

    # -- measurements: of a device, with at least `value`, `idle`, `lost` and `disturbed`, shares of the time

    def rate(self, device, ms):
        """A closed loop."""
        rate, idle, lost = self.ask('run', device, ms)
        return SimpleNamespace(value=rate, idle=idle, lost=lost, disturbed=0)

    def offer(self, device, rate, ms, each=1):
        """An open loop."""
        found, lost, samples, *quantiles = self.ask('offer', device, '%.10g' % rate, ms, each)
        return SimpleNamespace(rate=found, value=found, idle=1, lost=lost, disturbed=0, samples=int(samples),
                               quantiles=quantiles)

    def once(self, measure, device):
        """Measure, and judge how much others disturbed it."""
        pids = self.devices[device].pid, self.generator.pid
        with self.selected(device):
            before, began = sum(scheduled(pid, 1) for pid in pids), time.monotonic()
            found = measure(device)
            found.disturbed = max(found.disturbed, (sum(scheduled(pid, 1) for pid in pids) - before) / (time.monotonic() - began))
        return found

    def undisturbed(self, measure, device):
        """The first one that is not disturbed, or the last of some."""
        for _ in range(TRIES):
            found = self.once(measure, device)
            if found.disturbed <= LIMIT:
                break
        return found

    def pair(self, measure):
        """Of so many undisturbed pairs as --repeat says, or of the least disturbed of twice as many, the one whose ratio is
        in the middle."""
        pairs, repeat = [], self.chosen.repeat
        while sum(pair.disturbed <= LIMIT for pair in pairs) < repeat and len(pairs) < RETRIES * repeat:
            order = (SWITCH, TESTPMD) if len(pairs) % 2 == 0 else (TESTPMD, SWITCH)
            found = {device: self.once(measure, device) for device in order}
            pairs.append(Pair(found[SWITCH], found[TESTPMD]))
        pairs = sorted(pairs, key=lambda pair: pair.disturbed)[:repeat]
        pairs.sort(key=lambda pair: pair.ratio or 0)
        middle = pairs[len(pairs) // 2]
        # A loss is rarely in the pair in the middle.
        middle.lost = [sum(pair.lost[device] for pair in pairs) for device in (SWITCH, TESTPMD)]
        return middle

    def pair_of_rates(self, elements, frame_bytes, multicast=False):
        for device in (SWITCH, TESTPMD):
            self.make(device, elements, frame_bytes, multicast)
        return self.pair(lambda device: self.rate(device, self.chosen.phase_ms))


class Pair:
    """Measurements of the switch and of testpmd."""

    def __init__(self, switch, testpmd):
        self.switch, self.testpmd = switch, testpmd
        self.disturbed = max(switch.disturbed, testpmd.disturbed)
        self.lost = [switch.lost, testpmd.lost]
        self.bound = min(switch.idle, testpmd.idle) < BUSY  # the generator is the limit
        self.ratio = switch.value / testpmd.value if switch.value and testpmd.value else None

    def trust(self, chosen):
        """The last cells of a row: how far it can be trusted."""
        marks = (('*', self.disturbed > LIMIT), ('!', any(self.lost)), ('g', self.bound))
        return (*self.lost, self.disturbed > LIMIT, self.bound,
                ' '.join(mark for mark, has in marks if has), chosen.rx_checksum)

    def rates(self, chosen):
        return (self.ratio, 100 * self.switch.idle, 100 * self.testpmd.idle, *self.trust(chosen))


TRUST = [Column('lost', 'lost', '', 0, 5), Column('lost_testpmd', 'lost', 'tp.', 0, 5),
         Column('disturbed'), Column('generator_bound'), Column(None, '', left=True), Column('rx_checksum')]
RATES = [Column('ratio', 'ratio', '', 2), Column('idle', 'idle', '%', 1, 5), Column('idle_testpmd', 'idle', 'tp. %', 1), *TRUST]
RATE = [Column('rate_testpmd', 'testpmd', '1/s', 0, 10), Column('wire', 'wire', 'Gbit/s', 2)]
CONTRIBUTIONS = [
    Column('elements', 'elements'), Column('frame_bytes', 'frame', 'bytes'), Column('results', 'results', '', 0, 9),
    Column('rate', 'contrib', '1/s', 0, 10), RATE[0], Column('payload', 'payload', 'Gbit/s', 2), RATE[1],
    Column('wire_testpmd', 'testpmd', 'Gbit/s', 2), Column('sources'), Column('window'), *RATES]
FRAMES = [Column('frame_bytes', 'frame', 'bytes'), Column('rate', 'frames', '1/s', 0, 10), *RATE, *RATES]
QUANTILES = (('p50', 2), ('p99', 2), ('p99.9', 1), ('max', 1))
LATENCIES = [
    Column('elements', 'elements'), Column('frame_bytes', 'frame', 'bytes'), Column('what', 'what', '', 0, 7),
    Column('load_percent', 'load', '%'), Column('rate', 'frames', '1/s', 0, 9), Column('rate_testpmd'),
    Column('samples', 'samples'), *(column for name, digits in QUANTILES for column in (
        Column(name, name, 'us', digits, 7), Column(name + '_testpmd', 'testpmd', 'us', digits))), *TRUST]
LOSSLESS = [
    Column('frame_bytes', 'frame', 'bytes'), Column('what', 'what', '', 0, 7), Column('elements', 'elements'),
    Column('rate', 'frames', '1/s', 0, 10), *RATE, Column('wire_testpmd', 'testpmd', 'Gbit/s', 2), Column('ratio', 'share', '', 2),
    Column('sources'), Column('trial_ms'), *TRUST]


def contribution(elements):
    """Bytes of its frame, without check sequence."""
    return HEAD - 4 + 4 * elements


def ports(chosen, report):
    report.note('idle: of the generator, beside the switch and testpmd; lost: not back within 50 ms, in all measurements of the '
                'row')
    report.table(CONTRIBUTIONS)
    for n in chosen.elements:
        size = contribution(n)
        with Devices(chosen, n, size + 4) as devices:  # as large in the extended form
            for results in ('unicast', 'multicast'):
                pair = devices.pair_of_rates(n, size, results == 'multicast')
                one, other = pair.switch.value, pair.testpmd.value
                wire = (size + WIRE_EXTRA) * 8e-9
                report.row(n, size, results, one, other, one * n * 32e-9, one * wire, other * wire, chosen.sources, chosen.window,
                           *pair.rates(chosen))
    report.note('ordinary frames, port 0 to port 1, addresses learned; frame: with its check sequence')
    report.table(FRAMES)
    with Devices(chosen, 0, FRAME_MOST) as devices:
        for size in chosen.frames:
            pair = devices.pair_of_rates(0, size - 4)
            report.row(size, pair.switch.value, pair.testpmd.value, pair.switch.value * (size - 4 + WIRE_EXTRA) * 8e-9,
                       *pair.rates(chosen))


def latency(chosen, report):
    report.note("reduce: a block's last contribution in, its first result out; forward: an ordinary frame of the same size")
    report.note("load: of the switch's capacity in a closed loop, 0: %d frames per second; testpmd has as many frames", UNLOADED)
    report.note("counted from when a frame was due, with the generator's own time; p99.9 of 10000 samples at least; what is lost "
                'is among them')
    report.table(LATENCIES)
    for n in chosen.elements:
        size = contribution(n)
        with Devices(chosen, n, size + 4) as devices:
            for what in ('reduce', 'forward'):
                devices.make(SWITCH, n if what == 'reduce' else 0, size)
                devices.make(TESTPMD, 0, size)
                latency_rows(chosen, report, devices, n, what)


def latency_rows(chosen, report, devices, n, what):
    ms = chosen.phase_ms
    capacity = devices.undisturbed(lambda device: devices.rate(device, ms), SWITCH).value
    for load in chosen.loads:
        rate = capacity * load / 100 if load else UNLOADED

        def measure(device, rate=rate):
            """Beside blocks one of testpmd's frames in --sources is a sample, so that it has as many."""
            each = chosen.sources if (what, device) == ('reduce', TESTPMD) else 1
            until, lost = time.monotonic() + 2, 0
            while True:  # on a busy machine the device may not even run in a short time
                found = devices.offer(device, rate, PHASES * ms, each)
                lost += found.lost
                if found.samples or not found.rate or time.monotonic() > until:
                    break
            if not found.samples and found.rate:
                devices.blame(device, 'nothing comes through in time')
            found.value, found.lost, found.disturbed = found.quantiles[0], lost, 0 if found.samples else 1
            return found

        pair = devices.pair(measure)
        both = pair.switch, pair.testpmd
        report.row(n, contribution(n), what, load, both[0].rate, both[1].rate, both[0].samples,
                   *(one.quantiles[q] for q in range(len(QUANTILES)) for one in both), *pair.trust(chosen))


def passes(devices, device, rate, ms):
    """Does a rate pass: without loss, and offered in full? The first trial decides when it passes. A failure counts when it
    was undisturbed; after one, two trials must pass before a second one fails: a rate that loses frames now and then does
    not pass. Returns that, whether no trial was decisive, and whether the generator failed."""
    failures = successes = 0
    slow = False
    for _ in range(TRIES):
        found = devices.once(lambda d: devices.offer(d, rate, ms), device)
        if not found.lost and found.rate >= KEPT_RATE * rate:
            successes += 1
        else:
            failures += found.disturbed <= LIMIT
            slow = not found.lost
        if successes > failures or failures == 2:
            return successes > failures, False, slow
    return False, True, slow


def search(devices, device, chosen):
    """The highest rate that passes, to the resolution, as a measurement. No rate is too high to be tried first: open loop can
    beat what a window allows. A bound that nothing has failed at is tried itself, and raised when it passes."""
    low, high = 0, 1.3 * devices.undisturbed(lambda d: devices.rate(d, chosen.trial_ms), device).value
    failed = False
    found = SimpleNamespace(idle=1, lost=0, disturbed=0)
    while high >= RATE_LEAST:
        close = high - low <= chosen.resolution / 100 * high
        if close and failed:
            break
        rate = high if close else (low + high) / 2 if low else 0.7 * high
        passed, undecided, slow = passes(devices, device, rate, chosen.trial_ms)
        if passed:
            low, high = rate, 1.3 * high if close else high
        else:
            high, failed = rate, True
            found.disturbed, found.idle = int(undecided), int(not slow)
    found.value = low or None
    return found


def rfc2544(chosen, report):
    """False: no rate passed, and no disturbance was the reason."""
    report.note('highest rate without loss; trials of %d ms, to %g %%', chosen.trial_ms, chosen.resolution)
    report.note('forward: ordinary frames; reduce: contributions, every result comes back right; frame: with check sequence')
    report.table(LOSSLESS)
    right = True
    with Devices(chosen, (FRAME_MOST + 4 - HEAD) // 4, FRAME_MOST + 4) as devices:
        for what in ('forward', 'reduce'):
            for size in chosen.frames:
                n = (size - HEAD) // 4 if what == 'reduce' else 0
                size = HEAD + 4 * n if n else size  # whole elements: a frame may be some bytes shorter than given
                best = []
                for device in (SWITCH, TESTPMD):
                    devices.make(device, n, size - 4)
                    best.append(search(devices, device, chosen))
                    if best[-1].value is None:
                        print('weir-bench rfc2544: %s: frames of %d bytes (%s): no rate from %d per second on passes without loss%s'
                              % (NAMES[device], size, what, RATE_LEAST, ', but other processes disturbed the trials'
                                 if best[-1].disturbed else ''), file=sys.stderr)
                        right = right and bool(best[-1].disturbed)
                pair, rates = Pair(*best), [one.value for one in best]
                wire = [rate and rate * (size - 4 + WIRE_EXTRA) * 8e-9 for rate in rates]
                report.row(size, what, n, *rates, *wire, pair.ratio, chosen.sources, chosen.trial_ms, *pair.trust(chosen))
    return right


def main(bench, words):
    chosen = options(bench, words)
    if not shutil.which(NAMES[TESTPMD]):
        print('weir-bench %s: needs dpdk-testpmd: apt-get install dpdk-dev' % bench, file=sys.stderr)
        return 2
    catch_signals()
    report = Report(bench, chosen.json)
    report.note('%s: weir-switch beside dpdk-testpmd (io) over memif, %s pages; %d sources, window %d', bench,
                'small' if chosen.huge == 'no' else 'huge', chosen.sources, chosen.window)
    report.note('*: other processes took more than %.0f %% of the time, in repetitions, too; !: lost, a rate with losses is no '
                'capacity', 100 * LIMIT)
    report.note('g: the generator was idle for less than %.0f %%: it is the limit, and beside testpmd the ratio flatters the switch',
                100 * BUSY)
    try:
        right = {'ports': ports, 'latency': latency, 'rfc2544': rfc2544}[bench](chosen, report)
    except RackError as error:
        print('weir-bench %s: %s' % (bench, error), file=sys.stderr)
        right = False
    return report.close() or (1 if right is False else 0)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:]))
