#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trees of switches: every host of every rack has what one switch gives it."""
import contextlib
import time

from tap import case, check, main
from tree import Tree


@contextlib.contextmanager
def running(jobs=(), **more):
    """A tree whose switches run; in the end each has to stop in an orderly way. jobs: their settings; ids are 1, 2, ..."""
    with Tree(**more) as tree:
        for number, options in enumerate(jobs, 1):
            tree.add_job(number, **options)
        tree.start()
        yield tree
        tree.stop()


# -- ordinary frames

@case
def links_between_switches_make_no_loop():
    """Ordinary frames take one way: each arrives once, and the links to the other spine carry none."""
    with running(leaves=2, hosts=2, spines=2) as tree:
        tree.ping(0, tree.address(3))
        sent, received = tree.transfer(1, 2, 1_000_000)
        check(sent == received, 'TCP between racks: %s became %s', sent, received)
        tree.call(0, ['ip', 'neigh', 'flush', 'all'])
        before = tree.wire(3)['rx_packets'], tree.carried()
        tree.spawn(0, ['ping', '-b', '-n', '-c', '20', '-i', '0.02', '-W', '1', '10.255.255.255']).end(60)
        after = tree.wire(3)['rx_packets'], tree.carried()
        check(20 <= after[0] - before[0] < 26, 'host 3 saw %d frames of 20', after[0] - before[0])
        for names, carried in after[1].items():
            more = [b - a for a, b in zip(before[1][names], carried)]
            if names[1] == 'spine1':
                check(carried == (0, 0), '%s carry ordinary frames: %s bytes', names, carried)
            else:
                check(sum(more) < 30 * 98, '%s carry %s bytes for 20 frames', names, more)


@case
def every_switch_is_reached():
    with running(leaves=2, hosts=1, spines=1) as tree:
        for switch in tree:
            for host in range(tree.hosts):
                tree.ping(host, switch.switch_address, count=1)


# -- generations

def until(holds, message, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        check(time.monotonic() < end, message)
        time.sleep(0.05)


def parents(tree, leaf):
    return tree[leaf].ask('GET', '/v1/jobs/job1')['tree']['parents']


@case
def a_generation_begins_when_all_racks_have_joined():
    with running(leaves=2, hosts=1, spines=2, jobs=[{}]) as tree:
        runs = [tree.perf(0, 1, '-b', '4K', '-e', '4K')]
        until(lambda: all(p['joining'] for p in parents(tree, 'leaf0')), 'leaf0 does not join')
        check(all(p['generation'] == 0 and not p['serves'] for p in parents(tree, 'leaf0')), 'begun too early')
        runs.append(tree.perf(1, 1, '-b', '4K', '-e', '4K'))
        for leaf in 'leaf0', 'leaf1':
            until(lambda name=leaf: all(p['serves'] and p['generation'] != 0 for p in parents(tree, name)),
                  leaf + ' does not take part')
        for run in runs:
            run.kill()


@case
def jobs_that_disagree_do_not_begin():
    """The host is told at once; the leaf says which setting it is."""
    with Tree(leaves=1, hosts=1, spines=1) as tree:
        tree.add_job(1)['leaf0']['window'] = 32
        tree.start()
        run = tree.perf(0, 1, '-b', '4K', '-e', '4K')
        run.wait(20, status=1)
        check('unsupported' in run.output, '%s', run.output)
        until(lambda: parents(tree, 'leaf0')[0]['refused'], 'no reason')
        refused = parents(tree, 'leaf0')[0]['refused']
        check(refused == {'setting': 'window', 'here': 32, 'there': 64, 'why': 'must be equal'}, '%s', refused)

        def logged():
            with open(tree['leaf0'].switch.log) as log:
                return 'setting=window here=32 there=64' in log.read()
        until(logged, 'the log does not name the setting')
        tree.stop()


if __name__ == '__main__':
    main()
