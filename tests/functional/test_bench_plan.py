#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench plan against an independent calculation, and against what weir-switch computes for the planned switch."""
import json
import math
import os
import re
import subprocess
import tempfile

from tap import case, check, main

BUILD = os.environ.get('WEIR_BUILD', 'build')
BENCH = os.path.join(BUILD, 'apps', 'bench', 'weir-bench')
SWITCH = os.path.join(BUILD, 'apps', 'switch', 'weir-switch')


def plan(*options, status=0):
    end = subprocess.run([BENCH, 'plan', '--json', '-'] + [str(o) for o in options], capture_output=True, text=True,
                         timeout=800, check=False)
    check(end.returncode == status, 'exit status %d, not %d\n%s', end.returncode, status, end.stderr)
    if status != 0:
        return end.stderr
    found = json.loads(end.stdout)
    return {r['level']: r for r in found if 'level' in r}, {r['link']: r for r in found if 'link' in r}


def near(found, wanted, share=1e-4):
    return abs(found - wanted) <= share * abs(wanted)


def lcores(work, far):
    """work: [(packets per second, ns)]; how many lcores do it at a load of 80 %, and how busy are they."""
    n = 0
    while True:
        n += 1
        busy = sum(each * (ns + (n - 1) / n * far) for each, ns in work) / 1e9 / 0.8
        if busy <= n:
            return n, busy


@case
def one_switch_as_by_hand():
    levels, links = plan('--hosts', 8, '--rate', 25, '--cost', 291, '--hop', 150, '--port-cost', 60)
    # 4096 bytes of elements, 58 of headers, 24 of Ethernet's.
    blocks = 25e9 / 8 / 4178
    one = levels['switch']
    check(list(levels) == ['switch'] and list(links) == ['host, switch'], '%s', levels)
    check(near(one['contributions'], 8 * blocks) and one['ups'] is None, '%s', one)
    n, busy = lcores([(8 * blocks, 351)], 150)
    check(one['lcores'] == n == 4 and near(one['busy'], busy), '%s', one)
    check(near(one['time'], 351 + 0.75 * 150) and one['time_up'] is None, '%s', one)
    check(one['window'] == 128 and one['timeout_ms'] == 1000, '%s', one)  # 74.8 blocks
    check(near(links['host, switch']['load_up'], 100) and near(links['host, switch']['down'], 25), '%s', links)


@case
def a_tree_as_by_hand():
    levels, links = plan('--hosts', 32, '--leaves', 4, '--spines', 2, '--rate', 10, '--link', 25, '--type', 'fp16', '--partial',
                         '--authenticate', '--elements', 1000, '--cost', 300, '--up-cost', 500, '--spine-cost', 400,
                         '--round-trip', 50, '--timeout-ms', 300, '--size', 1000000)
    up, above_up, down = 2000 + 98, 4000 + 32 + 98, 2000 + 32 + 98  # sums of fp16 travel as fp32
    blocks = 10e9 / 8 / up
    leaf, spine = levels['leaf'], levels['spine']
    check((leaf['switches'], leaf['sources'], spine['switches'], spine['sources']) == (4, 8, 2, 4), '%s', levels)
    check(near(leaf['contributions'], 8 * blocks) and near(leaf['ups'], blocks), '%s', leaf)
    check(near(spine['contributions'], 4 * blocks / 2) and spine['ups'] is None, '%s', spine)
    for level, work in ((leaf, [(8 * blocks, 360), (blocks, 560)]), (spine, [(2 * blocks, 460)])):
        n, busy = lcores(work, 150)
        check(level['lcores'] == n and near(level['busy'], busy), '%d, %f: %s', n, busy, level)
    # Two hops of 50 us.
    check(leaf['window'] == spine['window'] == 2 ** math.ceil(math.log2(blocks * 100e-6)), '%s', leaf)
    check((leaf['timeout_ms'], spine['timeout_ms']) == (300, 600), '%s', levels)
    one, both = links['leaf, a spine'], links['leaf, all spines']
    check((links['host, switch']['parents_bytes'], links['host, switch']['down_bytes']) == (up, down), '%s', links)
    check((one['links'], one['parents_bytes'], one['down_bytes']) == (8, above_up, down), '%s', one)
    check(near(one['up'], blocks / 2 * above_up * 8e-9) and near(one['load_up'], 4 * one['up']), '%s', one)
    check(near(both['down'], blocks * down * 8e-9) and near(both['load_down'], 2 * both['down']), '%s', both)
    check((one['size_up'], one['size_down'], both['size_up'], both['size_down']) == (1, 0.5, 2, 1), '%s', links)
    check(links['one switch above']['size_up'] == 8 and near(links['ring by racks']['size_up'], 2 * 31 / 32), '%s', links)


