#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is not a collective goes through the same switch: ping, TCP, what is for the switch itself."""
import socket
import struct

from control import running
from tap import case, check, main, shared, wait_for
from perf import finish, start
from rack import SWITCH_ADDRESS, SWITCH_MAC, Rack, job
from wire import Peer, Raw, frame, join_all, mac


def exact(rack, sender, receiver, size):
    sent, received = rack.transfer(sender, receiver, size)
    check(sent == received, 'TCP from host %d to %d: %s became %s', sender, receiver, sent,
          received)


@shared
def four():
    with running(hosts=4, jobs=[job(1, 4)], workers=2) as rack:
        yield rack


@case
def ping_between_all_hosts_and_to_the_switch():
    for run in [four().ping(a, b, background=True) for a in range(4)
                for b in [SWITCH_ADDRESS] + [four().address(h) for h in range(4) if h != a]]:
        run.wait(30)


@case
def tcp_through_the_switch():
    exact(four(), 0, 1, 20_000_000)
    exact(four(), 1, 0, 1_000_003)


@case
def unicast_reaches_its_host_alone():
    rack = four()
    rack.ping(0, rack.address(1), count=1)
    rack.ping(2, SWITCH_ADDRESS, count=1)
    before = rack.wire(2)['rx_packets']
    rack.ping(0, rack.address(1), count=20, interval=0.02)
    # ARP may refresh meanwhile; the twenty pings must not be flooded.
    seen = rack.wire(2)['rx_packets'] - before
    check(seen < 15, 'host 2 saw %d frames of others', seen)


@case
def everything_at_once():
    rack = four()
    runs = start(rack, 1, range(4), '-b', '64K', '-e', '256K', '-f', 2, '-n', 8, '-d', 'fp32')
    pings = [rack.ping(0, rack.address(3), count=10, background=True),
             rack.ping(2, SWITCH_ADDRESS, count=10, background=True)]
    exact(rack, 1, 2, 5_000_000)
    for ping in pings:
        ping.wait(60)
    finish(runs)


@case
def jumbo_frames():
    with running(hosts=2, mtu=9000, workers=2) as rack:
        rack.call(0, ['ping', '-n', '-c', '3', '-i', '0.2', '-W', '60', '-M', 'do', '-s', '8972', rack.address(1)])
        exact(rack, 0, 1, 40_000_000)


def arp(address, source_mac, tags=b''):
    """A gratuitous ARP reply."""
    sender = mac(source_mac) + socket.inet_aton(address)
    return (b'\xff' * 6 + mac(source_mac) + tags + b'\x08\x06' +
            struct.pack('>HHBBH', 1, 0x0800, 6, 4, 2) + sender + b'\xff' * 6 + sender[6:]).ljust(60, b'\0')


def told(rack, line):
    with open(rack.switch.log) as log:
        return line in log.read()


@case
def a_port_that_lies():
    """The kernel and the hosts never hear who claims the address of the switch, or of a source elsewhere."""
    with running(hosts=4, jobs=[job(1, 2)], changes={'log': {'level': 'notice'}}) as rack:
        liar = rack.mac(3)
        with Peer(rack, 0, 1, 0) as one, Peer(rack, 1, 1, 1) as two, Raw(rack, 3) as raw:
            join_all([one, two])
            before = rack.stats_at_rest()
            for tags in (b'', b'\x81\0\0\0', b'\x88\xa8\0\0\x81\0\0\0'):
                raw.send(arp(SWITCH_ADDRESS, liar, tags))
                raw.send(arp(rack.address(0), liar, tags))
            raw.send(frame(SWITCH_ADDRESS, b'x', 9, destination=rack.address(2), source_mac=liar,
                           destination_mac=rack.mac(2)))
            raw.send(frame(rack.address(3), b'x', 9, destination=rack.address(2), source_mac=rack.mac(1),
                           destination_mac=rack.mac(2)))
            raw.send(arp(rack.address(3), SWITCH_MAC))
            after = rack.check_packets()
            found = {k: after['drops'][k] - before['drops'][k] for k in
                     ('spoofed_switch', 'spoofed_member', 'bad_source_mac')}
            check(found == {'spoofed_switch': 4, 'spoofed_member': 4, 'bad_source_mac': 1}, '%s', found)
            check([p['spoofed'] for p in after['ports'][:4]] == [0, 0, 0, 9], '%s', after['ports'])
            wait_for(lambda: told(rack, 'msg="port sends an address that belongs elsewhere" port=p3 address='),
                     'no line in the log')
            for host in range(3):
                neighbours = rack.call(host, ['ip', 'neigh'])
                check(liar not in neighbours, 'host %d believes: %s', host, neighbours)


@case
def hosts_behind_ports():
    """Host 0's address may come from ports 0 and 1, and port 0 carries no other."""
    with Rack(hosts=3) as rack:
        ports = rack.config()['ports']
        ports[0]['hosts'] = ['10.77.0.1']
        ports[1]['hosts'] = ['10.77.0.1', '10.77.0.2/32']
        rack.changes['ports'] = ports
        rack.start_switch()
        for host in range(3):
            rack.ping(host, SWITCH_ADDRESS, count=1)
        with Raw(rack, 0) as first, Raw(rack, 1) as second, Raw(rack, 2) as third:
            before = rack.stats_at_rest()
            first.send(arp(rack.address(4), rack.mac(0)))
            second.send(arp(rack.address(0), rack.mac(1)))
            third.send(arp(rack.address(0), rack.mac(2)))
            third.send(arp(rack.address(4), rack.mac(2)))
            after = rack.check_packets()
            spoofed = [b['spoofed'] - a['spoofed'] for a, b in zip(before['ports'], after['ports'])]
            check(spoofed == [1, 0, 1, 0], '%s', spoofed)
        rack.stop_switch()


if __name__ == '__main__':
    main()
