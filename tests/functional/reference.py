# SPDX-License-Identifier: BSD-3-Clause
"""What every collective must deliver.

    wanted = collective('allreduce', TYPE['fp32'], 'sum', 0, [bytes of rank 0, of rank 1, ...], count)
    wanted[2].differs(what rank 2 has)       # None, or a text

Arguments are libweir's: count is the elements of one slice where there are slices.

What is reduced is compared by apps/verify (verify.h), which shares no code with the switch and the library.
"""
import ctypes

from elements import OPERATIONS, VERIFY, weir_lists

# Of pktbuf/wire/collectives.h: what each contributes, what it gets, and who gets it.
ROWS = {entry[2]: entry[3:] for entry in weir_lists.COLLECTIVES}
COLLECTIVES = list(ROWS)
SLICED_SEND = [name for name, (gives, gets, _) in ROWS.items() if gets == 'SLICE' or gives == 'ROW']
SLICED_RECEIVE = [name for name, (gives, _, _) in ROWS.items() if gives in ('SLICE', 'ROW')]
REDUCING = [name for name, (gives, _, _) in ROWS.items() if gives == 'REDUCE']
ROOTED = [name for name, (gives, _, to) in ROWS.items() if 'ROOT' in (gives, to)]


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


class Call(ctypes.Structure):
    """weir.h's struct weir_call."""
    _fields_ = [('collective', ctypes.c_int), ('send', ctypes.c_void_p), ('recv', ctypes.c_void_p), ('count', ctypes.c_size_t),
                ('dtype', ctypes.c_int), ('op', ctypes.c_int), ('root', ctypes.c_uint)]


class Verify(ctypes.Structure):
    """verify.h's struct verify."""
    _fields_ = [('call', Call), ('rank', ctypes.c_uint), ('ranks', ctypes.c_uint), ('seed', ctypes.c_uint64),
                ('iteration', ctypes.c_uint64), ('first', ctypes.c_size_t), ('elements', ctypes.c_uint),
                ('levels', ctypes.c_uint), ('switches', ctypes.c_uint)]


VERIFY.verify_reduce.restype = ctypes.c_uint64
VERIFY.verify_wrong_reduced.restype = ctypes.c_size_t


class Reduced:
    """The reductions of what these sources send, in any order."""

    def __init__(self, kind, op, sends):
        self.kind, self.op, self.sends = kind, OPERATIONS.index(op), sends

    def part(self, first, count):
        size = self.kind.bytes
        return Reduced(self.kind, OPERATIONS[self.op], [data[first * size:(first + count) * size] for data in self.sends])

    def _wrong(self, got):
        sends = (ctypes.c_char_p * len(self.sends))(*self.sends)
        return VERIFY.verify_wrong_reduced(
            ctypes.byref(Verify(Call(dtype=self.kind.code, op=self.op))), sends, ctypes.c_uint(len(sends)),
            ctypes.c_size_t(len(got) // self.kind.bytes), ctypes.c_char_p(got))

    def differs(self, got):
        size = self.kind.bytes
        if len(got) != len(self.sends[0]):
            return '%d bytes, not %d' % (len(got), len(self.sends[0]))
        if not self._wrong(got):
            return None
        at = next(i for i in range(len(got) // size) if self.part(i, 1)._wrong(got[i * size:(i + 1) * size]))
        return 'element %d of %d is %s (0x%s), not the %s of %s' % (
            at, len(got) // size, self.kind.numbers(got[at * size:(at + 1) * size])[0],
            got[at * size:(at + 1) * size][::-1].hex(), OPERATIONS[self.op],
            [self.kind.numbers(data)[0] for data in self.part(at, 1).sends])

    @property
    def data(self):
        """In the order of the sources."""
        size, made = self.kind.bytes, b''
        for i in range(0, len(self.sends[0]), size):
            x = [int.from_bytes(data[i:i + size], 'little') for data in self.sends]
            made += VERIFY.verify_reduce(self.kind.code, self.op, (ctypes.c_uint64 * len(x))(*x),
                                         ctypes.c_uint(len(x))).to_bytes(size, 'little')
        return made


# -- every rank's data -> what every rank has


def send_count(name, ranks, count):
    return count * ranks if name in SLICED_SEND else count


def receive_count(name, ranks, count):
    return count * ranks if name in SLICED_RECEIVE else count


def sends_data(name, rank, root):
    gives = ROWS[name][0]
    return gives != 'NOTHING' and (rank == root or gives != 'ROOT')


def receives_data(name, rank, root):
    _, gets, to = ROWS[name]
    return gets != 'NOTHING' and (rank == root or to != 'ROOT')


def collective(name, kind, op, root, sends, count, present=None):
    """A list: of each rank what it must have, None where nothing is received.

    sends: of each rank its bytes; of those that send no data, anything. present: the ranks that are in a partial
    result; None: all.
    """
    gives, gets, _ = ROWS[name]
    ranks = range(len(sends))
    present = ranks if present is None else present
    if name in SLICED_RECEIVE:
        sends = [data if rank in present else bytes(len(data)) for rank, data in enumerate(sends)]
    whole = {'REDUCE': lambda: Reduced(kind, op, [sends[rank] for rank in present]),
             'ROOT': lambda: Exactly(kind, sends[root]),
             'SLICE': lambda: Exactly(kind, b''.join(sends)),
             'ROW': lambda: [Exactly(kind, data) for data in sends],
             'NOTHING': lambda: None}[gives]()
    part = {'WHOLE': lambda rank: whole,
            'SLICE': lambda rank: whole.part(rank * count, count),
            'COLUMN': lambda rank: Exactly(kind, b''.join(row.part(rank * count, count).data for row in whole)),
            'NOTHING': lambda rank: None}[gets]
    return [part(rank) if receives_data(name, rank, root) else None for rank in ranks]
