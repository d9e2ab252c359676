# SPDX-License-Identifier: BSD-3-Clause
"""SIGHUP to a rack's switch, and what it says came of it."""
import re
import signal
import time

from tap import check


def outcomes(rack):
    return re.findall(r'^.*msg="(?:configuration reloaded|reload refused)".*$', rack.switch.output,
                      re.M)


def answer_to(rack, seconds=10):
    """SIGHUP, and the line that says what came of it."""
    lines = len(outcomes(rack))
    rack.switch.signal(signal.SIGHUP)
    until = time.monotonic() + seconds
    while len(outcomes(rack)) == lines:
        check(time.monotonic() < until and rack.switch.status is None, 'no answer to SIGHUP:\n%s',
              rack.switch.output[-2000:])
        time.sleep(0.01)
    return outcomes(rack)[-1]
