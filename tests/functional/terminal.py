# SPDX-License-Identifier: BSD-3-Clause
"""weirctl top in a terminal that a test reads and types into."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from ctl import WEIRCTL
from tap import check

ENTER, LEAVE = '\033[?1049h', '\033[?1049l'  # the screen that a full-screen program has to itself


class Terminal:
    """weirctl top in a terminal of its own."""

    def __init__(self, address, *words, rows=24, columns=80):
        self.output = ''
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(LC_ALL='C.UTF-8', TERM='xterm', WEIR_SWITCH=address)
            os.environ.pop('COLUMNS', None)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
            os.execv(WEIRCTL, [WEIRCTL, 'top', *words])
        self.resize(rows, columns)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self.fd)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            return False
        self.output += more.decode(errors='replace')
        return bool(more)

    def until(self, pattern, seconds=10):
        """Until this is in what came since the last call."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.output):
            check(time.monotonic() < end, '"%s" is not on the screen: %r', pattern, self.output[-3000:])
            self.read(0.1)
        found, self.output = self.output, ''
        return found

    def key(self, text):
        os.write(self.fd, text.encode())

    def flags(self):
        return termios.tcgetattr(self.fd)[3]

    def end(self, seconds=5):
        """Returns waitpid's status, and checks that the terminal is as it was."""
        end = time.monotonic() + seconds
        while True:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            check(time.monotonic() < end, 'it does not end: %r', self.output[-500:])
        while self.read(0):
            pass
        check(LEAVE in self.output and '\033[?25h' in self.output, 'not restored: %r', self.output)
        with contextlib.suppress(termios.error):
            check(self.flags() & termios.ECHO and self.flags() & termios.ICANON, 'no echo')
        return status
