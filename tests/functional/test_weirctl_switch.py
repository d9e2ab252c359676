#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl against a real switch, as its operator would use it: before, during and after a run."""
import contextlib
import json
import os
import re
import sys

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
