# SPDX-License-Identifier: BSD-3-Clause
"""The experiment's figures as plots, by the writer of the benches' (apps/bench/plots.py)."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'bench'))

from plots import COLOURS, GREY, Panel, Plot  # noqa: E402 (the path comes first)

WAIT, PARTIAL = COLOURS[1], COLOURS[0]


def slowdown(found):
    """Iteration time and speed-up over the probability."""
    rows, ideal = found['slowdown']['rows'], found['slowdown']['ideal_ms']
    plan = found['slowdown']['plan']

    def over(policy, value):
        return [(r['chance'] * 100, value(r)) for r in rows if r['policy'] == policy]

    times = Panel('Time of an iteration', 'probability that a host is slowed, %', 'ms')
    times.line('wait for all', over('wait', lambda r: r['iteration_ms']), WAIT)
    times.line('partial results', over('partial', lambda r: r['iteration_ms']), PARTIAL)
    times.line('wait, by the draws', over('wait', lambda r: ideal + r['held_up_ms']), GREY,
               dashed=True)
    times.limit('no stragglers', ideal)
    gain = Panel('Speed-up: wait / partial', 'probability that a host is slowed, %', 'x')
    wait = dict(over('wait', lambda r: r['iteration_ms']))
    gain.line('measured', [(p, wait[p] / t) for p, t in
                           over('partial', lambda r: r['iteration_ms'])], PARTIAL)
    gain.line('if partial were ideal', [(p, t / ideal) for p, t in wait.items()], GREY, dashed=True)
    for panel in (times, gain):
        panel.ticks = [(c * 100, '%g' % (c * 100)) for c in plan['chances']]
    return Plot('stragglers-time', 'Iteration time with stragglers',
                '%d hosts, each slowed by 0.5 to 2 iterations; timeout %d ms, seed %d' % (
                    plan['hosts'], plan['timeout'], plan['seed']), [times, gain])


def detection(found):
    """Detection time over timeout, both logarithmic, and their ratio."""
    rows = found['detection']['rows']
    ticks = [(r['timeout_ms'], '%g' % r['timeout_ms']) for r in rows
             if '%g' % r['timeout_ms'] in ('1', '2', '5', '10', '20', '50', '100', '200', '500',
                                           '1000', '2000')]
    times = Panel('From the last contribution to the partial result', 'timeout, ms', 'ms', log='xy',
                  ticks=ticks)
    times.line('median', [(r['timeout_ms'], r['p50'] * r['timeout_ms']) for r in rows], PARTIAL)
    times.line('99th percentile', [(r['timeout_ms'], r['p99'] * r['timeout_ms']) for r in rows], WAIT)
    times.line('timeout', [(r['timeout_ms'], r['timeout_ms']) for r in rows], GREY, dashed=True)
    share = Panel('Detection time / timeout', 'timeout, ms', 'x', log='x', ticks=ticks)
    share.line('median', [(r['timeout_ms'], r['p50']) for r in rows], PARTIAL)
    share.line('99th percentile', [(r['timeout_ms'], r['p99']) for r in rows], WAIT)
    share.limit('1.1', 1.1)
    return Plot('stragglers-detection', 'Detection time over the timeout',
                '%d to %d blocks a timeout, each block by the switch\'s own clock' % (
                    min(r['blocks'] for r in rows), max(r['blocks'] for r in rows)),
                [times, share])


def training(found):
    """Accuracy over time and over iterations, a line for each policy."""
    rows, made = found['training']['rows'], found['training']['settings']
    over_time = Panel('Accuracy over time', 'seconds', '%')
    over_steps = Panel('Accuracy over iterations', 'iterations', '%')
    colours = {'ideal': GREY, 'wait': WAIT, 'partial': PARTIAL}
    most = {panel: max(m[key] for r in rows for m in r['marks'])
            for panel, key in ((over_time, 'seconds'), (over_steps, 'iteration'))}
    for row in rows:
        for panel, key in ((over_time, 'seconds'), (over_steps, 'iteration')):
            panel.line(row['policy'], [(m[key], m['accuracy'] * 100) for m in row['marks']],
                       colours.get(row['policy'], COLOURS[2]))
            step = 10 ** len('%d' % (most[panel] / 2)) / 10
            panel.ticks = [(n * step, '%g' % (n * step)) for n in range(int(most[panel] / step) + 2)]
    return Plot('stragglers-training', 'Training with stragglers',
                '%d hosts, each slowed in %g %% of its iterations; target %g %%, seed %d' % (
                    made['hosts'], made['slow_ppm'] / 1e4, made['target'] * 100, made['seed']),
                [over_time, over_steps])


def plots(found):
    """A plot of each part that was measured."""
    return [plot(found) for plot in (slowdown, detection, training) if plot.__name__ in found]
