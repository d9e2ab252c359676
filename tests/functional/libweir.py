# SPDX-License-Identifier: BSD-3-Clause
"""libweir.so, the shared library that is installed, through ctypes: only what its header declares, as the package weir
has it, and not checked by the package: tests pass what it would refuse."""
import ctypes
import functools
import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'python'))

from weir import _abi, _library  # noqa: E402 (the path comes first)

c_handle = c_request = ctypes.c_void_p
# The arguments behind the handle, in their order: b: buffers, c: count, t: type, o: operation, r: root.
LETTERS = {ctypes.c_void_p: 'b', ctypes.c_size_t: 'c', ctypes.c_int: 't', ctypes.c_uint: 'r'}
ARGUMENTS = {
    name[5:]: ''.join(LETTERS[a] for a in arguments[1:]).replace('tt', 'to')
    for name, (_, arguments) in _abi.FUNCTIONS.items() if name != 'weir_open' and 'weir_i' + name[5:] in _abi.FUNCTIONS}


def path(build):
    return os.path.join(build, 'apps', 'libweir', 'libweir.so')


@functools.cache
def environment(build):
    """For Python, so that it can load the library: a sanitizer's runtime has to come first, and would
    count Python's own leaks."""
    linked = subprocess.run(['ldd', path(build)], stdout=subprocess.PIPE, text=True, check=True,
                            timeout=120).stdout
    runtimes = re.findall(r'=> (\S*/lib(?:asan|ubsan|tsan)\.so\S*)', linked)
    if not runtimes:
        return None
    return dict(os.environ, LD_PRELOAD=' '.join(runtimes), ASAN_OPTIONS=':'.join(
        filter(None, [os.environ.get('ASAN_OPTIONS'), 'detect_leaks=0'])))


class Library:
    """The functions, each with its types."""

    def __init__(self, build):
        self.so = _library.library(path(build))


class Handle:
    """An open handle; a context manager. key: the job's, hexadecimal. begin: or `iopen`."""

    def __init__(self, library, key=None, begin='open', **config):
        self.so, self.handle = library.so, c_handle()
        config = {k: v.encode() if isinstance(v, str) else v for k, v in config.items()}
        if key:
            config.update(key=(ctypes.c_uint8 * (len(key) // 2))(*bytes.fromhex(key)), key_bytes=len(key) // 2)
        code = getattr(self.so, 'weir_' + begin)(ctypes.byref(_abi.Config(**config)), ctypes.byref(self.handle))
        if code != 0:
            text = self.text()
            self.close()
            raise SystemExit('weir_%s: %d: %s' % (begin, code, text))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.so.weir_close(self.handle)
        self.handle = c_handle()

    def text(self):
        return self.so.weir_last_error(self.handle).decode()

    def call(self, name, *arguments):
        return getattr(self.so, 'weir_' + name)(self.handle, *arguments)

    def stats(self):
        stats = _abi.Stats()
        self.call('stats', stats)
        return {name: getattr(stats, name) for name, _ in stats._fields_}

    def degraded(self):
        """The last operation's degraded blocks: (first, count, [sources that are in it])."""
        blocks = ctypes.POINTER(_abi.Degraded)()
        number = self.call('degraded', ctypes.byref(blocks))
        return [(block.first, block.count, [s for s in range(256) if block.present[s // 8] >> s % 8 & 1])
                for block in blocks[:number]]


def addresses(data):
    return ctypes.addressof(ctypes.c_char.from_buffer(data))
