#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of a PyTorch program, one in each of these network namespaces, for test_torch.py:

    torch_ranks.py CASE+CASE...,VARIABLE=VALUE... ... -- NAMESPACE...

Cases with + are of the same processes, one after the other; the others run at the same time. PyTorch is loaded once, before the
ranks are forked. The exit status is 0 if every rank's was, or was to be killed."""
import _thread
import contextlib
import ctypes
import gc
import logging
import os
import re
import signal
import sys
import time
import traceback
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import weir.torch

warnings.filterwarnings('ignore', message='.*deprecated.*')
PORT = 29500
CLONE_NEWNET = 0x40000000
ADDS = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
MOVES = ADDS + [torch.int16, torch.bool, torch.complex64, torch.bfloat16]
OPS = ['SUM', 'PRODUCT', 'MIN', 'MAX']
SHAPES = [(), (1,), (37, 3), (0,)]


def check(good, message, *values):
    if not good:
        raise AssertionError(message % values)


def data(rank, dtype=torch.float32, shape=(37, 3), salt=0):
    """A rank's data. Sums and products of four ranks are exact in every type."""
    values = torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(1000 * rank + salt))
    return values.to(dtype)


def same(what, got, wanted):
    for one, other in zip(got, wanted):
        check(one.dtype == other.dtype and torch.equal(one, other), '%s: %s, not %s', what, one, other)
    check(len(got) == len(wanted), '%s: %d tensors, not %d', what, len(got), len(wanted))


def group_of(weir_group=None):
    return weir_group or dist.distributed_c10d._get_default_group()


def blocks(group=None):
    """Completed in the switch for this rank."""
    return group_of(group)._comm.stats()['results_ok']


def init(backend='weir', seconds=60):
    dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()


# -- every call

def collectives(rank, size, dtype):
    """{name: a function of a group that returns what it received} of the calls that gloo has, too."""
    def scattered(group, shape):
        out = torch.empty(shape, dtype=dtype)
        dist.scatter(out, [data(i, dtype, shape, 5) for i in range(size)] if rank == 1 else None, src=1, group=group)
        return [out]

    def gathered(group, shape):
        outs = [torch.empty(shape, dtype=dtype) for _ in range(size)] if rank == 2 else None
        dist.gather(data(rank, dtype, shape), outs, dst=2, group=group)
        return outs or []

    def all_gathered(group, shape):
        outs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
        dist.all_gather(outs, data(rank, dtype, shape), group=group)
        return outs

    def sent_around(group, shape):
        out = torch.empty(size * 3, 2, dtype=dtype)
        dist.all_to_all_single(out, data(rank, dtype, (size * 3, 2)), group=group)
        return [out]

    def broadcast(group, shape):
        out = data(rank, dtype, shape)
        dist.broadcast(out, src=3, group=group)
        return [out]
    made = {'scatter': scattered, 'gather': gathered, 'all_gather': all_gathered, 'broadcast': broadcast}
    if not dtype.is_complex:  # gloo takes none in all_to_all_single
        made['all_to_all_single'] = sent_around
    return made


def reductions(rank, dtype, op):
    def all_reduced(group, shape):
        out = data(rank, dtype, shape)
        dist.all_reduce(out, getattr(dist.ReduceOp, op), group=group)
        return [out]

    def reduced(group, shape):
        out = data(rank, dtype, shape)
        dist.reduce(out, 1, getattr(dist.ReduceOp, op), group=group)
        return [out] if rank == 1 else []
    return {'all_reduce': all_reduced, 'reduce': reduced}


