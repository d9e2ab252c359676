#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Beginnings and ends: wrong configurations, restarts, signals, hosts that come again or never."""
import json
import os
import re
import signal

from control import running
from tap import case, check, main, shared
from perf import finish, reduce, start, under_way
from rack import Rack, RackError, job


def refused(rack, text, name):
    """weir-switch refuses a configuration before anything starts, and names the file."""
    path = rack.write_config(text, name)
    for more in ([], ['--check']):
        run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', path] + more)
        status = run.end(15)
        # What systemd does not start again.
        check(status == 2, '%s %s: exit status %d\n%s', name, more, status, run.output)
        check(name in run.output, '%s: the message does not name it: %s', name, run.output)
        check('weir-switch: ready' not in run.output and 'EAL' not in run.output, '%s: it started: %s', name, run.output)


@case
def wrong_configurations_are_refused_and_a_good_one_passes_the_check():
    """tests/unit/config_refused.txt has all that is wrong."""
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        good = rack.config()
        refused(rack, '{ "switch": ', 'syntax.json')
        refused(rack, json.dumps(dict(good, surprise=1)), 'unknown-key.json')
        refused(rack, json.dumps(dict(good, memory_mb=64, pools={'packets': 1 << 20})), 'memory.json')
        program = rack.program(('switch', 'weir-switch'))
        run = rack.spawn('sw', [program, '-c', os.path.join(rack.folder, 'nowhere.json')])
        check(run.end(15) > 0, 'a missing file: exit status %s', run.status)
        output = rack.spawn('sw', [program, '-c', rack.write_config(), '--check']).wait(15)
        check('weir-switch: ready' not in output and 'EAL' not in output, 'it started: %s', output)


LONG = ('-b', '1M', '-e', '1M', '-n', 50000, '-d', 'fp32', '--timeout', 1500, '--join-timeout', 60000)
SHORT = ('-b', 65536, '-e', 65536, '-d', 'int32')


@case
def a_switch_stops_amid_traffic_and_starts_again():
    """Everything is returned; but for a kill, after which it starts as well."""
    with Rack(hosts=3, jobs=[job(1, 3)], workers=2) as rack:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
            rack.start_switch()
            reduce(rack, 1, range(3), *SHORT)
            rack.check_packets()
            runs = start(rack, 1, range(3), *LONG)
            ping = rack.ping(0, rack.address(1), count=20, background=True)
            under_way(rack, runs)
            if number == signal.SIGKILL:
                rack.switch.kill()
            else:
                rack.stop_switch(number)
            for run in runs:
                check(run.end(20) != 0, '%s: right without a switch', run.name)
            ping.kill()


@case
def two_racks_beside_each_other():
    with running(hosts=2, jobs=[job(1, 2)]) as one, running(hosts=2, jobs=[job(1, 2)]) as two:
        runs = start(one, 1, range(2), *SHORT, '-n', 30)
        finish(runs + start(two, 1, range(2), '-b', 65536, '-e', 65536, '-n', 30, '-d', 'fp32'))


@shared
def four():
    with running(hosts=4, jobs=[job(1, 3), job(2, 4, timeout_ms=300)]) as rack:
        yield rack


@case
def hosts_that_start_again_begin_a_new_generation():
    for _ in range(3):
        reduce(four(), 1, range(3), '-b', 4, '-e', 65536, '-f', 16, '-n', 2, '-d', 'int32')
    stats = four().check_packets()
    check(stats['jobs'][0]['generations'] == 3, 'generations: %s', stats['jobs'][0])
    # Also those that were killed in the middle.
    runs = start(four(), 1, range(3), *LONG)
    under_way(four(), runs, 1)
    for run in runs:
        run.kill()
    reduce(four(), 1, range(3), '-b', 4, '-e', 65536, '-f', 16, '-n', 2, '-d', 'int32')


def names(run, source):
    """A run fails with an error text which names exactly this source as missing."""
    check(run.end(20) != 0, '%s: right without source %d', run.name, source)
    found = re.search(r'missing: sources? ([0-9, -]+)', run.output)
    check(found is not None and found.group(1).strip() == str(source),
          '%s: source %d is not named:\n%s', run.name, source, run.output)


@case
def a_source_that_never_comes_or_dies_is_named():
    for run in [four().perf(i, 1, '-b', 4096, '-e', 4096, '-d', 'int32', '--timeout', 2500) for i in (0, 2)]:
        names(run, 1)
    runs = start(four(), 2, range(4), *LONG, '--timeout', 3000)
    under_way(four(), runs, 2)
    runs[2].kill()
    for run in (runs[0], runs[1], runs[3]):
        names(run, 2)


@case
def without_a_switch_hosts_fail_in_time():
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        run = rack.perf(0, 1, '-b', 4096, '-e', 4096, '-d', 'int32', '--timeout', 1000)
        check(run.end(15) != 0, 'right without a switch')


@case
def a_leak_would_be_seen():
    # What the harness takes for a clean stop is a line, and the line is the switch's last.
    with Rack(hosts=1) as rack:
        rack.switch = rack.spawn('sw', ['sh', '-c', 'echo "weir-switch: stopped, 1 packet lost"'])
        try:
            rack.stop_switch()
        except RackError:
            return
        check(False, 'a leak was taken for a clean stop')


if __name__ == '__main__':
    main()
