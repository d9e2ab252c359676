# SPDX-License-Identifier: BSD-3-Clause
"""Communicators and requests."""
import copy
import threading
import time
import weakref
from ctypes import byref, c_bool, c_void_p, sizeof
from threading import RLock
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _abi
from ._buffers import Buffer, dtype_kind
from ._handle import Handle, make_config
from .errors import Degraded, Error, Result

OpName = Union[str, int]
Text = Optional[str]
Number = Optional[int]
WAIT_MS = 50  # the longest wait without Python: so late may KeyboardInterrupt be


class Request:
    """A collective in progress. It keeps its buffers alive until it has ended, also if the program drops it.

    Any thread may call any method; signals are handled while they wait.
    """
    __slots__ = ('_comm', '_handle', '_function', '_raw', '_at', '_codes', '_buffers', '_result', '_error', '_lock', '_process', 'done')

    def __init__(self, comm: 'Communicator', function: Any, buffers: Tuple[Optional[Buffer], ...], result: Any) -> None:
        self._comm, self._handle, self._function, self._buffers, self._result = comm, comm._handle, function, buffers, result
        self._raw = raw = c_void_p()
        self._at = byref(raw)
        self._codes: List[int] = []
        self._error: Optional[Error] = None
        self._lock, self._process = RLock(), self._handle.process
        self.done = False  # whether wait() or test() has found that the operation has ended

    def test(self) -> bool:
        """Make progress, without waiting, and return whether the operation has ended, well or not: wait() tells."""
        lock = self._own_lock()
        if not lock.acquire(False):  # another thread waits
            return self.done
        try:
            return self._step(0)
        finally:
            lock.release()

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Wait until the operation has ended and return its result, the buffer that received (None if this rank receives
        nothing). timeout: in seconds.

        Raises Error or Partial as the blocking call does, each time; TimeoutError if the operation is still in progress
        after that time: wait again.
        """
        if timeout is None:
            while not self._step(WAIT_MS):
                pass
        else:
            end = time.monotonic() + timeout
            while not self._step(max(0, min(WAIT_MS, round((end - time.monotonic()) * 1000)))):
                if time.monotonic() >= end:
                    raise TimeoutError('%s: %s is still in progress after %g s' % (
                        self._comm._place(), self._function.__name__.replace('weir_i', ''), timeout))
        if self._error is not None:
            raise copy.copy(self._error)  # whose traceback keeps the job
        return self._result

    def _own_lock(self) -> Any:
        if self._process is not self._handle.process:  # forked; a thread that holds the lock is in the parent
            self._lock, self._process = RLock(), self._handle.process
        return self._lock

    def _step(self, milliseconds: int) -> bool:
        lock = self._own_lock()
        if not lock.acquire(timeout=milliseconds / 1000):  # another thread waits for the request
            return self.done
        try:
            if self.done:
                return True
            try:
                codes = self._codes
                if not codes:
                    self._handle.wait_for(self._at, milliseconds, codes)
                if not codes[0] and self._raw:
                    codes.clear()
                    return False
                if codes[0]:
                    self._handle.check(codes[0])
            except Error as error:
                self._error = error.with_traceback(None)
            self.done, self._buffers = True, ()
            return True
        finally:
            lock.release()

    def __del__(self) -> None:
        if self._raw:
            self._handle.orphans.append((self._raw, self._buffers))


def open(job: Union[str, int, None] = None, switch: Text = None, rank: Number = None,
         size: Number = None, **config: Any) -> 'Communicator':
    """Join a job and wait until all its ranks have joined; at most join_timeout_ms (30000). Returns a Communicator.

    job: its name, or without a control API its number. Default: WEIR_JOB.
    switch: the switch's control API, "http://HOST:PORT", "https://HOST:PORT" or "unix:PATH"; or its IPv4 address, with
        `address`, this host's own. Default: WEIR_SWITCH.
    rank, size: default: the launcher's (WEIR_RANK, Open MPI, PMI, Slurm, torchrun).
    config: the fields of struct weir_config by their names, such as create=True (the job, if it does not exist),
        temporary=True, settings="policy=partial elements=1024" or a dict, token, op_timeout_ms=5000,
        partial="as_is", "rescale" or "fail", error_feedback=True, spin_us; key is bytes; warn is called with a text, in
        another thread, while something waits for long.
    raise_partial: False: calls do not raise Partial; last_result() and degraded() tell.

    Raises Error as weir_open does: ECONNREFUSED, EACCES, ENOENT (no such job), ETIMEDOUT (its text says who is missing),
    ...; OSError if libweir is not installed; TypeError for an unknown field.
    """
    return Communicator(job, switch, rank, size, **config)


class Communicator:
    """This process' rank in a job. A context manager; open() has the arguments.

    Any thread may call any method, but all ranks must call the same collectives in the same order, with the same count,
    type, operation and root. Below, n is `size`, and a buffer of n slices has one for each rank, in the order of ranks.

    A collective returns the buffer that received. Without recv it works in place: the result replaces the data in send.
    op is a name or an Op. dtype, a name, says what the data is if the buffer does not: bytes, or an array of uint16 that
    holds bfloat16.
    Collectives raise

        TypeError    an object without data, a type that Weir has not, or send and recv of different types
        ValueError   send and recv of different sizes, a size that is not n slices, an unknown op, or no such root
        BufferError  data that is not contiguous, or read-only and to be written
        Error        what failed, in libweir's words
        Partial      the operation completed without some ranks (job policy `partial`)

    and do nothing else when they raise the first three. On KeyboardInterrupt the operation goes on; its buffers stay in
    use until it ends or the communicator is closed.
    """

    def __init__(self, job: Union[str, int, None] = None, switch: Text = None, rank: Number = None,
                 size: Number = None, *, raise_partial: bool = True, **config: Any) -> None:
        self._handle = handle = Handle(raise_partial, make_config(job, switch, rank, size, config))
        self._lib = handle.lib
        self._finalizer = weakref.finalize(self, handle.close)  # at exit, too
        try:
            code = self._lib.weir_iopen(byref(handle.config), byref(handle.pointer))
            done, pause = c_bool(code != 0), 0.0005
            while not done:
                code = handle.call(self._lib.weir_open_test, byref(done))
                if not done:
                    time.sleep(pause)
                    pause = min(pause * 2, 0.01)
            handle.check(code)
        except BaseException:
            self.close()
            raise
        self._set_rank()

    def _set_rank(self) -> None:
        self.rank: int = self._handle.call(self._lib.weir_rank)
        self.size: int = self._handle.call(self._lib.weir_sources)

    def __enter__(self) -> 'Communicator':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return '<weir.Communicator rank %d of %d%s>' % (self.rank, self.size, ', closed' * self._handle.closed)

    def _place(self) -> str:
        name = self._handle.config.job_name
        return 'job %s, rank %d of %d' % (
            '"%s"' % name.decode() if name else self._handle.call(self._lib.weir_job), self.rank, self.size)

    def close(self) -> None:
        """Leave the job and free everything. Operations in progress are canceled: other threads that wait for them get
        Error ECANCELED. A second call does nothing."""
        self._finalizer()

    # -- collectives

    def allreduce(self, send: Any, recv: Any = None, op: OpName = 'sum', *, dtype: Text = None) -> Any:
        """Reduce elementwise over all ranks: send and recv of count elements."""
        return self.iallreduce(send, recv, op, dtype=dtype).wait()

    def reduce(self, send: Any, recv: Any = None, op: OpName = 'sum', root: int = 0, *, dtype: Text = None) -> Any:
        """As allreduce, but the root alone receives; others' recv is not used, and they return None."""
        return self.ireduce(send, recv, op, root, dtype=dtype).wait()

    def reducescatter(self, send: Any, recv: Any = None, op: OpName = 'sum', *, dtype: Text = None) -> Any:
        """Reduce n slices; each rank receives its own: send of n * count elements, recv of count.
        In place the result is in the slice of this rank in send."""
        return self.ireducescatter(send, recv, op, dtype=dtype).wait()

    def broadcast(self, send: Any, recv: Any = None, root: int = 0, *, dtype: Text = None) -> Any:
        """Give every rank the root's count elements. In place, send is what the root sends and the others receive; with
        recv, others' send is not used, and may be None."""
        return self.ibroadcast(send, recv, root, dtype=dtype).wait()

    def scatter(self, send: Any, recv: Any = None, root: int = 0, *, dtype: Text = None) -> Any:
        """Give each rank its slice of the root's data: send of n * count elements at the root, not used and perhaps None
        elsewhere; recv of count. In place, at the root only, its slice stays where it is."""
        return self.iscatter(send, recv, root, dtype=dtype).wait()

    def gather(self, send: Any, recv: Any = None, root: int = 0, *, dtype: Text = None) -> Any:
        """Bring all ranks' data together at the root: send of count elements, recv of n * count, not used elsewhere.
        In place, at the root only: one buffer of n * count, which has the root's data in the root's slice."""
        return self.igather(send, recv, root, dtype=dtype).wait()

    def allgather(self, send: Any, recv: Any = None, *, dtype: Text = None) -> Any:
        """Bring all ranks' data together on every rank: send of count elements, recv of n * count.
        In place: one buffer of n * count, which has this rank's data in its slice."""
        return self.iallgather(send, recv, dtype=dtype).wait()

    def alltoall(self, send: Any, recv: Any = None, *, dtype: Text = None) -> Any:
        """Slice i of send becomes, on rank i, the slice of recv that is this rank's: both of n * count elements."""
        return self.ialltoall(send, recv, dtype=dtype).wait()

    def barrier(self) -> None:
        """Return when every rank has called it."""
        self.ibarrier().wait()

    def iallreduce(self, send: Any, recv: Any = None, op: OpName = 'sum', *, dtype: Text = None) -> Request:
        """Begin allreduce() and return a Request at once; so do the others."""
        return self._begin(self._lib.weir_iallreduce, send, recv, dtype, op=op)

    def ireduce(self, send: Any, recv: Any = None, op: OpName = 'sum', root: int = 0, *, dtype: Text = None) -> Request:
        """Begin reduce()."""
        return self._begin(self._lib.weir_ireduce, send, recv, dtype, op=op, root=root, only='r')

    def ireducescatter(self, send: Any, recv: Any = None, op: OpName = 'sum', *, dtype: Text = None) -> Request:
        """Begin reducescatter()."""
        return self._begin(self._lib.weir_ireducescatter, send, recv, dtype, 's', op=op)

    def ibroadcast(self, send: Any, recv: Any = None, root: int = 0, *, dtype: Text = None) -> Request:
        """Begin broadcast()."""
        return self._begin(self._lib.weir_ibroadcast, send, recv, dtype, root=root, only='s')

    def iscatter(self, send: Any, recv: Any = None, root: int = 0, *, dtype: Text = None) -> Request:
        """Begin scatter()."""
        return self._begin(self._lib.weir_iscatter, send, recv, dtype, 's', root=root, only='s')

    def igather(self, send: Any, recv: Any = None, root: int = 0, *, dtype: Text = None) -> Request:
        """Begin gather()."""
        return self._begin(self._lib.weir_igather, send, recv, dtype, 'r', root=root, only='r')

    def iallgather(self, send: Any, recv: Any = None, *, dtype: Text = None) -> Request:
        """Begin allgather()."""
        return self._begin(self._lib.weir_iallgather, send, recv, dtype, 'r')

    def ialltoall(self, send: Any, recv: Any = None, *, dtype: Text = None) -> Request:
        """Begin alltoall()."""
        return self._begin(self._lib.weir_ialltoall, send, recv, dtype, 'sr')

    def ibarrier(self) -> Request:
        """Begin barrier()."""
        return self._start(self._lib.weir_ibarrier, (), (), None)

    def _begin(self, function: Any, send: Any, recv: Any, dtype: Text, slices: str = '',
               op: OpName = '', root: Number = None, only: str = '') -> Request:
        """slices: which of the buffers ('s'end, 'r'ecv) have n of them. only: which of them the root alone has. op: '' if
        the collective has none."""
        more: Tuple[int, ...] = () if op == '' else (_op(op),)
        if root is not None:
            if not 0 <= root < self.size:
                raise ValueError('root: %d is not in [0, %d)' % (root, self.size))
            more += (root,)
        sends, receives = only != 's' or root == self.rank, only != 'r' or root == self.rank
        if receives and (recv is None or (send is None and sends)):
            if only == 's' and slices and (send if sends else recv) is None:
                raise TypeError('send: the root scatters its data' if sends else 'recv: only the root can scatter in place')
            return self._begin_in_place(function, send if recv is None else recv, dtype, slices, more)
        given = Buffer(send, dtype, 'send', False) if sends else None
        taken = Buffer(recv, dtype, 'recv', True) if receives else None
        one = given or taken
        assert one is not None  # the root has both
        counts = [self._slice(b, name, slices) for b, name in ((given, 'send'), (taken, 'recv')) if b]
        if given and taken and given.kind != taken.kind:
            raise TypeError('send is %s, and recv %s' % tuple(_abi.Dtype(b.kind[0]).name.lower() for b in (given, taken)))
        if given and taken and counts[0] != counts[1]:
            raise ValueError('send has %d elements and recv %d, with %d ranks' % (given.count, taken.count, self.size))
        return self._start(function, (given, taken), (given and given.address, taken and taken.address, counts[0],
                                                      one.kind[0], *more), recv if receives else None)

    def _slice(self, buffer: Buffer, name: str, slices: str) -> int:
        """Elements of a slice."""
        if name[0] not in slices:
            return buffer.count
        count, rest = divmod(buffer.count, self.size)
        if rest:
            raise ValueError('%s has %d elements, which are not %d slices' % (name, buffer.count, self.size))
        return count

    def _begin_in_place(self, function: Any, data: Any, dtype: Text, slices: str, more: Tuple[int, ...]) -> Request:
        whole = Buffer(data, dtype, 'send', True)
        address, count = whole.address, whole.count
        if not slices:
            return self._start(function, (whole,), (address, address, count, whole.kind[0], *more), data)
        count = self._slice(whole, 'send', 's')
        own = address + self.rank * count * whole.kind[1]
        return self._start(function, (whole,), (own if slices == 'r' else address, own if slices == 's' else address, count,
                                                whole.kind[0], *more), data)

    def _start(self, function: Any, buffers: Tuple[Optional[Buffer], ...], arguments: Tuple[Any, ...],
               result: Any) -> Request:
        handle = self._handle
        if handle.orphans:
            handle.adopt()
        request = Request(self, function, buffers, result)
        code = handle.call(function, *arguments, request._at)
        if code:
            handle.check(code)
        return request

    # -- what else there is

    def rejoin(self) -> None:
        """Begin a new generation, after a failure or without: every rank calls it, or opens. At most join_timeout_ms.
        Raises Error as open() does; EBUSY if an operation is in progress."""
        handle = self._handle
        errors: List[Error] = []

        def work() -> None:  # C may wait for long, and signals may not
            try:
                handle.check(self._lib.weir_rejoin(handle.pointer))
            except Error as error:
                errors.append(error)
            with handle.lock:
                handle.rejoining = False
                if handle.closed:
                    handle.close()
        with handle.lock:
            handle.call(bool)  # is it open?
            handle.rejoining = True
        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        while worker.is_alive():
            worker.join(WAIT_MS / 1000)
        if errors:
            raise errors.pop()
        self._set_rank()

    def last_result(self) -> Result:
        """How the operation ended that was waited for last, by any thread."""
        return self._handle.result()

    def degraded(self) -> List[Degraded]:
        """The degraded blocks of that operation."""
        return self._handle.degraded()

    def stats(self) -> Dict[str, int]:
        """What happened since open(): the counters of struct weir_stats (man 3 weir_stats), by name."""
        stats = _abi.Stats()
        self._handle.call(self._lib.weir_stats_sized, byref(stats), sizeof(stats))
        return {name: getattr(stats, name) for name, _ in stats._fields_}

    def elements(self, dtype: str) -> int:
        """Elements in a block, at most, of this type."""
        return int(self._handle.call(self._lib.weir_elements, dtype_kind(dtype)[0]))

    def unexpected(self) -> int:
        """How far the others are ahead, in blocks whose results are here already: weir_unexpected."""
        return int(self._handle.call(self._lib.weir_unexpected))

    def error_feedback_forget(self, buffer: Any = None) -> int:
        """Discard what error_feedback keeps for this send buffer, or for all. Returns the bytes discarded."""
        address = None if buffer is None else Buffer(buffer, None, 'buffer', False).address
        return int(self._handle.call(self._lib.weir_error_feedback_forget, address))

    def fileno(self) -> int:
        """A descriptor that is readable while a request of this communicator has ended that no thread waits for: for
        select(), poll() and event loops. test() then takes it. Do not read, write or close it."""
        descriptor: int = self._handle.call(self._lib.weir_fd)
        self._handle.check(min(descriptor, 0))
        return descriptor

    @property
    def generation(self) -> int:
        """The job's generation, [1, 65536): each rejoin() begins one."""
        return int(self._handle.call(self._lib.weir_generation))


def _op(op: OpName) -> int:
    code = _abi.OPS.get(op) if isinstance(op, str) else op
    if code is None:
        raise ValueError('op: %r is none of %s' % (op, ', '.join(_abi.OPS)))
    return code
