#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Partial results of every collective and of many types and operations: one of three ranks is late again and
again, in a job with the policy `partial`. weir_degraded says who is in which block, and each block must be
what reference.py makes of these: `avg` divides by their number, and what is missing of slices is zero.
"""
from control import running
from tap import case, check, main, seed
from elements import TYPE
from rack import job
from ranks import HOWS, Plan, Run, allowed, described, operation
from reference import ROOTED, collective, receive_count

RANKS, LATE, BLOCK, STEPS = 3, 2, 64, 150


def plans(draw):
    """What all do, and the same with pauses; the late one is no root, without whom there is nothing."""
    number = draw.getrandbits(32)
    good, late = Plan(RANKS, number), Plan(RANKS, number)
    table = draw.sample([c for c in allowed() if c[0] != 'barrier'], STEPS)
    while table:
        group = [operation(name, kind, op, draw.choice([1, 7, BLOCK // RANKS, BLOCK, 3 * BLOCK]),
                           draw.randrange(RANKS - 1) if name in ROOTED else 0)
                 for name, kind, op in [table.pop() for _ in range(min(5, len(table)))]]
        how = draw.choice([h for h in HOWS if h != 'all'])  # which tells of its last one only
        good.group(how, [dict(s) for s in group])
        late.group(how, [dict(s) for s in group], pause=draw.choice([0, 0.3]))
    return good, late


def pieces(entry, step):
    """(first, count, who is in it or None) of the elements of a slice, from the degraded blocks."""
    at = 0
    for first, count, present in sorted(entry['degraded']):
        yield at, first - at, None
        yield first, count, present
        at = first + count
    yield at, step['count'] - at, None


def wrong(plan, step, entry, rank, cache):
    kind = TYPE[step['type']]
    slices = receive_count(step['name'], RANKS, step['count']) // step['count']
    for first, count, present in pieces(entry, step):
        key = tuple(present) if present is not None else None
        if key not in cache:
            cache[key] = collective(step['name'], kind, step['op'], step['root'],
                                    [plan.sent(step, r) for r in range(RANKS)], step['count'], present)
        wanted = cache[key][rank]
        for begin in range(first, slices * step['count'], step['count']) if wanted else ():
            found = wanted.part(begin, count).differs(
                entry['data'][begin * kind.bytes:(begin + count) * kind.bytes])
            if found:
                return 'rank %d: %s: [%d, %d) of %s: %s' % (rank, described(step), begin, begin + count,
                                                            present, found)
    return None


@case
def a_rank_that_is_late():
    good, late = plans(seed())
    made = job(1, RANKS, elements=BLOCK, window=8, policy='partial', timeout_ms=100, dead_after_ms=60000)
    with running(hosts=RANKS, jobs=[made]) as rack:
        told = Run(rack, 1, good, range(RANKS), plans={LATE: late}).told(80)
        stats = rack.check_packets()
    seen = set()
    for i, step in enumerate(s for g in good.groups for s in g['steps']):
        cache = {}
        for rank, entries in enumerate(told):
            entry = entries[i]
            check(entry['code'] in (0, 1) and not entry['harm'], '%s: %s', described(step), entry)
            # The data of a root that is not late are whole, whoever else is.
            partial = bool(entry['degraded']) and step['name'] not in ('broadcast', 'scatter')
            check((entry['code'] == 1) == partial, '%s: %s', described(step), entry)
            found = wrong(good, step, entry, rank, cache)
            check(found is None, '%s', found)
            if entry['degraded']:
                seen.add((step['name'], step['op']))
    print('# %d blocks partial, %d of %d collectives and operations' % (
        stats['jobs'][0]['blocks_partial'], len(seen), len({(n, o) for n, _, o in allowed()}) - 1))
    check(len(seen) > 10, 'only %s were partial', sorted(map(str, seen)))


if __name__ == '__main__':
    main()
