#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small network trained by PyTorch's DistributedDataParallel on four hosts, with gloo, with Weir, and with partial results.

    train.py [BUILD] [--seed N] [--json[=FILE]] [--plots FOLDER] [--page FILE]

Each is trained three times, with 0, 10 and 30 % stragglers, in less than two minutes together; docs/stragglers.md explains it. The
last line is `train: 30 % stragglers: X.XX x faster to accuracy than waiting, loss equal to gloo: yes`. The exit status is 1 if
the loss on Weir is not gloo's, the accuracy was not reached, or something failed.
"""
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from command_line import Parser, span  # noqa: E402 (the path comes first)
from experiment import Teller, add_outputs, keep, machine, play, table  # noqa: E402
from mpi import MTU, SWITCH, MpiRack  # noqa: E402
from plots import GLOO, PURPLE, WEIR, Panel, Plot  # noqa: E402
from rack import RackError  # noqa: E402

HOSTS = 4
WAYS = {'gloo': ('gloo', GLOO), 'wait': ('Weir, waiting', PURPLE), 'partial': ('Weir, partial', WEIR)}
CHANCES = (0, 0.1, 0.3)


def make_plan(chosen):
    """For ranks.py. The first run's step is the unit of delays and of the timeout."""
    return {'steps': chosen.steps, 'every': chosen.every, 'batch': 32, 'rate': 0.05, 'seed': chosen.seed,
            'compute_ms': chosen.compute, 'timeout': chosen.timeout, 'exact': not chosen.inexact,
            'runs': [(way, chance) for chance in chosen.chances for way in ('wait', 'gloo', 'partial')]}


# -- runs

def has_torch():
    """Loading it takes seconds."""
    return any(os.path.exists(os.path.join(path, 'torch', '__init__.py')) for path in sys.path)


def start(rack, plan):
    """The ranks, all runs one after the other."""
    path = os.path.join(rack.folder, 'plan.json')
    with open(path, 'w') as file:
        json.dump({**plan, 'namespaces': [rack.namespace(host) for host in range(HOSTS)], 'folder': rack.folder,
                   'master': rack.address(0)}, file)
    around = {key: value for key, value in os.environ.items() if not key.startswith('WEIR_')}
    around.update(PYTHONPATH=os.path.join(ROOT, 'apps', 'python'), OMP_NUM_THREADS='1', WEIR_SWITCH=SWITCH,
                  WEIR_LIBRARY=rack.program(('libweir', 'libweir.so')))
    return rack.spawn('sw', ['/usr/bin/python3', os.path.join(HERE, 'ranks.py'), path], 'ranks', around)


def reports(rack, number):
    found = []
    for rank in range(HOSTS):
        with open(os.path.join(rack.folder, '%d-%d.json' % (number, rank))) as file:
            found.append(json.load(file))
    return found


def row_of(way, chance, found, target):
    """What the reports of all ranks say of a run."""
    if len({r['checksum'] for r in found}) != 1:
        raise RackError('%s, %g: hosts have different weights: %s' % (way, chance, [r['checksum'] for r in found]))
    stats = {key: sum(r['stats'].get(key, 0) for r in found) for key in ('results_ok', 'results_partial', 'fed_back')}
    results = stats['results_ok'] + stats['results_partial']
    if way != 'gloo' and not results:
        raise RackError('%s, %g: Weir has reduced nothing' % (way, chance))
    ends = [statistics.mean(times) for times in zip(*(r['ends'] for r in found))]
    losses = [statistics.mean(known) if (known := [v for v in step if v is not None]) else None
              for step in zip(*(r['losses'] for r in found))]
    marks = [{'step': step + 1, 'seconds': ends[step], **mark} for step, mark in sorted(
        (int(step), mark) for r in found for step, mark in r['marks'].items())]
    reached = next((mark for mark in marks if mark['accuracy'] >= target), None)
    return {'way': way, 'chance': chance, 'parameters': found[0]['parameters'], 'checksum': found[0]['checksum'],
            'step_ms': 1e3 * ends[-1] / len(ends), 'seconds': ends[-1], 'losses': losses, 'marks': marks, 'reached': reached,
            'given_up': sum(r['given_up'] for r in found) / HOSTS / len(ends),
            'partial': stats['results_partial'] / max(results, 1), **stats}


