#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weir, by libweir, through Open MPI and through PyTorch, beside plain Open MPI, Gloo and PyTorch's gloo on the same hosts and
rate-limited links.

    compare.py [BUILD] [--hosts 2 4 8] [--sizes 4 16 ... 64M] [--rate 200] [--quick]

All systems are up all the time, and asleep while another is measured; repetitions are interleaved, and the measuring
loop, the data and the check are the same code in all of them. docs/compare.md says what is measured and how to read it.

The last lines are `compare: 8 hosts 1 MiB through MPI: X.XX x plain Open MPI`, `compare: 8 hosts 1 MiB through torch:
X.XX x gloo` and `compare: 8 hosts 1 MiB: X.XX of the link, Y.YY x the best other`. The exit status is 1 if a result was wrong or
something failed; an aim that is not met is printed.
"""
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import racks  # noqa: E402 (the path comes first)
import systems  # noqa: E402
from command_line import Parser  # noqa: E402
from experiment import Teller, add_outputs, keep, machine, play, size, size_text, table  # noqa: E402
from plots import GLOO, LIGHT, OPEN_MPI, SHADES, WEIR, Panel, Plot  # noqa: E402
from rack import RackError  # noqa: E402
from systems import COLLECTIVES, FLAT, OTHERS, WITH_WEIR  # noqa: E402

SETTINGS = os.path.join(HERE, 'settings.json')
SIZES = [4 << (2 * k) for k in range(13)]  # 4 B to 64 MiB
PAGE_SIZES = (4, 1 << 20, 16 << 20)  # of AllReduce in a page's tables; its plot has all
PAGE_OTHERS = (8, 1 << 20)  # hosts and bytes of the others there
OTHER_SIZES = [1 << 12, 1 << 16, 1 << 20, 1 << 24]  # of the collectives beside AllReduce
COLOURS = {'Weir': WEIR, FLAT: WEIR, WITH_WEIR: LIGHT, 'Open MPI': OPEN_MPI, 'Gloo': GLOO}
TCP_LEAST = 0.95  # of the link: with less the switch slows the others down
GIVE_UP = 1.4  # an algorithm so much slower than the best of the others is not repeated
FORGET = ((4 << 20, 1.25), (256 << 10, 3.0))  # from this size on so much slower: not tried with larger ones
PLAIN = ('Open MPI', 'default')  # is measured with all sizes: Weir through MPI is compared with it
MIB = 1 << 20
LINK_AIM = 0.95  # from 1 MiB on
SPEED_AIM = 1.7  # 8 hosts, from 1 MiB on
MPI_COST_AIM = 0.03  # more than libweir takes, through MPI, from 1 MiB on
MPI_SPEED_AIM = 1.7  # x plain Open MPI, AllReduce of 8 hosts, from 16 KiB on
MPI_SPEED_LEAST = 16 << 10
TORCH_COST_AIM = 0.05  # more than libweir takes, through PyTorch, from 4 MiB on
TORCH_COST_LEAST = 4 << 20


class Wrong(RackError):
    """A system's result is wrong."""


