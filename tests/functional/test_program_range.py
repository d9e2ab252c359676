#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs telemetry, heavy_hitters and experts in a running switch, with the clients of docs/examples/programs."""
import contextlib
import json
import os
import re
import shutil
import socket
import struct

from control import Control
from rack import ROOT, SWITCH_ADDRESS, Rack
from tap import case, check, main, shared, wait_for

HOSTS, EXPERTS = 4, 3
COLLECTOR, OWNER = 0, 0  # hosts; expert e is on host 1 + e
FILES = ('telemetry.so', 'heavy_hitters.so', 'experts.so')


@shared
def switch():
    """A rack and its API; the switch has loaded telemetry by its configuration."""
    with Rack(hosts=HOSTS, workers=2) as rack:
        folder = os.path.join(rack.folder, 'programs')
        os.mkdir(folder, 0o755)
        for name in FILES:
            shutil.copy(os.path.join(os.environ['WEIR_BUILD'], 'ppe', name), folder)
            os.chmod(os.path.join(folder, name), 0o644)
        rack.changes = {'program_directory': folder, 'programs': [
            {'file': 'telemetry.so', 'settings': {'collector': rack.address(COLLECTOR), 'window_ms': 100, 'width': 10}}]}
        api = Control(rack)
        rack.start_switch()
        yield rack, api
        rack.check_packets()
        rack.stop_switch()


@contextlib.contextmanager
def loaded(name, **settings):
    rack, api = switch()
    made = api.do('POST', '/v1/programs', {'file': name + '.so', 'settings': settings}, 201)
    check(made['phase'] == 'running', '%s', made)
    yield rack, api
    api.do('DELETE', '/v1/programs/' + name, status=(200, 202))
    wait_for(lambda: name not in [p['name'] for p in api.get('/v1/programs')['programs']], '%s does not go', name)


def client(rack, host, name, *words):
    return rack.spawn(host, [os.path.join(ROOT, 'docs', 'examples', 'programs', name + '.py'), *map(str, words)], name)


def count(api, name, key):
    return api.get('/v1/programs/' + name)['counters'][key]


def port_bytes(rack):
    """What the owner's port has received and sent."""
    port = rack.stats_at_rest()['ports'][OWNER]
    return port['rx_bytes'], sum(port['tx_bytes'].values())


def reading(rack, host, group):
    """The frame of a reading, in hex; its UDP checksum is not computed."""
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 44, 0, 0, 64, 17, 0, socket.inet_aton(rack.address(host)),
                     socket.inet_aton(SWITCH_ADDRESS))
    total = sum(struct.unpack('!10H', ip))
    ip = ip[:10] + struct.pack('!H', ~(total + (total >> 16)) & 0xffff) + ip[12:]
    mac = [bytes.fromhex(m.replace(':', '')) for m in (rack.switch_mac, rack.mac(host))]
    return (b''.join(mac) + b'\x08\0' + ip + struct.pack('!4H', 5000, 9020, 24, 0) +
            struct.pack('!HBBHHIi', 0x5754, 1, 1, group, 0, 1, 1)).hex()


@case
def a_simulation_says_what_would_happen():
    rack, api = switch()
    for group, end in ((3, r'added to group 3 at worker 1'), (64, r'its group is out of range')):
        said = rack.call('sw', [rack.program(('ctl', 'weirctl')), '--switch', 'unix:' + api.path, 'simulate', reading(rack, 1, group)])
        check('telemetry' in said and re.search(end, said), '%s', said)
    check(count(api, 'telemetry', 'telemetry_bad') == 0, 'the simulation counts')


