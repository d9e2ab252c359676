#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trees of switches: every host of every rack has what one switch gives it, also when switches and links fail."""
import random

from elements import OPERATIONS, TYPE, TYPES
from control import switch
from loops import Loops
from perf import finish
from rack import job
from ranks import Plan, Run, everything, operation
from tap import case, check, main, seed, shared, wait_for
from tree import Tree

SMALL = {'elements': 64, 'window': 8}


ALL, ONE, NARROW, PLAIN = 1, 2, 3, 4  # jobs: over two spines, or one


@shared
def two_spines():
    with Tree(leaves=2, hosts=2, spines=2) as tree:
        tree.add_job(ALL, **SMALL)
        tree.add_job(ONE, **SMALL, above=['spine0'])
        tree.add_job(NARROW, **SMALL, above=['spine0'], narrow=True)
        tree.add_job(PLAIN)
        tree.start()
        yield tree
        tree.stop()


@shared
def one_switch():
    with switch(hosts=4, jobs=[job(1, 4, **SMALL)]) as (rack, _):
        yield rack


def counted(tree, key, number):
    return {switch.label: job[key] for switch in tree for job in switch.read_stats()['jobs'] if job['id'] == number}


# -- ordinary frames

@case
def links_between_switches_make_no_loop():
    """Ordinary frames take one way: each arrives once, and the links to the other spine carry none."""
    tree = two_spines()
    tree.ping(0, tree.address(3))
    sent, received = tree.transfer(1, 2, 1_000_000)
    check(sent == received, 'TCP between racks: %s became %s', sent, received)
    before = tree.wire(3)['rx_packets'], tree.carried()
    tree.spawn(0, ['ping', '-b', '-n', '-c', '20', '-i', '0.02', '-W', '1', '10.255.255.255']).end(60)
    after = tree.wire(3)['rx_packets'], tree.carried()
    check(20 <= after[0] - before[0] < 35, 'host 3 saw %d frames of 20', after[0] - before[0])
    for names, carried in after[1].items():
        more = sum(carried) - sum(before[1][names])
        if names[1] == 'spine1':
            check(carried == (0, 0), '%s carry ordinary frames: %s bytes', names, carried)
        else:
            check(more < 35 * 98, '%s carry %d bytes for 20 frames', names, more)
    for switch in tree:
        if switch.label != 'spine1':  # no way leads there
            tree.ping(3, switch.switch_address, count=1)


# -- generations

def parents(tree, leaf):
    return tree[leaf].ask('GET', '/v1/jobs/job%d' % PLAIN)['tree']['parents']


@case
def a_generation_begins_when_all_racks_have_joined():
    tree = two_spines()
    runs = [tree.perf(host, PLAIN, '-b', '4K', '-e', '4K') for host in (0, 1)]
    wait_for(lambda: all(p['joining'] for p in parents(tree, 'leaf0')), 'leaf0 does not join')
    check(all(p['generation'] == 0 and not p['serves'] for p in parents(tree, 'leaf0')), 'begun too early')
    runs += [tree.perf(host, PLAIN, '-b', '4K', '-e', '4K') for host in (2, 3)]
    for leaf in 'leaf0', 'leaf1':
        wait_for(lambda name=leaf: all(p['serves'] and p['generation'] != 0 for p in parents(tree, name)),
                 leaf + ' does not take part')
    finish(runs)


# -- sums

class Exact(Plan):
    """A plan whose sums are exact in fp32, and are rounded to narrower types."""

    def sent(self, step, rank):
        draw = random.Random('%d %d %d' % (self.seed, step['number'], rank))
        return TYPE[step['type']].data([draw.randint(-60, 60) / 8 for _ in range(step['count'])])


def told(rack, plan, number=1):
    """What every rank of a plan has, in bytes."""
    entries = Run(rack, number, plan, range(4)).told()
    check(all(entry['code'] == 0 and not entry['harm'] for rank in entries for entry in rank), '%s', entries)
    return [[entry['data'] for entry in rank] for rank in entries]


@case
def every_collective_over_two_spines():
    tree = two_spines()
    Run(tree, ALL, everything(seed(), 4, 64, 8), range(4)).finish(80)
    blocks = counted(tree, 'blocks_complete', ALL)
    check(blocks['leaf0'] == blocks['leaf1'] == blocks['spine0'] + blocks['spine1'], '%s', blocks)
    check(0 <= blocks['spine0'] - blocks['spine1'] <= 4, 'not half each: %s', blocks)