def options(words=None):
    parser = Parser(description=__doc__.split('\n\n', 1)[0],
                    epilog='docs/compare.md says how to read it')
    parser.add_argument('build', nargs='?')
    parser.add_argument('--hosts', nargs='*', type=int, default=[2, 4, 8], metavar='N', help='none: only --racks')
    parser.add_argument('--racks', type=int, choices=(0, racks.RACKS), metavar='N',
                        help='%d: also two racks of %d hosts with thin links between them; 0: not' % (racks.RACKS, racks.HOSTS))
    parser.add_argument('--rack-rate', type=int, default=100, metavar='MBIT', help='of the links there (100)')
    parser.add_argument('--sizes', nargs='+', type=size, metavar='BYTES',
                        help='of AllReduce, and of the others; 4 .. 64M by 4, and 4K .. 16M by 16')
    parser.add_argument('--collectives', nargs='+', default=list(COLLECTIVES), choices=list(COLLECTIVES), metavar='C',
                        help=', '.join(COLLECTIVES) + ' (all)')
    parser.add_argument('--rate', type=int, default=200, metavar='MBIT',
                        help='of the links, Mbit/s each way (200)')
    parser.add_argument('--repeat', type=int, metavar='N', help='repetitions (5; 3 above 1 MiB)')
    parser.add_argument('--per-host', type=int, default=1, metavar='N',
                        help='ranks on each host; with 2 to 8: Open MPI without Weir, with Weir, and with Weir and flat (1)')
    parser.add_argument('--systems', nargs='*', default=list(OTHERS), choices=list(OTHERS), metavar='SYSTEM',
                        help='beside libweir: %s (all); none: libweir alone' % ', '.join(OTHERS))
    parser.add_argument('--settings', default=SETTINGS, metavar='FILE',
                        help='of the switch and the job (apps/compare/settings.json)')
    add_outputs(parser)
    parser.add_argument('--seed', type=int, default=1, help='of the data (1)')
    parser.add_argument('--quick', action='store_true',
                        help='few sizes and repetitions: does it work, not how well')
    chosen = parser.parse_args(words)
    if chosen.hosts and (min(chosen.hosts) < 2 or max(chosen.hosts) > 16):
        parser.error('2 to 16 hosts')
    if not 1 <= min(chosen.rate, chosen.rack_rate) or max(chosen.rate, chosen.rack_rate) > 10000:
        parser.error('a rate of 1 to 10000 Mbit/s')
    if not 1 <= chosen.per_host <= 8:
        parser.error('1 to 8 ranks on each host')
    if chosen.per_host > 1:  # what several ranks on a host are for: less data on its link
        chosen.collectives = [c for c in chosen.collectives if c in ('allreduce', 'broadcast')]
    if chosen.quick:
        chosen.hosts = sorted(chosen.hosts)[:1]
        chosen.sizes = chosen.sizes or [4, 1 << 16]
        chosen.repeat = chosen.repeat or 1
    if chosen.racks is None:
        chosen.racks = 0 if chosen.quick or chosen.per_host > 1 or 'allreduce' not in chosen.collectives else racks.RACKS
    if not chosen.hosts and not chosen.racks:
        parser.error('nothing to measure: no --hosts and no --racks')
    return chosen


# -- what points say. A point: {'hosts', 'collective', 'bytes' (of the larger of a host's two buffers), 'system',
# 'algorithm', 'us' (the median), 'samples_us'}

def share(point, rate):
    """Of the link, one direction. rate: Mbit/s."""
    return point['bytes'] * 8 / point['us'] / rate


# Of a row, for a system or one of its algorithms.
PLACES = {'Weir': 'weir', FLAT: 'weir', WITH_WEIR: 'mpi', ('PyTorch', 'weir'): 'torch', ('PyTorch', 'gloo'): 'torch_gloo'}


def rows(points):
    """Points that belong together: [{'hosts', 'collective', 'bytes', 'weir', 'mpi', 'plain', 'torch', 'torch_gloo', 'best',
    'ratio', 'mpi_ratio', 'torch_ratio'}]. weir: by libweir, or flat; mpi: Weir through Open MPI; plain: Open MPI's default
    choice; torch, torch_gloo: PyTorch's backends; best: of the systems without Weir and PyTorch; these are points or None.
    ratio, mpi_ratio, torch_ratio: how many times faster weir is than best, mpi than plain, and torch than torch_gloo."""
    found = {}
    for point in points:
        key = (point['hosts'], point['collective'], point['bytes'])
        row = found.setdefault(key, dict(zip(('hosts', 'collective', 'bytes'), key), **dict.fromkeys(
            ('weir', 'mpi', 'plain', 'torch', 'torch_gloo', 'best', 'ratio', 'mpi_ratio', 'torch_ratio'))))
        place = PLACES.get(point['system']) or PLACES.get((point['system'], point['algorithm']), 'best')
        if row[place] is None or point['us'] < row[place]['us']:
            row[place] = point
        if (point['system'], point['algorithm']) == PLAIN:
            row['plain'] = point
    for row in found.values():
        for name, fast, slow in (
                ('ratio', 'weir', 'best'), ('mpi_ratio', 'mpi', 'plain'), ('torch_ratio', 'torch', 'torch_gloo')):
            if row[fast] and row[slow]:
                row[name] = row[slow]['us'] / row[fast]['us']
    return list(found.values())