def calls():
    """Every call gives gloo's result, and runs in the switch."""
    rank, size = init()
    check(dist.get_backend() == dist.Backend.WEIR == 'weir', 'the backend is %s', dist.get_backend())
    gloo = dist.new_group(backend='gloo')
    check(weir.torch.active() and not weir.torch.active(gloo), 'which group is active?')
    for dtype in MOVES:
        for name, call in collectives(rank, size, dtype).items():
            for shape in SHAPES[:3]:
                before = blocks()
                got = call(None, shape)
                check(blocks() > before, '%s of %s did not run in the switch', name, dtype)
                if dtype not in (torch.bool, torch.complex64, torch.int16, torch.bfloat16):
                    same((name, dtype, shape), got, call(gloo, shape))
                elif name == 'all_gather':
                    same((name, dtype, shape), got, [data(i, dtype, shape) for i in range(size)])
                elif name == 'broadcast':
                    same((name, dtype, shape), got, [data(3, dtype, shape)])
    for dtype in ADDS:
        for op in OPS + ['BAND', 'BOR', 'BXOR'] * (not dtype.is_floating_point):
            for name, call in reductions(rank, dtype, op).items():
                for shape in SHAPES if op == 'SUM' else SHAPES[2:3]:
                    before = blocks()
                    got = call(None, shape)
                    check(blocks() > before or shape == (0,), '%s of %s did not run in the switch', name, dtype)
                    if op != 'BXOR' or dtype != torch.float16:
                        same((name, dtype, op, shape), got, call(gloo, shape))
    without_gloo(rank, size)
    forms(rank, size)
    views(rank, size)
    by_gloo(rank, size)
    before = blocks()
    dist.barrier()
    check(blocks() == before + 1, 'the barrier did not run in the switch')


def without_gloo(rank, size):
    """What gloo of torch 1.13 has not: compared with the definition."""
    for dtype in (torch.bfloat16, torch.int64):
        total = sum(data(i, dtype) for i in range(size))
        got = data(rank, dtype)
        dist.all_reduce(got)
        same('all_reduce', [got], [total])
        if dtype.is_floating_point:
            got = data(rank, dtype)
            dist.all_reduce(got, dist.ReduceOp.AVG)
            same('all_reduce AVG', [got], [total / size])
        whole = [data(i, dtype, (size * 5, 2)) for i in range(size)]
        own = sum(whole)[rank * 5:rank * 5 + 5]
        got = torch.empty(5, 2, dtype=dtype)
        dist.reduce_scatter(got, list(whole[rank].chunk(size)))
        same('reduce_scatter', [got], [own])
        got.zero_()
        dist.reduce_scatter_tensor(got, whole[rank])
        same('reduce_scatter_tensor', [got], [own])
        got = torch.empty(size * 37, 3, dtype=dtype)
        dist.all_gather_into_tensor(got, data(rank, dtype))
        same('all_gather_into_tensor', [got], [torch.cat([data(i, dtype) for i in range(size)])])
        got[:37 * rank] = got[37 * (rank + 1):] = 0
        dist.all_gather_into_tensor(got, got[37 * rank:37 * (rank + 1)])  # in place, as FSDP does
        same('all_gather_into_tensor', [got], [torch.cat([data(i, dtype) for i in range(size)])])
        pair = [data(rank, dtype), data(rank, dtype, (5,), 1)]
        dist.all_reduce_coalesced(pair)
        same('all_reduce_coalesced', pair, [total, sum(data(i, dtype, (5,), 1) for i in range(size))])


def forms(rank, size):
    """Data with gaps, nonblocking calls, their works and futures."""
    total = sum(data(i) for i in range(size))
    gaps = torch.zeros(3, 37).t()
    gaps.copy_(data(rank))
    dist.all_reduce(gaps)
    same('a transposed tensor', [gaps], [total])
    outs = [torch.zeros(3, 37).t() for _ in range(size)]
    dist.all_gather(outs, data(rank))
    same('into transposed tensors', outs, [data(i) for i in range(size)])
    many = [data(rank, salt=i) for i in range(20)]
    works = [dist.all_reduce(one, async_op=True) for one in many]
    for i in reversed(range(20)):
        check(works[i].wait() is True and works[i].is_completed() and works[i].is_success(), 'work %d', i)
        same('all_reduce %d' % i, [many[i]], [sum(data(j, salt=i) for j in range(size))])
    one = data(rank)
    doubled = dist.all_reduce(one, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    same('a future', [doubled.wait()], [total * 2])
    one = data(rank)
    chained = dist.all_reduce(one, async_op=True).get_future().then(  # as PowerSGD does
        lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])
    same('a collective in a callback', [chained.wait()], [total * size])
    one = data(rank)
    group_of().allreduce([one]).wait()
    same('a process group by itself', [one], [total])
    one, works = data(rank), []
    # No function in Python is the caller, as in the backward pass on a GPU.
    _thread.start_new_thread(works.extend, (map(group_of().allreduce, [[one]]),))
    wait_until(lambda: works, 'no work')
    works[0].wait()
    same('called by C', [one], [total])
    objects = [None] * size
    dist.all_gather_object(objects, {'rank': rank})
    check(objects == [{'rank': i} for i in range(size)], 'objects: %s', objects)
    mixed = [torch.ones(2), torch.ones(2, dtype=torch.bool)]  # gloo refuses two types
    raises('all_reduce_coalesced', lambda: group_of().allreduce_coalesced(mixed).wait())
    raises('BAND of floats', lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND))
    raises('all_gather', lambda: dist.all_gather([torch.ones(3)] * size, torch.ones(2)))
    raises('all_gather_into_tensor', lambda: dist.all_gather_into_tensor(torch.ones(3), torch.ones(2)))
    raises('all_to_all_single', lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)))


