#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What slow hosts cost a training job that waits for them, and one that does not.

    stragglers.py [BUILD] [--seed N] [--only PART...] [--json[=FILE]] [--plots FOLDER] [--page FILE]

Three parts, about five minutes in all; docs/stragglers.md explains them:

    slowdown   a loop of the shape of training on 6 hosts, each slow in 0 to 16 % of its iterations, with the
               policies wait and partial
    detection  how long the switch takes to notice a straggler, for timeouts of 1 ms to 2 s
    training   a small model trained to an accuracy with each policy

With the part slowdown the last line is `stragglers: speed-up at 16 %: X.XX`. The exit status is 1 if a sum was
wrong, a model was not trained, or something else failed.
"""
import functools
import json
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from command_line import Parser, span  # noqa: E402 (the path comes first)
from experiment import Teller, add_outputs, keep, machine, play, table  # noqa: E402
from plots import GREY, LIGHT, PURPLE, WEIR, Panel, Plot  # noqa: E402
from rack import SWITCH_ADDRESS, Api, Rack, RackError, job  # noqa: E402

PARTS = ('slowdown', 'detection', 'training')


@functools.cache
def environment(library):
    """For Python, so that it can load the library: a sanitizer's runtime has to come first, and would count
    Python's own leaks."""
    linked = subprocess.run(['ldd', library], stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
    runtimes = re.findall(r'=> (\S*/lib(?:asan|ubsan|tsan)\.so\S*)', linked)
    return None if not runtimes else dict(os.environ, LD_PRELOAD=' '.join(runtimes), ASAN_OPTIONS=':'.join(
        filter(None, [os.environ.get('ASAN_OPTIONS'), 'detect_leaks=0'])))


def start(rack, host, number=1, name='train', **options):
    """weir-train on a host; its report is in the process's `json`."""
    report = os.path.join(rack.folder, 'report-%d.json' % len(rack.processes))
    library = rack.program(('libweir', 'libweir.so'))
    options = dict({'switch': SWITCH_ADDRESS, 'address': rack.address(host), 'source': host, 'library': library,
                    'job': number, 'json': report}, **options)
    process = rack.spawn(host, [os.path.join(HERE, 'weir_train.py')] + [
        '--%s%s' % (key.replace('_', '-'), '' if value is True else '=%s' % value)
        for key, value in options.items()], name, environment(library))
    process.json = report
    return process


def reports(runs, seconds, statuses=(0,)):
    """Wait for the end of all. Returns their reports."""
    until, found = time.monotonic() + seconds, []
    for process in runs:
        if process.end(max(1, until - time.monotonic())) not in statuses:
            raise RackError('\n'.join('%s: exit status %d\n%s' % (one.name, one.status, one.output)
                                      for one in runs if one.status not in (None, *statuses)))
        with open(process.json) as file:
            found.append(json.load(file))
    return found


def mean(values):
    values = list(values)
    return sum(values) / len(values)


# -- slowdown: the time of an iteration over the probability that a host is slow

SHAPES = os.path.join(ROOT, 'configs', 'resnet50.shapes')
SLOWDOWN_JOBS = {'wait': 1, 'partial': 2}  # of one switch; they run one after the other
BLOCK = 2048  # elements: what a frame of MTU 9000 holds, as a power of two


def slowdown_plan(**changes):
    """Times in ms, probabilities in parts of 1. scale: tensors have so many times fewer elements than
    ResNet-50's; bucket: elements, 0: all tensors in one; window: blocks, an iteration has fewer."""
    return SimpleNamespace(**dict(
        {'hosts': 6, 'scale': 128, 'bucket': 0, 'window': 128, 'compute': 150, 'timeout': 12,
         'iterations': 70, 'warmup': 3, 'chances': (0, 0.01, 0.02, 0.04, 0.08, 0.16), 'seed': 1},
        **changes))


def slowdown_runs(plan):
    """(policy, chance); the first tells the time of an undisturbed iteration."""
    return [('wait', 0), ('partial', 0)] + [
        (policy, chance) for chance in plan.chances if chance for policy in SLOWDOWN_JOBS]


def slowdown_seconds(plan):
    """How long it will take, about."""
    return 2 + len(slowdown_runs(plan)) * (1.3e-3 * (plan.compute + 12) * (plan.iterations + plan.warmup) + 1)


def slowdown_row(policy, chance, found):
    """What the reports of all hosts add up to."""
    total = sum(r['iterations'] for r in found)
    row = {key: sum(r[key] for r in found) / total
           for key in ('slowed', 'partial', 'missed', 'given_up')}
    row.update({
        'policy': policy, 'chance': chance, 'iterations': found[0]['iterations'],
        # What waiting for all must cost by the draws: the longest delay of each iteration.
        'held_up_ms': mean(max(i['slow_us'] for i in hosts) / 1e3
                           for hosts in zip(*(r['each'] for r in found))),
        'iteration_ms': sum(r['seconds'] for r in found) * 1e3 / total,
        'slow_ms': sum(r['slow_us'] for r in found) / 1e3 / total,
        'sources': mean(r['sources_mean'] for r in found),
        'wrong': sum(r['wrong'] for r in found),
        'model': {key: found[0][key] for key in ('elements', 'tensors', 'buckets', 'blocks')}})
    return row


def slowdown(plan, build=None, tell=lambda row: None):
    """Measure. tell(row) after each run. Returns the rows and the time of an undisturbed iteration, ms."""
    rows, unit = [], plan.compute
    common = {'window': plan.window, 'elements': BLOCK}
    with Rack(build=build, hosts=plan.hosts, mtu=9000, jobs=[
            job(1, plan.hosts, name='wait', policy='wait', **common),
            # A host that stands still is not dead, however long.
            job(2, plan.hosts, name='partial', policy='partial', timeout_ms=plan.timeout,
                dead_after_ms=0, **common)]) as rack:
        rack.start_switch()
        for policy, chance in slowdown_runs(plan):
            runs = [start(rack, host, SLOWDOWN_JOBS[policy], policy, sources=plan.hosts,
                          shapes=SHAPES, scale=plan.scale, bucket=plan.bucket,
                          iterations=plan.iterations, warmup=plan.warmup,
                          compute_us=round(plan.compute * 1e3), slow_ppm=round(chance * 1e6),
                          slow_unit_us=round(unit * 1e3), seed=plan.seed)
                    for host in range(plan.hosts)]
            # A host that is slow in each iteration for as long as possible makes three of one.
            rows.append(slowdown_row(policy, chance, reports(
                runs, 30 + 4e-3 * (plan.compute + 50) * (plan.iterations + plan.warmup))))
            unit = rows[0]['iteration_ms']
            tell(rows[-1])
        rack.check_packets()
        rack.stop_switch()
    return rows, unit


def pick(rows, policy, chance):
    return next(r for r in rows if r['policy'] == policy and r['chance'] == chance)


def speed_up(rows, chance):
    """How many times faster an iteration is when nobody waits for stragglers."""
    return pick(rows, 'wait', chance)['iteration_ms'] / pick(rows, 'partial', chance)['iteration_ms']


def slowdown_table(rows, unit):
    heads = (('slowed', 'ideal', 'wait', 'drawn', 'partial', 'wait', 'partial', 'speed-up', 'sources',
              'missed', 'wrong'),
             ('%', 'ms', 'ms', 'ms', 'ms', 'x ideal', 'x ideal', 'x', 'in a sum', '%', ''))
    lines = []
    for chance in sorted({r['chance'] for r in rows}):
        wait, partial = pick(rows, 'wait', chance), pick(rows, 'partial', chance)
        lines.append(('%g' % (chance * 100),) + tuple('%.2f' % value for value in (
            unit, wait['iteration_ms'], unit + wait['held_up_ms'], partial['iteration_ms'],
            wait['iteration_ms'] / unit, partial['iteration_ms'] / unit, speed_up(rows, chance),
            partial['sources'], partial['missed'] * 100)) + (
                '%d' % (wait['wrong'] + partial['wrong']),))
    return table(heads, [(None, lines)])


def slowdown_plot(found):
    rows, ideal, plan = (found['slowdown'][key] for key in ('rows', 'ideal_ms', 'plan'))

    def over(policy, value):
        return [(r['chance'] * 100, value(r)) for r in rows if r['policy'] == policy]

    chance = 'probability that a host is slow, %'
    times = Panel('Time of an iteration', chance, 'ms')
    times.line('wait for all', over('wait', lambda r: r['iteration_ms']), PURPLE)
    times.line('partial results', over('partial', lambda r: r['iteration_ms']), WEIR)
    times.line('wait, by the draws', over('wait', lambda r: ideal + r['held_up_ms']), GREY,
               dashed=True)
    times.limit('no stragglers', ideal)
    gain = Panel('Speed-up', chance, 'wait / partial')
    wait = dict(over('wait', lambda r: r['iteration_ms']))
    gain.line('measured', [(p, wait[p] / t) for p, t in
                           over('partial', lambda r: r['iteration_ms'])], WEIR)
    gain.line('if partial were ideal', [(p, t / ideal) for p, t in wait.items()], GREY, dashed=True)
    for panel in (times, gain):
        panel.ticks = [(c * 100, '%g' % (c * 100)) for c in plan['chances']]
    return Plot('stragglers-time', 'Iteration time with stragglers',
                '%(hosts)d hosts, each slow by 0.5 to 2 iterations; timeout %(timeout)d ms, seed %(seed)d'
                % plan, [times, gain])


# -- detection: one host contributes, the other never does, so each block ends by the timeout

DETECTION_JOB, DETECTION_BLOCK = 'detection', 64
FAR_US = 1000000000  # of computing: longer than anything here
LOOK = 1.5e-3  # seconds between two looks at the metrics


def detection_plan(timeouts=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000), blocks=100, seconds=3):
    """timeouts: ms. Each has at most so many rounds and takes at most so many seconds, but 3 rounds at least.
    Long timeouts have several blocks at once, which the scan meets at different times."""
    plan = []
    for timeout in timeouts:
        pause = 5 + timeout * 0.3  # ms between two rounds: more than a look takes
        took = (pause + 1.1 * timeout) * 1e-3
        rounds = max(3, min(blocks, int(seconds / took)))
        plan.append(SimpleNamespace(timeout=timeout, pause=pause, rounds=rounds,
                                    at_once=1 if timeout < 100 else 8, seconds=rounds * took))
    return plan


