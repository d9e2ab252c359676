#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The reference of the collectives (apps/verify), as tests use it from Python, by examples that a person can check. No rack,
no library."""
import math
import struct

from elements import INF, NAN, TYPE, TYPES, VERIFY, data
from reference import Exactly, Reduced, collective
from tap import case, check, main, seed


def ints(op, *numbers, kind='int8'):
    """The result of one element of each source."""
    kind = TYPE[kind]
    made = Reduced(kind, op, [kind.data([n]) for n in numbers])
    check(made.differs(made.data) is None, '%s %s', op, numbers)
    return kind.numbers(made.data)[0]


def expect(found, wanted):
    check(found == wanted, '%r, not %r', found, wanted)


@case
def integers_by_hand():
    for op, numbers, wanted in [
            ('sum', (100, 100), -56), ('sum', (-128, -1), 127), ('prod', (100, 100), 16),
            ('min', (3, -4, 5), -4), ('max', (3, -4, 5), 5), ('band', (12, 10), 8),
            ('bor', (12, 10), 14), ('bxor', (12, 10), 6), ('bxor', (-1, 1), -2),
            ('land', (2, 4), 1), ('land', (2, 0), 0), ('lor', (0, 0), 0), ('lor', (0, -7), 1),
            ('lxor', (5, 6), 0), ('lxor', (5, 6, 7), 1), ('land', (-9,), 1), ('lxor', (8,), 1),
            ('bor', (8,), 8), ('avg', (100, 100), 100), ('avg', (-7, 0), -3), ('avg', (7, 0), 3),
            ('avg', (-128, -128, -127), -127)]:
        expect(ints(op, *numbers), wanted)
    expect(ints('sum', 200, 100, kind='uint8'), 44)
    expect(ints('avg', 255, 255, kind='uint8'), 255)
    expect(ints('min', 200, 100, kind='uint8'), 100)
    # 32 and 64 bits: of the wrapped sum.
    expect(ints('avg', 2**31 - 1, 1, kind='int32'), -2**30)
    expect(ints('avg', 2**32 - 1, 3, kind='uint32'), 1)
    expect(ints('avg', -2**63, -2**63, kind='int64'), 0)
    expect(ints('prod', 2**32, 2**31, kind='uint64'), 2**63)


def extreme(op, *numbers, kind='fp32'):
    kind = TYPE[kind]
    return Reduced(kind, op, [kind.data([n]) for n in numbers]).data[::-1].hex()


@case
def extremes_by_hand():
    expect(extreme('min', 1.0, -2.0), 'c0000000')
    expect(extreme('max', 1.0, NAN, 3.0), '7fc00000')
    expect(extreme('min', -NAN), '7fc00000')
    expect(extreme('min', 0.0, -0.0), '80000000')
    expect(extreme('max', -0.0, 0.0), '00000000')
    expect(extreme('max', -INF, INF), '7f800000')
    expect(extreme('max', NAN, 1.0, kind='fp16'), '7e00')
    expect(extreme('max', NAN, 1.0, kind='bf16'), '7fc0')
    expect(extreme('max', NAN, 1.0, kind='fp64'), '7ff8000000000000')
    expect(extreme('min', 1.5, 2.5, kind='bf16'), '3fc0')
    expect(extreme('min', 1.5, NAN, kind='fp8_e4m3'), '7f')
    expect(extreme('max', 1.5, NAN, kind='fp8_e5m2'), '7e')
    expect(extreme('max', 1.5, -INF, kind='fp8_e5m2'), '3e')


def right(result, op, *numbers, kind='fp32'):
    kind = TYPE[kind]
    return Reduced(kind, op, [kind.data([n]) for n in numbers]).differs(kind.data([result])) is None


def only(result, op, *numbers, kind='fp32'):
    """This, and neither number beside it."""
    check(right(result, op, *numbers, kind=kind), '%s of %s is not %s', op, numbers, result)
    bits = VERIFY.verify_bits(TYPE[kind].code, result)
    for other in (bits - 1, bits + 1):
        beside = VERIFY.verify_value(TYPE[kind].code, other)
        check(math.isnan(beside) or not right(beside, op, *numbers, kind=kind), '%s of %s is %s', op, numbers, beside)
    expect(Reduced(TYPE[kind], op, [TYPE[kind].data([n]) for n in numbers]).data, TYPE[kind].data([result]))


@case
def sums_by_hand():
    only(6.0, 'sum', 1.0, 2.0, 3.0)
    only(1.5, 'avg', 1.0, 2.0)
    only(-INF, 'prod', INF, -2.0)
    for op, numbers in [('sum', (INF, -INF)), ('sum', (1.0, NAN)), ('prod', (0.0, INF))]:
        expect((right(NAN, op, *numbers), right(1.0, op, *numbers), right(INF, op, *numbers)), (True, False, False))
    expect(right(NAN, 'sum', 1.0, 2.0), False)
    # 2^24 + 1 + 1: what comes out depends on the order, and both must be right.
    expect([right(2.0**24 + n, 'sum', 2.0**24, 1.0, 1.0) for n in (-10, 0, 2, 10)], [False, True, True, False])
    # In fp32 and rounded once: 2048 + 1 + 1 is 2050 in fp16; one by one it would stay 2048.
    only(2050.0, 'sum', 2048.0, 1.0, 1.0, kind='fp16')
    only(60000.0, 'sum', 60000.0, 60000.0, -60000.0, kind='fp16')
    only(INF, 'sum', 60000.0, 60000.0, kind='fp16')
    only(258.0, 'sum', 256.0, 1.0, 1.0, kind='bf16')
    # 16 + 1 + 1 in fp8: one by one it would stay 16.
    only(18.0, 'sum', 16.0, 1.0, 1.0, kind='fp8_e4m3')
    # 464 is halfway to 480, which would be next to 448 and is NaN; 448 is the even one.
    only(448.0, 'sum', 448.0, 16.0, kind='fp8_e4m3')
    expect((right(NAN, 'sum', 448.0, 18.0, kind='fp8_e4m3'), right(448.0, 'sum', 448.0, 18.0, kind='fp8_e4m3')), (True, False))
    only(INF, 'sum', 57344.0, 4096.0, kind='fp8_e5m2')


@case
def rounds_as_the_machine_does():
    draw = seed()
    for name, letter in (('fp32', 'f'), ('fp16', 'e'), ('fp64', 'd')):
        for number in [0.0, -1.0, 65519.999, 65520.0, 2.0**-24, 2.0**-25, 2.0**-149, 3.4e38] + [
                draw.uniform(-4, 4) * 2.0 ** draw.randint(-30, 14) for _ in range(2000)]:
            if name == 'fp16':  # which is rounded from fp32
                number = struct.unpack('<f', struct.pack('<f', number))[0]
            try:
                wanted = struct.unpack('<' + letter, struct.pack('<' + letter, number))[0]
            except OverflowError:
                wanted = INF
            expect(TYPE[name].numbers(TYPE[name].data([number])), [wanted])
    # bf16 is the upper half of fp32, and struct doesn't know it: ties go to the even one.
    for number, wanted in [(1 + 2**-8, 1.0), (1 + 3 * 2**-8, 1 + 2**-6), (1 + 2**-8 + 2**-20, 1 + 2**-7),
                           (2.0**-133 * 1.5, 2.0**-132), (3.4e38, INF)]:
        expect(TYPE['bf16'].numbers(TYPE['bf16'].data([number])), [wanted])


@case
def every_order_is_within_the_range():
    draw, kind = seed(), TYPE['fp32']
    for _ in range(2000):
        numbers = kind.numbers(data(draw.getrandbits(32), kind, 'sum', 8))
        sends = [kind.data([number]) for number in numbers]
        draw.shuffle(numbers)
        total = numbers[0]
        for number in numbers[1:]:
            total = kind.numbers(kind.data([total + number]))[0]  # a double sum of two is exact enough
        check(Reduced(kind, 'sum', sends).differs(kind.data([total])) is None, '%r of %r', total, numbers)


@case
def collectives_by_hand():
    kind = TYPE['uint8']

    def bytes_of(name, sends, count=1, root=0):
        return [each and each.data for each in collective(name, kind, 'sum', root,
                                                          [bytes(s) for s in sends], count)]
    rows = [[1, 2, 3], [10, 20, 30], [100, 110, 120]]
    total = bytes([111, 132, 153])
    expect(bytes_of('allreduce', rows, 3), [total] * 3)
    expect(bytes_of('reduce', rows, 3, root=1), [None, total, None])
    expect(bytes_of('reducescatter', rows), [b'\x6f', b'\x84', b'\x99'])
    expect(bytes_of('broadcast', rows, 3, root=2), [bytes(rows[2])] * 3)
    expect(bytes_of('scatter', rows, root=1), [b'\x0a', b'\x14', b'\x1e'])
    expect(bytes_of('gather', [[1], [2], [3]], root=2), [None, None, b'\1\2\3'])
    expect(bytes_of('allgather', [[1, 4], [2, 5], [3, 6]], 2), [b'\1\4\2\5\3\6'] * 3)
    expect(bytes_of('alltoall', rows), [bytes([1, 10, 100]), bytes([2, 20, 110]), bytes([3, 30, 120])])
    expect(bytes_of('barrier', [[], [], []]), [None] * 3)


@case
def sees_what_is_wrong():
    kind = TYPE['int16']
    good = kind.data([1, -2, 3])
    expect(Exactly(kind, good).differs(good), None)
    expect(Exactly(kind, good).differs(kind.data([1, -2, 4])),
           'element 2 of 3 is 4 (0x0004), not 3 (0x0003)')
    expect(Exactly(kind, good).differs(good[:4]), '4 bytes, not 6')
    sends = [kind.data([100, n]) for n in (1, 2)]
    expect(Reduced(kind, 'sum', sends).differs(kind.data([200, 4])),
           'element 1 of 2 is 4 (0x0004), not the sum of [1, 2]')
    expect(Reduced(kind, 'sum', sends).differs(kind.data([200])), '2 bytes, not 4')


@case
def data_survive_the_way_there_and_back():
    for kind in TYPES:
        numbers = kind.numbers(data('x', kind, 'sum', 100))
        again = kind.numbers(kind.data(numbers))
        check(all(a == b or a != a and b != b for a, b in zip(numbers, again)), '%s', kind)
        expect(data('x', kind, 'sum', 100), data('x', kind, 'sum', 100))
        expect(len(data('x', kind, 'min', 7)), 7 * kind.bytes)


if __name__ == '__main__':
    main()
