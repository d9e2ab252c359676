#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench tree: a row with the figures of one switch, a leaf and a spine; weir-bench engine in these roles."""
import json
import os
import re
import subprocess

from tap import Skip, case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')


def bench(*options, status=0):
    end = subprocess.run([BENCH] + list(options) + ['--huge', 'no'], capture_output=True, text=True, timeout=800, check=False)
    if 'no time to measure' in end.stderr or 'without valgrind' in end.stderr:
        raise Skip(end.stderr.splitlines()[-1])
    check(end.returncode == status, 'exit status %d\n%s', end.returncode, end.stderr)
    return end


@case
def a_row_for_each_number_of_elements():
    found = json.loads(bench('tree', '--elements', '16,300', '--sources', '3', '--leaves', '2', '--frames', '512', '--repeat', '1',
                             '--phase-ms', '5', '--json', '-').stdout)
    check([r['elements'] for r in found] == [16, 300], '%s', found)
    for r in found:
        check(all(r['time_' + role] > 0 and r['latency_' + role] > 0 for role in ('switch', 'leaf', 'spine')), '%s', r)
        # Of one turn: sums and differences.
        check(abs(r['up'] - 3 * (r['time_leaf'] - r['time_switch'])) < 0.1, '%s', r)
        check(0 < r['latency_leaf_up'] < r['latency_leaf'], '%s', r)
        check(abs(r['added'] - (r['latency_leaf'] + r['latency_spine'] - r['latency_switch'])) < 1e-3, '%s', r)
        check(r['instructions_up'] is None and r['disturbed'] in (True, False), '%s', r)


@case
def a_leaf_and_a_spine_finish_what_they_get():
    """The bench compares what goes up, what comes back and what a spine sends with the sums."""
    for role, least in (('leaf', 2000), ('spine', 2000)):
        for more in ([], ['--type', 'fp32', '--deterministic'], ['--batch', '1'], ['--jobs', '3', '--window', '16']):
            end = bench('engine', '--role', role, '--packets', str(least), '--frames', '512', '--elements', '16', '--type', 'int32',
                        '--sources', '4', *more)
            counted = re.findall(r'^counted (\d+) packets$', end.stdout, re.M)
            check(len(counted) == 1 and least <= int(counted[0]) < least + 32, '%s %s: %s', role, more, end.stdout)
    for words, said in ((['--lcores', '2'], 'one lcore'), (['--results', 'multicast'], 'unicast'), (['--loss', '1'], 'without')):
        end = bench('engine', '--role', 'leaf', *words, status=2)
        check(said in end.stderr, '%s: %s', words, end.stderr)


@case
def a_tree_counts_instructions():
    record, = json.loads(bench('tree', '--elements', '16', '--frames', '512', '--repeat', '1', '--phase-ms', '5', '--count', '--json',
                               '-').stdout)
    if record['instructions_switch'] is None:
        raise Skip('no valgrind')
    check(0 < record['instructions_switch'] < record['instructions_leaf'] < 20000, '%s', record)
    check(record['instructions_spine'] > 0 and record['instructions_up'] > 0, '%s', record)


if __name__ == '__main__':
    main()
