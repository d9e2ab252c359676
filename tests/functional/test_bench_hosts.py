#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench hosts: what it measures and prints, what it refuses, and what it leaves behind when hosts fail."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tap import Skip, case, check, main

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'apps', 'bench'))

import hosts  # noqa: E402 (the path comes first)

BUILD = os.path.abspath(os.environ['WEIR_BUILD'])
BENCH = os.path.join(BUILD, 'apps', 'bench', 'weir-bench')


def play(*words, status=0, beside='iperf3', **environment):
    """Returns the process, its output and its records."""
    if shutil.which(beside) is None:
        raise Skip('%s is not installed (.ci/install packages.test)' % beside)
    with tempfile.TemporaryDirectory(prefix='weir-hosts-') as folder:
        report = os.path.join(folder, 'hosts.json')
        run = subprocess.Popen([BENCH, 'hosts', '--quick', '--json', report, *words], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=dict(os.environ, **environment))
        try:
            said = run.communicate(timeout=800)[0]
        finally:
            run.kill()
        check(run.returncode == status, 'exit status %s, not %d:\n%s', run.returncode, status, said)
        if status:
            return run, said, []
        with open(report) as file:
            return run, said, json.load(file)


def table(said):
    """The rows of each rack, as words."""
    return [[line.split() for line in block.splitlines() if line.startswith('  ')]
            for block in said.split('# 2 hosts, MTU')[1:]]


@case
def hosts_are_measured_beside_iperf3():
    with tempfile.TemporaryDirectory(prefix='weir-hosts-') as folder:
        _, said, records = play('--plots', folder) if shutil.which('gnuplot') else play()
        drawn = os.listdir(folder)
    check(drawn == (['hosts.svg'] if shutil.which('gnuplot') else []), '%s', drawn)
    check([(r['bench'], r['hosts'], r['mtu'], r['elements'], r['bytes']) for r in records] == [
        ('hosts', 2, mtu, elements, size) for mtu, elements in ((1500, 364), (9000, 2048)) for size in (4, 65536)], '%s', records)
    for record in records:
        for key in ('time_us', 'goodput', 'per_core', 'switch_cpus', 'goodput_udp', 'per_core_udp', 'goodput_tcp', 'per_core_tcp'):
            check(record[key] > 0, '%s: %s', key, record)
        check(record['user_us'] + record['system_us'] > 0, '%s', record)
    blocks = table(said)
    check([[row[:2] for row in rows] for rows in blocks] ==
          [[['iperf3', 'tcp'], ['iperf3', 'udp'], ['4', 'B'], ['64', 'KiB']]] * 2, '%s', said)
    row = blocks[0][3]
    check(row[2] == hosts.number(records[1]['time_us']) and len(row) == 10, '%s', row)


@case
def hosts_over_memif_are_measured_beside_testpmd():
    _, said, records = play('--transport', 'dpdk', '--mtu', '9000', beside='dpdk-testpmd')
    check([(r['bench'], r['transport'], r['mtu'], r['bytes']) for r in records] == [
        ('hosts', 'dpdk', 9000, size) for size in (4, 65536)], '%s', records)
    for record in records:
        for key in ('time_us', 'goodput', 'per_core', 'switch_cpus', 'goodput_io', 'per_core_io', 'time_us_io'):
            check(record[key] > 0, '%s: %s', key, record)
    (rows,) = table(said)
    check([row[:2] for row in rows] == [['dpdk-testpmd', 'io'], ['4', 'B'], ['64', 'KiB']], '%s', said)


@case
def two_builds_take_turns():
    _, said, records = play('--mtu', '9000', '--sizes', '64K', '--against', BUILD)
    (record,) = records
    for key in ('goodput', 'per_core'):
        ratio = record[key] / record[key + '_old']
        check(record['ratio_' + key] == ratio > 0, '%s', record)
    (rows,) = table(said)
    check(rows[-1][-2:] == [hosts.number(record['ratio_' + key]) for key in ('per_core', 'goodput')], '%s', said)


def report(us, user, system, size=1 << 20):
    way = {'median_us': us, 'own_user_us': user, 'own_system_us': system}
    return {'rows': [{'size': size, 'out_of_place': way, 'in_place': dict(way, median_us=3 * us)}]}


