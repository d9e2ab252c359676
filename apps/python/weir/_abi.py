# SPDX-License-Identifier: BSD-3-Clause
"""What libweir's header declares. Made by apps/python/generate.py; `make keys` renews it."""
import enum
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint8, c_uint16,
                    c_uint64, c_void_p)

VERSION = '0.1.0'
SONAME = 'libweir.so.0'
PARTIAL = 1
SOURCES_MAX = 256
BITMAP_BYTES = 32
KEY_BYTES = 32


class Dtype(enum.IntEnum):
    """enum weir_dtype."""
    INT8 = 0
    UINT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    UINT64 = 7
    FP16 = 8
    BF16 = 9
    FP32 = 10
    FP64 = 11
    FP8_E4M3 = 12
    FP8_E5M2 = 13


class Op(enum.IntEnum):
    """enum weir_op."""
    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AVG = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    LAND = 8
    LOR = 9
    LXOR = 10


class Collective(enum.IntEnum):
    """enum weir_collective."""
    ALLREDUCE = 0
    REDUCE = 1
    REDUCESCATTER = 2
    BROADCAST = 3
    SCATTER = 4
    GATHER = 5
    ALLGATHER = 6
    ALLTOALL = 7
    BARRIER = 8
    PROBE = 13
    ACKNOWLEDGE = 14
    JOIN = 15


class Partial(enum.IntEnum):
    """enum weir_partial."""
    AS_IS = 0
    RESCALE = 1
    FAIL = 2


# Their texts, and of types the bytes of an element.
DTYPES = {
    'int8': (Dtype.INT8, 1),
    'uint8': (Dtype.UINT8, 1),
    'int16': (Dtype.INT16, 2),
    'uint16': (Dtype.UINT16, 2),
    'int32': (Dtype.INT32, 4),
    'uint32': (Dtype.UINT32, 4),
    'int64': (Dtype.INT64, 8),
    'uint64': (Dtype.UINT64, 8),
    'fp16': (Dtype.FP16, 2),
    'bf16': (Dtype.BF16, 2),
    'fp32': (Dtype.FP32, 4),
    'fp64': (Dtype.FP64, 8),
    'fp8_e4m3': (Dtype.FP8_E4M3, 1),
    'fp8_e5m2': (Dtype.FP8_E5M2, 1),
}
OPS = {
    'sum': Op.SUM,
    'prod': Op.PROD,
    'min': Op.MIN,
    'max': Op.MAX,
    'avg': Op.AVG,
    'band': Op.BAND,
    'bor': Op.BOR,
    'bxor': Op.BXOR,
    'land': Op.LAND,
    'lor': Op.LOR,
    'lxor': Op.LXOR,
}


class Config(Structure):
    """struct weir_config."""
    _fields_ = [
        ('switch_address', c_char_p),
        ('address', c_char_p),
        ('port_base', c_uint16),
        ('port_ext', c_uint16),
        ('job', c_uint8),
        ('base_form', c_bool),
        ('source', c_int),
        ('sources', c_uint),
        ('join_timeout_ms', c_uint),
        ('contact_timeout_ms', c_uint),
        ('op_timeout_ms', c_uint),
        ('silence_timeout_ms', c_uint),
        ('partial', c_int),
        ('error_feedback', c_bool),
        ('error_feedback_bytes', c_uint64),
        ('unexpected_bytes', c_uint64),
        ('window_limit', c_uint),
        ('spin_us', c_int),
        ('control', c_char_p),
        ('job_name', c_char_p),
        ('create', c_bool),
        ('settings', c_char_p),
        ('temporary', c_bool),
        ('token', c_char_p),
        ('token_file', c_char_p),
        ('key', POINTER(c_uint8)),
        ('key_bytes', c_size_t),
        ('key_of_source', c_bool),
        ('ca_file', c_char_p),
        ('warn', CFUNCTYPE(None, c_void_p, c_char_p)),
        ('warn_context', c_void_p),
    ]


class Call(Structure):
    """struct weir_call."""
    _fields_ = [
        ('collective', c_int),
        ('send', c_void_p),
        ('recv', c_void_p),
        ('count', c_size_t),
        ('dtype', c_int),
        ('op', c_int),
        ('root', c_uint),
    ]


class Result(Structure):
    """struct weir_result."""
    _fields_ = [
        ('blocks', c_uint64),
        ('completed', c_uint64),
        ('degraded', c_uint64),
        ('without_own', c_uint64),
        ('sources_least', c_uint),
        ('missing', c_uint8 * 32),
    ]


class Degraded(Structure):
    """struct weir_degraded."""
    _fields_ = [
        ('first', c_size_t),
        ('count', c_size_t),
        ('present', c_uint8 * 32),
    ]


