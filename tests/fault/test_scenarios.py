#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A short selection of the scenarios of this folder. `make faults` plays them all.

    test_scenarios.py [NAME...]
"""
import glob
import os
import sys

from faults import HERE, Ended

import tap
from scenario import load
from tap import check, main

SHORT = ['everything-one-worker', 'first-window-out', 'damaged-authenticated-unchecked', 'stopped-five-timeouts-partial',
         'killed-partial', 'switch-killed', 'broadcast-root-killed', 'alltoall-bursts', 'damaged-crc32c-unchecked']
ALL = {one['name']: one['source'] for path in glob.glob(os.path.join(HERE, '*.json')) for one in load(path)}


def scenario(name):
    def play():
        made = dict(ALL[name], seconds=600)  # the machine may be busy
        run = Ended('run', made, options=['--seed', str(made.get('seed', tap.SEED))])
        check(run.status == 0, '%s', run)
        print('# ' + run.output.splitlines()[-1].strip())
    play.__name__ = name
    return play


for _name in sys.argv[1:] or SHORT:
    tap.case(scenario(_name))

if __name__ == '__main__':
    main()
