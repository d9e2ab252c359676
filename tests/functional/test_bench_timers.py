#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench timers and detect: rows and records with tiny parameters. Times are the machine's matter; but
nothing is found before its time, on whatever machine."""
import json
import os
import re
import subprocess

from tap import case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
TINY = ['--records', '8192', '--elements', '16', '--timeout', '1,100', '--repeat', '3',
        '--phase-ms', '100', '--frames', '512']
FEW = ['--samples', '20', '--timeout', '1,30']


def bench(name, *options, status=0):
    end = subprocess.run([BENCH, name, '--huge', 'no', '--json', '-'] + list(options),
                         capture_output=True, text=True, timeout=60, check=False)
    check(end.returncode == status, 'exit status %d, not %d\n%s', end.returncode, status,
          end.stderr)
    return end


def rows(end):
    return [line.split() for line in end.stderr.splitlines() if line[:1] == ' ']


@case
def the_table_is_full_and_both_are_measured():
    if len(os.sched_getaffinity(0)) < 2:
        return
    end = bench('timers', *TINY)
    check([r[:3] for r in rows(end)] == [['8192', '1', '16'], ['8192', '100', '16']], 'rows:\n%s',
          end.stderr)
    for record in json.loads(end.stdout):
        check(record['value'] > 0 and record['limit'] > 0, 'nothing measured: %s', record)
        check(record['observed']['live records'] == 8192, '%s', record)


@case
def nothing_is_found_before_its_time():
    for idle in ('yield', 'sleep'):
        end = bench('detect', *FEW, '--idle', idle)
        # On a busy machine a line may say instead that there is nothing to judge by.
        starved = re.findall(r'^# timeout (\d+) ms, load (\w+): .*lost its CPU', end.stderr, re.M)
        wanted = [(t, load) for t in ('1', '30') for load in ('no', 'yes')]
        check([(r[0], r[2]) for r in rows(end)] == [w for w in wanted if w not in starved] and
              all(r[1] == idle for r in rows(end)), 'rows:\n%s', end.stderr)
        least = [r for r in json.loads(end.stdout) if r['metric'] == 'detection min']
        check(len(least) == 4 - len(starved) and all(r['value'] >= 1 for r in least), '%s', least)


@case
def bad_options_are_refused():
    for options in (['--records', '1'], ['--timeout', '0'], ['--timeout', '60001']):
        bench('timers', *options, status=2)
    for options in (['--idle', 'rest'], ['--samples', '1'], ['--load', 'some']):
        bench('detect', *options, status=2)


if __name__ == '__main__':
    main()
