#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make train in short: it trains on gloo and on Weir, and says, writes and draws it; the last line and the exit status from
figures that are known."""
import contextlib
import copy
import io
import json
import os
import re
import subprocess
import sys
import tempfile

from tap import Skip, case, check, main

RUNNER = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'train', 'train.py'))
sys.path.insert(0, os.path.dirname(RUNNER))

import train  # noqa: E402 (the path comes first)

BUILD = os.environ['WEIR_BUILD']
LAST = r'train: 30 % stragglers: (\d+\.\d\d) x faster to accuracy than waiting, loss equal to gloo: yes'


def row(way, chance, seconds, losses=(2.30257, 1.5)):
    marks = [{'step': 2, 'seconds': seconds, 'accuracy': 0.9, 'loss': 1.25}]
    return {'way': way, 'chance': chance, 'losses': list(losses), 'marks': marks, 'reached': marks[0], 'seconds': seconds,
            'step_ms': seconds * 500, 'partial': 0, 'given_up': 0}


ROWS = [row(way, chance, seconds) for chance, seconds in ((0, 4), (0.3, 9)) for way in ('wait', 'gloo')] + [
    row('partial', 0, 4), row('partial', 0.3, 6, (2.3, None))]


def verdict(rows):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = train.verdict(rows, print)
    return status, said.getvalue().splitlines()


@case
def the_last_line_says_what_was_found():
    check(verdict(ROWS) == (0, ['train: 30 % stragglers: 1.50 x faster to accuracy than waiting, loss equal to gloo: yes']),
          '%s', verdict(ROWS))
    check(any(re.search(r'30  Weir, partial +3000\.0 +6\.00 .* 6\.00 +2 +1\.50', line) for line in train.summary(ROWS)), '%s',
          train.summary(ROWS))
    # What prints alike is equal; a digit that is not, of any step or of held-out images, is found.
    for place, change, equal in ((('losses', 0), 1e-6, True), (('losses', 1), 1e-3, False), (('marks', 0, 'loss'), 1e-3, False)):
        rows = copy.deepcopy(ROWS)
        found = rows[0]
        for key in place[:-1]:
            found = found[key]
        found[place[-1]] += change
        status, lines = verdict(rows)
        check(status == (0 if equal else 1) and lines[-1].endswith('yes' if equal else 'no'), '%s: %s', place, lines)
        check(equal or '0 % stragglers: the loss on Weir is not gloo\'s at step 2' in lines, '%s', lines)
    rows = copy.deepcopy(ROWS)
    rows[-1]['reached'] = None
    status, lines = verdict(rows)
    check(status == 1 and ' -.-- x faster' in lines[-1] and 'NOT reached' in lines[0], '%s', lines)


@case
def it_trains_says_writes_and_draws():
    if not train.has_torch():
        raise Skip('PyTorch is not installed (.ci/install packages.torch)')
    with tempfile.TemporaryDirectory(prefix='weir-train-') as folder:
        report = os.path.join(folder, 'train.json')
        done = subprocess.run([RUNNER, BUILD, '--quick', '--json=' + report, '--plots', folder], text=True, timeout=900,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        check(done.returncode == 0 and re.fullmatch(LAST, done.stdout.splitlines()[-1]), '%s', done.stdout)
        with open(report) as file:
            rows = json.load(file)['rows']
        for name in ('train-loss.svg', 'train-time.svg'):
            with open(os.path.join(folder, name)) as file:
                drawn = file.read()
            check(drawn.startswith('<?xml') and drawn.count('<path') > 10, '%s', name)
    check([(r['way'], r['chance']) for r in rows] == [(w, c) for c in (0, 0.3) for w in ('wait', 'gloo', 'partial')], '%s', rows)
    # Waiting and gloo: the same weights, to the bit, with the same stragglers or others.
    check(len({r['checksum'] for r in rows if r['way'] != 'partial'}) == 1, '%s', [r['checksum'] for r in rows])
    check(all(r['partial'] == 0 for r in rows if r['way'] != 'partial') and rows[-1]['partial'] > 0, 'partial: %s',
          [r['partial'] for r in rows])


if __name__ == '__main__':
    main()
