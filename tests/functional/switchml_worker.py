#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A SwitchML worker over a plain socket: sums an array of int32 over all workers.

    worker = Worker('10.77.0.254', elements=256, slots=64)
    total = worker.allreduce(array('i', [1, 2, 3]))

As the public client does: chunk c is in slot c modulo `slots`, and uses its two sets in turn; a chunk goes out when the sum
of the one before in its slot has come; after a timeout it goes out again. loss: of what it sends and receives, for tests.

As a program it sums numbers of its own, which every rank can compute, and prints how many elements are wrong.
"""
import argparse
import random
import socket
import struct
import sys
import time
from array import array

PORT = 48864
HEADER = struct.Struct('!BBIH')


class Worker:
    def __init__(self, switch, elements=256, slots=64, after=False, port=PORT, timeout=0.02, loss=0.0, seed=0, sock=None):
        self.elements, self.slots, self.after, self.timeout, self.loss = elements, slots, after, timeout, loss
        self.random = random.Random(seed)
        self.socket = sock or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.connect((switch, port))
        self.turns = [0] * slots  # chunks that a slot has had
        self.job = self.repeated = 0

    def pack(self, chunk, pool, values, exponents=(0, 0)):
        head = HEADER.pack(0x10 | (1 if self.elements == 64 else 3), self.job, chunk, pool)
        ends = bytes(e & 255 for e in exponents)
        data = array('i', values)
        data.extend([0] * (self.elements - len(data)))
        if sys.byteorder == 'little':
            data.byteswap()
        return head + data.tobytes() + ends if self.after else head + ends + data.tobytes()

    def unpack(self, packet):
        """Job, chunk, pool index and sums."""
        _, job, chunk, pool = HEADER.unpack_from(packet)
        at = HEADER.size + (0 if self.after else 2)
        data = array('i', packet[at:at + 4 * self.elements])
        if sys.byteorder == 'little':
            data.byteswap()
        return job, chunk, pool, data

    def put(self, packet):
        if self.random.random() >= self.loss:
            self.socket.send(packet)

    def allreduce(self, values, seconds=120):
        n, total = self.elements, array('i', bytes(4 * len(values)))
        chunks, self.job = (len(values) + n - 1) // n, (self.job + 1) % 256
        waiting, ends = {}, time.monotonic() + seconds  # chunk: (packet, when it goes out again)

        def begin(chunk):
            slot = chunk % self.slots
            pool = slot | self.turns[slot] % 2 << 15
            self.turns[slot] += 1
            packet = self.pack(chunk, pool, values[chunk * n:chunk * n + n])
            waiting[chunk] = [packet, time.monotonic() + self.timeout, pool]
            self.put(packet)

        for chunk in range(min(self.slots, chunks)):
            begin(chunk)
        while waiting:
            now = time.monotonic()
            if now > ends:
                raise TimeoutError('%d chunks of %d have no sum' % (len(waiting), chunks))
            for entry in waiting.values():
                if entry[1] <= now:
                    entry[1] = now + self.timeout
                    self.repeated += 1
                    self.put(entry[0])
            self.socket.settimeout(max(0.0005, min(entry[1] for entry in waiting.values()) - now))
            try:
                packet = self.socket.recv(65536)
            except (TimeoutError, ConnectionRefusedError):
                continue
            if self.random.random() < self.loss:
                continue
            job, chunk, pool, sums = self.unpack(packet)
            if job != self.job or chunk not in waiting or waiting[chunk][2] != pool:
                continue
            del waiting[chunk]
            total[chunk * n:chunk * n + n] = sums[:len(values) - chunk * n]
            if chunk + self.slots < chunks:
                begin(chunk + self.slots)
        return total


def wrapped(numbers):
    return array('i', [(n + 2**31) % 2**32 - 2**31 for n in numbers])


def numbers(rank, count):
    """Of a rank's array."""
    step = (rank * 2 + 1) * 2654435761
    return wrapped(range(rank, rank + step * count, step))


def main():
    parser = argparse.ArgumentParser()
    for name, default in (('rank', 0), ('workers', 2), ('count', 100000), ('elements', 256), ('slots', 64), ('times', 1)):
        parser.add_argument('--' + name, type=int, default=default)
    parser.add_argument('--after', action='store_true')
    parser.add_argument('--loss', type=float, default=0.0)
    parser.add_argument('switch')
    args = parser.parse_args()
    worker = Worker(args.switch, args.elements, args.slots, args.after, loss=args.loss, seed=args.rank)
    wanted = wrapped(map(sum, zip(*(numbers(r, args.count) for r in range(args.workers)))))
    for _ in range(args.times):
        total = worker.allreduce(numbers(args.rank, args.count))
        wrong = sum(map(int.__ne__, total, wanted))
        print('%d elements, %d wrong, %d packets again' % (args.count, wrong, worker.repeated), flush=True)
        if wrong:
            sys.exit(1)


if __name__ == '__main__':
    main()
