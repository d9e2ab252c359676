#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench memory: its rows and records; memory that nobody computed is noticed."""
import json
import os
import subprocess

from tap import case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')


def bench(*options, status=0):
    end = subprocess.run([BENCH, 'memory', '--huge', 'no', '--json', '-'] + list(options),
                         capture_output=True, text=True, timeout=40, check=False)
    check(end.returncode == status, 'exit status %d, not %d\n%s', end.returncode, status,
          end.stderr)
    return end


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
def bad_options_are_refused():
    for options in (['--window', '3'], ['--elements', '5000'], ['--sources', '0']):
        bench(*options, status=2)


if __name__ == '__main__':
    main()
