#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The preload libraries: every interface and way to load MPI is served, processes of another MPI or of none are left
alone, and requests do what MPI promises. Arguments that few programs pass, also with Open MPI's component. What the
collectives compute is tested elsewhere."""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tap import Skip, case, check, main
from rack import ROOT, Api
from mpi import mpirun, running, start

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, 'mpi')
LIBRARIES = os.path.join(os.environ['WEIR_BUILD'], 'apps', 'mpi', 'pmpi')
MPIS = ('openmpi', 'mpich')
TEXT = {'openmpi': 'Open MPI', 'mpich': 'MPICH'}
OTHER = {'openmpi': 'mpich', 'mpich': 'openmpi'}
# Ranks on this host, without a network.
LOCAL = {'openmpi': ['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '--mca', 'btl', 'self,vader',
                     '--mca', 'mpi_yield_when_idle', '1', '-n', '2'],
         'mpich': ['mpirun.mpich', '-n', '2']}
folder = tempfile.TemporaryDirectory()  # of programs
# Weir, whatever the size, and with words on why not.
SETTINGS = {'min_hosts': 2, 'verbose': 1}


def library(mpi):
    return os.path.join(LIBRARIES, 'libweir-mpi-%s.so' % mpi)


def need(mpi, *programs):
    for program in (LOCAL[mpi][0], *programs):
        if not shutil.which(program):
            raise Skip('%s is not installed (.ci/install packages.mpi)' % program)
    if not os.path.exists(library(mpi)):
        raise Skip('%s is not built' % library(mpi))


@functools.cache
def compiled(mpi, source, *options):
    """The path of a program."""
    compiler = ('mpif90.' if source.endswith('.f90') else 'mpicc.') + mpi
    need(mpi, compiler)
    path = os.path.join(folder.name, '%s-%s%s' % (source.partition('.')[0], mpi, '.so' if '-shared' in options else ''))
    done = subprocess.run([compiler, '-O1', '-w', '-pthread', '-I' + ROOT, *options, '-o', path, os.path.join(PROGRAMS, source)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800, check=False)
    check(done.returncode == 0, '%s', done.stdout)
    return path


def local(words, libraries, seconds=800):
    """A command on this host: (exit status, what it prints, what it prints as errors)."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(('WEIR_', 'OMPI_'))}
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds, check=False,
                          env={**env, 'LD_PRELOAD': ':'.join(libraries), 'LD_BIND_NOW': '1'})
    return done.returncode, done.stdout, done.stderr


def each(*programs):
    """The MPIs that are here; skips if there is none."""
    found, why = [], []
    for mpi in MPIS:
        try:
            need(mpi, *[program % mpi for program in programs])
            found.append(mpi)
        except Skip as missing:
            why.append(str(missing))
    if not found:
        raise Skip('; '.join(why))
    return found


def served(needed, program, wanted, ranks=2):
    """Run on a rack, by each MPI; every rank must have offloaded this and left nothing to MPI."""
    mpis = each(needed)
    with running(ranks) as rack:
        for mpi in mpis:
            run = mpirun(rack, program(mpi), hosts=ranks, mpi=mpi, weir='preload', settings=SETTINGS)
            check('good' in run.output, '%s', run.output)
            check(len(run.reports) == ranks, '%d reports: %s', len(run.reports), run.output)
            for rank, report in run.reports.items():
                found = {key: value for key, value in report['offloaded'].items() if value}
                check(found == wanted, '%s, rank %d: on Weir %s, not %s\n%s', mpi, rank, found, wanted, run.output)
                check(not any(report['mpi'].values()), '%s, rank %d: on MPI %s', mpi, rank, report['mpi'])


@case
def other_programs():
    """Without MPI nothing changes, not even where all symbols are looked up at the start."""
    for mpi in each():
        for words in (['sh', '-c', 'echo out; echo err >&2; exit 3'], [sys.executable, '-c', 'print(1)'],
                      [LOCAL[mpi][0], '--version'], [LOCAL[OTHER[mpi]][0], '--version']):
            if shutil.which(words[0]):
                plain, preloaded = local(words, []), local(words, [library(mpi)])
                check(plain == preloaded, '%s: %s, not %s', ' '.join(words), preloaded, plain)


