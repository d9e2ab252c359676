#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-train without a switch: shares of the data, gradients, packed sums, the check of sums, tensors and slow hosts."""
import os
import sys
from types import SimpleNamespace

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
def gradient_is_that_of_the_loss():
    """Central differences of the loss: what is left is of the order of step^2."""
    chosen = some_seed()
    x, label = workload.make_set(workload.stream(chosen, workload.STREAM_TRAIN), 20)
    model = workload.Model(chosen, 256)
    gradient, _ = model.gradient(x, label)
    slopes = []
    for i in range(0, workload.WEIGHTS, 3):
        was = model.weights[i]
        ends = [np.float32(was + step) for step in (1e-3, -1e-3)]
        loss = []
        for model.weights[i] in ends:
            loss.append(model.gradient(x, label)[1])
        model.weights[i] = was
        slopes.append((loss[0] - loss[1]) / (float(ends[0]) - float(ends[1])))
    norm = np.linalg.norm(slopes)
    worst = np.abs(slopes - gradient[:workload.WEIGHTS:3]).max()
    check(worst < 2e-5 * max(1, norm), 'off by %g, |gradient| is %g', worst, norm)
    check(norm > 0.01, '|gradient| is %g', norm)


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


@case
def buckets_are_tensors_in_reverse():
    counts = [100, 10, 7, 50, 1]
    first = workload.make_buckets(counts, 1, 60)
    check(first == [0, 58, 68, 168], '1, 50 and 7; 10; 100, which is larger than a bucket: %s', first)
    check(workload.blocks_of(first, 50) == 2 + 1 + 2, 'blocks')
    check(workload.make_buckets(counts, 20) == [0, 5 + 1 + 1 + 3 + 1], 'rounded, and never nothing')
    shapes = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'configs', 'resnet50.shapes')
    read = workload.read_shapes(shapes)
    check(len(read) == 161 and sum(read) == 25557032, '%d tensors, %d elements', len(read), sum(read))


@case
def slow_hosts_are_as_many_and_as_slow_as_asked():
    chosen = SimpleNamespace(slow_ppm=160000, slow_unit_us=1000000, compute_us=0, slow_min=0.5, slow_max=2, seed=3)
    fewer = SimpleNamespace(**dict(vars(chosen), slow_ppm=40000))
    found = [(workload.slow(chosen, rank, k), workload.slow(fewer, rank, k)) for k in range(2000) for rank in range(RANKS)]
    us = [one[0] for one, _ in found if one[0]]
    # Within four standard deviations.
    check(abs(len(us) - 1920) < 161, '%d of 12000', len(us))
    check(abs(sum(us) / len(us) - 1250000) < 40000, 'mean %g', sum(us) / len(us))
    check(500000 <= min(us) < 510000 and 1990000 < max(us) < 2000000, '%d to %d', min(us), max(us))
    for one, at_fewer in found:
        check(at_fewer in (one, (0, workload.BEFORE_FORWARD)), 'slow at a lower probability only: %s, %s', one, at_fewer)
    # As splitmix64 has them, from 0 on; a number is as in an array.
    check(workload.mix(workload.GOLDEN) == 0xe220a8397b1dcdaf, 'not splitmix64')
    check(workload.uniform(7, workload.indexes(5))[4] == workload.uniform(7, 4), 'number and array differ')


if __name__ == '__main__':
    main()
