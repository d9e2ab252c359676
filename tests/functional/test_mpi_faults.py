#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI programs on Weir when something fails: packets are lost, a rank or mpirun is killed, the switch is killed and comes
back, or was never there."""
import os
import re
import signal

from tap import case, check, main, seed, wait_for
from mpi import MpiRack
from rack import Api
from conform import begin, compiled, conform

# Open MPI lets the others live when a rank is killed.
ALIVE = {'orte_enable_recovery': 1, 'orte_abort_on_non_zero_status': 0}
# Members that are silent for so long are gone.
SOON = {'WEIR_SETTINGS': 'expire_s=2'}
TEXT = re.compile(r'failed (\d+), again 1: (.*)')


def running(run, ranks):
    wait_for(lambda: run.output.count('running ') == ranks, 'not all run: %s', lambda: run.output)


def ended(run, ranks):
    """What the ranks said of their error: {rank: text}."""
    wait_for(lambda: len(TEXT.findall(run.output)) == ranks, '%d errors: %s', ranks, lambda: run.output)
    return dict(TEXT.findall(run.output))


def no_job_stays(rack):
    wait_for(lambda: not rack.jobs_now(), 'jobs that stay: %s', rack.jobs_now)


@case
def lost_packets():
    compiled('openmpi')
    draw = seed()
    with MpiRack(hosts=4) as rack:
        rack.start_switch()
        Api(rack.api_path).ask('PUT', '/v1/faults', {'seed': draw.getrandbits(31), 'rules': [
            {'direction': way, 'action': 'drop', 'chance_ppm': 10000, 'what': what}
            for way, what in (('in', 'contribution'), ('out', 'result'))]})
        run = conform(rack, draw, 'mixed world communicators interleaved')
        check(sum(run.offloaded.values()) > 200, '%s', run.offloaded)
        drops = rack.read_stats()['drops']['fault_drop']
        check(drops > 0, 'nothing was lost')
        rack.stop_switch()


@case
def a_rank_is_killed():
    compiled('openmpi')
    draw = seed()
    with MpiRack(hosts=3) as rack:
        rack.start_switch()
        run = begin(rack, draw, 'until_error', hosts=3, mca=ALIVE, ranks=SOON)
        running(run, 3)
        os.kill(run.pids()['1'], signal.SIGKILL)
        for rank, text in ended(run, 2).items():
            check('weir' in text.lower() and 'rank 1' in text, 'rank %s: %s', rank, text)
        run.process.kill()
        no_job_stays(rack)
        rack.stop_switch()


@case
def the_switch_is_killed_and_comes_back():
    compiled('openmpi')
    draw = seed()
    with MpiRack(hosts=2) as rack:
        rack.start_switch()
        run = begin(rack, draw, 'until_error', hosts=2, mca=ALIVE, settings={'timeout_s': 5})
        running(run, 2)
        rack.switch.signal(signal.SIGKILL)
        for rank, text in ended(run, 2).items():
            check('weir' in text.lower(), 'rank %s: %s', rank, text)
        run.process.end(60)
        rack.start_switch()
        again = conform(rack, draw, 'interleaved', hosts=2)
        check(again.offloaded['allreduce'] > 0, '%s', again.offloaded)
        rack.stop_switch()


@case
def mpirun_is_killed():
    compiled('openmpi')
    draw = seed()
    with MpiRack(hosts=2) as rack:
        rack.start_switch()
        run = begin(rack, draw, 'until_error', hosts=2, ranks=SOON)
        running(run, 2)
        check(rack.jobs_now(), 'no job')
        os.kill(run.mpirun_pid(), signal.SIGKILL)
        no_job_stays(rack)
        rack.stop_switch()


@case
def no_switch():
    """At an address that does not answer, and at a port that refuses: MPI runs everything."""
    draw = seed()
    for mpi, weir in (('openmpi', 'component'), ('mpich', 'preload')):
        compiled(mpi)
        with MpiRack(hosts=2) as rack:
            rack.start_switch()
            for address in ('http://10.77.0.77:8080', 'http://10.77.0.254:9'):
                run = conform(rack, draw, 'interleaved', hosts=2, mpi=mpi, weir=weir, env={'WEIR_SWITCH': address},
                              ranks={'WEIR_SWITCH': address}, settings={'contact_ms': 0, 'verbose': 1})
                check(len(run.reports) == 2, '%s', run.reports)
                for found in run.reports.values():
                    check(not any(found['offloaded'].values()) and found['mpi']['allreduce'] > 0, '%s', found)
                check(re.search('weir: .*%s' % re.escape(address[7:20]), run.output), 'does not say why: %s', run.output)
                print('# %s: %s' % (mpi, re.search('ok interleaved.*', run.output).group()))
            rack.stop_switch()


if __name__ == '__main__':
    main()
