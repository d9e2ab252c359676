# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on Weir: the backend "weir" of torch.distributed, and a communication hook for DistributedDataParallel.

    import torch.distributed as dist
    import weir.torch

    dist.init_process_group('weir')    # in torch 2 also 'cpu:weir,cuda:nccl'

Each process group has a temporary job in the switch, and gloo beside it, for what the switch cannot do. docs/pytorch.md is
the guide.
"""
import contextlib
import errno
import functools
import inspect
import json
import logging
import os
import socket
import sys
import threading
import weakref
from ctypes import py_object, pythonapi
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, ProcessGroupGloo, ReduceOp, _Work as Work, distributed_c10d
from torch.futures import Future

from ._torch_job import Failure, invite, join, limits, open_job
from ._torch_work import (Ender, Event, Operation, PythonWork, all_tensors, completed, create_work_from_future, error_text,
                          scripted)
from .communicator import Communicator, Request
from .communicator import open as _open_communicator
from .errors import Error, Partial

__all__ = ['ProcessGroup', 'active', 'hook']
log = logging.getLogger('weir.torch')

TYPES = {getattr(torch, name) for name in (
    'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'bfloat16', 'float32', 'float64',
    'float8_e4m3fn', 'float8_e5m2') if hasattr(torch, name)}
# By hash: comparing two of torch 1.13's takes 3 us.
OPERATIONS = {hash(getattr(ReduceOp, name)): ours for name, ours in (
    ('SUM', 'sum'), ('AVG', 'avg'), ('PRODUCT', 'prod'), ('MIN', 'min'), ('MAX', 'max'),
    ('BAND', 'band'), ('BOR', 'bor'), ('BXOR', 'bxor')) if hasattr(ReduceOp, name)}
INTEGERS_ONLY = ('band', 'bor', 'bxor')
TRUTH = {'sum': 'max', 'max': 'max', 'bor': 'max', 'prod': 'min', 'min': 'min', 'band': 'min', 'bxor': 'bxor'}  # of bool
GLOO_TYPES = {torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64}
# The modules of torch's functions, and of what decorates them.
WRAPPERS = ('torch.distributed.distributed_c10d', 'torch.distributed.c10d_logger')

_gloos: 'weakref.WeakSet[ProcessGroupGloo]' = weakref.WeakSet()
_said = set()


def _say(text: str) -> None:
    """A warning, once in this process."""
    if text not in _said:
        _said.add(text)
        log.warning('weir: %s', text)


def _forked() -> None:
    """Gloo's threads are in the parent, and in a child gloo's destructor would wait for them: it never runs there."""
    for gloo in list(_gloos):
        pythonapi.Py_IncRef(py_object(gloo))


os.register_at_fork(after_in_child=_forked)


# -- tensors

def _host(tensor: torch.Tensor, filled: bool = True) -> torch.Tensor:
    """The tensor, or a contiguous copy in host memory, without the data unless filled. Copies of other devices' memory are
    pinned; this has not been tested on a GPU."""
    if tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    made = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=not tensor.is_cpu)
    return made.copy_(tensor.detach()) if filled else made


def _stack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([t.detach() for t in tensors])


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Of a contiguous tensor. The stride of a dimension of 0 or 1 elements may be any, which view() does not allow."""
    return tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _moved(tensor: torch.Tensor, op: str) -> torch.Tensor:
    """The tensor; of a type that Weir has not, its bytes, or its real and imaginary parts to add."""
    if tensor.dtype in TYPES:
        return tensor
    return torch.view_as_real(tensor.detach()) if op and tensor.is_complex() else _bytes(tensor)


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of each row of a contiguous tensor."""
    rows, data = tensor.size(0), _bytes(tensor)
    return data.view(rows, data.numel() // max(rows, 1))


def _list(tensors: Any) -> Any:
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _inner(lists: Any) -> Any:
    """Torch's lists have a list for each device."""
    return lists[0] if lists and isinstance(lists[0], (list, tuple)) else lists


def _root(opts: Any) -> int:
    return int(getattr(opts, 'rootRank', opts))


def _has(op: str, dtype: torch.dtype) -> bool:
    """Whether Weir reduces this type so. Then bool is uint8, and a complex number two real ones."""
    if dtype.is_complex:
        return op in ('sum', 'avg')
    if dtype is torch.bool:
        return op in TRUTH.values()
    return op != '' and dtype in TYPES and not (op in INTEGERS_ONLY and dtype.is_floating_point)


