# SPDX-License-Identifier: BSD-3-Clause
"""Operations in progress, for weir.torch: what torch's functions in Python wait for, and futures for its C++."""
import contextlib
import errno
import functools
import queue
import threading
import weakref
from datetime import timedelta
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch.distributed import _Work as Work
from torch.futures import Future

from ._torch_job import JOIN_S, Failure
from .communicator import Communicator, Request
from .errors import Error

create_work_from_future = torch._C._distributed_c10d._create_work_from_future


def timed_out(text: str) -> str:
    """In the words of gloo and NCCL, which programs look for."""
    return 'weir: Timed out waiting: ' + text


def error_text(error: Error) -> str:
    text = str(error.strerror)
    return timed_out(text) if error.errno == errno.ETIMEDOUT else text


class Event:
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


class Operation:
    """Requests of Weir, and what is to be done when they have ended. value: what torch calls the result."""
    __slots__ = ('requests', 'value', 'copies', 'event', 'explain', 'lock', 'failure')

    def __init__(self, requests: List[Request], value: Any, copies: Sequence[Tuple[torch.Tensor, torch.Tensor]] = ()):
        self.requests, self.value, self.copies = requests, value, copies  # copies: (to, from)
        self.event: Optional[Event] = None
        self.explain = error_text
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
                self.requests, self.explain = [], error_text  # they keep the job
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


class Ender:
    """A thread that waits for operations in their order and ends their futures. It ends with this object, and before Python
    does: a thread that Python stops inside C++ aborts the process."""

    def __init__(self, comm: Optional[Communicator]) -> None:
        self.comm = weakref.ref(comm) if comm is not None else None  # works, which keep this object, do not keep the job
        self.queue: 'queue.SimpleQueue[Optional[Future]]' = queue.SimpleQueue()
        self.thread: Optional[threading.Thread] = None

    def future(self, operation: Operation) -> Future:
        devices = [t.device for t in all_tensors(operation.value) if t.is_cuda]
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


class PythonWork(Work):
    """An operation for torch's functions in Python, which wait in the caller's thread and raise. C++ must not get it: C++
    keeps only the part of an object that C++ knows, and would wait forever. It gets the future's work instead, whose
    wait() does not raise, but whose future does.
    """

    def __init__(self, operation: Operation, ender: Ender):
        super().__init__()
        self._operation, self._ender = operation, ender

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        try:
            self._operation.end(timeout.total_seconds() if timeout else None)
        except TimeoutError as error:
            raise Failure(timed_out(str(error))) from None
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
        return all_tensors(self._operation.end())

    def get_future(self) -> Future:
        return self._ender.future(self._operation)


def all_tensors(value: Any) -> List[torch.Tensor]:
    """All tensors in lists of lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value or () for t in all_tensors(part)]


def completed(value: Any) -> Work:
    future: Any = Future()
    future.set_result(value)
    work: Work = create_work_from_future(future)
    return work


def _after(done: Future[torch.Tensor], tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    torch.jit.wait(done)
    return tensors


def _later(done: Future[torch.Tensor], tensors: List[torch.Tensor]) -> Future[List[torch.Tensor]]:
    return torch.jit.fork(_after, done, tensors)


@functools.lru_cache(maxsize=None)
def scripted() -> Any:
    """DDP's FP16 hook in C++ takes only C++'s list of tensors. TorchScript makes a future of one, which follows ours."""
    return torch.jit.script(_later)
