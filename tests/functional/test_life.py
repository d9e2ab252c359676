#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Beginnings and ends: wrong configurations, restarts, signals, hosts that come again or never."""
import copy
import json
import os
import re
import signal

from control import running
from tap import case, check, main
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
        check('weir-switch: ready' not in run.output and 'EAL' not in run.output, '%s: it started: %s', name,
              run.output)


@case
def wrong_configurations_are_refused():
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        good = rack.config()

        def broken(change):
            config = copy.deepcopy(good)
            change(config)
            return json.dumps(config)

        refused(rack, '{ "switch": ', 'syntax.json')
        refused(rack, '[]', 'no-object.json')
        refused(rack, broken(lambda c: c.update(surprise=1)), 'unknown-key.json')
        refused(rack, broken(lambda c: c.pop('ports')), 'no-ports.json')
        refused(rack, broken(lambda c: c['jobs'][0].update(timeout_ms=0)), 'range.json')
        refused(rack, broken(lambda c: c['jobs'][0].update(window='64')), 'type.json')
        refused(rack, broken(lambda c: c['jobs'][0].update(window=63)), 'no-power.json')
        refused(rack, broken(lambda c: c['jobs'].append(c['jobs'][0])), 'twice.json')
        refused(rack, broken(lambda c: c['jobs'][0]['sources'].append(
            c['jobs'][0]['sources'][0])), 'source-twice.json')
        refused(rack, broken(lambda c: c['switch'].update(address='10.77.0/24')), 'address.json')
        refused(rack, broken(lambda c: c.update(memory_mb=64, pools={'packets': 1 << 20})),
                'memory.json')
        run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c',
                                os.path.join(rack.folder, 'nowhere.json')])
        check(run.end(15) > 0, 'a missing file: exit status %s', run.status)


@case
def a_good_configuration_passes_the_check_and_starts_nothing():
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c',
                                rack.write_config(), '--check'])
        output = run.wait(15)
        check('weir-switch: ready' not in output and 'EAL' not in output, 'it started: %s', output)


def stops(number):
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        rack.start_switch()
        reduce(rack, 1, range(2), '-b', 4096, '-e', 4096, '-d', 'int32')
        rack.check_packets()
        rack.stop_switch(number)


@case
def sigterm_stops_cleanly():
    stops(signal.SIGTERM)


@case
def sigint_stops_cleanly():
    stops(signal.SIGINT)


@case
def a_stop_amid_traffic_returns_everything():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Rack(hosts=3, jobs=[job(1, 3)], workers=2) as rack:
            rack.start_switch()
            runs = start(rack, 1, range(3), '-b', '8M', '-e', '8M', '-n', 5000, '-d', 'fp32',
                         '--timeout', 1500, '--join-timeout', 60000)
            ping = rack.ping(0, rack.address(1), count=20, background=True)
            under_way(rack, runs)
            rack.stop_switch(number)
            for run in runs:
                check(run.end(20) != 0, '%s: right without a switch', run.name)
            ping.kill()


@case
def the_switch_starts_again_after_a_stop():
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        for _ in range(3):
            rack.start_switch()
            reduce(rack, 1, range(2), '-b', 65536, '-e', 65536, '-d', 'int32')
            rack.check_packets()
            rack.stop_switch()


@case
def the_switch_starts_again_after_a_kill():
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        rack.start_switch()
        rack.switch.kill()
        rack.start_switch()
        reduce(rack, 1, range(2), '-b', 65536, '-e', 65536, '-d', 'int32')
        rack.check_packets()
        rack.stop_switch()


@case
def two_racks_beside_each_other():
    with Rack(hosts=2, jobs=[job(1, 2)]) as one, Rack(hosts=2, jobs=[job(1, 2)]) as two:
        one.start_switch()
        two.start_switch()
        runs = start(one, 1, range(2), '-b', '1M', '-e', '1M', '-d', 'int32')
        finish(runs + start(two, 1, range(2), '-b', '1M', '-e', '1M', '-d', 'fp32'))
        for rack in (one, two):
            rack.check_packets()
            rack.stop_switch()


@case
def hosts_that_start_again_begin_a_new_generation():
    with running(hosts=3, jobs=[job(1, 3)]) as rack:
        for _ in range(4):
            reduce(rack, 1, range(3), '-b', 4, '-e', 65536, '-f', 16, '-n', 2, '-d', 'int32')
        stats = rack.check_packets()
        check(stats['jobs'][0]['generations'] == 4, 'generations: %s', stats['jobs'][0])


@case
def hosts_killed_in_the_middle_begin_again():
    with running(hosts=3, jobs=[job(1, 3)]) as rack:
        runs = start(rack, 1, range(3), '-b', '8M', '-e', '8M', '-n', 5000, '-d', 'fp32')
        under_way(rack, runs)
        for run in runs:
            run.kill()
        reduce(rack, 1, range(3), '-b', 4, '-e', 65536, '-f', 16, '-n', 2, '-d', 'int32')


@case
def a_source_that_never_comes_is_named():
    with running(hosts=3, jobs=[job(1, 3)]) as rack:
        runs = [rack.perf(i, 1, '-b', 4096, '-e', 4096, '-d', 'int32', '--timeout', 4000)
                for i in (0, 2)]
        for run in runs:
            check(run.end(20) != 0, '%s: right without source 1', run.name)
            names(run, 1)


def names(run, source):
    """A run that failed has an error text which names exactly this source as missing."""
    found = re.search(r'missing: sources? ([0-9, -]+)', run.output)
    check(found is not None and found.group(1).strip() == str(source),
          '%s: source %d is not named:\n%s', run.name, source, run.output)


@case
def a_host_that_dies_in_the_middle_is_named():
    with running(hosts=4, jobs=[job(1, 4, timeout_ms=300)]) as rack:
        runs = start(rack, 1, range(4), '-b', '8M', '-e', '8M', '-n', 5000, '-d', 'fp32',
                     '--timeout', 3000, '--join-timeout', 60000)
        under_way(rack, runs)
        runs[2].kill()
        for run in (runs[0], runs[1], runs[3]):
            check(run.end(20) != 0, '%s: right without source 2', run.name)
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
