#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank of vectorsum: it sums a vector with those of the other ranks, over a plain socket.

    host.py SWITCH RUN RANK RANKS ELEMENTS

RUN: greater than in all runs before, and the same at all ranks."""
import array
import socket
import struct
import sys

PORT, ELEMENTS, WINDOW = 12100, 256, 32  # vectorsum.h
HEADER = struct.Struct('!QIHBB')  # block, heard, count, rank, status
REPEAT_S, REPEATS = 0.03, 100  # without an answer, until vectors are sent again; until the rank gives up


def reduce(sock, first, rank, data):
    """data: an array of int32, which becomes the sum. Returns a bit for each rank that is in all of it."""
    parts = [slice(i, i + ELEMENTS) for i in range(0, len(data), ELEMENTS)]
    waits, sent, heard, silent = set(range(len(parts))), 0, 0xffffffff, 0
    while waits:
        # Not before the sum of the block a window before is here.
        while sent < min(len(parts), min(waits) + WINDOW):
            if sent in waits:
                vector = data[parts[sent]].tobytes()
                sock.send(HEADER.pack(first + sent, 0, len(vector) // 4, rank, 0) + vector)
            sent += 1
        try:
            packet = sock.recv(2048)
        except TimeoutError:
            sent, silent = min(waits), silent + 1  # again: a vector or its answer was lost, or another rank is late
            if silent == REPEATS:
                raise
            continue
        block, included, _, _, status = HEADER.unpack_from(packet)
        if status and block - first in waits:
            data[parts[block - first]] = array.array('i', packet[HEADER.size:])
            waits.remove(block - first)
            heard, silent = heard & included, 0
    return heard


def main():
    run, rank, ranks, n = map(int, sys.argv[2:])
    data = array.array('i', (rank * 1000000 + i for i in range(n)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((sys.argv[1], PORT))
        sock.settimeout(REPEAT_S)
        heard = reduce(sock, (run << 32) + 1, rank, data)
    for r in range(ranks):
        if not heard >> r & 1:
            print('rank %d was missing' % r)
    wrong = heard == (1 << ranks) - 1 and sum(
        data[i] != ranks * (ranks - 1) // 2 * 1000000 + ranks * i for i in range(n))
    print('%d elements, %d wrong' % (n, wrong))
    sys.exit(wrong > 0)


if __name__ == '__main__':
    main()
