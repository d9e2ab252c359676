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
from rack import Rack, RackError, job

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


def ran(*options):
    """weir-train without a switch: its exit status and its output."""
    done = subprocess.run([PROGRAM] + list(options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=300, check=False)
    return done.returncode, done.stdout


@case
def waits_for_slow_hosts_and_learns():
    reports = trained('wait')
    check(sum(column(reports, 'slowed')) > 0, 'nobody was slow')
    check(column(reports, 'partial') + column(reports, 'given_up') == 2 * HOSTS * [0],
          'partial under policy wait: %s', reports)


@case
def goes_on_without_slow_hosts_and_learns():
    reports = trained('partial')
    check(reports[0]['partial'] > reports[0]['iterations'] // 20, '%s', reports[0])
    check(sum(column(reports, 'missed')) >= reports[0]['partial'], 'partial without a cause')
    check(sum(column(reports, 'given_up')) > 0, 'nobody came back to the others')
    for report in reports:
        check(report['stats']['fed_back'] == 0, 'error feedback without --error-feedback')


@case
def goes_on_without_slow_hosts_feeds_back_and_learns():
    reports = trained('partial+feedback')
    check(sum(r['stats']['fed_back'] for r in reports) > 0, 'nothing was fed back')


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
    # And the runner, of reports that it reads itself.
    made = small(hosts=2, slow_ppm=0, iterations=20, target=1, compute_ms=1)
    begin = stragglers.start
    try:
        stragglers.start = lambda rack, host, **options: begin(rack, host, **dict(options, seed=host))
        stragglers.train(BUILD, 'wait', False, {}, made)
        check(False, 'not noticed')
    except RackError as error:
        check('exit status 1' in str(error), '%s', error)
    finally:
        stragglers.start = begin


@case
def says_why_it_can_not_begin():
    right = ('--switch', '10.77.0.254', '--address', '10.77.0.1', '--source', '0')
    for options, words in (((), 'required: --switch, --address, --source'),
                           (right + ('--target', '1.5'), '--target: 1.5: must be in 0.01..1'),
                           (right + ('--slow-min', '3'), '--slow-max is less'),
                           (right + ('--slow-ppm', '3'), '--slow-ppm needs')):
        status, said = ran(*options)
        check(status == 2 and words in said, '%s: %d: %s', options, status, said)
    with Rack(BUILD, hosts=1) as rack:
        process = stragglers.start(rack, 0, join_timeout=300)
        check('rank 0' in process.wait(20, status=1), '%s', process.output)
        with open(process.json) as file:
            check(json.load(file)['error'], 'the report does not say why')


@case
def says_that_the_target_was_missed():
    with running(BUILD, hosts=1, jobs=[job(1, 1)]) as rack:
        output = stragglers.start(rack, 0, iterations=15, target=0.9).wait(30, status=3)
        check('15 iterations' in output and 'target NOT reached' in output, '%s', output)


if __name__ == '__main__':
    main()