def which(point):
    return '-' if point is None else point['system'] if point['algorithm'] == 'default' else \
        '%(system)s, %(algorithm)s' % point


def times(ratio, none='-', digits=2):
    return none if ratio is None else '%.*f' % (digits, ratio)


def cells(point, rate):
    """Time, bandwidth and share of the link."""
    if point is None:
        return '-', '-', '-'
    bandwidth = point['bytes'] * 8 / point['us']
    return '%.1f' % point['us'], ('%.3g' if bandwidth < 100 else '%.0f') % bandwidth, '%.3f' % share(point, rate)


def lines(points, rate):
    """The table, a block for each collective and number of hosts."""
    groups = {}
    for row in rows(points):
        groups.setdefault('%(collective)s, %(hosts)d hosts' % row, []).append(
            (size_text(row['bytes']),) + cells(row['weir'], rate) + cells(row['best'], rate) +
            (which(row['best']), times(row['ratio'])) +
            cells(row['mpi'], rate)[0::2] + (times(row['mpi_ratio']),))
    flat = any(point['system'] == FLAT for point in points)
    return table((('', FLAT if flat else 'Weir', '', '', 'best other', '', '', '', '', WITH_WEIR, '', ''),
                  ('size', 'time', 'algbw', 'link', 'time', 'algbw', 'link', 'which', 'Weir is', 'time', 'link', 'is'),
                  ('', '(us)', '(Mbit/s)', '', '(us)', '(Mbit/s)', '', '', '(times)', '(us)', '', '(x plain)')),
                 groups.items(), left=(7,))


def cost(row):
    """How many times libweir's time PyTorch's all_reduce takes with Weir; None: not measured."""
    return row['torch']['us'] / row['weir']['us'] if row['torch'] and row['weir'] else None


def torch_lines(points, rate):
    """The table of PyTorch, a block for each number of hosts."""
    groups = {}
    for row in rows(points):
        if row['torch']:
            groups.setdefault('allreduce through PyTorch, %(hosts)d hosts' % row, []).append(
                (size_text(row['bytes']), *cells(row['weir'], rate)[0::2], *cells(row['torch'], rate)[0::2],
                 times(cost(row), digits=3), *cells(row['torch_gloo'], rate)[0::2], times(row['torch_ratio'])))
    return table((('', 'libweir', '', 'backend weir', '', '', 'backend gloo', '', 'weir is'),
                  ('size', 'time', 'link', 'time', 'link', '', 'time', 'link', ''),
                  ('', '(us)', '', '(us)', '', '(x libweir)', '(us)', '', '(x gloo)')), groups.items())


def texts(points, rate):
    """{name in the page: its table}."""
    head = ['# links of %d Mbit/s each way; fp32; all through weir-switch' % rate, '']
    made = {'compare.py': head + lines(points, rate)}
    if any(row['torch'] for row in rows(points)):
        made['compare.py, PyTorch'] = head + torch_lines(points, rate)
    return {name: '\n'.join(found) for name, found in made.items()}


def of_most(points, place):
    """The row of AllReduce with the most hosts and 1 MiB, else the size next to it; None: `place` has none."""
    found = [r for r in rows(points) if r['collective'] == 'allreduce' and r[place]]
    most = max((r['hosts'] for r in found), default=0)
    return min((r for r in found if r['hosts'] == most), default=None,
               key=lambda r: max(r['bytes'] / MIB, MIB / r['bytes']))