class Stats(Structure):
    """struct weir_stats."""
    _fields_ = [
        ('packets_sent', c_uint64),
        ('payload_sent', c_uint64),
        ('wire_sent', c_uint64),
        ('packets_received', c_uint64),
        ('payload_received', c_uint64),
        ('wire_received', c_uint64),
        ('retransmissions', c_uint64),
        ('timeouts', c_uint64),
        ('gaps', c_uint64),
        ('results_ok', c_uint64),
        ('results_partial', c_uint64),
        ('results_error', c_uint64),
        ('fed_back', c_uint64),
        ('unexpected', c_uint64),
        ('acknowledged', c_uint64),
        ('unexpected_full', c_uint64),
        ('waiting', c_uint64),
        ('duplicates', c_uint64),
        ('foreign', c_uint64),
        ('forged', c_uint64),
        ('malformed', c_uint64),
        ('send_errors', c_uint64),
        ('srtt_ns', c_uint64),
        ('rto_ns', c_uint64),
        ('window', c_uint64),
        ('window_job', c_uint64),
        ('receive_buffer', c_uint64),
        ('probes', c_uint64),
        ('crc', c_uint64),
    ]


# Of each function the type of its result, and those of its arguments.
FUNCTIONS = {
    'weir_open': (c_int, [POINTER(Config), POINTER(c_void_p)]),
    'weir_use_transport': (c_int, [c_char_p]),
    'weir_iopen': (c_int, [POINTER(Config), POINTER(c_void_p)]),
    'weir_open_test': (c_int, [c_void_p, POINTER(c_bool)]),
    'weir_allreduce': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
    'weir_reduce': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_uint]),
    'weir_reducescatter': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
    'weir_broadcast': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_uint]),
    'weir_scatter': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_uint]),
    'weir_gather': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_uint]),
    'weir_allgather': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int]),
    'weir_alltoall': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int]),
    'weir_barrier': (c_int, [c_void_p]),
    'weir_iallreduce': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, POINTER(c_void_p)]),
    'weir_ireduce': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_uint, POINTER(c_void_p)]),
    'weir_ireducescatter': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, POINTER(c_void_p)]),
    'weir_ibroadcast': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_uint, POINTER(c_void_p)]),
    'weir_iscatter': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_uint, POINTER(c_void_p)]),
    'weir_igather': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_uint, POINTER(c_void_p)]),
    'weir_iallgather': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, POINTER(c_void_p)]),
    'weir_ialltoall': (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, POINTER(c_void_p)]),
    'weir_ibarrier': (c_int, [c_void_p, POINTER(c_void_p)]),
    'weir_collective': (c_int, [c_void_p, POINTER(Call), POINTER(c_void_p)]),
    'weir_test': (c_int, [POINTER(c_void_p), POINTER(c_bool)]),
    'weir_wait_for': (c_int, [POINTER(c_void_p), c_uint, POINTER(c_bool)]),
    'weir_wait': (c_int, [POINTER(c_void_p)]),
    'weir_wait_any': (c_int, [POINTER(c_void_p), c_size_t, POINTER(c_size_t)]),
    'weir_wait_all': (c_int, [POINTER(c_void_p), c_size_t]),
    'weir_fd': (c_int, [c_void_p]),
    'weir_rejoin': (c_int, [c_void_p]),
    'weir_unexpected': (c_uint64, [c_void_p]),
    'weir_error_feedback_forget': (c_uint64, [c_void_p, c_void_p]),
    'weir_close': (None, [c_void_p]),
    'weir_last_error': (c_char_p, [c_void_p]),
    'weir_last_result': (None, [c_void_p, POINTER(Result)]),
    'weir_degraded': (c_size_t, [c_void_p, POINTER(POINTER(Degraded))]),
    'weir_stats': (None, [c_void_p, POINTER(Stats)]),
    'weir_stats_sized': (None, [c_void_p, POINTER(Stats), c_size_t]),
    'weir_source': (c_uint, [c_void_p]),
    'weir_job': (c_uint, [c_void_p]),
    'weir_rank': (c_uint, [c_void_p]),
    'weir_sources': (c_uint, [c_void_p]),
    'weir_window': (c_uint, [c_void_p]),
    'weir_timeout_ms': (c_uint, [c_void_p]),
    'weir_generation': (c_uint, [c_void_p]),
    'weir_job_dtype': (c_int, [c_void_p]),
    'weir_job_op': (c_int, [c_void_p]),
    'weir_elements': (c_uint, [c_void_p, c_int]),
    'weir_mtu': (c_uint, [c_void_p]),
}
