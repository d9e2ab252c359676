#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a host does when its link, its address or the switch is away: for a while it goes on afterwards,
without an error; for long it says what is the matter, in bounded time. And it does not spin."""
import re
import signal
import subprocess
import time

from control import running
from perf import SLOW, under_way
from process import cpu_seconds
from tap import check, main, table
from rack import job

SIZES = ('-b', '8K', '-e', '8K', '-d', 'int32', '--join-timeout', '60000')


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


def is_away(away, back, why):
    with running(hosts=2, jobs=[job(1, 2, timeout_ms=200)], changes={'faults': SLOW}) as rack:
        # For a while: it is waited for.
        runs = [rack.perf(host, 1, *SIZES, '-n', '200', '--timeout', '60000') for host in range(2)]
        under_way(rack, runs)
        away(rack)
        before, began = cpu_seconds(runs[0].pid), time.monotonic()
        time.sleep(1)  # of which it takes a share
        used, elapsed = cpu_seconds(runs[0].pid) - before, time.monotonic() - began
        check(used < elapsed / 2, 'it spins: %.2f s of CPU in %.2f s', used, elapsed)
        check(all(run.status is None for run in runs), '%s', [run.output for run in runs])
        back(rack)
        for run in runs:
            check('FAILED' not in run.wait(40), '%s', run.output)
        # For long: it is said.
        runs = [rack.perf(host, 1, *SIZES, '-n', '100000', '--timeout', '1500') for host in range(2)]
        under_way(rack, runs)
        away(rack)
        out = runs[0].wait(60, 1)
        found = re.search(r'the switch at 10\.77\.0\.254:12001 has not answered source 0 .*', out)
        check(found and re.search(why, found.group()), '%s', out)
        runs[1].wait(10, 1)
        back(rack)


table(is_away,
      a_link={'away': no_link, 'back': link, 'why': 'did this host lose its link'},
      an_address={'away': no_address, 'back': address, 'why': 'or its address'},
      a_switch={'away': no_switch, 'back': switch, 'why': ''})


if __name__ == '__main__':
    main()