def last_lines(points, rate):
    weir, said = of_most(points, 'weir'), []
    for place, ratio, words in (('mpi', 'mpi_ratio', 'through MPI: %s x plain Open MPI'),
                                ('torch', 'torch_ratio', 'through torch: %s x gloo')):
        row = of_most(points, place)
        if row is not None:
            said.append('compare: %d hosts %s ' % (row['hosts'], size_text(row['bytes'])) + words % times(row[ratio], '-.--'))
    return said + ['compare: nothing of Weir was measured' if weir is None else
                   'compare: %d hosts %s: %.2f of the link, %s x the best other' % (
                       weir['hosts'], size_text(weir['bytes']), share(weir['weir'], rate), times(weir['ratio'], '-.--'))]


def missed_through_mpi(row):
    """Its aims that were not met, in words, of all collectives; MPI_SPEED_AIM is AllReduce's, for which alone a switch
    that computes halves what the links carry."""
    mpi, plain, name = row['mpi'], row['plain'], '%(hosts)d hosts, %(collective)s, ' % row + size_text(row['bytes'])
    if mpi is None:
        return []
    words, ratio = [], row['mpi_ratio'] or MPI_SPEED_AIM
    if row['weir'] and row['bytes'] >= MIB and mpi['us'] > (1 + MPI_COST_AIM) * row['weir']['us']:
        words.append('%s: through MPI %.3f x the time of libweir; the aim is %.2f' % (
            name, mpi['us'] / row['weir']['us'], 1 + MPI_COST_AIM))
    if row['bytes'] == 4 and ratio < 1:
        words.append('%s: through MPI %.1f us; plain Open MPI takes %.1f us' % (name, mpi['us'], plain['us']))
    if (row['collective'] == 'allreduce' and row['hosts'] >= 8 and row['bytes'] >= MPI_SPEED_LEAST and
            ratio < MPI_SPEED_AIM):
        words.append('%s: through MPI %.2f x plain Open MPI; the aim is %.1f' % (name, ratio, MPI_SPEED_AIM))
    return words


def missed(points, rate):
    """The aims that were not met, in words; of libweir, AllReduce only."""
    words = []
    for row in rows(points):
        words += missed_through_mpi(row)
        if row['bytes'] >= TORCH_COST_LEAST and (cost(row) or 0) > 1 + TORCH_COST_AIM:
            words.append('%d hosts, %s: through PyTorch %.3f x the time of libweir; the aim is %.2f' % (
                row['hosts'], size_text(row['bytes']), cost(row), 1 + TORCH_COST_AIM))
        if row['collective'] != 'allreduce' or row['weir'] is None:
            continue
        name, reached = '%d hosts, %s' % (row['hosts'], size_text(row['bytes'])), share(row['weir'], rate)
        if row['bytes'] >= MIB and reached < LINK_AIM:
            words.append('%s: %.3f of the link; the aim is %.2f' % (name, reached, LINK_AIM))
        if row['ratio'] and row['bytes'] >= MIB and row['hosts'] >= 8 and row['ratio'] < SPEED_AIM:
            words.append('%s: %.2f x the best other (%s); the aim is %.1f' % (
                name, row['ratio'], which(row['best']), SPEED_AIM))
        if row['ratio'] and row['bytes'] == 4 and row['ratio'] < 1:
            words.append('%s: %.1f us; %s takes %.1f us' % (
                name, row['weir']['us'], which(row['best']), row['best']['us']))
    return words


