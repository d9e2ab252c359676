#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a collective costs on the wire, from weir_stats of 8 ranks with a vector of 1 MiB, and the table of
docs/collectives.md, which has to say the same.

    test_traffic.py --table        # as root: print the table anew
"""
import os
import re
import sys

from control import running
from tap import case, check, main
from rack import ROOT, job
from ranks import Plan, Run, operation
from reference import COLLECTIVES, REDUCING, ROOTED, SLICED_RECEIVE, SLICED_SEND, send_count, sends_data

RANKS, VECTOR, TYPE, ELEMENT, BLOCK = 8, 1 << 20, 'fp32', 4, 256
PAGE = os.path.join(ROOT, 'docs', 'collectives.md')
HEAD = '| 1 MiB, 8 ranks | a host sends | receives | the root sends | receives |'


class Zeros(Plan):
    """What the elements are makes no difference on the wire."""

    def sent(self, step, rank):
        send = sends_data(step['name'], rank, step['root'])
        return bytes(send_count(step['name'], self.ranks, step['count']) * ELEMENT) if send else b''


def without_repetitions(stats):
    """(bytes sent, received) on the wire, had nothing been repeated; None: can't be told.

    All blocks of these vectors are alike, so what is repeated is as large as the rest.
    """
    blocks = stats['packets_sent'] - stats['retransmissions']
    answers = {'sent': 0, 'received': stats['waiting']}  # to probes: a header and a bitmap
    found = []
    for way in ('sent', 'received'):
        each, rest = divmod(stats['wire_' + way] - answers[way] * (42 + 16 + 32), max(stats['packets_' + way] - answers[way], 1))
        if rest:  # something else came between: that a block waits
            return None
        found.append(each * blocks)
    return tuple(found)


def measured():
    """{collective: [(bytes sent, received) of each rank]}"""
    found = {}
    with running(hosts=RANKS, jobs=[job(1, RANKS, elements=BLOCK, window=64)]) as rack:
        for _ in range(20):
            plan, names = Zeros(RANKS, 1), [name for name in COLLECTIVES if name not in found]
            for name in names:
                sliced = name in SLICED_SEND + SLICED_RECEIVE
                count = 0 if name == 'barrier' else VECTOR // ELEMENT // (RANKS if sliced else 1)
                # All begin together: else who is late asks the others' patience, and they repeat themselves.
                plan.group('blocking', [operation('barrier')])
                plan.group('blocking', [operation(name, TYPE, 'sum' if name in REDUCING else None, count)])
            told = Run(rack, 1, plan, range(RANKS), op_timeout_ms=200000).told(60)
            for i, name in enumerate(names):
                check(all(entries[2 * i + 1]['code'] == 0 for entries in told), '%s', name)
                traffic = [without_repetitions(entries[2 * i + 1]['stats']) for entries in told]
                if None not in traffic:
                    found[name] = traffic
            if len(found) == len(COLLECTIVES):
                return found
    check(False, 'too slow a machine: only %s can be told', sorted(found))
    return None


def table():
    lines = [HEAD, re.sub(r'[^|]+', ' --- ', HEAD)]
    found = measured()
    for name in COLLECTIVES:
        traffic = found[name]
        check(len(set(traffic[1:])) == 1, '%s: ranks differ: %s', name, traffic)
        cells = traffic[1] + (traffic[0] if name in ROOTED else ('', ''))
        lines.append('| %s | %s |' % (name, ' | '.join(
            format(c, ',').replace(',', ' ') if c != '' else '' for c in cells)))
    return lines


@case
def the_page_tells_what_is_measured():
    with open(PAGE) as file:
        page = file.read().splitlines()
    check(HEAD in page, '%s has no table', PAGE)
    start = page.index(HEAD)
    for line, told in zip(table(), page[start:]):
        check(line == told, 'measured: %s\nthe page: %s', line, told)


if __name__ == '__main__':
    if sys.argv[1:] == ['--table']:
        print('\n'.join(table()))
    else:
        main()
