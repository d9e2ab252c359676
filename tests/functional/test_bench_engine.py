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


def counted(*options):
    """Packets that a run without callgrind would have collected."""
    end = subprocess.run([BENCH, 'engine', '--huge', 'no'] + COUNTED + list(options),
                         capture_output=True, text=True, timeout=800, check=False)
    if 'without valgrind' in end.stderr:
        raise Skip('built without the header of valgrind')
    check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
    found = re.findall(r'^counted (\d+) packets$', end.stdout, re.M)
    check(len(found) == 1, 'it prints:\n%s', end.stdout)
    return int(found[0])


@case
def contributions_are_counted_by_bursts():
    check(2000 <= counted() < 2032, 'too many or too few')
    check(2000 <= counted('--results', 'multicast') < 2032, 'too many or too few')


@case
def ordinary_frames_reach_the_station():
    check(2000 <= counted('--traffic', 'forward') < 2032, 'too many or too few')
    check(4000 <= counted('--traffic', 'forward', '--lcores', '2') < 4064, 'two workers')


@case
def a_deterministic_job_sums_as_well():
    for order in ('runs', 'block', 'source', 'random'):
        options = ['--deterministic', '--type', 'fp32', '--order', order]
        check(2000 <= counted(*options) < 2032, '%s', options)


@case
def everything_finishes_in_company():
    """Many jobs, many sources, losses, ordinary frames and a late source: every packet that was asked for is given."""
    for options in (['--jobs', '8'], ['--jobs', '64', '--window', '8'], ['--sources', '256', '--window', '8'],
                    ['--loss', '10'], ['--loss', '10', '--results', 'multicast'], ['--ordinary', '20'],
                    ['--late'], ['--late', '--results', 'multicast'],
                    ['--jobs', '3', '--loss', '5', '--ordinary', '5', '--late', '--batch', '1'],
                    ['--lcores', '2', '--far', '50', '--jobs', '2', '--ordinary', '5', '--late']):
        check(counted('--packets', '6000', *options) >= 6000, '%s', options)
    for options, word in ((['--lcores', '2', '--loss', '1'], 'one lcore'), (['--jobs', '200', '--lcores', '2'], '256'),
                          (['--late', '--order', 'block'], 'order runs'), (['--ordinary', '1', '--authenticate'], 'without')):
        end = subprocess.run([BENCH, 'engine', '--packets', '1', '--huge', 'no'] + options, capture_output=True,
                             text=True, timeout=800, check=False)
        check(end.returncode == 2 and word in end.stderr, '%s: it says:\n%s', options, end.stderr)


@case
def an_authenticated_job_beside_a_plain_one():
    end = subprocess.run([BENCH, 'engine', '--huge', 'no', '--authenticate', '--elements', '16,300', '--json', '-',
                          '--type', 'fp32', '--frames', '2048'], capture_output=True, text=True, timeout=800, check=False)
    if 'no time to measure' in end.stderr:
        raise Skip('the machine is too busy')
    check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
    found = json.loads(end.stdout)
    check([(r['elements'], r['authenticated']) for r in found] ==
          [(16, False), (16, True), (300, False), (300, True)], '%s', found)
    check(all(r['kway'] > 0 and r['bare'] > 0 for r in found), '%s', found)
    for plain, tagged in zip(found[::2], found[1::2]):
        check(plain['plain'] is None and tagged['plain'] == plain['payload'], '%s', tagged)
        check(abs(tagged['kept'] - tagged['payload'] / plain['payload']) < 1e-3, '%s', tagged)
    end = subprocess.run([BENCH, 'engine', '--authenticate', '--checksum', 'software'],
                         capture_output=True, text=True, timeout=800, check=False)
    check(end.returncode == 2 and 'only with' in end.stderr, 'it says:\n%s', end.stderr)


@case
def instructions_are_in_the_records():
    counts = []
    for options in ([], ['--count'], ['--count', '--elements', '300']):
        end = subprocess.run([BENCH, 'engine', '--huge', 'no', '--elements', '16', '--type', 'int32', '--json', '-'] + options,
                             capture_output=True, text=True, timeout=800, check=False)
        if 'no time to measure' in end.stderr or 'valgrind' in end.stderr:
            raise Skip(end.stderr.splitlines()[-1])
        check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
        record, = json.loads(end.stdout)
        counts.append(record['instructions'])
        # Where the CPU counts, it counts the bench, too.
        check(record['counter'] in (('callgrind',) if options else (None, 'hardware')), '%s', record)
        check((record['counter'] is None) == (record['instructions'] is None), '%s', record)
    check(0 < counts[1] < counts[2] < 100000, 'of 16 and 300 elements: %s', counts)


@case
def more_lcores_than_cpus_are_refused():
    have = len(os.sched_getaffinity(0))
    if have >= 16:
        raise Skip('16 CPUs')
    end = subprocess.run([BENCH, 'engine', '--lcores', str(have + 1), '--huge', 'no'],
                         capture_output=True, text=True, timeout=800, check=False)
    check(end.returncode == 2 and 'may use %d CPUs' % have in end.stderr, 'it says:\n%s',
          end.stderr)


@case
def only_the_allowed_cpus_are_used():
    first = min(os.sched_getaffinity(0))
    end = subprocess.run(['taskset', '-c', str(first), BENCH, 'engine', '--huge', 'no',
                          '--lcores', '2'], capture_output=True, text=True, timeout=800, check=False)
    check(end.returncode == 2 and 'may use 1 CPUs' in end.stderr, 'it says:\n%s', end.stderr)


@case
def nothing_hops_unless_it_is_asked_for():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip('one CPU')
    for options, points in ((['--lcores', '2'], [(2, 0)]),
                            (['--lcores', '1,2', '--far', '0,50'], [(1, 0), (2, 0), (2, 0.5)])):
        end = subprocess.run([BENCH, 'engine', '--huge', 'no', '--elements', '16', '--json', '-',
                              '--type', 'fp32'] + options,
                             capture_output=True, text=True, timeout=800, check=False)
        if 'no time to measure' in end.stderr:
            raise Skip('the machine is too busy')
        check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
        found = json.loads(end.stdout)
        check([(r['lcores'], r['far']) for r in found] == points and all('disturbed' in r for r in found), '%s',
              found)
        # The limit of two lcores is twice what one did, where one was measured; a hop's cost beside none.
        for r in found:
            one = [o['payload'] for o in found if o['lcores'] == 1 < r['lcores']]
            check((r['many'] is None) == (one == []) and (not one or abs(r['many'] / one[0] - 2) < 1e-3), '%s', r)
            check((r['hop'] is None) == (r['far'] == 0), '%s', r)
            check(abs(r['ratio'] - r['payload'] / r['bare']) < 1e-3, '%s', r)
    end = subprocess.run([BENCH, 'engine', '--far', '100'], capture_output=True, text=True,
                         timeout=800, check=False)
    check(end.returncode == 2 and 'in 0..99' in end.stderr, 'it says:\n%s', end.stderr)


if __name__ == '__main__':
    main()
