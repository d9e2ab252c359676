#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""AllReduce end to end, over hosts, links and switch, and what the hosts' CPU time yields; beside iperf3 through the
same switch, or dpdk-testpmd in its place.

Hosts and switch are in network namespaces; the links have no rate, and all processes share this machine's CPUs.
docs/benchmarks.md says how to read the table. The exit status is 1 if a result was wrong or something failed, 2 if it
can't run here.
"""
import json
import os
import shutil
import signal
import statistics
import sys
import time

from report import HERE, Parser, Report, number, numbers, scheduled, shown, span

from experiment import Teller, machine, play, size, size_text, table  # noqa: E402
from memif import MemifRack  # noqa: E402
from rack import Rack, RackError, job  # noqa: E402

JOB = 1
HEADERS = 20 + 8 + 16  # of IPv4, UDP and Weir, in a packet of the MTU
ELEMENTS_MAX = 2048
LATENCY = 4  # bytes
LEAST, MOST = 3, 2000  # operations of a measurement
SETTINGS = {'idle': 'yield'}


def iperf3(rack, seconds, *options):
    """One stream from host 0 to host 1: {'goodput', 'per_core', 'lost'}: what is received and what a core sends and
    receives, Gbit/s, and per cent of the packets."""
    server = rack.spawn(1, ['iperf3', '-s', '-1', '-B', rack.address(1), '--forceflush'], 'iperf3')
    server.wait_line('Server listening', 30)
    text = rack.call(0, ['iperf3', '-c', rack.address(1), '-J', '-t', '%g' % seconds, '--connect-timeout', '10000', *options],
                     seconds=60)
    server.wait(30)
    found = json.loads(text[text.index('{'):])  # behind its warnings
    end, cpu = found['end'], found['end']['cpu_utilization_percent']
    sent, received = [end[way]['bits_per_second'] / 1e9 for way in ('sum_sent', 'sum_received')]
    return {'goodput': received, 'lost': end['sum_received'].get('lost_percent', 0),
            'per_core': 100 / (cpu['host_total'] / sent + cpu['remote_total'] / received)}


def sockets(rack, elements, seconds):
    """The limits of sockets, by their names; rows are compared with the last one. UDP without a rate loses most of its
    packets where sender and receiver share CPUs, so it is also measured at half of TCP's; what receives more counts."""
    tcp = iperf3(rack, seconds)
    return {'tcp': tcp, 'udp': max((iperf3(rack, seconds, '-u', '-b', str(rate), '-l', str(4 * elements + HEADERS - 28))
                                    for rate in (0, int(tcp['goodput'] * 5e8))), key=lambda one: one['goodput'])}


class Devices(MemifRack):
    idle = 'yield'


def devices(rack, elements, seconds):
    """The limit of memif: the same frames through testpmd in the switch's place, both ways, and the round trip of one of
    4 bytes. Its hosts share a core."""
    rack.switch.signal(signal.SIGSTOP)  # it would take a CPU
    try:
        rate = rack.testpmd(14 + HEADERS + 4 * elements, 64, seconds)
        trips = rack.testpmd(14 + HEADERS + LATENCY, 1, seconds)
    finally:
        rack.switch.signal(signal.SIGCONT)
    goodput = rate * elements * 32e-9
    return {'io': {'goodput': goodput, 'per_core': 2 * goodput, 'time_us': 1e6 / trips}}


# By the values of WEIR_TRANSPORT, with which weir-perf runs: the rack, how its limits are measured, with what of which package.
TRANSPORTS = {'udp': (Rack, sockets, 'iperf3', 'iperf3'), 'dpdk': (Devices, devices, 'dpdk-testpmd', 'dpdk-dev')}


