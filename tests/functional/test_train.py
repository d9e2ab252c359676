#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-train without a switch: shares of the data, packed sums, and the check of sums."""
import os
import sys

import numpy as np

from tap import case, check, main, seed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'stragglers'))
import workload  # noqa: E402 (the path comes first)

RANKS, COUNT = 6, 5000


def some_seed():
    return seed().randrange(1 << 32)


@case
def shares_are_a_partition_in_every_epoch():
    chosen, points, ranks, batch = some_seed(), 1003, 4, 50
    seen = [[], [], []]
    for rank in range(ranks):
        share = workload.Share(chosen, points, rank, ranks)
        check(len(share.order) == (251 if rank < points % ranks else 250), '%d points', len(share.order))
        first = []
        for epoch in range(3):
            for number in range(len(share.order) // batch):
                drawn = share.batch(batch)
                check(share.epoch == epoch and {p % ranks for p in drawn} == {rank}, 'rank %d: %s', rank, drawn)
                first += [drawn] if number == 0 else []
                seen[epoch] += drawn
        check(first[0] != first[1], 'not shuffled anew')
    for epoch in seen:
        check(len(epoch) == len(set(epoch)) == ranks * (250 // batch) * batch, 'a point twice')


@case
def packed_sums_are_divided_block_by_block():
    count = workload.WEIGHTS
    gradient = (np.arange(count) / 1024 - 0.5).astype(np.float32)
    for block in (2, 3, 17, 256, count, count + 1, 4096):
        model = workload.Model(1, block)
        packed, expected, first = model.pack(gradient), model.weights.copy(), 0
        total = packed.copy()
        # Blocks in turn of 3, 0, 1 and 2 gradients.
        for begin in range(0, len(packed), block):
            hosts = (3 + begin // block) % 4
            part = total[begin:begin + block]
            check(part[-1] == 1, 'block %d: no count', block)
            part *= np.float32(hosts)
            if hosts:
                expected[first:first + len(part) - 1] -= np.float32(0.5) * (part[:-1] / np.float32(hosts))
            first += len(part) - 1
        check(first == count, 'block %d: %d weights', block, first)
        model.step(total, 0.5, 0.9)
        check((model.weights == expected).all(), 'block %d', block)


def sum_of(who, ranks=RANKS):
    total = np.zeros(COUNT, np.float32)
    for rank in reversed(range(ranks)):
        if who >> rank & 1:
            total += workload.fill(7, rank, 3, COUNT)
    return total


def wrong(total, who, iteration=3):
    return workload.wrong(7, RANKS, iteration, 0, total, [(0, COUNT, [r for r in range(RANKS) if who >> r & 1])])


@case
def every_subset_has_sums_of_its_own():
    for who in range(1, 1 << RANKS):
        total = sum_of(who)
        for other in range(1, 1 << RANKS):
            bad = wrong(total, other)
            check(bad == 0 if other == who else bad > COUNT * 9 // 10, 'set %x for %x: %d', who, other, bad)
    total = sum_of(0x3f)
    check(workload.wrong(7, RANKS, 3, 1000, total[1000:1500]) == 0, 'a part')
    check(wrong(total, 0x3f, 4) > COUNT * 9 // 10, 'another iteration')
    check(workload.wrong(7, RANKS, 3, 1, total[:-1]) > COUNT * 9 // 10, 'shifted by one')
    total[2000:2100] = sum_of(0x15)[2000:2100]
    check(workload.wrong(7, RANKS, 3, 1000, total[1000:], [(1000, 100, [0, 2, 4])]) == 0, 'a partial block')
    check(workload.wrong(7, RANKS, 3, 1000, total[1000:]) > 90, 'a partial block that is not known')


if __name__ == '__main__':
    main()
