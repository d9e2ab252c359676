#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench order: rows and records with tiny parameters. It compares results of two orders of arrival
itself, so its exit status says that all methods but the plain sum give the same bits."""
import json
import os
import subprocess

from tap import case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
TINY = ['--elements', '16', '--window', '4', '--frames', '64', '--repeat', '3', '--phase-ms', '5']
METHODS = ['at once', 'in turn', 'at the end', 'held', 'exact']


def bench(*options, status=0):
    end = subprocess.run([BENCH, 'order', '--json', '-'] + list(options), capture_output=True, text=True,
                         timeout=40, check=False)
    check(end.returncode == status, 'exit status %d, not %d\n%s', end.returncode, status, end.stderr)
    return end


@case
def every_method_is_measured_and_keeps_what_it_says():
    records = json.loads(bench('--sources', '2,9', *TINY).stdout)
    check([(r['params']['sources'], r['params']['arrival'], r['params']['method']) for r in records] ==
          [(n, arrival, method) for n in (2, 9) for arrival in ('in order', 'shuffled', 'reversed')
           for method in METHODS], '%s', records)
    for record in records:
        params, observed = record['params'], record['observed']
        check(record['value'] > 0 and record['limit'] > 0, 'nothing measured: %s', record)
        if params['method'] == 'in turn':
            most = 4 * (params['sources'] - 1)
            check(observed['reserved'] == 4 + most, '%s', record)
            used = observed['used'] / params['elements']
            check({'in order': used == 0, 'reversed': used == most}.get(params['arrival'], used <= most),
                  '%s', record)


@case
def bad_options_are_refused():
    for options in (['--sources', '1'], ['--sources', '257'], ['--elements', '0'], ['--window', '1025']):
        bench(*options, status=2)


if __name__ == '__main__':
    main()
