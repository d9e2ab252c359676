#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same cases on each type of port: sums of all sizes; hosts that die, stop, do not read or are unplugged, beside others
that go on; frames of all lengths.

    test_ports.py TYPE [CASE...]

port_types.py has the types.
"""
import contextlib
import os
import re
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'functional'), os.path.join(HERE, '..', '..', 'apps', 'rack')]

from perf import reduce, report, shapes, start  # noqa: E402
from port_types import TYPES  # noqa: E402
from rack import SWITCH_ADDRESS, job  # noqa: E402
from tap import Skip, case, check, main, shared, wait_for  # noqa: E402
from wire import Peer, Raw, mac  # noqa: E402

TYPE = None  # the class, from the arguments
COPIED = 128  # elements of a result that is copied
UDP_HEADERS, ETHERNET, TAG = 28, 14, 4
EXTENDED = 16
PARTIAL = 3  # weir-perf's exit status when some sums were partial
OTHER = b'\x88\xb5'  # an EtherType for experiments (IEEE 802)
BROADCAST = b'\xff' * 6
STRANGERS = 2, 3


def largest(mtu):
    """Elements of the largest block that a frame holds."""
    return (mtu - UDP_HEADERS - EXTENDED) // 4


@contextlib.contextmanager
def running(*shape, started=True, **more):
    """A rack of the type whose switch runs; in the end nothing is in flight, packets add up, and everything was returned."""
    with TYPE(*shape, **more) as rack:
        if started:
            rack.start_switch()
        yield rack
        rack.check_packets()
        rack.stop_switch()


@shared
def plain():
    """What most cases share, with the API: a job of hosts 0 and 1, and one of host 2 and of host 3. Each leaves it as it was."""
    strangers = [job(10 + host, 1, first=host, generation=7) for host in STRANGERS if TYPE.deaf]
    with running(hosts=5, jobs=[job(1, 2, timeout_ms=10000)] + strangers, kernel=range(5), started=False) as rack:
        api = rack.control()
        rack.start_switch()
        yield rack, api


@shared
def long_frames():
    """As plain(), with an MTU of 9000 and no job."""
    with running(hosts=2, mtu=9000, kernel=range(2), chains=True, started=False) as rack:
        api = rack.control()
        rack.start_switch()
        yield rack, api


@contextlib.contextmanager
def harmed(harm, undo, *hosts):
    """Hosts of a shared rack, whole again in the end, also when a case fails."""
    try:
        for host in hosts:
            harm(host)
        yield
    finally:
        for host in hosts:
            undo(host)


def each_mtu():
    """(MTU, rack, API)."""
    return [(1500, *plain())] + ([(9000, *long_frames())] if TYPE.jumbo else [])


def few_repeated(rack, again):
    """Of runs that `again` makes, few contributions are held back or repeated: results leave, and their buffers return. As a
    busy machine repeats more, one of ten times is enough."""
    for _ in range(10):
        before = rack.read_stats()['jobs'][0]
        runs = again()
        after = rack.read_stats()['jobs'][0]
        counts = [[after[key] - before[key] for key in ('held_back', 'contributions')]]
        counts += [[report(run)['stats'][key] for key in ('retransmissions', 'packets_sent')] for run in runs]
        if counts[0][0] * 20 <= counts[0][1] and all(repeated * 2 <= sent for repeated, sent in counts[1:]):
            return
    check(False, 'held back of contributions, and of each host repeated of packets: %s', counts)


def check_checksums(rack, hosts):
    for host in hosts:
        check(rack.checksum_errors(host) == 0, 'host %d has refused %d packets', host, rack.checksum_errors(host))


def allreduce(mtu, workers, kernel):
    most = largest(mtu)
    elements = min(most, 2048)
    queues = min(workers, TYPE.queues)
    with running(hosts=2, mtu=mtu, workers=workers, queues=queues, jobs=[job(1, 2, elements=elements, timeout_ms=10000)],
                 kernel=kernel) as rack:
        counts = [1, COPIED - 1, COPIED, COPIED + 1, 256, elements - 1, elements, elements + 1, 40 * elements]
        options = '--shapes', shapes(rack, counts), '-n', 5, '--timeout', 60000, '-d', 'fp32'
        few_repeated(rack, lambda: reduce(rack, 1, range(2), *options))
        check_checksums(rack, [host for host in range(2) if host in kernel or not rack.is_dpdk(host)])


@case
def sums_of_all_sizes():
    allreduce(1500, 1, ())


@case
def sums_of_all_sizes_in_long_frames():
    """With two workers, and two queues where the device has them."""
    if not TYPE.jumbo:
        raise Skip('the device has no long frames')
    allreduce(9000, 2, ())


@case
def sums_at_hosts_of_the_kernel():
    """No packet that a host refuses for its checksum. Elsewhere all hosts are of the kernel."""
    if not TYPE.deaf:
        raise Skip('all hosts are hosts of the kernel')
    allreduce(9000, 1, (0, 1))


# Of a switch: each result takes so long that runs are under way when something happens.
SLOW = {'seed': 1, 'rules': [{'direction': 'out', 'what': 'result', 'action': 'delay', 'us': 4000}]}


def job_of(stats, number):
    return next(j for j in stats['jobs'] if j['id'] == number)


def blocks(rack, number):
    """How many blocks of a job are over."""
    found = job_of(rack.read_stats(), number)
    return found['blocks_complete'] + found['blocks_partial']


def wait_blocks(rack, number, more, runs):
    """Wait until so many more blocks of a job are over."""
    goal = blocks(rack, number) + more

    def reached():
        for run in runs:
            check(run.status is None, '%s: over too soon\n%s', run.name, run.output)
        return blocks(rack, number) >= goal
    wait_for(reached, 'job %d stands still: %s\n%s', number, lambda: job_of(rack.read_stats(), number),
             lambda: runs[0].output[-1000:])


def rows(run):
    """Of the table of weir-perf's first rank so far: sizes, and whether elements were wrong."""
    found = [line.split() for line in run.output.splitlines() if re.match(r' *\d+ +\d+ +int32 ', line)]
    return [(int(row[0]), (row[8], row[12]) != ('0', '0')) for row in found]