def _reduction(tensors: Sequence[torch.Tensor], opts: Any) -> str:
    """Weir's operation. What Weir has not, gloo has not, either."""
    op = OPERATIONS.get(hash(ReduceOp.SUM if opts is None else getattr(opts, 'reduceOp', opts)), '')
    if all(t.dtype is torch.bool for t in tensors):
        op = TRUTH.get(op, op)
    for dtype in (t.dtype for t in tensors):
        if not _has(op, dtype):
            raise ValueError('neither the switch nor gloo has %s of %s' % (op or 'this operation', dtype))
    return op


# -- gloo

def _gloo(store: dist.Store, rank: int, size: int, timeout: timedelta, switch: str) -> ProcessGroupGloo:
    """Gloo for the ranks of a process group. switch: '' if there is none."""
    own = '' if os.environ.get('GLOO_SOCKET_IFNAME') else _towards(switch)
    if not own:
        return ProcessGroupGloo(store, rank, size, timeout=timeout)
    options = ProcessGroupGloo._Options()
    options._timeout, options._devices = timeout, [ProcessGroupGloo.create_device(hostname=own)]
    return ProcessGroupGloo(store, rank, size, options)


def _exchange(gloo: ProcessGroupGloo, output: torch.Tensor, input: torch.Tensor, output_splits: List[int],
              input_splits: List[int], opts: Any = None) -> Work:
    """all_to_all of rows; of types that gloo has not, and of tensors that are copied, their bytes."""
    work: Work
    plain = input.dtype in GLOO_TYPES and _host(input) is input and _host(output, False) is output
    if plain or input.dtype is not output.dtype or not input.dim() or not output.dim():
        work = gloo.alltoall_base(output, input, output_splits, input_splits)
        return work
    room = _host(output, False)
    work = gloo.alltoall_base(_rows(room), _rows(_host(input)), output_splits, input_splits)
    if room is output:
        return work
    work.wait()
    output.detach().copy_(room)
    return completed([output])


def _towards(switch: str) -> str:
    """This host's address towards the switch, where gloo's own choice is the loopback: it takes the address of the host's name,
    which Debian resolves to 127.0.1.1. '': gloo's choice serves, or there is no other."""
    own = ''
    with contextlib.suppress(OSError), socket.socket() as named:
        named.bind((socket.gethostname(), 0))
        if not named.getsockname()[0].startswith('127.'):
            return ''
    with contextlib.suppress(OSError, ValueError), socket.socket(type=socket.SOCK_DGRAM) as route:
        route.connect((urlsplit(switch).hostname or '', 9))
        own = route.getsockname()[0]
    return '' if own.startswith('127.') else own


# -- the process group

def _for_python(caller: Any) -> bool:
    """Whether a work stays in Python: torch's functions call, and not Join, which gives it to DDP's C++. caller: the frame
    that calls the collective; None: a thread of C++, such as that of a GPU's backward pass."""
    if caller is None or caller.f_globals is not distributed_c10d.__dict__:
        return False
    while caller is not None and caller.f_globals['__name__'] in WRAPPERS:
        caller = caller.f_back
    return caller is None or caller.f_code.co_name != 'notify_join_context'


