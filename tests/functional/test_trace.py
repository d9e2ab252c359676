#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""GET /v1/trace: a switch at work, as Perfetto would read it."""
import collections
import http.client
import json
import os
import select
import socket

from tap import case, check, main, wait_for
from perf import start
from rack import Rack, job


class Client(http.client.HTTPConnection):
    """HTTP over the switch's Unix socket."""

    def __init__(self, rack):
        super().__init__('localhost', timeout=120)
        self.path = os.path.join(rack.folder, 'api.sock')

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(rack, target):
    """Status and body of a request."""
    client = Client(rack)
    try:
        client.request('GET', target)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        client.close()


def balanced(events):
    """Each span closes, each arrow has two ends."""
    depth, arrows = collections.Counter(), collections.Counter()
    for event in events:
        if event['ph'] in 'be':
            depth[event['id']] += 1 if event['ph'] == 'b' else -1
            check(depth[event['id']] >= 0, 'closed before it opens: %s', event)
        elif event['ph'] in 'sf':
            arrows[event['id']] += 1 if event['ph'] == 's' else -1
    check(not +depth, 'spans left open: %s', +depth)
    check(all(n == 0 for n in arrows.values()), 'half an arrow: %s', arrows)
    return len(arrows)


@case
def a_switch_at_work():
    with Rack(hosts=3, jobs=[job(1, 3, name='ring')], workers=2, threads=4) as rack:
        rack.changes = {'api': {'listen': ['unix:%s/api.sock' % rack.folder]}}
        rack.start_switch()
        runs = start(rack, 1, range(3), '-b', 65536, '-e', 65536, '-n', 100000, '-d', 'int32')

        def work():
            status, trace = get(rack, '/v1/trace?ms=100')
            check(status == 200, '%s', trace)
            events = trace['traceEvents']
            names = collections.Counter((e['ph'], e.get('name')) for e in events)
            return (trace, events, names) if balanced(events) > 20 and names['b', 'collecting'] > 20 else None

        trace, events, names = wait_for(work, 'no work seen')
        check(trace['otherData']['switch'] == rack.config()['switch']['name'], '%s',
              trace['otherData'])
        # Both lcores, and their threads, have names.
        tracks = [e['args']['name'] for e in events if e.get('name') == 'thread_name']
        check(len(tracks) == 2 * (1 + 4), '%s', tracks)
        check(names['X', 'aggregate'] > 20 and names['X', 'turn'] > 0, '%s', names)
        check(all(names['n', 'source %d' % s] > 20 for s in range(3)), '%s', names)
        check(any(e['name'].startswith('ring block ') for e in events if e['ph'] == 'b'),
              'no block has its job\'s name')
        for run in runs:
            run.kill()
        rack.check_packets()
        # One at a time.
        for target in ('/v1/trace?ms=0', '/v1/trace?ms=10001', '/v1/trace?ms=x',
                       '/v1/trace?seconds=1'):
            status, answer = get(rack, target)
            check(status == 400, '%s: %d %s', target, status, answer)
        first = Client(rack)
        first.request('GET', '/v1/trace?ms=10000')
        status, answer = get(rack, '/v1/trace?ms=10')
        check(status == 503 and answer['error']['code'] == 'busy', '%d %s', status, answer)
        # While one waits for its trace, others are answered at once.
        check(get(rack, '/v1/health')[0] == 200, 'not healthy')
        check(not select.select([first.sock], [], [], 0)[0], 'the control thread waited for the trace')
        # A client that goes leaves nothing behind.
        first.close()
        wait_for(lambda: get(rack, '/v1/trace?ms=10')[0] == 200,
                 'the trace of a client that is gone is still there')
        rack.stop_switch()


if __name__ == '__main__':
    main()
