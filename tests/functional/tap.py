# SPDX-License-Identifier: BSD-3-Clause
"""Test cases as functions, their outcome as TAP.

    @case
    def sums_two_hosts():
        ...

    if __name__ == '__main__':
        main()

A case fails by raising; it has SECONDS to end. Arguments of the program name the cases to run. What several cases use,
such as a switch:

    @shared
    def rack():
        with running(hosts=2) as made:
            yield made                  # to each case that calls rack(); what follows runs after the last case
"""
import contextlib
import functools
import os
import random
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', '..', 'apps', 'rack'))
os.environ.setdefault('WEIR_BUILD', os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                 '..', '..', 'build'))

from rack import Rack  # noqa: E402 (the path comes first)

Rack.nap_us = 1000  # tests run side by side: what an idle switch takes is missed by the others
SECONDS = 900  # the machine may be busy
cases = []
held, held_cases = contextlib.ExitStack(), []  # of shared(); the case that ends it


class Skip(Exception):
    """Raised by a case that can't run here; says why."""


def case(function):
    cases.append(function)
    return function


def table(function, **rows):
    """A case for each row: its name, and the arguments."""
    for name, row in rows.items():
        made = functools.partial(function, **row)
        made.__name__ = name
        case(made)


def what_cases_shared_ends_in_order():
    held.close()


def shared(function):
    manager = contextlib.contextmanager(function)
    if not held_cases:
        held_cases.append(what_cases_shared_ends_in_order)
    return functools.cache(lambda: held.enter_context(manager()))


def check(good, message, *values):
    """Like assert, and never compiled away."""
    if not good:
        raise AssertionError(message % values)


def wait_for(holds, message, *values, seconds=300):
    """Wait until a function returns something true, and return that. A value that is a function is called
    when the message needs it."""
    end, pause = time.monotonic() + seconds, 0.001
    while not (found := holds()):
        if time.monotonic() > end:
            check(False, 'not within %d s: ' % seconds + message,
                  *(value() if callable(value) else value for value in values))
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return found


# WEIR_SEED, or that of every `make test` (tests/random.h has it, too). `make soak` sets another one each time.
SEED = int(os.environ.get('WEIR_SEED') or 20221122)


def seed():
    """A generator with the seed SEED, which is printed."""
    print('# WEIR_SEED=%d' % SEED, flush=True)
    return random.Random(SEED)


def late(_number, _frame):
    raise TimeoutError('the case took longer than %d s' % SECONDS)


def main():
    wanted = [c for c in cases if not sys.argv[1:] or c.__name__ in sys.argv[1:]] + held_cases
    failed = 0
    print('1..%d' % len(wanted), flush=True)
    signal.signal(signal.SIGALRM, late)
    for number, function in enumerate(wanted, 1):
        name = function.__name__.replace('_', ' ')
        began = time.monotonic()
        signal.alarm(SECONDS)
        try:
            if os.getuid() != 0:
                raise Skip('needs root, for network namespaces')
            function()
            line = 'ok %d - %s' % (number, name)
        except Skip as why:
            line = 'ok %d - %s # SKIP %s' % (number, name, why)
        except Exception as why:  # whatever it is, it is this case's failure
            failed += 1
            line = 'not ok %d - %s' % (number, name)
            # What went wrong comes first: a log may be cut behind it.
            told = ('%s: %s' % (type(why).__name__, why)).splitlines()
            told += ''.join(traceback.format_tb(why.__traceback__)).splitlines()
            line += ''.join('\n# %s' % text for text in told)
        finally:
            signal.alarm(0)
        print(line, flush=True)
        print('# %.1f s' % (time.monotonic() - began), flush=True)
    sys.exit(1 if failed else 0)
