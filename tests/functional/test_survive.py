#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that sum step after step while others of their job are stopped, killed, or compute: the right sums, or an error that
says what happened, in bounded time. (test_rejoin.py has those that begin again.)"""
import os
import signal

from control import running
from perf import key_file
from loops import Loops, STEPS, said
from tap import case, check, main, seed, wait_for
from rack import Rack, job


@case
def a_host_s_mac_address_changes():
    """As when a bond fails over: the host goes on, in the same generation."""
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        rack.start_switch()
        loops = Loops(rack, 2)
        loops.reach(40)
        rack._ip_in(0, 'link set eth0 address 02:00:00:00:aa:01')
        for end in loops.finish():
            check(end['rejoins'] == 0 and len(end['generations']) == 1 and not end['failures'], '%s', end)


@case
def a_host_stands_still_and_what_it_had_is_fed_back():
    with running(hosts=3, jobs=[job(1, 3, timeout_ms=100, policy='partial', window=16)]) as rack:
        loops = Loops(rack, 3, error_feedback=1, timeout_ms=10000)
        for step in (20, 60):
            loops.reach(step)
            before = rack.read_stats()['jobs'][0]['blocks_partial']
            loops.runs[2].signal(signal.SIGSTOP)
            wait_for(lambda: rack.read_stats()['jobs'][0]['blocks_partial'] > before, 'nothing is missed')
            loops.runs[2].signal(signal.SIGCONT)
        ends = loops.finish()
        given = sum(end['given'] for end in ends) % (1 << 32)
        check(sum(end['partial'] for end in ends) > 0, 'nothing was missed: %s', ends)
        for end in ends:
            check(end['got'] == given, 'contributed %d, delivered %s', given, ends)


def partial_job():
    return job(1, 3, timeout_ms=50, policy='partial', window=4, dead_after_ms=1000)


@case
def a_host_is_killed_and_the_others_run_on():
    with running(hosts=3, jobs=[partial_job()]) as rack:
        loops = Loops(rack, 3)
        loops.reach(40)
        loops.runs[2].kill()
        for end in loops.finish([0, 1]):
            check(end['partial'] > STEPS // 2 and not end['failures'], '%s', end)
        stats = rack.check_packets()
        check(stats['jobs'][0]['expelled'] == 1, '%s', stats['jobs'][0])


@case
def a_host_that_was_away_for_too_long_is_told():
    with running(hosts=3, jobs=[partial_job()]) as rack:
        loops = Loops(rack, 3, steps=1000)
        loops.reach(40)
        os.kill(loops.runs[2].pid, signal.SIGSTOP)
        wait_for(lambda: rack.read_stats()['jobs'][0]['expelled'], 'nobody is expelled')
        os.kill(loops.runs[2].pid, signal.SIGCONT)
        loops.runs[2].end(10)
        end = said(loops.runs[2].output)
        check(any('silent for too long' in f for f in end['failures']), '%s', end)
        loops.finish([0, 1])


def naps(settings=None, faults=None, **changes):
    """A host computes for 20 timeouts, longer where the others need longer to be far ahead. Returns (what each
    says at the end, what the napper says of it)."""
    settings = dict({'timeout_ms': 100, 'policy': 'partial', 'window': 4}, **(settings or {}))
    with Rack(hosts=3, jobs=[job(1, 3, **settings)]) as rack:
        if faults is not None:
            rack.changes['faults'] = faults
        rack.start_switch()
        loops = Loops(rack, 2, steps=60, timeout_ms=5000, **changes)
        loops.runs.append(loops.start(2, nap_ms=2000, nap_step=20, nap_blocks=24))
        ends = loops.finish()
        nap = ends[2]['nap']
        stats = rack.check_packets()['jobs'][0]
        rack.stop_switch()
    print('# %s, held back %d, acknowledged %d' % (nap, stats['held_back'], stats['acknowledged']))
    return ends, [nap[name] for name in ('ahead', 'steps', 'ms')]


def all_is_delivered(ends, steps):
    given = sum(end['given'] for end in ends) % (1 << 32)
    for end in ends:
        check(end['partial'] >= steps and end['got'] == given, 'contributed %d, delivered %s', given, ends)


@case
def an_application_computes_and_the_others_go_on():
    """What it would have contributed is fed back."""
    ends, (ahead, steps, _) = naps(error_feedback=1)
    # With one timeout a step 18; two windows, which is two steps, if they had waited.
    check(ahead >= 24 and steps >= 8, '%d blocks, %d steps were ahead', ahead, steps)
    all_is_delivered(ends, steps)
    check(not any(end['failures'] for end in ends), '%s', ends)


@case
def it_is_fed_back_in_an_authenticated_job():
    key = os.urandom(32).hex()
    with key_file(key) as path:
        ends, (ahead, steps, _) = naps({'key_file': path}, error_feedback=1, key=key)
    check(ahead >= 24 and steps >= 8, '%d blocks, %d steps were ahead', ahead, steps)
    all_is_delivered(ends, steps)


@case
def it_loses_results_and_the_others_go_on():
    lossy = {'seed': seed().getrandbits(32), 'rules': [
        {'direction': direction, 'action': 'drop', 'chance_ppm': 20000} for direction in ('in', 'out')]}
    ends, (ahead, steps, _) = naps(error_feedback=1, faults=lossy)
    check(ahead >= 24 and steps >= 8, '%d blocks, %d steps were ahead', ahead, steps)
    all_is_delivered(ends, steps)


if __name__ == '__main__':
    main()