def plot(found, collective):
    rate = found['rate']
    points = [p for p in found['points'] if p['collective'] == collective]
    most = max(p['hosts'] for p in points)
    mine = [p for p in points if p['hosts'] == most]
    ticks = [(b, size_text(b).replace('iB', '').replace(' B', '').replace(' ', ''))
             for b in sorted({p['bytes'] for p in mine})]
    times = Panel('Time of an operation, %d hosts' % most, 'bytes', 'us', log='xy', ticks=ticks)
    links = Panel('Share of the link, %d hosts' % most, 'bytes', 'payload / time / rate', log='x',
                  ticks=ticks)
    gain = Panel('Best other / Weir', 'bytes', 'times', log='x', ticks=ticks)
    for system, colour in COLOURS.items():
        best = {}  # of its algorithms, at each size
        for point in mine:
            if point['system'] == system:
                best[point['bytes']] = min(best.get(point['bytes'], point), point, key=lambda p: p['us'])
        times.line(system, [(b, p['us']) for b, p in best.items()], colour)
        links.line(system, [(b, share(p, rate)) for b, p in best.items()], colour)
    links.limit('the link', 1)
    for colour, hosts in zip(SHADES, sorted({p['hosts'] for p in points})):
        gain.line('%d hosts' % hosts, [(r['bytes'], r['ratio']) for r in rows(points)
                                       if r['hosts'] == hosts and r['ratio']], colour)
    gain.limit('equal', 1)
    return Plot('compare-' + collective, 'Side by side: %s' % collective,
                'links of %d Mbit/s, medians of interleaved repetitions, the best algorithm of each' % rate,
                [panel for panel in (times, links, gain) if panel.measured()], columns=3)


def plots(found):
    return [plot(found, collective)
            for collective in dict.fromkeys(p['collective'] for p in found['points'])]


# -- measuring