def _carried(event: str, by_gloo: Optional[Callable[..., Work]] = None) -> Callable[..., Any]:
    """A collective that `begin` begins and returns as an Operation, unless it returns why it is gloo's. event: its name in
    the profiler's timeline, which is gloo's and NCCL's. by_gloo: instead of gloo's own."""
    def decorate(begin: Callable[..., Union[Operation, str]]) -> Callable[..., Work]:
        name, title = begin.__name__, 'weir:' + event
        inputs = [i for i, word in enumerate(begin.__code__.co_varnames[1:3]) if word in ('tensors', 'inputs', 'input')]

        @functools.wraps(begin)
        def collective(self: 'ProcessGroup', *args: Any, **more: Any) -> Work:
            others = self._others_for(args, more)
            if others is not None:
                theirs: Work = getattr(others, name)(*args, **more)
                return theirs
            operation: Union[Operation, str] = ''
            shown = None
            if self._comm is not None and torch.autograd._profiler_enabled():
                shown = Event(title, [t for i in inputs for t in all_tensors(args[i:i + 1])])
            try:
                if self._comm is not None:
                    with self._lock:  # the requests of an operation stay together
                        try:
                            operation = begin(self, *args, **more)
                        except Exception:
                            if shown is not None:
                                shown.end()
                            raise
                if isinstance(operation, str):
                    if shown is not None:
                        shown.end()
                    if operation:
                        _say('%s goes through gloo: %s' % (event, operation))
                    work: Work = (functools.partial(by_gloo, self._gloo) if by_gloo else getattr(self._gloo, name))(*args, **more)
                    return work
            except Exception as error:
                self._refuse(event, error)
                if isinstance(error, Error):
                    raise Failure(self._explain(error)) from None
                raise
            # An operation must not keep the group: its end cancels operations.
            explain = weakref.WeakMethod(self._explain)
            operation.event, operation.explain = shown, lambda error: (explain() or error_text)(error)
            if _for_python(sys._getframe().f_back):
                if shown is not None:
                    self._ender.future(operation)  # so that the event ends with the operation, not when the program waits
                return PythonWork(operation, self._ender)
            future = self._ender.future(operation)
            if name == 'allreduce' and operation.value[0].dtype is torch.float16 and operation.value[0].is_cpu:
                future = scripted()(future, operation.value)
            work = create_work_from_future(future)
            return work
        return collective
    return decorate


def _for_gloo(name: str, why: str = '') -> Callable[..., Any]:
    def method(self: 'ProcessGroup', *args: Any, **more: Any) -> Any:
        others = self._others_for(args, more)
        if others is None and why and self._comm is not None:
            _say('%s goes through gloo: %s' % (name, why))
        return getattr(others or self._gloo, name)(*args, **more)
    return method


def _coalescing(name: str) -> Callable[..., Any]:
    """For Weir it is nothing: the operations in progress share the window in any case."""
    def method(self: 'ProcessGroup', *args: Any) -> Any:
        others = self._others_for(args, {})
        return completed(None) if others is None else getattr(others, name)(*args)
    return method


def _device_type(args: Sequence[Any]) -> str:
    """Of a call's first tensor, or of a barrier's options; '' if there is none."""
    for arg in args:
        while isinstance(arg, (list, tuple)) and arg:
            arg = arg[0]
        device = arg if isinstance(arg, torch.device) else getattr(arg, 'device', None)
        if device is not None:
            return str(device.type)
    return ''


def _other(device: str, name: str, options: Any, more: Any, made: Any) -> Any:
    """Another backend, as torch makes it; None: the group's own gloo. made: torch's group, which has what is named before Weir."""
    if name == 'gloo':
        return None
    if torch.device(device) in made._device_types:
        return made._get_backend(torch.device(device))
    plugin, backend, own = dist.Backend._plugins.get(name.upper()), None, options.store
    options.store = PrefixStore(device, own)
    place = options.store, options.group_rank, options.group_size
    if plugin is not None:
        backend = plugin.creator_fn(options, more) if plugin.extended_api else plugin.creator_fn(*place, options.timeout)
    elif name == 'nccl' and dist.is_nccl_available():
        more = more or dist.ProcessGroupNCCL.Options()
        more._timeout = options.timeout
        backend = dist.ProcessGroupNCCL(*place, more)
        backend._set_sequence_number_for_group()
    options.store = own
    if backend is None or isinstance(backend, dist.ProcessGroup):
        raise ValueError('weir: %s:%s does not go with Weir: %s' % (
            device, name, 'this torch does not have it' if backend is None else 'it is a whole process group'))
    return backend


def _create(options: Any, more: Any = None) -> 'ProcessGroup':
    """For torch 2, which takes what this returns for the whole group, so that it has to hold the other backends of
    "cpu:weir,cuda:nccl", too."""
    caller = sys._getframe(1).f_locals  # torch does not pass this string
    names, others, devices = str(caller.get('backend', '')), None, ['cpu', 'cuda']
    if ':' in names:
        parts = distributed_c10d.BackendConfig(dist.Backend(names)).get_device_backend_map()
        devices = [device for device, name in parts.items() if name == 'weir']
        others = {device: (_other(device, name, options, more, caller['pg']), dist.Backend.backend_type_map.get(name))
                  for device, name in parts.items() if name != 'weir'}
    return ProcessGroup(options.store, options.group_rank, options.group_size, options.timeout, devices, others,
                        caller.get('device_id'))


