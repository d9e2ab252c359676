#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the service manager and the journal hear of a switch, with a manager that is played."""
import os
import re
import signal
import socket
import time

from process import answer_to, frozen
from tap import case, check, main, wait_for
from rack import Rack


class Manager:
    """The socket that a service notifies."""

    def __init__(self, rack, abstract=False):
        self.path = os.path.join(rack.folder, 'notify')
        with rack.inside('sw'):  # abstract names belong to a network namespace
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(('\0' if abstract else '') + self.path)
        self.name = ('@' if abstract else '') + self.path
        self.said = []  # (when, datagram)
        self.heard = 0  # as many of them `wait` has passed

    def environment(self, watchdog_us=None):
        made = dict(os.environ, NOTIFY_SOCKET=self.name)
        if watchdog_us:
            made['WATCHDOG_USEC'] = str(watchdog_us)
        return made

    def listen(self, seconds):
        """Take what comes within this time. Returns the datagrams."""
        until = time.monotonic() + seconds
        found = []
        while time.monotonic() < until:
            self.socket.settimeout(max(0.01, until - time.monotonic()))
            try:
                text = self.socket.recv(4096).decode()
            except TimeoutError:
                break
            found.append(text)
            self.said.append((time.monotonic(), text))
        return found

    def wait(self, begin, seconds=300):
        """Take datagrams until one begins like this. Returns it."""
        until = time.monotonic() + seconds
        while True:
            while self.heard < len(self.said):
                self.heard += 1
                if self.said[self.heard - 1][1].startswith(begin):
                    return self.said[self.heard - 1][1]
            if time.monotonic() > until:
                raise AssertionError('no %s within %g s, but %s' % (begin, seconds, self.said))
            self.listen(0.1)


def start(rack, environment, wrap=None):
    program = [rack.program(('switch', 'weir-switch')), '-c', rack.write_config()]
    rack.switch = rack.spawn('sw', (wrap or []) + program, 'switch', env=environment)
    return rack.switch


def end(run):
    run.signal(signal.SIGTERM)
    return run.wait(15)


@case
def ready_when_packets_flow_again_after_a_reload_and_stopping_when_told():
    with Rack(hosts=2) as rack:
        for abstract in (False, True):
            manager = Manager(rack, abstract)
            run = start(rack, manager.environment())
            manager.wait('READY=1')
            check('weir-switch: ready' in run.output, '%s', run.output)
            manager.wait('STATUS=')
            rack.ping(0, rack.address(1))
            check(not [t for _, t in manager.said if 'WATCHDOG' in t], '%s', manager.said)
            # A reload begins and ends.
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            run.signal(signal.SIGHUP)
            found = re.fullmatch(r'RELOADING=1\nMONOTONIC_USEC=(\d+)', manager.wait('RELOADING'))
            check(found and before <= int(found.group(1)) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000, '%s',
                  manager.said)
            manager.wait('READY=1')
            said = end(run)
            check(re.search(r'level=notice module=ctrl msg="[^"]*" uid=0 pid=%d' % os.getpid(), said), '%s', said)
            check(manager.wait('STOPPING=1').startswith('STOPPING=1\nSTATUS=stopping'), '')
            check(re.search(r'^time=\S+Z level=notice module=switch msg="stop" uid=0 pid=%d '
                            r'signal=SIGTERM$' % os.getpid(), said, re.M), '%s', said)
            manager.socket.close()
            if not abstract:
                os.unlink(manager.path)


@case
def the_watchdog_is_fed_only_while_workers_turn():
    with Rack(hosts=2, workers=2) as rack:
        manager = Manager(rack)
        run = start(rack, manager.environment(watchdog_us=600000))
        manager.wait('READY=1')
        for _ in range(2):
            manager.wait('WATCHDOG=1')
        with frozen(run.pid, 'worker-?2'):
            wait_for(lambda: manager.listen(0.1) is not None and 'a worker is stuck' in run.output, 'it is not noticed')
            manager.listen(0.5)
            found = manager.listen(1)
            check(not found, 'a worker stands, and the manager hears %s', found)
        manager.heard = len(manager.said)
        manager.wait('WATCHDOG=1')
        said = end(run)
        check(re.search('level=error module=switch msg="a worker is stuck"', said), '%s', said)
        check(re.search('level=notice module=switch msg="all workers run again"', said), '%s', said)


@case
def a_watchdog_for_another_process_is_not_fed():
    with Rack(hosts=2) as rack:
        manager = Manager(rack)
        run = start(rack, dict(manager.environment(300000), WATCHDOG_PID='1'))
        manager.wait('READY=1')
        check('WATCHDOG=1' not in manager.listen(1), '%s', manager.said)
        end(run)


@case
def a_manager_that_is_gone_or_deaf_holds_nobody_up():
    with Rack(hosts=2) as rack:
        manager = Manager(rack)
        manager.socket.close()
        for name in (manager.name, '/nowhere/notify', 'nonsense', '', '/' + 300 * 'x'):
            run = start(rack, dict(os.environ, NOTIFY_SOCKET=name, WATCHDOG_USEC='1'))
            run.wait_line('weir-switch: ready', 30)
            end(run)
        # One that never reads: the socket fills, and lines are lost, no more.
        os.unlink(manager.path)
        manager = Manager(rack)
        run = start(rack, manager.environment())
        run.wait_line('weir-switch: ready', 30)
        for _ in range(int(rack.call('sw', ['sysctl', '-n', 'net.unix.max_dgram_qlen'])) + 10):
            answer_to(rack)
        rack.ping(0, rack.address(1))
        end(run)


@case
def the_journal_gets_priorities_and_no_times():
    with Rack(hosts=2) as rack:
        run = start(rack, None, [
            'sh', '-c', 'JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$@"', '-'])
        run.wait_line('weir-switch: ready', 30)
        said = end(run)
        check(re.search('^<5>level=notice module=switch msg="stop" ', said, re.M), '%s', said)
        check('time=' not in said, '%s', said)


@case
def what_drivers_say_has_the_same_form_and_the_modules_level():
    with Rack(hosts=2, changes={'log': {'modules': {'switch': 'error'}},
                                'ports': [{'name': 'p0', 'device': 'net_surprise0'}]}) as rack:
        run = start(rack, None)
        check(run.end(15) == 1, '%s', run.output)
        lines = [l for l in run.output.splitlines() if 'EAL' in l and 'weir-switch' not in l]
        check(lines, '%s', run.output)
        for line in lines:
            check(re.fullmatch(r'time=\S+Z level=\w+ module=dpdk msg=".*"( suppressed=\d+)?', line),
                  '%s', line)
    with Rack(hosts=2, changes={'log': {'modules': {'switch': 'error'}}}) as rack:
        run = start(rack, None)
        run.wait_line('weir-switch: ready', 30)
        check('module=switch' not in end(run), '%s', run.output)


if __name__ == '__main__':
    main()