class Comparison:
    """All measurements on one rack."""

    def __init__(self, chosen, rack, up):
        self.chosen, self.rack, self.systems = chosen, rack, up
        self.forgotten = set()

    def order(self, collective, bytes_, **changes):
        """Operations in a row: about 0.4 s at half the rate of a link, 1 at least and 100 at most."""
        total = bytes_ // 4
        if collective != 'allreduce':
            ranks = self.rack.hosts * self.chosen.per_host
            total = max(1, total // ranks) * ranks
        row = int(0.2 * self.rack.rate * 1e6 / (8 * bytes_))
        return dict({'collective': collective, 'type': 'fp32', 'total': total, 'algorithm': 'default',
                     'warmup': 5 if bytes_ <= 1 << 16 else 1 if bytes_ <= 1 << 22 else 0,
                     'iterations': max(1, min(100, row)), 'seed': self.chosen.seed, 'check': 0}, **changes)

    def run(self, system, order):
        """Returns the microseconds of an operation and the answers."""
        least = order['total'] * 4 * 8 / (self.rack.rate * 1e6)
        answers = system.run(order, 120 + 30 * least * (order['iterations'] + order['warmup']))
        wrong = sum(answer['wrong'] for answer in answers)
        if wrong:
            raise Wrong('%s, %s of %s: %d elements are WRONG' % (
                system.name, order['collective'], size_text(order['total'] * 4), wrong))
        took = max(a['ended'] for a in answers) - min(a['began'] for a in answers)
        return took / 1e3 / order['iterations'], answers

    def runners(self, collective):
        """(system, algorithm) that know the collective."""
        return [(s, a) for s in self.systems for a in s.algorithms.get(collective, ())]

    def measure(self, collective, bytes_):
        """Points of one operation, of all systems."""
        samples = {r: [] for r in self.runners(collective) if (collective, r) not in self.forgotten}
        slow = set()
        for number in range(self.chosen.repeat or (5 if bytes_ <= MIB else 3)):
            for runner in samples:
                if runner not in slow:
                    system, algorithm = runner
                    samples[runner].append(self.run(system, self.order(
                        collective, bytes_, algorithm=algorithm, check=int(number == 0)))[0])
            if number == 0:
                slow = self.slow(samples, GIVE_UP)
                for least, factor in FORGET:
                    if bytes_ >= least:
                        self.forgotten |= {(collective, r) for r in self.slow(samples, factor)
                                           if (r[0].name, r[1]) != PLAIN}
        real = self.order(collective, bytes_)['total'] * 4
        return [{'hosts': self.rack.hosts, 'collective': collective, 'bytes': real, 'type': 'fp32',
                 'system': system.name, 'algorithm': algorithm, 'us': statistics.median(found),
                 'samples_us': found} for (system, algorithm), found in samples.items()]

    @staticmethod
    def slow(samples, factor):
        """The algorithms that are far from the best of the others."""
        others = {r: s[0] for r, s in samples.items() if r[0].name not in ('Weir', FLAT, WITH_WEIR, 'PyTorch')}
        return {r for r, took in others.items() if took > factor * min(others.values())}

    def verify(self, collective):
        """All systems get the same data: int32 results must have the same bits on every rank of each, and each rank
        checks its fp32 result. Returns how many implementations agree."""
        seen = {}
        for system, algorithm in self.runners(collective):
            order = self.order(collective, 1 << 18, iterations=1, check=1, algorithm=algorithm)
            self.run(system, order)
            seen['%s %s' % (system.name, algorithm)] = [
                a['fingerprint'] for a in self.run(system, dict(order, type='int32'))[1]]
        first = next(iter(seen))
        for name, found in seen.items():
            if found != seen[first]:
                raise Wrong('%s, int32: %s and %s differ' % (collective, name, first))
        return len(seen)

    def best_text(self, points):
        row = rows(points)[0]
        words = '%d hosts, %s, %s:' % (row['hosts'], row['collective'], size_text(row['bytes']))
        if row['weir']:
            words += ' %s %.1f us, %.3f of the link' % (row['weir']['system'], row['weir']['us'], share(row['weir'], self.chosen.rate))
        if row['ratio']:
            words += '; %s %.1f us; %.2f x' % (which(row['best']), row['best']['us'], row['ratio'])
        if row['mpi']:
            words += '; through MPI %.1f us; %s x plain' % (row['mpi']['us'], times(row['mpi_ratio']))
        if row['torch']:
            words += '; through torch %.1f us; %s x gloo' % (row['torch']['us'], times(row['torch_ratio']))
        return words


class RackComparison(Comparison):
    """On two racks; order: of the others' ranks. It counts the bytes that cross the thin link."""

    def __init__(self, chosen, rack, up, order):
        super().__init__(chosen, rack, up)
        self.rank_order, self.crossed = order, {}

    def run(self, system, order):
        before = self.rack.crossed()
        found = super().run(system, order)
        self.crossed[system.name, order['algorithm']] = (self.rack.crossed() - before) / (
            order['warmup'] + order['iterations'])
        return found

    def measure(self, collective, bytes_):
        return [dict(point, order=None if point['system'] == 'Weir' else self.rank_order,
                     crossed=self.crossed[point['system'], point['algorithm']])
                for point in super().measure(collective, bytes_)]


def start_systems(rack, programs, per_host):
    if per_host > 1:
        if 'Open MPI' not in programs:
            raise RackError('--per-host needs Open MPI')
        return [systems.open_mpi(rack, programs['Open MPI'], per_host=per_host)] + [
            systems.WeirByMpi(rack, programs['Open MPI'], per_host, flat) for flat in (False, True)]
    up = [systems.weir(rack)]
    if 'Open MPI' in programs:
        up += [systems.open_mpi(rack, programs['Open MPI'], algorithm)
               for algorithm in systems.MPI_ALGORITHMS]
        up.append(systems.WeirByMpi(rack, programs['Open MPI']))
    if 'Gloo' in programs:
        up.append(systems.gloo(rack, programs['Gloo']))
    if 'PyTorch' in programs:
        up.append(systems.torch(rack, programs['PyTorch']))
    return up


def on_rack(chosen, hosts, settings, programs, found, teller):
    """Everything with so many hosts."""
    with systems.LimitedRack(chosen.build, hosts, chosen.rate, settings) as rack:
        rack.start_switch()
        if 'tcp_share' not in found:
            found['tcp_share'] = rack.tcp_share()
            teller.say('one TCP stream through weir-switch: %.3f of the link%s' % (
                found['tcp_share'], '' if found['tcp_share'] >= TCP_LEAST
                else '; the switch slows the others down'))
        up = start_systems(rack, programs, chosen.per_host)
        teller.say('%d hosts: up are %s' % (hosts, '; '.join(
            '%s (%s)' % (system.name, ', '.join(system.algorithms['allreduce'])) for system in up)))
        one = Comparison(chosen, rack, up)
        for collective in chosen.collectives:
            teller.say('%d hosts, %s: %d implementations agree, int32 to the last bit' % (
                hosts, collective, one.verify(collective)))
            for bytes_ in chosen.sizes or (SIZES if collective == 'allreduce' else OTHER_SIZES):
                points = one.measure(collective, bytes_)
                found['points'] += points
                teller.say(one.best_text(points))
        for system in up:
            system.close()
        rack.stop_switch()


def on_racks(chosen, settings, programs, found, teller):
    """Two racks and thin links."""
    with racks.TwoRacks(chosen.build, chosen.rack_rate, settings) as rack:
        rack.start()
        up = {order: ([systems.weir(rack, ['allreduce'])] if order == racks.BY_RACK else []) + racks.others(rack, programs, order)
              for order in racks.ORDERS}
        ones = [RackComparison(chosen, rack, systems_up, order) for order, systems_up in up.items() if systems_up]
        for one in ones:
            teller.say('%d racks, ranks %s: %d implementations agree, int32 to the last bit' % (
                racks.RACKS, one.rank_order, one.verify('allreduce')))
        for bytes_ in chosen.sizes or racks.SIZES:
            for one in ones:
                points = one.measure('allreduce', bytes_)
                found['racks'] += points
                best = min(points, key=lambda point: point['us'])
                teller.say('%d racks, ranks %s, %s: best %s %.1f us' % (
                    racks.RACKS, one.rank_order, size_text(bytes_), which(best), best['us']))
        for one in ones:
            for system in one.systems:
                system.close()
        rack.stop()


def run(chosen):
    teller = Teller('compare')
    with open(chosen.settings) as file:
        settings = json.load(file)
    found = {'rate': chosen.rate, 'seed': chosen.seed, 'machine': machine(), 'settings': settings,
             'points': [], 'racks': [], 'rack_rate': chosen.rack_rate}
    teller.warn(found['machine'])
    build = os.path.abspath(chosen.build or os.environ.get('WEIR_BUILD') or 'build')
    programs = systems.compile_others(os.path.join(build, 'compare'), teller.say, chosen.systems)
    if 'Open MPI' not in programs and 'allreduce' in chosen.collectives:
        chosen.collectives = ['allreduce']
    for hosts in sorted(set(chosen.hosts)):
        on_rack(chosen, hosts, settings, programs, found, teller)
    if chosen.racks:
        on_racks(chosen, settings, programs, found, teller)
    tables = texts(found['points'], chosen.rate) if found['points'] else {}
    if found['racks']:
        tables['compare.py, racks'] = '\n'.join(
            ['# all links of %d Mbit/s each way; fp32' % chosen.rack_rate, ''] +
            racks.lines(found['racks'], chosen.rack_rate, size_text))
    print('#\n%s\n#' % '\n#\n'.join(tables.values()), flush=True)
    few = [point for point in found['points'] if (point['bytes'] in PAGE_SIZES if point['collective'] == 'allreduce' else
                                                  (point['hosts'], point['bytes']) == PAGE_OTHERS)]
    tables.update(texts(few, chosen.rate) if few else {})
    if not {'openmpi', 'gloo'} <= set(chosen.systems):
        tables.pop('compare.py', None)  # the page keeps its own
    keep(chosen, found, plots, tables, teller)
    for words in missed(found['points'], chosen.rate) if chosen.per_host == 1 else ():
        print('compare: aim missed: ' + words)
    for words in racks.missed(found['racks'], size_text):
        print('compare: aim missed: ' + words)
    print('\n'.join(racks.last_lines(found['racks'], size_text, times) +
                    (last_lines(found['points'], chosen.rate) if chosen.hosts else [])))
    return 0


if __name__ == '__main__':
    options_chosen = options()
    sys.exit(play('compare', lambda: run(options_chosen)))
