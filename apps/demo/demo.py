#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rack in a minute: weir-switch, four hosts, and the gradients of ResNet-50, AllReduced.

    demo.py [BUILD]

Each host holds the 161 gradient tensors of ResNet-50 (25.6 M elements, 102 MB), random. They are
summed in the switch three times as fp32, then once more as int32, and every host compares every
element with sums that it computed itself. Meanwhile hosts ping each other and the switch, and two
of them hold an ordinary TCP transfer, all through the same switch. The last line is
`demo: verified`, or says what is wrong.
"""
import contextlib
import json
import math
import os
import re
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from rack import SOCKETS, SWITCH_ADDRESS, Rack, RackError, need_root  # noqa: E402 (the path comes first)

HOSTS = 4
MTU = 9000
JOB = 1
ITERATIONS = 3
TCP_BYTES = 20_000_000
QUIET_SECONDS = 70  # without progress: something hangs
RUN_SECONDS = 900  # of one run of weir-perf, however slow the machine
CONFIG = os.path.join(ROOT, 'configs', 'demo.json')
SHAPES = os.path.join(ROOT, 'configs', 'resnet50.shapes')

SLOW_SHARE = 0.9  # of the pings that are answered on a slow machine: queues overflow while the switch has no CPU

began = time.monotonic()
wrong = []
slow = threading.Event()  # the machine was found to be slow


def say(text):
    print('demo: [%5.1f s] %s' % (time.monotonic() - began, text), flush=True)


def expect(good, text):
    """Note a failure and go on: the demo reports all failures."""
    if not good:
        wrong.append(text)
        say('WRONG: ' + text)
    return good


def tensors():
    """The element counts of the model's tensors."""
    with open(SHAPES) as file:
        lines = [line.split('#')[0].split() for line in file]
    return [math.prod(int(n) for n in words[1:]) for words in lines if words]


def machine_is_slow():
    return 'this machine is slow (load %.1f on %d CPUs)' % (os.getloadavg()[0],
                                                         len(os.sched_getaffinity(0)))


def follow(run, progress, clock=time.monotonic, pause=time.sleep):
    """Print a process's output as it comes and wait for its end. Returns its exit status.

    progress: returns a number that changes while the run makes progress. A run may take longer than
    QUIET_SECONDS as long as it makes progress, and RUN_SECONDS at most.
    """
    start = looked = clock()
    before, shown = progress(), 0
    while True:
        ended = run.status is not None
        output = run.output
        complete = len(output) if ended else output.rfind('\n') + 1
        if complete > shown:
            print(output[shown:complete], end='', flush=True)
            shown = complete
        if ended:
            return run.status
        now = clock()
        if now - start > RUN_SECONDS:
            raise RackError('%s: still running after %d s; %s' % (run.name, now - start,
                                                                  machine_is_slow()))
        if now - looked > QUIET_SECONDS:
            after = progress()
            if after == before:
                raise RackError('%s: no progress for %d s, after %d s' % (run.name, QUIET_SECONDS,
                                                                         now - start))
            if not slow.is_set():
                say('%s: the demo takes longer, and waits as long as there is progress, at most %d s'
                    % (machine_is_slow(), RUN_SECONDS))
            slow.set()
            before, looked = after, now
        pause(0.1)


def all_reduce(rack, dtype, iterations):
    """Run weir-perf on every host of a rack or tree over the model's tensors. Returns the seconds it took."""
    start = time.monotonic()
    runs = [rack.perf(host, JOB, '--shapes', SHAPES, '-d', dtype, '-n', iterations, '-w', 0)
            for host in range(rack.hosts)]

    def progress():
        return rack.at(0)[0].read_stats(QUIET_SECONDS)['jobs'][0]['blocks_complete'], sum(len(r.output) for r in runs)

    good = follow(runs[0], progress) == 0
    expect(good, 'host 0, %s: weir-perf failed' % dtype)
    for host in range(1, rack.hosts):
        try:
            runs[host].wait(QUIET_SECONDS if good else 10)
        except RackError as error:
            expect(False, 'host %d, %s: %s' % (host, dtype, error))
    for host, run in enumerate(runs):
        if run.status == 0:
            with open(run.json) as file:
                rows = json.load(file)['rows']
            bad = sum(row['wrong'] for row in rows)
            expect(rows and bad == 0, 'host %d, %s: %d wrong elements' % (host, dtype, bad))
    return time.monotonic() - start


def endless_ping(rack, host, address):
    return rack.spawn(host, ['ping', '-n', '-i', '0.2', '-W', '5', address], 'ping')


def end_ping(run, what):
    """Stop a ping and read its summary: every request was answered, unless the machine is slow."""
    run.signal(signal.SIGINT)
    run.end(15)
    found = re.search(r'(\d+) packets transmitted, (\d+) received', run.output)
    if not expect(found is not None, 'ping %s: %s' % (what, run.output[-200:].strip())):
        return
    sent, received = int(found.group(1)), int(found.group(2))
    # The last request may be on its way at the moment of the signal.
    expect(received >= (SLOW_SHARE * sent if slow.is_set() else max(1, sent - 1)), 'ping %s: %d of %d lost' % (what, sent - received, sent))
    times = re.search(r'= [\d.]+/([\d.]+)/([\d.]+)/', run.output)
    say('ping %s: %d of %d answered%s' % (what, received, sent, times and
        ', %s ms on average, %s ms at most' % times.groups() or ''))


