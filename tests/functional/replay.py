# SPDX-License-Identifier: BSD-3-Clause
"""A bench for captures: a folder, the switch, weir-capture, and an independent reference.

The reference knows of a capture what docs/protocol.md says of packets, and adds in plain Python.
"""
import glob
import ipaddress
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile

from tap import check, wait_for
from wire import BASE, EXTENDED, FP32, Packet, checksum, mac

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
BUILD = os.environ.get('WEIR_BUILD') or os.path.join(ROOT, 'build')
SWITCH = os.path.join(BUILD, 'apps', 'switch', 'weir-switch')
CAPTURE = os.path.join(BUILD, 'apps', 'capture', 'weir-capture')
SWITCH_IP = '10.77.0.254'


def read_pcap(path):
    """The frames of a capture, whichever its byte order and its time stamps."""
    with open(path, 'rb') as file:
        data = file.read()
    order = '<' if data[:4] in (b'\xd4\xc3\xb2\xa1', b'\x4d\x3c\xb2\xa1') else '>'
    check(struct.unpack(order + 'I', data[:4])[0] in (0xa1b2c3d4, 0xa1b23c4d), 'no pcap: %s', path)
    check(struct.unpack(order + 'I', data[20:24])[0] == 1, 'not Ethernet')
    frames, at = [], 24
    while at + 16 <= len(data):
        size, whole = struct.unpack(order + 'II', data[at + 8:at + 16])
        if at + 16 + size > len(data):
            break  # a capture that is still being written
        check(size == whole, 'a frame of %d bytes was cut to %d', whole, size)
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


class Datagram:
    """A frame from its Ethernet header to its payload; raises when anything in it is wrong."""

    def __init__(self, frame):
        self.frame = frame
        self.to_mac, self.from_mac = frame[:6], frame[6:12]
        check(frame[12:15] == b'\x08\x00\x45', 'not IPv4 without options: %s', frame[:20].hex())
        total, = struct.unpack('>H', frame[16:18])
        ip, udp = frame[14:34], frame[34:14 + total]
        check(checksum(ip) == 0, 'IPv4 checksum of %s', ip.hex())
        # What leaves a switch is padded by the device, and net_pcap does not.
        check(ip[9] == 17 and len(frame) in (14 + total, 60), 'length of %s', frame[:60].hex())
        self.from_port, self.to_port, length, _ = struct.unpack('>HHHH', udp[:8])
        check(length == len(udp), 'UDP length %d, not %d', length, len(udp))
        check(checksum(ip[12:20] + struct.pack('>BBH', 0, 17, length) + udp) == 0, 'UDP checksum')
        self.from_ip = str(ipaddress.ip_address(ip[12:16]))
        self.to_ip = str(ipaddress.ip_address(ip[16:20]))
        self.payload = udp[8:]


def numbers(packet, dtype):
    kind = 'f' if dtype == FP32 else 'i'
    return struct.unpack('<%d%s' % (packet.count, kind), packet.payload[:4 * packet.count])


class Reference:
    """What the contributions of a capture add up to, in loops of `blocks` blocks."""

    def __init__(self, frames, dtype, window):
        self.dtype, self.blocks, self.ports = dtype, {}, {}
        for frame in frames:
            d = Datagram(frame)
            check(d.to_ip == SWITCH_IP and d.to_port in (BASE, EXTENDED), 'to %s', d.to_ip)
            packet = Packet(d.payload, d.to_port == EXTENDED)
            check(packet.status == packet.degraded == packet.sources == 0, 'no contribution')
            self.ports[packet.source] = (d.from_ip, d.from_port, d.from_mac, d.to_port)
            block = self.blocks.setdefault(packet.block, {})
            if packet.block >= window:
                check(packet.source in block or
                      len(self.blocks[packet.block - window]) >= len(self.ports),
                      'block %d before %d', packet.block, packet.block - window)
            check(block.setdefault(packet.source, packet.payload) == packet.payload,
                  'two contributions of source %d to block %d', packet.source, packet.block)
            block['count'] = packet.count
        self.sums = {}
        for number, block in self.blocks.items():
            count = block.pop('count')
            total = [0] * count
            for payload in block.values():
                kind = 'f' if dtype == FP32 else 'i'
                for i, x in enumerate(struct.unpack('<%d%s' % (count, kind), payload)):
                    total[i] += x
            if dtype != FP32:
                total = [(x + 2 ** 31) % 2 ** 32 - 2 ** 31 for x in total]
            self.sums[number] = tuple(total)

    def result(self, frame):
        """Check a result; returns (source, block), or None for a reply with a status alone."""
        d = Datagram(frame)
        packet = Packet(d.payload, d.from_port == EXTENDED)
        if packet.status != 0:
            return None
        check((d.to_ip, d.to_port, d.to_mac, d.from_port) == self.ports[packet.source],
              'a result for source %d goes to %s:%d', packet.source, d.to_ip, d.to_port)
        check(packet.sources == len(self.ports) % 256, '%d sources', packet.sources)
        check(numbers(packet, self.dtype) == self.sums[packet.block],
              'block %d: %s', packet.block, numbers(packet, self.dtype)[:4])
        return packet.source, packet.block