@case
def sensors_and_a_collector():
    rack, api = switch()
    collector = client(rack, COLLECTOR, 'telemetry', 'collector', SWITCH_ADDRESS)
    told, values = [], {2: [], 5: []}

    def summaries():
        """The readings of all summaries so far, by group."""
        told[:] = [list(map(int, re.findall(r'-?\d+', line))) for line in collector.output.splitlines()]
        return {group: sum(row[2] for row in told if row[0] == group) for group in values}

    # Readings that come before the subscription have no summary.
    while not any(row[0] == 7 for row in told):
        client(rack, 1, 'telemetry', 'sensor', SWITCH_ADDRESS, 7, 1, 0).wait(60)
        summaries()
    for sensor, group in enumerate((2, 5, 5)):
        new = [(sensor + 1) * 37 * i % 200 - 20 for i in range(50)]
        values[group] += new
        client(rack, 1 + sensor, 'telemetry', 'sensor', SWITCH_ADDRESS, group, sensor, *new).wait(60)
    wait_for(lambda: summaries() == {group: len(given) for group, given in values.items()},
             'summaries: %s', lambda: told)
    for group, given in values.items():
        rows = [row for row in told if row[0] == group]
        check(sum(row[3] for row in rows) == sum(given), 'group %d: sum of %s', group, rows)
        check(min(row[4] for row in rows) == min(given) and max(row[6] for row in rows) == max(given), '%s', rows)
        buckets = [sum(row[8 + b] for row in rows) for b in range(16)]
        expected = [sum(min(max(v, 0) // 10, 15) == b for v in given) for b in range(16)]
        check(buckets == expected, 'group %d: %s, not %s', group, buckets, expected)
    collector.kill()
    check(count(api, 'telemetry', 'telemetry_bad') == 0, 'bad packets')


@case
def the_largest_flows():
    with loaded('heavy_hitters', k=5, window_ms=500) as (rack, api):
        sizes = {1: 400, 2: 800, 3: 1200}  # by receiver
        with rack.inside(0), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((rack.address(0), 7000))

            def send():
                for receiver, size in sizes.items():
                    for _ in range(20):
                        sender.sendto(bytes(size), (rack.address(receiver), 7000 + receiver))

            show = [rack.program(('ctl', 'weirctl')), '--switch', 'unix:' + api.path, 'program', 'show', 'heavy_hitters']

            def shown():
                send()
                table = json.loads(rack.call('sw', show + ['--json']))['tables'][0]
                rows = [row for row in table['rows'] if row['protocol'] == 17]
                return [(r['source'], r['destination'], r['from'], r['to']) for r in rows] == [
                    (rack.address(0), rack.address(h), 7000, 7000 + h) for h in (3, 2, 1)] and all(
                        r['bytes'] == r['packets'] * (42 + sizes[int(r['destination'][-1]) - 1]) for r in rows)
            wait_for(shown, 'the flows are not shown: %s', lambda: api.get('/v1/programs/heavy_hitters')['tables'])
            # As people see it.
            wait_for(lambda: (send(), re.search(r'(?m)^10\.77\.0\.1 +10\.77\.0\.4 +17 +7000 +7003 +\d+ +\d+$', rack.call('sw', show)))[1],
                     'not printed: %s', lambda: rack.call('sw', show))
        rack.ping(0, rack.address(1))


@case
def settings_that_need_too_much_memory():
    _, api = switch()
    told = api.do('POST', '/v1/programs', {'file': 'experts.so', 'settings': {'elements': 2048}}, 400, 'out_of_range')
    check('Message too long' in str(told), 'outputs do not fit a packet: %s', told)
    for name, settings in (('experts', {'owners': 1024, 'window': 1024, 'elements': 256, 'k': 8}),
                           ('heavy_hitters', {'rows': 8, 'columns': 1 << 20, 'k': 256})):
        api.do('POST', '/v1/programs', {'file': name + '.so', 'settings': settings}, 507, 'no_memory')
        check(name not in [p['name'] for p in api.get('/v1/programs')['programs']], '%s is loaded', name)


@case
def tokens_and_experts():
    with loaded('experts', elements=128, k=3) as (rack, api):
        experts = [client(rack, 1 + e, 'experts', 'expert', SWITCH_ADDRESS, e) for e in range(EXPERTS)]
        for expert in experts:
            expert.wait_line('registered', 60)
        before = port_bytes(rack)
        said = client(rack, OWNER, 'experts', 'owner', SWITCH_ADDRESS, '--experts', EXPERTS, '--elements', 128, '--tokens', 100,
                      '--compare', ','.join(rack.address(1 + e) for e in range(EXPERTS))).wait(120)
        print('# ' + said.replace('\n', '\n# '))
        rows = [list(map(float, re.findall(r'\d+(?:\.\d+)?', line))) for line in said.splitlines()]
        check(len(rows) == 2 and all(row[:2] == [100, 0] for row in rows), '%s', said)
        for way in (2, 3):
            check(rows[0][way] < 0.6 * rows[1][way], 'the switch does not save half of the bytes: %s', said)
        for way, bytes_ in enumerate(b - a for a, b in zip(before, port_bytes(rack))):
            own = 100 * (rows[0][2 + way] + rows[1][2 + way])
            check(abs(bytes_ - own) < 0.05 * own, "the switch's port counted %d bytes, the owner %d", bytes_, own)
        check(count(api, 'experts', 'experts_tokens') == 100, '%s', api.get('/v1/programs/experts')['counters'])
        # An expert that ends: tokens time out, and the owner learns which output is missing.
        experts[2].kill()
        failed = client(rack, OWNER, 'experts', 'owner', SWITCH_ADDRESS, '--experts', EXPERTS, '--elements', 128, '--k', 3,
                        '--tokens', 1).wait(60, status=1)
        check(re.search(r'token 0: no output \[\d\]', failed), '%s', failed)
        check(count(api, 'experts', 'experts_timeouts') == 1, 'timeouts')
        for expert in experts:
            expert.kill()


if __name__ == '__main__':
    main()
