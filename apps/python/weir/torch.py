# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on Weir: the backend "weir" of torch.distributed, and a communication hook for DistributedDataParallel.

    import torch.distributed as dist
    import weir.torch

    dist.init_process_group('weir')

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
import queue
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

from ._torch_job import JOIN_S, Failure, invite, join, limits, open_job
from .communicator import Communicator, Request
from .communicator import open as _open_communicator
from .errors import Error, Partial

__all__ = ['ProcessGroup', 'active', 'hook']
log = logging.getLogger('weir.torch')

_create_work_from_future = torch._C._distributed_c10d._create_work_from_future

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


# -- operations in progress

def _timed_out(text: str) -> str:
    """In the words of gloo and NCCL, which programs look for."""
    return 'weir: Timed out waiting: ' + text


def _text(error: Error) -> str:
    text = str(error.strerror)
    return _timed_out(text) if error.errno == errno.ETIMEDOUT else text


class _Event:
    """An operation in the profiler, as gloo's: with the shapes of its inputs, and asynchronous."""

    def __init__(self, title: str, inputs: Sequence[torch.Tensor]):
        self.thread = threading.get_ident()
        self.ended: Any = Future()
        record = torch.autograd._record_function_with_args_enter(title, *inputs)
        torch.ops.profiler._call_end_callbacks_on_jit_fut(record, self.ended)  # for the profiler of this thread

    def end(self) -> None:
        """In another thread: torch calls an event asynchronous that began in one thread and ended in another."""
        if threading.get_ident() != self.thread:
            self.ended.set_result(None)
        else:
            other = threading.Thread(target=self.ended.set_result, args=(None,))
            other.start()
            other.join()


class _Operation:
    """Requests of Weir, and what is to be done when they have ended. value: what torch calls the result."""
    __slots__ = ('requests', 'value', 'copies', 'event', 'explain', 'lock', 'failure')

    def __init__(self, requests: List[Request], value: Any, copies: Sequence[Tuple[torch.Tensor, torch.Tensor]] = ()):
        self.requests, self.value, self.copies = requests, value, copies  # copies: (to, from)
        self.event: Optional[_Event] = None
        self.explain = _text
        self.lock = threading.Lock()
        self.failure = ''

    def end(self, timeout: Optional[float] = None) -> Any:
        """Wait, and return the value. May be called again, in any thread."""
        with contextlib.suppress(Error):
            for request in self.requests:
                request.wait(timeout)  # without the lock: other threads have other timeouts
        with self.lock:
            if self.requests:
                try:
                    self.wait()
                except Error as error:
                    self.failure = self.explain(error)
                self.requests, self.explain = [], _text  # they keep the job
                if self.event is not None:
                    self.event.end()
        if self.failure:
            raise Failure(self.failure)
        return self.value

    def wait(self) -> None:
        for request in self.requests:
            request.wait()
        for to, data in self.copies:
            with torch.inference_mode(to.is_inference()):  # the program's mode, which other threads have not
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
            raise Failure(_timed_out(str(error))) from None
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


def _after(done: Future[torch.Tensor], tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    torch.jit.wait(done)
    return tensors


def _later(done: Future[torch.Tensor], tensors: List[torch.Tensor]) -> Future[List[torch.Tensor]]:
    return torch.jit.fork(_after, done, tensors)


@functools.lru_cache(maxsize=None)
def _scripted() -> Any:
    """DDP's FP16 hook in C++ takes only C++'s list of tensors. TorchScript makes a future of one, which follows ours."""
    return torch.jit.script(_later)


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
    return _completed([output])


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
    """A collective that `begin` begins and returns as an _Operation, unless it returns why it is gloo's. event: its name in
    the profiler's timeline, which is gloo's and NCCL's. by_gloo: instead of gloo's own."""
    def decorate(begin: Callable[..., Union[_Operation, str]]) -> Callable[..., Work]:
        name, title = begin.__name__, 'weir:' + event
        inputs = [i for i, word in enumerate(begin.__code__.co_varnames[1:3]) if word in ('tensors', 'inputs', 'input')]

        @functools.wraps(begin)
        def collective(self: 'ProcessGroup', *args: Any, **more: Any) -> Work:
            operation: Union[_Operation, str] = ''
            shown = None
            if self._comm is not None and torch.autograd._profiler_enabled():
                shown = _Event(title, [t for i in inputs for t in _tensors(args[i:i + 1])])
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
            operation.event, operation.explain = shown, lambda error: (explain() or _text)(error)
            if _for_python(sys._getframe().f_back):
                if shown is not None:
                    self._ender.future(operation)  # so that the event ends with the operation, not when the program waits
                return _Work(operation, self._ender)
            future = self._ender.future(operation)
            if name == 'allreduce' and operation.value[0].dtype is torch.float16 and operation.value[0].is_cpu:
                future = _scripted()(future, operation.value)
            work = _create_work_from_future(future)
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
        if hasattr(self, '_register_backend'):  # torch 2: for what this class does not define
            self._register_backend(torch.device('cpu'), dist.ProcessGroup.BackendType.GLOO, self._gloo)
        self._comm: Any  # None: gloo carries everything
        self._comm, why = open_job(self._store, invitation, rank, size, timeout.total_seconds())
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
        return _text(error)

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
            requests.append(call(None if data is None else _moved(data, more.get('op', '')),
                                 None if room is data or room is None else _moved(room, more.get('op', '')), **more))
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
        return self._begin(self._comm.iallreduce, tensors, tensors, op=_reduction(tensors, opts))

    @_carried('reduce')
    def reduce(self, tensors: Any, opts: Any, op: Any = None) -> Union[_Operation, str]:
        tensors, root = _list(tensors), _root(opts)
        name = _reduction(tensors, op or getattr(opts, 'reduceOp', None))
        return self._begin(self._comm.ireduce, tensors, tensors if root == self._rank else [None], tensors, op=name, root=root)

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
        return self._begin(self._comm.ireducescatter, inputs, outputs, op=_reduction(inputs, opts))

    @_carried('all_to_all', _exchange)
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
        _exchange(self._gloo, received, sent, sizes, [t.numel() for t in inputs]).wait()
        for output, part in zip(outputs, received.split(sizes)):
            output.detach().copy_(part.view(output.shape))
        return _completed(outputs)


def active(group: Optional[dist.ProcessGroup] = None) -> bool:
    """Whether the switch carries the collectives of this process group (None: the default group). False: gloo carries all, or
    the group is of another backend, or has been shut down."""
    comm = getattr(distributed_c10d._get_default_group() if group is None else group, '_comm', None)
    return comm is not None and not comm._handle.closed


# -- the hook

class _Reduction(_Operation):
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
    dist.Backend.register_backend('weir', ProcessGroup, devices=['cpu', 'cuda'])
else:
    dist.Backend.register_backend('weir', ProcessGroup)
    dist.Backend.WEIR = 'weir'  # torch 1.13 makes it 'WEIR', which get_backend() never returns
