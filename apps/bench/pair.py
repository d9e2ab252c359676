#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench pair: two builds of the engine, in turn on one machine.

A shared machine is faster or slower from one minute to the next, by more than what a change gains. So the builds run
alternately, a second or two at a time, and the ratio of two runs side by side counts: the median of all turns, with
quartiles as its spread. Each turn begins with the other build. Both get the same options.
"""
import argparse
import os
import statistics
import sys

from report import Column, Parser, Report, engine, number

RESULTS = ('unicast', 'multicast')
BUILDS = ('old', 'new')
COLUMNS = [
    Column('elements', 'elements'), Column('type', 'type', width=5), Column('results', 'results', width=9), Column('order'),
    Column('old', 'old', 'Mpps', 3, 7), Column('new', 'new', 'Mpps', 3, 7), Column('ratio', 'ratio', '', 3),
    Column('lower', 'lower', 'quartile', 3), Column('upper', 'upper', 'quartile', 3), Column('turns'), Column('disturbed'),
    Column(None, '', left=True)]


def build(name):
    """The program of a build directory, or a program itself."""
    for path in (os.path.join(name, 'apps', 'bench', 'weir-bench'), name):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise argparse.ArgumentTypeError('%s: no weir-bench; give a build directory or a program' % name)


def options(words):
    parser = Parser('pair')
    parser.add_argument('--turns', type=number(1, 999), default=15, metavar='N', help='how often each build runs')
    parser.common()
    for name in BUILDS:
        parser.add_argument(name, type=build, metavar=name.upper(), help='a build directory or a program')
    parser.add_argument('more', nargs=argparse.REMAINDER, metavar='ENGINE-OPTION', help='option of both engines')
    return parser.parse_args(words)


def main(words):
    chosen = options(words)
    report = Report('pair', chosen.json)
    for name in BUILDS:
        report.note('%s: %s', name, vars(chosen)[name])
    report.note('ratio: median of %d turns, new / old side by side, and its quartiles; *: others had the CPU in most runs',
                chosen.turns)
    report.table(COLUMNS)
    runs = {(results, name): [] for results in RESULTS for name in BUILDS}
    for turn in range(chosen.turns):
        for results in RESULTS:
            for name in BUILDS[::-1 if turn % 2 else 1]:
                runs[results, name].append(engine(
                    'pair', vars(chosen)[name], '--results', results, '--type', 'int32', '--elements', '64,256,1024', '--huge',
                    chosen.huge, '--repeat', chosen.repeat, '--phase', chosen.phase_ms, '--order', 'runs', *chosen.more))
    if len({len(run) for turns in runs.values() for run in turns}) != 1:
        sys.exit('weir-bench pair: the builds measure different numbers of points')
    for results in RESULTS:
        for old, new in zip(*(zip(*runs[results, name]) for name in BUILDS)):  # a point, in all turns
            rates = [[record['rate'] for record in turns] for turns in (old, new)]
            ratios = sorted(b / a for a, b in zip(*rates))
            quarter = (chosen.turns - 1) // 4  # so many are less than the lower quartile, and greater than the upper one
            disturbed = sum(record['disturbed'] for record in old + new) > chosen.turns
            report.row(old[0]['elements'], old[0]['type'], results, old[0]['order'], *map(statistics.median, rates),
                       statistics.median(ratios), ratios[quarter], ratios[-1 - quarter], chosen.turns, disturbed,
                       '*' if disturbed else '')
    return report.close()


if __name__ == '__main__':
    sys.exit(main(sys.argv[2:]))
