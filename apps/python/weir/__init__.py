# SPDX-License-Identifier: BSD-3-Clause
"""Collectives through a Weir switch.

    import numpy
    import weir

    with weir.open(job="ring", create=True) as comm:     # WEIR_SWITCH and the launcher say the rest
        gradients = numpy.full(1 << 20, comm.rank, numpy.float32)
        comm.allreduce(gradients)                        # in place; the sum of all ranks

Buffers are numpy arrays, anything else with the buffer protocol (bytearray, memoryview, array.array), and PyTorch's CPU
tensors; none of them is copied. docs/python.md is the guide, weir.h (man 3 weir_open) the reference.
"""
from ._abi import VERSION as __version__
from ._abi import Dtype, Op
from .communicator import Communicator, Request, open
from .errors import Degraded, Error, Partial, Result

__all__ = ['Communicator', 'Degraded', 'Dtype', 'Error', 'Op', 'Partial', 'Request', 'Result', '__version__', 'open']
