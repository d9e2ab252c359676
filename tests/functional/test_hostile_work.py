#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Work that others have to do: reads that keep an administrator waiting, connections that keep it out, bytes that the
switch has to send, joins, log lines, memory and ids. Answers and bytes are counted, and compared with each other."""
import contextlib
import json
import os
import re
import selectors
import socket
import threading
import time

import control
from control import PORT, tenant
from rack import SWITCH_ADDRESS, Rack, job
from tap import case, check, main, wait_for
from wire import INT32, OK, SUM, Peer, header, join_all

STRANGERS, WINDOW, BROADCAST = 64, 4096, 3
ASK = b'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
MANY = ASK % b'/v1/blocks?limit=1024'


class Crowd:
    """Strangers of so many addresses, who ask for many blocks, or all else, over and over. answers: that were given."""

    def __init__(self, rack, addresses, asks=(MANY,)):
        self.rack, self.addresses, self.asks, self.answers, self.asked, self.on = rack, addresses, asks, 0, 0, True
        self.ready = selectors.DefaultSelector()
        for _ in range(STRANGERS):
            self.ask()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def ask(self):
        self.asked += 1
        one = stranger(self.rack, self.asks[self.asked % len(self.asks)], 2 + self.asked % self.addresses)
        self.ready.register(one, selectors.EVENT_READ, [b''])

    def run(self):
        while self.on:
            for key, _ in self.ready.select(0.1):
                with contextlib.suppress(OSError):
                    part = key.fileobj.recv(1 << 20)
                    if part:
                        key.data[0] = key.data[0] or part
                        continue
                self.answers += key.data[0].startswith(b'HTTP/1.1 200')
                self.ready.unregister(key.fileobj)
                key.fileobj.close()
                self.ask()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.on = False
        self.thread.join(10)
        for key in list(self.ready.get_map().values()):
            key.fileobj.close()


def stranger(rack, data, number=1):
    """One of many addresses, who sends this."""
    with rack.inside('sw'):
        made = socket.create_connection(('127.0.0.1', PORT), 60, ('127.0.0.%d' % number, 0))
    made.sendall(data)
    return made


@contextlib.contextmanager
def with_open_blocks(window):
    """A switch with twice as many blocks that wait for a source."""
    jobs = [dict(job(n, 2, window=window, elements=1, type='int32'), generation=7) for n in (1, 2)]
    with control.switch(hosts=2, jobs=jobs, changes={'tables': {'blocks': 4 * window + 512}}) as (rack, api):
        def send():
            for number in (1, 2):
                with Peer(rack, 0, number, 0) as peer:
                    peer.generation = 7
                    for block in range(window):
                        peer.send(block, [1])
            return api.get('/v1/blocks?limit=1')['total']
        wait_for(lambda: send() == 2 * window, 'packets are lost')
        yield rack, api


def control_thread_s(rack):
    """CPU time of the switch's control thread, which is its first."""
    pid = rack.switch.popen.pid
    with open('/proc/%d/task/%d/stat' % (pid, pid)) as file:
        return sum(int(part) for part in file.read().rpartition(')')[2].split()[11:13]) / os.sysconf('SC_CLK_TCK')


