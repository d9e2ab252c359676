# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on Weir: the backend "weir" of torch.distributed, and a communication hook for DistributedDataParallel.

    import torch.distributed as dist
    import weir.torch

    dist.init_process_group('weir')

Each process group has a temporary job in the switch, and gloo beside it, for what the switch cannot do. docs/pytorch.md is
the guide.
"""
import functools
import inspect
import json
import logging
import os
import queue
import secrets
import sys
import threading
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, ProcessGroupGloo, ReduceOp, _Work as Work, distributed_c10d
from torch.futures import Future

from . import open as _open_communicator
from .communicator import Communicator, Request
from .errors import Error, Partial

__all__ = ['ProcessGroup', 'hook']
log = logging.getLogger('weir.torch')

JOIN_S, CONTACT_S, SILENCE_S = 30.0, 10.0, 20.0  # without all ranks; without an answer, before and after
RANKS = 256  # of a job, at most
_create_work_from_future = torch._C._distributed_c10d._create_work_from_future
# What torch raises when communication fails.
Failure = getattr(dist, 'DistBackendError', RuntimeError)

TYPES = {getattr(torch, name) for name in (
    'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'bfloat16', 'float32', 'float64',
    'float8_e4m3fn', 'float8_e5m2') if hasattr(torch, name)}
# By hash: comparing two of torch 1.13's takes 3 us.
OPERATIONS = {hash(getattr(ReduceOp, name)): ours for name, ours in (
    ('SUM', 'sum'), ('AVG', 'avg'), ('PRODUCT', 'prod'), ('MIN', 'min'), ('MAX', 'max'),
    ('BAND', 'band'), ('BOR', 'bor'), ('BXOR', 'bxor')) if hasattr(ReduceOp, name)}
INTEGERS_ONLY = ('band', 'bor', 'bxor')
# The modules of torch's functions, and of what decorates them.
WRAPPERS = ('torch.distributed.distributed_c10d', 'torch.distributed.c10d_logger')

_said = set()
_switch: Dict[str, str] = {}  # what the process that knew the switch has told


def _say(text: str) -> None:
    """A warning, once in this process."""
    if text not in _said:
        _said.add(text)
        log.warning('weir: %s', text)


# -- operations in progress

class _Operation:
    """Requests of Weir, and what is to be done when they have ended. value: what torch calls the result."""
    __slots__ = ('requests', 'value', 'copies', 'profile', 'lock', 'failure')

    def __init__(self, requests: List[Request], value: Any, copies: Sequence[Tuple[torch.Tensor, torch.Tensor]] = ()):
        self.requests, self.value, self.copies = requests, value, copies  # copies: (to, from)
        self.profile: Optional[torch.autograd.profiler.record_function] = None
        self.lock = threading.Lock()
        self.failure: Optional[BaseException] = None

    def end(self, timeout: Optional[float] = None) -> Any:
        """Wait, and return the value. May be called again, in any thread."""
        with self.lock:
            if self.requests and self.failure is None:
                try:
                    self.wait(timeout)
                    self.requests = []
                except Error as error:
                    self.failure = Failure(error.strerror)
                if self.profile is not None:
                    self.profile.__exit__(None, None, None)
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        return self.value

    def wait(self, timeout: Optional[float]) -> None:
        for request in self.requests:
            request.wait(timeout)
        for to, data in self.copies:
            to.detach().copy_(data)

    def ended(self) -> bool:
        return all(request.test() for request in self.requests)


class _Ender:
    """A thread that waits for operations in their order and ends their futures. It ends with this object, and before Python
    does: a thread that Python stops inside C++ aborts the process."""

    def __init__(self, comm: Optional[Communicator]) -> None:
        self.comm = weakref.ref(comm) if comm is not None else None  # works, which keep this object, do not keep the job
        self.queue: 'queue.SimpleQueue[Optional[Future]]' = queue.SimpleQueue()
        self.thread: Optional[threading.Thread] = None

    def future(self, operation: _Operation) -> Future:
        devices = [t.device for t in _tensors(operation.value) if t.is_cuda]
        begin: Any = Future(devices=devices)
        # An exception becomes an error of C++'s future only in a callback: set_exception() stores a result.
        end = begin.then(lambda _: operation.end())
        if operation.profile is not None:  # another thread's profiler would not take the event
            end, operation.profile = operation.profile._call_end_callbacks_on_future(end), None
        if threading.current_thread() is self.thread:
            begin.set_result(None)  # a callback that waits for another operation
        else:
            self.queue.put(begin)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, args=(self.queue,), name='weir', daemon=True)
                self.thread.start()
                weakref.finalize(self, self._stop, self.comm, self.queue, self.thread)
        return end

    @staticmethod
    def _stop(known: Any, waiting: 'queue.SimpleQueue[Optional[Future]]', thread: threading.Thread) -> None:
        comm = known and known()
        if comm is not None:
            comm.close()  # operations in progress fail
        waiting.put(None)
        if thread is not threading.current_thread():
            thread.join(JOIN_S)

    @staticmethod
    def _run(waiting: 'queue.SimpleQueue[Optional[Future]]') -> None:
        begin: Any
        for begin in iter(waiting.get, None):
            begin.set_result(None)
            del begin


class _Work(Work):
    """An operation for torch's functions in Python, which wait in the caller's thread and raise. C++ must not get it: C++
    keeps only the part of an object that C++ knows, and would wait forever. It gets the future's work instead, whose
    wait() does not raise, but whose future does.
    """

    def __init__(self, operation: _Operation, ender: _Ender):
        super().__init__()
        self._operation, self._ender = operation, ender

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        try:
            self._operation.end(timeout.total_seconds() if timeout else None)
        except TimeoutError as error:
            raise Failure(str(error)) from None
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        if not self._operation.ended():
            return False
        self.exception()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[BaseException]:
        try:
            self._operation.end()
        except RuntimeError as error:
            return error
        return None

    def result(self) -> List[torch.Tensor]:
        return _tensors(self._operation.end())

    def get_future(self) -> Future:
        return self._ender.future(self._operation)


def _tensors(value: Any) -> List[torch.Tensor]:
    """All tensors in lists of lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value or () for t in _tensors(part)]


