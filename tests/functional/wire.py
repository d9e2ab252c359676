# SPDX-License-Identifier: BSD-3-Clause
"""The wire in Python, written from docs/protocol.md and not from the C headers.

Frames for raw sockets, down to the Ethernet header, and a plain peer on a UDP socket that speaks
the protocol one packet at a time.
"""
import hashlib
import hmac
import ipaddress
import os
import random
import socket
import struct
import time

from rack import SWITCH_ADDRESS, SWITCH_MAC

BASE, EXTENDED = 12000, 12001
ALLREDUCE, BARRIER, PROBE, JOIN = 0, 8, 13, 15
(OK, PARTIAL, ERROR, WAITING, EXPIRED, STALE, MISMATCH, WINDOW, UNSUPPORTED, REFUSED,
 DISPLACED) = range(11)
TAGGED = 2  # the flag
INT32, FP32 = 4, 10
SUM = 0


def header(job, block, source, generation, count, extended=None, final=0, status=0, degraded=0,
           sources=0):
    """An aggregation header. extended: None, or (collective, op, dtype, flags, root)."""
    made = struct.pack('>BIBBBHH', job, block & 0xffffffff,
                       status << 4 | final << 3 | degraded << 2, source, sources, generation,
                       count)
    if extended is not None:
        collective, op, dtype, flags, root = extended
        made += struct.pack('BBBB', collective << 4 | op, dtype << 4 | flags, root, status)
    return made


class Packet:
    """A received aggregation packet."""

    def __init__(self, data, extended):
        (self.job, self.block, bits, self.source, self.sources, self.generation,
         count) = struct.unpack('>BIBBBHH', data[:12])
        self.status, self.final, self.degraded = bits >> 4, bits >> 3 & 1, bits >> 2 & 1
        self.count = count & 0xfff
        self.payload = data[12:]
        self.collective = self.op = self.dtype = self.flags = self.root = None
        if extended:
            first, second, self.root, status = struct.unpack('BBBB', data[12:16])
            if status != self.status:
                raise AssertionError('two statuses: %d and %d' % (self.status, status))
            self.collective, self.op = first >> 4, first & 15
            self.dtype, self.flags = second >> 4, second & 15
            self.payload = data[16:]

    def ints(self):
        return list(struct.unpack('<%di' % self.count, self.payload[:4 * self.count]))

    def displaced_by(self):
        """Address and UDP port of the newer join."""
        return str(ipaddress.ip_address(self.payload[:4])), int.from_bytes(self.payload[4:6], 'big')

    def bitmap(self):
        """The sources in the bitmap, the last 32 bytes of the payload."""
        bits = int.from_bytes(self.payload[-32:], 'little')
        return [s for s in range(256) if bits >> s & 1]


def source_key(job_key, source, epoch=0):
    """The key with which a source proves its joins."""
    return tag(job_key, b'weir source', struct.pack('>BQ', source, epoch), length=32)


def tag(key, *message, length=16):
    return hmac.new(key, b''.join(message), hashlib.sha256).digest()[:length]


def proof(key, address, port, head, challenge, nonce, count):
    """A join that is proved: what follows UDP. head: its header."""
    said = head + challenge + nonce + struct.pack('>I', count)
    place = ipaddress.ip_address(address).packed + struct.pack('>H', port)
    return said + tag(key, b'weir join', place, said)


