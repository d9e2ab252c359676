#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that call different operations, by libweir.so in a process each: every rank's operation fails with
-EPROTO and a text that names the field, and the two that disagree; nobody hangs; and after weir_rejoin
all go on. Each pair of collectives, and each other field in each collective that has it.
"""
import errno
import itertools
import re

from control import running
from tap import case, check, main, seed, shared
from rack import job
from ranks import Plan, Run, operation
from reference import COLLECTIVES, REDUCING, ROOTED

BLOCK, RANKS = 64, 3


@shared
def three():
    with running(hosts=RANKS, jobs=[job(1, RANKS, elements=BLOCK, window=8)]) as rack:
        yield rack


def simple(name, kind='int32', op='sum', count=20, root=0):
    return operation(name, kind, op if name in REDUCING else None, count,
                     root if name in ROOTED else 0)


def fail(pairs):
    """Of each (field, wanted, other) wanted is called by two ranks, and other by one that is drawn."""
    draw = seed()
    plan, odd = Plan(RANKS, draw.getrandbits(32)), [Plan(RANKS, 0) for _ in range(RANKS)]
    outsiders = []
    for _, wanted, other in pairs:
        outsider = draw.randrange(RANKS)
        outsiders.append(outsider)
        for rank in range(RANKS):
            odd[rank].group('blocking', [dict(other if rank == outsider else wanted)], rejoin=True)
            odd[rank].group('wait', [simple('allreduce', count=200)])
        plan.group('blocking', [dict(wanted)]).group('wait', [simple('allreduce', count=200)])
    for each in odd:
        each.seed = plan.seed
    told = Run(three(), 1, plan, range(RANKS), plans=dict(enumerate(odd))).told(60)
    for i, (field, wanted, other) in enumerate(pairs):
        for rank in range(RANKS):
            what = 'rank %d of %s, %s by rank %d' % (rank, wanted, other, outsiders[i])
            entry = told[rank][2 * i]
            check(entry['code'] == -errno.EPROTO, '%s: %d %s', what, entry['code'], entry['text'])
            check(re.search(field, entry['text']), '%s: not "%s": %s', what, field, entry['text'])
            named = set(map(int, re.findall(r'(?:source|rank) (\d+)', entry['text'])))
            check(len(named) == 2 and outsiders[i] in named and named < set(range(RANKS)),
                  '%s: names %s: %s', what, named, entry['text'])
            check(not entry['harm'], '%s: %s', what, entry['harm'])
            check(told[rank][2 * i + 1]['code'] == 0, 'after %s: %s', what, told[rank][2 * i + 1])
    for i in range(len(pairs)):
        check(len({t[2 * i + 1]['data'] for t in told}) == 1, 'after %s: results differ', pairs[i])


@case
def in_the_collective():
    fail([('collective', simple(a), simple(b)) for a, b in itertools.permutations(COLLECTIVES, 2)
          if 'barrier' not in (a, b)])


@case
def barrier_and_others():
    # A barrier carries nothing: that is a difference of the length as well.
    fail([('collective|grad_cnt|element', simple(a), simple(b)) for name in COLLECTIVES
          if name != 'barrier' for a, b in ((name, 'barrier'), ('barrier', name))])


@case
def in_the_type():
    fail([('type', simple(name, 'int32'), simple(name, other)) for name in COLLECTIVES
          if name != 'barrier' for other in ('fp32', 'uint32', 'int16', 'bf16')])


@case
def in_the_operation():
    fail([('op', simple(name, op='sum'), simple(name, op=other)) for name in REDUCING
          for other in ('max', 'bxor', 'avg')])


@case
def in_the_root():
    fail([('root', simple(name, root=0), simple(name, root=root)) for name in ROOTED
          for root in (1, 2)])


@case
def in_the_count():
    fail([('grad_cnt|count|element|length', simple(name, count=10), simple(name, count=11))
          for name in COLLECTIVES if name != 'barrier'])


@case
def in_the_number_of_blocks():
    # The blocks that both have are alike: what differs is where the operation ends.
    pairs = []
    for name in COLLECTIVES:
        if name != 'barrier':
            block = BLOCK if name in ('allreduce', 'reduce', 'broadcast') else BLOCK // RANKS
            if name == 'alltoall':
                block = BLOCK // RANKS ** 2
            pairs += [('final|end', simple(name, count=2 * block), simple(name, count=3 * block)),
                      ('final|end', simple(name, count=30 * block), simple(name, count=block))]
    fail(pairs)


if __name__ == '__main__':
    main()
