#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI on the same data, where it is installed: every collective, type and operation that both have,
by 2, 3 and 5 ranks. Integers and what is only carried about must be the same bytes; extremes of
floating-point numbers the same numbers, but for NaN, of which MPI says nothing; sums and products of them
within what any order of adding gives (reference.py). Open MPI's AVX kernels (op/avx) saturate sums of 8 and
16 bits, its plain ones wrap, as Weir's: so the plain ones are asked.
"""
import os
import shutil
import subprocess
import sys

from tap import Skip, case, check, main, seed
from elements import TYPE
from mpi_rank import OPERATIONS, TYPES
from rack import Rack, job
from ranks import Plan, Run, allowed, counts, described, operation
from reference import ROOTED, Exactly, collective, receive_count, receives_data

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK = 64
MPIRUN = shutil.which('mpirun.openmpi') or shutil.which('mpirun')  # beside MPICH's, Debian gives it this name


def both_have(name, kind, op):
    return kind in TYPES and (op is None or op in OPERATIONS)


def mpi(rack, ranks, paths):
    run = subprocess.run(
        [MPIRUN, '--allow-run-as-root', '--oversubscribe', '-n', str(ranks), '--mca', 'btl', 'self,vader',
         '--mca', 'mpi_yield_when_idle', '1', '--mca', 'op', '^avx', sys.executable, os.path.join(HERE, 'mpi_rank.py'), paths],
        cwd=rack.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=800,
        check=False, env={k: v for k, v in os.environ.items() if not k.startswith('WEIR_') or k == 'WEIR_BUILD'})
    check(run.returncode == 0, 'mpirun: %d\n%s', run.returncode, run.stdout[-2000:])


def same(kind, op, wanted, ours, theirs):
    """Whether Weir's bytes, which are right, and MPI's agree: to the bit, unless sums round, or a NaN is the minimum."""
    if kind.precision and op in ('sum', 'prod', 'avg'):
        return wanted.differs(theirs) is None
    return ours == theirs or bool(kind.precision) and all(
        a != a or a == b for a, b in zip(kind.numbers(ours), kind.numbers(theirs)))


def compare(ranks):
    if not MPIRUN:
        raise Skip('Open MPI (openmpi-bin) is not installed')
    draw = seed()
    plan = Plan(ranks, draw.getrandbits(32))
    for name, kind, op in allowed():
        if both_have(name, kind, op):
            plan.group('blocking', [operation(name, kind, op, counts(draw, name, ranks, BLOCK),
                                              draw.randrange(ranks) if name in ROOTED else 0)])
    with Rack(hosts=ranks, jobs=[job(1, ranks, elements=BLOCK, window=8)]) as rack:
        rack.start_switch()
        run = Run(rack, 1, plan, range(ranks))
        told = run.finish(80)
        rack.stop_switch()
        paths = os.path.join(rack.folder, 'mpi-')
        for rank, path in enumerate(run.paths):
            for end in ('.plan', '.in'):
                os.link(path + end, '%s%d%s' % (paths, rank, end))
        mpi(rack, ranks, paths)
        theirs = [open('%s%d.mpi' % (paths, rank), 'rb') for rank in range(ranks)]
        for i, step in enumerate(s for g in plan.groups for s in g['steps']):
            kind = TYPE[step['type']]
            wanted = collective(step['name'], kind, step['op'], step['root'],
                                [plan.sent(step, r) for r in range(ranks)], step['count'])
            for rank, file in enumerate(theirs):
                if receives_data(step['name'], rank, step['root']):
                    got = file.read(receive_count(step['name'], ranks, step['count']) * kind.bytes)
                    check(same(kind, step['op'], wanted[rank], told[rank][i]['data'], got),
                          'rank %d: %s: Weir and Open MPI differ: %s', rank, described(step),
                          Exactly(kind, got).differs(told[rank][i]['data']))
        for file in theirs:
            check(file.read() == b'', 'Open MPI has more')
            file.close()
    print('# %d operations' % plan.steps())


@case
def two_ranks():
    compare(2)


@case
def three_ranks():
    compare(3)


@case
def five_ranks():
    compare(5)


if __name__ == '__main__':
    main()
