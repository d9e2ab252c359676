#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on Weir: four ranks on four hosts, each call compared with gloo's; training; failures. docs/pytorch.md."""
import os
import re

from tap import case, check, main, wait_for
from mpi import MpiRack
from torch_hosts import start


def say(rack, name):
    with open(os.path.join(rack.folder, name), 'w'):
        pass


@case
def every_call_gives_gloos_result():
    with MpiRack() as rack:
        rack.start_switch()
        run = start(rack, 'calls+again+profiled+refused+subgroups+mistakes,WEIR_NAMESPACE=run7')
        run.wait_line('jobs', 60)
        names = list(rack.jobs_now())
        check(len(names) == 5 and all(name.startswith('run7.') for name in names), 'jobs: %s', names)
        say(rack, 'counted')
        run.wait_line('left', 60)
        wait_for(lambda: not rack.jobs_now(), 'jobs are left: %s', rack.jobs_now)
        say(rack, 'done')
        output = run.wait(60)
        for text in ('send goes through gloo', 'all_to_all of lists', 'all_reduce goes through gloo: sparse'):
            check(0 < output.count(text) <= 4, '"%s" %d times:\n%s', text, output.count(text), output)
        rack.stop_switch()


@case
def training_gives_gloos_losses():
    with MpiRack() as rack:
        rack.start_switch()
        start(rack, 'training+composed+partial,WEIR_SETTINGS=deterministic=true').wait(60)
        rack.stop_switch()


@case
def failures_are_errors_and_without_the_switch_all_use_gloo():
    with MpiRack() as rack:
        rack.start_switch()
        output = start(rack, 'without_switch,WEIR_SWITCH=', 'without_switch,WITHOUT=2', 'killed').wait(60)
        for why in ('WEIR_SWITCH is not set', 'rank 2: '):
            check(output.count('uses gloo alone: ' + why) == 2, 'said:\n%s', output)
        lines = [line for line in output.splitlines() if line.startswith('error ')]
        check(len(lines) == 5 and all(re.search(' Timed out .*missing: rank 3', line) for line in lines), '%s', output)
        rack.stop_switch()


if __name__ == '__main__':
    main()