def train(chosen, plan, tell):
    """All runs. tell(row) after each. Returns the rows."""
    rows = []
    with MpiRack(chosen.build, hosts=HOSTS, mtu=MTU) as rack:
        rack.start_switch()
        process = start(rack, plan)
        for number, (way, chance) in enumerate(plan['runs']):
            process.wait_line('ended %d' % number, 60)
            rows.append(row_of(way, chance, reports(rack, number), chosen.target))
            tell(rows[-1])
        process.wait(60)
        rack.check_packets()
        rack.stop_switch()
    return rows


# -- what rows say

def chances(rows):
    return sorted({r['chance'] for r in rows})


def pick(rows, way, chance):
    return next(r for r in rows if (r['way'], r['chance']) == (way, chance))


def digits(row):
    """All losses of a run, as they are printed: of training at each step, of held-out images at each mark."""
    return ['%.4f' % loss for loss in row['losses']] + ['%.4f' % mark['loss'] for mark in row['marks']]


def differs(rows, chance):
    """The first step, from 1 on, where the loss on Weir, waiting, is not gloo's; 0: none."""
    one, other = (digits(pick(rows, way, chance)) for way in ('gloo', 'wait'))
    steps = list(range(1, len(one) + 1))[:len(pick(rows, 'gloo', chance)['losses'])]
    steps += [mark['step'] for mark in pick(rows, 'gloo', chance)['marks']]
    return next((step for step, a, b in zip(steps, one, other) if a != b), 0)


def speed_up(rows, way, chance):
    """How many times sooner than `wait` a way has reached the accuracy; None: one of them has not."""
    times = [pick(rows, w, chance)['reached'] for w in ('wait', way)]
    return times[0]['seconds'] / times[1]['seconds'] if all(times) else None


def summary(rows):
    heads = (('stragglers', 'way', 'step', 'all steps', 'loss', 'accuracy', 'to target', '', 'speed-up', 'partial', 'given up',
              'loss is'),
             ('%', '', 'ms', 's', '', '%', 's', 'steps', 'x waiting', '%', '%', "gloo's"))
    lines = []
    for r in rows:
        reached, gain, last = r['reached'], speed_up(rows, r['way'], r['chance']), r['marks'][-1]
        lines.append(('%g' % (100 * r['chance']), WAYS[r['way']][0], '%.1f' % r['step_ms'], '%.2f' % r['seconds'],
                      '%.4f' % last['loss'], '%.1f' % (100 * last['accuracy']),
                      '%.2f' % reached['seconds'] if reached else '-', '%d' % reached['step'] if reached else '-',
                      '%.2f' % gain if gain else '-', '%.1f' % (100 * r['partial']), '%.1f' % (100 * r['given_up']),
                      '-' if r['way'] != 'wait' else 'no' if differs(rows, r['chance']) else 'yes'))
    return table(heads, [(None, lines)], left=(1,))


def plots(found):
    rows, plan, most = found['rows'], found['plan'], chances(found['rows'])[-1]

    def panel(title, key, chance, scale=1):
        made = Panel('%s, %g %% stragglers' % (title, 100 * chance), 'seconds', 'held-out images' + (', %' if scale > 1 else ''))
        for way, (name, colour) in WAYS.items():
            made.line(name, [(m['seconds'], m[key] * scale) for m in pick(rows, way, chance)['marks']], colour)
        end = max(r['seconds'] for r in rows if r['chance'] == chance)
        step = max(1, round(end / 6))
        made.ticks = [(n * step, '%d' % (n * step)) for n in range(int(end / step) + 2)]
        return made

    def over_chance(title, unit, value):
        made = Panel(title, 'stragglers, %', unit, ticks=[(100 * c, '%g' % (100 * c)) for c in chances(rows)])
        for way, (name, colour) in WAYS.items():
            points = [(100 * c, value(pick(rows, way, c))) for c in chances(rows)]
            made.line(name, [point for point in points if point[1]], colour)
        return made

    said = '%d hosts, each slow by 0.5 to 2 steps with the probability given; seed %d' % (HOSTS, plan['seed'])
    return [Plot('train-loss', 'Loss over time', said, [panel('Loss', 'loss', chance) for chance in chances(rows)], columns=3),
            Plot('train-time', 'Time', said, [
                over_chance('Time of a step', 'ms', lambda r: r['step_ms']),
                over_chance('Time to %g %% accuracy' % (100 * found['target']), 'seconds',
                            lambda r: r['reached'] and r['reached']['seconds']),
                panel('Accuracy', 'accuracy', most, 100)], columns=3)]