@case
def reads_keep_no_administrator_waiting():
    with with_open_blocks(WINDOW) as (rack, api):
        # The last asks for much of the control thread, and for little of the threads that answer.
        for addresses, asks, most in (1, MANY, 2), (STRANGERS, MANY, 2), (STRANGERS, ASK % b'/v1/jobs/job1', 2000):
            with Crowd(rack, addresses, [asks]) as crowd:
                wait_for(lambda: crowd.answers > 0, 'nobody is answered')
                began, between, took, at = crowd.answers, [], control_thread_s(rack), time.monotonic()
                for _ in range(20):
                    before = crowd.answers
                    health = api.unix('GET', '/v1/health')
                    check(health.status == 200, '%s', health.text)
                    between.append(crowd.answers - before)
                # All of them, if it had to wait in turn. Where this process lost its CPU meanwhile, more have come.
                check(sorted(between)[5] <= STRANGERS // 4, 'strangers got so many answers before an administrator: %s', between)
                wait_for(lambda: crowd.answers > began + most, 'the strangers starve')
                took, elapsed = control_thread_s(rack) - took, time.monotonic() - at
                # A tenth for snapshots; the watchdog, jobs and timers have the others.
                check(took <= 0.2 * elapsed + 0.05, 'the control thread worked for %.2f of %.2f s', took, elapsed)


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
def lists_come_in_pages_while_jobs_come_and_go():
    with with_open_blocks(256) as (rack, api):
        found = pages(api, '/v1/blocks?limit=100', 'blocks')
        check(len({(b['job'], b['block']) for b in found}) == len(found) == 512, '%d blocks', len(found))
        ages = [b['age'] for b in found]
        check(all(older + 1 > younger for older, younger in zip(ages, ages[1:])), 'not oldest first')
        api.do('GET', '/v1/blocks?after=1-2', None, 400, 'wrong_type')
        for number in range(8):
            api.create('j%d' % number, 2, window=1)
        whole = api.get('/v1/jobs')
        names = [j['name'] for j in whole['jobs']]
        check(len(names) == 10 and 'next' not in whole, '%s', whole)
        for limit in (1, 3, 10):
            check([j['name'] for j in pages(api, '/v1/jobs?limit=%d' % limit, 'jobs')] == names, '%d', limit)
        check(len(api.get('/v1/jobs?limit=4')['jobs']) == 4, 'no limit')
        asks = [ASK % path for path in (b'/v1/blocks?stuck=1', b'/metrics', b'/v1/jobs', b'/v1/history', b'/v1/blocks',
                                        b'/v1/counters')]
        with Crowd(rack, 8, asks) as crowd, contextlib.closing(api.connect()) as connection:
            def change():
                for method, path, body in (('POST', '/v1/jobs', {'name': 'new', 'size': 200, 'window': 1}),
                                           ('DELETE', '/v1/jobs/new', None), ('DELETE', '/v1/jobs/job2', None),
                                           ('POST', '/v1/reload', None)):
                    answer = api.ask(connection, method, path, body)
                    check(answer.status in (200, 201, 202, 404), '%s: %s', path, answer.text)
                return crowd.answers > 4 * STRANGERS
            wait_for(change, '%d were answered', lambda: crowd.answers)


@case
def strangers_of_its_address_keep_no_administrator_out():
    sent = (b'', b'GET', b'POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n', MANY)
    with control.switch(tenants=[tenant('root', admin=True)], open_read=True) as (rack, api):
        held, got = [], 0
        for number in range(20):
            held += [stranger(rack, sent[(number + k) % 4]) for k in range(STRANGERS if number == 0 else 8)]
            with contextlib.suppress(OSError):
                got += api.tcp('GET', '/v1/jobs', token='root').status == 200
        for connection in held:
            connection.close()
        check(got == 20, 'an administrator got %d of 20 answers', got)


@case
def a_job_s_rate_pays_for_what_the_switch_sends():
    """A root's block goes to 16 sources: 16 frames for one."""
    sources, elements, rate = 16, 256, 1000000 / 8
    shape = job(1, sources, window=1, elements=elements, type='int32', rate_mbit=1)
    shape['sources'] = [{'id': n, 'address': Rack.address(0)} for n in range(sources)]
    with control.running(hosts=1, jobs=[shape]) as rack, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(rack, 0, 1, source)) for source in range(sources)]
        join_all(peers)
        frame = 192 + 4 * elements  # at most, as the burst counts them
        before, began = rack.wire(0)['rx_bytes'], time.monotonic()
        for block in range(8):
            left = list(peers)
            while left:
                for peer in left:
                    peer.raw(header(1, block, peer.source, peer.generation, elements, (BROADCAST, SUM, INT32, 0, 0)) +
                             bytes(4 * elements if peer.source == 0 else 0))
                left = [peer for peer in left if not has_result(peer, block)]
        for _ in range(20):  # far more at once than the rate allows, however slow the machine is
            for peer in peers:
                peer.raw(header(1, 7, peer.source, peer.generation, elements, (BROADCAST, SUM, INT32, 0, 0)) +
                         bytes(4 * elements if peer.source == 0 else 0))
        rack.stats_at_rest()
        sent, took = rack.wire(0)['rx_bytes'] - before, time.monotonic() - began
        most = 2 * sources * frame + rate * took + sources * frame
        check(sent <= most, '%d bytes in %.2f s, not %d', sent, took, most)
        check(rack.read_stats()['jobs'][0]['policed'] > 0, 'not policed')


