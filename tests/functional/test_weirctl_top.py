#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl top in a terminal, against a control API that is played."""
import os
import re
import signal
import sys
import tempfile
import termios
import time

from ctl import ctl, good
from fake_api import FakeApi
from tap import case, check, main
from terminal import ENTER, LEAVE, Terminal


@case
def top_frame():
    with FakeApi() as api:
        api.fill()
        api.routes['/v1/jobs']['jobs'][1]['counters']['blocks_partial'] = 17
        out = good(ctl(api.address, 'top', '--once', '--interval', '100ms', columns=110))
        check('\033' not in out and '\x01' not in out and '\x02' not in out, '%r', out)
        check('lcore  1 [|||||||         ]  43 %' in out, '%s', out)
        check('job ring, for 12.6 s: 64 blocks 17..80 wait for rank 2' in out, '%s', out)
        check(re.search(r'^ring .* 64 of 64  \[\|{16}\] ', out, re.M), '%s', out)
        check(re.search(r'^eval .* 5 of 64  \[\| {15}\] +0/s +17 ', out, re.M), '%s', out)
        check(out.index('duplicate') < out.index('queue_full') < out.index('late '), '%s', out)
        del api.routes['/v1/blocks'], api.routes['/v1/counters']
        out = good(ctl(api.address, 'top', '--once', '--interval', '100ms'))
        check('STUCK' not in out and 'DROPS' not in out and 'PORT' in out, '%s', out)


@case
def top_in_a_terminal():
    with FakeApi() as api:
        api.fill()
        with Terminal(api.address, '--interval', '200ms') as terminal:
            screen = terminal.until(r'(?s)queue_full.*\033\[J')
            check(ENTER in screen and '\033[1;31m' in screen, '%r', screen)
            for line in screen.split('\r\n'):
                plain = re.sub(r'\033\[[?\d;]*[A-Za-z]', '', line)
                check(len(plain) <= 80, 'wider than the terminal: %s', plain)
            check(screen.count('\r\n') < 24 * screen.count('\033[H'), 'it scrolls: %r', screen)
            terminal.resize(10, 40)
            terminal.until(r'\033\[J')
            screen = terminal.until(r'\033\[J.*?\033\[H(.|\n)*\033\[J')
            frame = screen.split('\033[H')[-1]
            check(frame.count('\r\n') < 10, '%r', frame)
            terminal.key('q')
            check(terminal.end() == 0, 'q')
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, signal.SIGTERM),
                               (signal.SIGHUP, signal.SIGHUP)):
            with Terminal(api.address) as terminal:
                terminal.until(r'\033\[J')
                os.kill(terminal.pid, number)
                check(terminal.end() == status, '%s', number)


@case
def top_loses_the_switch_and_finds_it_again():
    with tempfile.TemporaryDirectory(prefix='weir-run-') as folder:
        with FakeApi(folder=folder) as api:
            api.fill()
            with Terminal(api.address, '--interval', '200ms', '-t', '500ms') as terminal:
                terminal.until(r'\033\[J')
                api.routes['/v1/status'] = lambda handler: time.sleep(2)
                terminal.until('no answer for .*no answer of')
                # A slow switch does not make the keys slow.
                api.fill()
                terminal.output = ''
                terminal.until(r'\033\[H\d\d:\d\d:\d\d  demo[^\r]*\r\nlcore')
                api.routes['/v1/ports'] = lambda handler: time.sleep(20)
        with FakeApi(folder=folder, name='b.sock') as api:
            api.fill()
            with Terminal(api.address, '--interval', '100ms', '-t', '20s') as terminal:
                terminal.until(r'\033\[J')
                api.routes['/v1/status'] = lambda handler: time.sleep(10)
                time.sleep(0.5)
                terminal.key('q')
                terminal.end()  # while the answer is still to come


@case
def top_is_stopped_and_goes_on():
    with FakeApi() as api:
        api.fill()
        with Terminal(api.address, '--interval', '200ms') as terminal:
            terminal.until(r'\033\[J')
            os.kill(terminal.pid, signal.SIGTSTP)
            terminal.until(re.escape(LEAVE))
            check(os.waitpid(terminal.pid, os.WUNTRACED)[1] & 0xff == 0x7f, 'not stopped')
            check(terminal.flags() & termios.ECHO, 'no echo while stopped')
            os.kill(terminal.pid, signal.SIGCONT)
            terminal.until(re.escape(ENTER))
            terminal.key('q')
            check(terminal.end() == 0, 'q')


if __name__ == '__main__':
    sys.exit(main())
