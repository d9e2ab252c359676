#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""One rank: does with libweir.so what a plan says, and writes down what came of it.

    rank.py BUILD PLAN IN OUT

PLAN is JSON (ranks.py makes it). IN is what this rank sends, one operation's bytes behind the other's;
OUT becomes what it has received, OUT.json the codes, texts and whatever was touched that must not be.
"""
import ctypes
import json
import random
import sys
import time

from elements import OPERATIONS, TYPE
from libweir import ARGUMENTS, Handle, Library, addresses, c_request
from reference import (SLICED_RECEIVE, SLICED_SEND, receive_count, receives_data, send_count,
                       sends_data)

GUARD = 64
FENCE, FRESH = 0xA5, 0xC3  # around a buffer, and in one that is yet to be written


class Buffer:
    """Bytes between two fences, at an address that is aligned to the element and to no more."""

    def __init__(self, count, size):
        self.bytes = count * size
        self.memory = bytearray([FENCE]) * (self.bytes + 2 * GUARD + 64)
        start = addresses(self.memory) + GUARD
        self.first = GUARD + (-start) % 32 + size
        self.address = addresses(self.memory) + self.first
        self.memory[self.first:self.first + self.bytes] = bytes([FRESH]) * self.bytes

    def put(self, data, at=0):
        self.memory[self.first + at:self.first + at + len(data)] = data

    def get(self, at=0, length=None):
        end = self.bytes if length is None else at + length
        return bytes(self.memory[self.first + at:self.first + end])

    def fences(self):
        return not self.memory[:self.first].strip(b'\xa5') and \
            not self.memory[self.first + self.bytes:].strip(b'\xa5')


class Step:
    """One operation of the plan, its buffers, and how it ended."""

    def __init__(self, plan, rank, ranks, data):
        self.plan, self.data, self.code, self.text, self.harm = plan, data, None, '', []
        self.name, self.count, root = plan['name'], plan['count'], plan['root']
        self.kind = TYPE[plan['type']]
        size = self.kind.bytes
        self.send = self.receive = None
        sends, self.receives = sends_data(self.name, rank, root), receives_data(self.name, rank, root)
        room = receive_count(self.name, ranks, self.count)
        self.at = 0  # where in the receive buffer the result begins
        if plan['in_place'] and sends and self.receives:
            larger = max(send_count(self.name, ranks, self.count), room)
            self.send = self.receive = Buffer(larger, size)
            own = rank * self.count * size
            self.at = own if self.name in SLICED_SEND and self.name != 'alltoall' else 0
            self.send.put(data, own if self.name in SLICED_RECEIVE and self.name != 'alltoall' else 0)
            self.send_at = own if self.name in SLICED_RECEIVE and self.name != 'alltoall' else 0
        else:
            self.send_at = 0
            if sends:
                self.send = Buffer(send_count(self.name, ranks, self.count), size)
                self.send.put(data)
            if self.receives or plan['idle_buffers']:
                self.receive = Buffer(room, size)
        self.length = room * size

    def arguments(self):
        send = self.send.address + self.send_at if self.send else None
        receive = self.receive.address + self.at if self.receive else None
        values = {'c': self.count, 't': self.kind.code, 'o': OPERATIONS.index(self.plan['op'] or 'sum'),
                  'r': self.plan['root']}
        buffers = iter((send, receive))
        return [next(buffers) if k == 'b' else values[k] for k in ARGUMENTS[self.name]]

    def ended(self, code, handle):
        self.code = code
        self.text = handle.text() if code else ''
        # Of what was waited for last: of weir_wait_all, the last one only. Whole data may have missed ranks.
        self.degraded = handle.degraded() if code >= 0 else []
        for name in ('send', 'receive'):
            buffer = getattr(self, name)
            if buffer and not buffer.fences():
                self.harm.append('written beside the %s buffer' % name)
        if self.send and self.send is not self.receive and self.send.get() != self.data:
            self.harm.append('the send buffer has changed')
        if self.receive and not self.receives and self.receive.get().strip(bytes([FRESH])):
            self.harm.append('the receive buffer of a rank that receives nothing was written')

    def result(self):
        return self.receive.get(self.at, self.length) if self.receives and self.code >= 0 else b''


def begin(handle, step):
    request = c_request()
    code = handle.call('i' + step.name, *step.arguments(), ctypes.byref(request))
    if code != 0:
        step.ended(code, handle)
    elif not request:
        step.harm.append('begun, and no request')
    return request


def wait_any(handle, steps, requests):
    left = len([r for r in requests if r])
    table = (c_request * len(requests))(*[r.value for r in requests])
    for _ in range(left):
        which = ctypes.c_size_t(1 << 40)
        code = handle.so.weir_wait_any(table, len(requests), ctypes.byref(which))
        if which.value >= len(steps) or steps[which.value].code is not None:
            raise SystemExit('weir_wait_any: %d, which %d: %s' % (code, which.value, handle.text()))
        steps[which.value].ended(code, handle)
        if table[which.value]:
            raise SystemExit('weir_wait_any left its request')


def wait_all(handle, steps, requests):
    table = (c_request * len(requests))(*[r.value for r in requests])
    code = handle.so.weir_wait_all(table, len(requests))
    for step in steps:
        if step.code is None:
            step.ended(code, handle)
    if any(table):
        raise SystemExit('weir_wait_all left a request')


def poll(handle, steps, requests):
    until = time.monotonic() + 300
    while any(s.code is None for s in steps):
        for step, request in zip(steps, requests):
            done = ctypes.c_bool(False)
            if step.code is None:
                code = handle.so.weir_test(ctypes.byref(request), ctypes.byref(done))
                if done.value:
                    step.ended(code, handle)
                elif code != 0 or not request:
                    raise SystemExit('weir_test: %d, not done: %s' % (code, handle.text()))
        if time.monotonic() > until:
            raise SystemExit('weir_test: not done in 300 s')
        time.sleep(0.0005)


def play(handle, how, steps, order):
    """A group of operations, begun in the order of the plan on every rank."""
    if how == 'blocking':
        for step in steps:
            step.ended(handle.call(step.name, *step.arguments()), handle)
        return
    requests = [begin(handle, step) for step in steps]
    if how == 'any':
        wait_any(handle, steps, requests)
    elif how == 'all':
        wait_all(handle, steps, requests)
    elif how == 'test':
        poll(handle, steps, requests)
    else:
        for i in order.sample(range(len(steps)), len(steps)):
            if steps[i].code is None:
                steps[i].ended(handle.so.weir_wait(ctypes.byref(requests[i])), handle)


def main():
    build, plan_path, in_path, out_path = sys.argv[1:]
    with open(plan_path) as file:
        plan = json.load(file)
    order = random.Random(plan['seed'])  # of waiting: every rank has its own
    told = []
    with open(in_path, 'rb') as source, open(out_path, 'wb') as sink, \
            Handle(Library(build), **plan['config']) as handle:
        rank, ranks = handle.call('rank'), handle.call('sources')
        if rank != plan['rank'] or ranks != plan['ranks']:
            raise SystemExit('rank %d of %d, not %d of %d' % (rank, ranks, plan['rank'],
                                                              plan['ranks']))
        for group in plan['groups']:
            steps = [Step(s, rank, ranks, source.read(s['bytes'])) for s in group['steps']]
            time.sleep(group.get('pause', 0))
            before = handle.stats()
            play(handle, group['how'], steps, order)
            after = handle.stats()
            for step in steps:
                result = step.result()
                sink.write(result)
                told.append({'code': step.code, 'text': step.text, 'harm': step.harm,
                             'bytes': len(result), 'stats': {k: after[k] - before[k] for k in after},
                             'degraded': step.degraded})
            if group.get('rejoin') and any(s.code < 0 for s in steps):
                code = handle.call('rejoin')
                if code != 0:
                    raise SystemExit('weir_rejoin: %d: %s' % (code, handle.text()))
    with open(out_path + '.json', 'w') as file:
        json.dump(told, file)


if __name__ == '__main__':
    main()
