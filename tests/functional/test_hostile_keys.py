#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Keys and tokens in wrong hands: of a host that is no member any more, and of another rank."""
from attacker import Attacker, counted, enter, is_answer, listed_ports, rack_of
from tap import case, check, main, wait_for
from wire import JOIN, REFUSED, TAGGED, WAITING, Peer, frame, header, proof

HOST, THIEF = 1, 2


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
