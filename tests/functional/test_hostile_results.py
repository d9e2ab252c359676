#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Results that the switch has not made, and contributions that a host has not made, sent by another port."""
from attacker import (Attacker, contribution, counted, disguised, drops_of, from_mac, held, is_answer,
                      loops_of, rack_of, result, tagged, victims)
from rack import SWITCH_MAC, Rack
from tap import case, check, main
from wire import EXTENDED, TAGGED, Packet

THIEF = 2
PORTS = range(1024, 65536)
GROUP = '239.77.0.1'


def asks(thief, generation, flags):
    """The generation, if the switch tells it to who contributes in another host's name; otherwise None."""
    for source in (0, 1):
        for port in (40000, 40001):
            thief.send(contribution(source, 0, generation ^ 0x5555, THIEF, port, flags))
    answer = thief.hears(is_answer, 0.3)
    return None if answer is None else Packet(answer[42:], True).generation


def forge(way):
    flags = TAGGED if way == 'authenticated' else 0
    with victims(way) as (rack, _, at), Attacker(rack, THIEF) as thief:
        told = asks(thief, at.generation, flags)
        forged = result(0, at.ports[0], at.block, at.generation, THIEF, flags)
        with counted(rack, THIEF, spoofed_switch=14, bad_source_mac=7, spoofed_member=7, vlan_tag=1):
            for data in disguised(forged):
                thief.send(data, from_mac(data, '02:00:00:00:00:99'), from_mac(data, SWITCH_MAC),
                           from_mac(data, Rack.mac(1)))
            thief.send(tagged(forged, *[0x8100] * 20))
        with counted(rack, THIEF, spoofed_member=2):
            for by in (1, THIEF):
                thief.send(contribution(1, at.block, at.generation, by, at.ports[1], flags))
        before = drops_of(rack)['spoofed_switch']
        with counted(rack, THIEF, spoofed_switch=len(PORTS)):
            thief.sweep(PORTS, forged, lambda: drops_of(rack)['spoofed_switch'] - before)
    check(told is None, 'the switch has told the generation, %s', told)


@case
def of_a_plain_job():
    forge('plain')


@case
def of_a_plain_job_with_proved_joins():
    forge('proved')


@case
def of_an_authenticated_job():
    forge('authenticated')


@case
def to_a_multicast_group():
    with victims('plain', results=GROUP) as (rack, _, at), Attacker(rack, THIEF) as thief:
        with counted(rack, THIEF, spoofed_switch=42):
            for data in [data for block in range(at.block, at.block + 3)
                         for data in disguised(result(0, EXTENDED, block, at.generation, THIEF, to=GROUP))]:
                thief.send(data, from_mac(data, '02:00:00:00:00:99'))


@case
def past_the_switch_they_need_a_tag():
    """As from a host that shares the victim's port. In a job without tags these are taken."""
    with rack_of('authenticated') as (rack, api), Attacker(rack, 0, 'sw') as thief:
        loops = loops_of('authenticated', rack, api, steps=40)
        loops.reach(20)
        with held(rack, loops) as at:
            for flags in (0, TAGGED):
                thief.send(*disguised(result(0, at.ports[0], at.block, at.generation, THIEF, flags)))
        end = loops.finish()[0]
        # A few come when the victim has its result and reads no more; of each kind of flags, some are counted.
        check(end['forged'] > 7 and not end['failures'], '%s', end)


if __name__ == '__main__':
    main()