def options(words=None):
    def sizes(text):
        return [size(word) for word in text.split(',')]

    parser = Parser('hosts')
    parser.add_argument('--hosts', type=numbers(2, 16), default='2,4', metavar='LIST', help='how many')
    parser.add_argument('--mtu', type=numbers(576, 9000), default='1500,9000', metavar='LIST', help='of all links')
    parser.add_argument('--sizes', type=sizes, metavar='LIST', default='4,64K,256K,1M,4M,16M,64M',
                        help='bytes')
    parser.add_argument('--transport', choices=list(TRANSPORTS), default='udp', help='of the hosts')
    parser.add_argument('--against', metavar='BUILD',
                        help='also hosts of this older build, in turn on the same switch, and the ratios new / old')
    parser.add_argument('--spin', type=span('us', 0, 10**6), default='100us', metavar='TIME', help='how long a waiting host polls')
    parser.common(repeat=3, phase_ms=500, huge=False)
    chosen = parser.parse_args(words)
    if chosen.against and chosen.transport != 'udp':
        parser.error('--against: only with --transport udp')
    return chosen


# -- measuring

def perf(rack, build, *words):
    """Run weir-perf on all hosts. Returns their reports."""
    runs = [rack.perf(host, JOB, *words, build=build) for host in range(rack.hosts)]
    for run in runs:
        run.wait(60)
    reports = []
    for run in runs:
        with open(run.json) as file:
            reports.append(json.load(file))
    return reports


def figures(reports, switch_cpus):
    """What one run of weir-perf says of an operation, in and out of place: its time at rank 0, and a host's CPU time;
    goodput, and goodput per core of host, in Gbit/s."""
    rows = [report['rows'][0] for report in reports]
    if 'own_user_us' not in rows[0]['in_place']:
        raise RackError('weir-perf does not tell its CPU time: the build is too old')

    def mean(key, of):
        return statistics.mean(row[way][key] for row in of for way in ('out_of_place', 'in_place'))

    found = {'time_us': mean('median_us', rows[:1]), 'user_us': mean('own_user_us', rows),
             'system_us': mean('own_system_us', rows), 'switch_cpus': switch_cpus}
    bits = rows[0]['size'] * 8e-3
    return dict(found, goodput=bits / found['time_us'], per_core=bits / max(found['user_us'] + found['system_us'], 1e-3))