class ProcessGroup(dist.ProcessGroup):
    """A process group of the backend "weir". devices: whose tensors Weir takes. others: {device: (backend, its type)}; None: Weir
    takes the tensors of all devices."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta, devices: Sequence[str] = ('cpu', 'cuda'),
                 others: Optional[Dict[str, Tuple[Any, Any]]] = None, device_id: Any = None) -> None:
        super().__init__(rank, size)
        self._devices = devices
        # Torch's own, which chooses by the tensors' device.
        self._others: Any = None if others is None else dist.ProcessGroup(rank, size)
        if self._others is not None and device_id is not None:
            self._others.bound_device_id = device_id
        self._rank, self._size, self._name, self._description = rank, size, '', ''
        self._lock, self._refused, self._pid = threading.Lock(), 0, os.getpid()
        # After a failure a group is made again, perhaps in the same store, where the keys of the first one still are.
        store = PrefixStore('%d' % store.add('groups of rank %d' % rank, 1), store)
        self._store = PrefixStore('weir', store)
        try:
            if rank == 0:
                self._store.set('job', json.dumps(invite(size, not dist.is_initialized())))
            self._store.wait(['job'], timeout)
            invitation = json.loads(self._store.get('job'))
            self._gloo = _gloo(PrefixStore('gloo', store), rank, size, timeout,
                               os.environ.get('WEIR_SWITCH') or invitation.get('switch', ''))
        except RuntimeError as error:
            raise Failure('weir: rank %d of a process group of %d ranks does not reach the others (it waits %g s): %s' % (
                rank, size, timeout.total_seconds(), error)) from None
        _gloos.add(self._gloo)
        if hasattr(self, '_register_backend'):  # torch 2: for what this class does not define, and for who asks for a backend
            if device_id is not None:
                self.bound_device_id = device_id
            for device in devices:
                self._register_backend(torch.device(device), dist.ProcessGroup.BackendType.GLOO, self._gloo)
            for device, (backend, kind) in (others or {}).items():
                for group in (self, self._others):
                    group._register_backend(torch.device(device), kind, backend or self._gloo)
        self._comm: Any  # None: gloo carries everything
        self._comm, why = open_job(self._store, invitation, rank, size, timeout.total_seconds())
        self._ender = Ender(self._comm)
        if why and rank == 0:
            log.warning('weir: a process group of %d ranks uses gloo alone: %s', size, why)

    # Names that torch 2 asks for.
    def getBackendName(self) -> str:
        return 'weir'

    def setGroupName(self, name: str) -> None:
        self._name = name
        if self._others is not None:
            self._others._set_group_name(name)

    def getGroupName(self) -> str:
        return self._name

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def getGroupDesc(self) -> str:
        return self._description

    def shutdown(self) -> None:
        """Leave the job; so does the end of the object."""
        self._leave('shutdown')

    def abort(self) -> None:
        self._leave('abort')

    def _leave(self, how: str) -> None:
        if self._comm is not None:
            self._comm.close()
        if hasattr(self._others, how):  # in the latest torch
            getattr(self._others, how)()

    def _others_for(self, args: Sequence[Any], more: Dict[str, Any]) -> Any:
        """The other backends' group if the call is for another device."""
        if self._others is None:
            return None
        device = _device_type((*args, *more.values()))
        return self._others if device and device not in self._devices else None

    # -- what a rank refuses

    def _refuse(self, event: str, error: Exception) -> None:
        """This rank has not begun a request. So that the others do not wait for it, and that its next call does not meet this one of
        theirs, it calls a barrier: on ranks that called the collective it fails, and if all refuse, all go on."""
        known = not isinstance(error, Error) or error.errno in (errno.EINVAL, errno.EMSGSIZE, errno.ENOMEM)
        if self._comm is None or not known or self._pid != os.getpid():  # a forked child is no rank
            return
        with contextlib.suppress(Error), self._lock:
            self._refused += 1
            with contextlib.suppress(RuntimeError):  # the store of a rank that has ended
                self._store.set('refused', 'rank %d refused its %s: %s' % (self._rank, event, str(error).partition('\n')[0]))
                self._store.add('refusals', 1)
            self._comm.ibarrier()

    def _explain(self, error: Error) -> str:
        """libweir's text, and what a rank refused while others did not."""
        with contextlib.suppress(RuntimeError):
            if error.errno == errno.EPROTO and self._store.add('refusals', 0) != self._size * self._refused:
                return 'weir: %s (%s)' % (self._store.get('refused').decode(), error.strerror)
        return error_text(error)

    # -- what the switch carries

    def _begin(self, call: Callable[..., Request], sends: Sequence[Optional[torch.Tensor]],
               outputs: Sequence[Optional[torch.Tensor]], value: Any = None, slices: Any = (),
               **more: Any) -> Union[Operation, str]:
        """A request for each pair of tensors. A tensor that this rank has no use for is None. slices: where those of the
        only output go."""
        if any(t is not None and (t.layout is not torch.strided or t.is_quantized) for t in (*sends, *outputs)):
            return 'sparse or quantized tensors'
        requests: List[Request] = []
        copies: List[Tuple[torch.Tensor, torch.Tensor]] = []
        for send, output in zip(sends, outputs):
            data = None if send is None else _host(send)
            room = None if output is None else _host(output, False)
            requests.append(call(None if data is None else _moved(data, more.get('op', '')),
                                 None if room is data or room is None else _moved(room, more.get('op', '')), **more))
            if room is not None and room is not output:
                copies.append((output, room))
        if slices and outputs[0] is not None:
            copies += zip(slices, outputs[0])
        return Operation(requests, outputs if value is None else value, copies)

    def _slices(self, one: torch.Tensor) -> torch.Tensor:
        return torch.empty((self._size, *one.shape), dtype=one.dtype, pin_memory=not one.is_cpu)

    def _unfit(self, slices: Sequence[torch.Tensor], one: torch.Tensor) -> str:
        """Gloo says what is wrong with them."""
        fit = len(slices) == self._size and all(t.shape == one.shape and t.dtype == one.dtype for t in slices)
        return '' if fit else 'slices of different sizes or types'

    @_carried('all_reduce')
    def allreduce(self, tensors: Any, opts: Any = None) -> Union[Operation, str]:
        tensors = _list(tensors)
        return self._reduce_all(tensors, opts) if len(tensors) == 1 else 'several tensors'

    @_carried('all_reduce')
    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Union[Operation, str]:
        return self._reduce_all(_list(tensors), opts)

    def _reduce_all(self, tensors: List[torch.Tensor], opts: Any) -> Union[Operation, str]:
        return self._begin(self._comm.iallreduce, tensors, tensors, op=_reduction(tensors, opts))

    @_carried('reduce')
    def reduce(self, tensors: Any, opts: Any, op: Any = None) -> Union[Operation, str]:
        tensors, root = _list(tensors), _root(opts)
        name = _reduction(tensors, op or getattr(opts, 'reduceOp', None))
        return self._begin(self._comm.ireduce, tensors, tensors if root == self._rank else [None], tensors, op=name, root=root)

    @_carried('broadcast')
    def broadcast(self, tensors: Any, opts: Any) -> Union[Operation, str]:
        tensors, root = _list(tensors), _root(opts)
        if len(tensors) != 1:
            return 'several tensors'
        pair = (tensors, [None]) if root == self._rank else ([None], tensors)
        return self._begin(self._comm.ibroadcast, *pair, tensors, root=root)

    @_carried('all_gather')
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[Operation, str]:
        slices, inputs = _inner(outputs), _list(inputs)
        return self._unfit(slices, inputs[0]) or self._begin(
            self._comm.iallgather, inputs, [self._slices(inputs[0])], outputs, slices)

    @_carried('all_gather')
    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Union[Operation, str]:
        return self._begin(self._comm.iallgather, [input], [output])

    @_carried('all_gather')
    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[Operation, str]:
        return self._begin(self._comm.iallgather, inputs, outputs)

    @_carried('gather')
    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Union[Operation, str]:
        slices, inputs, root = _inner(outputs), _list(inputs), _root(opts)
        if root != self._rank:
            return self._begin(self._comm.igather, inputs, [None], [], root=root)
        return self._unfit(slices, inputs[0]) or self._begin(
            self._comm.igather, inputs, [self._slices(inputs[0])], outputs, slices, root=root)

    @_carried('scatter')
    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Union[Operation, str]:
        outputs, slices, root = _list(outputs), _inner(inputs), _root(opts)
        if root != self._rank:
            return self._begin(self._comm.iscatter, [None], outputs, root=root)
        return self._unfit(slices, outputs[0]) or self._begin(self._comm.iscatter, [_stack(slices)], outputs, root=root)

    @_carried('reduce_scatter')
    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[Operation, str]:
        outputs, slices = _list(outputs), _inner(inputs)
        return self._unfit(slices, outputs[0]) or self._reduce_into(outputs, [_stack(slices)], opts)

    @_carried('reduce_scatter')
    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Union[Operation, str]:
        return self._reduce_into([output], [input], opts)

    @_carried('reduce_scatter')
    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[Operation, str]:
        return self._reduce_into(outputs, inputs, opts)

    def _reduce_into(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any) -> Union[Operation, str]:
        return self._begin(self._comm.ireducescatter, inputs, outputs, op=_reduction(inputs, opts))

    @_carried('all_to_all', _exchange)
    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_splits: List[int], input_splits: List[int],
                      opts: Any = None) -> Union[Operation, str]:
        if output_splits or input_splits:
            return 'split sizes, which other ranks do not know'
        if any(t.dim() == 0 or t.size(0) % self._size for t in (output, input)):
            raise ValueError('alltoall: dim 0 of %s and %s is not a number of slices for %d ranks' % (
                tuple(output.shape), tuple(input.shape), self._size))
        return self._begin(self._comm.ialltoall, [input], [output])

    @_carried('barrier')
    def barrier(self, opts: Any = None) -> Union[Operation, str]:
        return Operation([self._comm.ibarrier()], [])

    _start_coalescing = _coalescing('_start_coalescing')
    _end_coalescing = _coalescing('_end_coalescing')
    # The latest torch's names.
    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing
    all_gather_single, all_gather_single_coalesced = _allgather_base, allgather_into_tensor_coalesced
    reduce_scatter_single, reduce_scatter_single_coalesced = _reduce_scatter_base, reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # -- what gloo carries

    send = _for_gloo('send', 'the switch carries collectives')
    recv = _for_gloo('recv', 'the switch carries collectives')
    recv_anysource = _for_gloo('recv_anysource', 'the switch carries collectives')
    monitored_barrier = _for_gloo('monitored_barrier', 'the switch does not name who is missing')
    allgather_coalesced = _for_gloo('allgather_coalesced', 'torch has replaced it')
    _set_sequence_number_for_group = _for_gloo('_set_sequence_number_for_group')
    _get_sequence_number_for_group = _for_gloo('_get_sequence_number_for_group')

    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        """Gloo 1.13 has only alltoall_base."""
        others = self._others_for((outputs, inputs), {})
        if others is not None:
            work: Work = others.alltoall(outputs, inputs, opts)
            return work
        _say('all_to_all of lists goes through gloo: each rank knows only its own sizes')
        if not len(outputs) == len(inputs) == self._size:
            raise ValueError('alltoall: %d outputs and %d inputs for %d ranks' % (len(outputs), len(inputs), self._size))
        sizes = [t.numel() for t in outputs]
        received = torch.empty(sum(sizes), dtype=outputs[0].dtype)
        sent = torch.cat([t.detach().reshape(-1).cpu() for t in inputs])
        _exchange(self._gloo, received, sent, sizes, [t.numel() for t in inputs]).wait()
        for output, part in zip(outputs, received.split(sizes)):
            output.detach().copy_(part.view(output.shape))
        return completed(outputs)