def views(rank, size):
    """Tensors whose memory does not hold their values as they are, inference mode, and complex numbers."""
    every = [torch.complex(data(i), data(i, salt=1)) for i in range(size)]
    own, total = every[rank], sum(every)
    outs = [torch.zeros(37, 3, dtype=torch.complex64).conj() for _ in range(size)]
    dist.gather(own.conj(), outs if rank == 2 else None, 2)  # torch itself refuses them in all_gather and all_reduce
    same('conjugated views', outs, [one.conj() if rank == 2 else torch.zeros_like(one) for one in every])
    one = (own if rank == 1 else torch.zeros_like(own)).conj()
    dist.broadcast(one, 1)
    same('a conjugated view', [one], [every[1].conj()])
    one = torch._neg_view(data(rank))
    dist.all_reduce(one)
    same('a negated view', [one], [-sum(data(i) for i in range(size))])
    one = own.clone().conj()
    dist.reduce(one, 1)
    same('reduce of a conjugated view', [one] * (rank == 1), [total.conj()] * (rank == 1))
    whole, got = own[:36].clone().conj(), torch.empty(9, 3, dtype=torch.complex64)
    wanted = total[9 * rank:9 * rank + 9].conj()
    dist.reduce_scatter_tensor(got, whole)
    same('reduce_scatter_tensor of complex numbers', [got], [wanted])
    dist.reduce_scatter(got.zero_(), list(whole.chunk(size)))
    same('reduce_scatter of complex numbers', [got], [wanted])
    raises('a product of complex numbers', lambda: dist.reduce(own, 1, dist.ReduceOp.PRODUCT))
    one = torch.full((1, 2), complex(rank, 1), dtype=torch.complex64)[..., 0]  # contiguous, with a stride of 2
    dist.broadcast(one, 3)
    same('a stride without meaning', [one], [torch.full((1,), complex(3, 1), dtype=torch.complex64)])
    for op, wanted in (('SUM', [True, True, False]), ('PRODUCT', [True, False, False])):
        one = torch.tensor([True, rank == 1, False])
        dist.all_reduce(one, getattr(dist.ReduceOp, op))
        same('%s of bool' % op, [one], [torch.tensor(wanted)])
    with torch.inference_mode():
        outs, gaps = [torch.empty(37, 3) for _ in range(size)], torch.zeros(3, 37).t()
        gaps.copy_(data(rank))
        works = [dist.all_gather(outs, data(rank), async_op=True), dist.all_reduce(gaps, async_op=True)]
    for work in works:
        work.get_future().wait()
    same('in inference mode', outs + [gaps], [data(i) for i in range(size)] + [sum(data(i) for i in range(size))])


def by_gloo(rank, size):
    """What gloo carries."""
    before = blocks()
    one = data(rank)
    if rank % 2:
        dist.send(one, rank - 1)
    else:
        dist.recv(one, rank + 1)
        same('recv', [one], [data(rank + 1)])
    if rank == 0:
        check(dist.recv(one) == 3, 'recv from any')
    elif rank == 3:
        dist.send(one, 0)
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
    dist.all_reduce(sparse)
    same('a sparse tensor', [sparse.to_dense()], [torch.ones(size)])
    outs = [torch.empty(i + 1) for i in range(size)]
    dist.all_to_all(outs, [torch.full((rank + 1,), float(i)) for i in range(size)])
    same('all_to_all', outs, [torch.full((i + 1,), float(rank)) for i in range(size)])
    lists = [[torch.empty(37, 3), torch.empty(5)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [data(rank), data(rank, shape=(5,))])
    for i, found in enumerate(lists):
        same('all_gather_coalesced', found, [data(i), data(i, shape=(5,))])
    exchanges(rank, size)
    check(blocks() == before, 'the switch carried what is for gloo')


def exchanges(rank, size):
    """all_to_all with splits, as mixtures of experts use it. Gloo has not all these types."""
    splits = [i + 1 for i in range(size)]
    for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.complex64):
        wanted = [torch.full((i + 1, 3, 2), i).to(dtype) for i in range(size)]
        out = torch.empty((sum(splits), 3, 2), dtype=dtype)
        dist.all_to_all_single(out, torch.full(((rank + 1) * size, 3, 2), rank).to(dtype), splits, [rank + 1] * size)
        same('all_to_all_single', [out], [torch.cat(wanted)])
        outs = [torch.empty_like(one) for one in wanted]
        dist.all_to_all(outs, [torch.full((rank + 1, 3, 2), rank).to(dtype)] * size)
        same('all_to_all', outs, wanted)
    gaps = torch.empty(2, sum(splits), dtype=torch.bfloat16).t()
    dist.all_to_all_single(gaps, torch.full(((rank + 1) * size, 2), rank).bfloat16(), splits, [rank + 1] * size)
    same('all_to_all_single into gaps', [gaps], [torch.cat([torch.full((i + 1, 2), i).bfloat16() for i in range(size)])])


