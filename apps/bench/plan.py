#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench plan: what a switch, or a tree of two levels, needs for an AllReduce of all hosts at their full rate. It
measures nothing; the costs that it takes are figures of other benches. docs/sizing.md has the formulas. Memory is what
weir-switch computes for the planned switch.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from types import SimpleNamespace

from report import HERE, Column, Parser, Report, number, program, size, span

from weir_lists import DTYPES, OPS  # noqa: E402

HEADERS = 58  # Ethernet, IPv4, UDP, header of the extended form
WIRE_EXTRA = 24  # of Ethernet: frame check sequence, preamble, gap
BITMAP, TAG = 32, 16  # bytes
LCORES_MAX, WINDOW_MAX, PORTS_MAX = 16, 4096, 64
LEVELS = [
    Column('level', 'level', '', 0, 6, True), Column('switches', 'switches'), Column('sources', 'sources'),
    Column('contributions', 'contrib', '1/s', 0, 10), Column('ups', 'up', '1/s', 0, 9), Column('time', 't', 'ns', 1, 6),
    Column('time_up', 't up', 'ns', 1, 6), Column('busy', 'busy', 'lcores', 2), Column('lcores', 'lcores'),
    Column('window', 'window', 'blocks'), Column('buffers', 'buffers', 'MiB', 2), Column('packets', 'packets'),
    Column('headers', 'headers'), Column('memory', 'memory', 'MiB', 1), Column('timeout_ms', 'timeout', 'ms'),
    Column(None, '', left=True)]
LINKS = [
    Column('link', 'link', '', 0, 20, True), Column('links', 'links'), Column('packets', 'packets', '1/s', 0, 9),
    Column('parents_bytes', 'up', 'B/packet'), Column('down_bytes', 'down', 'B/packet'), Column('up', 'up', 'Gbit/s', 2),
    Column('down', 'down', 'Gbit/s', 2), Column('rate', 'rate', 'Gbit/s', 1), Column('load_up', 'load up', '%', 1),
    Column('load_down', 'down', '%', 1), Column('size_up', 'op. up', 'MB', 1), Column('size_down', 'op. down', 'MB', 1),
    Column(None, '', left=True)]


def options(words):
    parser = Parser('plan')

    def add(group, name, default, least, most, help_, kind=int, metavar='N'):
        group.add_argument('--' + name, type=number(least, most, kind), default=default, metavar=metavar, help=help_)

    what = parser.add_argument_group('What is planned')
    add(what, 'hosts', 8, 2, 256, 'hosts, in all')
    add(what, 'leaves', 0, 0, 256, 'leaf switches, with equally many hosts each; 0: one switch')
    add(what, 'spines', 0, 0, 16, 'switches above the leaves; 0: one, if there are leaves')
    add(what, 'rate', 25, 0.001, 10000, "of a host's link, each way, which it fills", float, 'GBIT')
    add(what, 'link', 0, 0, 10000, "of a link between leaf and spine; 0: as a host's", float, 'GBIT')
    add(what, 'elements', 1024, 1, 4095, 'jobs[].elements: of 4 bytes at most, half as many of 8')
    what.add_argument('--type', choices=[entry[2] for entry in DTYPES], default='fp32', help='of the elements')
    what.add_argument('--op', choices=[entry[2] for entry in OPS], default='sum', help='operation')
    what.add_argument('--narrow', action='store_true', help='narrow types travel upward as they are')
    what.add_argument('--authenticate', action='store_true', help='each packet has a tag')
    what.add_argument('--partial', action='store_true',
                      help='a host is missing everywhere: what goes up and all results have a bitmap')
    add(what, 'window', 0, 0, WINDOW_MAX, 'blocks, a power of two; 0: what the round trip needs')
    what.add_argument('--round-trip', type=span('us', 0, 1e6, float), default='100us', metavar='TIME',
                      help='of a hop: host and switch, leaf and spine')
    what.add_argument('--timeout', dest='timeout_ms', type=span('ms', 1, 60000), default='1s', metavar='TIME',
                      help='of a block, where hosts are')
    what.add_argument('--size', type=lambda text: size(text, 0, 1 << 40, 1), default=0, metavar='SIZE',
                      help='of an AllReduce, for the bytes on each link')
    costs = parser.add_argument_group('What it costs, measured on the machine that is planned for')
    for name, default, help_ in (
            ('cost', 0, 'of a contribution, with its share of the results: weir-bench engine, time'),
            ('up-cost', 0, 'of a contribution that goes up and its answer: weir-bench tree, up; 0: as --cost'),
            ('spine-cost', 0, "of a leaf's contribution at a spine: weir-bench tree, time; 0: as --cost"),
            ('hop', 150, 'of a contribution that arrives at another lcore: weir-bench engine --lcores 1,2 --far 0,50'),
            ('port-cost', 60, "of the ports' driver to receive a packet and send one: 1e9 / testpmd's packets per second")):
        costs.add_argument('--' + name, type=span('ns', 0, 1e6, float), default='%dns' % default, metavar='TIME', help=help_)
    add(costs, 'load', 80, 1, 100, 'how busy an lcore may be', float, 'PERCENT')
    add(costs, 'descriptors', 512, 16, 32768, 'of each queue of a port')
    parser.common()
    c = parser.parse_args(words)
    kind, = [entry for entry in DTYPES if entry[2] == c.type]
    types, = [entry[3] for entry in OPS if entry[2] == c.op]
    c.value_bytes, c.is_float = int(kind[3]), kind[4] not in ('SIGNED', 'UNSIGNED')
    for wrong, why in (
            (c.cost <= 0, '--cost: what does a contribution cost? weir-bench engine --elements %d measures it' % c.elements),
            (c.window & (c.window - 1), '--window %d is no power of two' % c.window),
            (types == 'INTEGERS' and c.is_float, '--type %s --op %s: there is no such operation' % (c.type, c.op)),
            (c.spines and not c.leaves, '--spines: how many --leaves?'),
            (c.leaves == 1 or c.leaves and c.hosts % c.leaves,
             '--leaves %d: at least 2, and equally many hosts of %d on each' % (c.leaves, c.hosts)),
            (c.narrow and c.op == 'avg', '--narrow: a narrow job has no avg')):
        if wrong:
            parser.error(why)
    c.spines = max(c.spines, 1) if c.leaves else 0
    return c


