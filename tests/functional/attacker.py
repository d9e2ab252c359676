# SPDX-License-Identifier: BSD-3-Clause
"""Attackers: hosts of a rack that are in no job, with raw sockets on links of their own; and their victims.

    with victims('proved') as (rack, api, at), Attacker(rack, 2) as attacker, counted(rack, 2, spoofed_switch=1):
        attacker.send(result(0, at.ports[0], at.block, at.generation))
"""
import base64
import contextlib
import ipaddress
import os
import random
import signal
import socket
import struct
import time
import types

import control
from loops import Loops
from rack import SWITCH_ADDRESS, Rack, job
from tap import check, wait_for
from wire import ALLREDUCE, EXTENDED, INT32, JOIN, OK, SUM, TAGGED, frame, header, learn, mac

ELEMENTS = 320  # of a block: room for tags
BROADCAST = 'ff:ff:ff:ff:ff:ff'
PACKET_OUTGOING = 4
EVERYTHING = 3  # ETH_P_ALL


class Attacker:
    """A raw socket of a host; or, with place 'sw', on the switch's end of a link, past the switch."""

    def __init__(self, rack, host, place=None):
        with rack.inside(host if place is None else place):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
            self.socket.bind(('eth0' if place is None else 'p%d' % host, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *frames):
        for data in frames:
            self.socket.send(data)

    def hears(self, wanted, seconds, sent=False):
        """The next frame that comes in (or is sent by its host) and is wanted, or None."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                data, place = self.socket.recvfrom(65536)
            except socket.timeout:
                return None
            if (place[2] == PACKET_OUTGOING) == sent and wanted(data):
                return data
        return None

    def sweep(self, ports, data, arrived):
        """Send a UDP frame to all of these ports, no faster than the switch's ring takes them. arrived: returns how many
        have come there."""
        for number, port in enumerate(ports):
            self.socket.send(data[:36] + struct.pack('>H', port) + data[38:40] + b'\0\0' + data[42:])
            if number % 512 == 0:
                wait_for(lambda sent=number: arrived() + 256 >= sent, 'of %d frames %d arrive', number, arrived)


def tagged(data, *types):
    """The frame behind priority tags (VLAN 0) of these types, which a host's kernel removes."""
    return data[:12] + b''.join(struct.pack('>HH', kind, 0) for kind in types) + data[12:]


def from_mac(data, address):
    return data[:6] + mac(address) + data[12:]


def to_mac(data, address):
    return mac(address) + data[6:]


def arp(operation, sender, sender_mac, target, target_mac='00:00:00:00:00:00', to=BROADCAST, by=None):
    """An ARP frame; operation: 1 a request, 2 a reply. by: the Ethernet source, if another than sender_mac."""
    made = mac(to) + mac(by or sender_mac) + struct.pack('>HHHBBH', 0x0806, 1, 0x0800, 6, 4, operation)
    made += mac(sender_mac) + ipaddress.ip_address(sender).packed
    made += mac(target_mac) + ipaddress.ip_address(target).packed
    return made + bytes(60 - len(made))


def is_answer(data):
    """Is it a packet from the switch's aggregation port?"""
    return len(data) >= 58 and data[12:14] == b'\x08\0' and data[23] == 17 and \
        data[34:36] == EXTENDED.to_bytes(2, 'big')


def is_join(data):
    return data[12:14] == b'\x08\0' and data[23] == 17 and data[36:38] == EXTENDED.to_bytes(2, 'big') and \
        data[54] >> 4 == JOIN


def contribution(source, block, generation, by, port=40000, flags=0, numbers=(7,) * ELEMENTS, final=0):
    """In the name of a source of job 1, from the MAC address of host `by`."""
    said = header(1, block, source, generation, len(numbers), (ALLREDUCE, SUM, INT32, flags, 0), final)
    return frame(Rack.address(source), said + struct.pack('<%di' % len(numbers), *numbers), source_mac=Rack.mac(by),
                 source_port=port)


def join(source, by, port=40000, nonce=None, proof=b''):
    """In the name of a source. proof: 52 bytes, if it claims to have one."""
    said = header(1, random.getrandbits(32) if nonce is None else nonce, source, 0, 0,
                  (JOIN, 0, 0, TAGGED if proof else 0, 0))
    return frame(Rack.address(source), said + proof, source_mac=Rack.mac(by), source_port=port)


def result(victim, port, block, generation, by=2, flags=0, to=None):
    """A sum that the switch has not made, from its address. to: the job's multicast group."""
    said = header(1, block, victim, generation, ELEMENTS, (ALLREDUCE, SUM, INT32, flags, OK), sources=2)
    payload = said + struct.pack('<i', 666) * ELEMENTS + (os.urandom(16) if flags & TAGGED else b'')
    group = to and '01:00:5e:%02x:%02x:%02x' % tuple(ipaddress.ip_address(to).packed[1:])
    return frame(SWITCH_ADDRESS, payload, EXTENDED if to else port, to or Rack.address(victim),
                 source_mac=Rack.mac(by), destination_mac=group or Rack.mac(victim), source_port=EXTENDED)


def disguised(data):
    """A frame, and what else hosts take it for."""
    return [data, tagged(data, 0x8100), tagged(data, 0x88a8), tagged(data, 0x8100, 0x8100),
            tagged(data, 0x88a8, 0x8100, 0x8100, 0x8100), to_mac(data, BROADCAST), tagged(to_mac(data, BROADCAST), 0x8100)]


# -- victims

@contextlib.contextmanager
def rack_of(way, hosts=3, size=2, changes=None, **settings):
    """A rack with the job "ring", id 1, and its switch. way: `plain`, which has joins by addresses; or a job of the control
    API, `proved` or `authenticated`. Yields rack and API."""
    settings = dict({'window': 64, 'elements': ELEMENTS, 'type': 'int32'}, **settings)
    jobs = [job(1, size, name='ring', **settings)] if way == 'plain' else []
    with control.switch(hosts=hosts, jobs=jobs, changes=changes) as (rack, api):
        if way != 'plain':
            api.create('ring', size, **settings, id=1, authenticate=way == 'authenticated')
        learn(rack)
        yield rack, api
        rack.check_packets()


def enter(api, rank, address):
    """Become a member of the job "ring" of the control API. Returns the key."""
    answer = api.do('POST', '/v1/jobs/ring/members', {'rank': rank, 'size': 2, 'address': address})
    return base64.b64decode(answer['key'])


def listed_ports(hosts):
    """Changes of a rack's configuration: each port lists its host."""
    shape = Rack(hosts=hosts)
    return {'ports': [{'name': 'p%d' % p, 'device': shape.device(p), 'hosts': [shape.address(p)]}
                      for p in range(hosts)]}


def loops_of(way, rack, api, hosts=2, **options):
    options = dict({'timeout_ms': 200000}, **options)
    if way == 'plain':
        return Loops(rack, hosts, **options)
    return Loops(rack, hosts, control='unix:' + api.path, name='ring', **dict({'sources': 2}, **options))


@contextlib.contextmanager
def held(rack, loops):
    """Host 1 stands still. Yields the generation, the block that host 0 waits for, and the hosts' UDP ports."""
    def complete():
        return rack.read_stats()['jobs'][0]['blocks_complete']

    loops.runs[1].signal(signal.SIGSTOP)
    try:
        block = wait_for(lambda: (lambda before: before == complete() and before)(complete()), 'host 0 does not wait')
        yield types.SimpleNamespace(
            block=block, generation=int(loops.runs[0].output.split('generation: ')[1].split()[0]),
            ports=[udp_port(loops.runs[host].pid, rack.address(host)) for host in (0, 1)])
    finally:
        loops.runs[1].signal(signal.SIGCONT)


@contextlib.contextmanager
def victims(way, hosts=3, changes=None, **settings):
    """Hosts 0 and 1 are in the middle of a sum, which waits for host 1 meanwhile. In the end all sums are right, and
    nothing has disturbed them."""
    with rack_of(way, hosts, 2, changes, **settings) as (rack, api):
        loops = loops_of(way, rack, api, steps=100)
        loops.reach(20)
        with held(rack, loops) as at:
            yield rack, api, at
        undisturbed(loops)


def undisturbed(loops):
    for end in loops.finish():
        check(not end['failures'] and len(end['generations']) == 1, '%s', end)


def udp_port(pid, address):
    """Of a process's only UDP socket with this address."""
    text = '%08X' % struct.unpack('<I', ipaddress.ip_address(address).packed)[0]
    with open('/proc/%d/net/udp' % pid) as file:
        return next(int(row.split()[1].split(':')[1], 16) for row in file if row.split()[1].startswith(text))


def drops_of(rack):
    return rack.read_stats()['drops']


@contextlib.contextmanager
def counted(rack, port, **reasons):
    """What comes from the port meanwhile is dropped: so many frames for these reasons and, if they are about
    addresses, as spoofed ones of this port."""
    spoofed = sum(n for reason, n in reasons.items() if reason in ('spoofed_switch', 'spoofed_member', 'bad_source_mac'))

    def now():
        stats = rack.read_stats()
        return {**{reason: stats['drops'].get(reason, 0) for reason in reasons},
                'of the port': stats['ports'][port].get('spoofed', 0)}

    def are_there():
        found = {key: after - before[key] for key, after in now().items()}
        return all(found[key] >= n for key, n in wanted.items()) and found

    before, wanted = now(), {**reasons, 'of the port': spoofed}
    yield
    found = wait_for(are_there, 'of %s, %s: %s', wanted, before, now)
    check(found == wanted, 'counted %s, not %s', found, wanted)