@case
def figures_are_those_of_all_hosts():
    """Time is rank 0's, of both ways; CPU time is the mean of the hosts."""
    found = hosts.figures([report(1000, 100, 300), report(9999, 300, 500)], 0.5)
    check(found == {'time_us': 2000, 'user_us': 200, 'system_us': 400, 'switch_cpus': 0.5,
                    'goodput': (8 << 20) * 1e-3 / 2000, 'per_core': (8 << 20) * 1e-3 / 600}, '%s', found)
    try:
        hosts.figures([{'rows': [{'size': 4, 'in_place': {}}]}], 1)
    except hosts.RackError as error:
        check('too old' in str(error), '%s', error)
    else:
        check(False, 'an old build is taken')


class Bare:
    hosts = 2


@case
def ratios_are_those_of_neighbours():
    """The machine gets slower and slower: of the medians the ratio is 2, of the pairs 1 to 3. Each build is first in turn."""
    limits = {'tcp': {'goodput': 8, 'per_core': 8, 'lost': 0}, 'udp': {'goodput': 4, 'per_core': 5, 'lost': 0}}
    one = hosts.Bench(hosts.options(['--repeat', '3', '--phase-ms', '10', '--against', 'old']), Bare(), 1500, 364, limits)
    speeds, order = {'old': [10, 6, 2], None: [10, 12, 6]}, []

    def once(build, _bytes, operations):
        order.append((build, operations))
        speed = speeds[build].pop(0)
        return {'time_us': 1, 'user_us': 1, 'system_us': 1, 'switch_cpus': 1, 'goodput': speed, 'per_core': 2 * speed}

    one.once = once
    record = one.measure(1 << 20)
    check([build for build, _ in order] == ['old', None, None, 'old', 'old', None], '%s', order)
    check({operations for _, operations in order} == {9}, '10 ms at 8 Gbit/s: %s', order)
    check((record['goodput'], record['goodput_old'], record['ratio_goodput'], record['ratio_per_core']) == (10, 6, 2, 2), '%s',
          record)
    check(hosts.limits_of(record) == ['tcp', 'udp'], '%s', record)
    row = hosts.lines([record], 'iperf3')[-1].split()
    check(row == ['1', 'MiB', '1.000', '10.00', '1.000', '1.000', '20.00', '1.000', '2.500', '4.000', '12.00', '2.000', '2.000'],
          '%s', row)


@case
def hosts_that_fail_leave_nothing():
    with tempfile.TemporaryDirectory(prefix='weir-hosts-') as folder:
        program = os.path.join(folder, 'apps', 'perf', 'weir-perf')
        os.makedirs(os.path.dirname(program))
        with open(program, 'w') as file:
            file.write('#!/bin/sh\necho wrong elements\nexit 1\n')
        os.chmod(program, 0o755)
        run, said, _ = play('--against', folder, status=1)
    check(re.search(r'^hosts: failed: perf-job1-0-\d: exit status 1, not 0', said, re.M) and 'wrong elements' in said, '%s', said)
    name = 'weir-%d-' % run.pid
    left = [n for folder in ('/run/netns', tempfile.gettempdir()) for n in os.listdir(folder) if n.startswith(name)]
    check(not left, '%s', left)


@case
def what_is_missing_is_told():
    done = subprocess.run([BENCH, 'hosts', '--quick'], text=True, capture_output=True, timeout=800, check=False,
                          env=dict(os.environ, PATH='/nowhere'))
    check((done.returncode, done.stdout, done.stderr) == (
        2, '', 'weir-bench hosts: needs iperf3: apt-get install iperf3\n'), '%s', done)
    for words in (['--hosts', '1'], ['--mtu', '9001'], ['--sizes', '5'], ['--transport', 'pigeon']):
        done = subprocess.run([BENCH, 'hosts', *words], text=True, capture_output=True, timeout=800, check=False)
        check(done.returncode == 2 and 'weir-bench hosts: error: ' in done.stderr, '%s', done)


if __name__ == '__main__':
    main()
