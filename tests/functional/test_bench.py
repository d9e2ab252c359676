#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench: each bench runs with tiny parameters and prints rows and records; wrong options are refused; an interrupt
leaves nothing."""
import glob
import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
from types import SimpleNamespace

from tap import Skip, case, check, main, wait_for

BUILD = os.path.abspath(os.environ['WEIR_BUILD'])
BENCH = os.path.join(BUILD, 'apps', 'bench', 'weir-bench')
SWITCH = os.path.join(BUILD, 'apps', 'switch', 'weir-switch')
SMALL = ['--huge', 'no', '--repeat', '1']
PORTS = [*SMALL, '--phase', '2', '--sources', '4', '--window', '8', '--idle', 'yield']


def bench(*options, status=0, **env):
    run = subprocess.Popen([BENCH, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=dict(os.environ, **env))
    try:
        out, err = run.communicate(timeout=800)
    finally:
        run.kill()
    end = SimpleNamespace(pid=run.pid, returncode=run.returncode, stdout=out, stderr=err)
    for why in ('no time to measure', 'without valgrind', 'needs dpdk-testpmd', 'needs iperf3'):
        if why in end.stderr:
            raise Skip(end.stderr.splitlines()[-1])
    check(end.returncode in (status if isinstance(status, tuple) else (status,)), '%s: exit status %d\n%s', options, end.returncode,
          end.stderr)
    return end


def records(*options, keys=(), status=0):
    """Of a run, which also prints a row for each. keys: they have numbers."""
    end = bench(options[0], '--json', *options[1:], status=status)
    found = json.loads(end.stdout)
    rows = [line for line in end.stderr.splitlines() if line[:1] == ' ']
    check(len(rows) >= len(found) > 0, '%d records:\n%s', len(found), end.stderr)
    for record in found:
        check(record['bench'] == options[0] and all(record[key] > 0 for key in keys), '%s', record)
    return found


@case
def engine_counts_what_it_gives():
    """tests/instructions counts the other paths, one by one."""
    for options in (['--integrity', '--jobs', '64', '--window', '8'], ['--sources', '256', '--window', '8'],
                    *(['--type', 'fp32', '--deterministic', '--order', order] for order in ('runs', 'source', 'random')),
                    ['--sources', '4', '--role', 'leaf', '--jobs', '3', '--window', '16'],
                    ['--sources', '4', '--role', 'spine', '--type', 'fp32', '--deterministic', '--integrity']):
        end = bench('engine', *SMALL, '--packets', '2000', '--frames', '512', '--elements', '16', '--type', 'int32', *options)
        (counted,) = re.findall(r'^counted (\d+) packets$', end.stdout, re.M)
        check(2000 <= int(counted) < 2032, '%s: %s', options, counted)


@case
def engine_has_records():
    keys = ('rate', 'payload', 'bare', 'ratio', 'kway', 'time')
    found = records('engine', *SMALL, '--authenticate', '--elements', '16', '--type', 'fp32', '--frames', '2048', keys=keys)
    check([(r['authenticated'], r['kept'] is None) for r in found] == [(False, True), (True, False)], '%s', found)
    if len(os.sched_getaffinity(0)) > 1:
        found = records('engine', *SMALL, '--elements', '16', '--type', 'fp32', '--lcores', '1,2', '--far', '0,50', keys=keys)
        check([(r['lcores'], r['many'] is None, r['hop'] is None) for r in found]
              == [(1, True, True), (2, False, True), (2, False, False)], '%s', found)


@case
def kernels_has_a_row_for_each_type_and_operation():
    found = records('kernels', *SMALL, '--elements', '65', '--phase', '1', '--kib', '4', keys=('scalar', 'block', 'copy'))
    check(len({(r['type'], r['op']) for r in found}) == len(found) == 8 * 11 + 6 * 5, '%d', len(found))
    bare = [r for r in found if r['scalar_bare'] is not None]
    check({(r['type'], r['op']) for r in bare} >= {('int8', 'max'), ('bf16', 'sum')}, '%s', bare)
    check(all((r['avx2'] is None) == (r['avx2_bare'] is None) for r in bare), '%s', bare)


@case
def hash_has_a_row_for_each_operation():
    found = records('hash', *SMALL, '--records', '64', '--load', '50,10', '--phase', '1', '--batch', '7', keys=('ns', 'mops'))
    check([(r['load'], r['op']) for r in found] == [
        (load, op) for load in (10, 50) for op in ('hit', 'miss', 'insert', 'delete', 'scan', 'age')], '%s', found)
    check(all((r['ratio'] is None) == (r['op'] == 'age') for r in found), '%s', found)
    end = bench('hash', *SMALL, '--records', '1000', '--load', '50', '--operations', '512', '--operation', 'insert')
    check('counted 512 operations' in end.stdout, '%s', end.stdout)


@case
def tree_has_the_times_of_each_level():
    (r,) = records('tree', *SMALL, '--elements', '16', '--sources', '3', '--frames', '512', '--count', keys=[
        kind + role for kind in ('time_', 'latency_') for role in ('switch', 'leaf', 'spine')])
    check(math.isclose(r['up'], 3 * (r['time_leaf'] - r['time_switch'])), '%s', r)
    check(0 < r['latency_leaf_up'] < r['latency_leaf'], '%s', r)
    check(math.isclose(r['added'], r['latency_leaf'] + r['latency_spine'] - r['latency_switch']), '%s', r)
    check(r['instructions_up'] is None or 0 < r['instructions_switch'] < r['instructions_leaf'], '%s', r)


@case
def pair_runs_two_builds_in_turn():
    found = records('pair', *SMALL, '--turns', '2', BUILD, BENCH, '--elements', '16', '--frames', '512', keys=('old', 'new', 'ratio'))
    check([(r['order'], r['results']) for r in found] == [('runs', 'unicast'), ('runs', 'multicast')], '%s', found)
    check(all(r['lower'] <= r['ratio'] <= r['upper'] for r in found), '%s', found)
    check('/nowhere: no weir-bench' in bench('pair', BUILD, '/nowhere', status=2).stderr, 'it says nothing')


def plan(*options):
    found = records('plan', *options)
    return {r['level']: r for r in found if 'level' in r}, {r['link']: r for r in found if 'link' in r}


@case
def plan_is_as_by_hand():
    levels, links = plan('--hosts', 32, '--leaves', 4, '--spines', 2, '--rate', 10, '--link', 25, '--type', 'fp16', '--partial',
                         '--authenticate', '--elements', 1000, '--cost', 300, '--up-cost', 500, '--spine-cost', 400,
                         '--round-trip', 50, '--timeout', '0.3s', '--size', 1000000)
    up, above_up, down = 2000 + 98, 4000 + 32 + 98, 2000 + 32 + 98  # sums of fp16 travel as fp32
    blocks = 10e9 / 8 / up
    leaf, spine = levels['leaf'], levels['spine']
    for level, work in ((leaf, [(8 * blocks, 360), (blocks, 560)]), (spine, [(2 * blocks, 460)])):
        n = level['lcores']
        busy = [sum(each * (ns + (1 - 1 / k) * 150) for each, ns in work) / 1e9 / 0.8 for k in (n, max(n - 1, 1))]
        check(math.isclose(level['busy'], busy[0]) and busy[0] <= n and (n == 1 or busy[1] > n - 1), '%s: %s', busy, level)
    check(leaf['window'] == 2 ** math.ceil(math.log2(blocks * 100e-6)), '%s', leaf)
    check((leaf['timeout_ms'], spine['timeout_ms']) == (300, 600), '%s', levels)
    one, both = links['leaf, a spine'], links['leaf, all spines']
    check((one['links'], one['parents_bytes'], one['down_bytes']) == (8, above_up, down), '%s', one)
    check(math.isclose(both['down'], blocks * down * 8e-9) and math.isclose(one['load_up'], 4 * one['up']), '%s', links)
    check((one['size_up'], one['size_down'], both['size_up'], both['size_down']) == (1, 0.5, 2, 1), '%s', links)


@case
def plan_has_the_memory_of_the_switch_and_the_bytes_of_sums():
    levels, _ = plan('--hosts', 8, '--cost', 291, '--elements', 2000)
    one = levels['switch']
    # Three buffers for each residue of the window, with the bitmap.
    check(math.isclose(one['buffers'] * 2 ** 20, 3 * one['window'] * (8000 + 32), rel_tol=0.05), '%s', one)
    check(one['memory'] > one['buffers'], '%s', one)
    for kind, op, above in (('fp16', 'min', 2), ('fp8_e4m3', 'avg', 4), ('int8', 'sum', 1)):
        _, links = plan('--leaves', 2, '--elements', 100, '--type', kind, '--op', op, '--cost', 100)
        check(links['leaf, a spine']['parents_bytes'] == 100 * above + 82, '%s %s: %s', kind, op, links)
    levels, _ = plan('--cost', 100000, '--hosts', 200)
    check(levels['switch']['lcores'] is None, '%s', levels)


@case
def ports_and_latency_and_rfc2544():
    found = records('ports', *PORTS, '--elements', '300', '--frames', '64', keys=('rate', 'rate_testpmd', 'wire', 'ratio'))
    check([(r.get('elements'), r['frame_bytes'], r.get('results')) for r in found] == [
        (300, 1254, 'unicast'), (300, 1254, 'multicast'), (None, 64, None)], '%s', found)
    found = records('latency', *PORTS, '--elements', '16', '--loads', '10')
    check([r['what'] for r in found] == ['reduce', 'forward'], '%s', found)
    for r in found:  # a machine may leave the switch no capacity to load it with
        check(r['disturbed'] if r['p50'] is None else 0 < r['p50'] <= r['p99'] <= r['max'] and r['p99.9'] is None, '%s', r)
    # A busy machine passes no trial, and then that is said.
    found = records('rfc2544', *PORTS, '--frames', '512', '--trial', '2', '--resolution', '50', status=(0, 1))
    check([(r['frame_bytes'], r['what'], r['elements']) for r in found] == [(512, 'forward', 0), (510, 'reduce', 113)], '%s', found)


@case
def wrong_answers_are_found():
    end = bench('hash', *SMALL, '--records', '64', '--load', '50', '--phase', '1', status=1, WEIR_BENCH_SPOIL='1')
    check('wrong' in end.stderr, '%s', end.stderr)
    end = bench('ports', *PORTS, '--elements', '16', '--frames', '64', status=1, WEIR_BENCH_SPOIL='1')
    check('is not the sum' in end.stderr, '%s', end.stderr)


@case
def a_device_that_fails_is_named():
    end = bench('ports', *PORTS, '--switch', '/bin/false', status=1)
    check('weir-switch: does not forward; the process has ended' in end.stderr, '%s', end.stderr)


@case
def an_interrupt_ends_all():
    if shutil.which('dpdk-testpmd') is None:
        raise Skip('dpdk-testpmd is not installed')
    run = subprocess.Popen([BENCH, 'ports', *PORTS, '--repeat', '99', '--phase', '50'], stdout=subprocess.DEVNULL)

    def devices():
        """Command lines of the switch and of testpmd."""
        found = []
        for path in glob.glob('/proc/[0-9]*/cmdline'):
            try:
                with open(path) as file:
                    found += [line for line in [file.read()] if 'weir-bench-%d-' % run.pid in line or 'weir_testpmd_%d' % run.pid in line]
            except OSError:
                continue
        return found

    try:
        wait_for(lambda: len(devices()) == 2, 'the devices do not start')
        run.send_signal(signal.SIGTERM)
        check(run.wait(800) == 128 + signal.SIGTERM, 'exit status %d', run.returncode)
    finally:
        run.kill()
        run.wait()
    wait_for(lambda: not devices(), 'its processes do not end')
    check(not glob.glob('/tmp/weir-bench-%d-*' % run.pid), 'files are left')


@case
def hosts_beside_iperf3_and_testpmd():
    short = ['--hosts', '2', '--sizes', '64K', '--repeat', '1', '--phase', '20ms', '--mtu']
    keys = ('time_us', 'goodput', 'per_core', 'switch_cpus')
    records('hosts', *short, '1500', '--against', BUILD, keys=(*keys, 'per_core_udp', 'per_core_tcp', 'ratio_goodput'))
    records('hosts', *short, '9000', '--transport', 'dpdk', keys=(*keys, 'goodput_io', 'time_us_io'))


@case
def hosts_that_fail_leave_nothing():
    with tempfile.TemporaryDirectory(prefix='weir-hosts-') as folder:
        program = os.path.join(folder, 'apps', 'perf', 'weir-perf')
        os.makedirs(os.path.dirname(program))
        with open(program, 'w') as file:
            file.write('#!/bin/sh\necho wrong elements\nexit 1\n')
        os.chmod(program, 0o755)
        end = bench('hosts', '--hosts', '2', '--mtu', '1500', '--sizes', '4', '--phase', '50', '--against', folder, status=1)
    check('exit status 1, not 0' in end.stdout and 'wrong elements' in end.stdout, '%s', end.stdout)
    left = [name for place in ('/run/netns', tempfile.gettempdir()) for name in os.listdir(place) if 'weir-%d-' % end.pid in name]
    check(not left, '%s', left)


@case
def wrong_options_are_refused():
    for options in (['engine', '--lcores', '17'], ['engine', '--far', '100'], ['engine', '--authenticate', '--checksum', 'software'],
                    ['engine', '--role', 'leaf', '--lcores', '2'], ['engine', '--jobs', '200', '--lcores', '2', '--packets', '1'],
                    ['kernels', '--type', 'fp4'], ['kernels', '--type', 'fp64', '--op', 'band'], ['hash', '--load', '100'],
                    ['hash', '--batch', '65'], ['plan'], ['plan', '--cost', '1', '--window', '3'], ['plan', '--cost', '1', '--leaves', '3'],
                    ['plan', '--cost', '1', '--spines', '2'], ['plan', '--cost', '1', '--op', 'bor'],
                    ['plan', '--cost', '1', '--type', 'fp16', '--op', 'avg', '--narrow'], ['ports', '--window', '7'],
                    ['ports', '--slots', '100'], ['rfc2544', '--resolution', 'nan'], ['tree', '--sources', '1'], ['pair'],
                    ['hosts', '--hosts', '1'], ['hosts', '--sizes', '5'], ['hosts', '--transport', 'pigeon'], ['no-such-bench'], []):
        check(len(bench(*options, status=2).stderr.splitlines()) > 0, '%s: silence', options)
    one = ['taskset', '-c', str(min(os.sched_getaffinity(0))), BENCH, 'engine', '--huge', 'no', '--lcores', '2']
    end = subprocess.run(one, capture_output=True, text=True, timeout=800, check=False)
    check(end.returncode == 2 and 'each lcore needs one' in end.stderr, '%s', end.stderr)


if __name__ == '__main__':
    main()
