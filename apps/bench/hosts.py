#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""AllReduce end to end, over hosts, links and switch, and what the hosts' CPU time yields; beside iperf3 through the
same switch, or dpdk-testpmd in its place.

    weir-bench hosts [--hosts 2,4] [--mtu 1500,9000] [--sizes 4,64K,256K] [--against BUILD] [--quick]

Hosts and switch are in network namespaces; the links have no rate, and all processes share this machine's CPUs.
docs/performance.md says how to read the table. The exit status is 1 if a result was wrong or something failed, 2 if it
can't run here.
"""
import argparse
import contextlib
import glob
import json
import os
import shutil
import signal
import statistics
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
for _place in ('rack', 'faults'):  # in the source, and installed
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), _place))

from experiment import Teller, add_outputs, keep, machine, play, size, size_text, table, write_json  # noqa: E402
from memif import MemifRack  # noqa: E402
from plots import SHADES, Panel, Plot  # noqa: E402
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


# By the values of WEIR_TRANSPORT, with which weir-perf runs: the rack, what its limits are and how they are measured.
TRANSPORTS = {'udp': (Rack, 'iperf3', sockets), 'dpdk': (Devices, 'dpdk-testpmd', devices)}
PACKAGES = {'dpdk-testpmd': 'dpdk-dev'}  # those that are called otherwise


def options(words=None):
    def listed(kind):
        def items(text):
            return [kind(word) for word in text.split(',')]
        items.__name__ = 'list'  # argparse: invalid list value
        return items

    parser = argparse.ArgumentParser(prog='weir-bench hosts', description=__doc__.split('\n\n', 1)[0],
                                     epilog='docs/performance.md says how to read the table')
    parser.add_argument('--hosts', type=listed(int), default=[2, 4], metavar='LIST', help='how many (2,4)')
    parser.add_argument('--mtu', type=listed(int), default=[1500, 9000], metavar='LIST', help='of all links (1500,9000)')
    parser.add_argument('--sizes', type=listed(size), metavar='LIST', help='bytes (4, and 64K to 64M by 4)')
    parser.add_argument('--transport', choices=list(TRANSPORTS), default='udp', help='of the hosts (udp)')
    parser.add_argument('--against', metavar='BUILD',
                        help='also hosts of this older build, in turn on the same switch, and the ratios new / old')
    parser.add_argument('--spin', type=int, default=100, metavar='US', help='how long a waiting host polls (100)')
    parser.add_argument('--quick', action='store_true', help='few sizes and short: does it work, not how well')
    every = parser.add_argument_group('Options of every bench')
    every.add_argument('--repeat', type=int, default=3, metavar='N', help='measure each point N times (3)')
    every.add_argument('--phase-ms', type=int, default=500, metavar='N', help='length of a measurement, milliseconds (500)')
    add_outputs(parser)
    chosen = parser.parse_args(words)
    if chosen.quick:
        chosen.hosts, chosen.sizes = chosen.hosts[:1], chosen.sizes or [LATENCY, 1 << 16]
        chosen.repeat, chosen.phase_ms = 1, 50
    chosen.sizes = chosen.sizes or [LATENCY] + [(1 << 16) << 2 * k for k in range(6)]
    if not 2 <= min(chosen.hosts) <= max(chosen.hosts) <= 16:
        parser.error('2 to 16 hosts')
    if not 576 <= min(chosen.mtu) <= max(chosen.mtu) <= 9000:
        parser.error('an MTU of 576 to 9000')
    if chosen.repeat < 1 or chosen.phase_ms < 1:
        parser.error('--repeat and --phase-ms: from 1 on')
    if chosen.against and chosen.transport != 'udp':
        parser.error('--against: only with --transport udp')
    return chosen


# -- measuring

def cpu_seconds(process):
    """CPU time that the threads of a process have had so far."""
    total = 0
    for path in glob.glob('/proc/%d/task/*/schedstat' % process.pid):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total / 1e9


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
        began, before = time.monotonic(), cpu_seconds(self.rack.switch)
        reports = perf(self.rack, build, '-b', bytes_, '-e', bytes_, '-n', operations, '-w', max(1, operations // 10),
                       '-c', 0, '--spin', self.chosen.spin)
        return figures(reports, (cpu_seconds(self.rack.switch) - before) / (time.monotonic() - began))

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


# -- what records say

def number(value, known=True):
    return '%.*f' % (0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3, value) if known else '-'


def limits_of(record):
    """Their names; rows are compared with the last one."""
    return [key[len('per_core_'):] for key in record if key.startswith('per_core_') and not key.endswith('_old')]


def cells(record, goodput, per_core, known=True):
    """Of a row: how it compares with the limit; a latency, if that has one: limit / row."""
    beside = limits_of(record)[-1]
    if not known and 'time_us_' + beside in record:
        return number(record['time_us_' + beside] / record['time_us']), '-'
    return number(goodput / record['goodput_' + beside], known), number(per_core / record['per_core_' + beside], known)


def lines(records, tool):
    """The table, a block for each rack. tool: what measured the limits."""
    groups, old = {}, 'per_core_old' in records[0]
    for r in records:
        title = '%(hosts)d hosts, MTU %(mtu)d, blocks of %(elements)d elements' % r
        if title not in groups:
            groups[title] = [('%s %s' % (tool, name), number(r.get('time_us_' + name, 0), 'time_us_' + name in r), number(r['goodput_' + name]), '-', '-', number(r['per_core_' + name]),
                              '-', *cells(r, r['goodput_' + name], r['per_core_' + name]), *['-'] * 3 * old)
                             for name in limits_of(r)]
        rates = r['bytes'] > LATENCY
        groups[title].append((
            size_text(r['bytes']), number(r['time_us']), number(r['goodput'], rates), number(r['user_us']),
            number(r['system_us']), number(r['per_core'], rates), number(r['switch_cpus']),
            *cells(r, r['goodput'], r['per_core'], rates),
            *((number(r['per_core_old'], rates), number(r['ratio_per_core']), number(r['ratio_goodput'])) if old else ())))
    heads = [('size', 'time', 'goodput', 'host CPU', '', 'per core', 'switch', 'of ' + limits_of(records[0])[-1], ''),
             ('', '', '', 'user', 'system', '', '', 'goodput', 'per core'),
             ('', '(us)', '(Gbit/s)', '(us)', '(us)', '(Gbit/s)', '(CPUs)', '', '')]
    more = [('old', 'new / old', ''), ('per core', 'per core', 'goodput'), ('(Gbit/s)', '', '')]
    return table([head + (extra if old else ()) for head, extra in zip(heads, more)], groups.items())


def plots(found):
    panels = []
    for mtu in sorted({r['mtu'] for r in found['records']}):
        mine = [r for r in found['records'] if r['mtu'] == mtu and r['bytes'] > LATENCY]
        ticks = [(b, size_text(b).replace('iB', '').replace(' ', '')) for b in sorted({r['bytes'] for r in mine})]
        for key, title in (('goodput', 'Goodput'), ('per_core', 'Goodput per core of host')):
            panel = Panel('%s, MTU %d' % (title, mtu), 'bytes', 'Gbit/s', log='x', ticks=ticks)
            for colour, hosts in zip(SHADES, sorted({r['hosts'] for r in mine})):
                panel.line('%d hosts' % hosts, [(r['bytes'], r[key]) for r in mine if r['hosts'] == hosts], colour)
            for r in mine[:1]:
                panel.limit('%s %s' % (found['tool'], limits_of(r)[-1]), r['%s_%s' % (key, limits_of(r)[-1])])
            panels.append(panel)
    return [Plot('hosts', 'AllReduce end to end', 'hosts, links and switch on one machine, no rate limit; medians', panels)]


def run(chosen):
    teller = Teller('hosts')
    rack_of, tool, measure_limits = TRANSPORTS[chosen.transport]
    found = {'machine': machine(), 'tool': tool, 'records': []}
    teller.warn(found['machine'])
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
                for bytes_ in chosen.sizes:
                    record = bench.measure(bytes_)
                    found['records'].append(record)
                    teller.say('%s, %s: %s us, %s Gbit/s, %s per core of host' % (name, size_text(bytes_), *(
                        number(record[key]) for key in ('time_us', 'goodput', 'per_core'))))
                rack.stop_switch()
    text = '\n'.join(lines(found['records'], tool))
    print('#\n%s' % text, flush=True)
    if chosen.json == '-':
        json.dump(found['records'], sys.__stdout__, indent=1)
    elif chosen.json:
        write_json(chosen.json, found['records'])
    chosen.json = None  # keep() has a format of its own
    keep(chosen, found, plots, {'weir-bench hosts': text}, teller)
    return 0


def main(words=None):
    chosen = options(words)
    tool = TRANSPORTS[chosen.transport][1]
    why = 'needs root, for network namespaces' if os.getuid() != 0 else \
        'needs %s: apt-get install %s' % (tool, PACKAGES.get(tool, tool)) if not shutil.which(tool) else None
    if why:
        print('weir-bench hosts: ' + why, file=sys.stderr)
        return 2
    for name in [one for one in os.environ if one == 'WEIR_TRANSPORT' or one.startswith('WEIR_DPDK')]:
        del os.environ[name]  # the rack sets them
    with contextlib.redirect_stdout(sys.stderr if chosen.json == '-' else sys.stdout):
        return play('hosts', lambda: run(chosen))


if __name__ == '__main__':
    sys.exit(main())