def subgroups():
    """Several groups at a time, each with its own job, and their end."""
    rank, size = init()
    halves = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    three, alone = dist.new_group([3, 1, 0]), dist.new_group([2])
    own = halves[rank % 2]
    for _ in range(3):
        one, other = data(rank), data(rank)
        works = [dist.all_reduce(one, group=own, async_op=True)]
        if rank != 2:
            works.append(dist.all_reduce(other, group=three, async_op=True))
        for work in works:
            work.wait()
        same('a half', [one], [data(rank % 2) + data(rank % 2 + 2)])
        if rank != 2:
            same('three', [other], [data(0) + data(1) + data(3)])
    check(blocks(own) > 0, 'a half did not run in the switch')
    out = torch.empty(1)
    dist.broadcast(one, src=3, group=three)
    if rank == 2:
        dist.all_gather_into_tensor(out, torch.ones(1), group=alone)
        dist.reduce_scatter_tensor(out, torch.ones(1), group=alone)
        same('alone', [out], [torch.ones(1)])
    dist.barrier()
    if rank == 0:
        print('jobs', flush=True)
        wait_for_file('counted')
    dist.barrier()
    dist.destroy_process_group(own)
    dist.destroy_process_group()
    del own, halves, three
    if rank == 0:
        print('left', flush=True)
        wait_for_file('done')


def wait_until(holds, message, *values):
    end = time.monotonic() + 300
    while not holds():
        check(time.monotonic() < end, message, *values)
        time.sleep(0.02)


def wait_for_file(name):
    wait_until(lambda: os.path.exists(os.path.join(os.environ['FOLDER'], name)), 'no file %s', name)


def tcp_store(*words):
    plain = {'use_libuv': False} if 'use_libuv' in (dist.TCPStore.__init__.__doc__ or '') else {}  # Debian's torch 2 has no libuv
    return dist.TCPStore(*words, **plain)


def again():
    """A group that is made again in the same store finds nothing of the first one."""
    rank, size = init()
    store = dist.PrefixStore('again', dist.distributed_c10d._get_default_store())
    del os.environ['GLOO_SOCKET_IFNAME']  # as the hosts' name is of no use here, gloo takes the interface towards the switch
    for number in range(2):
        if rank == 0:  # as the others do not wait for it, they find what is there
            wait_until(lambda: store.add('begun', 0) == (number + 1) * (size - 1), 'group %d: not begun', number)
        else:
            store.add('begun', 1)
        group, one = weir.torch.ProcessGroup(store, rank, size, timedelta(seconds=30)), data(rank)
        group.allreduce([one]).get_future().wait()
        same('group %d' % number, [one], [sum(data(i) for i in range(size))])
        check(blocks(group) > 0, 'group %d did not run in the switch', number)
        dist.barrier()
    os.environ['GLOO_SOCKET_IFNAME'] = 'eth1'
    if rank == 0:
        told = raises('a group without others', lambda: weir.torch.ProcessGroup(
            dist.PrefixStore('alone', tcp_store('127.0.0.1', 0, 1, True, timedelta(seconds=1))), rank, size, timedelta(seconds=1)))
        check('rank 0 of a process group of 4 ranks does not reach the others (it waits 1 s)' in told, '%s', told)
        work = dist.barrier(async_op=True)
        begun = work.get_future()  # another thread waits, too
        told = raises('a wait', lambda: work.wait(timedelta(milliseconds=1)))
        check(re.search(r' Timed out waiting: job "run7\..*", rank 0 of 4: barrier is still in progress after 0.001 s', told),
              '%s', told)
        store.set('waited', '')
        begun.wait()
    store.get('waited')
    if rank:
        dist.barrier()
    child = os.fork()
    if child == 0:
        end_with_parent()
        # After Python's end, none of C++: torch 2's profiler waits there for a thread, which is in the parent.
        ctypes.CDLL(None).on_exit(ctypes.CDLL(None)._exit, None)
        gc.unfreeze()
        dist.destroy_process_group()
        sys.exit(0)
    found = [0, 0]

    def ended():
        found[:] = os.waitpid(child, os.WNOHANG)
        return found[0]
    wait_until(ended, 'a forked child does not end')
    check(found[1] == 0, 'a forked child ended with status %d', found[1])
    dist.barrier()


