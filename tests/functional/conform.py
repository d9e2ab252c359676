# SPDX-License-Identifier: BSD-3-Clause
"""mpi/conform.c, compiled for an MPI and run on a rack."""
import functools
import os
import re
import shutil
import subprocess
import tempfile

from tap import Skip, check
from mpi import mpirun, start
from rack import ROOT

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mpi')
COLLECTIVES = ('allreduce', 'reduce', 'reduce_scatter_block', 'bcast', 'scatter', 'gather', 'allgather', 'alltoall',
               'barrier')
PLUGINS = os.path.join(os.environ['WEIR_BUILD'], 'apps', 'mpi')
folder = tempfile.TemporaryDirectory()


@functools.cache
def compiled(mpi):
    """The program's path; skips the case where this MPI is not installed or Weir's part for it is not built."""
    for name in ('mpicc.' + mpi, 'mpirun.' + mpi):
        if not shutil.which(name):
            raise Skip('%s is not installed (.ci/install packages.mpi)' % name)
    if not os.path.exists(os.path.join(PLUGINS, 'pmpi', 'libweir-mpi-%s.so' % mpi)):
        raise Skip('Weir for %s is not built' % mpi)
    path = os.path.join(folder.name, 'conform-' + mpi)
    done = subprocess.run(['mpicc.' + mpi, '-std=gnu11', '-D_GNU_SOURCE', '-O1', '-w', '-pthread', '-I' + ROOT, '-o', path] +
                          [os.path.join(HERE, name) for name in ('conform.c', 'types.c', 'collectives.c')] + ['-lm'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800, check=False)
    check(done.returncode == 0, '%s', done.stdout)
    return path


def words(mpi, draw, calls, scenarios):
    return [compiled(mpi), str(draw.getrandbits(32)), str(calls)] + scenarios.split()


def begin(rack, draw, scenarios, calls=24, mpi='openmpi', weir='component', **options):
    """Start scenarios. Returns a Run."""
    options['settings'] = {'min_hosts': 2, 'verbose': 1, **options.get('settings', {})}
    return start(rack, words(mpi, draw, calls, scenarios), mpi=mpi, weir=weir, **options)


def conform(rack, draw, scenarios, calls=24, mpi='openmpi', weir='component', **options):
    """Run scenarios to their end; each has to pass. Returns the Run."""
    options['settings'] = {'min_hosts': 2, **options.get('settings', {})}
    run = mpirun(rack, words(mpi, draw, calls, scenarios), mpi=mpi, weir=weir, **options)
    for name in scenarios.split():
        check('ok %s,' % name in run.output, '%s: %s', name, run.output)
    return run


def digests(run):
    """What each rank received on each communicator."""
    return sorted(re.findall('digest of .*?, rank [0-9]+: [0-9a-f]{16}', run.output))
