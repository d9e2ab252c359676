#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified MPI and PyTorch programs over two racks: the job is made by `weirctl tree create`, and each host knows the URL of
its own leaf and the job's name."""
import contextlib
import re

from tap import case, check, main, seed
import torch_hosts
from conform import compiled, conform, digests
from ctl import ctl, good
from mpi import switch_url
from tree import Tree


@contextlib.contextmanager
def ring():
    """Two racks of two hosts, with a job for all of them."""
    with Tree(leaves=2, hosts=2, spines=2) as tree:
        for leaf in tree.leaves:  # of other communicators than the world's
            leaf.changes['api']['open_jobs'] = 16
        tree.start()
        good(ctl(None, 'tree', 'create', 'ring', '--switches', ','.join(
            '%s=unix:%s' % (switch.label, switch.api_path) for switch in tree), '--sizes', '2,2', '--elements', '256'))
        yield tree
        for spine in 'spine0', 'spine1':
            counters = tree[spine].ask('GET', '/v1/jobs/ring')['counters']
            check(counters['blocks_complete'] > 50, '%s: %s', spine, counters)
        tree.stop()


@case
def open_mpi():
    """The same bytes as without Weir, with the component on all hosts."""
    compiled('openmpi')
    draw = seed()
    state = draw.getstate()
    with ring() as tree:
        run = conform(tree, draw, 'tight world', settings={'job': 'ring', 'min_hosts': 2})
        draw.setstate(state)
        wanted = digests(conform(tree, draw, 'tight world', weir=None))
        check(len(wanted) == 4 and digests(run) == wanted, 'without Weir %s, not %s', wanted, digests(run))
        check(sum(run.offloaded.values()) >= 20, '%s', run.offloaded)
        # All ranks ask the first leaf, as when mpirun passes on its shell's WEIR_SWITCH.
        run = conform(tree, draw, 'tight world', settings={'job': 'ring', 'switch': switch_url(tree), 'contact_ms': 2000})
        check(re.search('MPI_COMM_WORLD with 4 ranks stays on MPI: .* is not in 0..1: .*; each host joins at its own leaf',
                        run.output), '%s', run.output)


@case
def pytorch():
    """Every call gives gloo's result, and runs in the switches."""
    with ring() as tree:
        torch_hosts.start(tree, 'calls', place=0, WEIR_JOB='ring', MASTER_ADDR=tree.address(0),
                         WEIR_SWITCHES=' '.join(tree.at(host)[0].api_url for host in range(tree.hosts))).wait(60)


if __name__ == '__main__':
    main()