def active(group: Optional[dist.ProcessGroup] = None) -> bool:
    """Whether the switch carries the collectives of this process group (None: the default group). False: gloo carries all, or
    the group is of another backend, or has been shut down."""
    comm = getattr(distributed_c10d._get_default_group() if group is None else group, '_comm', None)
    return comm is not None and not comm._handle.closed


# -- the hook

class _Reduction(Operation):
    """Of a compressed bucket: what partial results and late contributions mean is decided here."""
    __slots__ = ('state', 'sent', 'received', 'residual')

    def __init__(self, request: Request, value: torch.Tensor, state: '_HookState', sent: torch.Tensor, received: torch.Tensor,
                 residual: Optional[torch.Tensor]):
        super().__init__([request], value)
        self.state, self.sent, self.received, self.residual = state, sent, received, residual

    def wait(self) -> None:
        state = self.state
        try:
            self.requests[0].wait()
        except Partial as part:
            if state.partial == 'fail':
                raise
            for block in part.degraded:
                span = slice(block.first, block.first + block.count)
                if self.residual is not None and state.comm.rank not in block.present:
                    self.residual[span] += self.sent[span]
                if state.partial == 'rescale' and block.present:
                    self.received[span] *= state.comm.size / len(block.present)
        self.value.copy_(self.received)