def refused():
    """What one rank refuses is an error on all ranks, at once."""
    rank, size = init(seconds=600)
    one, odd = torch.ones(4), rank == 2
    for event, call in (
            ('all_reduce', lambda group: group.allreduce_coalesced([one, one.bool() if odd else one]).get_future().wait()),
            ('all_reduce', lambda group: dist.all_reduce(one.clone(), dist.ReduceOp.BAND if odd else dist.ReduceOp.SUM, group)),
            ('all_gather', lambda group: dist.all_gather([one[odd:].clone()] + [one.clone()] * 3, one, group)),  # gloo refuses it
            ('reduce_scatter', lambda group: dist.reduce_scatter_tensor(torch.ones(2 if odd else 1), one, group=group))):
        group = dist.new_group()
        dist.all_reduce(one.clone(), group=group)
        told = raises(event, lambda: call(group))
        check(odd or 'rank 2 refused its %s: ' % event in told, 'told: %s', told)
        told = raises('after ' + event, lambda: dist.all_reduce(one.clone(), group=group))
        check('rank 2 refused its %s: ' % event in told, 'told afterwards: %s', told)


def composed():
    """Weir for one type of devices, and other backends for others. No GPU is needed: meta tensors, and FakeProcessGroup."""
    if not hasattr(dist.distributed_c10d, 'BackendConfig'):  # torch 1.13
        rank, _ = init()
        raises('cpu:weir', lambda: dist.new_group(backend='cpu:weir'))
        return
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.testing._internal.distributed import fake_pg  # noqa: F401 registers it
    seen, asked = [], ''

    def meta_all_reduce(tensors, group, *_):
        """Instead of the kernel of CUDA tensors: asks the group that torch has chosen for its backend."""
        backend = dist.ProcessGroup.unbox(group)._get_backend(torch.device(asked))
        seen.append(type(backend).__name__)
        return tensors, backend.allreduce(tensors, dist.AllreduceOptions()).boxed()
    kernels = torch.library.Library('c10d', 'IMPL', 'Meta')
    kernels.impl('allreduce_', meta_all_reduce)
    rank, size = init('cpu:weir,meta:fake')
    for names, ours, other in ((None, 'cpu', 'meta'), ('meta:fake,cpu:weir', 'cpu', 'meta'), ('cuda:fake,cpu:weir', 'cpu', 'cuda'),
                               ('cpu:weir', 'cpu', ''),
                               ('cpu:gloo,cuda:weir', 'cuda', 'cpu'), ('cuda:weir,cpu:gloo', 'cuda', 'cpu')):
        group = dist.new_group(backend=names) if names else None
        check(weir.torch.active(group), '%s is not active', names)
        devices = {device.type for device in group_of(group)._device_types}
        check(devices == {ours, other} - {''}, '%s: devices %s', names, devices)
        seen.clear()
        asked = other
        if other in ('meta', 'cuda'):
            with FakeTensorMode() if other == 'cuda' else contextlib.nullcontext():
                far = torch.ones(3, device=other)
                for work in (dist.all_reduce(far, group=group, async_op=True), group_of(group).allreduce([far])):
                    work.wait()
            check(seen == ['FakeProcessGroup'] * 2, '%s: all_reduce of %s tensors: %s', names, other, seen)
            check(type(group_of(group)._get_backend(torch.device(other))).__name__ == 'FakeProcessGroup', '%s: backend', names)
        before = blocks(group)
        one = data(rank)
        dist.all_reduce(one, group=group)
        same(names, [one], [sum(data(i) for i in range(size))])
        objects = [None] * size
        dist.all_gather_object(objects, rank, group=group)
        dist.barrier(group)
        check(objects == list(range(size)), '%s: objects: %s', names, objects)
        check((blocks(group) > before + 2) == (ours == 'cpu'), '%s: %d blocks in the switch', names, blocks(group) - before)
        if names is None:
            near('DDP', train(rank, steps=1), train(rank, dist.new_group(backend='gloo'), steps=1))
        elif ours == 'cpu' and other != 'meta':
            asked = 'meta'
            told = raises(names, lambda: dist.all_reduce(torch.ones(1, device='meta'), group=group))
            check('No backend' in told, '%s: %s', names, told)
    for names, text in (('cpu:weir,cuda:nccl', 'cuda:nccl does not go with Weir'), ('cpu:weir,cuda:what', 'cuda:what')):
        told = raises(names, lambda: dist.new_group(backend=names))
        check(text in told, '%s: %s', names, told)
    functional(rank, size)
    store, gpu = dist.PrefixStore('bound', dist.distributed_c10d._get_default_store()), torch.device('cuda:0')
    dist.destroy_process_group()
    dist.init_process_group('cpu:weir,cuda:fake', store=store, rank=rank, world_size=size, device_id=gpu)
    for group in (group_of(), dist.new_group()):
        check(group.bound_device_id == gpu, 'the GPU is %s', group.bound_device_id)
        before = blocks(group)
        dist.barrier(group)
        check(blocks(group) == before + 1, 'the barrier did not run in the switch')


