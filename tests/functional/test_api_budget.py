#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Many clients with large requests: administrators do not wait for them, and lists come in pages."""
import contextlib
import json
import re
import selectors
import socket
import time

from control import PORT, switch
from rack import job
from tap import case, check, main, wait_for
from wire import Peer

CLIENTS = 64
REQUESTS = 30  # of each, sent at once


def blocks(api, **query):
    return api.get('/v1/blocks?' + '&'.join('%s=%s' % one for one in query.items()))


@contextlib.contextmanager
def with_open_blocks(window):
    """A switch with twice as many blocks that wait for 199 of 200 sources."""
    sources = [{'id': i, 'address': '10.77.0.%d' % (i + 1)} for i in range(200)]
    jobs = [dict(job(number, 200), sources=sources, generation=7, policy='wait', window=window, elements=1)
            for number in (1, 2)]
    with switch(jobs=jobs) as (rack, api):
        def send():
            for number in (1, 2):
                with Peer(rack, 0, number, 0) as peer:
                    peer.generation = 7
                    for block in range(window):
                        peer.send(block, [1])
            return blocks(api, limit=1)['total']
        wait_for(lambda: send() == 2 * window, 'packets are lost')
        yield rack, api


class Crowd:
    """Clients at several addresses, each with many requests at once. The age of the oldest block, which does not change,
    tells when the switch has served them."""

    def __init__(self, rack):
        self.selector = selectors.DefaultSelector()
        self.ages = []
        for number in range(CLIENTS):
            with rack.inside('sw'):
                client = socket.create_connection(('127.0.0.1', PORT), 60,
                                                  ('127.0.0.%d' % (2 + number // 8), 0))
            client.setblocking(False)
            self.selector.register(client, selectors.EVENT_READ, bytearray())
            client.sendall(REQUESTS * b'GET /v1/blocks?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n')

    def read(self):
        """Take what has come. Returns the number of answers so far."""
        for key, _ in self.selector.select(1):
            data = key.fileobj.recv(1 << 20)
            check(data, 'a client was closed')
            key.data.extend(data)
            end = len(key.data) - 64  # the next age may begin there
            for found in re.finditer(rb'"age":([0-9.]+),', key.data):
                self.ages.append(float(found.group(1)))
                end = max(end, found.end())
            del key.data[:max(0, end)]
        return len(self.ages)

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


@case
def administrators_come_before_thousands_of_others():
    with with_open_blocks(4096) as (rack, api):
        with contextlib.closing(Crowd(rack)) as crowd, contextlib.closing(api.connect()) as connection:
            wait_for(crowd.read, 'nobody is answered')
            asked = []
            for _ in range(20):
                connection.request('GET', '/v1/blocks?limit=1')
                sent = time.monotonic()
                asked.append((sent, json.loads(connection.getresponse().read())['blocks'][0]['age']))
            wait_for(lambda: crowd.read() == CLIENTS * REQUESTS, '%d were answered', lambda: len(crowd.ages),
                     seconds=120)
        # When the oldest block was opened, or a little later.
        opened = max(sent - age for sent, age in asked)
        for sent, age in asked:
            between = sum(sent - opened < one < age for one in crowd.ages)
            check(between <= CLIENTS // 4, '%d answers to others came first', between)
        after = sum(one > asked[-1][1] for one in crowd.ages)
        check(after > CLIENTS, 'only %d came after the administrator', after)


def pages(api, path, key):
    """All entries of a list, a page at a time."""
    found, after = [], ''
    while True:
        page = api.get(path + after)
        found += page[key]
        if 'next' not in page:
            return found
        check(page[key], 'an empty page, and more follow')
        after = '&after=%s' % page['next']


@case
def lists_come_in_pages():
    with with_open_blocks(256) as (_rack, api):
        found = pages(api, '/v1/blocks?limit=1024', 'blocks')
        check(len({(b['job'], b['block']) for b in found}) == len(found) == 512, '%d blocks', len(found))
        ages = [b['age'] for b in found]
        check(all(older + 1 > younger for older, younger in zip(ages, ages[1:])), 'not oldest first')
        answer = api.unix('GET', '/v1/blocks?after=1-2')
        check(answer.status == 400 and answer.code == 'wrong_type', '%s', answer.text)
        for number in range(8):
            answer = api.unix('POST', '/v1/jobs', {'name': 'j%d' % number, 'size': 2, 'window': 1})
            check(answer.status == 201, '%s', answer.text)
        whole = api.get('/v1/jobs')
        names = [j['name'] for j in whole['jobs']]
        check(len(names) == 10 and 'next' not in whole, '%s', whole)
        for limit in (1, 3, 10):
            check([j['name'] for j in pages(api, '/v1/jobs?limit=%d' % limit, 'jobs')] == names, '%d', limit)
        check(len(api.get('/v1/jobs?limit=4')['jobs']) == 4, 'no limit')


if __name__ == '__main__':
    main()
