#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every collective, type and operation as in test_collectives.py, where something is in the way: 2 % loss
each way, two jobs on the same hosts, keys, results by multicast, several workers, jumbo frames.
"""
import os
import tempfile

from control import running
from tap import case, check, main, seed
from rack import job
from ranks import Run, everything

LOSS = {'rules': [{'direction': way, 'action': 'drop', 'chance_ppm': 20000} for way in ('in', 'out')]}


def run(ranks, block=64, window=8, config=None, changes=None, workers=1, mtu=1500, **options):
    draw = seed()
    plan = everything(draw, ranks, block)
    if changes and 'faults' in changes:
        changes = {'faults': dict(changes['faults'], seed=plan.seed)}
    made = job(1, ranks, elements=block, window=window, **options)
    with running(hosts=ranks, jobs=[made], changes=changes, workers=workers, mtu=mtu) as rack:
        Run(rack, 1, plan, range(ranks), **(config or {})).finish(80)
        stats = rack.check_packets()
    return stats


def lossy(ranks):
    stats = run(ranks, changes={'faults': LOSS})
    check(stats['drops']['fault_drop'] > 20, '%s', stats['drops'])


@case
def two_ranks_under_loss():
    lossy(2)


@case
def three_ranks_under_loss():
    lossy(3)


@case
def eight_ranks_under_loss():
    lossy(8)


@case
def two_jobs_at_once():
    # On the same hosts, and apart by a rank, so that no job has the other's numbers.
    draw = seed()
    plans = [everything(draw, 4, 64), everything(draw, 3, 256)]
    jobs = [job(1, 4, elements=64, window=8), job(2, 3, first=1, type='int8', op='max', elements=256)]
    with running(hosts=4, jobs=jobs) as rack:
        runs = [Run(rack, 1, plans[0], range(4)), Run(rack, 2, plans[1], range(1, 4))]
        for each in runs:
            each.finish(80)


@case
def two_jobs_under_loss():
    draw = seed()
    plans = [everything(draw, 3, 64), everything(draw, 3, 128)]
    jobs = [job(1, 3, elements=64, window=8), job(2, 3, elements=128, window=4)]
    with running(hosts=3, jobs=jobs, changes={'faults': dict(LOSS, seed=plans[0].seed)}) as rack:
        runs = [Run(rack, number, plan, range(3)) for number, plan in enumerate(plans, 1)]
        for each in runs:
            each.finish(80)


@case
def results_by_multicast():
    run(3, results='239.77.0.1')


@case
def three_workers():
    run(3, workers=3)


@case
def jumbo_frames():
    run(3, block=2048, window=4, mtu=9000)


def keyed(**options):
    key = os.urandom(32).hex()
    handle, path = tempfile.mkstemp(prefix='weir-key-')
    try:
        with os.fdopen(handle, 'w') as file:
            file.write(key + '\n')
        stats = run(3, config={'key': key}, key_file=path, **options)
    finally:
        os.unlink(path)
    check(stats['drops']['forged'] == 0, '%s', stats['drops'])


@case
def authenticated():
    keyed()


@case
def authenticated_under_loss():
    keyed(changes={'faults': LOSS})


@case
def authenticated_by_multicast():
    keyed(results='239.77.0.1')


if __name__ == '__main__':
    main()