@case
def a_host_dies_and_another_stops():
    """The live hosts of their job go on without them, and a job of other hosts is not affected. Jobs can be deleted."""
    jobs = [job(1, 4, timeout_ms=200, policy='partial', dead_after_ms=2000), job(2, 2, first=4, timeout_ms=60000)]
    with running(hosts=6, jobs=jobs, changes={'faults': SLOW}, kernel=() if TYPE.own_macs else range(6), started=False) as rack:
        api = rack.control()
        rack.start_switch()
        others = start(rack, 2, range(4, 6), '-b', '4K', '-e', '8M', '-i', '4K', '-n', 5, '-d', 'int32', '--timeout', 60000)
        wait_blocks(rack, 2, 100, others)
        victims = start(rack, 1, range(4), '-b', '16K', '-e', '16K', '-n', 60, '-d', 'int32', '--timeout', 60000,
                        '--partial', 'as-is')
        wait_blocks(rack, 1, 100, victims)
        for number, harm in enumerate((rack.kill, rack.pause), 1):
            harm(4 - number)
            wait_for(lambda: job_of(rack.read_stats(), 1)['expelled'] >= number, 'host %d is not expelled: %s, %s', 4 - number,
                     lambda: job_of(rack.read_stats(), 1), [run.status for run in victims])
            wait_blocks(rack, 1, 100, victims[:2])
            wait_blocks(rack, 2, 100, others)
        for run in victims[:2]:
            run.wait(120, PARTIAL)
            check(report(run)['wrong'] == 0, '%s: %s', run.name, report(run))
        wait_blocks(rack, 2, 100, others)
        other = job_of(rack.read_stats(), 2)
        check(other['blocks_partial'] == other['blocks_error'] == other['generations'] - 1 == 0, '%s', other)
        check(rows(others[0]) and not any(wrong for _, wrong in rows(others[0])), '%s', others[0].output)
        for host in (4, 5):
            rack.kill(host)
        rack.check_packets()
        for name in ('job1', 'job2'):  # whose hosts are all gone or stopped
            answer = api.unix('DELETE', '/v1/jobs/' + name)
            check(answer.status in (200, 202, 204), '%s', answer.text)
            wait_for(lambda: all(made['name'] != name for made in api.get('/v1/jobs')['jobs']), '%s is kept: %s', name,
                     lambda: api.get('/v1/jobs')['jobs'])
        if TYPE.hosts_first:
            rack.resume(2)  # the driver's stop waits for its answer


def flood(rack, host, frames):
    """Broadcasts from a host, as quickly as it can send, until the switch has received this many; a full ring drops the others."""
    data = (BROADCAST + mac(rack.mac(host)) + OTHER).ljust(60, b'\0')
    wanted = rack.read_stats()['received'] + frames
    with Raw(rack, host) as raw:
        def arrived():
            for _ in range(1024):
                raw.send(data)
            return rack.read_stats()['received'] >= wanted
        wait_for(arrived, 'the flood does not arrive: %s', lambda: rack.read_stats())


def sums_go_on(rack, number, hosts, *options):
    """A job of other hosts runs, and repeats less than half of its packets."""
    few_repeated(rack, lambda: reduce(rack, number, hosts, '-b', '256K', '-e', '256K', '-n', 5, '--timeout', 60000, *options))