def blocks_of(c, report):
    """What holds on all levels: bytes of a packet on the wire, blocks per second, the window."""
    wide = c.value_bytes < 4 and not c.narrow and (c.op == 'avg' or c.is_float and c.op in ('sum', 'prod'))
    plan = SimpleNamespace(count=max(c.elements * 4 // max(c.value_bytes, 4), 1), sum_bytes=4 if wide else c.value_bytes)

    def wire(element_bytes, bitmap):
        return plan.count * element_bytes + HEADERS + WIRE_EXTRA + BITMAP * bitmap + TAG * c.authenticate

    plan.up, plan.down, plan.leaf_up = wire(c.value_bytes, False), wire(c.value_bytes, c.partial), wire(plan.sum_bytes, c.partial)
    plan.blocks = c.rate * 1e9 / (8 * plan.up)
    needed = plan.blocks * (2 if c.leaves else 1) * c.round_trip * 1e-6
    plan.window = c.window or next((2**n for n in range(12) if 2**n >= needed), WINDOW_MAX)
    report.note('%d elements of %d bytes in a block, of %d bytes above a leaf; %.1f blocks in a round trip',
                plan.count, c.value_bytes, plan.sum_bytes, needed)
    if plan.window < needed:
        report.note('a window of %d blocks limits a host to %.2f Gbit/s', plan.window, c.rate * plan.window / needed)
    return plan


def memory(c, plan, sources, ports, workers, packets, headers):
    """MiB of the buffers and of the whole switch, as weir-switch computes them; a leaf has as much without its parents."""
    mtu = max(plan.up, plan.leaf_up) - WIRE_EXTRA - 14
    made = {'switch': {'address': '10.77.255.254/16'}, 'eal': ['--no-huge'], 'memory_mb': 65536, 'workers': {'count': workers},
            'pools': {'packets': packets, 'headers': headers},
            'ports': [{'name': 'p%d' % p, 'device': 'net_ring%d' % p, 'tx_queues': workers, 'mtu': max(mtu, 1500),
                       'rx_descriptors': c.descriptors, 'tx_descriptors': c.descriptors} for p in range(ports)],
            'jobs': [{'id': 0, 'name': 'job', 'type': c.type, 'window': plan.window, 'elements': c.elements,
                      'sources': {'count': sources, 'first': '10.77.0.1'}}]}
    with tempfile.TemporaryDirectory(prefix='weir-plan-') as folder:
        if c.authenticate:
            made['jobs'][0].update(key_file=os.path.join(folder, 'key'))
            with open(made['jobs'][0]['key_file'], 'w', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write('00' * 32 + '\n')
        path = os.path.join(folder, 'switch.json')
        with open(path, 'w') as file:
            json.dump(made, file)
        try:
            run = subprocess.run([program('switch', 'weir-switch'), '-c', path, '--check'], capture_output=True, text=True,
                                 check=False)
        except OSError as error:
            sys.exit('weir-bench plan: memory: %s' % error)
    said = {name: float(mib) for name, mib in re.findall(r'^memory +(\S.*?) +([\d.]+) MiB', run.stdout, re.M)}
    if run.returncode != 0:
        sys.exit('weir-bench plan: memory: %s' % run.stderr.strip())
    return said.get('aggregation buffers'), said.get('total')


def level_row(c, plan, report, name, switches, sources, ports, contributions, ups, cost, timeout_ms):
    """contributions, ups: per second at a switch; ups: None: it has no parent."""
    for lcores in range(1, LCORES_MAX + 1):
        more = (1 - 1 / lcores) * c.hop + c.port_cost
        time, time_up = cost + more, (c.up_cost or c.cost) + more
        busy = (contributions * time + (ups or 0) * time_up) * 1e-9 / (c.load / 100)
        if busy <= lcores or lcores == LCORES_MAX:
            break
    possible = busy <= lcores
    workers = lcores if possible else 1
    sends, flight = ports * workers * c.descriptors, sources * plan.window
    packets, headers = ports * c.descriptors + sends + flight + 2 * 32 * workers, sends + flight
    buffers, total = memory(c, plan, sources, ports, workers, packets, headers) if ports <= PORTS_MAX else (None, None)
    if ports > PORTS_MAX:
        report.note('%s: %d ports; a switch has at most %d, so its memory is unknown', name, ports, PORTS_MAX)
    report.row(name, switches, sources, round(contributions), None if ups is None else round(ups), time,
               None if ups is None else time_up, busy, lcores if possible else None, plan.window, buffers, packets, headers, total,
               timeout_ms, '' if possible else '! more lcores than a switch may have')


def level_rows(c, plan, report):
    if not c.leaves:
        level_row(c, plan, report, 'switch', 1, c.hosts, c.hosts, c.hosts * plan.blocks, None, c.cost, c.timeout_ms)
        return
    each = c.hosts // c.leaves
    level_row(c, plan, report, 'leaf', c.leaves, each, each + c.spines, each * plan.blocks, plan.blocks, c.cost, c.timeout_ms)
    level_row(c, plan, report, 'spine', c.spines, c.leaves, c.leaves, c.leaves * plan.blocks / c.spines, None,
              c.spine_cost or c.cost, 2 * c.timeout_ms)


def link_rows(c, plan, report):
    """The links, and what would cross those above the leaves without a tree."""
    def row(name, links, share, up, down, rate, size_up, size_down):
        blocks = share * plan.blocks  # per second, each a packet up and one down
        gbits = [blocks * way * 8e-9 for way in (up, down)]
        report.row(name, links, round(blocks), up, down, *gbits, rate, *(100 * way / rate for way in gbits),
                   *(way * 1e-6 if c.size else None for way in (size_up, size_down)), '!' if max(gbits) > rate * 1.0001 else '')

    row('host, switch', c.hosts, 1, plan.up, plan.down, c.rate, c.size, c.size)
    if not c.leaves:
        return
    above, wide, each = c.link or c.rate, c.size * plan.sum_bytes / c.value_bytes, c.hosts / c.leaves
    ring = 2 * (c.hosts - 1) / c.hosts
    row('leaf, a spine', c.leaves * c.spines, 1 / c.spines, plan.leaf_up, plan.down, above, wide / c.spines, c.size / c.spines)
    for name, share, up, down, size_up, size_down in (
            ('leaf, all spines', 1, plan.leaf_up, plan.down, wide, c.size),
            ('one switch above', each, plan.up, plan.down, each * c.size, each * c.size),
            ('ring by racks', ring, plan.up, plan.up, ring * c.size, ring * c.size)):
        row(name, c.leaves, share, up, down, above * c.spines, size_up, size_down)


def main(words):
    chosen = options(words)
    report = Report('plan', chosen.json)
    plan = blocks_of(chosen, report)
    report.table(LEVELS)
    level_rows(chosen, plan, report)
    report.note("bytes of headers, preamble and gap included; an operation's are those of the elements alone")
    report.table(LINKS)
    link_rows(chosen, plan, report)
    return report.close()


if __name__ == '__main__':
    sys.exit(main(sys.argv[2:]))
