#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The protocol, packet by packet, with peers that know it from docs/protocol.md alone; tests/eal has the rest of a block's life."""
from control import running
from tap import case, check, main, seed, shared
from rack import job
from wire import ALLREDUCE, INT32, MISMATCH, OK, WAITING, Peer, join_all

# The jobs of the switch: their sources, and settings.
JOBS = {'two': (2, {}), 'three': (3, {}), 'four': (4, {}), 'floats': (2, {'type': 'fp32'}),
        'fixed': (2, {'generation': 9}), 'other': (3, {'window': 8, 'elements': 16})}


@shared
def switch():
    jobs = [job(number, count, **{'window': 4, 'elements': 8, 'timeout_ms': 300, 'type': 'int32', **options})
            for number, (count, options) in enumerate(JOBS.values(), 1)]
    with running(hosts=4, jobs=jobs) as rack:
        yield rack


class Table:
    """Joined peers of a job: in a generation of their own."""

    def __init__(self, name, extended=True, join=True):
        self.rack, self.number, self.sources = switch(), list(JOBS).index(name) + 1, JOBS[name][0]
        self.peers = [Peer(self.rack, i, self.number, i, extended) for i in range(self.sources)]
        if join:
            join_all(self.peers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.socket.close()

    def whole(self, block, numbers):
        """Every source contributes; every source gets the sum."""
        for i, peer in enumerate(self.peers):
            peer.send(block, [n * (i + 1) for n in numbers])
        factor = sum(range(1, self.sources + 1))
        for peer in self.peers:
            result(peer, block, [wrap(n * factor) for n in numbers])


def wrap(number):
    return (number + 2**31) % 2**32 - 2**31


def result(peer, block, numbers, status=OK):
    got = peer.receive()
    check(got is not None, 'source %d got no result for block %d', peer.source, block)
    check(got.status == status, 'status %d, not %d', got.status, status)
    check(got.block == block & 0xffffffff, 'block %d, not %d', got.block, block)
    check(got.job == peer.job and got.source == peer.source, 'job %d source %d', got.job, got.source)
    check(got.generation == peer.generation, 'generation %d', got.generation)
    check(got.ints() == numbers, '%s, not %s', got.ints(), numbers)
    check(len(got.payload) == 4 * len(numbers), '%d bytes of payload', len(got.payload))
    return got


def silent(peer, seconds=0.1):
    got = peer.receive(seconds)
    check(got is None, 'source %d got a packet of status %d', peer.source, got and got.status)


@case
def extended_form_sums_and_counts_its_sources():
    with Table('three') as table:
        table.peers[0].send(0, [1, -2, 2**31 - 1])
        silent(table.peers[0])
        table.peers[1].send(0, [10, 20, 1])
        table.peers[2].send(0, [100, 200, 0])
        for peer in table.peers:
            got = result(peer, 0, [111, 218, -2**31])
            check(got.sources == 3, 'src_cnt %d', got.sources)
            check(got.collective == ALLREDUCE and got.dtype == INT32, 'wrong extension')
            check(not got.degraded and not got.final, 'flags are set')


@case
def base_form_sums():
    with Table('two', extended=False) as table:
        for block in range(12):
            table.whole(block, [block, -block, 7])


@case
def both_forms_meet_in_one_block():
    with Table('two') as table:
        with Peer(table.rack, 0, table.number, 0, extended=False) as base:
            join_all([base, table.peers[1]])
            base.send(0, [1, 2])
            table.peers[1].send(0, [3, 4])
            result(base, 0, [4, 6])
            result(table.peers[1], 0, [4, 6])


@case
def final_is_set_when_all_set_it():
    with Table('two') as table:
        table.peers[0].send(0, [1], final=1)
        table.peers[1].send(0, [1], final=1)
        check([result(p, 0, [2]).final for p in table.peers] == [1, 1], 'final got lost')
        table.whole(1, [1])
        table.peers[0].send(2, [1], final=1)
        table.peers[1].send(2, [1])
        for peer in table.peers:  # one's operation ends here, the other's does not
            got = peer.receive()
            check(got is not None and got.status == MISMATCH, '%s', got and got.status)
            check(got.payload == bytes((6, 0, 0, 1, 1, 0, 0, 0)), '%s', got.payload.hex())


@case
def a_join_waits_for_all_and_is_repeatable():
    with Table('other', join=False) as table:
        peers = table.peers
        for source, heard in ((0, [0]), (2, [0, 2])):
            peers[source].send_join()
            got = peers[source].receive()
            check(got is not None and got.status == WAITING and got.bitmap() == heard, 'join of %d', source)
        peers[1].send_join()
        replies = [peer.take_join() for peer in peers]
        check(len({r.generation for r in replies}) == 1, 'generations differ')
        check((peers[0].window, peers[0].elements, peers[0].nb_sources) == (8, 16, 3), 'reply')
        peers[0].send_join(peers[0].nonce)
        again = peers[0].receive()
        check(again is not None and again.payload == replies[0].payload and
              again.generation == replies[0].generation, 'the repeated join differs')


@case
def fixed_generation_needs_no_join():
    with Table('fixed', extended=False, join=False) as table:
        for peer in table.peers:
            peer.generation = 9
        for block in range(9):
            table.whole(block, [block, 1])


@case
def random_blocks_in_random_order():
    random = seed()
    with Table('four') as table:
        for start in range(0, 64, 4):
            sent = []
            for block in range(start, start + 4):
                length = random.randint(1, 8)
                for peer in table.peers:
                    sent.append((peer, block, [random.randint(-2**31, 2**31 - 1)
                                               for _ in range(length)]))
            random.shuffle(sent)
            for peer, block, numbers in sent:
                peer.send(block, numbers)
            expected = {}
            for _, block, numbers in sent:
                before = expected.get(block, [0] * len(numbers))
                expected[block] = [wrap(a + b) for a, b in zip(before, numbers)]
            for peer in table.peers:
                got = {}
                for _ in range(4):
                    packet = peer.receive()
                    check(packet is not None and packet.status == OK, 'no result')
                    got[packet.block] = packet.ints()
                check(got == expected, 'source %d: %s, not %s', peer.source, got, expected)


@case
def floats_as_they_lie_in_memory():
    # 1.5 + 2.25 = 3.75, as bit patterns; the job's type is fp32 in the base form.
    with Table('floats', extended=False) as table:
        table.peers[0].send(0, [0x3fc00000])
        table.peers[1].send(0, [0x40100000])
        for peer in table.peers:
            result(peer, 0, [0x40700000])


if __name__ == '__main__':
    main()
