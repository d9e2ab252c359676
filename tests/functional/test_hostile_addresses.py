#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of others: MAC, IPv4 and ARP, of the switch and of members, from a port that they do not belong to."""
import contextlib
import os
import time

from attacker import (BROADCAST, Attacker, arp, counted, disguised, enter, from_mac, listed_ports, rack_of, tagged, victims)
from rack import SWITCH_ADDRESS, SWITCH_MAC, Rack
from tap import case, check, main
from wire import Peer, frame, join_all, learn

THIEF, BYSTANDER = 2, 3
TIMES = 6
NOBODY = '02:00:00:00:00:99'
ECHO = b'\x08\x00' + b'\0' * 30


def neighbours(rack):
    """What each host, and the switch's own kernel, takes for the MAC address of whom."""
    found = {}
    for place in rack.places():
        for line in rack.call(place, ['ip', '-4', 'neigh']).splitlines():
            words = line.split()
            if 'lladdr' in words:
                found[place, words[0]] = words[words.index('lladdr') + 1]
    return found


def lies_of(victim, whose, owner):
    """ARP for `victim`, a host: the address `whose` is at the thief's or at no host's MAC address."""
    told = [arp(1, whose, owner, whose, by=Rack.mac(THIEF)),
            arp(2, whose, Rack.mac(THIEF), Rack.address(victim), Rack.mac(victim), to=Rack.mac(victim)),
            arp(1, whose, Rack.mac(THIEF), Rack.address(victim), to=Rack.mac(victim)),
            arp(1, whose, Rack.mac(THIEF), Rack.address(victim)),
            arp(1, whose, Rack.mac(THIEF), whose), arp(2, whose, Rack.mac(THIEF), whose),  # gratuitous
            arp(2, whose, NOBODY, Rack.address(victim), Rack.mac(victim), by=Rack.mac(THIEF))]
    return told + [tagged(data, 0x8100) for data in told] + [tagged(data, 0x88a8, 0x8100) for data in told]


def insist(thief, lies):
    """For longer than the second for which a kernel keeps to what it has just learned."""
    for _ in range(TIMES):
        thief.send(*lies)
        time.sleep(1.2 / TIMES)


def true_to(rack):
    """No host has taken anybody's address for another's."""
    macs = {SWITCH_ADDRESS: SWITCH_MAC, **{rack.address(h): rack.mac(h) for h in range(rack.hosts)}}
    for (place, address), found in neighbours(rack).items():
        check(found == macs.get(address), '%s takes %s for %s', place, found, address)


def delivered(rack):
    """A frame from host 0 to host 1 arrives there."""
    data = frame(rack.address(0), os.urandom(32), 9, rack.address(1), destination_mac=rack.mac(1))
    with Attacker(rack, 0) as zero, Attacker(rack, 1) as one:
        zero.send(data)
        check(one.hears(lambda heard: heard == data, 10), 'what host 0 sends to host 1 does not arrive')


@contextlib.contextmanager
def under_attack(changes=None):
    with victims('plain', hosts=4, changes=changes) as (rack, _, _), Attacker(rack, THIEF) as thief:
        for host in (1, BYSTANDER):
            rack.ping(host, rack.address(0), count=1)
        yield rack, thief
        delivered(rack)
        true_to(rack)


@case
def of_the_switch():
    with under_attack() as (rack, thief):
        lies = [data for victim in (0, 1, BYSTANDER) for data in lies_of(victim, SWITCH_ADDRESS, SWITCH_MAC)]
        # Its MAC address within an ARP packet counts after its IPv4 address.
        with counted(rack, THIEF, spoofed_switch=TIMES * len(lies)):
            insist(thief, lies)
        check('msg="port sends an address that belongs elsewhere" port=p%d address=' % THIEF in rack.switch.output, 'not logged')
        plain = frame(SWITCH_ADDRESS, b'x' * 20, 9, Rack.address(0), source_mac=Rack.mac(THIEF), destination_mac=Rack.mac(0))
        with counted(rack, THIEF, spoofed_switch=7, bad_source_mac=7):
            thief.send(*disguised(plain))
            thief.send(*(from_mac(data, SWITCH_MAC) for data in disguised(plain)))