def _completed(value: Any) -> Work:
    future: Any = Future()
    future.set_result(value)
    work: Work = _create_work_from_future(future)
    return work


# -- tensors

def _host(tensor: torch.Tensor, filled: bool = True) -> torch.Tensor:
    """The tensor, or a contiguous copy in host memory, without the data unless filled. Copies of other devices' memory are
    pinned; this has not been tested on a GPU."""
    if tensor.is_cpu and tensor.is_contiguous():
        return tensor
    made = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=not tensor.is_cpu)
    return made.copy_(tensor.detach()) if filled else made


def _stack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([t.detach() for t in tensors])


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor; of a type that Weir has not, its bytes."""
    return tensor if tensor.dtype in TYPES else tensor.detach().reshape(-1).view(torch.uint8)


def _list(tensors: Any) -> Any:
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _inner(lists: Any) -> Any:
    """Torch's lists have a list for each device."""
    return lists[0] if lists and isinstance(lists[0], (list, tuple)) else lists


def _root(opts: Any) -> int:
    return int(getattr(opts, 'rootRank', opts))


def _reduction(tensors: Sequence[torch.Tensor], opts: Any) -> Tuple[str, str]:
    """(Weir's operation, '') or ('', why the switch has none). As all reasons, this one must be equal on all ranks."""
    op = OPERATIONS.get(hash(ReduceOp.SUM if opts is None else getattr(opts, 'reduceOp', opts)), '')
    dtype = tensors[0].dtype
    if not op or dtype not in TYPES or (op in INTEGERS_ONLY and dtype.is_floating_point):
        return '', '%s of %s' % (op or 'this operation', dtype)
    return op, ''