@case
def joins_and_log_lines_are_few():
    with control.switch(hosts=2) as (rack, api):
        api.create('ring', 2)
        body = json.dumps({'rank': 0, 'size': 2})
        both = b'POST /v1/jobs/ring/members HTTP/1.1\r\nHost: 10.77.0.254\r\nContent-Type: application/json\r\n' \
            b'Content-Length: %d\r\n\r\n%sDELETE /v1/jobs/ring/members/0 HTTP/1.1\r\nHost: 10.77.0.254\r\n\r\n' % (
                len(body), body.encode())
        began = time.monotonic()
        with contextlib.closing(api.connect(0, SWITCH_ADDRESS)) as connection:
            # At once: one after the other they might be slow enough.
            threading.Thread(target=connection.sock.sendall, args=(400 * both,), daemon=True).start()
            said = b''
            while len(found := re.findall(rb'HTTP/1.1 (\d+) ', said)) < 800:
                part = connection.sock.recv(1 << 20)
                check(part, 'closed after %d answers', len(found))
                said += part
        # Where the join was too much, the rank that leaves may be no member.
        took, done = time.monotonic() - began, len(found) - found.count(b'429')
        check(set(found) <= {b'200', b'404', b'429'} and b'"too_often"' in said and b'Retry-After' in said, '%s', set(found))
        check(256 <= done <= 256 + 50 * took + 1, '%d in %.1f s', done, took)
        lines = [rack.switch.output.count('msg="%s"' % what) for what in ('member joined', 'member left')]
        check(10 <= min(lines) and max(lines) <= 10 + took + 1, '%s lines in %.1f s', lines, took)
        # Others are not meant.
        check(api.tcp('POST', '/v1/jobs/ring/members', {'rank': 1, 'size': 2}, place=1, address=SWITCH_ADDRESS).status == 200,
              "another address's")
        for _ in range(300):
            api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': 1000})


@case
def a_tenant_takes_no_more_than_its_quota():
    """Neither ids, nor members, nor memory that is no buffer, nor what a deleted job of the configuration needs at the next start."""
    tenants = [tenant('a', quota={'changes_per_s': 0}), tenant('b', quota={'memory_mb': 1, 'jobs': 0, 'members': 0, 'changes_per_s': 0}),
               tenant('c', quota={'changes_per_s': 0})]
    with Rack(hosts=2, jobs=[job(0, 8, window=4096, deterministic=True)], changes={'memory_mb': 96}) as rack:
        api = control.Control(rack, tenants=tenants)
        rack.changes['state'] = {'file': os.path.join(rack.folder, 'state.json')}
        rack.start_switch()

        def made(name, size, **more):
            return api.unix('POST', '/v1/jobs', dict(more, name=name, size=size), token=name[0])

        def free():
            return api.get('/v1/status')['memory']['free']

        def fill(name, size):
            """Make jobs until one is too much. Returns their number, and the memory that is gone."""
            before = free()
            for count in range(256):
                answer = made('%s-%d' % (name, count), size, window=1, elements=1)
                if answer.status != 201:
                    check(answer.code == 'quota', '%.200s', answer.text)
                    break
            return count, before - free()

        for number in range(2):  # what DPDK's heap keeps for itself is there after the first
            check(made('a-%d' % number, 256, window=1, elements=1).status == 201, 'no memory')
            api.do('DELETE', '/v1/jobs/a-%d' % number)
        count, taken = fill('b', 256)
        check(taken <= 2 << 20, '%d jobs took %d bytes, and the quota is 1 MiB', count, taken)
        count, _ = fill('c', 256)
        check(count == 4, 'one tenant has %d jobs of 256 members, and the guard has room for 2048', count)
        for number in range(count):
            api.do('DELETE', '/v1/jobs/c-%d' % number)
        count, _ = fill('a', 1)
        check(count <= 64, 'one tenant has %d jobs', count)
        api.create('other', 1, window=1)
        for number in range(count):
            api.do('DELETE', '/v1/jobs/a-%d' % number)
        api.do('DELETE', '/v1/jobs/job0')
        # Whether this job is refused now, or set aside at the start:
        wait_for(lambda: made('a-large', 8, window=4096, deterministic=True).status in (201, 507), 'no memory at all')
        rack.switch.kill()
        rack.start_switch()
        check('job0' in [j['name'] for j in api.get('/v1/jobs')['jobs']], 'the job of the configuration is gone')
        rack.stop_switch()


