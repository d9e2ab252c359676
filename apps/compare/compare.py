#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Side by side: Weir, Open MPI and Gloo on the same hosts and the same rate-limited links.

    compare.py [BUILD] [--hosts 2 4 8] [--sizes 4 16 ... 64M] [--rate 200] [--quick]

Every system is up all the time and asleep while it is not its turn; repetitions are interleaved, and
the measuring loop, the data and the check are the same code in all of them. docs/compare.md says what
is measured and how to read it.

The last line is `compare: 8 hosts 1 MiB: X.XX of the link, Y.YY x the best other`. The exit status is
1 if a result was wrong or something failed; an aim that is not met is said in words.
"""
import argparse
import array
import json
import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import drawing  # noqa: E402 (the path comes first)
import stage  # noqa: E402
import table  # noqa: E402
from experiment import Teller, keep, machine  # noqa: E402
from rack import RackError  # noqa: E402

SETTINGS = os.path.join(HERE, 'settings.json')
SIZES = [4 << (2 * k) for k in range(13)]  # 4 B to 64 MiB
OTHER_SIZES = [1 << 12, 1 << 16, 1 << 20, 1 << 24]  # of the collectives beside AllReduce
OTHERS = ('reducescatter', 'allgather', 'alltoall')
TCP_LEAST = 0.95  # of the link: else the others get a bridge
GIVE_UP = 1.4  # an algorithm so much slower than the best of the others is not repeated
FORGET = ((4 << 20, 1.25), (256 << 10, 3.0))  # from this size on so much slower: not tried with larger ones


class Wrong(Exception):
    """A system's result is not what it has to be."""


def size(text):
    found = re.fullmatch(r'(\d+)([KMG]?)', text.upper())
    if not found or int(found.group(1)) == 0:
        raise argparse.ArgumentTypeError('%s is not a size like 4, 64K or 1M' % text)
    number = int(found.group(1)) << {'': 0, 'K': 10, 'M': 20, 'G': 30}[found.group(2)]
    if number % 4 or number > 1 << 30:
        raise argparse.ArgumentTypeError('%s is not a multiple of 4 up to 1G' % text)
    return number


def options(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', 1)[0],
                                     epilog='docs/compare.md says how to read it')
    parser.add_argument('build', nargs='?')
    parser.add_argument('--hosts', nargs='+', type=int, default=[2, 4, 8], metavar='N')
    parser.add_argument('--sizes', nargs='+', type=size, metavar='BYTES',
                        help='of AllReduce, and of the others; 4 .. 64M by 4, and 4K .. 16M by 16')
    parser.add_argument('--collectives', nargs='+', default=('allreduce',) + OTHERS,
                        choices=('allreduce',) + OTHERS, metavar='C',
                        help='allreduce, reducescatter, allgather, alltoall (all)')
    parser.add_argument('--rate', type=int, default=200, metavar='MBIT',
                        help='of the links, Mbit/s each way (200)')
    parser.add_argument('--repeat', type=int, metavar='N', help='repetitions (5; 3 above 1 MiB)')
    parser.add_argument('--others-over', choices=('auto', 'switch', 'bridge'), default='auto',
                        help='what carries the others: weir-switch, a bridge of the kernel; auto: '
                        'the switch, if TCP gets %.2f of a link through it' % TCP_LEAST)
    parser.add_argument('--only-weir', action='store_true', help='leave the others out')
    parser.add_argument('--settings', default=SETTINGS, metavar='FILE',
                        help='of the switch and the job (apps/compare/settings.json)')
    parser.add_argument('--json', metavar='FILE', help='write all figures into this file')
    parser.add_argument('--plots', metavar='FOLDER', help='draw SVG files into this folder')
    parser.add_argument('--page', metavar='FILE', help='put the table into this Markdown file')
    parser.add_argument('--seed', type=int, default=1, help='of the data (1)')
    parser.add_argument('--quick', action='store_true',
                        help='few sizes and repetitions: does it work, not how well')
    chosen = parser.parse_args(words)
    if min(chosen.hosts) < 2 or max(chosen.hosts) > 16:
        parser.error('2 to 16 hosts')
    if not 1 <= chosen.rate <= 10000:
        parser.error('a rate of 1 to 10000 Mbit/s')
    if chosen.quick:
        chosen.hosts = [min(chosen.hosts)]
        chosen.sizes = chosen.sizes or [4, 1 << 16]
        chosen.repeat = chosen.repeat or 1
    return chosen


def iterations(bytes_, rate):
    """Operations in a row: about 0.4 s at a link's half rate, 1 at least and 100 at most."""
    return max(1, min(100, int(0.2 * rate * 1e6 / (8 * bytes_))))


