#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The reference of the collectives (apps/verify), as tests use it from Python, by examples that a person can check;
tests/unit/test_verify.c has the operations. No rack, no library."""
import struct

from elements import INF, TYPE, TYPES, data
from reference import Exactly, Reduced, collective
from tap import case, check, main, seed


def expect(found, wanted):
    check(found == wanted, '%r, not %r', found, wanted)


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
