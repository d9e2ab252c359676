#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The preload libraries: every interface and way to load MPI is served, processes of another MPI or of none are left
alone, and requests do what MPI promises. What the collectives compute is tested elsewhere."""
import functools
import os
import shutil
import subprocess
import sys
import tempfile

from tap import Skip, case, check, main
from rack import Api
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
    path = os.path.join(folder.name, '%s-%s%s' % (source.partition('.')[0], mpi, '.so' if options else ''))
    done = subprocess.run([compiler, '-O1', '-w', '-pthread', *options, '-o', path, os.path.join(PROGRAMS, source)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    check(done.returncode == 0, '%s', done.stdout)
    return path


def local(words, libraries, seconds=60):
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
    """The library says so once, and what to preload instead; both together are silent."""
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
            check(status == 0 and 'good' in out and 'weir:' not in error, '%s: %d\n%s%s', mpi, status, out, error)


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
    served('mpif90.%s', lambda mpi: [compiled(mpi, 'interfaces.f90')], {'allreduce': 9, 'barrier': 6})


REQUESTS = {'allgather': 2, 'allreduce': 42, 'barrier': 38}  # of nonblocking.c


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
            lines = [line for line in run.wait().splitlines() if line.startswith('rank ')]
            check(len(lines) == 2 and all('Weir' in line for line in lines), '%s', run.output)


if __name__ == '__main__':
    main()
