#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench hash: its rows and records with tiny parameters; a damaged record is noticed."""
import json
import os
import subprocess

from tap import case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
TINY = ['--records', '64,1000', '--load', '50,10', '--repeat', '2', '--phase-ms', '1']
OPERATIONS = ['hit', 'miss', 'insert', 'delete', 'scan', 'age']


def bench(*options, status=0):
    end = subprocess.run([BENCH, 'hash', '--huge', 'no', '--json', '-'] + list(options),
                         capture_output=True, text=True, timeout=800, check=False)
    check(end.returncode == status, 'exit status %d, not %d\n%s', end.returncode, status,
          end.stderr)
    return end


def rows(end):
    return [line.split() for line in end.stderr.splitlines() if line[:1] == ' ']


@case
def a_row_and_a_record_for_every_operation():
    end = bench(*TINY, '--batch', '7')
    expected = [[n, load, op] for n in ('64', '1000') for load in ('10', '50') for op in OPERATIONS]
    check([r[:2] + [r[6]] for r in rows(end)] == expected, 'rows:\n%s', end.stderr)
    records = json.loads(end.stdout)
    check([[str(r['records']), str(r['load']), r['op']] for r in records] == expected, '%s', records)
    for record in records:
        check(record['bench'] == 'hash' and record['batch'] == 7 and record['mops'] > 0, '%s', record)
        check((record['mops_rte'] is None) == (record['op'] == 'age'), 'limit: %s', record)
        if record['op'] != 'age':
            check(abs(record['ratio'] - record['mops'] / record['mops_rte']) < 1e-3 *
                  record['ratio'], 'ratio: %s', record)
    sizes = [r['bytes'] for r in records if r['records'] == 1000]
    # 20 bytes of buckets, 4 of the free stack, 16 of the record's head, and the table's lines.
    check(40 <= sizes[0] < 42, 'bytes per record %s', sizes)


@case
def wrong_answers_are_noticed():
    end = bench(*TINY, '--spoil', status=1)
    check('wrong answers' in end.stderr, 'it says:\n%s', end.stderr)


@case
def bad_options_are_refused():
    for options in (['--load', '100'], ['--batch', '65'], ['--records', '1']):
        bench(*options, status=2)


if __name__ == '__main__':
    main()
