#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on arrays and bytes of the standard library."""
from array import array

import weir

with weir.open(job='example', create=True, temporary=True) as comm:
    counts = array('q', [1, comm.rank, comm.rank ** 2])
    comm.allreduce(counts, op='max')
    names = bytearray(8 * comm.size)  # a slice of 8 bytes for each rank
    comm.allgather(('rank %d' % comm.rank).ljust(8).encode(), names)
    message = bytearray(b'from the root' if comm.rank == 0 else 13)
    comm.broadcast(message, root=0)
    print('rank %d: %s; %s; %s' % (comm.rank, counts.tolist(), names.decode().split('  '), message.decode()))