@case
def bytes_above_a_leaf_are_those_of_the_sums():
    for kind, op, above in (('fp16', 'sum', 4), ('fp16', 'min', 2), ('fp8_e4m3', 'avg', 4), ('int8', 'avg', 4), ('int8', 'sum', 1),
                            ('uint16', 'avg', 4), ('int32', 'avg', 4), ('bf16', 'prod', 4), ('int16', 'max', 2)):
        _, links = plan('--leaves', 2, '--elements', 100, '--type', kind, '--op', op, '--cost', 100)
        check(links['leaf, a spine']['parents_bytes'] == 100 * above + 82, '%s %s: %s', kind, op, links)
    _, links = plan('--leaves', 2, '--elements', 100, '--type', 'fp16', '--narrow', '--cost', 100)
    check(links['leaf, a spine']['parents_bytes'] == 282, '%s', links)
    _, links = plan('--leaves', 2, '--elements', 100, '--type', 'fp64', '--cost', 100)
    check(links['leaf, a spine']['parents_bytes'] == 482, '50 elements: %s', links)


@case
def the_switch_computes_the_same_memory():
    """The planned switch as a configuration file, and what its own check says."""
    levels, _ = plan('--hosts', 8, '--cost', 291, '--elements', 2000, '--descriptors', 256)
    one = levels['switch']
    config = {'switch': {'address': '10.77.0.254/24'}, 'eal': ['--no-huge'], 'memory_mb': 1024,
              'workers': {'count': one['lcores']}, 'pools': {'packets': one['packets'], 'headers': one['headers']},
              'ports': [{'name': 'p%d' % p, 'device': 'net_ring%d' % p, 'tx_queues': one['lcores'], 'mtu': 8100,
                         'rx_descriptors': 256, 'tx_descriptors': 256} for p in range(8)],
              'jobs': [{'id': 0, 'name': 'job', 'sources': {'count': 8, 'first': '10.77.0.1'}, 'window': one['window'],
                        'elements': 2000}]}
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        json.dump(config, file)
        file.flush()
        end = subprocess.run([SWITCH, '-c', file.name, '--check'], capture_output=True, text=True, timeout=800, check=False)
    check(end.returncode == 0, '%s', end.stderr)
    said = {name: float(mib) for name, mib in re.findall(r'^memory +(\S.*?) +([\d.]+) MiB', end.stdout, re.M)}
    check(abs(said['aggregation buffers'] - one['buffers']) < 0.01, '%s\n%s', one, end.stdout)
    check(near(said['total'], one['memory'], 0.02), '%s\n%s', one, end.stdout)
    # Three buffers for each residue of the window, with the bitmap.
    check(near(one['buffers'] * 2 ** 20, 3 * one['window'] * (8000 + 32), 0.05), '%s', one)


@case
def what_can_not_be_is_refused():
    for words, said in (([], '--cost'), (['--cost', 1, '--window', 3], 'power of two'),
                        (['--cost', 1, '--leaves', 3], 'equally many'), (['--cost', 1, '--spines', 2], '--leaves'),
                        (['--cost', 1, '--type', 'fp32', '--op', 'bor'], 'no such'), (['--cost', 1, '--type', 'x'], 'no such'),
                        (['--cost', 1, '--type', 'fp16', '--op', 'avg', '--narrow'], 'no avg')):
        check(said in plan(*words, status=2), '%s', words)
    levels, _ = plan('--cost', 100000, '--hosts', 200)
    check(levels['switch']['lcores'] is None, '%s', levels)


if __name__ == '__main__':
    main()
