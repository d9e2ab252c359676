#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-perf --rejoin while hosts and the switch are killed and started anew: the run ends, every sum is
right, and what happened is told."""
import json
import os
import time

from control import running
from perf import SLOW, wait_row
from tap import case, check, main
from rack import Rack, job

SIZES = ('-b', '4K', '-e', '16K', '-f', '2', '-n', '300', '-w', '5', '-d', 'int32')
OPTIONS = ('--rejoin', '8', '--timeout', '2000', '--join-timeout', '60000')


def report(run):
    with open(run.json) as file:
        return json.load(file)


def ends_right(runs, status=0):
    for run in runs:
        run.wait(60, status)
    reports = [report(run) for run in runs]
    for found in reports:
        check(found['wrong'] == 0 and found.get('error') is None, '%s', found)
        check(all(row['wrong'] == 0 for row in found['rows']), '%s', found['rows'])
    return reports


def recovered(found, most=8):
    check(1 <= len(found['rejoins']) <= most, '%s', found['rejoins'])
    for one in found['rejoins']:
        check(one['recovered'] and one['error'] and one['code'] < 0 and one['generation'] > 0, '%s', one)
        check(one['failed_at'] - 1 <= one['resumed_at'] <= one['failed_at'], '%s', one)
    check(found['repeated'] <= len(found['rejoins']), '%s', found)


def whole(found, rows=3):
    """Every row is there, with the time of every iteration, once."""
    check(len(found['rows']) == rows, '%s', found['rows'])
    for row in found['rows']:
        for way in ('out_of_place', 'in_place'):
            check(row[way]['operations'] == found['iterations'], '%s', row)


def comes_back(rejoin, timeout):
    with running(hosts=3, jobs=[job(1, 3, timeout_ms=200, rejoin=rejoin)], workers=2,
                 changes={'faults': SLOW}) as rack:
        runs = [rack.perf(host, 1, *SIZES, *OPTIONS, '--timeout', timeout) for host in range(3)]
        wait_row(runs[0])
        runs[2].kill()
        runs[2] = rack.perf(2, 1, *SIZES, *OPTIONS, '--timeout', timeout)
        found = ends_right(runs)
        for one in found[:2]:
            recovered(one)
            whole(one)
            # With `revoke` they need not wait for their own timeouts.
            check(one['rejoins'][0]['code'] == (-110 if rejoin == 'wait' else -116), '%s', one)
        check(found[2]['began_at'] > 150, '%s', found[2])
        # On a busy machine a host may once more be slow for so long.
        check(rejoin == 'wait' or not found[2]['rejoins'], '%s', found[2])
        check(found[2]['rows'][-1]['in_place']['operations'] == 300, '%s', found[2]['rows'])
        check('# joined again after' in runs[0].output and '# failed in' in runs[0].output, '%s',
              runs[0].output)
        check('began with iteration %d\n' % found[2]['began_at'] in runs[2].output, '%s', runs[2].output)
        stats = rack.check_packets()
        check(stats['jobs'][0]['revokes'] == (rejoin == 'revoke'), '%s', stats['jobs'][0])
        check(stats['jobs'][0]['blocks_in_flight'] == 0 or rejoin == 'wait', '%s', stats['jobs'][0])


@case
def a_host_is_killed_and_comes_back():
    comes_back('wait', '2000')


@case
def a_host_that_comes_back_revokes_the_others():
    comes_back('revoke', '120000')


def restarted(hosts, *options, **changes):
    with Rack(hosts=hosts, jobs=[job(1, hosts, timeout_ms=200)], changes={'faults': SLOW}) as rack:
        for key in changes:
            rack.changes[key] = {'file': os.path.join(rack.folder, changes[key])}
        rack.start_switch()
        # A busy machine may need seconds to start a switch.
        runs = [rack.perf(host, 1, *options, *OPTIONS, '--timeout', '120000') for host in range(hosts)]
        yield rack, runs
        rack.switch.kill()
        rack.start_switch()
        found = ends_right(runs)
        for one in found:
            recovered(one)
            check('generation' in one['rejoins'][0]['error'], '%s', one['rejoins'])
        rack.check_packets()
        rack.stop_switch()
        yield found


def switch_is_killed(*options, size=4096, **changes):
    steps = restarted(2, *options, **changes)
    _, runs = next(steps)
    wait_row(runs[0], size)
    return next(steps)


@case
def the_switch_is_killed_and_started():
    for found in switch_is_killed(*SIZES):
        whole(found)


@case
def the_switch_is_killed_and_started_with_its_state():
    for found in switch_is_killed(*SIZES, state='state.json'):
        whole(found)


@case
def a_model_and_barriers_go_on():
    steps = restarted(2, '-C', 'barrier', '-n', '1500')
    rack, runs = next(steps)
    until = time.monotonic() + 60
    while rack.read_stats()['jobs'][0]['blocks_complete'] < 300:
        check(time.monotonic() < until, 'no barriers')
    for found in next(steps):
        check(found['rows'][0]['in_place']['operations'] == 1500, '%s', found['rows'])
    with Rack() as rack:
        shapes = os.path.join(rack.folder, 'model')
        with open(shapes, 'w') as file:
            file.write('a 4000\nb 10\nc 700\n')
        found = switch_is_killed('--shapes', shapes, '-n', '300', size=18840)
    for one in found:
        check(len(one['rows']) == 300, '%d rows', len(one['rows']))


@case
def tries_are_bounded():
    with running(hosts=2, jobs=[job(1, 2, timeout_ms=200)], changes={'faults': SLOW}) as rack:
        few = ('--rejoin', '2', '--timeout', '3000', '--join-timeout', '3000')
        runs = [rack.perf(host, 1, *SIZES, *few) for host in range(2)]
        wait_row(runs[0])
        runs[1].kill()
        runs[0].wait(15, 1)
        found = report(runs[0])
        check('missing: source 1' in found['error'], '%s', found['error'])
        check(len(found['rejoins']) == 1 and not found['rejoins'][0]['recovered'] and
              found['rejoins'][0]['tries'] == 2, '%s', found['rejoins'])


if __name__ == '__main__':
    main()
