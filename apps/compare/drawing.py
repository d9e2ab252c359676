# SPDX-License-Identifier: BSD-3-Clause
"""The comparison's figures as plots, by the writer of the benches' (apps/bench/plots.py)."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'bench'))

from plots import GLOO, OPEN_MPI, SHADES, WEIR as BLUE, Panel, Plot  # noqa: E402 (the path comes first)
from table import WEIR, rows, share  # noqa: E402

SYSTEMS = ((WEIR, BLUE), ('Open MPI', OPEN_MPI), ('Gloo', GLOO))


def tick(size):
    """1M, 16k, 4."""
    for unit, name in ((1 << 20, 'M'), (1 << 10, 'k')):
        if size >= unit:
            return '%.3g%s' % (size / unit, name)
    return '%d' % size


def best_of(points, system):
    """The best algorithm of a system at each size."""
    found = {}
    for point in points:
        if point['system'] == system:
            old = found.get(point['bytes'])
            found[point['bytes']] = point if old is None or point['us'] < old['us'] else old
    return list(found.values())


def plot(found, collective):
    rate = found['rate']
    points = [p for p in found['points'] if p['collective'] == collective]
    most = max(p['hosts'] for p in points)
    mine = [p for p in points if p['hosts'] == most]
    ticks = [(b, tick(b)) for b in sorted({p['bytes'] for p in mine})]
    times = Panel('Time of an operation, %d hosts' % most, 'bytes', 'us', log='xy', ticks=ticks)
    links = Panel('Share of the link, %d hosts' % most, 'bytes', 'payload / time / rate', log='x',
                  ticks=ticks)
    gain = Panel('Best other / Weir', 'bytes', 'times', log='x', ticks=ticks)
    for system, colour in SYSTEMS:
        best = best_of(mine, system)
        times.line(system, [(p['bytes'], p['us']) for p in best], colour)
        links.line(system, [(p['bytes'], share(p, rate)) for p in best], colour)
    links.limit('the link', 1)
    for number, hosts in enumerate(sorted({p['hosts'] for p in points})):
        gain.line('%d hosts' % hosts, [(r['bytes'], r['ratio']) for r in rows(points)
                                       if r['hosts'] == hosts and r['ratio']], SHADES[number])
    gain.limit('equal', 1)
    return Plot('compare-' + collective, 'Side by side: %s' % collective,
                'links of %d Mbit/s, medians of interleaved repetitions, the best algorithm of each; '
                'the others through %s' % (rate, found['others_over']),
                [panel for panel in (times, links, gain) if panel.measured()], columns=3)


def plots(found):
    """A plot of each collective that was measured."""
    return [plot(found, collective)
            for collective in dict.fromkeys(p['collective'] for p in found['points'])]