@case
def a_cable_out_and_in():
    rack, _ = plain()
    rack.ping(0, rack.address(1), count=1)
    for _ in range(2):
        with harmed(rack.unplug, rack.plug, 1):
            rack.ping(0, rack.address(2), count=1)
        rack.ping(1, SWITCH_ADDRESS, count=1)
        rack.ping(0, rack.address(1), count=1)
    sums_go_on(rack, 1, range(2))


@case
def broadcasts_to_ports_that_are_off():
    """Host 2 is dead or unplugged, host 4 stopped; host 3 floods; a job of others and forwarding go on."""
    rack, _ = plain()
    rack.ping(3, rack.address(0), count=1)
    with harmed(rack.unplug, rack.plug, 2), harmed(rack.pause, rack.resume, 4):
        if TYPE.knows_link:
            wait_for(lambda: rack.log().rfind('msg="link down" port=p2') > rack.log().rfind('msg="link up" port=p2'),
                     'the link of port p2 is not down')
        before = rack.read_stats()['drops']['port_stalled']
        flood(rack, 3, 6000)
        rack.ping(3, rack.address(0), count=3)
        rack.ping(0, SWITCH_ADDRESS, count=1)
        sums_go_on(rack, 1, range(2))
        wait_for(lambda: rack.read_stats()['in_flight'] == 0, 'packets wait for ever: %s', lambda: rack.read_stats())
        check(rack.read_stats()['drops']['port_stalled'] > before, 'nothing is dropped for ports whose link is down')
    rack.ping(2, rack.address(4), count=1)


@case
def a_port_that_takes_nothing_is_named():
    """In the log, by the control API and by counters; and so is its recovery."""
    if not TYPE.deaf:
        raise Skip('the kernel reads for its hosts')
    rack, api = plain()

    def queues():
        return api.get('/v1/ports/p1')['queues']

    before = rack.read_stats()['ports'][1]['stalled']
    rack.ping(0, rack.address(1), count=1)
    with harmed(rack.pause, rack.resume, 1):
        with Raw(rack, 0) as raw:
            def is_stalled():
                for _ in range(100):  # its ring fills first
                    raw.send((BROADCAST + mac(rack.mac(0)) + OTHER).ljust(60, b'\0'))
                return queues()['stalled']
            wait_for(is_stalled, 'the port is not stalled: %s', queues)
        wait_for(lambda: 'msg="port takes no packets, and what waits for it is dropped" port=p1' in rack.log(), 'no line in the log')
        wait_for(lambda: rack.read_stats()['in_flight'] == 0, 'packets wait for ever: %s', queues)
        found = rack.read_stats()
        check(before < found['ports'][1]['stalled'] <= found['drops']['port_stalled'], '%s', found)
    rack.ping(1, SWITCH_ADDRESS, count=1)
    wait_for(lambda: not queues()['stalled'], 'the port has not recovered: %s', queues)
    wait_for(lambda: 'msg="port takes packets again" port=p1' in rack.log(), 'no line in the log')


@case
def interfaces_that_move():
    """Into another namespace, after the switch has seen their links."""
    if not hasattr(TYPE, 'before_move'):
        raise Skip('interfaces stay where they are')
    with TYPE(hosts=2) as rack:
        api = rack.control()

        def wait_a_tick():
            end = api.get('/v1/status')['uptime'] + 2
            wait_for(lambda: api.get('/v1/status')['uptime'] >= end, 'time stands still')
        rack.before_move = wait_a_tick
        rack.start_switch()
        wait_a_tick()
        rack.ping(0, rack.address(1), count=1)
        rack.check_packets()
        rack.stop_switch()


