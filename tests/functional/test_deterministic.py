#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A deterministic job by real hosts, whose packets overtake each other and are lost: the same data, again and
again, gives the bits of the sum in the order of the ranks, and without the option it does not always."""
import random
import struct

from control import running
from tap import case, check, main, seed
from rack import job
from ranks import Plan, Run, operation

COUNT, TIMES = 300, 48
FAULTS = [{'direction': 'in', 'action': 'reorder', 'distance': 12, 'chance_ppm': 300000},
          {'direction': 'in', 'action': 'duplicate', 'chance_ppm': 20000},
          {'direction': 'in', 'action': 'drop', 'chance_ppm': 20000},
          {'direction': 'out', 'action': 'drop', 'chance_ppm': 20000}]


def values(text):
    """Numbers of 60 binary magnitudes, as fp32."""
    draw = random.Random(text)
    return struct.pack('<%df' % COUNT, *[draw.choice([-1, 1]) * draw.uniform(1, 2) * 2.0 ** draw.randint(-30, 30)
                                         for _ in range(COUNT)])


class Again(Plan):
    """A rank sends the same in every step."""

    def sent(self, step, rank):
        return values('%d %d' % (self.seed, rank))


def in_order(sends):
    """In fp64 a sum of two fp32 numbers rounds to fp32 as if it were rounded once."""
    rows = [struct.unpack('<%df' % COUNT, s) for s in sends]
    sums = rows[0]
    for row in rows[1:]:
        sums = [struct.unpack('<f', struct.pack('<f', a + b))[0] for a, b in zip(sums, row)]
    return struct.pack('<%df' % COUNT, *sums)


def results(ranks, workers, **options):
    """What there was, and what the sum in order is."""
    draw = seed()
    plan = Again(ranks, draw.getrandbits(31))
    for _ in range(TIMES // 6):
        plan.group('all', [operation('allreduce', 'fp32', 'sum', COUNT) for _ in range(6)])
    made = job(1, ranks, elements=64, window=8, **options)
    with running(hosts=ranks, jobs=[made], workers=workers,
                 changes={'faults': {'seed': plan.seed, 'rules': FAULTS}}) as rack:
        told = Run(rack, 1, plan, range(ranks)).told(60)
        stats = rack.check_packets()
    check(stats['drops']['fault_drop'] > 10, '%s', stats['drops'])
    for entries in told:
        check(len(entries) == TIMES and all(e['code'] == 0 and not e['harm'] for e in entries), '%s', entries)
    return [e['data'] for entries in told for e in entries], in_order([plan.sent(None, r) for r in range(ranks)])


@case
def three_ranks_get_the_same_bits():
    found, wanted = results(3, 1, deterministic=True)
    check(set(found) == {wanted}, '%d results', len(set(found)))


@case
def five_ranks_and_two_workers_get_the_same_bits():
    found, wanted = results(5, 2, deterministic=True)
    check(set(found) == {wanted}, '%d results', len(set(found)))


@case
def without_the_option_they_do_not():
    found, _ = results(5, 2)
    check(len(set(found)) > 1, 'the order made no difference')


if __name__ == '__main__':
    main()