class Bench:
    """All measurements on one rack."""

    def __init__(self, chosen, rack, mtu, elements, limits):
        self.chosen, self.rack, self.mtu, self.elements, self.limits = chosen, rack, mtu, elements, limits
        self.builds = {'new': None, **({'old': chosen.against} if chosen.against else {})}
        self.rate = max(limit['goodput'] for limit in limits.values())  # Gbit/s, what the next size will have

    def once(self, build, bytes_, operations):
        began, before = time.monotonic(), scheduled(self.rack.switch.pid)
        reports = perf(self.rack, build, '-b', bytes_, '-e', bytes_, '-n', operations, '-w', max(1, operations // 10),
                       '-c', 0, '--spin', self.chosen.spin)
        return figures(reports, (scheduled(self.rack.switch.pid) - before) / (time.monotonic() - began))

    def measure(self, bytes_):
        """The record of a size. Builds take turns in being first."""
        operations = int(min(MOST, max(LEAST, self.chosen.phase_ms * 1e3 / max(200, bytes_ * 8e-3 / self.rate))))
        turns = {name: [] for name in self.builds}
        for turn in range(self.chosen.repeat):
            for name in list(turns)[::1 if turn % 2 else -1]:
                turns[name].append(self.once(self.builds[name], bytes_, operations))
        record = {'bench': 'hosts', 'transport': self.chosen.transport, 'hosts': self.rack.hosts, 'mtu': self.mtu,
                  'elements': self.elements, 'bytes': bytes_, 'operations': operations, 'turns': self.chosen.repeat}
        for name, found in turns.items():
            record.update((key if name == 'new' else key + '_old', statistics.median(one[key] for one in found))
                          for key in found[0])
        if 'old' in turns:
            for key in ('goodput', 'per_core'):
                record['ratio_' + key] = statistics.median(new[key] / old[key] for new, old in zip(turns['new'], turns['old']))
        for name, limit in self.limits.items():
            record.update(('%s_%s' % (key, name), value) for key, value in limit.items())
        if bytes_ > LATENCY:
            self.rate = record['goodput']
        return record


# -- the table

def cells(name, one, limit, against, rates=True):
    """A row. rates: compare them with the limit; else the time, if the limit has one."""
    found = {**one, 'of_goodput': one['goodput'] / limit['goodput'], 'of_per_core': one['per_core'] / limit['per_core']}
    if not rates:
        found.update(goodput=None, per_core=None, per_core_old=None, of_per_core=None,
                     of_goodput=limit['time_us'] / one['time_us'] if 'time_us' in limit else None)
    keys = ('time_us', 'goodput', 'user_us', 'system_us', 'per_core', 'switch_cpus', 'of_goodput', 'of_per_core',
            'per_core_old', 'ratio_per_core', 'ratio_goodput')
    return (name, *(shown(found.get(key)) for key in keys[:None if against else -3]))


def heads(limit, against):
    both = [('size', 'time', 'goodput', 'host CPU', '', 'per core', 'switch', 'of ' + limit, ''),
            ('', '', '', 'user', 'system', '', '', 'goodput', 'per core'),
            ('', '(us)', '(Gbit/s)', '(us)', '(us)', '(Gbit/s)', '(CPUs)', '', '')]
    more = [('old', 'new / old', ''), ('per core', 'per core', 'goodput'), ('(Gbit/s)', '', '')]
    return [head + (extra if against else ()) for head, extra in zip(both, more)]


def run(chosen, records):
    teller = Teller('hosts')
    rack_of, measure_limits, tool, _ = TRANSPORTS[chosen.transport]
    teller.warn(machine())
    groups = []
    for hosts in chosen.hosts:
        for mtu in chosen.mtu:
            elements = min(ELEMENTS_MAX, (mtu - HEADERS) // 4)
            with rack_of(hosts=hosts, mtu=mtu, jobs=[job(JOB, hosts, elements=elements)], changes={'workers': SETTINGS}) as rack:
                rack.start_switch()
                name, limits = '%d hosts, MTU %d' % (hosts, mtu), measure_limits(rack, elements, max(1, chosen.phase_ms * 2e-3))
                bench = Bench(chosen, rack, mtu, elements, limits)
                for build in bench.builds.values():  # a wrong element ends it
                    perf(rack, build, '-b', LATENCY, '-e', 1 << 20, '-f', 512, '-n', 1)
                teller.say('%s: every element is right; %s' % (name, ', '.join(
                    '%s %s %.3g Gbit/s, %.3g per core' % (tool, kind, one['goodput'], one['per_core'])
                    for kind, one in limits.items())))
                limit = list(limits)[-1]  # what rows are compared with
                rows = [cells('%s %s' % (tool, kind), one, limits[limit], chosen.against) for kind, one in limits.items()]
                groups.append(('%s, blocks of %d elements' % (name, elements), rows))
                for bytes_ in chosen.sizes:
                    record = bench.measure(bytes_)
                    records.append(record)
                    rows.append(cells(size_text(bytes_), record, limits[limit], chosen.against, bytes_ > LATENCY))
                    teller.say('%s, %s: %s us, %s Gbit/s, %s per core of host' % (name, size_text(bytes_), *(
                        shown(record[key]) for key in ('time_us', 'goodput', 'per_core'))))
                rack.stop_switch()
    print('#\n%s' % '\n'.join(table(heads(limit, chosen.against), groups)), flush=True)
    return 0


def main(words=None):
    chosen = options(words)
    *_, tool, package = TRANSPORTS[chosen.transport]
    why = 'needs root, for network namespaces' if os.getuid() != 0 else \
        'needs %s: apt-get install %s' % (tool, package) if not shutil.which(tool) else None
    if why:
        print('weir-bench hosts: ' + why, file=sys.stderr)
        return 2
    for name in [one for one in os.environ if one == 'WEIR_TRANSPORT' or one.startswith('WEIR_DPDK')]:
        del os.environ[name]  # the rack sets them
    report = Report('hosts', chosen.json)
    status = play('hosts', lambda: run(chosen, report.records))
    return status or report.close()


if __name__ == '__main__':
    sys.exit(main(sys.argv[2:]))
