#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The straggler experiment: what it costs to wait for slow hosts, and what to go on without them.

    stragglers.py [BUILD] [--seed N] [--only PART...] [--json FILE] [--plots FOLDER] [--page FILE]

Three parts, about five minutes in all; docs/stragglers.md says what they mean:

    slowdown   a training-shaped loop on 6 hosts, each slowed in 0 to 16 % of its iterations; policies
               wait and partial
    detection  how long the switch takes to notice a straggler, for timeouts of 1 ms to 2 s
    training   a small model trained to an accuracy with each policy

The figures go to FILE, as JSON, and to FOLDER, as SVG; --page puts the tables in the place of those in a
Markdown page. With the part slowdown the last line is `stragglers: speed-up at 16 %: X.XX`. The exit
status is 1 if a sum was wrong, the model was not trained, or something else failed.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

import detection  # noqa: E402 (the path comes first)
import drawing  # noqa: E402
import slowdown  # noqa: E402
import training  # noqa: E402
from experiment import Teller, keep  # noqa: E402
from measured_on import machine  # noqa: E402
from rack import RackError  # noqa: E402

PARTS = ('slowdown', 'detection', 'training')
TRAINING_SECONDS = 90  # at most


def show(part, title, lines, tables):
    """Print a part's table, and keep it for the page."""
    text = '\n'.join(['# ' + line for line in title] + ['#'] * bool(title) + list(lines))
    tables['stragglers.py ' + part] = text
    print('#\n%s\n#' % text, flush=True)


def of_slowdown(plan, build, teller, tables):
    def tell(row):
        teller.say('%s, %g %% slowed: %.1f ms an iteration, %.2f sources in a sum' % (
            row['policy'], row['chance'] * 100, row['iteration_ms'], row['sources']))

    rows, unit = slowdown.measure(plan, build, tell)
    model = rows[0]['model']
    show('slowdown', (
        'An iteration: %g ms of computing, then AllReduce of ResNet-50\'s %d tensors, each 1/%d of its'
        ' size:' % (plan.compute, model['tensors'], plan.scale),
        '%d elements, %d blocks of %d, %d bucket%s. %d hosts, timeout %d ms, %d iterations, seed %d.' % (
            model['elements'], model['blocks'], slowdown.ELEMENTS, model['buckets'],
            's' * (model['buckets'] != 1), plan.hosts, plan.timeout, plan.iterations, plan.seed)),
         slowdown.table(rows, unit), tables)
    return {'plan': vars(plan), 'ideal_ms': unit, 'rows': rows}


def of_detection(plan, build, teller, tables):
    def tell(row):
        teller.say('timeout %d ms: noticed after %.3f x timeout, p99 %.3f' % (
            row['timeout_ms'], row['p50'], row['p99']))

    rows = detection.measure(plan, build, tell)
    show('detection', ('From a block\'s last contribution to its partial result, by the switch\'s own '
                       'clock.',), detection.table(rows), tables)
    return {'rows': rows}


def of_training(seed, build, teller, tables):
    lines = []

    def say(line):
        lines.append(line)
        if line.split()[0] in [policy[0] for policy in training.POLICIES]:
            teller.say('training, ' + '%s: %s s, %s iterations' % tuple(line.split()[:3]))

    found = training.train(build, say=say, seed=seed)
    show('training', (), lines, tables)
    return found


def options():
    parser = argparse.ArgumentParser(
        description=__doc__.split('\n\n', 1)[0],
        epilog='docs/stragglers.md says what is measured and how to read it')
    parser.add_argument('build', nargs='?')
    parser.add_argument('--seed', type=int, default=5, help='who is slow when (5)')
    parser.add_argument('--only', nargs='+', choices=PARTS, default=PARTS, metavar='PART',
                        help='of ' + ', '.join(PARTS))
    parser.add_argument('--json', help='write all figures into this file')
    parser.add_argument('--plots', help='draw SVG files into this folder')
    parser.add_argument('--page', help='put the tables into this Markdown file')
    for name, help_text in (('compute', 'ms of computing in an iteration'),
                            ('timeout', 'ms, of a block under policy partial'),
                            ('iterations', 'of each run'), ('hosts', 'how many'),
                            ('scale', 'tensors are so many times smaller'),
                            ('bucket', 'elements of a bucket, about; 0: one for all')):
        parser.add_argument('--' + name, type=int, metavar='N', help='%s (%d)' % (
            help_text, getattr(slowdown.Plan(), name)))
    parser.add_argument('--quick', action='store_true',
                        help='few iterations: does it work, not how well')
    return parser.parse_args()


def plans(chosen):
    quick = {'compute': 40, 'iterations': 12, 'chances': (0, 0.16)} if chosen.quick else {}
    asked = {key: value for key, value in vars(chosen).items()
             if value is not None and key in vars(slowdown.Plan())}
    return (slowdown.Plan(**dict(quick, **asked)),
            detection.Plan(timeouts=(5, 50), blocks=20, seconds=1) if chosen.quick
            else detection.Plan())


def run(chosen):
    slow, detect = plans(chosen)
    teller = Teller('stragglers', sum(s for part, s in (('slowdown', slow.seconds()),
                                                        ('detection', detect.seconds()),
                                                        ('training', TRAINING_SECONDS))
                                      if part in chosen.only))
    found, tables = {'seed': chosen.seed, 'machine': machine()}, {}
    teller.say('seed %d; %s' % (chosen.seed, ', '.join(p for p in PARTS if p in chosen.only)))
    teller.warn(found['machine'])
    if 'slowdown' in chosen.only:
        found['slowdown'] = of_slowdown(slow, chosen.build, teller, tables)
        found['speed_up'] = slowdown.speed_up(found['slowdown']['rows'], 0.16)
    if 'detection' in chosen.only:
        found['detection'] = of_detection(detect, chosen.build, teller, tables)
    if 'training' in chosen.only:
        found['training'] = of_training(chosen.seed, chosen.build, teller, tables)
    keep(chosen, found, drawing.plots, tables, teller)
    return found


def main():
    chosen = options()
    if os.getuid() != 0:
        print('stragglers: needs root, for network namespaces')
        return 1
    try:
        found = run(chosen)
    except RackError as error:
        print('stragglers: %s' % error)
        return 1
    wrong = sum(row['wrong'] for row in found.get('slowdown', {}).get('rows', ()))
    if wrong:
        print('stragglers: %d elements are WRONG' % wrong)
    failed = [row['policy'] for row in found.get('training', {}).get('rows', ())
              if not row['reached']]
    if failed:
        print('stragglers: not trained to the target: ' + ', '.join(failed))
    if 'speed_up' in found:
        print('stragglers: speed-up at 16 %%: %.2f' % found['speed_up'])
    return 1 if wrong or failed else 0


if __name__ == '__main__':
    sys.exit(main())