# -- the process group

def _for_python(caller: Any) -> bool:
    """Whether a work stays in Python: torch's functions call, and not Join, which gives it to DDP's C++. caller: the frame
    that calls the collective; None: a thread of C++, such as that of a GPU's backward pass."""
    if caller is None or caller.f_globals is not distributed_c10d.__dict__:
        return False
    while caller is not None and caller.f_globals['__name__'] in WRAPPERS:
        caller = caller.f_back
    return caller is None or caller.f_code.co_name != 'notify_join_context'


def _carried(event: str) -> Callable[..., Any]:
    """A collective that `begin` begins and returns as an _Operation, unless it returns why it is gloo's. event: its name in
    the profiler's timeline, which is gloo's and NCCL's."""
    def decorate(begin: Callable[..., Union[_Operation, str]]) -> Callable[..., Work]:
        name, title = begin.__name__, 'weir:' + event

        @functools.wraps(begin)
        def collective(self: 'ProcessGroup', *args: Any, **more: Any) -> Work:
            operation: Union[_Operation, str] = ''
            profile = None
            if self._comm is not None:
                if torch.autograd._profiler_enabled():
                    profile = torch.autograd.profiler.record_function(title)
                    profile.__enter__()
                try:
                    with self._lock:  # the requests of an operation stay together
                        operation = begin(self, *args, **more)
                except Error as error:
                    raise Failure(error.strerror) from None
            if isinstance(operation, str):
                if profile is not None:
                    profile.__exit__(None, None, None)
                if operation:
                    _say('%s goes through gloo: %s' % (event, operation))
                work: Work = getattr(self._gloo, name)(*args, **more)
                return work
            operation.profile = profile
            if _for_python(sys._getframe().f_back):
                return _Work(operation, self._ender)
            work = _create_work_from_future(self._ender.future(operation))
            return work
        return collective
    return decorate


def _for_gloo(name: str, why: str = '') -> Callable[..., Any]:
    def method(self: 'ProcessGroup', *args: Any, **more: Any) -> Any:
        if why and self._comm is not None:
            _say('%s goes through gloo: %s' % (name, why))
        return getattr(self._gloo, name)(*args, **more)
    return method


