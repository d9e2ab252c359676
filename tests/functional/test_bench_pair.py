#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench pair: two builds in turn. Builds that only pretend show what is computed, the real one that it runs."""
import json
import os
import re
import subprocess
import tempfile

from tap import Skip, case, check, main

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')

# Its rates are those of its environment, one for each run of unicast; it logs its options.
FAKE = r'''#!/usr/bin/python3
import json, os, sys
name = os.path.basename(sys.argv[0])
if '--help' in sys.argv:
    print('  --order=' + os.environ.get('ORDERS_' + name, 'runs|block|source|random'))
    sys.exit(0)
with open(os.environ['LOG'], 'a+') as log:
    log.seek(0)
    turn = sum(name + ' ' in line and 'unicast' in line for line in log)
    log.write(name + ' ' + ' '.join(sys.argv[1:]) + '\n')
rates = os.environ['RATES_' + name].split(',')
if 'multicast' in sys.argv:
    turn, rates = 0, ['1']
if rates[turn] == 'fails':
    sys.exit('no memory for anything')
print(json.dumps([{'elements': n, 'type': 'int32', 'order': 'some', 'rate': float(rates[turn]), 'disturbed': False}
                  for n in ([64, 256] if rates[turn] != '7' else [64])]))
'''


class Builds:
    """Two fakes, in a folder that is removed."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='weir-bench-pair-')
        for name in ('a', 'b'):
            with open(self.path(name), 'w') as file:
                file.write(FAKE)
            os.chmod(self.path(name), 0o755)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run(self, turns, *more, status=0, **environment):
        if os.path.exists(self.path('log')):
            os.unlink(self.path('log'))
        end = subprocess.run([BENCH, 'pair', '--turns', str(turns), '--json', '-', self.path('a'), self.path('b')]
                             + list(more), capture_output=True, text=True, timeout=800, check=False,
                             env=dict(os.environ, LOG=self.path('log'), **environment))
        check(end.returncode == status, 'exit status %d\n%s', end.returncode, end.stderr)
        with open(self.path('log')) as file:
            return end, [line.split() for line in file]


@case
def ratios_are_those_of_neighbours():
    with Builds() as builds:
        # Both get slower and slower: of the medians the ratio is 2, of the pairs 1 to 3.
        end, log = builds.run(5, RATES_a='10,8,6,4,2', RATES_b='10,16,18,10,2')
        first, _, multicast, _ = json.loads(end.stdout)
        check((first['old'], first['new'], first['elements'], first['results']) == (6, 10, 64, 'unicast'), '%s', first)
        check((first['lower'], first['ratio'], first['upper']) == (1, 2, 2.5), '%s', first)
        check(multicast['ratio'] == 1 and multicast['results'] == 'multicast', '%s', multicast)
        check([line[0] for line in log] == ['a', 'b', 'a', 'b', 'b', 'a', 'b', 'a'] * 2 + ['a', 'b', 'a', 'b'],
              'in turn, each one first: %s', log)


@case
def both_get_the_same_options():
    with Builds() as builds:
        for environment, more, order in (({}, [], 'runs'), ({'ORDERS_a': 'block|source|random'}, [], 'source'),
                                         ({'ORDERS_b': 'block|source|random'}, [], 'source'),
                                         ({}, ['--order', 'block', '--sources', '4'], 'block')):
            end, log = builds.run(1, *more, RATES_a='1', RATES_b='1', **environment)
            check(len({tuple(line[1:]) for line in log}) == 2, 'unicast, multicast: %s', log)
            check(all(line.count('--order') == 1 and line[line.index('--order') + 1] == order for line in log), '%s', log)
            check(all(line[len(line) - len(more):] == more for line in log), '%s', log)
            check(('does not know' in end.stderr) == (order == 'source'), '%s', end.stderr)


@case
def a_build_that_fails_is_told():
    with Builds() as builds:
        end, _ = builds.run(2, RATES_a='1,1', RATES_b='1,fails', status=1)
        check('b engine fails:\nno memory for anything' in end.stderr, '%s', end.stderr)
        end, _ = builds.run(2, RATES_a='1,7', RATES_b='1,7', status=1)
        check('1 records, and the run before had 2' in end.stderr, '%s', end.stderr)
    for arguments, word in (([BENCH], 'which builds'), ([BENCH, '/nowhere'], '/nowhere: no weir-bench')):
        end = subprocess.run([BENCH, 'pair'] + arguments, capture_output=True, text=True, timeout=800, check=False)
        check(end.returncode == 2 and word in end.stderr, '%s', end.stderr)


@case
def a_build_beside_itself():
    build = os.environ.get('WEIR_BUILD', 'build')
    end = subprocess.run([BENCH, 'pair', '--turns', '2', '--repeat', '3', '--huge', 'no', '--json', '-',
                          build, BENCH, '--elements', '16,300', '--frames', '512'],
                         capture_output=True, text=True, timeout=800, check=False)
    if 'no time to measure' in end.stderr:
        raise Skip('the machine is too busy')
    check(end.returncode == 0, 'exit status %d\n%s', end.returncode, end.stderr)
    found = json.loads(end.stdout)
    check([(r['elements'], r['results']) for r in found] ==
          [(16, 'unicast'), (300, 'unicast'), (16, 'multicast'), (300, 'multicast')], '%s', found)
    check(all(r['order'] == 'runs' and r['old'] > 0 and r['new'] > 0 and r['ratio'] > 0 for r in found), '%s', found)
    check(re.search(r'^# old: .*/apps/bench/weir-bench$', end.stderr, re.M), '%s', end.stderr)


if __name__ == '__main__':
    main()