@case
def of_a_member():
    with under_attack() as (rack, thief):
        lies = [data for victim in (0, BYSTANDER) for data in lies_of(victim, rack.address(1), rack.mac(1))]
        lies += [arp(operation, rack.address(1), rack.mac(THIEF), SWITCH_ADDRESS, SWITCH_MAC, to=to)
                 for operation in (1, 2) for to in (SWITCH_MAC, BROADCAST)]
        # A true IPv4 address with the MAC address of a member, in the packet and in the frame.
        lies += [arp(1, rack.address(THIEF), rack.mac(1), rack.address(0), by=rack.mac(THIEF)),
                 arp(1, rack.address(THIEF), rack.mac(THIEF), rack.address(0), by=rack.mac(1))]
        with counted(rack, THIEF, spoofed_member=TIMES * len(lies)):
            insist(thief, lies)
        for to, to_mac in ((rack.address(0), rack.mac(0)), (SWITCH_ADDRESS, SWITCH_MAC)):
            plain = frame(rack.address(1), ECHO, 9, to, source_mac=rack.mac(THIEF), destination_mac=to_mac)
            with counted(rack, THIEF, spoofed_member=15):
                thief.send(*disguised(plain))
                thief.send(*(from_mac(data, rack.mac(1)) for data in disguised(plain)))
                thief.send(bytes.fromhex('ffffffffffff' + rack.mac(1).replace(':', '') + '88b5') + bytes(46))


@case
def that_the_configuration_gives_to_another_port():
    """Of a host that is in no job; and a port with a list carries no other address."""
    with under_attack(listed_ports(4)) as (rack, thief):
        lies = lies_of(0, rack.address(BYSTANDER), rack.mac(BYSTANDER)) + lies_of(0, '10.77.0.77', NOBODY)
        with counted(rack, THIEF, spoofed_member=TIMES * len(lies)):
            insist(thief, lies)
        plain = frame(rack.address(BYSTANDER), ECHO, 9, rack.address(0), source_mac=rack.mac(THIEF),
                      destination_mac=rack.mac(0))
        with counted(rack, THIEF, spoofed_member=7):
            thief.send(*disguised(plain))


@contextlib.contextmanager
def mover(way, hosts):
    """A rack, and two members of its job. Yields how the second one takes the MAC address of a host, which it returns in
    the end; it stays at its own switch port."""
    with rack_of(way, hosts) as (rack, api):
        keys = [enter(api, rank, rack.address(rank)) if way == 'proved' else None for rank in (0, 1)]
        with Peer(rack, 0, 1, 0, key=keys[0]) as victim, Peer(rack, 1, 1, 1, key=keys[1]) as thief:
            join_all([victim, thief])

            def moves(host):
                rack._ip_in(1, 'link set eth0 address ' + rack.mac(host),
                            'neigh replace %s lladdr %s dev eth0 nud permanent' % (SWITCH_ADDRESS, SWITCH_MAC))
                thief.send_join(thief.nonce)

            yield rack, thief, moves
            rack._ip_in(1, 'link set eth0 address ' + rack.mac(1))


@case
def of_a_member_by_another():
    for way in ('plain', 'proved'):
        with mover(way, 2) as (rack, _, moves):
            with counted(rack, 1, spoofed_member=TIMES):
                for _ in range(TIMES):
                    moves(0)
            rack.ping(0, SWITCH_ADDRESS, count=1)


@case
def of_a_host_in_no_job():
    """It joins, and both go on."""
    for way in ('plain', 'proved'):
        with mover(way, 4) as (rack, thief, moves):
            learn(rack)
            rack.ping(BYSTANDER, rack.address(0), count=1)
            moves(BYSTANDER)
            thief.take_join(30)
            with counted(rack, BYSTANDER):
                for host in (0, 2):
                    rack.ping(BYSTANDER, rack.address(host), count=2)


if __name__ == '__main__':
    main()
