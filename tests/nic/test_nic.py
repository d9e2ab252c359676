#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-switch on network cards that vfio-pci owns, in a guest of QEMU with an IOMMU: see guest.py.

One guest serves all cases; each starts the switch on some of its cards. The cards' hosts are 2i and
2i + 1 for KINDS[i].
"""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'functional'))

from checks import by_the_way, ping_sizes, reduce
from guest import CARDS, Guest, here, missing
from perf import finish, start, under_way
from tap import Skip, case, check, main, wait_for
from rack import job

PARTIAL = 3  # weir-perf's exit status when some sums were partial

KINDS = [kind for kind in CARDS if here(kind)]
ALL = range(2 * len(KINDS))
JUMBO = 9000
guest = []  # the one guest, once it is there


def booted():
    """The guest, its cards bound."""
    if missing():
        raise Skip('needs %s (.ci/install packages.nic, .ci/kernel build-nic/kernel)' % ', '.join(missing()))
    if not guest:
        made = Guest([kind for kind in KINDS for _ in range(2)])
        made.__enter__()
        guest.append(made)
        made.bind()
    return guest[0]


class Running:
    """The switch on these hosts' cards; in the end packets add up, at rest and after an orderly stop."""

    def __init__(self, hosts, jobs, mtu=1500, workers=1, **more):
        self.rack = booted()
        self.rack.use(hosts, jobs, mtu, workers, **more)

    def __enter__(self):
        self.rack.start_switch()
        return self.rack

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.rack.check_packets()
                self.rack.stop_switch()
        finally:
            self.rack.end_switch()


def cards(kind):
    if kind not in KINDS:
        raise Skip('this QEMU has no %s' % kind)
    first = 2 * KINDS.index(kind)
    return [first, first + 1]


def sizes(kind, mtu, elements, **more):
    hosts = cards(kind)
    jobs = [job(1 + i, 2, first=hosts[0], elements=e) for i, e in enumerate(elements)]
    with Running(hosts, jobs, mtu, **more) as rack:
        for number, count in enumerate(elements, 1):
            reduce(rack, number, hosts, count)
        ping_sizes(rack, hosts)
        by_the_way(rack, hosts)


def of_each_kind(name, *shape, only=tuple(CARDS), **more):
    for kind in only:
        def run(kind=kind):
            sizes(kind, *shape, **more)
        run.__name__ = '%s_%s' % (kind, name)
        case(run)


SMALL = [1, 128, 129, 256, 364]
LARGE = [129, 1024, 2239]
of_each_kind('sums_blocks_of_all_sizes', 1500, SMALL)
of_each_kind('sums_jumbo_frames', JUMBO, LARGE)
of_each_kind('sums_with_two_workers_and_queues', 1500, [128, 256], workers=2, queues=2, only=['virtio'])


def quiet(rack, hosts):
    """A job of these hosts goes on as if nothing were the matter."""
    finish(start(rack, 2, hosts, '-b', '256k', '-e', '256k', '-n', 4, '-w', 0, '-d', 'int32'))


def blocks(rack, number):
    """How many of a job the switch has sent, with all hosts or without some."""
    return sum(j['blocks_complete'] + j['blocks_partial'] for j in rack.read_stats()['jobs'] if j['id'] == number)


def disturbed(kind, disturb, mend=None):
    """A host of a job, behind a card of this kind, is disturbed. The job goes on, and so does job 2, behind other cards."""
    victim = cards(kind)[1]
    booted()
    if len(KINDS) < 2:
        raise Skip('needs two kinds of cards')
    beside = list(ALL[:2] if victim > 1 else ALL[-2:])
    others = [host for host in ALL if host not in beside]
    jobs = [job(1, len(others), first=others[0], policy='partial', dead_after_ms=2000, timeout_ms=100),
            job(2, 2, first=beside[0])]
    with Running(ALL, jobs) as rack:
        runs = start(rack, 1, others, '-b', '256k', '-e', '256k', '-n', 100000, '-w', 0, '-d', 'int32', '--partial', 'as-is')
        under_way(rack, runs, 1)
        disturb(rack, victim, runs[others.index(victim)])
        wait_for(lambda: any(j['expelled'] for j in rack.read_stats()['jobs']), 'nobody was expelled')
        quiet(rack, beside)
        before = blocks(rack, 1)
        wait_for(lambda: blocks(rack, 1) > before + 100, 'job 1 does not go on: %s', rack.read_stats)
        for run in runs:
            run.kill()
        if mend:
            mend(rack, victim)

        # The first blocks may be partial, where a link needs its time; soon all are complete.
        def is_whole():
            last = start(rack, 1, others, '-b', '64k', '-e', '64k', '-n', 4, '-w', 0, '-d', 'int32', '--partial', 'as-is')
            for run in last:
                check(run.end(60) in (0, PARTIAL), '%s', run.output)
            return all(run.status == 0 for run in last) and finish(last)
        wait_for(is_whole, 'blocks of job 1 stay partial: %s', rack.read_stats)


@case
def virtio_a_killed_host_stops_nobody():
    disturbed('virtio', lambda rack, host, run: run.kill())


@case
def e1000e_a_paused_host_stops_nobody():
    disturbed('e1000e', lambda rack, host, run: run.signal(signal.SIGSTOP))


for each in KINDS:
    def unplugged(kind=each):
        disturbed(kind, lambda rack, host, run: rack.plug(host, False), lambda rack, host: rack.plug(host, True))
    unplugged.__name__ = each + '_an_unplugged_host_stops_nobody'
    case(unplugged)


if __name__ == '__main__':
    main()
