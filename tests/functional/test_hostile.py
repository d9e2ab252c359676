#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that nobody should send: each ends under its reason, and the job beside them stays right."""
import contextlib
import time

from control import running
from perf import key_file
from tap import case, check, main, seed
from rack import SWITCH_MAC, Rack, job
from wire import (ALLREDUCE, BASE, EXTENDED, INT32, OK, REFUSED, SUM, Peer, Raw, frame, header, join_all,
                  learn)

SUMMED = (ALLREDUCE, SUM, INT32, 0, 0)
STRANGER = 3  # a host that is no source
TIMES = 5


def contribution(job_id=1, source=0, count=4, generation=1, **fields):
    return header(job_id, 0, source, generation, count, SUMMED, **fields) + bytes(4 * count)


def frames(generation, port):
    """(reason, frame). Each is host 0's as source 0 would send it, but for the one thing.

    Fragments are not among them: net_af_packet has the kernel put them together before the switch
    sees them (PACKET_FANOUT_FLAG_DEFRAG), and what lacks a part never comes.
    """
    me, stranger = Rack.address(0), Rack.address(STRANGER)
    good = contribution(generation=generation)
    base = header(1, 0, 0, generation, 4) + bytes(16)

    def of(payload, form=EXTENDED, source=me, **wrong):
        return frame(source, payload, form, **{'source_port': port, **wrong})

    return [
        ('ip_checksum', of(good, ip_error=1)),
        ('udp_checksum', of(good, udp_error=1)),
        ('udp_checksum', of(base, BASE, udp_error=7)),
        ('ip_options', of(good, options=b'\x01\x01\x01\x00')),
        ('malformed', of(good, ip_length=1000)),
        ('malformed', of(good, ip_length=20)),
        ('malformed', of(good, udp_length=500)),
        ('malformed', of(good, udp_length=4)),
        ('truncated', of(b'')),
        ('truncated', of(base[:11], BASE)),
        ('truncated', of(good[:15])),
        ('unknown_job', of(contribution(job_id=77, generation=generation))),
        ('unknown_source', of(contribution(source=200, generation=generation))),
        ('address', of(good, source=stranger)),
        ('address', of(good, source_mac=Rack.mac(STRANGER))),
        ('address', of(good, source_port=port - 1)),
        ('address', of(base, BASE, source_port=port - 1)),
        ('address', of(contribution(source=1, generation=generation))),
        ('length', of(good[:-1])),
        ('length', of(good + b'\0')),
        ('length', of(good[:16])),
        ('length', of(base[:-4], BASE)),
        ('length', of(contribution(count=300, generation=generation))),
        ('not_a_contribution', of(contribution(status=1, generation=generation))),
        # The status in one of its two places only.
        ('not_a_contribution', of(good[:5] + b'\x10' + good[6:])),
        ('not_a_contribution', of(good[:15] + b'\x01' + good[16:])),
        ('not_a_contribution', of(contribution(degraded=1, generation=generation))),
        ('not_a_contribution', of(contribution(sources=2, generation=generation))),
        ('bad_source_mac', of(b'x', 9, source_mac='03:00:00:00:00:01',
                              destination=Rack.address(1), destination_mac=Rack.mac(1))),
        ('bad_source_mac', of(b'x', 9, source_mac=SWITCH_MAC, destination=Rack.address(1),
                              destination_mac=Rack.mac(1))),
        ('reserved_mac', of(b'x', 9, destination_mac='01:80:c2:00:00:00')),
        ('same_port', of(b'x', 9, destination=me, destination_mac=Rack.mac(0))),
    ]


def result(peer):
    """What a source hears next, but for refusals of what was sent in its name."""
    got = peer.receive()
    while got is not None and got.status == REFUSED:
        got = peer.receive()
    return got


def delta(before, after):
    return {k: after[k] - before[k] for k in after if after[k] != before[k]}


