#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every collective, type and operation that is allowed, by libweir.so in a process per rank, against
reference.py: 1, 2, 3, 5 and 8 ranks; counts of 0, 1, about the ranks and about a block, and of several
windows; roots at random; in place and not; blocking, and up to six in flight, waited for in every way.

Blocks are small (64 elements, a window of 8), so that a few hundred elements are several windows; with 8
ranks an AlltoAll of 8-byte types has no block for all its slices, and is scattered rank by rank.
"""
from control import running
from tap import case, main, seed
from rack import job
from ranks import Run, everything

BLOCK = 64


def all_of_them(ranks, ids=None, changes=None, seconds=80, **options):
    draw = seed()
    plan = everything(draw, ranks, BLOCK)
    made = job(1, ranks, elements=BLOCK, window=8, **options)
    for rank, number in enumerate(ids or []):
        made['sources'][rank]['id'] = number
    with running(hosts=ranks, jobs=[made], changes=changes) as rack:
        Run(rack, 1, plan, range(ranks), ids).finish(seconds)


@case
def one_rank():
    all_of_them(1)


@case
def two_ranks():
    all_of_them(2)


@case
def three_ranks_with_ids_of_their_own():
    all_of_them(3, ids=[2, 5, 250])


@case
def five_ranks():
    all_of_them(5)


@case
def eight_ranks():
    all_of_them(8)


@case
def three_ranks_whose_alltoall_has_full_blocks():
    all_of_them(3, alltoall='full')


@case
def eight_ranks_whose_alltoall_has_full_blocks():
    all_of_them(8, alltoall='full')


if __name__ == '__main__':
    main()
