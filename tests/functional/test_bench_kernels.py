#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench kernels: a line and the records for each type and operation that there is."""
import json
import os
import subprocess

from tap import case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
SHORT = ['--elements', '65', '--kib', '4', '--repeat', '1', '--phase-ms', '1']


def bench(*options, status=0):
    end = subprocess.run([BENCH, 'kernels', '--huge', 'no'] + list(options), capture_output=True,
                         text=True, timeout=800, check=False)
    check(end.returncode == status, 'exit status %d, not %d\n%s', end.returncode, status,
          end.stderr)
    return end


@case
def every_type_and_operation_has_a_line():
    lines = [line.split() for line in bench(*SHORT).stdout.splitlines() if line[0] != '#']
    cells = {(line[1], line[2]) for line in lines}
    check(len(lines) == len(cells) == 8 * 11 + 6 * 5, '%d lines', len(lines))
    check(('fp16', 'avg') in cells and ('fp32', 'bxor') not in cells, '%s', cells)
    check(all(len(line) == 11 for line in lines), '%s', lines[0])


@case
def a_record_for_each_instruction_set():
    records = json.loads(bench(*SHORT, '--type', 'bf16', '--op', 'max', '--json', '-').stdout)
    check(len(records) == 1, '%s', records)
    found = records[0]
    check(found['block'] > 0 and found['copy'] > 0 and found['sources'] == 8 and found['kib'] == 4, '%s', found)
    for isa in ('scalar', 'avx2', 'avx512'):
        have = found[isa] is not None
        check(have or isa != 'scalar', 'no scalar kernel: %s', found)
        check(not have or (found[isa] > 0 and found[isa + '_bare'] > 0), '%s', found)


@case
def sizes_are_varied():
    records = json.loads(bench('--elements', '1', '--kib', '1,64', '--repeat', '1', '--phase-ms',
                               '1', '--type', 'int8', '--sources', '256', '--json', '-').stdout)
    check({r['kib'] for r in records} == {1, 64}, 'kib')
    check({r['op'] for r in records} >= {'sum', 'avg', 'lxor'}, 'operations')


@case
def bad_options_are_refused():
    for options in (['--type', 'fp4'], ['--op', 'mean'], ['--type', 'fp64', '--op', 'band'],
                    ['--elements', '0'], ['--kib', '0'], ['--sources', '257']):
        bench(*options, status=2)


if __name__ == '__main__':
    main()