@case
def each_hostile_frame_is_counted_under_its_reason():
    with running(hosts=4, jobs=[job(1, 2, window=4, elements=256, type='int32')]) as rack:
        learn(rack)
        with Peer(rack, 0, 1, 0) as one, Peer(rack, 1, 1, 1) as two, Raw(rack, 0) as raw:
            join_all([one, two])
            block, wrong = 0, []
            for number, (reason, data) in enumerate(frames(one.generation, one.port)):
                before = rack.stats_at_rest()
                for _ in range(TIMES):
                    raw.send(data)
                    # The job goes on, between any two of them.
                    one.send(block, [block, 1])
                    two.send(block, [2, 3])
                    for peer in (one, two):
                        got = result(peer)
                        check(got is not None and got.status == OK and got.block == block and
                              got.ints() == [block + 2, 4], 'block %d went wrong beside %s', block,
                              reason)
                    block += 1
                after = rack.check_packets()
                found = delta(before['drops'], after['drops'])
                if found != {reason: TIMES}:
                    wrong.append('frame %d: %s, not %s' % (number, found, {reason: TIMES}))
            check(not wrong, '%s', '; '.join(wrong))


def told(peer, seconds=60):
    """Status, generation and bytes of payload of the answer; None: there is none."""
    got = peer.receive(seconds)
    return None if got is None else (got.status, got.generation, len(got.payload))


@case
def who_is_in_no_job_is_told():
    """A host whose job is gone, or which is not in it any more, need not wait for its timeout. But
    nobody gets more bytes than came, or answers without end."""
    with key_file() as key:
        jobs = [job(1, 2, type='int32'), job(2, 2, key_file=key)]
        with running(hosts=4, jobs=jobs) as rack:
            learn(rack)
            with contextlib.ExitStack() as held:
                def peer(host, *which, **more):
                    return held.enter_context(Peer(rack, host, *which, **more))

                one, two = peer(0, 1, 0), peer(1, 1, 1)
                join_all([one, two])
                before = rack.stats_at_rest()['drops']
                for made in (peer(0, 77, 0), peer(0, 77, 0, extended=False), peer(0, 1, 5),
                             peer(STRANGER, 1, 0)):
                    made.generation = one.generation
                    for numbers in ((), [1] * 64):
                        made.send(3, numbers)
                        got = told(made)
                        check(got == (REFUSED, 0, 0), '%s', got)
                silent = peer(0, 2, 9)  # of an authenticated job: without a tag, and of no source
                silent.send(3, [1])
                check(told(silent, 0.5) is None, 'an answer to who has shown no tag')
                found = delta(before, rack.stats_at_rest()['drops'])
                check(found == {'unknown_job': 4, 'unknown_source': 3, 'address': 2}, '%s', found)
                flood, began, answers = peer(STRANGER, 77, 0), time.monotonic(), 0
                for number in range(6000):
                    flood.send(number)
                rack.stats_at_rest()
                while told(flood, 0.2) is not None:
                    answers += 1
                most = 250 + 1000 * (time.monotonic() - began)
                check(50 <= answers <= most, '%d answers, not at most %d', answers, most)
                one.send(0, [1, 2])
                two.send(0, [3, 4])
                check(one.receive().ints() == [4, 6], 'the job beside it is wrong')


@case
def noise_is_survived():
    random = seed()
    with running(hosts=4, jobs=[job(1, 2, window=4, elements=64, type='int32')]) as rack:
        learn(rack)
        with Peer(rack, 0, 1, 0) as one, Peer(rack, 1, 1, 1) as two, Raw(rack, 0) as raw:
            join_all([one, two])
            for number in range(3000):
                payload = bytearray(contribution(count=random.randint(0, 64),
                                                 generation=one.generation))
                for _ in range(random.randint(1, 4)):
                    payload[random.randrange(len(payload))] = random.getrandbits(8)
                # Not from the source's UDP port: none of these may be taken.
                data = bytearray(frame(Rack.address(0), bytes(payload),
                                       random.choice((BASE, EXTENDED)), source_port=one.port - 1))
                if random.random() < 0.3:
                    data[random.randrange(12, len(data))] ^= 1 << random.randrange(8)
                if random.random() < 0.1:
                    data = data[:random.randint(14, len(data))]
                raw.send(bytes(data))
                if number % 100 == 0:
                    block = number // 100
                    one.send(block, [1, 2])
                    two.send(block, [3, 4])
                    for peer in (one, two):
                        got = result(peer)
                        check(got is not None and got.ints() == [4, 6], 'block %d is wrong', block)


if __name__ == '__main__':
    main()
