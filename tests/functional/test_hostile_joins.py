#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Joins in another host's name: made up, before it or after it, and its own, captured and sent again."""
import os

from attacker import (ELEMENTS, Attacker, contribution, counted, enter, from_mac, held, is_answer, is_join, join,
                      listed_ports, loops_of, rack_of, undisturbed, victims)
from tap import case, check, main, wait_for
from wire import JOIN, OK, REFUSED, TAGGED, WAITING, Packet, Peer, frame, header, proof

HOST, THIEF, COUNT = 1, 2, 700  # elements of a step (loops.py)
TIMES = 10


def guesses(source):
    """A join without a proof, with zeros, and with one that looks like a proof."""
    return [join(source, THIEF, proof=proof) for proof in (b'', bytes(52), os.urandom(52))]


def takes_part(thief, source):
    """If the switch accepts the thief as the source: contribute to a window of blocks, as a source would."""
    def accepted(data):
        return is_answer(data) and data[54] >> 4 == JOIN and data[57] == OK

    answer = thief.hears(accepted, 0.05)
    if answer is not None:
        generation = Packet(answer[42:], True).generation
        shape = [16] + [ELEMENTS, ELEMENTS, COUNT - 2 * ELEMENTS] * 20
        for block, count in enumerate(shape):
            thief.send(contribution(source, block, generation, THIEF, final=count < ELEMENTS,
                                    numbers=(0 if block == 0 else 666,) * count))


def steals(way):
    """The thief joins as rank 1, which is a member and has not joined yet."""
    with rack_of(way) as (rack, api), Attacker(rack, THIEF) as thief:
        loops = loops_of(way, rack, api, 1, steps=20)
        enter(api, 1, rack.address(1))
        wait_for(lambda: rack.read_stats()['jobs'][0]['joins'] > 0, 'host 0 does not join')
        with counted(rack, THIEF, forged=3 * TIMES):
            for _ in range(TIMES):
                thief.send(*guesses(1))
                takes_part(thief, 1)
        loops.runs.append(loops.start(1))
        undisturbed(loops)


@case
def before_a_host_of_a_plain_job():
    steals('proved')


@case
def before_a_host_of_an_authenticated_job():
    steals('authenticated')


@case
def before_a_host_that_its_port_lists():
    with rack_of('plain', changes=listed_ports(3)) as (rack, api), Attacker(rack, THIEF) as thief:
        loops = loops_of('plain', rack, api, 1, steps=20)
        with counted(rack, THIEF, spoofed_member=TIMES):
            for _ in range(TIMES):
                thief.send(join(1, THIEF))
                takes_part(thief, 1)
        loops.runs.append(loops.start(1))
        undisturbed(loops)


def disturbs(way, rejoin):
    """The thief joins as both sources of a generation that is under way."""
    reasons = {'spoofed_member': 4 * TIMES} if way == 'plain' else {'forged': 12 * TIMES}
    with victims(way, rejoin=rejoin) as (rack, _, _), Attacker(rack, THIEF) as thief:
        with counted(rack, THIEF, **reasons):
            for _ in range(TIMES):
                for source in (0, 1):
                    for data in guesses(source)[:1 if way == 'plain' else 3]:
                        thief.send(data, from_mac(data, rack.mac(source)))
        stats = rack.read_stats()['jobs'][0]
        check(stats['generations'] == 1 and stats['revokes'] == 0, '%s', stats)


@case
def while_an_address_only_job_runs():
    disturbs('plain', 'wait')
    disturbs('plain', 'revoke')


@case
def while_a_plain_job_runs():
    disturbs('proved', 'revoke')


@case
def while_an_authenticated_job_runs():
    disturbs('authenticated', 'revoke')


def joins_of(tap, run, number):
    """The first joins that a host sends."""
    found = []
    while len(found) < number:
        found.append(tap.hears(is_join, 300, sent=True))
        check(found[-1] is not None and run.status is None, 'host 1 does not join: %s', run.output)
    return found