def block_times(api):
    """(blocks, us from their last contribution to their result) of the job so far."""
    text = api.ask('GET', '/metrics')
    count, whole, spread = (float(re.search(
        r'^weir_job_%s\{weir_job="%s"\} (\S+)$' % (key, DETECTION_JOB), text, re.M).group(1)) for key in (
            'block_latency_seconds_count', 'block_latency_seconds_sum',
            'contribution_spread_seconds_sum'))
    return int(count), round(1e6 * (whole - spread))


def watch(api, before, process, blocks, seconds):
    """Look until so many blocks have ended since `before`, a block_times(). Returns [ms since a block's last
    progress]; the mean, as often, of blocks that ended between the same looks."""
    found = []
    until = time.monotonic() + seconds
    while len(found) < blocks:
        if time.monotonic() > until or process.status not in (None, 0):
            raise RackError('%s: %d of %d blocks have timed out' % (process.name, len(found), blocks))
        now = block_times(api)
        ended = now[0] - before[0]
        if ended > 0:
            found += [(now[1] - before[1]) / ended / 1e3] * ended
            before = now
        time.sleep(LOOK)
    return found


def detection(plan, build=None, tell=lambda row: None):
    """Measure. Rows: timeout_ms, blocks, and quantiles of the detection times / timeout."""
    rows = []
    with Rack(build=build, hosts=2, jobs=[job(1, 2, name=DETECTION_JOB, policy='partial', window=512,
                                              elements=DETECTION_BLOCK, dead_after_ms=0)]) as rack:
        path = os.path.join(rack.folder, 'api.sock')
        rack.changes['api'] = {'listen': ['unix:' + path]}
        rack.start_switch()
        api = Api(path)
        for one in plan:
            api.ask('PATCH', '/v1/jobs/' + DETECTION_JOB, {'timeout_ms': one.timeout})
            before = block_times(api)
            away = start(rack, 1, compute_us=FAR_US, elements=1)
            here = start(rack, 0, compute_us=round(one.pause * 1e3), iterations=one.rounds,
                         elements=one.at_once * DETECTION_BLOCK)
            times = sorted(t / one.timeout for t in watch(
                api, before, here, one.rounds * one.at_once, 60 + 3 * one.seconds))
            here.wait(10)
            away.kill()
            rows.append({'timeout_ms': one.timeout, 'blocks': len(times), 'least': times[0],
                         'p50': times[len(times) // 2], 'p99': times[int(0.99 * len(times))],
                         'most': times[-1]})
            tell(rows[-1])
        api.close()
        rack.check_packets()
        rack.stop_switch()
    return rows


def detection_table(rows):
    heads = (('timeout', 'blocks') + ('p50', 'p99') * 2 + ('least', 'most'),
             ('ms', '') + ('ms',) * 2 + ('/ timeout',) * 4)
    return table(heads, [(None, [('%d' % r['timeout_ms'], '%d' % r['blocks']) + tuple(
        '%.3f' % value for value in (r['p50'] * r['timeout_ms'], r['p99'] * r['timeout_ms'], r['p50'],
                                     r['p99'], r['least'], r['most'])) for r in rows])])


def detection_plot(found):
    rows = found['detection']['rows']
    ticks = [(r['timeout_ms'], '%g' % r['timeout_ms']) for r in rows]
    times = Panel('From the last contribution to the partial result', 'timeout, ms', 'ms', log='xy',
                  ticks=ticks)
    share = Panel('Detection time / timeout', 'timeout, ms', 'times the timeout', log='x', ticks=ticks)
    for label, key, colour in (('median', 'p50', WEIR), ('99th percentile', 'p99', LIGHT)):
        times.line(label, [(r['timeout_ms'], r[key] * r['timeout_ms']) for r in rows], colour)
        share.line(label, [(r['timeout_ms'], r[key]) for r in rows], colour)
    times.line('timeout', [(r['timeout_ms'], r['timeout_ms']) for r in rows], GREY, dashed=True)
    share.limit('1.1', 1.1)
    blocks = [r['blocks'] for r in rows]
    return Plot('stragglers-detection', 'Detection time over the timeout',
                '%d to %d blocks for each timeout, by the clock of the switch' % (
                    min(blocks), max(blocks)), [times, share])


# -- training: time and iterations to an accuracy

# (name, the job's policy, whether hosts are slow, options of weir-train)
POLICIES = (
    ('ideal', 'wait', False, {}),
    ('wait', 'wait', True, {}),
    ('partial', 'partial', True, {'partial': 'rescale'}),
    ('partial+feedback', 'partial', True, {'partial': 'as-is', 'error_feedback': True}),
)


def training_settings(**changes):
    """timeout_ms: of a block under policy partial, beyond what hosts differ by when nobody is slow. iterations: at
    most; a run that learns needs about 200."""
    return dict({'hosts': 6, 'compute_ms': 40, 'timeout_ms': 8, 'slow_ppm': 160000, 'target': 0.95,
                 'iterations': 800, 'every': 10, 'seed': 1}, **changes)


def train(build, policy, slow, options, made, seconds=60):
    """Train on a rack of its own. Returns the reports of all hosts. That the target was not reached is no error."""
    configured = job(1, made['hosts'], policy=policy,
                     timeout_ms=made['timeout_ms'] if policy == 'partial' else 1000)
    with Rack(build, hosts=made['hosts'], jobs=[configured]) as rack:
        rack.start_switch()
        found = reports([start(rack, host, **dict({
            'sources': made['hosts'], 'timeout': 10000, 'seed': made['seed'], 'target': made['target'],
            'iterations': made['iterations'], 'every': made['every'],
            'compute_us': round(made['compute_ms'] * 1e3),
            'slow_ppm': made['slow_ppm'] if slow else 0}, **options))
            for host in range(made['hosts'])], seconds, (0, 3))
        rack.stop_switch()
    # weir-train compares them, too; this is from outside.
    if len({(r['checksum'], r['iterations'], r['reached']) for r in found}) != 1:
        raise RackError('hosts have different weights: %s' % [r['checksum'] for r in found])
    return found


def training_row(name, found):
    first, seconds = found[0], max(r['seconds'] for r in found)
    row = {key: first[key] for key in ('reached', 'iterations', 'partial', 'checksum', 'marks')}
    row.update(policy=name, seconds=seconds, iteration_ms=seconds * 1e3 / first['iterations'],
               accuracy=first['marks'][-1]['accuracy'],
               missed=mean(r['missed'] for r in found) / first['iterations'])
    return row


def training(build=None, tell=lambda row: None, **changes):
    """Train under each policy. Returns the settings and the rows."""
    made, rows = training_settings(**changes), []
    for name, policy, slow, options in POLICIES:
        rows.append(training_row(name, train(build, policy, slow, options, made)))
        tell(rows[-1])
    return {'settings': made, 'rows': rows}


def training_table(rows):
    waited = next((r['seconds'] for r in rows if r['policy'] == 'wait' and r['reached']), None)
    heads = (('policy', 'time', 'iterations', 'per iter.', 'accuracy', 'partial', 'missed', 'speed-up'),
             ('', 's', '', 'ms', '%', 'iter.', '%', 'x'))
    return table(heads, [(None, [(
        r['policy'], '%.2f' % r['seconds'], '%d' % r['iterations'], '%.1f' % r['iteration_ms'],
        '%.2f' % (100 * r['accuracy']), '%d' % r['partial'], '%.1f' % (100 * r['missed']),
        'NOT REACHED' if not r['reached'] else '%.2f' % (waited / r['seconds'])
        if waited and r['policy'] != 'ideal' else '-') for r in rows])], left=(0,))


def training_plot(found):
    rows, made = found['training']['rows'], found['training']['settings']
    colours = {'ideal': GREY, 'wait': PURPLE, 'partial': WEIR, 'partial+feedback': LIGHT}
    panels = []
    for title, x, key in (('Accuracy over time', 'seconds', 'seconds'),
                          ('Accuracy over iterations', 'iterations', 'iteration')):
        panel = Panel(title, x, '% of the held-out points right')
        for row in rows:
            panel.line(row['policy'], [(m[key], m['accuracy'] * 100) for m in row['marks']],
                       colours[row['policy']])
        most = max(m[key] for row in rows for m in row['marks'])
        step = 10 ** len('%d' % (most / 2)) / 10
        panel.ticks = [(n * step, '%g' % (n * step)) for n in range(int(most / step) + 2)]
        panels.append(panel)
    return Plot('stragglers-training', 'Training with stragglers',
                '%d hosts, each slow in %g %% of its iterations; target %g %%, seed %d' % (
                    made['hosts'], made['slow_ppm'] / 1e4, made['target'] * 100, made['seed']), panels)


# -- all of it

def plots(found):
    return [draw(found) for part, draw in (('slowdown', slowdown_plot), ('detection', detection_plot),
                                           ('training', training_plot)) if part in found]


def options(words=None):
    parser = Parser(description=__doc__.split('\n\n', 1)[0],
                    epilog='docs/stragglers.md says what is measured and how to read it')
    parser.add_argument('build', nargs='?')
    parser.add_argument('--seed', type=int, default=5, help='who is slow when (5)')
    parser.add_argument('--only', nargs='+', choices=PARTS, default=PARTS, metavar='PART',
                        help='of ' + ', '.join(PARTS))
    add_outputs(parser)
    for name, text in (('compute', 'computing in an iteration'), ('timeout', 'of a block under policy partial')):
        parser.add_argument('--' + name, type=span('ms'), metavar='TIME', help='slowdown: %s (%dms)' % (
            text, getattr(slowdown_plan(), name)))
    for name, text in (('iterations', 'of each run'), ('hosts', 'how many'),
                       ('scale', 'tensors are so many times smaller'),
                       ('bucket', 'elements of a bucket, about; 0: one for all')):
        parser.add_argument('--' + name, type=int, metavar='N', help='slowdown: %s (%d)' % (
            text, getattr(slowdown_plan(), name)))
    parser.add_argument('--quick', action='store_true',
                        help='few iterations: does it work, not how well')
    return parser.parse_args(words)


def run(chosen):
    changes = {'compute': 40, 'iterations': 12, 'chances': (0, 0.16)} if chosen.quick else {}
    changes.update((key, value) for key, value in vars(chosen).items()
                   if value is not None and key in vars(slowdown_plan()))
    slow = slowdown_plan(**changes)
    detect = detection_plan((5, 50), 20, 1) if chosen.quick else detection_plan()
    seconds = {'slowdown': slowdown_seconds(slow), 'detection': 2 + sum(d.seconds + 0.6 for d in detect),
               'training': 90}
    teller = Teller('stragglers', sum(seconds[part] for part in chosen.only))
    found, tables = {'seed': chosen.seed, 'machine': machine()}, {}
    teller.say('seed %d; %s' % (chosen.seed, ', '.join(p for p in PARTS if p in chosen.only)))
    teller.warn(found['machine'])

    def show(part, title, lines):
        tables['stragglers.py ' + part] = '\n'.join(['# ' + line for line in title] + ['#'] + lines)
        print('#\n%s\n#' % tables['stragglers.py ' + part], flush=True)

    if 'slowdown' in chosen.only:
        rows, unit = slowdown(slow, chosen.build, lambda row: teller.say(
            '%(policy)s, %(chance)g slow: %(iteration_ms).1f ms an iteration, %(sources).2f sources in a sum'
            % row))
        found['slowdown'] = {'plan': vars(slow), 'ideal_ms': unit, 'rows': rows}
        found['speed_up'] = speed_up(rows, 0.16)
        show('slowdown', (
            'An iteration: %g ms of computing, then AllReduce of ResNet-50\'s %d tensors, each 1/%d of its '
            'size:' % (slow.compute, rows[0]['model']['tensors'], slow.scale),
            '%(elements)d elements in %(blocks)d blocks, %(buckets)d bucket(s).' % rows[0]['model'] +
            ' %(hosts)d hosts, timeout %(timeout)d ms, %(iterations)d iterations, seed %(seed)d.' %
            vars(slow)), slowdown_table(rows, unit))
    if 'detection' in chosen.only:
        rows = detection(detect, chosen.build, lambda row: teller.say(
            'timeout %(timeout_ms)d ms: noticed after %(p50).3f x timeout, p99 %(p99).3f' % row))
        found['detection'] = {'rows': rows}
        show('detection', ('From a block\'s last contribution to its partial result, by the clock of the '
                           'switch.',), detection_table(rows))
    if 'training' in chosen.only:
        found['training'] = training(chosen.build, lambda row: teller.say(
            'training, %(policy)s: %(seconds).2f s, %(iterations)d iterations' % row), seed=chosen.seed)
        show('training', ('%(hosts)d hosts, compute %(compute_ms)g ms, %(slow_ppm)d ppm slow by 0.5 to 2 '
                          'times that, block timeout %(timeout_ms)d ms, target %(target)g, seed %(seed)d'
                          % found['training']['settings'],), training_table(found['training']['rows']))
    tables.pop('stragglers.py detection', None)  # the page has its plot
    keep(chosen, found, plots, tables, teller)
    wrong = sum(row['wrong'] for row in found.get('slowdown', {}).get('rows', ()))
    if wrong:
        print('stragglers: %d elements are WRONG' % wrong)
    failed = [row['policy'] for row in found.get('training', {}).get('rows', ()) if not row['reached']]
    if failed:
        print('stragglers: not trained to the target: ' + ', '.join(failed))
    if 'speed_up' in found:
        print('stragglers: speed-up at 16 %%: %.2f' % found['speed_up'])
    return 1 if wrong or failed else 0


if __name__ == '__main__':
    options_chosen = options()
    sys.exit(play('stragglers', lambda: run(options_chosen)))
