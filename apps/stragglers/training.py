#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small model trained through the switch while hosts are slow: what does each policy cost?

    training.py [BUILD] [--seed N] [--json FILE] [--policies NAME,...] ...

For each policy a fresh rack: a switch and 6 hosts, each weir-train on its share of the data, until the
model gets 95 % of the held-out points right. The policies meet the same data, the same first weights
and the same slow hosts (16 % of the iterations of each host, by 0.5 to 2 times the computation). Prints a
line as each ends, and returns, or writes, what was measured.
"""
import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from rack import SWITCH_ADDRESS, Rack, RackError, job  # noqa: E402 (the path comes first)

JOB = 1
HOSTS = 6
COMPUTE_MS = 40
TIMEOUT_MS = 8  # of a block under policy partial: beyond what hosts differ by when nobody is slow
SLOW_PPM = 160000
TARGET = 0.95
ITERATIONS = 800  # at most: a run that learns needs about 200
REACHED, MISSED = 0, 3  # exit statuses of weir-train

# (name, the job's policy, whether hosts are slow, weir-train's own options)
POLICIES = (
    ('ideal', 'wait', False, ()),
    ('wait', 'wait', True, ()),
    ('partial', 'partial', True, ('--partial', 'rescale')),
    ('partial+feedback', 'partial', True, ('--partial', 'as-is', '--error-feedback')),
)
HEADER = '%-16s %9s %10s %10s %9s %9s %9s %9s' % (
    'policy', 'time', 'iterations', 'per iter.', 'accuracy', 'partial', 'missed', 'speed-up')
UNITS = '%-16s %9s %10s %10s %9s %9s %9s %9s' % (
    '', '(s)', '', '(ms)', '(%)', '(iter.)', '(%)', '')


def settings(**changes):
    """What a run is made with; see the constants above."""
    made = {'hosts': HOSTS, 'compute_ms': COMPUTE_MS, 'timeout_ms': TIMEOUT_MS,
            'slow_ppm': SLOW_PPM, 'target': TARGET, 'iterations': ITERATIONS, 'every': 10, 'seed': 1}
    unknown = set(changes) - set(made)
    if unknown:
        raise TypeError('no such setting: %s' % ', '.join(sorted(unknown)))
    made.update(changes)
    return made


def start(rack, host, options):
    """weir-train on a host; its report is in the process's `json`."""
    report = os.path.join(rack.folder, 'train-%d.json' % host)
    process = rack.spawn(host, [
        rack.program(('stragglers', 'weir-train')), '--switch', SWITCH_ADDRESS, '--job', str(JOB),
        '--source', str(host), '--sources', str(rack.hosts), '--address', rack.address(host),
        '--timeout', '10000', '--json', report] + [str(o) for o in options], 'train')
    process.json = report
    return process


def run(build, policy, slow, options, made, seconds=60):
    """Train on a rack. Returns every host's report. Raises RackError when a host failed, replicas
    parted, or it took longer than so many seconds. That the target was not reached is no error here."""
    configured = job(JOB, made['hosts'], window=64, elements=256, policy=policy,
                     timeout_ms=made['timeout_ms'] if policy == 'partial' else 1000)
    words = ['--seed', made['seed'], '--target', made['target'], '--iterations', made['iterations'],
             '--every', made['every'], '--compute-ms', made['compute_ms'],
             '--slow-ppm', made['slow_ppm'] if slow else 0] + list(options)
    until = time.monotonic() + seconds
    with Rack(build, hosts=made['hosts'], jobs=[configured]) as rack:
        rack.start_switch()
        runs = [start(rack, host, words) for host in range(made['hosts'])]
        for process in runs:
            status = process.end(max(1, until - time.monotonic()))
            if status not in (REACHED, MISSED):
                raise RackError('%s: exit status %d\n%s' % (process.name, status, process.output))
        rack.stop_switch()
        reports = []
        for process in runs:
            with open(process.json) as file:
                reports.append(json.load(file))
    # weir-train compares them, too; this is from outside.
    if len({(r['checksum'], r['iterations'], r['reached']) for r in reports}) != 1:
        raise RackError('replicas parted: %s' % [r['checksum'] for r in reports])
    return reports


def row(name, reports):
    """What is told of a policy. Times are the slowest host's."""
    seconds = max(r['seconds'] for r in reports)
    first = reports[0]
    return {
        'policy': name,
        'reached': first['reached'],
        'seconds': seconds,
        'iterations': first['iterations'],
        'iteration_ms': seconds * 1e3 / first['iterations'],
        'accuracy': first['marks'][-1]['accuracy'],
        'partial': first['counts']['partial'],
        'missed': sum(r['counts']['missed'] for r in reports) / len(reports) / first['iterations'],
        'hosts': [dict(r['counts'], retransmissions=r['stats']['retransmissions']) for r in reports],
        'checksum': first['checksum'],
        'marks': first['marks'],
    }


def line(one, rows):
    """A row as text; the speed-up is against policy wait."""
    waited = [r['seconds'] for r in rows if r['policy'] == 'wait' and r['reached']]
    gain = '%9.2f' % (waited[0] / one['seconds']) if waited and one['reached'] else '%9s' % '-'
    return '%-16s %9.2f %10d %10.1f %9.2f %9d %9.1f %s%s' % (
        one['policy'], one['seconds'], one['iterations'], one['iteration_ms'], 100 * one['accuracy'],
        one['partial'], 100 * one['missed'], gain, '' if one['reached'] else '  NOT REACHED')


def train(build=None, policies=None, say=print, **changes):
    """Train under each policy (names; None: all) and tell a line of each as it ends. Returns a dictionary
    of the settings and the rows. Raises RackError."""
    made = settings(**changes)
    rows = []
    say('# training: %(hosts)d hosts, compute %(compute_ms)g ms, %(slow_ppm)d ppm slow by 0.5 to 2 '
        'times that, block timeout %(timeout_ms)d ms, target %(target)g, seed %(seed)d' % made)
    say(HEADER)
    say(UNITS)
    for name, policy, slow, options in POLICIES:
        if policies is None or name in policies:
            rows.append(row(name, run(build, policy, slow, options, made)))
            say(line(rows[-1], rows))
    return {'settings': made, 'rows': rows}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('build', nargs='?')
    parser.add_argument('--json', metavar='FILE', help='write what was measured')
    parser.add_argument('--policies', metavar='NAME,...', type=lambda text: text.split(','),
                        help='only these of %s' % ', '.join(p[0] for p in POLICIES))
    for name, value in settings().items():
        parser.add_argument('--' + name.replace('_', '-'), type=type(value), metavar='N',
                            help='%s' % value)
    asked = vars(parser.parse_args())
    unknown = set(asked['policies'] or ()) - {p[0] for p in POLICIES}
    if unknown:
        parser.error('no such policy: %s' % ', '.join(sorted(unknown)))
    return {key: value for key, value in asked.items() if value is not None}


def main():
    asked = parse()
    path = asked.pop('json', None)
    try:
        found = train(say=lambda text: print(text, flush=True), **asked)
    except RackError as error:
        sys.exit('training: %s' % error)
    if path:
        with open(path, 'w') as file:
            json.dump(found, file, indent=1)
            file.write('\n')
    sys.exit(0 if all(r['reached'] for r in found['rows']) else 1)


if __name__ == '__main__':
    main()
