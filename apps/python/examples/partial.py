#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Go on without a rank that is late. The job's policy is `partial`: the switch waits for 100 ms."""
import time

import numpy

import weir

SETTINGS = {'policy': 'partial', 'timeout_ms': 100}

with weir.open(job='example', create=True, temporary=True, settings=SETTINGS) as comm:
    data = numpy.ones(1000, numpy.float32)
    if comm.rank == comm.size - 1:
        while not comm.unexpected():  # until the others have a result without this rank
            time.sleep(0.01)
    try:
        comm.allreduce(data)
        print('rank %d: all ranks: %g' % (comm.rank, data[0]))
    except weir.Partial as partial:
        # The sum is in `data` nevertheless; of each degraded block it is known who is in it.
        mean = data.copy()
        for first, count, present in partial.degraded:
            mean[first:first + count] /= len(present)
        print('rank %d: without ranks %s: sum %g, mean %g' % (comm.rank, list(partial.missing), data[0], mean[0]))
