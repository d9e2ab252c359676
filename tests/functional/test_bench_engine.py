#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench engine with a count of packets: contributions and ordinary frames reach their ends."""
import json
import os
import re
import subprocess

from tap import Skip, case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
COUNTED = ['--packets', '2000', '--frames', '512', '--elements', '16', '--type', 'int32']


def counted(*options, times=1):
    """Packets that a run without callgrind would have collected, `times` in turn."""
    end = subprocess.run([BENCH, 'engine', '--huge', 'no'] + COUNTED + list(options),
                         capture_output=True, text=True, timeout=120, check=False)
    if 'without valgrind' in end.stderr:
        raise Skip('built without the header of valgrind')
    check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
    found = re.findall(r'^counted (\d+) packets$', end.stdout, re.M)
    check(len(found) == times, 'it prints:\n%s', end.stdout)
    return int(found[-1])


@case
def contributions_are_counted_by_bursts():
    check(2000 <= counted() < 2032, 'too many or too few')
    check(2000 <= counted('--results', 'multicast') < 2032, 'too many or too few')


@case
def ordinary_frames_reach_the_station():
    check(2000 <= counted('--traffic', 'forward') < 2032, 'too many or too few')
    check(4000 <= counted('--traffic', 'forward', '--lcores', '2') < 4064, 'two workers')


@case
def authenticated_contributions_are_taken():
    for options in ([], ['--results', 'multicast'], ['--sources', '3', '--window', '4']):
        check(2000 <= counted('--authenticate', *options, times=2) < 2032, '%s', options)
    # Each lcore ends with its own burst, a little before or after the other has its share.
    far = counted('--authenticate', '--lcores', '2', '--far', '0.5', times=2)
    check(3872 <= far < 4128, '%d of about 4000', far)
    for options in (['--traffic', 'forward'], ['--checksum', 'software']):
        end = subprocess.run([BENCH, 'engine', '--authenticate'] + options, capture_output=True,
                             text=True, timeout=120, check=False)
        check(end.returncode == 2 and '--authenticate goes with' in end.stderr, '%s', end.stderr)


@case
def a_deterministic_job_sums_as_well():
    for order in ('block', 'source', 'random'):
        options = ['--deterministic', '--type', 'fp32', '--order', order]
        check(2000 <= counted(*options) < 2032, '%s', options)


@case
def an_authenticated_job_stands_beside_the_same_without():
    end = subprocess.run([BENCH, 'engine', '--huge', 'no', '--elements', '16', '--type', 'int32',
                          '--authenticate', '--json', '-'], capture_output=True, text=True,
                         timeout=120, check=False)
    if 'no time to measure' in end.stderr:
        raise Skip('the machine is too busy')
    check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
    found = json.loads(end.stdout)
    for metric in ('time', 'rate', 'payload'):
        check([r['params']['authenticated'] for r in found if r['metric'] == metric] ==
              [False, True], '%s: %s', metric, found)
    ratios = [r for r in found if r['metric'] == 'authenticated']
    check(len(ratios) == 1 and ratios[0]['params']['authenticated'], '%s', ratios)
    check(0 < ratios[0]['value'] < 2 and ratios[0]['limit'] == 1, '%s', ratios)
    rows = [line.split() for line in end.stderr.splitlines() if line.strip()[:1].isdigit()]
    check([row[11] for row in rows] == ['no', 'yes'] and float(rows[1][12]) > 0, '%s', end.stderr)


@case
def more_lcores_than_cpus_are_refused():
    have = len(os.sched_getaffinity(0))
    if have >= 16:
        raise Skip('16 CPUs')
    for bench in ('engine', 'scaling'):
        end = subprocess.run([BENCH, bench, '--lcores', str(have + 1), '--huge', 'no'],
                             capture_output=True, text=True, timeout=120, check=False)
        check(end.returncode == 2 and 'may use %d CPUs' % have in end.stderr, 'it says:\n%s',
              end.stderr)


@case
def only_the_allowed_cpus_are_used():
    first = min(os.sched_getaffinity(0))
    end = subprocess.run(['taskset', '-c', str(first), BENCH, 'engine', '--huge', 'no',
                          '--lcores', '2'], capture_output=True, text=True, timeout=120, check=False)
    check(end.returncode == 2 and 'may use 1 CPUs' in end.stderr, 'it says:\n%s', end.stderr)


@case
def nothing_hops_unless_it_is_asked_for():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip('one CPU')
    for options, far in (([], 0), (['--far', '0.5'], 0.5)):
        end = subprocess.run([BENCH, 'engine', '--huge', 'no', '--elements', '16', '--json', '-',
                              '--lcores', '2', '--type', 'fp32'] + options,
                             capture_output=True, text=True, timeout=120, check=False)
        if 'no time to measure' in end.stderr:
            raise Skip('the machine is too busy')
        check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
        found = json.loads(end.stdout)
        check(found and all(r['params']['far'] == far for r in found), '%s', found)
        check('far %g,' % far in end.stderr, 'it says:\n%s', end.stderr)
        check(all('disturbed' in r['observed'] for r in found), '%s', found)
    end = subprocess.run([BENCH, 'engine', '--far', '1'], capture_output=True, text=True,
                         timeout=120, check=False)
    check(end.returncode == 2 and 'in 0..0.999' in end.stderr, 'it says:\n%s', end.stderr)


if __name__ == '__main__':
    main()
