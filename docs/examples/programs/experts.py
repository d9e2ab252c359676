#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Experts and an owner of tokens of the program experts, over plain sockets.

    experts.py expert SWITCH NUMBER
    experts.py owner SWITCH --experts N [--tokens N] [--elements N] [--compare ADDRESS,ADDRESS...]

A token is `elements` floats, and goes to k experts. Expert n makes x (n + 1) + n of each x. The owner checks each sum, bit by
bit. With --compare, the same tokens then go straight to the experts at these addresses, a packet to each and one back, as with
AlltoAll, and the owner adds up; it prints what its interfaces carried and the times of both."""
import argparse
import array
import random
import socket
import struct
import sys
import time

MAGIC, VERSION = 0x5758, 1
REGISTER, TOKEN, INPUT, OUTPUT, RESULT, REGISTERED = range(1, 7)
# magic, version, type, owner, session, token, expert, count, place, status, missing, elements
HEADER = struct.Struct('!HBBHHIHBBBBH')
CHOICE = struct.Struct('!HHf')  # expert, reserved, weight
REGISTER_S, REPEAT_S, REPEATS = 2, 0.2, 50


def header(kind, owner=0, session=0, token=0, expert=0, count=0, place=0, elements=0):
    return HEADER.pack(MAGIC, VERSION, kind, owner, session, token, expert, count, place, 0, 0, elements)


def output(number, floats):
    """What an expert makes of its input."""
    return array.array('f', (x * (number + 1) + number for x in floats))


def expert(sock, switch, number):
    again, registered = 0, False
    sock.settimeout(0.5)
    while True:
        if time.monotonic() >= again:
            sock.sendto(header(REGISTER, expert=number), switch)
            again = time.monotonic() + REGISTER_S
        try:
            packet, sender = sock.recvfrom(65535)
        except (TimeoutError, ConnectionRefusedError):
            continue
        fields = list(HEADER.unpack_from(packet))
        if fields[2] == REGISTERED and not registered:
            print('registered', flush=True)
            registered = True
        elif fields[2] == INPUT:
            fields[2] = OUTPUT
            floats = array.array('f', packet[HEADER.size:])
            sock.sendto(HEADER.pack(*fields) + output(number, floats).tobytes(), sender)


def weighted_sum(weights, outputs):
    """In fp32, in order: each product is rounded, then added."""
    total = None
    for weight, floats in zip(weights, outputs):
        products = array.array('f', (weight * x for x in floats))
        total = products if total is None else array.array('f', map(sum, zip(total, products)))
    return total


class Owner:
    def __init__(self, sock, options):
        self.sock, self.options = sock, options
        self.switch = (options.switch, options.port)
        self.session = random.SystemRandom().randrange(1 << 16)
        self.outputs = {}  # of tokens that went straight to experts: {token: {place: floats}}
        sock.settimeout(REPEAT_S)

    def token(self, number):
        """The floats and the choices of a token."""
        draw = random.Random(number)
        floats = array.array('f', (draw.uniform(-1, 1) for _ in range(self.options.elements)))
        chosen = draw.sample(range(self.options.experts), self.options.k)
        return floats, [(e, array.array('f', [draw.random()])[0]) for e in chosen]

    def through_switch(self, number):
        """The packets of a token, and where they go."""
        floats, choices = self.token(number)
        return [(header(TOKEN, self.options.owner, self.session, number, count=len(choices), elements=len(floats)) +
                 b''.join(CHOICE.pack(e, 0, weight) for e, weight in choices) + floats.tobytes(), self.switch)]

    def straight(self, number):
        floats, choices = self.token(number)
        return [(header(INPUT, self.options.owner, self.session, number, e, len(choices), place, len(floats)) + floats.tobytes(),
                 (self.options.compare[e], self.options.expert_port)) for place, (e, _) in enumerate(choices)]

    def take(self, packet):
        """The token that this packet completes, and its sum; or None."""
        _, _, kind, _, session, number, _, _, place, status, missing, _ = HEADER.unpack_from(packet)
        if session != self.session or kind not in (RESULT, OUTPUT):
            return None
        if kind == RESULT:
            if status != 0:
                sys.exit('token %d: no output %s' % (number, [i for i in range(8) if missing >> i & 1]))
            return number, packet[HEADER.size:]
        got = self.outputs.setdefault(number, {})
        got[place] = array.array('f', packet[HEADER.size:])
        choices = self.token(number)[1]
        if len(got) < len(choices):
            return None
        return number, weighted_sum([w for _, w in choices], [got[i] for i in range(len(choices))]).tobytes()

    def run(self, packets_of):
        """Send all tokens, `window` of them under way. Returns the sums and the time."""
        waiting, sums, sent, silent, began = {}, {}, 0, 0, time.monotonic()
        while len(sums) < self.options.tokens:
            while sent < min(self.options.tokens, min(waiting, default=sent) + self.options.window):
                waiting[sent] = packets_of(sent)
                for packet in waiting[sent]:
                    self.sock.sendto(*packet)
                sent += 1
            try:
                found = self.take(self.sock.recv(65535))
            except (TimeoutError, ConnectionRefusedError):
                silent += 1
                if silent == REPEATS:
                    sys.exit('no answers')
                for packet in [p for packets in waiting.values() for p in packets]:
                    self.sock.sendto(*packet)
                continue
            if found and waiting.pop(found[0], None):
                sums[found[0]] = found[1]
                silent = 0
        return sums, time.monotonic() - began

    def wrong(self, sums):
        """How many sums differ from those of plain code."""
        return sum(sums[n] != weighted_sum([w for _, w in choices], [output(e, floats) for e, _ in choices]).tobytes()
                   for n in sums for floats, choices in [self.token(n)])


def carried():
    """Bytes that the interfaces of this host sent and received."""
    with open('/proc/self/net/dev') as file:
        rows = [line.split(':') for line in file.readlines()[2:]]
    counts = [row[1].split() for row in rows if row[0].strip() != 'lo']
    return sum(int(c[8]) for c in counts), sum(int(c[0]) for c in counts)


def main():
    parser = argparse.ArgumentParser(description='Experts and an owner of tokens of the program experts.')
    parser.add_argument('--port', type=int, default=9021, help='the UDP port of the program')
    parser.add_argument('--expert-port', type=int, default=9022, help="the experts' own UDP port")
    commands = parser.add_subparsers(dest='command', required=True)
    one = commands.add_parser('expert')
    one.add_argument('switch')
    one.add_argument('number', type=int)
    one = commands.add_parser('owner')
    one.add_argument('switch')
    one.add_argument('--owner', type=int, default=0, help="this owner's number")
    one.add_argument('--experts', type=int, required=True, help='how many experts there are')
    one.add_argument('--tokens', type=int, default=200)
    one.add_argument('--elements', type=int, default=256, help='floats of a token')
    one.add_argument('--k', type=int, default=2, help='experts of a token')
    one.add_argument('--window', type=int, default=16, help='tokens under way, at most the setting')
    one.add_argument('--compare', type=lambda text: text.split(','), help='addresses of the experts, by number')
    options = parser.parse_args()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if options.command == 'expert':
            sock.bind(('', options.expert_port))
            expert(sock, (options.switch, options.port), options.number)
        owner, bad = Owner(sock, options), 0
        for name, packets_of in [('in the switch', owner.through_switch)] + [('as AlltoAll', owner.straight)] * bool(options.compare):
            before = carried()
            sums, seconds = owner.run(packets_of)
            sent, received = (b - a for a, b in zip(before, carried()))
            wrong = owner.wrong(sums)
            bad += wrong
            print('%s: %d tokens, %d wrong, %d bytes sent and %d received per token, %.1f us per token' % (
                name, len(sums), wrong, sent // len(sums), received // len(sums), 1e6 * seconds / len(sums)))
    sys.exit(bad > 0)


if __name__ == '__main__':
    main()
