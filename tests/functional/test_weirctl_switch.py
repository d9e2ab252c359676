#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl against a real switch, as its operator would use it: before, during and after a run."""
import contextlib
import json
import os
import re
import sys
import time

from perf import finish, start
from rack import Rack, job
from tap import case, check, main

WEIRCTL = ('ctl', 'weirctl')


@contextlib.contextmanager
def switch(**changes):
    """A rack of two hosts whose switch has a control API; yields it, and a function that runs
    weirctl and returns what it printed."""
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        address = 'unix:' + os.path.join(rack.folder, 'api.sock')
        rack.changes = dict(changes, api={'listen': [address]})
        rack.start_switch()

        def ctl(*words, status=0):
            run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', address, *words])
            found = run.end(20)
            check(found == status, 'weirctl %s: status %s, not %d\n%s', words, found, status,
                  run.output)
            return run.output

        yield rack, ctl
        rack.stop_switch()


def number(text, pattern):
    """The group of a pattern, in a line of a table."""
    found = re.search(pattern, text, re.M)
    check(found, '"%s" is not in:\n%s', pattern, text)
    return int(found.group(1))


@case
def what_it_shows_is_what_happened():
    with switch() as (rack, ctl):
        before = ctl('jobs')
        check(re.search(r'^job1 +1  joining  0 of 2 +0 +0 ', before, re.M), '%s', before)
        finish(start(rack, 1, [0, 1], '-b', '64K', '-e', '64K', '-n', 20, '-w', 0))
        blocks = number(ctl('counters'), r'^job job1 +blocks_complete +(\d+)$')
        check(number(ctl('jobs'), r'^job1 +1  running  2 of 2 +\d+ +(\d+) ') == blocks, 'jobs')
        check(number(ctl('job', 'job1'), r'^blocks_complete +(\d+)$') == blocks, 'job')
        check(blocks >= 20 * 64, '%d blocks', blocks)
        received = [number(ctl('ports'), r'^p%d +up .*?  (\d+)  [\d.]+ [KM]iB ' % p) for p in (0, 1)]
        check(min(received) >= blocks, '%s', received)
        members = ctl('members', 'job1')
        check(re.search(r'^   1  joined  10\.77\.0\.2 ', members, re.M), '%s', members)
        status = ctl('status')
        check('switch   ' in status and ', weir-switch ' in status, '%s', status)
        check(re.search(r'^packets +\d+ +\d+ +\d+ %$', status, re.M), '%s', status)
        check(ctl('health').startswith('ok, up '), 'health')


@case
def every_command_answers():
    """Nothing that the switch answers is a dash where it has to be a value."""
    with switch() as (_rack, ctl):
        for words in ('status', 'health', 'ports', 'jobs', 'job job1', 'counters --zeros', 'config',
                      'tenants', 'top --once --interval 200ms'):
            text = ctl(*words.split())
            check(text.strip(), '%s: nothing', words)
            if words in ('status', 'ports', 'health'):
                check(not re.search(r'(^| )-( |,|$)', text, re.M), '%s:\n%s', words, text)
        for words in ('status', 'ports', 'jobs', 'counters', 'config'):
            check(json.loads(ctl('--json', words)), '%s', words)
        check('unknown_job' in ctl('job', 'none', status=1), 'unknown job')
        frame = ctl('top', '--once', '--interval', '200ms')
        check(re.search(r'^lcore +\d+ \[[| ]{16}\] +\d+ %', frame, re.M), '%s', frame)
        check(re.search(r'^p1 +up ', frame, re.M), '%s', frame)


@case
def a_host_that_is_killed_is_named_within_seconds():
    with switch() as (rack, ctl):
        first = ctl('blocks', '--stuck')
        check('has not begun' in first, 'before anything ran:\n%s', first)
        runs = start(rack, 1, [0, 1], '-b', '4M', '-e', '4M', '-n', 10000, '-w', 0)
        time.sleep(1.5)
        check(all(run.status is None for run in runs), '%s', runs[0].output)
        runs[1].kill()
        killed = time.monotonic()
        words = ''
        while 'rank 1' not in words and time.monotonic() < killed + 10:
            time.sleep(0.2)
            words = ctl('blocks', '--stuck')
        check(time.monotonic() < killed + 5, 'only after %.1f s:\n%s', time.monotonic() - killed,
              words)
        for text in ('job1', 'rank 1', '10.77.0.2', 'last heard', 'wait'):
            check(text in words, '%s is not said:\n%s', text, words)
        check('rank 0' not in words, 'the host that lives is blamed:\n%s', words)
        found = json.loads(ctl('--json', 'blocks', '--stuck'))
        check(found['total'] == len(found['blocks']) > 0, '%s', found)
        ages = [block['age'] for block in found['blocks']]
        check(ages == sorted(ages, reverse=True), 'oldest first: %s', ages)
        member = json.loads(ctl('--json', 'job', 'job1'))['members'][1]
        check(member['last_heard'] >= 1 and member['port'] == 'p1', '%s', member)
        runs[0].kill()


@case
def the_switch_goes():
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        address = 'unix:' + os.path.join(rack.folder, 'api.sock')
        run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', address, 'status'])
        check(run.end(10) == 3 and 'is the switch running' in run.output, '%s', run.output)
        rack.changes = {'api': {'listen': [address]}}
        rack.start_switch()
        rack.stop_switch()
        run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', address, 'status'])
        check(run.end(10) == 3 and 'is the switch running' in run.output, '%s', run.output)


if __name__ == '__main__':
    sys.exit(main())
