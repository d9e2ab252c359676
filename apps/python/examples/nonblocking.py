#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sum the layers of a model while the next ones are computed, as training does in its backward pass."""
import numpy

import weir

LAYERS, ELEMENTS = 8, 100000


def backward(layer, rank):
    """Stands for the computation of a layer's gradients."""
    return numpy.full(ELEMENTS, rank + layer, numpy.float32)


with weir.open(job='example', create=True, temporary=True) as comm:
    requests = []
    for layer in reversed(range(LAYERS)):
        # The request keeps its array alive, and the library's thread makes progress.
        requests.append(comm.iallreduce(backward(layer, comm.rank)))
    sums = [request.wait() for request in requests]
    ranks = sum(range(comm.size))
    right = all((s == ranks + comm.size * layer).all() for s, layer in zip(sums, reversed(range(LAYERS))))
    print('rank %d: %d layers, %s' % (comm.rank, len(sums), 'right' if right else 'WRONG'))
