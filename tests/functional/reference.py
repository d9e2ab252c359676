# SPDX-License-Identifier: BSD-3-Clause
"""What every collective must deliver: slow, obvious, and nothing in common with the C that it judges.

    wanted = collective('allreduce', TYPE['fp32'], 'sum', 0, [bytes of rank 0, of rank 1, ...], count)
    wanted[2].differs(what rank 2 has)       # None, or a text

Arguments are libweir's: count is the elements of one slice where there are slices.

Integers, min, max and what is only carried about are exact, to the bit. Floating-point sums, products
and averages depend on the order, so they have a range, in which the result of every order is: n numbers
added with unit roundoff u = 2^-precision are at most g * (|a| + |b| + ...) from their exact sum, g = (n - 1)
u / (1 - (n - 1) u) (Higham, Accuracy and Stability of Numerical Algorithms, 4.2), and a product at most
g * |product| (3.1); an average has one rounding more. The ends of the range are rounded to the type,
which keeps their order. Where every partial sum is a number of the type, whatever the order, the range is
one number.
"""
import math
from fractions import Fraction
from functools import reduce as fold
from operator import and_, or_, xor

from elements import INF, NAN, weir_lists

SLICED_SEND = ('reducescatter', 'scatter', 'alltoall')  # who sends, sends a slice for each rank
SLICED_RECEIVE = ('gather', 'allgather', 'alltoall')
REDUCING = ('allreduce', 'reduce', 'reducescatter')
ROOTED = ('reduce', 'broadcast', 'scatter', 'gather')
COLLECTIVES = [entry[2] for entry in weir_lists.COLLECTIVES]


class Exactly:
    """These bytes."""

    def __init__(self, kind, data):
        self.kind, self.data = kind, data

    def part(self, first, count):
        size = self.kind.bytes
        return Exactly(self.kind, self.data[first * size:(first + count) * size])

    def differs(self, got):
        if got == self.data:
            return None
        size = self.kind.bytes
        if len(got) != len(self.data):
            return '%d bytes, not %d' % (len(got), len(self.data))
        at = next(i for i in range(0, len(got), size) if got[i:i + size] != self.data[i:i + size])
        return 'element %d of %d is %s (0x%s), not %s (0x%s)' % (
            at // size, len(got) // size, self.kind.numbers(got[at:at + size])[0],
            got[at:at + size][::-1].hex(), self.kind.numbers(self.data[at:at + size])[0],
            self.data[at:at + size][::-1].hex())


class Between:
    """Numbers within [low, high], each with its own; a NaN where low is one."""

    def __init__(self, kind, ranges):
        self.kind, self.ranges = kind, ranges

    def part(self, first, count):
        return Between(self.kind, self.ranges[first:first + count])

    def differs(self, got):
        numbers = self.kind.numbers(got)
        if len(numbers) != len(self.ranges):
            return '%d elements, not %d' % (len(numbers), len(self.ranges))
        for i, (number, (low, high)) in enumerate(zip(numbers, self.ranges)):
            if not (math.isnan(number) if math.isnan(low) else low <= number <= high):
                return 'element %d of %d is %r, not within [%r, %r]' % (i, len(numbers), number, low,
                                                                        high)
        return None


# -- one element of each source -> one element


def towards_zero(number, divisor):
    return abs(number) // divisor * (1 if number >= 0 else -1)


def integers(kind, op, numbers):
    if op == 'avg':
        # Of 8 and 16 bits the sum is made in 32; wider ones wrap first.
        total = sum(numbers)
        return towards_zero(total if kind.bytes < 4 else kind.wrap(total), len(numbers))
    return kind.wrap({
        'sum': lambda: sum(numbers),
        'prod': lambda: math.prod(numbers),
        'min': lambda: min(numbers),
        'max': lambda: max(numbers),
        'band': lambda: fold(and_, numbers),
        'bor': lambda: fold(or_, numbers),
        'bxor': lambda: fold(xor, numbers),
        'land': lambda: int(all(numbers)),
        'lor': lambda: int(any(numbers)),
        'lxor': lambda: sum(1 for n in numbers if n != 0) % 2,
    }[op]())


