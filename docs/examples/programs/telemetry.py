#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sensors and a collector of the program telemetry, over plain sockets.

    telemetry.py sensor SWITCH GROUP SENSOR VALUE...
    telemetry.py collector SWITCH [--count SUMMARIES]

The collector prints a line for each summary. Its IPv4 address is the program's setting `collector`."""
import argparse
import socket
import struct
import time

MAGIC, VERSION = 0x5754, 1
READING, SUBSCRIBE, SUMMARY = 1, 2, 3
PACKET = struct.Struct('!HBBHHIi')  # magic, version, type, group, reserved, sensor, value
SUMMARY_PACKET = struct.Struct('!HBBHHIIqiiII16I')
SUBSCRIBE_S = 5


def sensor(sock, group, number, values):
    for value in values:
        sock.send(PACKET.pack(MAGIC, VERSION, READING, group, 0, number, value))


def collect(sock, count):
    """Yield the summaries as they come."""
    again = 0
    sock.settimeout(0.5)
    while count != 0:
        if time.monotonic() >= again:
            sock.send(PACKET.pack(MAGIC, VERSION, SUBSCRIBE, 0, 0, 0, 0))
            again = time.monotonic() + SUBSCRIBE_S
        try:
            packet = sock.recv(2048)
        except (TimeoutError, ConnectionRefusedError):  # the program is not loaded yet
            continue
        if len(packet) == SUMMARY_PACKET.size and packet[:4] == struct.pack('!HBB', MAGIC, VERSION, SUMMARY):
            yield SUMMARY_PACKET.unpack(packet)[3:]
            count -= 1


def main():
    parser = argparse.ArgumentParser(description='Sensors and a collector of the program telemetry.')
    parser.add_argument('--port', type=int, default=9020, help='the UDP port of the program')
    commands = parser.add_subparsers(dest='command', required=True)
    one = commands.add_parser('sensor', help='send readings')
    one.add_argument('switch')
    one.add_argument('group', type=int)
    one.add_argument('sensor', type=int)
    one.add_argument('value', type=int, nargs='+')
    one = commands.add_parser('collector', help='print summaries')
    one.add_argument('switch')
    one.add_argument('--count', type=int, default=-1, help='end after so many summaries')
    options = parser.parse_args()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((options.switch, options.port))
        if options.command == 'sensor':
            sensor(sock, options.group, options.sensor, options.value)
            return
        for group, _, window, n, total, least, most, of_least, of_most, *buckets in collect(sock, options.count):
            print('group %d window %d: %d readings, sum %d, min %d of sensor %d, max %d of sensor %d, histogram %s' % (
                group, window, n, total, least, of_least, most, of_most, ' '.join(map(str, buckets))), flush=True)


if __name__ == '__main__':
    main()
