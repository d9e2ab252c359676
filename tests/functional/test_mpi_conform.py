#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI's collectives on Weir give what MPI says (mpi/conform.c), by Open MPI with the component, and by Open MPI and MPICH
with the preload library: every collective, blocking, nonblocking and persistent, in place, of many types and operations,
on communicators of every kind, by several threads, and with several ranks on a host. A run that offloads too little
fails. WEIR_SEED repeats one."""
from tap import case, check, main, seed, wait_for
from mpi import running
from conform import COLLECTIVES, compiled, conform, digests
SCENARIOS = 'mixed world communicators sends interleaved'


def offloaded(run, least, jobs=0, collectives=COLLECTIVES, total=0):
    """Every rank ran so many of each collective on Weir, and so many of all, in so many jobs; and no job is left. How many
    of one collective there are depends on the seed."""
    check(len(run.reports) >= 4, 'reports of %s', list(run.reports))
    for rank, found in run.reports.items():
        few = {name: found['offloaded'][name] for name in collectives if found['offloaded'][name] < least}
        check(not few, 'rank %d: %d at least on Weir, not %s', rank, least, few)
        check(sum(found['offloaded'].values()) >= total, 'rank %d: not %d on Weir: %s', rank, total, found)
        check(found['jobs'] >= jobs, 'rank %d: %d jobs, not %d', rank, found['jobs'], jobs)
    wait_for(lambda: not run.rack.jobs_now(), 'jobs that stay: %s', run.rack.jobs_now)


def all_of_it(mpi, weir, more=''):
    compiled(mpi)
    draw = seed()
    with running() as rack:
        offloaded(conform(rack, draw, SCENARIOS + more, mpi=mpi, weir=weir), 4,
                  300 if 'in_a_row' in more else 9, total=100)
        state = draw.getstate()
        found = digests(conform(rack, draw, 'tight world', mpi=mpi, weir=weir))
        draw.setstate(state)
        wanted = digests(conform(rack, draw, 'tight world', mpi=mpi, weir=None))
        check(len(wanted) == 4 and found == wanted, 'without Weir %s, not %s', wanted, found)
        if (mpi, weir) != ('openmpi', 'preload'):  # docs/mpi.md, "Threads"
            offloaded(conform(rack, draw, 'threads', mpi=mpi, weir=weir), 1, 4, total=30)


def several_on_a_host(mpi, weir, by_mpi='world interleaved'):
    """by_mpi: scenarios without `flat`, when MPI itself runs some of the nonblocking calls."""
    compiled(mpi)
    draw = seed()
    with running(2) as rack:
        for flat in (0, 1):
            scenarios = 'world interleaved' if flat else by_mpi
            run = conform(rack, draw, scenarios, hosts=2, per_host=2, mpi=mpi, weir=weir, settings={'flat': flat})
            # Data of each rank of its own goes by MPI unless all talk to Weir.
            # Without `world`, no blocking call opens MPI_COMM_WORLD.
            offloaded(run, 1 if flat else 4, 4 if 'world' in scenarios else 3, COLLECTIVES if flat else ('allreduce',))


@case
def open_mpi_with_the_component():
    all_of_it('openmpi', 'component', ' in_a_row invalid')


@case
def open_mpi_with_the_preload_library():
    all_of_it('openmpi', 'preload', ' invalid')


@case
def mpich_with_the_preload_library():
    """Without `invalid`: Debian's MPICH is built without checks of arguments, and crashes."""
    all_of_it('mpich', 'preload')


@case
def several_ranks_on_a_host_of_open_mpi():
    several_on_a_host('openmpi', 'component')


@case
def several_ranks_on_a_host_of_mpich():
    # Its own nonblocking calls of `world` give wrong results: MPICH 4.0 writes into gaps.
    several_on_a_host('mpich', 'preload', 'interleaved')


@case
def spawned_processes():
    """Open MPI's alone: MPICH's MPI_Comm_spawn fails on our hosts. The child's report replaces that of rank 0."""
    compiled('openmpi')
    draw = seed()
    with running(3) as rack:
        # The child shares a host. There the preload library opens a communicator in a blocking call alone.
        conform(rack, draw, 'spawned', hosts=3, weir='preload')
        found = conform(rack, draw, 'spawned', hosts=3).reports[1]['offloaded']
        check(found['allreduce'] > 0 and found['bcast'] > 0, '%s', found)


@case
def more_communicators_than_jobs():
    """270 alive at once: 256 get a job, and the others stay with MPI. A thousand dups that do nothing cost no job."""
    compiled('openmpi')
    draw = seed()
    with running(2, changes={'tables': {'blocks': 65536}, 'memory_mb': 384}) as rack:
        run = conform(rack, draw, 'alive dups', hosts=2)
        for found in run.reports.values():
            on_weir, on_mpi = found['offloaded']['allreduce'], found['mpi']['allreduce']
            # Two by each of 270, and two of `dups`, which may find a free job.
            check(on_weir + on_mpi == 542 and 512 <= on_weir <= 514, '%s', found)
            check(256 <= found['jobs'] <= 258, '%s', found)


@case
def bounds_of_bytes_and_hosts():
    """min_bytes and max_bytes: of the ints of a call, 25 to 75 for Weir; of two slices, 13 to 37, if 2 hosts are enough."""
    draw = seed()
    with running(2) as rack:
        for mpi, weir, least, gathered in (('openmpi', 'component', 2, 25), ('mpich', 'preload', 0, 0)):
            run = conform(rack, draw, 'sizes', hosts=2, mpi=mpi, weir=weir,
                          settings={'min_bytes': 100, 'max_bytes': 300, 'min_hosts': least})
            check(len(run.reports) == 2, '%s', run.output)
            for found in run.reports.values():
                for name, weirs in (('allreduce', 51), ('bcast', 51), ('gather', gathered)):
                    check((found['offloaded'][name], found['mpi'][name]) == (weirs, 100 - weirs), '%s: %s', name, found)


if __name__ == '__main__':
    main()