def extreme(op, numbers):
    """IEEE 754-2019 minimum and maximum: a NaN wins, -0 is below +0."""
    if any(math.isnan(n) for n in numbers):
        return NAN
    return (min if op == 'min' else max)(numbers, key=lambda n: (n, math.copysign(1, n)))


def special(op, numbers):
    """The result when an operand is infinite or no number; None when all are finite."""
    if any(math.isnan(n) for n in numbers):
        return NAN
    if not any(math.isinf(n) for n in numbers):
        return None
    if op == 'prod':
        return NAN if 0 in numbers else math.prod(math.copysign(1, n) for n in numbers) * INF
    return NAN if INF in numbers and -INF in numbers else next(n for n in numbers if math.isinf(n))


def exact_in_any_order(kind, numbers):
    """Whether all partial sums are multiples of one unit, and few enough of them for the type."""
    unit = min((Fraction(1, Fraction(n).denominator) for n in numbers), default=1)
    return sum(abs(Fraction(n)) for n in numbers) / unit <= 2 ** kind.precision


def floats(kind, op, numbers):
    """(low, high) of a sum, product or average."""
    found = special(op, numbers)
    if found is not None:
        return found, found
    terms = [Fraction(n) for n in numbers]
    exact, magnitude = (math.prod(terms),) * 2 if op == 'prod' else (sum(terms), sum(map(abs, terms)))
    roundings = len(numbers) - 1
    if op != 'prod' and exact_in_any_order(kind.within, numbers):
        roundings = 0
    if op == 'avg':
        exact, magnitude = exact / len(numbers), magnitude / len(numbers)
        roundings += 1
    unit = Fraction(1, 2 ** kind.within.precision)
    error = roundings * unit / (1 - roundings * unit) * abs(magnitude)
    return kind.nearest(exact - error), kind.nearest(exact + error)


def reduced(kind, op, sends):
    columns = list(zip(*(kind.numbers(data) for data in sends)))
    if not kind.precision:
        return Exactly(kind, kind.data([integers(kind, op, column) for column in columns]))
    if op in ('min', 'max'):
        return Exactly(kind, kind.data([extreme(op, column) for column in columns]))
    return Between(kind, [floats(kind, op, column) for column in columns])


# -- every rank's data -> what every rank has


def send_count(name, ranks, count):
    return count * ranks if name in SLICED_SEND else count


def receive_count(name, ranks, count):
    return count * ranks if name in SLICED_RECEIVE else count


def sends_data(name, rank, root):
    return name != 'barrier' and (rank == root or name not in ('broadcast', 'scatter'))


def receives_data(name, rank, root):
    return name != 'barrier' and (rank == root or name not in ('reduce', 'gather'))


def collective(name, kind, op, root, sends, count, present=None):
    """A list: of each rank what it must have, None where nothing is received.

    sends: of each rank its bytes; of those that send no data, anything. present: the ranks that are in a partial
    result; None: all.
    """
    ranks = range(len(sends))
    present = ranks if present is None else present
    if name in SLICED_RECEIVE:
        sends = [data if rank in present else bytes(len(data)) for rank, data in enumerate(sends)]
    if name in REDUCING:
        whole = reduced(kind, op, [sends[rank] for rank in present])
    elif name in ('broadcast', 'scatter'):
        whole = Exactly(kind, sends[root])
    elif name in ('gather', 'allgather'):
        whole = Exactly(kind, b''.join(sends))
    if name in ('allreduce', 'broadcast', 'allgather'):
        return [whole for _ in ranks]
    if name in ('reduce', 'gather'):
        return [whole if rank == root else None for rank in ranks]
    if name in ('reducescatter', 'scatter'):
        return [whole.part(rank * count, count) for rank in ranks]
    if name == 'alltoall':
        rows = [Exactly(kind, data) for data in sends]
        return [Exactly(kind, b''.join(row.part(rank * count, count).data for row in rows))
                for rank in ranks]
    return [None for _ in ranks]
