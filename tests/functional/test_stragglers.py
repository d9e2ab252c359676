#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The straggler experiment in short: the runner says, writes and draws it, who waits for slow hosts has
all sums and who does not misses some, and a wrong sum is found."""
import json
import os
import re
import subprocess
import sys
import tempfile

from control import running
from tap import SEED, case, check, main

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
APPS = os.path.abspath(os.path.join(ROOT, 'apps', 'stragglers'))
RUNNER = os.path.join(APPS, 'stragglers.py')
sys.path.insert(0, APPS)

import stragglers  # noqa: E402 (the path comes first)
from rack import job  # noqa: E402


@case
def what_is_no_sum_of_those_present_is_wrong():
    with running(hosts=2, jobs=[job(1, 2)]) as rack:
        runs = [stragglers.start(rack, host, elements=1024, iterations=2, seed=host)
                for host in range(2)]
        for run in runs:
            said = run.wait(30, status=1)
            check(re.search(r'; [1-9]\d* wrong$', said, re.M), '%s', said)


@case
def the_runner_says_writes_and_draws():
    with tempfile.TemporaryDirectory(prefix='weir-stragglers-') as folder:
        report = os.path.join(folder, 'stragglers.json')
        done = subprocess.run(
            [RUNNER, os.environ['WEIR_BUILD'], '--quick', '--only', 'slowdown', 'detection',
             '--seed', str(SEED), '--json=' + report, '--plots', folder], text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        check(done.returncode == 0, '%s', done.stdout)
        last = re.fullmatch(r'stragglers: speed-up at 16 %: (\d+\.\d\d)',
                            done.stdout.splitlines()[-1])
        check(last, 'last line: %s', done.stdout)
        with open(report) as file:
            found = json.load(file)
        check('%.2f' % found['speed_up'] == last.group(1), '%s', found['speed_up'])
        # How late is not tested here, as other processes hold up the switch: tests/eal/test_ppe_timers.c does.
        slow = found['slowdown']
        wait, partial = [stragglers.pick(slow['rows'], policy, 0.16) for policy in ('wait', 'partial')]
        check(slow['ideal_ms'] >= slow['plan']['compute'] and all(row['wrong'] == 0 for row in slow['rows']), '%s', slow)
        check(wait['slow_ms'] == partial['slow_ms'] > 0, 'not the same delays: %s', slow)
        check(wait['sources'] == slow['plan']['hosts'] and wait['missed'] == 0, 'who waits has all: %s', wait)
        check(wait['iteration_ms'] > wait['held_up_ms'], 'who waits does not wait: %s', wait)
        check(1 <= partial['sources'] < slow['plan']['hosts'] and partial['missed'] > 0, 'nobody missed: %s', partial)
        rows = found['detection']['rows']
        check(found['seed'] == SEED and len(rows) == 2 and all(row['least'] >= 1 for row in rows), '%s', found)
        for name in ('stragglers-time.svg', 'stragglers-detection.svg'):
            with open(os.path.join(folder, name)) as file:
                drawn = file.read()
            check(drawn.startswith('<?xml') and drawn.count('<path') > 10, '%s', name)


if __name__ == '__main__':
    main()
