# SPDX-License-Identifier: BSD-3-Clause
"""A running process, from outside: SIGHUP to a rack's switch, CPU and memory, a thread that stands still."""
import contextlib
import ctypes
import os
import re
import signal

from tap import Skip, check, wait_for

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def outcomes(rack):
    return re.findall(r'^.*msg="(?:configuration reloaded|reload refused)".*$', rack.switch.output,
                      re.M)


def answer_to(rack):
    """SIGHUP, and the line that says what came of it; once more where a worker had no CPU to take it."""
    def answer():
        lines = len(outcomes(rack))
        rack.switch.signal(signal.SIGHUP)
        said = wait_for(lambda: outcomes(rack)[lines:], 'no answer to SIGHUP:\n%s', lambda: rack.switch.output[-2000:])[-1]
        return None if 'a worker is stuck' in said else said

    return wait_for(answer, 'a worker is stuck')


def cpu_seconds(pid, thread=None):
    """Used by a process, or by one of its threads."""
    total = 0
    for task in [thread] if thread else os.listdir('/proc/%d/task' % pid):
        with open('/proc/%d/task/%s/schedstat' % (pid, task)) as file:
            total += int(file.read().split()[0])
    return total / 1e9


def memory_kib(pid):
    """Heap and stacks, without shared memory: DPDK's pages stay once they have been touched."""
    with open('/proc/%d/status' % pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith('RssAnon'))


@contextlib.contextmanager
def frozen(pid, name):
    """The first thread of a process with such a name stands still."""
    for task in sorted(os.listdir('/proc/%d/task' % pid), key=int):
        with open('/proc/%d/task/%s/comm' % (pid, task)) as file:
            if re.search(name, file.read()):
                break
    else:
        check(False, 'no thread %s', name)
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long] * 4
    if ptrace(PTRACE_SEIZE, int(task), 0, 0) != 0:
        raise Skip('needs ptrace: %s' % os.strerror(ctypes.get_errno()))
    ptrace(PTRACE_INTERRUPT, int(task), 0, 0)
    os.waitpid(int(task), WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, int(task), 0, 0)