def replays(way):
    """Of a host that died before the others came; and of the one in its place, while it runs."""
    with rack_of(way) as (rack, api), Attacker(rack, 1) as tap, Attacker(rack, THIEF) as thief:
        def asks(rank):
            return api.get('/v1/jobs/ring')['members'][rank]['asks'] is not None

        loops = loops_of(way, rack, api, 0, sources=2)
        dead = loops.start(1)
        old = joins_of(tap, dead, 4)
        dead.kill()
        wait_for(lambda: not asks(1), 'never forgotten')
        loops.runs.append(loops.start(0))
        wait_for(lambda: asks(0), 'host 0 does not join')
        before = rack.read_stats()['jobs'][0]['joins']
        for _ in range(TIMES):
            thief.send(*old, *(from_mac(data, rack.mac(THIEF)) for data in old))
            tap.send(*(from_mac(data, '02:00:00:00:00:99') for data in old))
        wait_for(lambda: rack.read_stats()['jobs'][0]['joins'] >= before + 12 * TIMES, 'they do not arrive')
        check(rack.read_stats()['jobs'][0]['generations'] == 0, 'a generation began with a dead host')
        loops.runs.append(loops.start(1))
        new = joins_of(tap, loops.runs[1], 2)
        loops.reach(20)
        with held(rack, loops), counted(rack, THIEF, stale=12 * TIMES):
            for _ in range(TIMES):
                thief.send(*old, *new)
                tap.send(*(from_mac(data, '02:00:00:00:00:99') for data in old + new))
        undisturbed(loops)


@case
def captured_in_a_plain_job():
    replays('proved')


@case
def captured_in_an_authenticated_job():
    replays('authenticated')


# -- keys and tokens in wrong hands: of a host that is no member any more, and of another rank

def leaves(api):
    check(api.unix('DELETE', '/v1/jobs/ring/members/1').status == 200, 'rank 1 is no member')


def expires(api):
    check(api.unix('PATCH', '/v1/jobs/ring', {'expire_s': 1}).status == 200, 'expire_s')
    wait_for(lambda: api.get('/v1/jobs/ring')['members'][1]['state'] == 'expired', 'rank 1 does not expire')


def former_member(way, goes):
    """It joins from its own address and port, with its own key, before and after the next member of its rank comes."""
    with rack_of(way) as (rack, api):
        key = enter(api, 1, rack.address(HOST))
        check(len(key) == 32, 'it has more than its own key: %d bytes', len(key))
        with Peer(rack, HOST, 1, 1, key=key) as peer:
            peer.send_join()
            check(peer.receive().status == WAITING, 'a member is not heard')
            goes(api)
            with counted(rack, HOST, unknown_source=5):
                for _ in range(5):
                    peer.send_join()
            rack.stats_at_rest()  # all answers are sent
            while (answer := peer.receive(0.1)) is not None:
                check(answer.status == REFUSED, 'an answer to no member: %d', answer.status)
            check(enter(api, 1, rack.address(HOST)) != key, 'two members have the same key')
            with counted(rack, HOST, forged=5):
                for _ in range(5):
                    peer.send_join()
            check(peer.receive(0.1) is None, 'an answer to a former member')
        check(rack.read_stats()['jobs'][0]['generations'] == 0, 'a generation began')


@case
def of_a_host_that_left():
    former_member('proved', leaves)
    former_member('authenticated', leaves)


@case
def of_a_host_that_expired():
    former_member('proved', expires)


@case
def a_rank_s_token_gives_no_other_rank_s_key():
    with rack_of('proved') as (rack, api):
        tokens = api.unix('POST', '/v1/jobs/ring/tokens').body['tokens']
        for rank in (0, 1):
            for token in (0, 1):
                body = {'rank': rank, 'size': 2, 'address': rack.address(rank)}
                answer = api.tcp('POST', '/v1/jobs/ring/members', body, token=tokens[token])
                check(answer.status == (200 if rank == token else 403), '%d %s', answer.status, answer.text)
                check(('key' in answer.body) == (rank == token), 'a key')
            answer = api.tcp('DELETE', '/v1/jobs/ring/members/%d' % rank, token=tokens[1 - rank])
            check(answer.status == 403, '%d %s', answer.status, answer.text)


@case
def for_an_address_of_another_port():
    """A tenant may make a member of any address, and so it gets its key."""
    with rack_of('proved', changes=listed_ports(3)) as (rack, api), Attacker(rack, THIEF) as thief:
        key = enter(api, 1, rack.address(HOST))
        head = header(1, 7, 1, 0, 0, (JOIN, 0, 0, TAGGED, 0))
        said = proof(key, rack.address(HOST), 40000, head, bytes(16), b'\0\0\0\7' + bytes(12), 1)
        data = frame(rack.address(HOST), said, source_mac=rack.mac(THIEF), source_port=40000)
        with counted(rack, THIEF, spoofed_member=5):
            thief.send(*[data] * 5)
        check(thief.hears(is_answer, 0.1) is None, 'an answer')


if __name__ == '__main__':
    main()
