#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hosts of a switch with several queues choose the UDP port by the block, with whatever device it has."""
import contextlib
import re
import socket
import struct

from control import Control
from loops import Loops
from perf import reduce
from rack import SWITCH_ADDRESS, Rack, job
from tap import case, check, main

ETH_P_ALL = 3
REDUCE = ('-b', '256K', '-e', '256K', '-n', 4, '-w', 0, '-d', 'int32')


def queues(hosts, number):
    return [{'name': 'p%d' % p, 'rx_queues': number, 'tx_queues': number,
             'device': 'net_af_packet%d,iface=p%d,framesz=2048,blocksz=4096,framecnt=1024,qpairs=%d'
                       % (p, p, number)} for p in range(hosts)]


class Watch:
    """The UDP ports that a host sends to, and those that it hears from."""

    def __init__(self, rack, host):
        with rack.inside(host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
            self.socket.bind(('eth0', ETH_P_ALL))
        self.acknowledged = set()  # the ports that acknowledgements go to

    def ports(self):
        to, heard = set(), set()
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self.socket.recv(64)
                if data[12:14] != b'\x08\x00' or data[23] != 17:
                    continue
                source, destination = struct.unpack('>HH', data[34:38])
                if data[30:34] == socket.inet_aton(SWITCH_ADDRESS):
                    to.add(destination)
                    if destination % 2 == 1 and data[54] >> 4 == 14:
                        self.acknowledged.add(destination)
                else:
                    heard.add(source)
        self.socket.close()
        return to, heard


@contextlib.contextmanager
def steering(hosts=2, workers=2, changes=None, **options):
    with Rack(hosts=hosts, jobs=[job(1, hosts, **options)], workers=workers) as rack:
        rack.changes = dict(changes or {}, ports=queues(hosts, workers))
        rack.api = Control(rack)
        rack.start_switch()
        yield rack
        rack.check_packets()
        rack.stop_switch()


@case
def ports_of_both_forms():
    with steering(type='int32') as rack:
        for form, own in (((), 12001), (('--base-form',), 12000)):
            watch = Watch(rack, 0)
            reduce(rack, 1, range(2), *REDUCE, *form)
            to, heard = watch.ports()
            probed = {12003} if form else set()  # probes have the extended form, whatever contributions have
            check(to - probed == {12001, own, own + 2}, 'sent to %s', to)
            check(heard <= {12000, 12001}, 'heard from %s', heard)
        said = re.findall(r'port (p\d): the device \(net_af_packet\) does not put contributions', rack.switch.output)
        check(sorted(said) == ['p0', 'p1'], 'the log: %s', rack.switch.output)
        text = rack.call('sw', [rack.program(('ctl', 'weirctl')), '-s', 'unix:' + rack.api.path, 'ports'])
        check(re.search(r' STEERED$', text, re.M) and len(re.findall(r' no$', text, re.M)) == 3, '%s', text)
        # A host that passes only the own port, as by a firewall's rule: the kernel refuses what goes there.
        rack.call(0, ['ip', 'rule', 'add', 'ipproto', 'udp', 'dport', '12003', 'blackhole'])
        watch = Watch(rack, 0)
        reduce(rack, 1, range(2), *REDUCE)
        to, _ = watch.ports()
        check(to == {12001}, '%s', to)


@case
def four_workers_and_three():
    for workers in (4, 3):
        with steering(workers=workers) as rack:
            watch = Watch(rack, 1)
            reduce(rack, 1, range(2), *REDUCE)
            to, _ = watch.ports()
            check(to == {12001 + 2 * i for i in range(workers)}, '%d workers: %s', workers, to)


@case
def multicast_results():
    with steering(results='239.77.0.1') as rack:
        reduce(rack, 1, range(2), *REDUCE)


@case
def acknowledgements_of_a_host_that_computes():
    with steering(hosts=3, policy='partial', timeout_ms=100, window=4) as rack:
        watch = Watch(rack, 2)
        loops = Loops(rack, 2, steps=60, timeout_ms=5000)
        loops.runs.append(loops.start(2, nap_ms=2000, nap_step=20, nap_blocks=24))
        for end in loops.finish():
            check(end['partial'] > 0 and not end['failures'], '%s', end)
        watch.ports()
        check(watch.acknowledged == {12001, 12003}, '%s', watch.acknowledged)


@case
def one_queue_has_one_port():
    with Rack(hosts=2, jobs=[job(1, 2)], workers=2) as rack:
        rack.start_switch()
        watch = Watch(rack, 0)
        reduce(rack, 1, range(2), *REDUCE)
        to, _ = watch.ports()
        check(to == {12001}, '%s', to)
        rack.stop_switch()


@case
def ports_that_leave_no_room():
    with steering(changes={'switch': {'port_base': 12000, 'port_extended': 12003}}) as rack:
        watch = Watch(rack, 0)
        reduce(rack, 1, range(2), *REDUCE, '--port-ext', 12003)
        to, _ = watch.ports()
        check(to == {12003}, '%s', to)
        check('both UDP ports must be multiples of 4, or one more' in rack.switch.output, 'the log: %s',
              rack.switch.output)


if __name__ == '__main__':
    main()
