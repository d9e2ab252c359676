#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-train: a model that is trained through a switch while hosts are slow reaches its target, and every
replica has the same weights."""
import json
import os
import subprocess
import sys

from control import running
from tap import case, check, main, seed
from rack import Rack, job

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps',
                                'stragglers'))
import stragglers  # noqa: E402 (the path comes first)

BUILD = os.environ['WEIR_BUILD']
PROGRAM = os.path.join(os.path.dirname(stragglers.__file__), 'weir_train.py')
HOSTS = 3


def small(**changes):
    """A short run: many slow hosts, and blocks that are only late when a host is."""
    made = dict({'hosts': HOSTS, 'compute_ms': 10, 'timeout_ms': 15, 'slow_ppm': 200000, 'target': 0.9,
                 'iterations': 1500, 'seed': seed().randrange(1 << 32)}, **changes)
    return stragglers.training_settings(**made)


def column(reports, key):
    return [r[key] for r in reports]


def trained(name, **changes):
    """Train under one policy, slow hosts by 2 to 3 computations, beyond the timeout."""
    found = [p for p in stragglers.POLICIES if p[0] == name][0]
    options = dict(found[3], slow_min=2, slow_max=3)
    reports = stragglers.train(BUILD, found[1], found[2], options, small(**changes), seconds=80)
    first = reports[0]
    check(first['reached'] and first['marks'][-1]['accuracy'] >= 0.9, '%s', first['marks'][-1:])
    for report in reports:
        check(not report['diverged'] and report['stats']['results_error'] == 0, '%s', report)
    for key in ('partial', 'partial_blocks'):
        check(len(set(column(reports, key))) == 1, 'seen otherwise: %s', column(reports, key))
    return reports


@case
def waits_for_slow_hosts_or_goes_on_and_learns():
    for name in ('wait', 'partial+feedback'):
        reports = trained(name)
        first = reports[0]
        check(sum(column(reports, 'slowed')) > 0, 'nobody was slow: %s', reports)
        if name == 'wait':
            check(column(reports, 'partial') + column(reports, 'given_up') == 2 * HOSTS * [0], 'partial: %s', reports)
        else:
            check(first['partial'] > first['iterations'] // 20, '%s', first)
            check(sum(column(reports, 'missed')) >= first['partial'], 'partial without a cause')
            check(sum(column(reports, 'given_up')) > 0, 'nobody came back to the others')
        fed_back = sum(r['stats']['fed_back'] for r in reports)
        check((fed_back > 0) == (name != 'wait'), '%s: %d were fed back', name, fed_back)


@case
def says_that_hosts_have_other_weights():
    with running(BUILD, hosts=2, jobs=[job(1, 2)]) as rack:
        # Another seed is another model: they learn together, and are not the same.
        runs = [stragglers.start(rack, host, iterations=5, target=1, seed=1 + host)
                for host in range(2)]
        for host, process in enumerate(runs):
            output = process.wait(30, status=1)
            check('rank %d has other weights' % (1 - host) in output, '%s', output)
        with open(runs[0].json) as file:
            check(json.load(file)['diverged'], 'the report does not say it')


@case
def says_why_it_can_not_begin_or_missed_its_target():
    right = ('--switch', '10.77.0.254', '--address', '10.77.0.1', '--source', '0')
    for options, words in (((), 'required: --switch, --address, --source'),
                           (right + ('--target', '1.5'), '--target: 1.5: must be in 0.01..1'),
                           (right + ('--slow-min', '3'), '--slow-max is less'),
                           (right + ('--slow-ppm', '3'), '--slow-ppm needs')):
        done = subprocess.run([PROGRAM, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        check(done.returncode == 2 and words in done.stdout, '%s: %s', options, done)
    with Rack(BUILD, hosts=1) as rack:
        process = stragglers.start(rack, 0, join_timeout=300)
        check('rank 0' in process.wait(20, status=1), '%s', process.output)
        with open(process.json) as file:
            check(json.load(file)['error'], 'the report does not say why')
    with running(BUILD, hosts=1, jobs=[job(1, 1)]) as rack:
        output = stragglers.start(rack, 0, iterations=15, target=0.9).wait(30, status=3)
        check('15 iterations' in output and 'target NOT reached' in output, '%s', output)


if __name__ == '__main__':
    main()
