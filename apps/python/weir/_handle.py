# SPDX-License-Identifier: BSD-3-Clause
"""A handle of libweir, and its configuration."""
import errno
import os
import re
import time
import weakref
from ctypes import POINTER, byref, c_bool, c_char_p, c_void_p, cast
from threading import RLock, get_ident
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _abi
from ._library import library
from .errors import Degraded, Error, Partial, Result

_done = byref(c_bool())  # not read: the request is NULL when the operation has ended
_handles: 'weakref.WeakSet[Handle]' = weakref.WeakSet()


class Handle:
    """A struct weir. Threads are counted in while they use it, so that close() frees nothing under them."""

    def __init__(self, raise_partial: bool, config: _abi.Config) -> None:
        self.lib, self.raise_partial = library(), raise_partial
        self.config = config  # C may call config.warn until the end
        self.pointer = c_void_p()
        self.inside: List[int] = []  # threads in C, or about to be; a list's own methods need no lock
        self.orphans: List[Tuple[c_void_p, Any]] = []  # requests that the program dropped, and their buffers
        self.lock = RLock()  # of what follows
        self.process = object()  # another one after fork()
        self.closed = False
        self.barred = False  # threads have to stay out of C for a while, or forever
        self.late = self.rejoining = False  # close() was called in the middle of a call: its thread closes
        _handles.add(self)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call C with the handle."""
        me = get_ident()
        try:
            self.inside.append(me)
            if self.barred:
                self.hold(me)
            return function(self.pointer, *arguments)
        finally:
            self.inside.remove(me)
            if self.late:
                self.close()

    def wait_for(self, request: Any, milliseconds: int, codes: List[int]) -> None:
        """Append what weir_wait_for returns. C frees a request that has ended, so its code is stored before Python looks at
        signals: in one step."""
        me = get_ident()
        try:
            self.inside.append(me)
            if self.barred:
                self.hold(me)
            codes.extend(map(self.lib.weir_wait_for, (request,), (milliseconds,), (_done,)))
        finally:
            self.inside.remove(me)
            if self.late:
                self.close()

    def hold(self, me: int) -> None:
        """Wait outside while another thread must be alone; raise Error if the communicator is closed."""
        while self.barred:
            if self.closed:
                raise Error(errno.ECANCELED, 'the communicator was closed')
            self.inside.remove(me)
            try:
                with self.lock:
                    pass
            finally:
                self.inside.append(me)

    def wait_alone(self) -> None:
        """Wait until no other thread is in C, and let none in: at most the time of one wait. Under the lock."""
        self.barred = True
        while any(thread != get_ident() for thread in self.inside[:]):
            time.sleep(0.001)

    def check(self, code: int) -> None:
        """Raise what a code of C stands for, in the thread that got it."""
        error = self.error(code) if code else None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback has this frame, and they would keep the handle

    def error(self, code: int) -> Optional[Error]:
        text = self.call(self.lib.weir_last_error).decode()
        if code != _abi.PARTIAL:
            return Error(-code, text)
        return Partial(text, self.result(), self.degraded()) if self.raise_partial else None

    def result(self) -> Result:
        result = _abi.Result()
        self.call(self.lib.weir_last_result, byref(result))
        return Result(missing=_ranks(result.missing), **{name: getattr(result, name) for name in Result._fields[:-1]})

    def degraded(self) -> List[Degraded]:
        with self.lock:
            return self.call(self._degraded)  # type: ignore[no-any-return]

    def _degraded(self, pointer: c_void_p) -> List[Degraded]:
        blocks = POINTER(_abi.Degraded)()
        try:
            self.wait_alone()  # another thread's wait would free the blocks
            number = self.lib.weir_degraded(pointer, byref(blocks))
            return [Degraded(b.first, b.count, _ranks(b.present)) for b in blocks[:number]]
        finally:
            self.barred = self.closed

    def adopt(self) -> None:
        """Free the requests that have ended of those that the program dropped."""
        with self.lock:
            for orphan in self.orphans[:]:
                self.wait_for(byref(orphan[0]), 0, [])
                if not orphan[0]:
                    self.orphans.remove(orphan)

    def close(self) -> None:
        """Free the handle once no other thread is in C."""
        with self.lock:
            self.closed = self.barred = True
            self.late = get_ident() in self.inside
            if not self.late and not self.rejoining:
                self.wait_alone()
                pointer, self.pointer = self.pointer, c_void_p()
                self.lib.weir_close(pointer)
                self.orphans.clear()


def _forked() -> None:
    """The parent's other threads are not here. C itself refuses the parent's handles."""
    for handle in list(_handles):
        handle.inside.clear()
        handle.lock, handle.process = RLock(), object()


os.register_at_fork(after_in_child=_forked)


def _ranks(bitmap: Any) -> Tuple[int, ...]:
    return tuple(i for i in range(len(bitmap) * 8) if bitmap[i // 8] >> i % 8 & 1)


def make_config(job: Union[str, int, None], switch: Optional[str], rank: Optional[int], size: Optional[int],
            fields: Dict[str, Any]) -> _abi.Config:
    """The arguments of open() as a struct weir_config, which keeps what it refers to."""
    by_api = switch is None or not re.fullmatch(r'[0-9.]+', switch)
    fields = dict({'control' if by_api else 'switch_address': switch, 'job' if isinstance(job, int) else 'job_name': job,
                   'source': rank, 'sources': size}, **fields)
    config, by_api = _abi.Config(), fields.get('switch_address') is None
    if fields.get('job' if by_api else 'job_name') is not None:
        raise ValueError('job: %r; %s' % (job, 'with a control API it is a name' if by_api else
                                          'with the IPv4 address of a switch it is a number'))
    if fields['source'] is None:
        if not by_api:
            raise ValueError('rank: it is needed with the IPv4 address of a switch')
        fields['source'] = -1  # the launcher's
    elif by_api and not fields['sources']:
        raise ValueError('size: it is needed with rank')
    kinds: Dict[str, Any] = {field[0]: field[1] for field in _abi.Config._fields_}
    for name, value in fields.items():
        kind = kinds.get(name)
        if kind is None or name in ('key_bytes', 'warn_context'):
            raise TypeError('open() has no argument %r' % name)
        if value is None:
            continue
        if name == 'key':
            config.key_bytes, value = len(value), cast(c_char_p(value), kind)
        elif name == 'warn':
            value = kind(lambda _, text, warn=value: warn(text.decode()))
        elif name == 'settings' and isinstance(value, dict):
            value = ' '.join('%s=%s' % (k, str(v).lower() if isinstance(v, bool) else v) for k, v in value.items())
        elif name == 'partial' and isinstance(value, str):
            value = _abi.Partial.__members__.get(value.upper(), -1)
        setattr(config, name, os.fsencode(value) if kind is c_char_p else value)
        if isinstance(value, int) and getattr(config, name) != value or value == -1 and name == 'partial':
            raise ValueError('%s: %r is out of range' % (name, fields[name]))
    return config
