#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A job on a tree of real switches, made, shown, asked and deleted by weirctl; its hosts join at their leaves."""
import json
import os
import re
import signal

from ctl import ctl, good, says
from join_hosts import PERF, environment
from perf import finish
from tap import case, check, main, shared, wait_for
from tree import Tree

SETTINGS = ['--sizes', '2,2', '--elements', '256', '--timeout-ms', '500']
LONG = 1000000  # operations of a run that is stopped


@shared
def two_racks():
    with Tree(leaves=2, hosts=2, spines=2) as tree:
        tree.start()
        yield tree
        tree.stop()


def named(tree):
    return ','.join('%s=unix:%s' % (switch.label, switch.api_path) for switch in tree)


def control(tree, verb, *words):
    return ctl(None, 'tree', verb, 'ring', '--switches', named(tree), *words)


def jobs(tree):
    return [sorted(job['name'] for job in switch.ask('GET', '/v1/jobs')['jobs']) for switch in tree]


def stuck(switch):
    return good(ctl('unix:' + switch.api_path, 'blocks', '--stuck'))


def host(tree, number, operations):
    """weir-perf on a host that knows its leaf's URL, the job's name and its rank."""
    leaf, _ = tree.at(number)
    run = tree.spawn(number, [PERF, '-b', '64K', '-e', '64K', '-n', str(operations), '--timeout', '60000',
                              '--json=' + os.path.join(leaf.folder, 'report-%d.json' % number)], 'perf',
                     environment(rank=number, size=tree.hosts, WEIR_SWITCH=leaf.api_url, WEIR_JOB='ring'))
    run.json = os.path.join(leaf.folder, 'report-%d.json' % number)
    return run


@case
def a_job_is_made_on_all_switches_or_none():
    tree = two_racks()
    out = good(control(tree, 'create', *SETTINGS, '--dry-run'))
    check(re.search(r'leaf1 +leaf +10\.77\.1\.254 .* 2\.\.3 +planned .* spine0 by up0, spine1 by up1 +500 ms', out), '%s', out)
    check(jobs(tree) == [[]] * 4, 'made: %s', jobs(tree))
    # The third of them has no room.
    tree['leaf0'].ask('POST', '/v1/jobs', {'name': 'other', 'size': 2, 'id': 7})
    says(control(tree, 'create', *SETTINGS, '--id', '7'), 1, 'leaf0: id: a job has the id 7 already', 'not created')
    check(jobs(tree) == [['other'], [], [], []], 'made: %s', jobs(tree))
    good(control(tree, 'create', *SETTINGS))
    check(jobs(tree) == [['other', 'ring'], ['ring'], ['ring'], ['ring']], '%s', jobs(tree))
    out = good(control(tree, 'show'))
    for line in (r'leaf1 +leaf .* 2\.\.3 +\S+ +0 +0 of 2 +spine0.*, spine1', r'spine1 +root .* 0\.\.3 +\S+ +0 +0 of 2 +-'):
        check(re.search(line, out), '"%s" is not in\n%s', line, out)
    says(control(tree, 'create', *SETTINGS), 1, *('%s: name: a job is called "ring" already' % switch.label for switch in tree))
    good(control(tree, 'delete'))
    wait_for(lambda: jobs(tree) == [['other'], [], [], []], 'left: %s', lambda: jobs(tree))
    tree['leaf0'].ask('DELETE', '/v1/jobs/other')