class Peer:
    """A source of a job on a UDP socket in a host's namespace. key: of the source, if the job has keys; but not
    in an authenticated job."""

    def __init__(self, rack, host, job, source, extended=True, dtype=INT32, key=None):
        self.job, self.source, self.extended, self.dtype = job, source, extended, dtype
        self.generation, self.nonce = 0, None
        self.key, self.secret, self.challenge, self.count = key, b'', bytes(16), 0
        self.address = rack.address(host)
        with rack.inside(host):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((rack.address(host), 0))
        self.port = self.socket.getsockname()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def raw(self, data, extended=None):
        extended = self.extended if extended is None else extended
        self.socket.sendto(data, (SWITCH_ADDRESS, EXTENDED if extended else BASE))

    def send(self, block, numbers=(), collective=None, op=SUM, dtype=None, final=0,
             generation=None):
        """A contribution of integers; none of them make a barrier."""
        if collective is None:
            collective = ALLREDUCE if numbers else BARRIER
        dtype = self.dtype if dtype is None else dtype
        self.raw(header(self.job, block, self.source,
                        self.generation if generation is None else generation, len(numbers),
                        (collective, op, dtype, 0, 0) if self.extended else None, final)
                 + struct.pack('<%di' % len(numbers), *numbers))

    def receive(self, seconds=60):
        """The next packet from the switch, or None."""
        self.socket.settimeout(seconds)
        try:
            data, (address, port) = self.socket.recvfrom(65536)
        except socket.timeout:
            return None
        if address != SWITCH_ADDRESS or port not in (BASE, EXTENDED):
            raise AssertionError('a packet from %s:%d' % (address, port))
        packet = Packet(data, port == EXTENDED)
        if self.key is None or packet.collective != JOIN or not packet.flags & TAGGED:
            return packet
        if tag(self.key, b'weir reply', self.secret, data[:-16]) != data[-16:]:
            raise AssertionError('a reply with a wrong tag')
        packet.payload = packet.payload[:-16]
        if packet.status == WAITING:
            packet.payload, challenge = packet.payload[:32], packet.payload[32:]
            if challenge != self.challenge:  # the join is not taken yet
                self.challenge = challenge
                self.send_join(self.nonce)
                return self.receive(seconds)
        return packet

    def send_join(self, nonce=None):
        """Another join, or with the last one's nonce that one again."""
        if nonce is None or nonce != self.nonce:
            self.nonce = random.getrandbits(32) if nonce is None else nonce
            self.secret, self.count = struct.pack('>I', self.nonce) + os.urandom(12), 0
        flags = (0 if self.extended else 1) | (TAGGED if self.key else 0)
        said = header(self.job, self.nonce, self.source, 0, 0, (JOIN, 0, 0, flags, 0))
        if self.key:
            self.count += 1
            said = proof(self.key, self.address, self.port, said, self.challenge, self.secret, self.count)
        self.raw(said, True)

    def take_join(self, seconds=60):
        """Wait for the join to be accepted; a join or a reply may be lost, so it is repeated."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            reply = self.receive(0.2)
            if reply is None:
                self.send_join(self.nonce)
            elif reply.block == self.nonce and reply.status == OK:
                self.generation = reply.generation
                (self.window, self.elements, self.nb_sources, _, _,
                 self.timeout_ms) = struct.unpack('>HHHBBI', reply.payload[:12])
                return reply
        raise AssertionError('source %d of job %d: not joined within %g s' %
                             (self.source, self.job, seconds))


def learn(rack):
    """Let the switch see every host once, so that nothing is flooded later."""
    for host in range(rack.hosts):
        rack.ping(host, SWITCH_ADDRESS, count=1)


def join_all(peers):
    for peer in peers:
        peer.send_join()
        if peer.key:
            peer.receive(1)  # the challenge, which it quotes
    for peer in peers:
        peer.take_join()


def checksum(data):
    if len(data) % 2:
        data += b'\0'
    total = sum(struct.unpack('>%dH' % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def mac(text):
    return bytes(int(b, 16) for b in text.split(':'))


def frame(source, payload, port=EXTENDED, destination=SWITCH_ADDRESS, source_mac=None,
          destination_mac=SWITCH_MAC, source_port=40000, options=b'', fragment=0, ip_error=0,
          udp_error=0, udp_length=None, ip_length=None):
    """An Ethernet frame with IPv4 and UDP. source: an address; *_error: added to a checksum."""
    src, dst = ipaddress.ip_address(source).packed, ipaddress.ip_address(destination).packed
    length = 8 + len(payload) if udp_length is None else udp_length
    udp = struct.pack('>HHHH', source_port, port, length, 0) + payload
    value = checksum(src + dst + struct.pack('>BBH', 0, 17, length) + udp) or 0xffff
    value = (value + udp_error - 1) % 0xffff + 1  # never 0, which would mean "none"
    udp = udp[:6] + struct.pack('>H', value) + udp[8:]
    size = 20 + len(options)
    total = size + len(udp) if ip_length is None else ip_length
    head = struct.pack('>BBHHHBBH', 0x40 | size // 4, 0, total, 1, fragment, 64, 17, 0)
    head += src + dst + options
    value = (checksum(head) + ip_error) & 0xffff
    head = head[:10] + struct.pack('>H', value) + head[12:]
    source_mac = source_mac or '02:77:00:00:00:%02x' % src[3]
    made = mac(destination_mac) + mac(source_mac) + b'\x08\x00' + head + udp
    return made + bytes(max(0, 60 - len(made)))


class Raw:
    """A raw socket on a host's interface."""

    def __init__(self, rack, host, interface='eth0'):
        with rack.inside(host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self.socket.bind((interface, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.send(data)
