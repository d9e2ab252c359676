#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Verify AllReduce over network cards of this machine, as root:

    card.py DEVICE=INTERFACE [DEVICE=INTERFACE...] [--mtu 9000] [--ranks 2] [--no-huge]

DEVICE is a port for weir-switch, such as a PCI address that is bound as docs/nics.md says. INTERFACE is the
kernel's interface at the other end of its cable; it must be free. Meanwhile it belongs to a namespace, as the
only interface of a host. Each host has `--ranks` ranks, so that one cable is enough.

Blocks of all sizes are summed, and each element is compared. Pings of all sizes pass. Nothing is held back, no
checksum is wrong, and every packet is accounted for. The last line is `card: passed`, or says what failed.
"""
import argparse
import contextlib
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'functional'))

from checks import by_the_way, ping_sizes, reduce
from rack import Rack, RackError, ip

HEADERS = 44  # of a contribution, within the MTU


class Cards(Rack):
    """Its hosts are interfaces of this machine."""

    def __init__(self, pairs, mtu, ranks, huge, **more):
        sources = [{'id': host * ranks + rank, 'address': self.address(host)}
                   for host in range(len(pairs)) for rank in range(ranks)]
        most = (mtu - HEADERS) // 4
        self.sizes = sorted(min(size, most) for size in {1, 128, 129, 256, min(2048, most)})
        super().__init__(hosts=len(pairs), mtu=mtu, jobs=[
            {'id': i, 'name': 'job%d' % i, 'sources': sources, 'elements': size} for i, size in enumerate(self.sizes, 1)], **more)
        self.pairs, self.huge, self.moved = pairs, huge, []
        self.ranks = [host for host in range(len(pairs)) for _ in range(ranks)]

    def move(self, interface, place):
        ip('link set %s netns %s' % (interface, self.namespace(place)))
        self.moved.append((interface, place))
        self._ip_in(place, 'link set lo up', 'link set %s mtu %d up' % (interface, self.mtu))

    def _lay_cables(self):
        ip(*['netns add %s' % self.namespace(p) for p in self.places()])
        for host, (device, interface) in enumerate(self.pairs):
            for own in re.findall(r',iface=([^,]+)', device):
                self.move(own, 'sw')
            self.move(interface, host)
            self._ip_in(host, 'address add %s/%d dev %s' % (self.address(host), self.prefix, interface))

    def ports(self):
        return [{'name': 'p%d' % host, 'device': device,
                 **({} if self.mtu <= 1500 or device.startswith('net_') else {'mtu': self.mtu})}
                for host, (device, _) in enumerate(self.pairs)]

    def config(self):
        made = super().config()
        made['eal'] = [] if self.huge else ['--no-huge', '--no-pci']
        return made

    def close(self):
        """Interfaces of a namespace that ends would be gone, unless they are hardware."""
        for interface, place in self.moved:
            with contextlib.suppress(RackError):
                self._ip_in(place, 'address flush dev %s' % interface, 'link set %s netns 1' % interface)
        self.moved = []
        super().close()


def verify(pairs, given):
    with Cards(pairs, given.mtu, given.ranks, not given.no_huge) as rack:
        rack.start_switch()
        print(rack.switch.output.strip())
        ping_sizes(rack, range(rack.hosts), given.mtu - 28)
        for number, size in enumerate(rack.sizes, 1):
            reduce(rack, number, rack.ranks, size)
            print('card: blocks of %d elements: every sum is right' % size, flush=True)
        by_the_way(rack, range(rack.hosts))
        rack.stop_switch()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('pairs', nargs='+', metavar='DEVICE=INTERFACE')
    parser.add_argument('--mtu', type=int, default=1500, help='of the cables (1500)')
    parser.add_argument('--ranks', type=int, default=2, help='of each host (2)')
    parser.add_argument('--no-huge', action='store_true', help='for virtual devices: no huge pages, no PCI')
    given = parser.parse_args()
    pairs = [pair.rpartition('=')[::2] for pair in given.pairs]
    if not all(device and interface for device, interface in pairs):
        parser.error('each argument is DEVICE=INTERFACE, such as 0000:01:00.0=eth2')
    try:
        verify(pairs, given)
    except (RackError, AssertionError) as error:
        print('card: failed: %s' % error)
        return 1
    print('card: passed')
    return 0


if __name__ == '__main__':
    sys.exit(main())
