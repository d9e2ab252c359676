#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench memory: its rows and records; memory that nobody computed is noticed; the demo's
processes are found, with a demo that only pretends."""
import json
import os
import subprocess
import tempfile

from tap import case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
# A program of this name that holds 32 MB, below one that is told apart by its parent.
DEMO = '''
import os, shutil, subprocess, sys, tempfile
folder = tempfile.mkdtemp(prefix='weir-bench-test-')
def pretend(name):
    if not os.path.lexists(folder + '/' + name):
        os.symlink(sys.executable, folder + '/' + name)
    return subprocess.Popen([folder + '/' + name, '-c',
                             'import time; b = bytearray(32000000); time.sleep(1.3)'])
try:
    runs = [pretend(name) for name in %s]
    status = [run.wait(10) for run in runs]
finally:
    shutil.rmtree(folder)
sys.exit(%d)
'''


def bench(*options, status=0):
    end = subprocess.run([BENCH, 'memory', '--huge', 'no', '--json', '-'] + list(options),
                         capture_output=True, text=True, timeout=40, check=False)
    check(end.returncode == status, 'exit status %d, not %d\n%s', end.returncode, status,
          end.stderr)
    return end


def demo(names, status, expected):
    with tempfile.NamedTemporaryFile('w', suffix='.py') as file:
        file.write(DEMO % (names, status))
        file.flush()
        return bench('--elements', '64', '--demo', file.name, status=expected)


@case
def a_block_costs_two_buffers_and_two_records():
    records = json.loads(bench('--elements', '256,1024', '--window', '16').stdout)
    block = {r['params']['elements']: r for r in records if r['metric'] == 'block'}
    record = [r['value'] for r in records if r['metric'] == 'record'][0]
    check(set(block[256]['params']) == {'elements', 'window', 'sources'} and
          block[256]['observed']['computed'] > 0, '%s', block[256])
    for elements in (256, 1024):
        payload = 4 * elements
        check(block[elements]['limit'] == payload, 'limit %s', block[elements])
        check(2 * payload + 2 * record <= block[elements]['value'] <= 3 * payload,
              'block %s, record %s', block[elements], record)
    check([r['value'] for r in records if r['metric'] == 'source'] == [0], 'sources cost')
    parts = {r['params']['part']: r['value'] for r in records if r['metric'] == 'switch'}
    check(parts['taken'] >= parts['computed'] > parts['packet pools'] > 0, 'parts %s', parts)


@case
def what_waits_for_its_turn_costs_its_payload():
    records = json.loads(bench('--elements', '256', '--window', '16', '--sources', '5',
                               '--deterministic').stdout)
    plain = json.loads(bench('--elements', '256', '--window', '16', '--sources', '5').stdout)
    more = [a['value'] - b['value'] for a, b in zip(records, plain) if a['metric'] == 'block']
    check(len(more) == 1 and 4 * 1024 <= more[0] <= 4 * 1024 * 1.2, '%s', more)


@case
def memory_that_nobody_computed_is_noticed():
    end = bench('--elements', '64', '--spoil', status=1)
    check('were computed' in end.stderr, 'it says:\n%s', end.stderr)


@case
def the_demo_s_processes_are_read():
    end = demo(['weir-switch', 'weir-perf', 'weir-perf'], 0, 0)
    found = {r['params']['program']: (r['params']['processes'], r['value'])
             for r in json.loads(end.stdout) if r['metric'] == 'demo'}
    check(found['weir-switch'][0] == 1 and found['weir-perf'][0] == 2, 'found %s', found)
    check(30e6 < found['weir-switch'][1] < 64e6, 'found %s', found)


@case
def a_demo_that_fails_is_said():
    check('did not end well' in demo(['weir-switch'], 3, 1).stderr, 'silence')
    check('ran no weir-perf' in demo(['weir-switch'], 0, 1).stderr, 'silence')


@case
def bad_options_are_refused():
    for options in (['--window', '3'], ['--elements', '5000'], ['--sources', '0']):
        bench(*options, status=2)


if __name__ == '__main__':
    main()