class Comparison:
    """All measurements on one stage."""

    def __init__(self, chosen, scene, systems, teller):
        self.chosen, self.stage, self.systems, self.teller = chosen, scene, systems, teller
        self.forgotten = set()

    def order(self, collective, bytes_, **changes):
        total = bytes_ // 4
        if collective != 'allreduce':
            total = max(1, total // self.stage.hosts) * self.stage.hosts
        order = {'collective': collective, 'type': 'fp32', 'total': total, 'algorithm': 'default',
                 'warmup': 5 if bytes_ <= 1 << 16 else 1 if bytes_ <= 1 << 22 else 0,
                 'iterations': iterations(bytes_, self.chosen.rate), 'seed': self.chosen.seed,
                 'check': 0, 'file': '-'}
        order.update(changes)
        return order

    def run(self, system, order):
        """Returns the microseconds of an operation and the answers."""
        least = order['total'] * 4 * 8 / (self.stage.rate * 1e6)
        answers = system.run(order, 20 + 30 * least * (order['iterations'] + order['warmup']))
        wrong = sum(answer['wrong'] for answer in answers)
        if wrong:
            raise Wrong('%s, %s of %s: %d elements are WRONG' % (
                system.name, order['collective'], table.size_text(order['total'] * 4), wrong))
        took = max(a['ended'] for a in answers) - min(a['began'] for a in answers)
        return took / 1e3 / order['iterations'], answers

    def runners(self, collective):
        """(system, algorithm) that know the collective."""
        return [(s, a) for s in self.systems for a in s.algorithms
                if collective == 'allreduce' or (s.name != 'Gloo' and a == 'default')]

    def measure(self, collective, bytes_):
        """Points of one operation, of all systems."""
        samples = {r: [] for r in self.runners(collective) if (collective, r) not in self.forgotten}
        repeat = self.chosen.repeat or (5 if bytes_ <= table.MIB else 3)
        slow = set()
        for number in range(repeat):
            for runner in samples:
                if runner not in slow:
                    system, algorithm = runner
                    samples[runner].append(self.run(system, self.order(
                        collective, bytes_, algorithm=algorithm, check=int(number == 0)))[0])
            if number == 0:
                slow = self.slow(samples, GIVE_UP)
                for least, factor in FORGET:
                    if bytes_ >= least:
                        self.forgotten |= {(collective, r) for r in self.slow(samples, factor)}
        real = self.order(collective, bytes_)['total'] * 4
        return [{'hosts': self.stage.hosts, 'collective': collective, 'bytes': real,
                 'type': 'fp32', 'system': system.name, 'algorithm': algorithm,
                 'us': statistics.median(found), 'samples_us': found}
                for (system, algorithm), found in samples.items()]

    @staticmethod
    def slow(samples, factor):
        """The algorithms that are far from the best of the others."""
        others = {r: s[0] for r, s in samples.items() if r[0].name != table.WEIR}
        best = min(others.values(), default=0)
        return {r for r, took in others.items() if took > factor * best}

    def verify(self, collective):
        """All systems get the same data: int32 must come out the same to the last bit on every rank,
        and floating-point sums as close to Open MPI's as two orders of summing may be."""
        bytes_, seen, sums = 1 << 18, {}, {}
        for number, (system, algorithm) in enumerate(self.runners(collective)):
            name = '%s %s' % (system.name, algorithm)
            order = self.order(collective, bytes_, iterations=1, check=1, algorithm=algorithm)
            answers = self.run(system, dict(order, type='int32'))[1]
            seen[name] = [answer['fingerprint'] for answer in answers]
            path = os.path.join(self.stage.folder, 'result-%s-%d' % (collective, number))
            self.run(system, dict(order, file=path))
            sums[name] = array.array('f')
            with open(path + '.0', 'rb') as file:
                sums[name].frombytes(file.read())
            for rank in range(self.stage.hosts):
                os.unlink('%s.%d' % (path, rank))
        model = 'Open MPI default' if 'Open MPI default' in seen else next(iter(seen))
        # Twice the bound of bench.h, as two sums are compared; |x| is 1 at most.
        bound = 2 * (self.stage.hosts - 1) * 2 ** -24 * self.stage.hosts
        for name in seen:
            if seen[name] != seen[model]:
                raise Wrong('%s, int32: %s and %s differ' % (collective, name, model))
            far = max(abs(x - y) for x, y in zip(sums[name], sums[model]))
            if len(sums[name]) != len(sums[model]) or not far <= bound:
                raise Wrong('%s, fp32: %s and %s differ by %g' % (collective, name, model, far))
        return len(seen)


def best_text(points, rate):
    row = table.rows(points)[0]
    words = ['%d hosts, %s, %s:' % (row['hosts'], row['collective'], table.size_text(row['bytes']))]
    if row['weir']:
        words.append('Weir %.1f us, %.3f of the link;' % (row['weir']['us'],
                                                        table.share(row['weir'], rate)))
    if row['best']:
        words.append('%s %.1f us;' % (table.which(row['best']), row['best']['us']))
    if row['ratio']:
        words.append('%.2f x' % row['ratio'])
    return ' '.join(words).rstrip(';')


def start_systems(scene, programs, bridge, teller):
    systems = [stage.weir(scene)]
    if 'Open MPI' in programs:
        systems += [stage.open_mpi(scene, programs['Open MPI'], algorithm, bridge)
                    for algorithm in stage.MPI_ALGORITHMS]
    if 'Gloo' in programs:
        systems.append(stage.gloo(scene, programs['Gloo'], bridge))
    names = {}
    for system in systems:
        names.setdefault(system.name, []).extend(system.algorithms)
    teller.say('%d hosts: up are %s' % (scene.hosts, '; '.join(
        '%s (%s)' % (name, ', '.join(known)) for name, known in names.items())))
    return systems


def choose_way(chosen, scene, found, teller):
    """What carries the others. Notes what TCP gets through both."""
    shares = {'switch': stage.tcp_share(scene), 'bridge': stage.tcp_share(scene, True)}
    found['tcp_share'] = shares
    teller.say('one TCP stream: %.3f of the link through weir-switch, %.3f through a bridge' % (
        shares['switch'], shares['bridge']))
    way = chosen.others_over
    if way == 'auto':
        way = 'switch' if shares['switch'] >= TCP_LEAST else 'bridge'
    found['others_over'] = {'switch': 'the same weir-switch', 'bridge': 'a bridge of the kernel'}[way]
    teller.say('the others go through %s' % found['others_over'])
    return way


def on_stage(chosen, hosts, settings, programs, found, teller):
    """Everything with so many hosts."""
    way = found.get('way')
    with stage.Stage(chosen.build, hosts, chosen.rate, settings, bridge=True) as scene:
        scene.start_switch()
        if way is None:
            way = found['way'] = choose_way(chosen, scene, found, teller)
        systems = start_systems(scene, programs, way == 'bridge', teller)
        one = Comparison(chosen, scene, systems, teller)
        for collective in chosen.collectives:
            if collective != 'allreduce' and hosts != max(chosen.hosts):
                continue
            teller.say('%d hosts, %s: %d implementations agree, int32 to the last bit' % (
                hosts, collective, one.verify(collective)))
            for bytes_ in chosen.sizes or (SIZES if collective == 'allreduce' else OTHER_SIZES):
                points = one.measure(collective, bytes_)
                found['points'] += points
                teller.say(best_text(points, chosen.rate))
        for system in systems:
            system.close()
        scene.stop_switch()


def run(chosen, teller):
    with open(chosen.settings) as file:
        settings = json.load(file)
    found = {'rate': chosen.rate, 'seed': chosen.seed, 'machine': machine(), 'settings': settings,
             'others_over': '-', 'points': []}
    teller.warn(found['machine'])
    build = os.path.abspath(chosen.build or os.environ.get('WEIR_BUILD') or 'build')
    programs = {} if chosen.only_weir else stage.compile_others(
        os.path.join(build, 'compare'), teller.say)
    if set(chosen.collectives) - {'allreduce'} and 'Open MPI' not in programs:
        chosen.collectives = [c for c in chosen.collectives if c == 'allreduce'] or \
            list(chosen.collectives)
    for hosts in sorted(set(chosen.hosts)):
        on_stage(chosen, hosts, settings, programs, found, teller)
    return found


def main():
    chosen = options()
    if os.getuid() != 0:
        print('compare: needs root, for network namespaces')
        return 1
    teller = Teller('compare')
    try:
        found = run(chosen, teller)
        text = '# links of %d Mbit/s each way; fp32; the others through %s\n\n%s' % (
            chosen.rate, found['others_over'],
            '\n'.join(table.table(found['points'], chosen.rate)))
        print('#\n%s\n#' % text, flush=True)
        keep(chosen, found, drawing.plots, {'compare.py': text}, teller)
    except Wrong as error:
        print('compare: %s' % error)
        return 1
    except RackError as error:
        print('compare: failed: %s' % error)
        return 1
    except SystemExit:
        print('compare: interrupted; processes and namespaces are gone', flush=True)
        raise
    for words in table.missed(found['points'], chosen.rate):
        print('compare: aim missed: ' + words)
    print(table.last_line(found['points'], chosen.rate))
    return 0


if __name__ == '__main__':
    sys.exit(main())
