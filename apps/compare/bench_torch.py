#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's side: all_reduce by the backend weir, which has to run in the switch, and by the backend gloo:

    bench_torch.py LIBRARY SOCKET

LIBRARY is bench.c and bench_torch.c; torch's variables (RANK, MASTER_ADDR) and Weir's (WEIR_SWITCH) are set."""
import ctypes
import sys

import torch
import torch.distributed as dist

import weir.torch  # noqa: F401 (registers the backend)

Prepare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_bool, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
Run = ctypes.CFUNCTYPE(ctypes.c_int)


class Calls(ctypes.Structure):
    """bench_torch.c's struct bench_torch."""
    _fields_ = [('rank', ctypes.c_uint), ('ranks', ctypes.c_uint), ('prepare', Prepare), ('run', Run), ('barrier', Run)]


class Bench:
    def __init__(self, library):
        self.library = library
        dist.init_process_group('weir')
        self.groups = {b'weir': dist.group.WORLD, b'gloo': dist.new_group(backend='gloo')}
        for dtype in (torch.float32, torch.int32):
            before = self._in_switch()
            dist.all_reduce(torch.ones(1, dtype=dtype))
            if self._in_switch() != before + 1:
                raise SystemExit('compare: PyTorch: all_reduce of %s did not run in the switch' % dtype)

    def _in_switch(self):
        """Blocks that were completed there. The job is None if gloo carries all calls."""
        comm = self.groups[b'weir']._comm
        return 0 if comm is None else comm.stats()['results_ok']

    def prepare(self, algorithm, fp32, count, send, recv):
        self.send, self.recv = (torch.frombuffer((ctypes.c_char * (4 * count)).from_address(at),
                                                 dtype=torch.float32 if fp32 else torch.int32) for at in (send, recv))
        self.group = self.groups[algorithm]

    def run(self):
        self.recv.copy_(self.send)  # all_reduce is in place only
        dist.all_reduce(self.recv, group=self.group)

    def barrier(self):
        dist.barrier(self.group)

    def told(self, call):
        """The call with bench.h's codes: an exception does not pass C."""
        def guarded(*args):
            try:
                call(*args)
                return 0
            except Exception as error:
                return self.library.bench_fail(str(error).encode())
        return guarded

    def measure(self, path):
        calls = Calls.in_dll(self.library, 'bench_torch')
        calls.rank, calls.ranks = dist.get_rank(), dist.get_world_size()
        calls.prepare, calls.run, calls.barrier = Prepare(self.told(self.prepare)), Run(self.told(self.run)), Run(
            self.told(self.barrier))
        words = [b'compare-torch', path.encode()]
        return self.library.main(len(words), (ctypes.c_char_p * len(words))(*words))


if __name__ == '__main__':
    torch.set_num_threads(1)
    sys.exit(Bench(ctypes.CDLL(sys.argv[1])).measure(sys.argv[2]))