class _HookState:
    def __init__(self, comm: Communicator, compress: Optional[str], error_feedback: bool, partial: str):
        self.comm, self.compress, self.error_feedback, self.partial = comm, compress, error_feedback, partial
        self.ender = Ender(comm)
        self.kept: Dict[int, Tuple[torch.Tensor, Optional[torch.Tensor]]] = {}  # of each bucket: (sent, residual)

    def buffers(self, bucket: dist.GradBucket) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """They stay: libweir knows what it owes by the address. DDP changes its buckets after the first step."""
        data = bucket.buffer()
        dtype = torch.bfloat16 if self.compress else data.dtype
        if not self.compress and (self.partial == 'rescale' or self.error_feedback) and data.element_size() < 4:
            dtype = torch.float32  # libweir neither scales nor keeps smaller ones
        old = self.kept.get(bucket.index())
        if old is not None and (old[0].numel(), old[0].dtype) == (data.numel(), dtype):
            return old
        if old is not None and self.error_feedback and not self.compress:
            self.comm.error_feedback_forget(old[0])
        sent = torch.empty(data.numel(), dtype=dtype, pin_memory=not data.is_cpu)
        residual = torch.zeros(data.numel()) if self.compress and self.error_feedback else None
        self.kept[bucket.index()] = sent, residual
        return sent, residual