class Bench:
    """A folder of its own, and the processes that were started; both go at the end of `with`."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='weir-replay-')
        self.running, self.started = [], 0
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait(300)
            if process.stdin:
                process.stdin.close()
        shutil.rmtree(self.folder)
        # A process that was killed leaves EAL's folder behind.
        for left in glob.glob('/run/dpdk/*%s*' % self.name()):
            shutil.rmtree(left, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def name(self):
        """A name that no other run has; EAL's folder and sockets are called by it."""
        return os.path.basename(self.folder)[-20:].replace('_', '-')

    def spawn(self, *command, stdin=subprocess.DEVNULL):
        self.started += 1
        with open(self.path('log%d' % self.started), 'w') as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=stdin)
        process.log = self.path('log%d' % self.started)
        self.running.append(process)
        return process

    def output(self, process):
        with open(process.log, errors='replace') as file:
            return file.read()

    def capture(self, *options):
        """Run weir-capture to its end; what it says as JSON."""
        run = subprocess.run([CAPTURE, '--json'] + [str(o) for o in options],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, text=True)
        check(run.returncode == 0 and run.stderr == '', 'weir-capture: %s', run.stderr)
        return json.loads(run.stdout)

    def configure(self, base, **changes):
        """A ready configuration with other values, under this run's name."""
        with open(os.path.join(ROOT, 'configs', base)) as file:
            config = json.load(file)
        config['switch']['name'] = self.name()
        config['workers'] = dict(config.get('workers', {}), idle='sleep')
        config['eal'] = ['--no-huge', '--no-pci', '--no-telemetry', '--no-shconf']
        config.update(changes)
        with open(self.path('switch.json'), 'w') as file:
            json.dump(config, file)
        return self.path('switch.json')

    def start_switch(self, base, **changes):
        config = self.configure(base, **changes)
        self.switch = self.spawn(SWITCH, '-c', config, '--stats-file', self.path('stats.json'))
        self.wait(lambda: 'weir-switch: ready' in self.output(self.switch), 'the switch',
                  self.switch)

    def wait(self, done, what, process):
        def holds():
            check(process.poll() is None, '%s ended:\n%s', what, self.output(process))
            return done()
        wait_for(holds, what)

    def stats(self):
        """The switch's counters, fresh."""
        path = self.path('stats.json')
        if os.path.exists(path):
            os.unlink(path)
        self.switch.send_signal(signal.SIGUSR1)
        self.wait(lambda: os.path.exists(path), 'statistics', self.switch)
        with open(path) as file:
            return json.load(file)

    def received(self, frames):
        """Wait until the switch has received so many frames and done with them."""
        def done():
            now = self.stats()
            return now['received'] >= frames and now['in_flight'] == 0
        self.wait(done, '%d frames' % frames, self.switch)

    def stop_switch(self):
        self.switch.send_signal(signal.SIGTERM)
        self.switch.wait(300)
        check('weir-switch: stopped, everything returned' in self.output(self.switch), '%s',
              self.output(self.switch))
        with open(self.path('stats.json')) as file:
            stats = json.load(file)
        check(stats['balanced'], 'packet accounting: %s', stats)
        return stats


def pcap_port(number=0, **arguments):
    """A port of the configuration on net_pcap."""
    return {'name': 'p%d' % number, 'device': ','.join(
        ['net_pcap%d' % number] + ['%s=%s' % item for item in arguments.items()])}


def job(sources, elements, block_bits=8, window=64, dtype='int32', number=1):
    return {'id': number, 'name': 'job', 'generation': 1, 'block_bits': block_bits,
            'window': window, 'elements': elements, 'type': dtype,
            'sources': [{'id': s, 'address': '10.77.0.%d' % (s + 1)} for s in range(sources)]}


class Testpmd:
    """dpdk-testpmd between a capture and the switch's memif."""

    def __init__(self, bench, socket, *pcap):
        self.bench = bench
        self.process = bench.spawn(
            'nice', '-n', '19', 'dpdk-testpmd', '--lcores=0,1', '--no-huge', '-m', '256',
            '--no-pci', '--no-telemetry', '--no-shconf', '--file-prefix=%s-pmd' % bench.name(),
            '--vdev=net_pcap0,' + ','.join(pcap),
            '--vdev=net_memif0,role=client,id=0,socket=%s,socket-abstract=no' % socket,
            # Without --no-flush-rx it throws away what a port has when forwarding starts.
            '--', '-i', '--no-flush-rx', '--total-num-mbufs=4096',
            stdin=subprocess.PIPE)
        # It forwards once it is told to, and not before the switch has taken the link.
        bench.wait(self.has_link, 'the link', self.process)
        with open(os.path.join(ROOT, 'configs', 'testpmd', 'retry.cmds')) as file:
            for line in file.read().splitlines():
                self.says(line)

    def says(self, line):
        self.process.stdin.write(line.encode() + b'\n')
        self.process.stdin.flush()

    def has_link(self):
        self.says('show port info 1')
        return 'Link status: up' in self.bench.output(self.process)

    def written(self):
        """How many frames it has given its capture."""
        self.says('show port stats 0')
        return int((re.findall(r'TX-packets: (\d+)', self.bench.output(self.process)) or [0])[-1])

    def stop(self):
        self.says('quit')
        check(self.process.wait(300) == 0, '%s', self.bench.output(self.process))


__all__ = ['BUILD', 'Bench', 'CAPTURE', 'Datagram', 'ROOT', 'Reference', 'SWITCH', 'Testpmd', 'job', 'mac',
           'pcap_port', 'read_pcap']