OPEN = {'temporary': True}


@contextlib.contextmanager
def open_rack(most, **more):
    """Its hosts may make so many jobs; gives their way to ask, too."""
    with control.switch(jobs=[job(7, 2)], open_jobs=most, **more) as (rack, api):
        def ask(method, path, body=None, host=0):
            return api.tcp(method, path, body, place=host, address=SWITCH_ADDRESS)
        yield rack, api, ask


@case
def strangers_change_only_open_jobs():
    with open_rack(4) as (rack, api, ask):
        api.create('ring', 2)
        api.create('own', 2, **OPEN, results='239.1.2.3')
        before = api.get('/v1/jobs')
        check(ask('DELETE', '/v1/jobs?prefix=own').body['deleted'] == 0, 'by its prefix')
        for name in ('ring', 'own', 'job7'):
            for method, path, body in (('DELETE', '', None), ('PATCH', '', {'timeout_ms': 7}), ('POST', '/tokens', None)):
                check(ask(method, '/v1/jobs/' + name + path, body).status == 403, '%s %s%s', method, name, path)
        for body in ({'name': 'new', 'size': 2}, dict(OPEN, name='new', size=2, id=9),
                     dict(OPEN, name='new', size=2, temporary=False)):
            check(ask('POST', '/v1/jobs', body).status == 403, '%s', body)
        # Neither another owner's name or group, nor another host's address.
        for status, body in ((409, {'name': 'ring'}), (409, {'name': 'job7'}), (409, {'name': 'new', 'results': '239.1.2.3'})):
            check(ask('POST', '/v1/jobs', dict(OPEN, size=2, **body)).status == status, '%s', body)
        join = {'rank': 0, 'size': 2, 'create': OPEN}
        check(ask('POST', '/v1/jobs/new/members', dict(join, address=rack.address(1))).status == 403, 'address')
        check(ask('POST', '/v1/jobs/new/members', dict(join, create={})).status == 403, 'a job that stays')
        after = api.get('/v1/jobs')
        check([j['name'] for j in after['jobs']] == [j['name'] for j in before['jobs']], '%s', after)
        # What one of them has made, another one ends.
        check(ask('POST', '/v1/jobs/new/members', join).status == 200, 'join')
        check(ask('DELETE', '/v1/jobs/new', host=1).status in (200, 202), 'delete')
        api.do('GET', '/v1/jobs/new', None, 404)


@case
def strangers_take_no_more_than_open_jobs():
    with open_rack(5, changes={'memory_mb': 96, 'tables': {'blocks': 4096}}) as (_rack, api, ask):
        def make(name, size=2, **more):
            return ask('POST', '/v1/jobs', dict(OPEN, name=name, size=size, **more))

        def room():
            memory = api.get('/v1/status')['memory']
            return memory['free'], memory['blocks_capacity'] - memory['blocks_reserved']

        made = [make('job-%d' % number, window=1) for number in range(8)]
        check([answer.status for answer in made] == [201] * 5 + [507] * 3, '%s', made)
        check(made[-1].code == 'no_free_job', '%s', made[-1].text)
        for number in range(5):
            check(ask('DELETE', '/v1/jobs/job-%d' % number).status in (200, 202), 'delete')
        # Most of the records that are left, or of the memory, in few jobs.
        memory, records = room()
        for more in ({'window': 512, 'elements': 1}, {'window': 64, 'deterministic': True, 'size': 256}):
            made = [make('large-%d' % number, **more) for number in range(5)]
            check(made[-1].code == 'no_memory', '%s', made[-1].text)
            left = room()
            check(2 * left[0] >= memory and 2 * left[1] >= records, '%s of %d, %d', left, memory, records)
            api.create('ring', 2, window=64)
            for name in ['ring'] + ['large-%d' % n for n in range(5) if made[n].status == 201]:
                api.delete(name)


def has_result(peer, block):
    """Has it come, within a moment?"""
    while (got := peer.receive(0.02)) is not None:
        if got.status == OK and got.block == block:
            return True
    return False


if __name__ == '__main__':
    main()
