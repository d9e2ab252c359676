#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the switch would do with a frame, and the graph of its programs: the API, weirctl, and docs/architecture.md."""
import contextlib
import os
import re
import struct

from control import Control
from ctl import ctl, good, says
from rack import Rack, job
from tap import case, check, main

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'architecture.md')
BLOCK = re.compile(r'<!-- COLUMNS=120 weirctl program graph -->\n```\n(.*?)```\n', re.S)


@contextlib.contextmanager
def switch(jobs=None):
    with Rack(hosts=2, jobs=[job(1, 2)] if jobs is None else jobs) as rack:
        api = Control(rack)
        rack.start_switch()
        yield rack, api
        rack.stop_switch()


def frame(destination, source, ether_type=0x88b5, payload=bytes(46)):
    mac = lambda text: bytes.fromhex(text.replace(':', ''))
    return mac(destination) + mac(source) + struct.pack('>H', ether_type) + payload


def udp(to, source, ip_from, port, payload):
    """To the switch's address. Without a UDP checksum."""
    datagram = struct.pack('>HHHH', 4711, port, 8 + len(payload), 0) + payload
    ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0, ip_from, bytes((10, 77, 0, 254)))
    total = sum(struct.unpack('>10H', ip))
    total = (total & 0xffff) + (total >> 16)
    ip = ip[:10] + struct.pack('>H', ~(total + (total >> 16)) & 0xffff) + ip[12:]
    return frame(to, source, 0x800, ip + datagram)


@case
def a_simulation_says_what_would_happen_and_does_nothing():
    with switch() as (rack, api):
        mac = api.get('/v1/status')['mac']
        unknown = frame('02:00:00:00:77:01', '02:00:00:00:77:02')
        packet = udp(mac, rack.mac(0), bytes((10, 77, 0, 1)), 12001, bytes((99,)) + bytes(31))
        before = api.get('/v1/status')['packets']['received']
        for bytes_, port, program, end, text in (
                (unknown, 'p0', 'forward', 'send', 'to all other ports: .*p1'),
                (packet, 'p0', 'collective', 'drop:unknown_job', 'no job has this id'),
                (frame(mac, rack.mac(1), 0x806), 'p1', 'exception', 'send', 'to the kernel'),
                (b'', None, None, 'drop:malformed', ''), (b'\0', None, None, 'drop:malformed', ''),
                (bytes(9600), 'p1', 'forward', 'send', 'to all other ports')):
            said = api.do('POST', '/v1/simulate', dict({'frame': bytes_.hex()}, **({'port': port} if port else {})), 200)
            check((said['program'], said['end']) == (program, end) and re.search(text, said['text']), '%s', said)
            check((said['match'] is None) == (program is None) and said['receive'].startswith('worker 0 polls port'), '%s', said)
        for wrong in ('0', '0g', 'zz', '00 11', '00' * 9729):
            api.do('POST', '/v1/simulate', {'frame': wrong}, 400, 'out_of_range')
        api.do('POST', '/v1/simulate', {'frame': '00', 'port': 'p7'}, 400, 'out_of_range')
        api.do('POST', '/v1/simulate', {}, 400, 'missing_key')
        after = api.get('/v1/status')['packets']['received']
        check(after - before < 20, '%s packets came', after - before)  # what hosts' kernels send
        check(api.get('/v1/counters')['drops'].get('unknown_job', 0) == 0, 'a simulated packet was counted')


def captures(folder, frames):
    """The same frames as pcap of both byte orders, and as pcapng with other blocks between."""
    names = []
    for order in '<>':
        names.append(os.path.join(folder, 'capture%d.pcap' % len(names)))
        with open(names[-1], 'wb') as file:
            file.write(struct.pack(order + 'IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            for one in frames:
                file.write(struct.pack(order + 'IIII', 0, 0, len(one), len(one)) + one)
        names.append(os.path.join(folder, 'capture%d.pcapng' % len(names)))
        with open(names[-1], 'wb') as file:
            def block(kind, body):
                body += bytes(-len(body) % 4)
                size = struct.pack(order + 'I', 12 + len(body))
                file.write(struct.pack(order + 'I', kind) + size + body + size)
            block(0x0a0d0d0a, struct.pack(order + 'IHHq', 0x1a2b3c4d, 1, 0, -1))
            block(1, struct.pack(order + 'HHI', 1, 0, 65535))
            for one in frames:
                block(5, bytes(12))
                block(6, struct.pack(order + 'IIIII', 0, 0, 0, len(one), len(one)) + one)
    return names


@case
def weirctl_reads_digits_and_captures():
    with switch() as (rack, api):
        known = frame('02:00:00:00:77:01', '02:00:00:00:77:02')
        group = frame('01:80:c2:00:00:00', '02:00:00:00:77:03', payload=bytes(47))
        address = 'unix:' + api.path
        says(ctl(address, 'simulate', known.hex()), 0, '^program  forward$', '^match    every packet$', '^end      send: to all',
             '^flood +the destination is not known$')
        for name in captures(rack.folder, [known, group]):
            says(ctl(address, 'simulate', name), 0, '^end      send: to all')
            says(ctl(address, 'simulate', name + ':2', '--port', 'p1'), 0, 'polls port p1', '^end      drop:reserved_mac: ')
            says(ctl(address, 'simulate', name + ':3'), 2, 'there is no frame 3')
            says(ctl(address, 'simulate', name + ':x'), 2, 'number of a frame')
            with open(name, 'rb') as file:
                whole = file.read()
            for length in range(0, len(whole) - 8, 7):
                with open(os.path.join(rack.folder, 'cut'), 'wb') as file:
                    file.write(whole[:length])
                check(ctl(address, 'simulate', file.name + ':2').status == 2, '%d bytes of %s', length, name)
        says(ctl(address, 'simulate', '00g'), 2, '00g: No such file')
        says(ctl(address, 'simulate', '000'), 1, 'pairs of hexadecimal digits')
        says(ctl(address, 'simulate', '00', '--port', 'p9'), 1, 'no port is called "p9"')


@case
def the_graph_is_that_of_the_documentation():
    with switch(jobs=[]) as (_, api):
        graph = api.get('/v1/graph')['programs']
        check([(p['name'], p['built_in'], p['phase']) for p in graph] ==
              [(name, True, 'running') for name in ('collective', 'exception', 'forward')], '%s', graph)
        address = 'unix:' + api.path
        with open(DOCS) as file:
            written = BLOCK.search(file.read())
        drawn = good(ctl(address, 'program', 'graph', columns=120))
        check(written and written.group(1) == drawn,
              'docs/architecture.md has another graph: run the command that it names. The switch has:\n%s', drawn)
        dot = good(ctl(address, 'program', 'graph', '--dot'))
        for name in ('"collective/parse" -> "collective/job_entry"', '"forward/flood" -> "forward/send"'):
            check(name in dot, '%s is not in\n%s', name, dot)


main()
