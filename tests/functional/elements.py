# SPDX-License-Identifier: BSD-3-Clause
"""The element types: bytes to numbers and back, and data to try.

Numbers are ints, or floats that hold every value of the floating-point types exactly.
"""
import ctypes
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'rack'))
import weir_lists  # noqa: E402

OPERATIONS = [entry[2] for entry in weir_lists.OPS]
NAN = float('nan')
INF = float('inf')


VERIFY = ctypes.CDLL(os.path.join(os.environ['WEIR_BUILD'], 'apps', 'verify', 'libweir_verify.so'))
VERIFY.verify_value.restype, VERIFY.verify_value.argtypes = ctypes.c_double, (ctypes.c_int, ctypes.c_uint64)
VERIFY.verify_bits.restype, VERIFY.verify_bits.argtypes = ctypes.c_uint64, (ctypes.c_int, ctypes.c_longdouble)


class Type:
    """An element type, by its entry in the list. precision: significant bits, the hidden one too; 0 of an integer."""

    def __init__(self, name, code, text, size, kind, exponent_bits, fraction_bits):
        self.code, self.name, self.bytes = int(code), text, int(size)
        letters = 'bhiq' if kind == 'SIGNED' else 'BHIQ'
        self.bits = '<%d' + letters[self.bytes.bit_length() - 1]
        self.precision = int(fraction_bits) + 1 if int(exponent_bits) else 0
        self.least = 2 - 2 ** (int(exponent_bits) - 1) if self.precision else 0  # exponent of the least normal number

    def __repr__(self):
        return self.name

    @property
    def operations(self):
        return OPERATIONS[:5] if self.precision else OPERATIONS

    def numbers(self, data):
        numbers = list(struct.unpack(self.bits % (len(data) // self.bytes), data))
        return [VERIFY.verify_value(self.code, bits) for bits in numbers] if self.precision else numbers

    def data(self, numbers):
        """The inverse; what is no value of the type is rounded."""
        if self.precision:
            numbers = [VERIFY.verify_bits(self.code, number) for number in numbers]
        return struct.pack(self.bits % len(numbers), *numbers)


TYPES = [Type(*entry) for entry in weir_lists.DTYPES]
TYPE = {t.name: t for t in TYPES}

# -- data


def rare(draw, numbers, choices):
    """Some of the numbers replaced: about every thirtieth."""
    for i in range(len(numbers)):
        if draw.random() < 1 / 30:
            numbers[i] = draw.choice(choices)
    return numbers


def summands(draw, kind, count):
    """Of magnitudes that no order of adding overflows; whole numbers, whose sum is exact, or not."""
    style = draw.randrange(3)
    if kind.bytes == 1:
        numbers = [draw.uniform(-1, 1) * 2.0 ** draw.randint(-4, 2) for _ in range(count)]
        return rare(draw, numbers, [NAN, INF, -INF, 0.0, -0.0]) if style == 2 else numbers
    if style == 0:
        return [float(draw.randint(-100, 100)) for _ in range(count)]
    numbers = [draw.uniform(-1, 1) * 2.0 ** draw.randint(-6, 6) for _ in range(count)]
    if kind.name == 'fp16' and style == 1:
        # Two of them overflow fp16, and may come back: only a wider sum is right.
        return [draw.choice([-60000.0, 60000.0, 1.0]) for _ in range(count)]
    if style == 2:
        tiny = 2.0 ** (kind.least - kind.precision + 1)
        rare(draw, numbers, [NAN, INF, -INF, 0.0, -0.0, tiny, -3 * tiny])
    return numbers


def factors(draw, kind, count):
    least, most = (0.75, 1.25) if kind.bytes == 1 else (0.5, 2)
    numbers = [draw.choice([-1, 1]) * draw.uniform(least, most) for _ in range(count)]
    return rare(draw, numbers, [NAN, INF, -INF, 0.0, -0.0, 1.0]) if draw.randrange(2) else numbers


def any_bits(draw, kind, count):
    """Every pattern of bits; small counts of zeros and of values that meet again among the sources."""
    data = bytearray(draw.randbytes(count * kind.bytes))
    for i in range(count):
        if draw.random() < 0.2:
            at = i * kind.bytes
            data[at:at + kind.bytes] = draw.choice([bytes(kind.bytes), bytes(kind.bytes - 1) + b'\x80',
                                                    b'\xff' * kind.bytes])
    return bytes(data)


def data(key, kind, op, count):
    """count elements to try an operation with (None: to carry about), the same for the same key."""
    draw = random.Random(key)
    if kind.precision and op in ('sum', 'avg'):
        return kind.data(summands(draw, kind, count))
    if kind.precision and op == 'prod':
        return kind.data(factors(draw, kind, count))
    return any_bits(draw, kind, count)
