# SPDX-License-Identifier: BSD-3-Clause
"""SIGHUP to a rack's switch, and what it says came of it."""
import re
import signal

from tap import wait_for


def outcomes(rack):
    return re.findall(r'^.*msg="(?:configuration reloaded|reload refused)".*$', rack.switch.output,
                      re.M)


def answer_to(rack):
    """SIGHUP, and the line that says what came of it."""
    lines = len(outcomes(rack))
    rack.switch.signal(signal.SIGHUP)
    return wait_for(lambda: outcomes(rack)[lines:], 'no answer to SIGHUP:\n%s',
                    lambda: rack.switch.output[-2000:])[-1]
