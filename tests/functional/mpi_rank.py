#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""One rank of Open MPI: does what a plan for rank.py says, blocking and out of place, and writes what it has
received in the same way. Started by mpirun.

    mpi_rank.py PLANS     # of rank R: PLANSR.plan and PLANSR.in; writes PLANSR.mpi
"""
import ctypes
import json
import os
import sys

from elements import TYPE
from reference import receive_count, receives_data, send_count

TYPES = {'int8': 'int8_t', 'uint8': 'uint8_t', 'int16': 'int16_t', 'uint16': 'uint16_t',
         'int32': 'int32_t', 'uint32': 'uint32_t', 'int64': 'int64_t', 'uint64': 'uint64_t',
         'fp32': 'float', 'fp64': 'double'}
OPERATIONS = ('sum', 'prod', 'min', 'max', 'band', 'bor', 'bxor', 'land', 'lor', 'lxor')

# By the letters: s, r the buffers; c the count; t, o type and operation; R the root; C the communicator.
CALLS = {
    'allreduce': ('MPI_Allreduce', 'srctoC'), 'reduce': ('MPI_Reduce', 'srctoRC'),
    'reducescatter': ('MPI_Reduce_scatter_block', 'srctoC'), 'broadcast': ('MPI_Bcast', 'bctRC'),
    'scatter': ('MPI_Scatter', 'sctrctRC'), 'gather': ('MPI_Gather', 'sctrctRC'),
    'allgather': ('MPI_Allgather', 'sctrctC'), 'alltoall': ('MPI_Alltoall', 'sctrctC'),
    'barrier': ('MPI_Barrier', 'C'),
}


def call(mpi, step, data, ranks, rank):
    """Returns what this rank has received."""
    def thing(name):
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))

    kind = TYPE[step['type']]
    sent = ctypes.create_string_buffer(data, max(len(data), send_count(step['name'], ranks,
                                                                      step['count']) * kind.bytes, 1))
    length = receive_count(step['name'], ranks, step['count']) * kind.bytes
    received = ctypes.create_string_buffer(max(length, 1))
    values = {'s': sent, 'b': sent, 'r': received, 'c': ctypes.c_int(step['count']),
              'R': ctypes.c_int(step['root']), 'C': thing('ompi_mpi_comm_world'),
              't': thing('ompi_mpi_' + TYPES[step['type']]),
              'o': thing('ompi_mpi_op_' + (step['op'] or 'sum'))}
    function, letters = CALLS[step['name']]
    if getattr(mpi, function)(*[values[letter] for letter in letters]) != 0:
        raise SystemExit('%s failed' % function)
    if not receives_data(step['name'], rank, step['root']):
        return b''
    return (sent if 'b' in letters else received).raw[:length]


def main():
    rank = int(os.environ['OMPI_COMM_WORLD_RANK'])
    path = '%s%d' % (sys.argv[1], rank)
    mpi = ctypes.CDLL('libmpi.so.40', mode=ctypes.RTLD_GLOBAL)
    mpi.MPI_Init(None, None)
    with open(path + '.plan') as file:
        plan = json.load(file)
    with open(path + '.in', 'rb') as source, open(path + '.mpi', 'wb') as sink:
        for group in plan['groups']:
            for step in group['steps']:
                sink.write(call(mpi, step, source.read(step['bytes']), plan['ranks'], rank))
    mpi.MPI_Finalize()


if __name__ == '__main__':
    main()
