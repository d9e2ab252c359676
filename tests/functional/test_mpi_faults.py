#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI programs on Weir when something fails: packets are lost, a rank or mpirun is killed, the switch is killed and comes
back, or was never there."""
import contextlib
import os
import re
import signal

from tap import case, check, main, seed, wait_for
from mpi import open_mpi, running, start
from rack import Api
from conform import begin, compiled, conform, folder, words

# Open MPI lets the others live when a rank is killed.
ALIVE = {'orte_enable_recovery': 1, 'orte_abort_on_non_zero_status': 0}, {'mpi_ft_enable': 1, 'state_base_recoverable': 1}  # 4.1, 5.0
# Members that are silent for so long are gone.
SOON = {'WEIR_SETTINGS': 'expire_s=3'}
TEXT = re.compile(r'failed (\d+), again 1: (.*)')


@contextlib.contextmanager
def reducing(hosts=2, per_host=1, **options):
    """A rack and a Run of ranks that reduce until it fails."""
    compiled('openmpi')
    with running(hosts) as rack:
        run = begin(rack, seed(), 'until_error', hosts=hosts, per_host=per_host, mca=ALIVE[open_mpi() >= 5], **options)
        wait_for(lambda: run.output.count('running ') == hosts * per_host, 'not all run: %s', lambda: run.output)
        check(rack.jobs_now(), 'no job')
        yield rack, run


def failed(run, ranks, *words):
    """So many ranks fail, with these words in the text of the error."""
    wait_for(lambda: len(TEXT.findall(run.output)) == ranks, '%d errors: %s', ranks, lambda: run.output)
    for rank, text in TEXT.findall(run.output):
        check(all(word in text for word in ('Weir', *words)), 'rank %s: %s', rank, text)


@case
def lost_packets():
    compiled('openmpi')
    draw = seed()
    with running() as rack:
        Api(rack.api_path).ask('PUT', '/v1/faults', {'seed': draw.getrandbits(31), 'rules': [
            {'direction': way, 'action': 'drop', 'chance_ppm': 10000, 'what': what}
            for way, what in (('in', 'contribution'), ('out', 'result'))]})
        run = conform(rack, draw, 'mixed world communicators interleaved')
        check(sum(run.offloaded.values()) > 120, '%s', run.offloaded)
        check(rack.read_stats()['drops']['fault_drop'] > 0, 'nothing was lost')


@case
def a_rank_is_killed():
    with reducing(3, weir='preload', ranks=SOON) as (_, run):
        os.kill(run.pids()['1'], signal.SIGKILL)
        failed(run, 2, 'rank 1')


@case
def a_leader_is_killed():
    """Of two ranks on its host. Both of the other host fail; its own waits in MPI."""
    compiled('openmpi')
    # Open MPI 5 refuses later calls itself, before its components.
    with reducing(2, 2, weir='preload' if open_mpi() >= 5 else 'component', ranks=SOON) as (_, run):
        os.kill(run.pids()['1'], signal.SIGKILL)
        failed(run, 2, 'rank 1')


@case
def mpirun_is_killed():
    """No job stays."""
    with reducing(ranks=SOON) as (rack, run):
        os.kill(run.mpirun_pid(), signal.SIGKILL)
        wait_for(lambda: not rack.jobs_now(), 'jobs that stay: %s', rack.jobs_now)


@case
def the_switch_is_killed_and_comes_back():
    """The program goes on with a new communicator, on Weir."""
    go_on = os.path.join(folder.name, 'go-on')
    with reducing(settings={'timeout_s': 3}, ranks={'GO_ON': go_on}) as (rack, run):
        rack.switch.signal(signal.SIGKILL)
        failed(run, 2)
        rack.start_switch()
        with open(go_on, 'w'):
            run.wait()
        check(len(run.reports) == 2, '%s', run.output)
        for found in run.reports.values():
            check(found['jobs'] == 2 and found['mpi']['allreduce'] == 7, '%s', found)


@case
def a_job_that_was_kept_is_gone():
    """Deleted, or with the switch: the next communicator of the same ranks gets another one."""
    draw = seed()
    with running(2) as rack:
        for mpi, weir, way in (('openmpi', 'component', 'deleted'), ('mpich', 'preload', 'restarted')):
            go_on = os.path.join(folder.name, '-'.join((mpi, weir, way)))
            run = begin(rack, draw, 'later', hosts=2, mpi=mpi, weir=weir, ranks={'GO_ON': go_on}, settings={'timeout_s': 3})
            wait_for(lambda: run.output.count('freed ') == 2, 'not freed: %s', lambda: run.output)
            kept = rack.jobs_now()
            check(len(kept) == 1, 'jobs: %s', kept)
            if way == 'deleted':
                Api(rack.api_path).ask('DELETE', '/v1/jobs/' + list(kept)[0])
            else:
                rack.switch.kill()
                rack.start_switch()
            with open(go_on, 'w'):
                run.wait()
            check(len(run.reports) == 2, '%s', run.output)
            for found in run.reports.values():
                check((found['jobs'], found['reused'], found['offloaded']['allreduce']) == (2, 0, 18), '%s, %s: %s\n%s',
                      mpi, way, found, run.output)


@case
def no_switch():
    """At an address that does not answer, and at a port that refuses: MPI runs everything, or with WEIR_REQUIRE the program ends."""
    draw = seed()
    with running(2) as rack:
        for mpi, weir, address in (('openmpi', 'component', '10.77.0.77:8080'), ('mpich', 'preload', '10.77.0.254:9')):
            switch = {'WEIR_SWITCH': 'http://' + address}
            run = conform(rack, draw, 'interleaved', hosts=2, mpi=mpi, weir=weir, env=switch, ranks=switch,
                          settings={'contact_ms': 0, 'verbose': 1})
            check(len(run.reports) == 2, '%s', run.reports)
            for found in run.reports.values():
                check(not any(found['offloaded'].values()) and found['mpi']['allreduce'] > 0, '%s', found)
            check(re.search('weir: .*' + re.escape(address), run.output), 'does not say why: %s', run.output)
            run = start(rack, words(mpi, draw, 24, 'interleaved'), hosts=2, mpi=mpi, weir=weir, env={**switch, 'WEIR_REQUIRE': '1'},
                        ranks={**switch, 'WEIR_REQUIRE': '1'}, settings={'contact_ms': 0, 'min_hosts': 2})
            check(run.process.end(60) != 0 and re.search('cannot use the switch.*: .*' + re.escape(address), run.output) and
                  'ok interleaved' not in run.output, 'WEIR_REQUIRE: %s', run.output)


@case
def one_host_cannot_join():
    """MPI_COMM_WORLD is opened, or a communicator by each of four threads, and all ranks stay on MPI; each says once why."""
    draw = seed()
    with running() as rack:
        Api(rack.api_path).ask('PUT', '/v1/faults', {'rules': [
            {'direction': 'in', 'port': 'p1', 'action': 'drop', 'what': 'contribution'}]})
        for mpi, weir, scenario, communicators in (('openmpi', 'component', 'empty', 1), ('mpich', 'preload', 'threads', 4)):
            run = conform(rack, draw, 'tight ' + scenario, mpi=mpi, weir=weir, settings={'contact_ms': 800, 'verbose': 1})
            check(run.output.count('stays on MPI: ') == communicators, '%s', run.output)
            for found in run.reports.values():
                check(not any(found['offloaded'].values()) and found['mpi']['allreduce'] > 0, '%s', found)


if __name__ == '__main__':
    main()
