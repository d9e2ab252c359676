#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Racks of racks: two racks of four hosts, two spines, and the gradients of ResNet-50, AllReduced over all eight hosts.

    demo_tree.py [BUILD]

As demo.py, on four switches with the configurations configs/tree/. The links between the switches have to carry a quarter of
what the hosts of a rack send, an eighth for each spine.
"""
import os
import sys

from demo import CONFIG, HOSTS, MTU, exercise, expect, main, own_config, print_wire, say, slow, tensors
from tree import Tree

LEAVES, SPINES = 2, 2
ITERATIONS = 2
CONFIGS = os.path.join(os.path.dirname(CONFIG), 'tree')
MORE = 0.1  # what repetitions and pings may add


def counters(tree):
    return [tree.wire(host) for host in range(tree.hosts)], tree.carried()


def print_links(tree, before, after):
    """Bytes on each link between switches, and the shares that they are of what the leaf's hosts send and receive."""
    (hosts, links), (hosts_then, links_then) = after, before
    share = 1 / HOSTS / SPINES
    print('# Bytes between the switches per AllReduce, and what share that is of what the hosts of this leaf send')
    print('# and receive: one packet up for %d of them, by one of %d spines: 1/%d.' % (HOSTS, SPINES, HOSTS * SPINES))
    print('#')
    print('# %14s %12s %12s %12s %12s' % ('link', 'up MB', 'of hosts\'', 'down MB', 'of hosts\''))
    for leaf in tree.leaves:
        first = tree.leaves.index(leaf) * HOSTS
        own = [sum(hosts[h][key] - hosts_then[h][key] for h in range(first, first + HOSTS)) for key in ('tx_bytes', 'rx_bytes')]
        total = [0, 0]
        for spine in leaf.parents:
            names = leaf.label, spine.label
            carried = [now - then for now, then in zip(links[names], links_then[names])]
            total = [a + b for a, b in zip(total, carried)]
            print_link('%s, %s' % names, carried, own, share)
        print_link('%s, all' % leaf.label, total, own, 1 / HOSTS)
    print('#', flush=True)


def print_link(name, carried, own, share):
    found = [bytes / of for bytes, of in zip(carried, own)]
    print('  %14s %12.1f %12.4f %12.1f %12.4f' % (name, carried[0] / ITERATIONS / 1e6, found[0],
                                                carried[1] / ITERATIONS / 1e6, found[1]))
    for way, one in zip(('up', 'down'), found):
        expect(slow.is_set() or abs(one / share - 1) < MORE, '%s: %.4f of the hosts\' bytes %s, not %.4f' % (name, one, way, share))


def demo_tree(build):
    with Tree(build=build, leaves=LEAVES, hosts=HOSTS, spines=SPINES, mtu=MTU) as tree:
        say('%d racks of %d hosts in network namespaces, %d spines, links of MTU %d' % (LEAVES, HOSTS, SPINES, MTU))
        for switch in tree:
            path, address = own_config(switch, os.path.join(CONFIGS, switch.label + '.json'))
            switch.start_switch(path)
            say('%s is up with configs/tree/%s.json: weirctl -s %s status' % (switch.label, switch.label, address))
        for host in range(tree.hosts):
            tree.ping(host, tree.at(host)[0].switch_address, count=1)
        before, after = exercise(tree, tree.hosts - 1, 2, (1, tree.hosts - 2), lambda: counters(tree), ITERATIONS)
        print_wire(tree.hosts, before[0], after[0], ITERATIONS)
        print_links(tree, before, after)
        for switch in tree:
            switch.check_packets()
        tree.stop()


if __name__ == '__main__':
    sys.exit(main(demo_tree))
