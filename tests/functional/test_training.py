#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-train: a model that is trained through a switch while hosts are slow reaches its target, and every
replica has the same weights."""
import json
import os
import subprocess
import sys

from tap import case, check, main, seed
from rack import Rack, RackError, job

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps',
                                'stragglers'))
import training  # noqa: E402 (the path comes first)

BUILD = os.environ['WEIR_BUILD']
PROGRAM = os.path.join(BUILD, 'apps', 'stragglers', 'weir-train')
HOSTS = 3


def small(**changes):
    """A short run: many slow hosts, and blocks that are only late when a host is."""
    made = dict({'hosts': HOSTS, 'compute_ms': 10, 'timeout_ms': 15, 'slow_ppm': 200000, 'target': 0.9,
                 'iterations': 1500, 'seed': seed().randrange(1 << 32)}, **changes)
    return training.settings(**made)


def counted(reports, key):
    return [r['counts'][key] for r in reports]


def trained(name, **changes):
    """Train under one policy, slow hosts by 2 to 3 computations, beyond the timeout."""
    found = [p for p in training.POLICIES if p[0] == name][0]
    options = found[3] + ('--slow-min', '2', '--slow-max', '3')
    reports = training.run(BUILD, found[1], found[2], options, small(**changes), seconds=80)
    first = reports[0]
    check(first['reached'] and first['marks'][-1]['accuracy'] >= 0.9, '%s', first['marks'][-1:])
    for report in reports:
        check(report['replicas'] == HOSTS and not report['parted'], '%s', report)
        check(report['stats']['results_error'] == 0, '%s', report['stats'])
    for key in ('partial', 'partial_blocks'):
        check(len(set(counted(reports, key))) == 1, 'seen otherwise: %s', counted(reports, key))
    return reports


def ran(*options):
    """weir-train without a switch: its exit status and what it said."""
    done = subprocess.run([PROGRAM] + list(options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@case
def waits_for_slow_hosts_and_learns():
    reports = trained('wait')
    check(sum(counted(reports, 'slow')) > 0, 'nobody was slow')
    check(counted(reports, 'partial') + counted(reports, 'given_up') == 2 * HOSTS * [0],
          'partial under policy wait: %s', reports)


@case
def goes_on_without_slow_hosts_and_learns():
    reports = trained('partial')
    iterations = reports[0]['iterations']
    check(reports[0]['counts']['partial'] > iterations // 20, '%s', reports[0]['counts'])
    check(sum(counted(reports, 'missed')) >= reports[0]['counts']['partial'], 'partial without a cause')
    check(sum(counted(reports, 'given_up')) > 0, 'nobody came back to the others')
    for report in reports:
        counts = report['counts']
        check(counts['computed'] + counts['given_up'] == iterations, '%s', counts)
        check(report['stats']['fed_back'] == 0, 'error feedback without --error-feedback')


@case
def goes_on_without_slow_hosts_carries_and_learns():
    reports = trained('partial+feedback')
    check(sum(r['stats']['fed_back'] for r in reports) > 0, 'nothing was fed back')


@case
def says_that_replicas_have_parted():
    with Rack(BUILD, hosts=2, jobs=[job(training.JOB, 2)]) as rack:
        rack.start_switch()
        # Another seed is another model: they learn together, and are not the same.
        runs = [training.start(rack, host, ['--iterations', 5, '--target', 1, '--seed', 1 + host])
                for host in range(2)]
        for host, process in enumerate(runs):
            output = process.wait(30, status=1)
            check('rank %d has other weights' % (1 - host) in output, '%s', output)
        with open(runs[0].json) as file:
            check(json.load(file)['parted'], 'the report does not say it')
        rack.stop_switch()
    # And the runner, of reports that it reads itself.
    made = small(hosts=2, slow_ppm=0, iterations=20, target=1, compute_ms=1)
    begin = training.start
    try:
        training.start = lambda rack, host, options: begin(rack, host, options + ['--seed', host])
        training.run(BUILD, 'wait', False, (), made)
        check(False, 'not noticed')
    except RackError as error:
        check('exit status 1' in str(error), '%s', error)
    finally:
        training.start = begin


@case
def says_why_it_can_not_begin():
    for options, words in ((('--alone',), 'needs --sources'), ((), '--switch is needed'),
                           (('--alone', '--sources', '2', '--target', '1.5'), '"1.5" is not possible'),
                           (('--alone', '--sources', '2', '--slow-min', '3'), '--slow-max is less'),
                           (('--alone', '--sources', '200', '--batch', '31'), '30 points')):
        status, said = ran(*options)
        check(status == 2 and words in said, '%s: %d: %s', options, status, said)
    with Rack(BUILD, hosts=1) as rack:
        process = training.start(rack, 0, ['--join-timeout', '300'])
        check('rank 0' in process.wait(20, status=1), '%s', process.output)
        with open(process.json) as file:
            check(json.load(file)['error'], 'the report does not say why')


@case
def says_whether_the_target_was_reached():
    status, said = ran('--alone', '--sources', '3', '--target', '0.9')
    check(status == 0 and 'weir-train: reached 9' in said, '%d: %s', status, said)
    status, said = ran('--alone', '--sources', '3', '--target', '0.9', '--iterations', '15')
    check(status == 3 and 'NOT reached' in said and 'after 15 iterations' in said, '%d: %s', status,
          said)


if __name__ == '__main__':
    main()