@case
def each_switch_checks_its_job():
    """Of a command line and of an edited plan."""
    tree = two_racks()
    for more, why in ((['--rejoin', 'wait'], 'leaf0: rejoin: it must be "revoke" in a tree'),
                      (['--elements', '4000'], 'leaf1: elements: '),
                      (['--authenticate', '--integrity', 'crc32c'], 'leaf0: integrity: ')):
        says(control(tree, 'create', *SETTINGS, *more), 1, why, 'job ring: not created')
    says(control(tree, 'create', '--sizes', '2,2', '--elements', '0', '--dry-run'), 0, r'job ring: 4 ranks, .* \d\d+ elements')
    plan = json.loads(good(control(tree, 'create', *SETTINGS, '--dry-run', '--json')))
    plan['switches'][2]['job']['tree']['parents'][1]['port'] = 'up7'
    file = os.path.join(tree['leaf0'].folder, 'plan.json')
    with open(file, 'w') as out:
        json.dump(plan, out)
    says(ctl(None, 'tree', 'create', 'ring', '--plan', file), 1, r'leaf0: tree\.parents\[1\]\.port: "up7" is not the name of a port')
    check(jobs(tree) == [[]] * 4, 'made: %s', jobs(tree))


@case
def hosts_join_at_their_leaves():
    tree = two_racks()
    urls = [leaf.api_url for leaf in tree.leaves]
    for more in ([], ['--authenticate']):
        good(control(tree, 'create', *SETTINGS, *more))
        for leaf, url in zip(tree.leaves, urls):  # a host gets a key of packets by a socket or TLS only
            leaf.api_url = 'unix:' + leaf.api_path if more else url
        finish([host(tree, number, 5) for number in range(tree.hosts)])
        good(control(tree, 'delete'))
        wait_for(lambda: jobs(tree) == [[]] * 4, 'left: %s', lambda: jobs(tree))
    for leaf, url in zip(tree.leaves, urls):
        leaf.api_url = url


@case
def a_stopped_host_is_named_from_every_switch():
    tree = two_racks()
    good(control(tree, 'create', *SETTINGS))
    runs = [host(tree, number, LONG) for number in range(tree.hosts - 1)]
    # One is not there yet.
    rank = 'rank 3, never heard'
    for name, way in (('leaf0', r'for spine[01] .*(\n.*)*\n    leaf1: .*for '), ('spine0', r'for leaf1 .*(\n.*)*\n  leaf1: .*for '),
                      ('leaf1', 'for ')):
        wait_for(lambda: re.search('job ring: has not begun: .*' + way + rank, stuck(tree[name])), '%s: %s', name,
                 lambda: stuck(tree[name]))
    runs.append(host(tree, tree.hosts - 1, LONG))
    done = lambda: tree['leaf0'].ask('GET', '/v1/jobs/ring')['counters']['blocks_complete']
    wait_for(lambda: done() > 100, 'nothing is done')
    out = good(control(tree, 'show'))
    check(re.search(r'leaf1 +leaf .* 2\.\.3 +running +[1-9]\d* +2 of 2 +spine0.*, spine1', out), '%s', out)
    # One stands still.
    os.kill(runs[3].pid, signal.SIGSTOP)
    rank = r'rank 3 \(10\.77\.1\.2\), last heard [\d.]+ m?s ago'
    what = r'job ring: .*blocks? [\d., ]+(?: and \d+ more)? waits? for '

    def named_at(switch, way):
        wait_for(lambda: re.search(what + way + rank, stuck(switch)), '%s: %s', switch.label, lambda: stuck(switch))
        return re.search(what + way + rank, stuck(switch))

    spine = named_at(tree['leaf0'], r'(spine[01]) .*(?:\n.*)*\n    leaf1: .*for ').group(1)
    named_at(tree[spine], r'leaf1 .*(?:\n.*)*\n  leaf1: .*for ')
    named_at(tree['leaf1'], '')
    # So does a leaf whose API is gone.
    os.kill(tree['leaf1'].switch.pid, signal.SIGSTOP)
    run = ctl('unix:' + tree[spine].api_path, 'blocks', '--stuck', '-t', '3s')
    check(re.search('  leaf1 does not answer at unix:' + re.escape(tree['leaf1'].api_path), run.out), '%s', run)
    os.kill(tree['leaf1'].switch.pid, signal.SIGCONT)
    os.kill(runs[3].pid, signal.SIGCONT)
    before = done()
    wait_for(lambda: done() > before + 100, 'it does not go on')
    for run in runs:
        run.kill()
    good(control(tree, 'delete'))


if __name__ == '__main__':
    main()
