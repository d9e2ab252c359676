#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench tree: what a level of a tree adds, beside one switch in the same run.

Three switches take turns on one lcore, each as `weir-bench engine --role`: one switch, a leaf, and a spine. A turn measures
first what a contribution costs in a closed loop, then the latency of blocks that come one at a time. The generator is the
leaf's parent and answers in the next poll. Figures are medians over the turns; ratios and differences those of the same turn.
docs/benchmarks.md explains the columns.
"""
import statistics
import sys

from report import Column, Parser, Report, engine, number, numbers, program

RANKS = 4  # of a source of the spine
ROLES = ('switch', 'leaf', 'spine')
COLUMNS = [
    Column('sources', 'sources'), Column('leaves', 'leaves'), Column('window'), Column('elements', 'elements'),
    Column('type', 'type', '', 0, 5), Column('huge_pages'), Column('time_switch', 'switch', 'ns', 1),
    Column('time_leaf', 'leaf', 'ns', 1, 6), Column('up', 'up', 'ns/block', 1), Column('up_share', 'up', 'contrib', 2),
    Column('time_spine', 'spine', 'ns', 1, 6),
    Column('latency_switch', 'switch', 'us', 2), Column('latency_leaf_up', 'leaf up', 'us', 2),
    Column('latency_leaf', 'and down', 'us', 2), Column('latency_spine', 'spine', 'us', 2), Column('added', 'added', 'us', 2),
    *(Column('instructions_' + name, 'instr.', name, 0, 6) for name in (*ROLES, 'up')), Column('disturbed'),
    Column(None, '', left=True)]


def options(words):
    parser = Parser('tree')
    parser.add_argument('--elements', type=numbers(1, 2048), default='64,256,1024', metavar='LIST', help='elements of a contribution')
    parser.add_argument('--type', choices=('int32', 'fp32'), default='fp32', help='type of the elements')
    parser.add_argument('--sources', type=number(2, 128), default=4, metavar='N', help='hosts of one switch, and of a leaf')
    parser.add_argument('--leaves', type=number(2, 64), default=2, metavar='N', help='sources of the spine')
    parser.add_argument('--window', type=number(2, 4096), default=64, metavar='N', help='blocks in flight, a power of two')
    parser.add_argument('--frames', type=number(1, 10**6), default=4096, metavar='N', help='mbufs in rotation')
    parser.add_argument('--count', action='store_true', help='also count instructions with valgrind, some seconds for each switch')
    parser.common()
    return parser.parse_args(words)


def measure(chosen, role, *more):
    """The records of one of the three, by elements."""
    found = engine('tree', program('bench', 'weir-bench'), '--role', role, '--elements', ','.join(map(str, chosen.elements)), '--type',
                   chosen.type, '--window', chosen.window, '--frames', chosen.frames, '--huge', chosen.huge, '--sources',
                   chosen.leaves if role == 'spine' else chosen.sources, '--repeat', 1, '--phase', chosen.phase_ms, *more)
    return {record['elements']: record for record in found}


def main(words):
    chosen = options(words)
    report = Report('tree', chosen.json)
    report.note('one switch, a leaf whose parent answers at once, and a spine with leaves of %d ranks, in turn', RANKS)
    report.note('ns per contribution, CPU time; up: of a block, its contribution upward and the answer; us: from the last '
                'contribution to the results, a block at a time')
    turns = [{role: (measure(chosen, role), measure(chosen, role, '--lone')) for role in ROLES} for _ in range(chosen.repeat)]
    counted = {role: measure(chosen, role, '--order', 'block', '--count') for role in ROLES} if chosen.count else None
    report.table(COLUMNS)
    for n in chosen.elements:
        def median(of, n=n):
            """of: of the time (ns) and the latency (us) of each role, and the latency upward."""
            return statistics.median(of({role: turn[role][0][n]['time'] for role in ROLES},
                                        {role: turn[role][1][n]['latency'] for role in ROLES}, turn['leaf'][1][n]['latency_up'])
                                     for turn in turns)

        def up(time):
            return (time['leaf'] - time['switch']) * chosen.sources

        count = [counted and counted[role][n]['instructions'] for role in ROLES]
        disturbed = statistics.mean(turn[role][0][n]['disturbed'] for turn in turns for role in ROLES) > 0.5
        report.row(
            chosen.sources, chosen.leaves, chosen.window, n, chosen.type, turns[0]['switch'][0][n]['huge_pages'],
            median(lambda time, *_: time['switch']), median(lambda time, *_: time['leaf']), median(lambda time, *_: up(time)),
            median(lambda time, *_: up(time) / time['switch']), median(lambda time, *_: time['spine']),
            median(lambda _, us, __: us['switch']), median(lambda _, __, us: us), median(lambda _, us, __: us['leaf']),
            median(lambda _, us, __: us['spine']), median(lambda _, us, __: us['leaf'] + us['spine'] - us['switch']), *count,
            None if None in count else (count[1] - count[0]) * chosen.sources, disturbed, '*' if disturbed else '')
    return report.close()


if __name__ == '__main__':
    sys.exit(main(sys.argv[2:]))