def tcp(rack, sender=1, receiver=2):
    """The transfer between two hosts; notes its outcome."""
    start = time.monotonic()
    try:
        sent, received = rack.transfer(sender, receiver, TCP_BYTES, QUIET_SECONDS)
    except (OSError, RackError) as error:
        expect(False, 'TCP transfer: %s' % error)
        return
    if expect(sent == received, 'TCP transfer: sha256 %s became %s' % (sent, received)):
        say('TCP from host %d to host %d: %d MB in %.1f s, sha256 %s... at both ends' %
            (sender, receiver, TCP_BYTES / 1e6, time.monotonic() - start, sent[:16]))


def print_wire(hosts, before, after, iterations=ITERATIONS):
    """Bytes on each host's wire per AllReduce, beside a ring's."""
    payload = 4 * sum(tensors())
    ring = 2 * (hosts - 1) / hosts * payload
    print('#')
    print('# Bytes on the wire per AllReduce of %.1f MB (fp32; Ethernet frames, pings and'
          % (payload / 1e6))
    print('# repetitions included), from the counters of each host\'s interface. A ring AllReduce')
    print('# sends and receives 2(n-1)/n times the data: %.1f MB each way, before any header.'
          % (ring / 1e6))
    print('#')
    print('# %6s %12s %12s %12s %12s' % ('host', 'sent MB', 'ring MB', 'received MB', 'ring MB'))
    for host in range(hosts):
        sent, received = [(after[host][k] - before[host][k]) / iterations
                          for k in ('tx_bytes', 'rx_bytes')]
        print('  %6d %12.1f %12.1f %12.1f %12.1f' % (host, sent / 1e6, ring / 1e6,
                                                    received / 1e6, ring / 1e6))
        expect(sent >= payload and received >= payload,
               'host %d: less on the wire than its own gradients' % host)
    print('#', flush=True)


def print_counters(log):
    """The tables that the switch printed when it stopped."""
    tables = 'port ' + log.rstrip().split('\nport ')[-1]
    print('# The switch, when it stopped:')
    print('#')
    for line in tables.split('\n'):
        print('  ' + line)
    print('#', flush=True)


def own_config(rack, path=CONFIG):
    """A configuration with an API socket of its own, as other demos may run. It is where weirctl looks, if that folder is
    writable, and everyone's. Returns the file and the address."""
    folder = SOCKETS
    with contextlib.suppress(OSError):
        os.mkdir(folder, 0o755)
    if rack.rootless or not os.access(folder, os.W_OK | os.X_OK):
        folder = rack.folder
    address = 'unix:' + os.path.join(folder, rack.name + '.sock')
    with open(path) as file:
        config = json.load(file)
    config['api']['listen'] = [address]
    for port in config['ports']:
        port['device'] = re.sub('framecnt=\\d+', 'framecnt=%d' % rack.frames(9216), port['device'])
    return rack.write_config(json.dumps(config, indent=1) + '\n'), address


def exercise(rack, far, near, ends, counters, iterations=ITERATIONS):
    """AllReduce of fp32 with pings meanwhile, then of int32 with pings and a TCP transfer. Host 0 pings host `far`, and host
    `near` its switch; ends: of the transfer. Returns what `counters` returned before and after that of fp32."""
    counts = tensors()
    say('%d tensors of ResNet-50, %.1f M elements, %.1f MB on each host' % (
        len(counts), sum(counts) / 1e6, 4 * sum(counts) / 1e6))
    pings = [(endless_ping(rack, 0, rack.address(far)), 'from host 0 to host %d' % far),
             (endless_ping(rack, near, rack.at(near)[0].switch_address), 'from host %d to the switch' % near)]

    say('AllReduce, fp32, %d iterations; pings meanwhile' % iterations)
    before = counters()
    took = all_reduce(rack, 'fp32', iterations)
    after = counters()
    say('fp32: done in %.1f s, verification included' % took)

    say('AllReduce, int32, %d iterations; pings and a TCP transfer meanwhile' % iterations)
    thread = threading.Thread(target=tcp, args=(rack, *ends), daemon=True)
    thread.start()
    took = all_reduce(rack, 'int32', iterations)
    thread.join(RUN_SECONDS)
    expect(not thread.is_alive(), 'the TCP transfer did not end')
    say('int32: done in %.1f s, verification included' % took)

    for run, what in pings:
        end_ping(run, what)
    return before, after


def demo(build):
    with Rack(build=build, hosts=HOSTS, mtu=MTU) as rack:
        say('%d hosts in network namespaces, links of MTU %d' % (HOSTS, MTU))
        path, address = own_config(rack)
        rack.start_switch(path)
        say('weir-switch is up with configs/demo.json; in another terminal: %s -s %s status'
            % (os.path.relpath(rack.program(('ctl', 'weirctl'))), address))
        for host in range(HOSTS):
            rack.ping(host, SWITCH_ADDRESS, count=1)
        before, after = exercise(rack, 3, 2, (1, 2), lambda: [rack.wire(host) for host in range(HOSTS)])
        print_wire(HOSTS, before, after)
        rack.check_packets()
        log = rack.switch.log
        rack.stop_switch()
        with open(log) as file:
            print_counters(file.read())


def main(demonstrate=demo):
    try:
        need_root()
        demonstrate(sys.argv[1] if len(sys.argv) > 1 else None)
    except RackError as error:
        wrong.append(str(error))
    except SystemExit:
        print('demo: interrupted; processes and namespaces are gone', flush=True)
        raise
    if wrong:
        print('demo: not verified:')
        for text in wrong:
            print('demo:   ' + text)
        return 1
    print('demo: verified')
    return 0


if __name__ == '__main__':
    sys.exit(main())