@case
def integers_have_the_bits_that_one_switch_gives():
    plan = Plan(4, seed().getrandbits(32))
    plan.group('any', [operation(name, 'int32', op, 150) for op in OPERATIONS
                       for name in ('allreduce', 'reduce', 'reducescatter')])
    check(told(two_spines(), plan, ALL) == told(one_switch(), plan), 'other bits')


@case
def narrow_floats_are_rounded_once():
    """As on one switch; in a `narrow` job on each level."""
    small = [kind.name for kind in TYPES if kind.precision and kind.bytes <= 2]
    plan = Exact(4, seed().getrandbits(32))
    for op in ('sum', 'avg'):
        plan.group('any', [operation('allreduce', kind, op, 200) for kind in small])
    one = told(one_switch(), plan)
    check(told(two_spines(), plan, ONE) == one, 'not rounded once')
    del plan.groups[1]  # averages would be divided twice
    narrow = told(two_spines(), plan, NARROW)
    check(narrow[0] == narrow[3] and narrow != [rank[:len(small)] for rank in one], 'not rounded on each level')
    # So does the reference of weir-perf, which has no other way to know the tree.
    finish([two_spines().perf(host, NARROW, '-d', ','.join(small), '-o', 'sum,prod', '-b', '4K', '-e', '4K', '-n', 2,
                              '--levels', 2, '--switches', 3) for host in range(4)])


@case
def three_levels_and_an_authenticated_job():
    with Tree(leaves=4, hosts=1, spines=2, tops=1, above={
            'leaf0': ['spine0'], 'leaf1': ['spine0'], 'leaf2': ['spine1'], 'leaf3': ['spine1'],
            'spine0': ['top0'], 'spine1': ['top0']}) as tree:
        tree.add_job(1, **SMALL, authenticate=True)
        tree.add_job(2, hosts=[1, 2, 3])
        tree.start()
        runs = [tree.perf(host, number, '-C', 'all', '-b', 4, '-e', '4K', '-f', 32, '-n', 2)
                for number, hosts in tree.ranks.items() for host in hosts]
        finish(runs)
        blocks, forged = counted(tree, 'blocks_complete', 1), counted(tree, 'forged', 1)
        check(len(blocks) == 7 and all(blocks.values()) and not any(forged.values()), '%s, forged %s', blocks, forged)
        tree.stop()


# -- failures

def survives(fail, timeout=120000, authenticate=False):
    """Hosts sum on while something fails; all have the right sums in the end."""
    with Tree(leaves=2, hosts=2, spines=2) as tree:
        tree.add_job(1, timeout_ms=200, authenticate=authenticate)
        tree.start()
        loops = Loops(tree, 0, again=4, timeout_ms=timeout)
        loops.runs = [loops.start(host, **({'key': tree.at(host)[0].key(1)} if authenticate else {}))
                      for host in range(tree.hosts)]
        loops.reach(40)
        fail(tree)
        ends = loops.finish()
        for end in ends:
            check(1 <= end['rejoins'] <= 4, '%s', end)
        tree.stop()
        return ends


@case
def a_leaf_is_killed_and_starts_again():
    def fail(tree):
        tree.kill('leaf1')
        tree.start('leaf1')
    for end in survives(fail):  # both racks are told
        check(all('generation' in failure for failure in end['failures']), '%s', end)


@case
def a_spine_dies_and_the_other_carries_on():
    def fail(tree):
        tree.kill('spine1')
        before = above(tree)
        wait_for(lambda: above(tree) > before + 50, 'nothing goes over spine0')
    for end in survives(fail, authenticate=True):
        check(all('generation' in failure for failure in end['failures']), '%s', end)


def above(tree):
    return tree['spine0'].read_stats()['jobs'][0]['blocks_complete']


@case
def a_link_is_cut():
    """The other rack hears of it, although the spine that both have left has nothing to say to it."""
    for end in survives(lambda tree: tree.links['leaf1', 'spine0'].down()):
        check(all('generation' in failure for failure in end['failures']), '%s', end)


if __name__ == '__main__':
    main()
