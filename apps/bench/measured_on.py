# SPDX-License-Identifier: BSD-3-Clause
"""The machine that figures are of."""
import os
import platform
import re


def machine():
    """What figures depend on."""
    with open('/proc/cpuinfo') as file:
        found = re.search(r'model name\s*:\s*(.+)', file.read())
    cpu = re.sub(r'\((R|TM|tm)\)|CPU(?= @)', '', found.group(1)) if found else 'CPU unknown'
    return {'cpu': re.sub(r'\s+', ' ', cpu).strip(), 'cpus': len(os.sched_getaffinity(0)),
            'kernel': platform.release(), 'load_before': os.getloadavg()[0]}