@case
def wrong_mpi():
    """The library says so once, and what to preload instead; of both together, the right one runs."""
    for mpi in each('mpicc.%s'):
        wrong = library(OTHER[mpi])
        if not os.path.exists(wrong):
            raise Skip('%s is not built' % wrong)
        words = LOCAL[mpi] + [compiled(mpi, 'nonblocking.c')]
        status, out, error = local(words, [wrong])
        check(status == 0 and 'good' in out, '%s: %d\n%s%s', mpi, status, out, error)
        check(error.count('weir:') == 1 and TEXT[mpi] in error and
              'preload libweir-mpi-%s.so' % mpi in error, '%s', error)
        for libraries in ([wrong, library(mpi)], [library(mpi), wrong]):
            status, out, error = local(words, libraries)
            check(status == 0 and 'good' in out and error.count('weir:') == 1 and 'WEIR_SWITCH is not set' in error,
                  '%s: %d\n%s%s', mpi, status, out, error)


@case
def half_installed():
    """Without the offload library the program runs on MPI."""
    for mpi in each('mpicc.%s'):
        alone = shutil.copy(library(mpi), folder.name)
        status, out, error = local(LOCAL[mpi] + [compiled(mpi, 'nonblocking.c')], [alone])
        check(status == 0 and 'good' in out, '%d\n%s%s', status, out, error)
        check(error.count('weir:') == 1 and 'libweir-mpi-%s-offload.so' % mpi in error, '%s', error)


@case
def fortran():
    """mpif.h, use mpi and use mpi_f08."""
    served('mpif90.%s', lambda mpi: [compiled(mpi, 'interfaces.f90', '-cpp')], {'allreduce': 12, 'barrier': 9})


REQUESTS = {'allgather': 2, 'allreduce': 48, 'barrier': 37}  # of nonblocking.c


@case
def requests():
    served('mpicc.%s', lambda mpi: [compiled(mpi, 'nonblocking.c')], REQUESTS, 3)


@case
def loaded_at_run_time():
    """As in Python, MPI comes with a library that a program without MPI loads for itself alone."""
    load = 'import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).main(1, (ctypes.c_char_p * 2)(b"program", None)))'
    served('mpicc.%s', lambda mpi: ['/usr/bin/python3', '-c', load, compiled(mpi, 'nonblocking.c', '-shared', '-fPIC')],
           REQUESTS)


@case
def several_on_a_host():
    """Whatever runs on Weir, requests complete."""
    mpis = each('mpicc.%s')
    with running(2) as rack:
        for mpi in mpis:
            run = mpirun(rack, [compiled(mpi, 'nonblocking.c')], hosts=2, per_host=2, mpi=mpi, weir='preload',
                         settings=SETTINGS)
            check('good' in run.output and run.offloaded['barrier'] > 0, '%s', run.output)


@case
def errors():
    """A job is deleted: the error has Weir's text and reaches the communicator's own error handler."""
    mpis = each('mpicc.%s')
    with running(2) as rack:
        for mpi in mpis:
            run = start(rack, [compiled(mpi, 'nonblocking.c'), 'fail'], hosts=2, mpi=mpi, weir='preload',
                        settings=SETTINGS)
            run.process.wait_line('running', 60)
            for name in rack.jobs_now():
                Api(rack.api_path).ask('DELETE', '/v1/jobs/' + name)
            # mpirun forwards the ranks' texts in pieces: a line may begin behind another rank's.
            ranks = re.findall(r'rank (\d+): Weir: ', run.wait())
            check(sorted(ranks) == ['0', '1'], '%s', run.output)


def by_each(source, *words, only=None, hosts=2, per_host=1, **more):
    """A program: (name, run) by the component and by each preload library, or by those of one MPI."""
    mpis = [mpi for mpi in each('mpicc.%s') if only in (None, mpi)]
    if not mpis:
        raise Skip('%s is not installed (.ci/install packages.mpi)' % only)
    with running(hosts) as rack:
        for mpi, weir in [('openmpi', 'component'), *[(mpi, 'preload') for mpi in MPIS]]:
            if mpi in mpis:
                run = mpirun(rack, [compiled(mpi, source), *words], hosts=hosts, per_host=per_host, mpi=mpi, weir=weir,
                             settings={**SETTINGS, **more})
                check('good' in run.output, '%s of %s: %s', weir, mpi, run.output)
                yield '%s of %s' % (weir, mpi), run


def in_flight(what, rounds, hosts, per_host, wanted, left=0):
    """nonblocking.c: so many allreduces run in the switch, and so many on MPI."""
    for name, run in by_each('nonblocking.c', what, str(rounds), hosts=hosts, per_host=per_host):
        check(len(run.reports) == hosts * per_host, '%s: %s', name, run.output)
        for rank, report in run.reports.items():
            found = [report[way]['allreduce'] for way in ('offloaded', 'mpi')]
            check(found == [wanted, left], '%s, rank %d: %s\n%s', name, rank, report, run.output)
        yield name, run


@case
def others_in_flight():
    """A communicator is opened while collectives that stay on MPI are in flight there."""
    list(in_flight('mixed', 3, 2, 1, 36))


