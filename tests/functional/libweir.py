# SPDX-License-Identifier: BSD-3-Clause
"""libweir.so, the shared library that is installed, through ctypes: only what its header declares."""
import ctypes
import os
import re
import subprocess

c_handle = c_request = ctypes.c_void_p
c_buffer, c_count, c_code = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
PARTIAL = 1
STATS = ['packets_sent', 'payload_sent', 'wire_sent', 'packets_received', 'payload_received',
         'wire_received', 'retransmissions']  # the first of struct weir_stats
# The arguments behind the handle, in their order: buffers, count, type, operation, root.
ARGUMENTS = {
    'allreduce': 'bbcto', 'reduce': 'bbctor', 'reducescatter': 'bbcto', 'broadcast': 'bbctr',
    'scatter': 'bbctr', 'gather': 'bbctr', 'allgather': 'bbct', 'alltoall': 'bbct', 'barrier': '',
}
OF = {'b': c_buffer, 'c': c_count, 't': c_code, 'o': c_code, 'r': ctypes.c_uint}


def path(build):
    return os.path.join(build, 'apps', 'libweir', 'libweir.so')


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


class Config(ctypes.Structure):
    """struct weir_config; the zeros behind it are the defaults of what it gets later."""
    _fields_ = [('switch_address', ctypes.c_char_p), ('address', ctypes.c_char_p),
                ('port_base', ctypes.c_uint16), ('port_ext', ctypes.c_uint16),
                ('job', ctypes.c_uint8), ('base_form', ctypes.c_bool), ('source', ctypes.c_int),
                ('sources', ctypes.c_uint), ('join_timeout_ms', ctypes.c_uint), ('contact_timeout_ms', ctypes.c_uint),
                ('op_timeout_ms', ctypes.c_uint), ('silence_timeout_ms', ctypes.c_uint),
                ('partial', c_code), ('error_feedback', ctypes.c_bool),
                ('error_feedback_bytes', ctypes.c_uint64), ('unexpected_bytes', ctypes.c_uint64),
                ('window_limit', ctypes.c_uint), ('spin_us', ctypes.c_int),
                ('control', ctypes.c_char_p), ('job_name', ctypes.c_char_p), ('create', ctypes.c_bool), ('settings', ctypes.c_char_p),
                ('temporary', ctypes.c_bool),
                ('token', ctypes.c_char_p), ('token_file', ctypes.c_char_p),
                ('key', ctypes.c_char_p), ('key_bytes', ctypes.c_size_t), ('key_of_source', ctypes.c_bool),
                ('ca_file', ctypes.c_char_p), ('rest', ctypes.c_uint8 * 256)]


class Degraded(ctypes.Structure):
    _fields_ = [('first', ctypes.c_size_t), ('count', ctypes.c_size_t),
                ('present', ctypes.c_uint8 * 32)]


class Library:
    """The functions, each with its types."""

    def __init__(self, build):
        self.so = ctypes.CDLL(path(build))
        wait = [ctypes.POINTER(c_request)]
        for name, kinds in ARGUMENTS.items():
            self.declare('weir_' + name, [OF[k] for k in kinds])
            self.declare('weir_i' + name, [OF[k] for k in kinds] + wait)
        self.declare('weir_rejoin', [])
        for name in ('rank', 'source', 'sources'):
            self.declare('weir_' + name, [], ctypes.c_uint)
        self.declare('weir_elements', [c_code], ctypes.c_uint)
        self.declare('weir_stats', [ctypes.POINTER(ctypes.c_uint64)], None)
        self.declare('weir_last_error', [], ctypes.c_char_p)
        self.declare('weir_close', [], None)
        self.declare('weir_degraded', [ctypes.POINTER(ctypes.POINTER(Degraded))], ctypes.c_size_t)
        for name in ('weir_open', 'weir_iopen'):
            getattr(self.so, name).argtypes = [ctypes.POINTER(Config), ctypes.POINTER(c_handle)]
        self.declare('weir_open_test', [ctypes.POINTER(ctypes.c_bool)])
        self.declare('weir_fd', [])
        self.so.weir_test.argtypes = wait + [ctypes.POINTER(ctypes.c_bool)]
        self.so.weir_wait_for.argtypes = wait + [ctypes.c_uint, ctypes.POINTER(ctypes.c_bool)]
        self.so.weir_wait.argtypes = wait
        self.so.weir_wait_any.argtypes = wait + [ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
        self.so.weir_wait_all.argtypes = wait + [ctypes.c_size_t]

    def declare(self, name, arguments, result=c_code):
        function = getattr(self.so, name)
        function.argtypes, function.restype = [c_handle] + arguments, result


class Handle:
    """An open handle; a context manager. key: the job's, hexadecimal. begin: or `iopen`."""

    def __init__(self, library, key=None, begin='open', **config):
        self.so, self.handle = library.so, c_handle()
        config = {k: v.encode() if isinstance(v, str) else v for k, v in config.items()}
        if key:
            config.update(key=bytes.fromhex(key), key_bytes=len(key) // 2)
        code = getattr(self.so, 'weir_' + begin)(ctypes.byref(Config(**config)), ctypes.byref(self.handle))
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
        numbers = (ctypes.c_uint64 * 128)()  # the library's struct has fewer
        self.call('stats', numbers)
        return dict(zip(STATS, numbers))

    def degraded(self):
        """The last operation's degraded blocks: (first, count, [sources that are in it])."""
        blocks = ctypes.POINTER(Degraded)()
        number = self.call('degraded', ctypes.byref(blocks))
        return [(blocks[i].first, blocks[i].count,
                 [s for s in range(256) if blocks[i].present[s // 8] >> s % 8 & 1])
                for i in range(number)]


def addresses(data):
    return ctypes.addressof(ctypes.c_char.from_buffer(data))
