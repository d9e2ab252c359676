#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a host does when its link, its address or the switch is away: for a while it goes on afterwards,
without an error; for long it says what is the matter, in bounded time. And it does not spin."""
import contextlib
import re
import signal
import subprocess
import time

from control import running
from perf import SLOW, under_way
from process import cpu_seconds
from tap import case, check, main
from rack import job

SIZES = ('-b', '8K', '-e', '8K', '-n', '1500', '-d', 'int32', '--join-timeout', '60000')


@contextlib.contextmanager
def two_hosts(*options):
    """A run under way."""
    with running(hosts=2, jobs=[job(1, 2, timeout_ms=200)], changes={'faults': SLOW}) as rack:
        runs = [rack.perf(host, 1, *SIZES, *options) for host in range(2)]
        under_way(rack, runs)
        yield rack, runs


def ip(rack, host, *words):
    subprocess.run(['ip', '-n', rack.namespace(host), *words], check=True, timeout=120)


def no_link(rack):
    ip(rack, 0, 'link', 'set', 'eth0', 'down')


def link(rack):
    ip(rack, 0, 'link', 'set', 'eth0', 'up')


def no_address(rack):
    ip(rack, 0, 'address', 'del', rack.address(0) + '/24', 'dev', 'eth0')


def address(rack):
    ip(rack, 0, 'address', 'add', rack.address(0) + '/24', 'dev', 'eth0')


def no_switch(rack):
    rack.switch.signal(signal.SIGSTOP)


def switch(rack):
    rack.switch.signal(signal.SIGCONT)


AWAY = [(no_link, link, 'did this host lose its link'), (no_address, address, 'or its address'),
        (no_switch, switch, '')]


@case
def what_is_away_for_a_while_is_waited_for():
    for away, back, _ in AWAY:
        with two_hosts('--timeout', '60000') as (rack, runs):
            away(rack)
            before, began = cpu_seconds(runs[0].pid), time.monotonic()
            time.sleep(1.2)  # of which it takes a share
            used, elapsed = cpu_seconds(runs[0].pid) - before, time.monotonic() - began
            check(used < elapsed / 2, '%s: it spins: %.2f s of CPU in %.2f s', away.__name__, used, elapsed)
            check(all(run.status is None for run in runs), '%s: %s', away.__name__,
                  [run.output for run in runs])
            back(rack)
            for run in runs:
                check('FAILED' not in run.wait(40), '%s', run.output)


@case
def what_is_away_for_long_is_said():
    for away, back, why in AWAY:
        with two_hosts('--timeout', '3000') as (rack, runs):
            away(rack)
            out = runs[0].wait(60, 1)
            found = re.search(r'the switch at 10\.77\.0\.254:12001 has not answered source 0 .*', out)
            check(found and re.search(why, found.group()), '%s: %s', away.__name__, out)
            runs[1].wait(10, 1)
            back(rack)


if __name__ == '__main__':
    main()