@case
def idup_in_flight():
    """Open MPI's MPI_Comm_idup takes part in the order of nonblocking collectives, from MPI's progress."""
    list(in_flight('idup', 10, 3, 2, 32, 30))


@case
def nonblocking_alone_and_several_on_a_host():
    list(in_flight('one_by_one', 20, 2, 2, 60))


@case
def persistent_in_different_orders():
    """MPI 4 leaves the order of MPI_Start to each rank, so such operations stay on MPI. The component says so."""
    for name, run in in_flight('persistent', 4, 2, 1, 3):
        said = run.output.count('it is persistent')
        check(said == ('component' in name), '%s: %s', name, run.output)


def arguments(what, only=None, hosts=2, **more):
    return by_each('arguments.c', what, only=only, hosts=hosts, per_host=2 // hosts, **more)


@case
def absolute_addresses():
    """MPI_BOTTOM, also with extents that are negative."""
    for name, run in arguments('absolute'):
        found = {key: value for key, value in run.offloaded.items() if value}
        check(found == {'bcast': 4, 'scatter': 4, 'gather': 4, 'allgather': 8, 'alltoall': 4}, '%s: %s\n%s', name, found,
              run.output)


@case
def elements_far_apart():
    """Weir copies them by MPI_Pack and MPI_Unpack, which Open MPI 5.0 gets wrong, and a program without Weir does not."""
    for name, run in arguments('spread'):
        check(run.offloaded['allgather'] == 1, '%s: %s\n%s', name, run.offloaded, run.output)


@case
def refused_arguments():
    """MPI itself reports what is not valid, and the calls around it run on Weir."""
    for name, run in arguments('refused'):
        check(run.offloaded['allreduce'] == 1 and run.offloaded['gather'] == 2, '%s: %s\n%s', name, run.offloaded, run.output)


@case
def collectives_inside_of_mpi():
    """Only the component has what MPI-IO does, and what calls the MPI library's own symbol."""
    path = os.path.join(folder.name, 'written')
    for name, run in by_each('arguments.c', 'inside', path, only='openmpi'):
        found = {key: value for key, value in run.offloaded.items() if value}
        if name.startswith('component'):
            check(found['allreduce'] >= 20 and found['bcast'] > 0 and found['barrier'] > 0, '%s: %s\n%s', name, found, run.output)
        else:
            check(not found, '%s: %s\n%s', name, found, run.output)


@case
def sessions():
    """Rank 0 says that a communicator of a session stays on MPI."""
    for name, run in arguments('session', 'mpich'):
        check(run.output.count('a test with 2 ranks stays on MPI: it is made of a session') == 1, '%s: %s', name, run.output)


@case
def reasons():
    """Why calls stay on MPI is said once for each reason, by rank 0."""
    for name, run in arguments('reasons', min_bytes=64, min_hosts=3):
        check(run.offloaded['barrier'] == 2, '%s: %s', name, run.output)
        check(run.output.count(' runs on MPI, ') == 3, '%s: %s', name, run.output)
        for text in ('no such operation', 'smaller than min_bytes', 'fewer hosts than min_hosts'):
            check(run.output.count(text) == 1, '%s: %s: %s', name, text, run.output)
    for name, run in arguments('reasons', hosts=1, verbose=0):
        check(run.output.count('MPI_COMM_WORLD with 2 ranks stays on MPI: all its ranks are on one host') == 1 and
              run.output.count('flat') == 1, '%s: %s', name, run.output)


@case
def overflows_and_nans():
    """Results are the switch's, whether ranks share a host or not."""
    for flat in (0, 1):
        for name, run in by_each('arguments.c', 'values', per_host=2, flat=flat):
            # Open MPI makes communicators with calls of its own.
            few = [key for key in ('allreduce', 'reduce', 'reduce_scatter_block') if run.offloaded[key] < 32]
            check(not few, '%s, flat %d: %s\n%s', name, flat, few, run.output)


@case
def other_results_of_mpi():
    """The table in docs/mpi.md: each MPI without Weir, on this host."""
    for mpi in each('mpicc.%s'):
        status, out, error = local(LOCAL[mpi] + [compiled(mpi, 'arguments.c'), 'table'], [])
        rows = re.findall(r'^MPI_\w+ of MPI_\w+, each rank.*: (?:as Weir|\d+ of 3000 otherwise, as \S+)$', out, re.MULTILINE)
        check(status == 0 and len(rows) == 22, '%s: %d rows\n%s%s', mpi, len(rows), out, error)
        for row in rows:
            print('# %s: %s' % (mpi, row))


if __name__ == '__main__':
    main()