def functional(rank, size):
    """The functional collectives, which torch calls in C++."""
    from torch.distributed import _functional_collectives as made
    before = blocks()
    got = [made.all_reduce(data(rank), 'sum', group_of()), made.all_gather_tensor(data(rank), 0, group_of()),
           made.reduce_scatter_tensor(data(rank, shape=(size * 5, 2)), 'sum', 0, group_of())]
    same('functional', [one + 0 for one in got], [
        sum(data(i) for i in range(size)), torch.cat([data(i) for i in range(size)]),
        sum(data(i, shape=(size * 5, 2)) for i in range(size))[rank * 5:rank * 5 + 5]])
    check(blocks() >= before + 3, 'functional collectives did not run in the switch')


def mistakes():
    """A mistake in the configuration is an error on all ranks; so is, with WEIR_REQUIRE, whatever else means gloo."""
    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    store = tcp_store(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']), size, rank == 0)
    for number, (where, variables, text) in enumerate((
            (0, {'WEIR_SETTINGS': 'determinstic=true'}, 'determinstic'), (0, {'WEIR_JOB': 'gone'}, 'job "gone"'),
            (2, {'WEIR_LIBRARY': '/nowhere/libweir.so'}, 'rank 2: /nowhere/libweir.so'),
            (0, {'WEIR_SWITCH': 'http://10.77.0.254:9', 'WEIR_REQUIRE': '1'}, 'http://10.77.0.254:9'))):
        before = dict(os.environ)
        os.environ.update(variables if rank == where else {})
        weir._library.library.cache_clear()
        weir._torch_job._switch.clear()
        told = raises(variables, lambda: dist.init_process_group('weir', store=dist.PrefixStore('%d' % number, store), rank=rank,
                                                                 world_size=size, timeout=timedelta(seconds=120)), weir.torch.Failure)
        check(text in told and not dist.is_initialized(), '%s: %s', variables, told)
        os.environ.clear()
        os.environ.update(before)
        store.set('%d of rank %d' % (number, rank), told)
        check(store.get('%d of rank 0' % number).decode() == told, 'rank 0 has another error: %s', told)
    weir._library.library.cache_clear()
    store.add('done', 1)
    wait_until(lambda: rank or store.add('done', 0) == size, 'some rank is not done')  # rank 0 has the store


# -- training

def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.BatchNorm1d(300), torch.nn.ReLU(), torch.nn.Linear(300, 4))


def batch(rank, step):
    made = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(16, 20, generator=made), torch.randint(0, 4, (16,), generator=made)


