# SPDX-License-Identifier: BSD-3-Clause
"""A Python program as users of mpi4py write them: buffers (upper case) and pickled objects (lower case), blocking
and not, on the world and on halves of it. What it prints does not depend on the order in which MPI adds."""
import hashlib
import sys

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
told = []


def tell(what, value):
    """A line of rank 0; value: of each rank."""
    if isinstance(value, numpy.ndarray):
        value = hashlib.sha256(numpy.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    values = world.gather(value)
    if rank == 0:
        told.append('%s: %s' % (what, ' '.join(map(str, values))))


def buffers(comm, name):
    ranks, me = comm.size, comm.rank
    for kind in 'int8', 'uint16', 'int32', 'int64', 'float32', 'float64':
        data = (numpy.arange(997) % 11 + me).astype(kind)
        total = numpy.empty_like(data)
        comm.Allreduce(data, total)
        tell('%s Allreduce %s' % (name, kind), total)
        comm.Reduce(data, total, op=MPI.MAX, root=ranks - 1)
        tell('%s Reduce %s' % (name, kind), total)
        comm.Bcast(data, root=ranks - 1)
        tell('%s Bcast %s' % (name, kind), data)
    waves = (numpy.arange(100) + 1j * me).astype('complex128')
    comm.Allreduce(MPI.IN_PLACE, waves)
    tell(name + ' Allreduce complex', waves)
    truth = numpy.array([me == 0, True, me > 0])
    comm.Allreduce(MPI.IN_PLACE, truth, op=MPI.LAND)
    tell(name + ' Allreduce bool', truth)
    mine = numpy.arange(5 * ranks, dtype='i4') + 1000 * me
    part, every = numpy.empty(5, 'i4'), numpy.empty((ranks, 5 * ranks), 'i4')
    comm.Reduce_scatter_block(mine, part)
    tell(name + ' Reduce_scatter_block', part)
    comm.Allgather(mine, every)
    tell(name + ' Allgather', every)
    swapped = numpy.empty_like(mine)
    comm.Alltoall(mine, swapped)
    tell(name + ' Alltoall', swapped)
    comm.Gather(mine, every if me == 0 else None)
    comm.Scatter(every if me == 0 else None, mine)
    tell(name + ' Gather, Scatter', mine)
    # Every second column: not contiguous on one rank.
    grid = numpy.full((40, 2), me, 'f8')
    column = MPI.DOUBLE.Create_vector(40, 1, 2).Commit()
    comm.Bcast([grid, 1, column] if me == 0 else [grid, 40, MPI.DOUBLE], root=0)
    tell(name + ' Bcast of a column', grid)
    column.Free()
    requests = [comm.Iallreduce(MPI.IN_PLACE, part), comm.Ibcast(mine, root=0), comm.Ibarrier()]
    MPI.Request.Waitall(requests)
    tell(name + ' nonblocking', numpy.concatenate([part, mine]))
    comm.Barrier()


def objects(comm, name):
    me = comm.rank
    tell(name + ' bcast', comm.bcast({'rank': me, 'list': list(range(me + 3))}, root=comm.size - 1))
    tell(name + ' allreduce', comm.allreduce(me + 0.5))
    tell(name + ' allreduce of strings', comm.allreduce('r%d' % me))
    tell(name + ' allgather', comm.allgather(('x' * me, me)))
    tell(name + ' alltoall', comm.alltoall(['%d to %d' % (me, to) for to in range(comm.size)]))
    tell(name + ' scatter', comm.scatter([n ** 2 for n in range(comm.size)] if me == 0 else None))
    tell(name + ' reduce', comm.reduce((me, -me), op=MPI.MAX))
    comm.barrier()


half = world.Split(rank % 2, rank)
copy = world.Dup()
for group, called in (world, 'world'), (copy, 'dup'), (half, 'half'):
    buffers(group, called)
    objects(group, called)
half.Free()
copy.Free()
if rank == 0:
    sys.stdout.write('\n'.join(told) + '\n')
