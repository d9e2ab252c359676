#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A job on a tree of real switches, made, shown and deleted by weirctl."""
import re

from ctl import ctl, good, says
from tap import case, check, main, wait_for
from tree import Tree

SETTINGS = ['--sizes', '2,2', '--elements', '256', '--timeout-ms', '500']


def named(tree):
    return ','.join('%s=unix:%s' % (switch.label, switch.api_path) for switch in tree)


def control(tree, verb, *words):
    return ctl(None, 'tree', verb, 'ring', '--switches', named(tree), *words)


def jobs(tree):
    return [sorted(job['name'] for job in switch.ask('GET', '/v1/jobs')['jobs']) for switch in tree]


@case
def a_job_is_made_on_all_switches_or_none():
    with Tree(leaves=2, hosts=2, spines=2) as tree:
        tree.start()
        out = good(control(tree, 'create', *SETTINGS, '--dry-run'))
        check(re.search(r'leaf1 +leaf +10\.77\.1\.254 .* 2\.\.3 +spine0 by up0, spine1 by up1 +500 ms', out), '%s', out)
        check(jobs(tree) == [[]] * 4, 'made: %s', jobs(tree))
        # The third of them has no room.
        tree['leaf0'].ask('POST', '/v1/jobs', {'name': 'other', 'size': 2, 'id': 7})
        says(control(tree, 'create', *SETTINGS, '--id', '7'), 1, 'not created, because of leaf0', 'deleted again')
        wait_for(lambda: jobs(tree) == [['other'], [], [], []], 'left: %s', lambda: jobs(tree))
        good(control(tree, 'create', *SETTINGS))
        check(jobs(tree) == [['other', 'ring'], ['ring'], ['ring'], ['ring']], '%s', jobs(tree))
        out = good(control(tree, 'show'))
        for line in (r'leaf1 +leaf +2\.\.3 +\S+ +0 +0 of 2 +spine0 not joined, spine1 not joined', r'spine1 +root +0\.\.3 +\S+ +0 +0 of 2 +-'):
            check(re.search(line, out), '"%s" is not in\n%s', line, out)
        says(control(tree, 'create', *SETTINGS), 1, 'spine0 has a job ring')
        good(control(tree, 'delete'))
        wait_for(lambda: jobs(tree) == [['other'], [], [], []], 'left: %s', lambda: jobs(tree))
        tree.stop()


if __name__ == '__main__':
    main()
