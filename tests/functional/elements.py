# SPDX-License-Identifier: BSD-3-Clause
"""The element types in plain Python: bytes to numbers and back, exact rounding, and data to try.

Numbers are ints, or floats that hold every value of the floating-point types exactly.
"""
import array
import math
import os
import random
import struct
import sys
from fractions import Fraction

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'rack'))
import weir_lists  # noqa: E402

OPERATIONS = [entry[2] for entry in weir_lists.OPS]
NAN = float('nan')
INF = float('inf')


class Type:
    """An element type, by its entry in the list. precision: significant bits, the hidden one too; 0 of an integer."""

    def __init__(self, name, code, text, size, kind, exponent_bits, fraction_bits):
        self.code, self.name, self.bytes, self.signed = int(code), text, int(size), kind == 'SIGNED'
        self.letter = {'fp16': 'e', 'fp32': 'f', 'fp64': 'd'}.get(text, '')
        if kind in ('SIGNED', 'UNSIGNED'):
            self.letter = ('bhiq' if self.signed else 'BHIQ')[self.bytes.bit_length() - 1]
        self.precision = int(fraction_bits) + 1 if int(exponent_bits) else 0
        self.bias = 2 ** (int(exponent_bits) - 1) - 1 if self.precision else 0
        self.least, self.finite = 1 - self.bias, kind == 'FINITE'  # exponent of the least normal number
        self.largest = 0.0
        if self.precision:
            self.largest = 448.0 if self.finite else (2 - 2.0 ** (1 - self.precision)) * 2.0 ** self.bias
        # Sums, products and averages of the narrow floats are made in fp32.
        self.within = FP32 if self.precision and self.bytes <= 2 else self
        self.values = [self.value(bits) for bits in range(256)] if self.precision and self.bytes == 1 else []

    def value(self, bits):
        """A type of 8 bits."""
        exponent, fraction = divmod(bits & 0x7f, 2 ** (self.precision - 1))
        size = math.ldexp(fraction, self.least - self.precision + 1)
        if exponent:
            size = math.ldexp(fraction + 2 ** (self.precision - 1), exponent - self.bias - self.precision + 1)
        if size > self.largest:
            size = INF if fraction == 0 else NAN
        return -size if bits & 0x80 else size

    def bits(self, number):
        """The inverse: of the nearest number."""
        if math.isnan(number) or (self.finite and math.isinf(number)):
            return 0x7f if self.finite else 0x7e
        nearest = number if math.isinf(number) else self.nearest(Fraction(number))
        if math.isnan(nearest):
            return 0x7f
        sign = 0x80 if math.copysign(1, number) < 0 else 0
        return sign | self.values.index(abs(nearest))

    def __repr__(self):
        return self.name

    @property
    def operations(self):
        return OPERATIONS[:5] if self.precision else OPERATIONS

    def numbers(self, data):
        if self.values:
            return [self.values[bits] for bits in data]
        if self.name == 'bf16':
            data = array.array('I', (h << 16 for h in array.array('H', data))).tobytes()
            return list(struct.unpack('<%df' % (len(data) // 4), data))
        return list(struct.unpack('<%d%s' % (len(data) // self.bytes, self.letter), data))

    def data(self, numbers):
        """The inverse; what is no value of the type is rounded (bf16: cut off)."""
        if self.values:
            return bytes(self.bits(number) for number in numbers)
        if self.name == 'bf16':
            wide = array.array('I', struct.pack('<%df' % len(numbers), *numbers))
            return array.array('H', (w >> 16 for w in wide)).tobytes()
        return struct.pack('<%d%s' % (len(numbers), self.letter), *numbers)

    def wrap(self, number):
        number &= (1 << 8 * self.bytes) - 1
        return number - (1 << 8 * self.bytes) if self.signed and number >> 8 * self.bytes - 1 else number

    def nearest(self, exact):
        """A fraction rounded once, to nearest even; beyond the largest number to infinity, or NaN without one."""
        if exact == 0:
            return 0.0
        size = abs(exact)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if size < Fraction(2) ** exponent:
            exponent -= 1
        unit = Fraction(2) ** (max(exponent, self.least) - self.precision + 1)
        rounded = round(exact / unit) * unit
        if abs(rounded) > self.largest:
            return NAN if self.finite else math.copysign(INF, exact)
        return float(rounded)


FP32 = None  # Type's constructor uses it
FP32 = next(Type(*entry) for entry in weir_lists.DTYPES if entry[2] == 'fp32')
TYPES = [FP32 if entry[2] == 'fp32' else Type(*entry) for entry in weir_lists.DTYPES]
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