def verdict(rows, say):
    """Print the last line. Returns the exit status."""
    most, equal = chances(rows)[-1], True
    for chance in chances(rows):
        step = differs(rows, chance)
        if step:
            say("%g %% stragglers: the loss on Weir is not gloo's at step %d" % (100 * chance, step))
            equal = False
    for row in rows:
        if not row['reached']:
            say('%g %% stragglers, %s: the accuracy was NOT reached' % (100 * row['chance'], WAYS[row['way']][0]))
    gain = speed_up(rows, 'partial', most)
    print('train: %g %% stragglers: %s x faster to accuracy than waiting, loss equal to gloo: %s' % (
        100 * most, '%.2f' % gain if gain else '-.--', 'yes' if equal else 'no'), flush=True)
    return 0 if equal and all(row['reached'] for row in rows) else 1


# -- all of it

def options(words=None):
    parser = Parser(description=__doc__.split('\n\n', 1)[0],
                    epilog='docs/stragglers.md says what is measured and how to read it')
    parser.add_argument('build', nargs='?')
    for name, kind, default, text in (
            ('seed', int, 1, 'of data, weights and stragglers'), ('steps', int, 160, 'of each run'),
            ('every', int, 8, 'evaluate the model every N steps'), ('compute', span('ms', kind=float), '25ms', 'of a step on the accelerator'),
            ('timeout', float, 0.4, 'of a block with partial results, in undisturbed steps'), ('target', float, 0.9, 'accuracy')):
        parser.add_argument('--' + name, type=kind, default=default, metavar='N', help='%s (%s)' % (text, default))
    parser.add_argument('--inexact', action='store_true', help='gradients as they are: their sum depends on the order')
    parser.add_argument('--quick', action='store_true', help='few steps and runs: does it work, not how well')
    add_outputs(parser)
    chosen = parser.parse_args(words)
    chosen.chances = CHANCES
    if chosen.quick:
        chosen.steps, chosen.every, chosen.compute, chosen.target, chosen.chances = 8, 4, 5, 0.01, CHANCES[::2]
    return chosen


def run(chosen):
    if not has_torch():
        raise RackError('PyTorch is not installed (.ci/install packages.torch)')
    plan = make_plan(chosen)
    teller = Teller('train', 20 + 14e-3 * chosen.steps * (chosen.compute + 12))
    found = {'machine': machine(), 'plan': plan, 'target': chosen.target}
    teller.say('%d hosts, %d runs of %d steps, seed %d' % (HOSTS, len(plan['runs']), chosen.steps, chosen.seed))
    teller.warn(found['machine'])
    rows = found['rows'] = train(chosen, plan, lambda r: teller.say(
        '%3g %% stragglers, %-13s  %5.1f ms a step, loss %.4f, accuracy %4.1f %%' % (
            100 * r['chance'], WAYS[r['way']][0] + ':', r['step_ms'], r['marks'][-1]['loss'],
            100 * r['marks'][-1]['accuracy'])))
    about = ('# %d parameters, %d images a host and step, %g ms on the accelerator, timeout %g undisturbed steps, target %g %%, '
             'seed %d\n#\n' % (
        rows[0]['parameters'], plan['batch'], chosen.compute, chosen.timeout, 100 * chosen.target, chosen.seed))
    tables = {'train.py': about + '\n'.join(summary(rows))}
    print('#\n%s\n#' % tables['train.py'], flush=True)
    keep(chosen, found, plots, tables, teller)
    return verdict(rows, teller.say)


if __name__ == '__main__':
    options_chosen = options()
    sys.exit(play('train', lambda: run(options_chosen)))