def train(rank, group=None, hook=None, sharded=False, steps=4):
    """The losses and weights."""
    trained = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.01)
    if hook is not None:
        trained.register_comm_hook(*hook)
    if sharded:
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(trained.parameters(), torch.optim.SGD, process_group=group, lr=0.1, momentum=0.9)
    else:
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        features, labels = batch(rank, step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(trained(features), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + [p.detach().clone() for p in trained.parameters()]


def near(what, got, wanted, tolerance=1e-5):
    for one, other in zip(got, wanted):
        check(torch.allclose(one, other, atol=tolerance), '%s: %g apart', what, (one - other).abs().max())


def training():
    """DDP, ZeRO-1 and the hook: as with gloo; in a deterministic job the same bits twice."""
    rank, size = init()
    gloo = dist.new_group(backend='gloo')
    wanted = train(rank, gloo)
    before = blocks()
    first = train(rank)
    check(blocks() > before + 50, 'DDP did not run in the switch')
    near('DDP', first, wanted)
    same('DDP again', train(rank), first)
    if rank == 0:
        print('loss %s' % ' '.join('%.5f' % loss for loss in first[:4]), flush=True)
    halved = DistributedDataParallel(torch.nn.Linear(1, 7, bias=False))
    halved._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)  # in C++, which takes no list of Python's
    halved(torch.full((1, 1), float(rank))).sum().backward()
    near('the FP16 hook', [p.grad for p in halved.parameters()], [torch.full((7, 1), 1.5)], 0.01)
    near('ZeRO-1', train(rank, sharded=True), wanted)
    patient = weir.torch.hook(settings={'deterministic': True}, spin_us=-1)
    near('the hook', train(rank, gloo, patient), wanted)
    check(patient[0].comm._handle.config.op_timeout_ms == 30 * 60 * 1000, 'the hook is not as patient as torch')
    plain = weir.torch.hook(compress='bf16')
    near('the hook, bf16', train(rank, gloo, plain), wanted, 0.05)
    check(plain[0].comm.stats()['results_ok'] > 0, 'the hook did not use the switch')
    for more in ({}, {'error_feedback': True}, {'partial': 'fail'}):
        halves = torch.nn.Embedding(1, 7, dtype=torch.float16)
        averaged = DistributedDataParallel(halves, process_group=gloo)
        averaged.register_comm_hook(*weir.torch.hook(**more))
        (averaged(torch.tensor([0])) * rank).sum().backward()
        same('the hook, fp16 %s' % more, [halves.weight.grad], [torch.full((1, 7), 1.5, dtype=torch.float16)])


def profiled():
    """Timelines show Weir as they show gloo, and an operation ends when it ends, not when the program waits for it."""
    rank, _ = init()
    gloo, found = dist.new_group(backend='gloo'), {}
    for of, group in (('weir', None), ('gloo', gloo)):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
            work = dist.all_reduce(data(rank), group=group, async_op=True)
            if of == 'weir':
                wait_until(lambda: not work._operation.requests, 'the operation does not end')
                with work._operation.lock:  # until its event has ended, too
                    pass
                with torch.profiler.record_function('between'):
                    pass
            work.wait()
            dist.reduce(data(rank), 1, group=group)
            dist.barrier(group)
        events = [event for event in profiler.events() if event.name.startswith(of + ':')]
        found[of] = sorted((event.name.partition(':')[2], event.is_async, event.input_shapes) for event in events)
        if of == 'weir':
            between, = (event for event in profiler.events() if event.name == 'between')
            check(min(event.time_range.end for event in events) <= between.time_range.start, 'it ends when the program waits')
    check(found['weir'] == found['gloo'], '%s', found)


# -- failures

def partial():
    """A rank is late, and the job's policy is `partial`: the hook rescales, or fails."""
    os.environ['WEIR_SETTINGS'] = 'policy=partial timeout_ms=1000'
    rank, size = init('gloo')
    for compress, error_feedback in ((None, False), ('bf16', True)):
        weights = torch.nn.Linear(1, 100, bias=False)
        averaged = DistributedDataParallel(weights)
        averaged.register_comm_hook(*weir.torch.hook(compress=compress, error_feedback=error_feedback))
        total = torch.zeros(100, 1)
        for step in range(6):
            dist.barrier()
            if step == 2 and rank == 3:
                dist.barrier()  # until the others have a result
            averaged.zero_grad()
            averaged(torch.full((1, 1), float(rank + 1))).sum().backward()
            if step == 2 and rank != 3:
                dist.barrier()
            grad = weights.weight.grad.clone()
            if step == 2:
                check(torch.allclose(grad, torch.full((100, 1), 2.0)), 'not rescaled: %s', grad[0])
            total += grad
        # Without feedback step 2 is the mean of three ranks, rescaled; with it rank 3's 4.0 comes later.
        wanted = 5 * 2.5 + 2.0 + (1.0 if error_feedback else 0.0)
        check(torch.allclose(total, torch.full((100, 1), wanted), atol=0.02), '%s, %s: %s, not %g', compress,
              error_feedback, total[0], wanted)


def raises(what, call, kind=(RuntimeError, ValueError)):
    try:
        call()
    except kind as error:
        return str(error).splitlines()[0]
    check(False, '%s did not fail', what)


def killed():
    """A rank dies: every form of waiting gets an error with libweir's text."""
    rank, size = init()
    group = dist.new_group(timeout=timedelta(seconds=15))
    averaged = DistributedDataParallel(torch.nn.Linear(3, 3), process_group=group)
    dist.all_reduce(data(rank), group=group)
    if rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(data(rank), group=group, async_op=True)
    future = dist.all_reduce(data(rank), group=group, async_op=True).get_future()
    told = [raises('all_reduce', lambda: dist.all_reduce(data(rank), group=group)), raises('work.wait', work.wait),
            raises('future.wait', future.wait), raises('barrier', lambda: dist.barrier(group)),
            raises('backward', lambda: averaged(torch.ones(1, 3)).sum().backward())]
    check(not work.is_success(), 'the work is a success')
    if rank == 0:
        print('\n'.join('error %s' % line for line in told), flush=True)


def without_switch():
    """No rank can use the switch, or one cannot: all use gloo."""
    rank, size = init()
    check(group_of()._comm is None and not weir.torch.active(), 'there is a job')
    one = data(rank)
    dist.all_reduce(one)
    same('all_reduce', [one], [sum(data(i) for i in range(size))])
    dist.all_reduce(one, group=dist.new_group())
    exchanges(rank, size)
    near('DDP', train(rank, steps=1), train(rank, dist.new_group(backend='gloo'), steps=1))


# -- processes

def become(rank, namespaces):
    with open('/run/netns/' + namespaces[rank]) as there:
        check(ctypes.CDLL(None).setns(there.fileno(), CLONE_NEWNET) == 0, 'setns')
    os.environ.update(RANK=str(rank), LOCAL_RANK='0', WORLD_SIZE=str(len(namespaces)), USE_LIBUV='0')  # Debian's torch 2 has no libuv
    if 'WEIR_SWITCHES' in os.environ:  # each host has its own, and no network beside it
        os.environ.update(WEIR_SWITCH=os.environ['WEIR_SWITCHES'].split()[rank], GLOO_SOCKET_IFNAME='eth0')
    else:
        os.environ.update(MASTER_ADDR='10.78.0.1', GLOO_SOCKET_IFNAME='eth1')
    if rank == int(os.environ.get('WITHOUT', -1)):
        weir._torch_job.join = lambda *_, **__: weir.open(job='torch', switch='http://127.0.0.1:9', rank=rank, size=4)
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING, format='%(name)s: %(message)s')


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def be_rank(rank, namespaces, names, port):
    """Of a forked process; does not return."""
    end_with_parent()
    try:
        become(rank, namespaces)
        for i, name in enumerate(names):
            os.environ['MASTER_PORT'] = str(port + i)
            globals()[name]()
            if dist.is_initialized():
                dist.destroy_process_group()
        sys.exit(0)
    except Exception:
        print('rank %d: %s' % (rank, traceback.format_exc()), flush=True)
        os._exit(1)


def main():
    specs, namespaces = sys.argv[1:sys.argv.index('--')], sys.argv[sys.argv.index('--') + 1:]
    pids = {}
    gc.freeze()  # at their end ranks leave alone what was loaded here
    for number, spec in enumerate(specs):
        words = spec.split(',')
        for rank in range(len(namespaces)):
            pid = os.fork()
            if pid == 0:
                os.environ.update(word.split('=', 1) for word in words[1:])
                be_rank(rank, namespaces, words[0].split('+'), PORT + 10 * number)
            pids[pid] = (spec, rank)
    while pids:
        pid, status = os.wait()
        if status != 0 and pids[pid] != ('killed', 3):
            for other in pids:  # they would wait for it
                if other != pid:
                    os.kill(other, signal.SIGKILL)
            sys.exit('%s: rank %d failed' % pids[pid])
        del pids[pid]


if __name__ == '__main__':
    main()