def _average(state: _HookState, bucket: dist.GradBucket) -> Future[torch.Tensor]:
    data = bucket.buffer()
    sent, residual = state.buffers(bucket)
    mean = data / state.comm.size
    if residual is not None:
        residual += mean.cpu()
        sent.copy_(residual)
        residual -= sent
    else:
        sent.copy_(mean)
    received = data if data.is_cpu and data.dtype is sent.dtype else torch.empty_like(sent)
    request = state.comm.iallreduce(sent, received)
    if not state.compress:
        return state.ender.future(Operation([request], data, [(data, received)] if received is not data else []))
    return state.ender.future(_Reduction(request, data, state, sent, received, residual))


def hook(job: Optional[str] = None, *, group: Optional[dist.ProcessGroup] = None, compress: Optional[str] = None,
         error_feedback: bool = False, partial: str = 'rescale', **config: Any) -> Tuple[_HookState, Callable[..., Future]]:
    """A communication hook for DistributedDataParallel: gradients are averaged by Weir, and all else stays with the model's
    backend. All ranks of the group call it.

        model.register_comm_hook(*weir.torch.hook(job='ring', compress='bf16', error_feedback=True))

    job: None: a temporary job of its own, with the settings of WEIR_SETTINGS; otherwise that of weir.open().
    group: whose ranks join; None: all.
    compress: 'bf16': gradients are sent in 2 bytes.
    error_feedback: what compression cut off, and a contribution that came too late, is added to the next step's gradients.
    partial: if the job's policy is `partial`, what to do with a sum that lacks ranks: 'rescale' it to all ranks, take it
        'as_is', or 'fail'. Without compression, 'rescale' and error_feedback send fp16 and bf16 in 4 bytes.
    config: more for weir.open().
    """
    if compress not in (None, 'bf16') or partial not in ('rescale', 'as_is', 'fail'):
        raise ValueError("compress is None or 'bf16', and partial 'rescale', 'as_is' or 'fail', not %r and %r" % (
            compress, partial))
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    made: Dict[str, Any] = {
        **limits(distributed_c10d.default_pg_timeout.total_seconds()),
        'partial': 'as_is' if compress else partial, 'error_feedback': error_feedback and not compress,
        'raise_partial': bool(compress) or partial == 'fail', **config}
    if job is not None:
        comm = _open_communicator(job=job, rank=rank, size=size, **made)
    else:
        told = [invite(size)] if rank == 0 else [{}]
        dist.broadcast_object_list(told, src=0 if group is None else distributed_c10d.get_global_rank(group, 0), group=group)
        if 'why' in told[0]:
            raise Failure(told[0]['why'])
        comm = join(told[0], rank, size, **made)
    return _HookState(comm, compress, error_feedback, partial), _average


if 'devices' in inspect.signature(dist.Backend.register_backend).parameters:
    dist.Backend.register_backend('weir', _create, extended_api=True, devices=['cpu', 'cuda'])
else:
    dist.Backend.register_backend('weir', _create, extended_api=True)
    dist.Backend.WEIR = 'weir'  # torch 1.13 makes it 'WEIR', which get_backend() never returns
