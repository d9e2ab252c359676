#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench engine with a count of packets: contributions and ordinary frames reach their ends."""
import os
import re
import subprocess

from tap import Skip, case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
COUNTED = ['--packets', '2000', '--frames', '512', '--elements', '16', '--type', 'int32']


def counted(*options):
    """Packets that a run without callgrind would have collected."""
    end = subprocess.run([BENCH, 'engine', '--huge', 'no'] + COUNTED + list(options),
                         capture_output=True, text=True, timeout=60, check=False)
    if 'without valgrind' in end.stderr:
        raise Skip('built without the header of valgrind')
    check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
    found = re.search(r'^counted (\d+) packets$', end.stdout, re.M)
    check(found, 'it prints:\n%s', end.stdout)
    return int(found.group(1))


@case
def contributions_are_counted_by_bursts():
    check(2000 <= counted() < 2032, 'too many or too few')
    check(2000 <= counted('--results', 'multicast') < 2032, 'too many or too few')


@case
def ordinary_frames_reach_the_station():
    check(2000 <= counted('--traffic', 'forward') < 2032, 'too many or too few')
    check(4000 <= counted('--traffic', 'forward', '--lcores', '2') < 4064, 'two workers')


if __name__ == '__main__':
    main()
