#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is not served is refused, and by name: by the library before anything is sent (a process with
libweir.so, this file with arguments), and by the switch, which is asked for each of the 4096 combinations of
collective, operation and type by raw packets, and for roots that nobody is.
"""
import ctypes
import errno
import json
import os
import sys

from control import running
from tap import case, check, main, seed
from elements import OPERATIONS, TYPE, TYPES
from libweir import ARGUMENTS, Handle, Library, addresses, c_request, environment
from rack import SWITCH_ADDRESS, job
from reference import COLLECTIVES, REDUCING, ROOTED
from wire import OK, PROBE, UNSUPPORTED, Peer, header, join_all


# -- by the library: the child


def calls(ranks):
    """(name, changes to good arguments, what the text must hold)"""
    for name in REDUCING:
        for kind in (t for t in TYPES if t.precision):
            for op in OPERATIONS[5:]:
                yield name, {'t': kind.code, 'o': OPERATIONS.index(op)}, [op, kind.name]
        for op in (11, 15, 16, 255, -1):
            yield name, {'o': op}, ['operation']
    for name in COLLECTIVES:
        if name == 'barrier':
            continue
        for code in (14, 15, 16, 1000, -1):
            yield name, {'t': code}, ['type']
        yield name, {'b': [None, None]}, ['NULL']
        yield name, {'c': 1 << 50}, ['block']
        if name in ROOTED:
            for root in (ranks, 255, 256, 0xffffffff):
                yield name, {'r': root}, ['root']


def good(memory):
    return {'b': [memory, memory + 2048], 'c': 5, 't': TYPE['int32'].code, 'o': 0, 'r': 0}


def arguments(name, values):
    buffers = iter(values['b'])
    return [next(buffers) if k == 'b' else values[k] for k in ARGUMENTS[name]]


def child(build, address, source, ranks):
    memory = bytearray(8192)
    count = 0
    with Handle(Library(build), switch_address=SWITCH_ADDRESS, address=address, job=1,
                source=int(source), op_timeout_ms=5000) as handle:
        base = addresses(memory)
        before = handle.stats()
        for name, changes, words in calls(int(ranks)):
            values = arguments(name, dict(good(base), **changes))
            request = c_request(1)
            for code in (handle.call(name, *values),
                         handle.call('i' + name, *values, ctypes.byref(request))):
                text = handle.text()
                if code != -errno.EINVAL or not text or '\n' in text or \
                        not all(w.lower() in text.lower() for w in words):
                    raise SystemExit('%s %s: %d "%s", not -EINVAL and %s' % (name, changes, code, text,
                                                                            words))
                count += 1
            if request:
                raise SystemExit('%s %s: refused, and a request' % (name, changes))
            if any(memory):
                raise SystemExit('%s %s: refused, and memory was written' % (name, changes))
        if handle.stats() != before:
            raise SystemExit('refused, and something was sent')
        # Nothing is broken.
        for name in COLLECTIVES:
            code = handle.call(name, *arguments(name, good(base)))
            if code != 0:
                raise SystemExit('afterwards, %s: %d %s' % (name, code, handle.text()))
    print(json.dumps({'refused': count}))


@case
def by_the_library():
    with running(hosts=2, jobs=[job(1, 2)]) as rack:
        runs = [rack.spawn(host, [sys.executable, os.path.abspath(__file__), 'child', rack.build,
                                  rack.address(host), str(host), '2'], 'refused',
                           environment(rack.build)) for host in (0, 1)]
        for each in runs:
            # A switch that the machine leaves alone is told of first.
            check(json.loads(each.wait(60).splitlines()[-1])['refused'] > 300, '%s', each.output)


def small(build, address, source):
    """More ranks than a block has elements: what has slices can't be cut, and what has none works."""
    memory = bytearray(8192)
    with Handle(Library(build), switch_address=SWITCH_ADDRESS, address=address, job=1,
                source=int(source), op_timeout_ms=5000) as handle:
        for name in COLLECTIVES:
            code = handle.call(name, *arguments(name, good(addresses(memory))))
            whole = name in ('allreduce', 'reduce', 'broadcast', 'barrier')
            if code != (0 if whole else -errno.EMSGSIZE) or (not whole and
                                                            'elements' not in handle.text()):
                raise SystemExit('%s: %d %s' % (name, code, handle.text()))


@case
def slices_of_blocks_that_are_too_small():
    with running(hosts=3, jobs=[job(1, 3, elements=2)]) as rack:
        for each in [rack.spawn(host, [sys.executable, os.path.abspath(__file__), 'small', rack.build,
                                       rack.address(host), str(host)], 'small',
                                environment(rack.build)) for host in range(3)]:
            each.wait(60)


# -- by the switch


def served(collective, op, dtype):
    if collective >= len(COLLECTIVES) or dtype >= len(TYPES):
        return False
    if COLLECTIVES[collective] in REDUCING:
        return op < len(OPERATIONS) and OPERATIONS[op] in TYPES[dtype].operations
    return op == 0


def ask(peer, block, collective, op=0, dtype=4, root=0, count=1):
    """Contribute an element of a job's only source; returns the status of what comes back."""
    size = TYPES[dtype].bytes if dtype < len(TYPES) else 4
    if collective == COLLECTIVES.index('barrier'):
        size = count = 0
    for _ in range(5):
        peer.raw(header(1, block, 0, peer.generation, count, (collective, op, dtype, 0, root))
                 + bytes(size * count))
        reply = peer.receive(1)
        while reply is not None and reply.block != block:
            reply = peer.receive(1)
        if reply is not None:
            return reply
    raise AssertionError('no answer to collective %d op %d type %d root %d' % (collective, op, dtype,
                                                                              root))


@case
def by_the_switch():
    draw = seed()
    table = [(c, o, t) for c in range(PROBE) for o in range(16) for t in range(16)
             if c != COLLECTIVES.index('barrier')]
    draw.shuffle(table)
    block = 0
    with running(hosts=1, jobs=[job(1, 1)]) as rack:
        with Peer(rack, 0, 1, 0) as peer:
            join_all([peer])
            for collective, op, dtype in table:
                reply = ask(peer, block, collective, op, dtype)
                wanted = OK if served(collective, op, dtype) else UNSUPPORTED
                check(reply.status == wanted, 'collective %d op %d type %d: status %d, not %d',
                      collective, op, dtype, reply.status, wanted)
                block += reply.status == OK
            check(block == 3 * (8 * 11 + 6 * 5) + 5 * 14, '%d are served', block)
            # Roots that nobody is.
            for collective, name in enumerate(COLLECTIVES):
                for root in (0, 1, 2, 128, 255):
                    reply = ask(peer, block, collective, root=root)
                    wanted = OK if root == 0 else UNSUPPORTED
                    check(reply.status == wanted, '%s root %d: status %d', name, root, reply.status)
                    block += reply.status == OK
        stats = rack.check_packets()
        check(stats['jobs'][0]['blocks_complete'] == block, '%s', stats['jobs'][0])


if __name__ == '__main__':
    if sys.argv[1:2] == ['child']:
        child(*sys.argv[2:])
    elif sys.argv[1:2] == ['small']:
        small(*sys.argv[2:])
    else:
        main()
