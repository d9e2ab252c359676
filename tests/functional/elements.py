# SPDX-License-Identifier: BSD-3-Clause
"""The element types in plain Python: bytes to numbers and back, exact rounding, and data to try.

Numbers are ints, or floats that hold every value of fp16, bf16, fp32 and fp64 exactly.
"""
import array
import math
import random
import struct
from fractions import Fraction

OPERATIONS = ['sum', 'prod', 'min', 'max', 'avg', 'band', 'bor', 'bxor', 'land', 'lor', 'lxor']
NAN = float('nan')
INF = float('inf')


class Type:
    """An element type. precision: significant bits, the hidden one too; 0 of an integer."""

    def __init__(self, code, name, size, letter, precision=0, least=0, most=0):
        self.code, self.name, self.bytes, self.letter = code, name, size, letter
        self.precision, self.least, self.most = precision, least, most  # exponents, of floats
        self.signed = name.startswith('int')
        # Sums, products and averages of the narrow floats are made in fp32.
        self.within = FP32 if precision and size == 2 else self

    def __repr__(self):
        return self.name

    @property
    def operations(self):
        return OPERATIONS[:5] if self.precision else OPERATIONS

    def numbers(self, data):
        if self.name == 'bf16':
            data = array.array('I', (h << 16 for h in array.array('H', data))).tobytes()
            return list(struct.unpack('<%df' % (len(data) // 4), data))
        return list(struct.unpack('<%d%s' % (len(data) // self.bytes, self.letter), data))

    def data(self, numbers):
        """The inverse; what is no value of the type is rounded (bf16: cut off)."""
        if self.name == 'bf16':
            wide = array.array('I', struct.pack('<%df' % len(numbers), *numbers))
            return array.array('H', (w >> 16 for w in wide)).tobytes()
        return struct.pack('<%d%s' % (len(numbers), self.letter), *numbers)

    def wrap(self, number):
        number &= (1 << 8 * self.bytes) - 1
        return number - (1 << 8 * self.bytes) if self.signed and number >> 8 * self.bytes - 1 else number

    def nearest(self, exact):
        """A fraction rounded once, to nearest even; beyond the largest number to infinity."""
        if exact == 0:
            return 0.0
        size = abs(exact)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        if size < Fraction(2) ** exponent:
            exponent -= 1
        unit = Fraction(2) ** (max(exponent, self.least) - self.precision + 1)
        rounded = round(exact / unit) * unit
        if abs(rounded) >= Fraction(2) ** (self.most + 1):
            return math.copysign(INF, exact)
        return float(rounded)


FP32 = None  # Type's constructor looks at it
FP32 = Type(10, 'fp32', 4, 'f', 24, -126, 127)
TYPES = [Type(0, 'int8', 1, 'b'), Type(1, 'uint8', 1, 'B'), Type(2, 'int16', 2, 'h'),
         Type(3, 'uint16', 2, 'H'), Type(4, 'int32', 4, 'i'), Type(5, 'uint32', 4, 'I'),
         Type(6, 'int64', 8, 'q'), Type(7, 'uint64', 8, 'Q'),
         Type(8, 'fp16', 2, 'e', 11, -14, 15), Type(9, 'bf16', 2, 'H', 8, -126, 127), FP32,
         Type(11, 'fp64', 8, 'd', 53, -1022, 1023)]
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


def factors(draw, count):
    numbers = [draw.choice([-1, 1]) * draw.uniform(0.5, 2) for _ in range(count)]
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
        return kind.data(factors(draw, count))
    return any_bits(draw, kind, count)
