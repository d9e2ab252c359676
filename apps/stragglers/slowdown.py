# SPDX-License-Identifier: BSD-3-Clause
"""Iteration time over the probability that a host is slowed, with and without waiting for it.

One switch, and on it two jobs of the same hosts, one for each policy; they run one after the other. Each
run is weir-loop on every host.
"""
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from rack import SWITCH_ADDRESS, Rack, job  # noqa: E402 (the path comes first)

SHAPES = os.path.join(ROOT, 'configs', 'resnet50.shapes')
MTU = 9000
ELEMENTS = 2048  # of a block: what a frame of this MTU holds, as a power of two
JOBS = {'wait': 1, 'partial': 2}
# A host that stands still is not dead, however long.
NEVER = 0


class Plan:
    """What is run. Times in ms, probabilities in parts of 1."""

    def __init__(self, **changes):
        self.hosts = 6
        self.scale = 128  # tensors have so many times fewer elements than ResNet-50's
        self.bucket = 0  # elements; 0: all tensors in one
        self.window = 128  # blocks; an iteration has fewer
        self.compute = 150
        self.timeout = 12
        self.iterations, self.warmup = 70, 3
        self.chances = (0, 0.01, 0.02, 0.04, 0.08, 0.16)
        self.seed = 1
        for key, value in changes.items():
            if not hasattr(self, key):
                raise TypeError(key)
            setattr(self, key, value)

    def runs(self):
        """(policy, chance), what tells the time of an undisturbed iteration first."""
        yield 'wait', 0
        for chance in self.chances:
            for policy in JOBS:
                if (policy, chance) != ('wait', 0):
                    yield policy, chance

    def seconds(self):
        """How long it will take, about."""
        iteration = (self.compute + 12) * 1e-3

        def factor(policy, chance):
            if policy == 'wait':
                return 1 + 1.4 * (1 - (1 - chance) ** self.hosts)
            return 1 + self.timeout / self.compute * (1 - (1 - chance) ** (2 * self.hosts))

        return sum(iteration * factor(*run) * (self.iterations + self.warmup) + 0.5
                   for run in self.runs()) + 2


def held_up(reports):
    """By how many ms the slowest host holds up an iteration, on average: what waiting for all must
    cost by what was drawn, and nothing else."""
    each = zip(*(r['each'] for r in reports))
    return sum(max(i['slow_us'] for i in hosts) for hosts in each) / 1e3 / reports[0]['iterations']


def summary(reports):
    """What the hosts' reports add up to: a row of the table."""
    total = sum(r['iterations'] for r in reports)
    each = [i['us'] / 1e3 for r in reports for i in r['each']]
    return {
        'held_up_ms': held_up(reports),
        'median_ms': sorted(each)[len(each) // 2],
        'longest_ms': max(each),
        'iteration_ms': sum(r['seconds'] for r in reports) * 1e3 / total,
        'iterations': reports[0]['iterations'],
        'slowed': sum(r['slowed'] for r in reports) / total,
        'slow_ms': sum(r['slow_us'] for r in reports) / 1e3 / total,
        'partial': sum(r['partial'] for r in reports) / total,
        'missed': sum(r['missed'] for r in reports) / total,
        'given_up': sum(r['given_up'] for r in reports) / total,
        'sources': sum(r['sources_mean'] for r in reports) / len(reports),
        'wrong': sum(r['wrong'] for r in reports),
        'retransmissions': sum(r['stats']['retransmissions'] for r in reports),
        'hosts_ms': [r['seconds'] * 1e3 / r['iterations'] for r in reports],
        'model': {k: reports[0][k] for k in ('elements', 'tensors', 'buckets', 'blocks')},
    }


def run(rack, plan, policy, chance, unit_ms):
    """weir-loop on every host. Returns the summary. unit_ms: of an iteration without stragglers."""
    began = time.monotonic()
    number, runs = JOBS[policy], []
    for host in range(plan.hosts):
        report = os.path.join(rack.folder, 'loop-%d-%d.json' % (len(rack.processes), host))
        options = {
            'switch': SWITCH_ADDRESS, 'address': rack.address(host), 'source': host,
            'sources': plan.hosts, 'job': number, 'shapes': SHAPES, 'scale': plan.scale,
            'bucket': plan.bucket, 'iterations': plan.iterations, 'warmup': plan.warmup,
            'compute-us': round(plan.compute * 1e3), 'slow-ppm': round(chance * 1e6),
            'slow-unit-us': round(unit_ms * 1e3), 'seed': plan.seed, 'json': report}
        process = rack.spawn(host, [rack.program(('stragglers', 'weir-loop'))] +
                             ['--%s=%s' % item for item in options.items()], 'loop-' + policy)
        process.json = report
        runs.append(process)
    # A host that stands still in each iteration for as long as it can makes three of one.
    until = began + 30 + 4e-3 * (plan.compute + 50) * (plan.iterations + plan.warmup)
    reports = []
    for process in runs:
        process.wait(max(1, until - time.monotonic()))
        with open(process.json) as file:
            reports.append(json.load(file))
    return dict(summary(reports), policy=policy, chance=chance,
                took_s=time.monotonic() - began)


def rack_of(plan, build=None):
    common = {'window': plan.window, 'elements': ELEMENTS}
    return Rack(build=build, hosts=plan.hosts, mtu=MTU, jobs=[
        job(JOBS['wait'], plan.hosts, name='wait', policy='wait', **common),
        job(JOBS['partial'], plan.hosts, name='partial', policy='partial', timeout_ms=plan.timeout,
            dead_after_ms=NEVER, **common)])


def measure(plan, build=None, tell=lambda row: None):
    """All runs. tell(row) after each. Returns the rows and the time of an undisturbed iteration, ms."""
    rows, unit = [], plan.compute
    with rack_of(plan, build) as rack:
        rack.start_switch()
        for policy, chance in plan.runs():
            row = run(rack, plan, policy, chance, unit)
            if not rows:
                unit = row['iteration_ms']
            rows.append(row)
            tell(row)
        rack.check_books()
        rack.stop_switch()
    return rows, unit


def pick(rows, policy, chance):
    return next(r for r in rows if r['policy'] == policy and r['chance'] == chance)


def speed_up(rows, chance):
    """How many times faster an iteration is when nobody waits for stragglers."""
    return (pick(rows, 'wait', chance)['iteration_ms'] /
            pick(rows, 'partial', chance)['iteration_ms'])


COLUMNS = (('slowed', '%'), ('ideal', 'ms'), ('wait', 'ms'), ('drawn', 'ms'), ('partial', 'ms'),
           ('wait', 'x ideal'), ('partial', 'x ideal'), ('speed-up', 'x'), ('sources', 'in a sum'),
           ('missed', '%'), ('wrong', ''))


def table(rows, unit):
    """Lines, as nccl-tests print them."""
    for words in zip(*COLUMNS):
        yield '#%8s' % words[0] + ''.join(' %8s' % word for word in words[1:])
    for chance in sorted({r['chance'] for r in rows}):
        wait, partial = pick(rows, 'wait', chance), pick(rows, 'partial', chance)
        yield ' %8g' % (chance * 100) + ''.join(' %8.2f' % value for value in (
            unit, wait['iteration_ms'], unit + wait['held_up_ms'], partial['iteration_ms'],
            wait['iteration_ms'] / unit, partial['iteration_ms'] / unit, speed_up(rows, chance),
            partial['sources'], partial['missed'] * 100)) + ' %8d' % (
                wait['wrong'] + partial['wrong'])