class ProcessGroup(dist.ProcessGroup):
    """A process group of the backend "weir"."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._rank, self._size, self._name, self._description = rank, size, '', ''
        self._lock = threading.Lock()
        # After a failure a group is made again, perhaps in the same store, where the keys of the first one still are.
        store = PrefixStore('%d' % store.add('groups of rank %d' % rank, 1), store)
        self._gloo = ProcessGroupGloo(PrefixStore('gloo', store), rank, size, timeout=timeout)
        if hasattr(self, '_register_backend'):  # torch 2: for what this class does not define
            self._register_backend(torch.device('cpu'), dist.ProcessGroup.BackendType.GLOO, self._gloo)
        self._comm: Any  # None: gloo carries everything
        self._comm, why = _open(PrefixStore('weir', store), rank, size, timeout.total_seconds())
        self._ender = _Ender(self._comm)
        if why and rank == 0:
            log.warning('weir: a process group of %d ranks uses gloo alone: %s', size, why)

    # Names that torch 2 asks for.
    def getBackendName(self) -> str:
        return 'weir'

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def getGroupDesc(self) -> str:
        return self._description

    def shutdown(self) -> None:
        """Leave the job; so does the end of the object."""
        if self._comm is not None:
            self._comm.close()

    abort = shutdown

    # -- what the switch carries

    def _begin(self, call: Callable[..., Request], sends: Sequence[Optional[torch.Tensor]],
               outputs: Sequence[Optional[torch.Tensor]], value: Any = None, slices: Any = (),
               **more: Any) -> Union[_Operation, str]:
        """A request for each pair of tensors. A tensor that this rank has no use for is None. slices: where those of the
        only output go."""
        if any(t is not None and (t.layout is not torch.strided or t.is_quantized) for t in (*sends, *outputs)):
            return 'sparse or quantized tensors'
        requests: List[Request] = []
        copies: List[Tuple[torch.Tensor, torch.Tensor]] = []
        for send, output in zip(sends, outputs):
            data = None if send is None else _host(send)
            room = None if output is None else _host(output, False)
            requests.append(call(None if data is None else _moved(data),
                                 None if room is data or room is None else _moved(room), **more))
            if room is not None and room is not output:
                copies.append((output, room))
        if slices and outputs[0] is not None:
            copies += zip(slices, outputs[0])
        return _Operation(requests, outputs if value is None else value, copies)

    def _slices(self, one: torch.Tensor) -> torch.Tensor:
        return torch.empty((self._size, *one.shape), dtype=one.dtype, pin_memory=not one.is_cpu)

    def _unfit(self, slices: Sequence[torch.Tensor], one: torch.Tensor) -> str:
        """Gloo says what is wrong with them."""
        fit = len(slices) == self._size and all(t.shape == one.shape and t.dtype == one.dtype for t in slices)
        return '' if fit else 'slices of different sizes or types'

    @_carried('all_reduce')
    def allreduce(self, tensors: Any, opts: Any = None) -> Union[_Operation, str]:
        tensors = _list(tensors)
        return self._reduce_all(tensors, opts) if len(tensors) == 1 else 'several tensors'

    @_carried('all_reduce')
    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Union[_Operation, str]:
        return self._reduce_all(_list(tensors), opts)

    def _reduce_all(self, tensors: List[torch.Tensor], opts: Any) -> Union[_Operation, str]:
        op, why = _reduction(tensors, opts)
        return why or self._begin(self._comm.iallreduce, tensors, tensors, op=op)

    @_carried('reduce')
    def reduce(self, tensors: Any, opts: Any, op: Any = None) -> Union[_Operation, str]:
        tensors, root = _list(tensors), _root(opts)
        name, why = _reduction(tensors, op or getattr(opts, 'reduceOp', None))
        return why or self._begin(self._comm.ireduce, tensors, tensors if root == self._rank else [None], tensors, op=name,
                                  root=root)

    @_carried('broadcast')
    def broadcast(self, tensors: Any, opts: Any) -> Union[_Operation, str]:
        tensors, root = _list(tensors), _root(opts)
        if len(tensors) != 1:
            return 'several tensors'
        pair = (tensors, [None]) if root == self._rank else ([None], tensors)
        return self._begin(self._comm.ibroadcast, *pair, tensors, root=root)

    @_carried('all_gather')
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[_Operation, str]:
        slices, inputs = _inner(outputs), _list(inputs)
        return self._unfit(slices, inputs[0]) or self._begin(
            self._comm.iallgather, inputs, [self._slices(inputs[0])], outputs, slices)

    @_carried('all_gather')
    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Union[_Operation, str]:
        return self._begin(self._comm.iallgather, [input], [output])

    @_carried('all_gather')
    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[_Operation, str]:
        return self._begin(self._comm.iallgather, inputs, outputs)

    @_carried('gather')
    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Union[_Operation, str]:
        slices, inputs, root = _inner(outputs), _list(inputs), _root(opts)
        if root != self._rank:
            return self._begin(self._comm.igather, inputs, [None], [], root=root)
        return self._unfit(slices, inputs[0]) or self._begin(
            self._comm.igather, inputs, [self._slices(inputs[0])], outputs, slices, root=root)

    @_carried('scatter')
    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Union[_Operation, str]:
        outputs, slices, root = _list(outputs), _inner(inputs), _root(opts)
        if root != self._rank:
            return self._begin(self._comm.iscatter, [None], outputs, root=root)
        return self._unfit(slices, outputs[0]) or self._begin(self._comm.iscatter, [_stack(slices)], outputs, root=root)

    @_carried('reduce_scatter')
    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[_Operation, str]:
        outputs, slices = _list(outputs), _inner(inputs)
        return self._unfit(slices, outputs[0]) or self._reduce_into(outputs, [_stack(slices)], opts)

    @_carried('reduce_scatter')
    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Union[_Operation, str]:
        return self._reduce_into([output], [input], opts)

    @_carried('reduce_scatter')
    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Union[_Operation, str]:
        return self._reduce_into(outputs, inputs, opts)

    def _reduce_into(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any) -> Union[_Operation, str]:
        op, why = _reduction(inputs, opts)
        return why or self._begin(self._comm.ireducescatter, inputs, outputs, op=op)

    @_carried('all_to_all')
    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_splits: List[int], input_splits: List[int],
                      opts: Any = None) -> Union[_Operation, str]:
        if output_splits or input_splits:
            return 'split sizes, which other ranks do not know'
        if any(t.dim() == 0 or t.size(0) % self._size for t in (output, input)):
            raise ValueError('alltoall: dim 0 of %s and %s is not a number of slices for %d ranks' % (
                tuple(output.shape), tuple(input.shape), self._size))
        return self._begin(self._comm.ialltoall, [input], [output])

    @_carried('barrier')
    def barrier(self, opts: Any = None) -> Union[_Operation, str]:
        return _Operation([self._comm.ibarrier()], [])

    def _start_coalescing(self, *_: Any) -> Work:
        """Nothing: the operations in progress share the window in any case."""
        return _completed(None)

    _end_coalescing = _start_coalescing
    # The latest torch's names.
    start_coalescing = end_coalescing = _start_coalescing
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
        _say('all_to_all of lists goes through gloo: each rank knows only its own sizes')
        if not len(outputs) == len(inputs) == self._size:
            raise ValueError('alltoall: %d outputs and %d inputs for %d ranks' % (len(outputs), len(inputs), self._size))
        sizes = [t.numel() for t in outputs]
        received = torch.empty(sum(sizes), dtype=outputs[0].dtype)
        sent = torch.cat([t.detach().reshape(-1).cpu() for t in inputs])
        self._gloo.alltoall_base(received, sent, sizes, [t.numel() for t in inputs]).wait()
        for output, part in zip(outputs, received.split(sizes)):
            output.detach().copy_(part.view(output.shape))
        return _completed(outputs)


# -- the job of a process group

def _invitation(size: int, world: bool = False) -> Dict[str, str]:
    """What rank 0 tells the others: the job, or why there is none. exists: it is not to be created, as one over several
    switches; each rank joins it at its own switch, if it knows one. world: of the default group."""
    global _switch
    if os.environ.get('WEIR_SWITCH'):
        _switch = {'switch': os.environ['WEIR_SWITCH'], 'settings': os.environ.get('WEIR_SETTINGS', ''),
                   'space': os.environ.get('WEIR_NAMESPACE', '')}
    if not _switch:
        return {'why': 'WEIR_SWITCH is not set at rank 0'}
    if size > RANKS:
        return {'why': 'a job has %d ranks at most' % RANKS}
    if world and os.environ.get('WEIR_JOB'):
        return {**_switch, 'job': os.environ['WEIR_JOB'], 'exists': 'yes'}
    number = secrets.token_hex(6)
    return {**_switch, 'job': '%.18s.%s' % (_switch['space'], number) if _switch['space'] else 'torch-' + number}


def _limits(timeout: float) -> Dict[str, int]:
    """The timeouts of weir.open(). An operation has that of torch."""
    seconds = {'join_timeout_ms': min(timeout, JOIN_S), 'contact_timeout_ms': min(timeout, CONTACT_S),
               'op_timeout_ms': timeout, 'silence_timeout_ms': min(timeout, SILENCE_S)}
    return {name: max(1, min(int(1000 * s), 2**32 - 1)) for name, s in seconds.items()}


def _join(invitation: Dict[str, str], rank: int, size: int, **config: Any) -> Communicator:
    if 'exists' in invitation:
        return _open_communicator(invitation['job'], os.environ.get('WEIR_SWITCH') or invitation['switch'], rank, size, **config)
    # The later one of equal settings counts.
    made = {'settings': 'alltoall=fit ' + invitation['settings'], 'create': True, 'temporary': True, **config}
    return _open_communicator(invitation['job'], invitation['switch'], rank, size, **made)


def _open(store: dist.Store, rank: int, size: int, timeout: float) -> Tuple[Optional[Communicator], str]:
    """Open a job on all ranks or on none: (communicator, '') or (None, why)."""
    if rank == 0:
        store.set('job', json.dumps(_invitation(size, not dist.is_initialized())))
    invitation = json.loads(store.get('job'))
    if 'why' in invitation:
        return None, invitation['why']
    _switch.update({key: invitation[key] for key in ('switch', 'settings', 'space')})
    opened: 'queue.SimpleQueue[Union[Communicator, Exception]]' = queue.SimpleQueue()

    def join() -> None:
        try:
            opened.put(_join(invitation, rank, size, partial='fail', **_limits(timeout)))
        except Exception as error:
            opened.put(error)
    threading.Thread(target=join, daemon=True).start()
    outcome: Union[Communicator, Exception, None] = None
    while outcome is None:
        try:
            outcome = opened.get(timeout=0.1)
        except queue.Empty:
            if store.add('failed', 0):
                break  # what is opened later is dropped, and so closed
    if isinstance(outcome, Exception):
        store.set('outcome', 'rank %d: %s' % (rank, getattr(outcome, 'strerror', None) or outcome))
        store.add('failed', 1)
    elif outcome is not None and store.add('opened', 1) == size:
        store.set('outcome', 'open')
    why = store.get('outcome').decode()
    if why != 'open':
        if isinstance(outcome, Communicator):
            outcome.close()
        return None, why
    assert isinstance(outcome, Communicator)
    return outcome, ''


# -- the hook

class _Reduction(_Operation):
    """Of a compressed bucket: what partial results and late contributions mean is decided here."""
    __slots__ = ('state', 'sent', 'received', 'residual')

    def __init__(self, request: Request, value: torch.Tensor, state: '_HookState', sent: torch.Tensor, received: torch.Tensor,
                 residual: Optional[torch.Tensor]):
        super().__init__([request], value)
        self.state, self.sent, self.received, self.residual = state, sent, received, residual

    def wait(self, timeout: Optional[float]) -> None:
        state = self.state
        try:
            self.requests[0].wait(timeout)
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
        self.ender = _Ender(comm)
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
        return state.ender.future(_Operation([request], data, [(data, received)] if received is not data else []))
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
        **_limits(distributed_c10d.default_pg_timeout.total_seconds()),
        'partial': 'as_is' if compress else partial, 'error_feedback': error_feedback and not compress,
        'raise_partial': bool(compress) or partial == 'fail', **config}
    if job is not None:
        comm = _open_communicator(job=job, rank=rank, size=size, **made)
    else:
        told = [_invitation(size)] if rank == 0 else [{}]
        dist.broadcast_object_list(told, src=0 if group is None else distributed_c10d.get_global_rank(group, 0), group=group)
        if 'why' in told[0]:
            raise Failure(told[0]['why'])
        comm = _join(told[0], rank, size, **made)
    return _HookState(comm, compress, error_feedback, partial), _average


if 'devices' in inspect.signature(dist.Backend.register_backend).parameters:
    dist.Backend.register_backend('weir', ProcessGroup, devices=['cpu', 'cuda'])
else:
    dist.Backend.register_backend('weir', ProcessGroup)
    dist.Backend.WEIR = 'weir'  # torch 1.13 makes it 'WEIR', which get_backend() never returns
