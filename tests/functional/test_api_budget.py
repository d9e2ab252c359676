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

    def __init__(self, rack, requests, *paths):
        self.selector = selectors.DefaultSelector()
        self.ages = []
        self.answers = 0
        for number in range(CLIENTS):
            with rack.inside('sw'):
                client = socket.create_connection(('127.0.0.1', PORT), 60,
                                                  ('127.0.0.%d' % (2 + number // 8), 0))
            client.setblocking(False)
            self.selector.register(client, selectors.EVENT_READ, bytearray())
            ask = b'GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n' % paths[number % len(paths)]
            client.sendall(requests * ask)

    def read(self):
        """Take what has come. Returns the number of answers so far."""
        for key, _ in self.selector.select(1):
            data = key.fileobj.recv(1 << 20)
            if not data:  # it has been silent since its last answer
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
            key.data.extend(data)
            end = len(key.data) - 64  # the next match may begin there
            for found in re.finditer(rb'HTTP/1.1 200 |"age":([0-9.]+),', key.data):
                if found.group(1):
                    self.ages.append(float(found.group(1)))
                else:
                    self.answers += 1
                end = max(end, found.end())
            del key.data[:max(0, end)]
        return self.answers

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


@case
def administrators_come_before_thousands_of_others():
    with with_open_blocks(4096) as (rack, api):
        with contextlib.closing(Crowd(rack, 30, b'/v1/blocks?limit=1')) as crowd, \
             contextlib.closing(api.connect()) as connection:
            wait_for(crowd.read, 'nobody is answered')
            asked = []
            for _ in range(20):
                connection.request('GET', '/v1/blocks?limit=1')
                sent = time.monotonic()
                asked.append((sent, json.loads(connection.getresponse().read())['blocks'][0]['age']))
            wait_for(lambda: crowd.read() == 30 * CLIENTS, '%d were answered',
                     lambda: crowd.answers)
        # When the oldest block was opened, or a little later.
        opened = max(sent - age for sent, age in asked)
        for sent, age in asked:
            between = sum(sent - opened < one < age for one in crowd.ages)
            check(between <= CLIENTS // 4, '%d answers to others came first', between)
        after = sum(one > asked[0][1] for one in crowd.ages)
        check(after > CLIENTS, 'only %d came after the administrator', after)


@case
def jobs_come_and_go_while_they_are_listed():
    with with_open_blocks(256) as (rack, api):
        with contextlib.closing(Crowd(rack, 6, b'/v1/blocks?stuck=1', b'/metrics', b'/v1/jobs', b'/v1/history',
                                      b'/v1/blocks', b'/v1/counters')) as crowd, \
             contextlib.closing(api.connect()) as connection:
            def change():
                for method, path, body in (('POST', '/v1/jobs', {'name': 'new', 'size': 200, 'window': 1}),
                                           ('DELETE', '/v1/jobs/new', None),
                                           ('DELETE', '/v1/jobs/job2', None),
                                           ('POST', '/v1/reload', None)):
                    crowd.read()
                    answer = api.ask(connection, method, path, body)
                    check(answer.status in (200, 201, 202, 404), '%s: %s', path, answer.text)
                return crowd.answers == 6 * CLIENTS
            wait_for(change, '%d were answered', lambda: crowd.answers)


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
