#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sum an array over all ranks. WEIR_SWITCH says where the switch is; rank and size come from the launcher:

    mpirun -n 4 python3 allreduce.py
"""
import numpy

import weir

with weir.open(job='example', create=True, temporary=True) as comm:
    gradients = numpy.full(1000000, comm.rank + 1, numpy.float32)
    total = comm.allreduce(gradients, numpy.empty_like(gradients))
    comm.allreduce(gradients, op='avg')  # in place
    print('rank %d of %d: sum %g, mean %g' % (comm.rank, comm.size, total[0], gradients[-1]))
