# SPDX-License-Identifier: BSD-3-Clause
"""What must be true of a rack on cards: sums, pings, and what the switch and the hosts count."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'functional'))

from perf import finish, start
from tap import check
from rack import SWITCH_ADDRESS


def reduce(rack, number, hosts, count, blocks=64, operations=4):
    """AllReduce of blocks of `count` elements, and then of all that is odd; all verified. Nothing is held back, and little
    is repeated: in one of ten times, as a busy machine repeats more."""
    def counts():
        (found,) = (j for j in rack.read_stats()['jobs'] if j['id'] == number)
        return [found[key] for key in ('contributions', 'held_back', 'duplicates')]

    for _ in range(10):
        before = counts()
        for elements in (count * blocks, count * blocks + 1, 1):
            finish(start(rack, number, hosts, '-b', 4 * elements, '-e', 4 * elements, '-n', operations, '-w', 0, '-d', 'int32'))
        contributions, held_back, duplicates = (now - then for now, then in zip(counts(), before))
        if held_back <= contributions // 100 and duplicates <= contributions // 4:
            return
    check(False, 'of %d contributions %d are held back and %d repeated', contributions, held_back, duplicates)


def by_the_way(rack, hosts):
    """No host got a wrong checksum, and packets add up."""
    rack.check_packets()
    for host in hosts:
        check(checksum_errors(rack, host) == 0, 'host %d: %d wrong checksums', host, checksum_errors(rack, host))


def checksum_errors(rack, host):
    """Packets that the host's kernel refused."""
    lines = [line.split() for line in rack.call(host, ['cat', '/proc/net/snmp']).splitlines()]
    found = {keys[0] + key: int(value) for keys, values in zip(lines[::2], lines[1::2])
             for key, value in zip(keys[1:], values[1:])}
    return sum(found[key] for key in ('Udp:InCsumErrors', 'Tcp:InCsumErrors', 'Icmp:InCsumErrors', 'Ip:InHdrErrors'))


def ping_sizes(rack, hosts, most=8972):
    """Pings of many sizes to a host and to the switch. What is longer than a frame goes in fragments."""
    for size in sorted({0, 18, 100, 1000, 1472, 4000, most}):
        for address in (rack.address(hosts[-1]), SWITCH_ADDRESS):
            rack.call(hosts[0], ['ping', '-n', '-c', '2', '-i', '0.05', '-W', '60', '-s', str(min(size, most)), address])