class Ear:
    """What comes to a host, as raw frames with their tags."""

    ETH_P_ALL, PACKET_OUTGOING, SOL_PACKET, PACKET_AUXDATA = 3, 4, 263, 8

    def __init__(self, rack, host):
        with rack.inside(host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(self.ETH_P_ALL))
            self.socket.bind(('eth0', 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.setsockopt(self.SOL_PACKET, self.PACKET_AUXDATA, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def next(self, seconds=300):
        """The next frame of OTHER, without a tag that the kernel has taken from it, and whether it had one."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            data, more, _, place = self.socket.recvmsg(65536, 256)
            if place[2] == self.PACKET_OUTGOING:
                continue
            tagged = any(int.from_bytes(aux[0:4], sys.byteorder) & 0x10 for _, _, aux in more)
            if data[12:14] == b'\x81\x00':
                data, tagged = data[:12] + data[16:], True
            if data[12:14] == OTHER:
                return data, tagged
        raise TimeoutError('no frame within %d s' % seconds)


def frames(rack, sender, receiver, lengths, tag):
    """Frames of these lengths from host to host, which has to get each of them."""
    with Raw(rack, sender) as raw, Ear(rack, receiver) as ear:
        for length in lengths:
            body = OTHER + os.urandom(length - 14)
            raw.send(mac(rack.mac(receiver)) + mac(rack.mac(sender)) + tag + body)
            data, tagged = ear.next()
            check(data[12:] == body and tagged == bool(tag), '%d bytes became %d, tag %s', length, len(data), tagged)


@case
def frames_of_all_lengths():
    """From 60 bytes to the MTU, without and with a VLAN tag, and in several buffers where a device has them."""
    for mtu, rack, _ in each_mtu():
        rack.ping(0, rack.address(1), count=1)
        lengths = [60, 61, 64, 127, 128, 191, 192, 193, 255, 256, 1000, 1513, 1514]
        lengths += [2047, 2048, 4095, 4096, 8191, 9013, 9014] if mtu == 9000 else []
        for tag in (b'', b'\x81\x00\x00\x07'):
            frames(rack, 0, 1, lengths, tag)
            frames(rack, 1, 0, lengths, tag)
        check_checksums(rack, range(2))


@case
def pings_of_all_sizes_to_the_switch():
    """A frame that is too long for the exception interface costs others nothing."""
    for mtu, rack, api in each_mtu():
        for size in [0, 18, 1000, 1472] + ([1473, 4000, 20000] if TYPE.fragments and mtu == 1500 else []):
            rack.call(0, ['ping', '-n', '-c', '1', '-W', '100', '-s', str(size), SWITCH_ADDRESS])
        for size in [1473, 4000, mtu - 28] if mtu > 1500 else []:
            rack.call(0, ['ping', '-n', '-c', '1', '-W', '100', '-s', str(size), SWITCH_ADDRESS])
            rack.ping(1, SWITCH_ADDRESS, count=1)
        rack.call(1, ['ip', 'neigh', 'flush', 'dev', 'eth0'])
        rack.ping(1, SWITCH_ADDRESS, count=1)
        check(api.tcp('GET', '/v1/health', place=1, address=SWITCH_ADDRESS).status == 200, 'no control API')
        check_checksums(rack, range(2))


@case
def a_switch_that_is_killed():
    """Another one takes its ports, and what it left behind."""
    rack, _ = plain()
    rack.ping(0, rack.address(1), count=1)
    rack.restart_switch()
    rack.ping(0, rack.address(1), count=1)
    sums_go_on(rack, 1, range(2))


@case
def strangers_do_not_read():
    """Two hosts repeat a contribution each, to jobs of their own, and take no answer; the others can join and reduce."""
    if not TYPE.deaf:
        raise Skip('the kernel reads for its hosts')
    rack, _ = plain()

    def replug(host):
        rack.unplug(host)
        rack.plug(host)

    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(rack, host, 10 + host, 0)) for host in STRANGERS]
        for host, peer in zip(STRANGERS, peers):
            rack.ping(host, SWITCH_ADDRESS, count=1)  # ARP
            stack.enter_context(harmed(rack.stop_reading, replug, host))
            peer.generation = 7
        for _ in range(40):
            for _ in range(64):
                for peer in peers:
                    peer.send(0, [1] * 256)
            rack.read_stats()  # when it answers, it has taken what came
        rack.ping(0, SWITCH_ADDRESS, count=1)
        sums_go_on(rack, 1, range(2))
        wait_for(lambda: rack.read_stats()['in_flight'] == 0, 'packets wait for ever: %s', lambda: rack.read_stats())


@case
def one_host_with_longer_frames():
    """What is too long for a host's port is dropped and counted, and what follows it arrives."""
    if not TYPE.jumbo:
        raise Skip('the device has no long frames')
    with running(hosts=3, mtu=9000, kernel=range(3), mtus={1: 1500}) as rack:
        rack.ping(0, rack.address(1), count=1)
        before = rack.read_stats()['drops']
        for _ in range(3):
            with Raw(rack, 0) as raw:
                raw.send((mac(rack.mac(1)) + mac(rack.mac(0)) + OTHER).ljust(5000, b'\0'))
            rack.ping(0, rack.address(1), count=1)
            rack.ping(2, rack.address(1), count=1)
        after = rack.check_packets()['drops']
        if TYPE.shortens:
            check(after['too_long'] - before.get('too_long', 0) == 3, '%s', after)


if __name__ == '__main__':
    TYPE = TYPES[sys.argv.pop(1)]
    try:
        TYPE.check_available()
    except Skip as why:
        print('1..0 # SKIP %s' % why)
        sys.exit()
    main()
