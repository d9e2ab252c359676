#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGHUP: what a switch takes of a configuration while it runs, what it refuses, and that jobs
which nothing was changed of do not notice."""
import contextlib
import os
import re
import signal
import socket
import ssl

from control import PORT, Control, make_certificate, switch, tenant
from openapi import Document
from perf import SLOWER, beside, reduce, start
from rack import Rack, job
from process import answer_to, outcomes
from tap import case, check, main, wait_for


def taken(rack, *parts):
    rack.write_config()
    line = answer_to(rack)
    check('configuration reloaded' in line and 'uid=0 pid=' in line, '%s', line)
    for part in parts:
        check(part in line, '%s is not in: %s', part, line)


def refused(rack, *parts):
    line = answer_to(rack)
    check('reload refused' in line and 'uid=0 pid=' in line, '%s', line)
    for part in parts:
        check(part in line, '%s is not in: %s', part, line)


def gone(api, name):
    wait_for(lambda: not any(j['name'] == name for j in api.get('/v1/jobs')['jobs']), '%s does not go', name)


@case
def jobs_of_the_file_come_change_and_go():
    """Beside one that runs on through all of it, with every sum verified."""
    with switch(hosts=4, jobs=[job(1, 2), job(2, 2, first=2)], changes={'faults': SLOWER}) as (rack, api):
        generation = 0

        def sums(number):
            reduce(rack, number, [2, 3], '-b', '16K', '-e', '16K', '-n', 3)
            return api.jobs()['job%d' % number]['generation']

        def nothing():
            taken(rack, 'jobs_created=0 jobs_changed=0 jobs_replaced=0 jobs_deleted=0')

        def another():
            nonlocal generation
            rack.jobs = [job(1, 2), job(3, 2, first=2)]
            taken(rack, 'jobs_created=1 jobs_changed=0 jobs_replaced=0 jobs_deleted=1')
            gone(api, 'job2')
            check(sorted(api.jobs()) == ['job1', 'job3'], '%s', sorted(api.jobs()))
            generation = sums(3)

        def replaced():
            rack.jobs = [job(1, 2, timeout_ms=45000), job(3, 2, first=2, window=16)]
            taken(rack, 'jobs_created=0 jobs_changed=1 jobs_replaced=1 jobs_deleted=0')
            now = api.jobs()
            check(now['job1']['timeout_ms'] == 45000 and now['job3']['window'] == 16, '%s', now)
            # The next job of an id begins behind the generations of the former one.
            ahead = (sums(3) - generation) % 65535
            check(0 < ahead < 3000, '%d further', ahead)

        def changed():
            rack.jobs[0] = job(1, 2, timeout_ms=1000, policy='partial', rate_mbit=90000, rejoin='revoke')
            taken(rack, 'jobs_changed=1 jobs_replaced=0')
            now = api.jobs()['job1']
            check(now['policy'] == 'partial' and now['rejoin'] == 'revoke', '%s', now)

        def turn(number):
            if number < len(steps):
                steps[number]()
            else:
                rack.jobs[1] = job(3 + number % 2, 2, first=2, elements=64 + number)
                taken(rack)

        steps = [nothing, another, replaced, changed]
        beside(lambda: start(rack, 1, [0, 1], '-b', '256K', '-e', '256K', '-n', 30, '--timeout', 60000), turn, 6)
        count = api.get('/v1/jobs/job1')['counters']
        for key in ('blocks_error', 'blocks_partial', 'blocks_mismatch', 'stale'):
            check(count[key] == 0, '%s', count)
        rack.jobs = []
        taken(rack, 'jobs_deleted=2')
        for name in 'job1', 'job3', 'job4':
            gone(api, name)
        rack.check_packets()
        check(rack.switch.output.count('msg="job replaced"') >= 1, 'not logged')


@case
def what_makes_another_job():
    """A higher source id than it had room for, and another order of additions."""
    def sources(*ids, **more):
        return [dict(job(1, 2, **more), sources=[{'id': i, 'address': Rack.address(n)} for n, i in enumerate(ids)])]

    with switch() as (rack, api):
        for counts, ids, more in (('created=1', (0, 2), {}), ('changed=1 jobs_replaced=0', (0, 1), {}),
                                  ('changed=0 jobs_replaced=1', (0, 9), {}),
                                  ('changed=0 jobs_replaced=1', (0, 9), {'deterministic': True}),
                                  ('changed=0 jobs_replaced=1', (0, 9), {}),
                                  ('changed=0 jobs_replaced=1', (0, 9), {'op': 'prod'}),
                                  ('changed=0 jobs_replaced=1', (0, 9), {'op': 'prod', 'type': 'fp64'})):
            rack.jobs = sources(*ids, **more)
            taken(rack, 'jobs_' + counts)
            (now,) = api.jobs().values()
            check(dict({'deterministic': False, 'op': 'sum', 'type': 'fp32'}, **more).items() <= now.items(), '%s', now)


@case
def what_the_api_changed_stays_unless_the_file_changes_it():
    with switch(jobs=[job(1, 2), job(2, 2)]) as (rack, api):
        api.do('PATCH', '/v1/jobs/job1', {'timeout_ms': 77})
        api.delete('job2')
        api.create('mine', 2, id=9)
        rack.changes['comment'] = 'something'
        taken(rack, 'jobs_created=0 jobs_changed=0')
        check(api.jobs()['job1']['timeout_ms'] == 77 and sorted(api.jobs()) ==
              ['job1', 'mine'], '%s', api.jobs())
        rack.jobs = [job(1, 2, policy='error'), job(2, 2, timeout_ms=5)]
        taken(rack, 'jobs_created=1 jobs_changed=1')
        check(api.jobs()['job1']['timeout_ms'] == 77 and
              api.jobs()['job1']['policy'] == 'error', '%s', api.jobs())
        # What the API has taken meanwhile is its own.
        for other in (job(9, 2), job(8, 2, name='mine')):
            rack.jobs.append(other)
            rack.write_config()
            refused(rack, 'made over the API')
            rack.jobs.pop()
        check(sorted(api.jobs()) == ['job1', 'job2', 'mine'], '%s', api.jobs())
        taken(rack, 'jobs_created=0')


@case
def what_can_not_change_is_refused_with_every_key():
    with switch(jobs=[job(1, 2)]) as (rack, api):
        before = api.get('/v1/config')
        rack.jobs = [job(1, 2, timeout_ms=5)]
        rack.changes['workers'] = {'burst': 16}
        rack.changes['switch'] = {'mac': '02:77:00:00:00:fd'}
        rack.changes['queues'] = {'output_depth': 64}
        rack.changes['tables'] = {'blocks': 99}
        rack.changes['state'] = {'file': '/tmp/weir-none.json'}
        path = rack.write_config()
        with open(path) as file:
            rack.write_config(file.read().replace('"name": "p1"', '"name": "p2"'))
        refused(rack, 'these keys change at a restart only: ', 'workers.burst', 'switch.mac',
                'queues.output_depth', 'tables.blocks', 'ports[1].name', 'state')
        check('jobs' not in outcomes(rack)[-1], '%s', outcomes(rack)[-1])
        check(api.get('/v1/config') == before, 'it changed')
        for key in ('workers', 'switch', 'queues', 'tables', 'state'):
            del rack.changes[key]
        rack.changes['api'] = dict(rack.changes['api'], listen=['unix:' + api.path])
        rack.write_config()
        refused(rack, 'only: api.listen')
        # A file that is wrong, or none.
        rack.write_config('{"jobs": [}')
        refused(rack, 'switch.json:1:')
        rack.write_config('{"jops": []}')
        refused(rack, 'jops: unknown key')
        check(api.get('/v1/config') == before and api.jobs()['job1']['timeout_ms'] == 1000, '')
        reduce(rack, 1, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)


@case
def who_asks_is_told_what_came_of_it():
    tenants = [tenant('vision', 'v'), tenant('ops', 'o', admin=True)]
    with switch(jobs=[job(1, 2)], tenants=tenants) as (rack, api):
        def ask(status, *parts, way=api.unix, **more):
            answer = way('POST', '/v1/reload', **more)
            check(answer.status == status, '%d %s', answer.status, answer.text)
            Document().judge('POST', '/v1/reload', answer.status, answer.body)
            for part in parts:
                check(part in answer.text.decode(), '%s is not in %s', part, answer.text)
            return answer.body

        def ctl(status, *parts):
            run = rack.spawn('sw', [rack.program(('ctl', 'weirctl')), '--config',
                                    os.path.join(rack.folder, 'switch.json'), 'reload'])
            check(run.end(20) == status, '%s', run.output)
            for part in parts:
                check(part in run.output, '%s is not in %s', part, run.output)

        rack.jobs.append(job(2, 2))
        rack.write_config()
        check(ask(200)['jobs_created'] == 1 and set(api.jobs()) == {'job1', 'job2'}, 'no job2')
        check('configuration reloaded' in outcomes(rack)[-1] and 'pid=' in outcomes(rack)[-1], '%s',
              outcomes(rack))
        ctl(0, 'jobs created   0\njobs changed   0\n', 'tenants        2\n')
        # An administrator's token, of a tenant that the reload has made anew.
        ask(200, way=api.tcp, token='o')
        check('tenant=ops' in outcomes(rack)[-1], '%s', outcomes(rack)[-1])
        # Who may not, and what a request must not have.
        lines = len(outcomes(rack))
        ask(403, 'forbidden', way=api.tcp, token='v')
        ask(401, 'unauthorized', way=api.tcp)
        ask(400, 'unknown_key', body={'file': '/etc/passwd'})
        ask(400, 'unknown_key', body='x')
        check(len(outcomes(rack)) == lines, 'reloaded for somebody who may not')
        # Whoever is no tenant after it gets no answer of an administrator's.
        rack.changes['api']['tenants'] = tenants[:1]
        rack.write_config()
        ask(401, way=api.tcp, token='o')
        check('configuration reloaded' in outcomes(rack)[-1], '%s', outcomes(rack)[-1])
        # Refused.
        rack.changes['workers'] = {'burst': 16}
        rack.write_config()
        ask(409, 'conflict', 'these keys change at a restart only: workers.burst')
        ctl(1, 'these keys change at a restart only: workers.burst')
        rack.write_config('{"jops": []}')
        ask(409, 'jops: unknown key')
        ctl(3, 'listens on no Unix socket')
        rack.write_config('{"jobs": [}')
        ask(409, 'switch.json:1:')
        ctl(3, 'switch.json:1:')
        check('reload refused' in outcomes(rack)[-1] and len(api.jobs()) == 2, 'it changed')
        # Several at once, and SIGHUP between them.
        del rack.changes['workers']
        rack.write_config()
        waiting = [api.connect() for _ in range(8)]
        for connection in waiting:
            connection.request('POST', '/v1/reload')
        rack.switch.signal(signal.SIGHUP)
        for connection in waiting:
            check(connection.getresponse().status == 200, 'of several')
            connection.close()


@case
def too_much_for_the_memory_is_refused_whole():
    with switch(jobs=[job(1, 2)], changes={'tables': {'blocks': 2048}}) as (rack, api):
        before = api.get('/v1/status')['memory']
        rack.jobs = [job(1, 2, timeout_ms=5), job(2, 2), job(3, 2, window=4096)]
        rack.write_config()
        refused(rack, 'block records')
        check(list(api.jobs()) == ['job1'] and api.jobs()['job1']['timeout_ms'] == 1000, '')
        check(api.get('/v1/status')['memory'] == before, 'memory')
        rack.jobs.pop()
        taken(rack, 'jobs_created=1 jobs_changed=1')
        reduce(rack, 2, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)


@case
def tenants_and_levels_change():
    with switch(tenants=[tenant('vision', 'v'), tenant('speech', 's')]) as (rack, api):
        for name, token in (('a', 'v'), ('b', 's')):
            api.create(name, 1, token=token)
        section = rack.changes['api']
        section['tenants'] = [tenant('vision', 'w', quota={'jobs': 1}), tenant('maps', 'm')]
        section['open_read'] = False
        rack.changes['log'] = {'level': 'info'}
        taken(rack, 'tenants=2')
        for token in 'v', 's':  # the old one, and that of the tenant that is gone
            api.do('GET', '/v1/jobs', None, 401, token=token)
        check(api.tcp('GET', '/v1/status').status == 401, 'open_read')
        check(set(api.jobs(token='w')) == {'a'} and not api.jobs(token='m'), '%s', api.jobs())
        api.create('c', 1, 403, code='quota', token='w')
        check(api.jobs()['b']['tenant'] is None, '%s', api.jobs()['b'])
        check("job has no tenant any more" in rack.switch.output, 'not logged')
        api.unix('DELETE', '/v1/jobs/b')
        wait_for(lambda: 'level=info' in rack.switch.output, 'log.level')
        # A request that was under way belongs to nobody that is gone.
        connection = api.connect('sw')
        with contextlib.closing(connection):
            body = b'{"name": "late", "size": 1}'
            connection.sock.sendall(b'POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer m\r\n'
                                    b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n'
                                    % len(body) + body[:5])
            api.wait_read()
            section['tenants'] = [tenant('vision', 'w')]
            taken(rack, 'tenants=1')
            connection.sock.sendall(body[5:])
            said = connection.sock.recv(4096)
            check(said.startswith(b'HTTP/1.1 401'), '%s', said)
        check(sorted(api.jobs()) == ['a'], '%s', api.jobs())


def new_certificate(rack):
    with open(make_certificate(rack.folder)[0]) as file:
        return file.read()


def renewed(rack):
    """Connections with the certificate before the last have to end, and a tick to forget it."""
    wait_for(lambda: re.search('configuration reloaded.*certificate=new', answer_to(rack)), '%s',
             lambda: outcomes(rack)[-1])


@case
def the_certificate_is_another_one():
    with Rack(hosts=2) as rack:
        first = new_certificate(rack)
        with open(rack.folder + '/ca.pem', 'w') as file:
            file.write(first)
        api = Control(rack, tls={'certificate': rack.folder + '/weir.crt',
                                 'key': rack.folder + '/weir.key'})
        rack.start_switch()

        def shown():
            with rack.inside('sw'):
                return ssl.get_server_certificate(('127.0.0.1', PORT), timeout=120).strip()

        check(shown() == first.strip(), 'not the first')
        taken(rack, 'certificate=same')
        api.trust(rack.folder + '/ca.pem')
        connection = api.connect('sw')
        with contextlib.closing(connection):
            check(api.ask(connection, 'GET', '/v1/health').status == 200, 'before')
            second = new_certificate(rack)
            taken(rack, 'certificate=new')
            check(shown() == second.strip(), 'not the second')
            # Who did nothing has to come again.
            check(connection.sock.recv(1) == b'', 'it has its former certificate still')
        with open(rack.folder + '/weir.key', 'w') as file:
            file.write('nonsense\n')
        refused(rack, 'api.tls.key')
        check(shown() == second.strip(), 'not the second any more')
        for turn in range(4):
            made = new_certificate(rack)
            renewed(rack)
            check(shown() == made.strip(), 'turn %d', turn)
        del rack.changes['api']['tls']
        rack.write_config()
        refused(rack, 'only: api.tls')
        rack.stop_switch()


@case
def clients_that_stay_do_not_stop_new_certificates():
    with Rack(hosts=2) as rack:
        new_certificate(rack)
        api = Control(rack, tls={'certificate': rack.folder + '/weir.crt',
                                 'key': rack.folder + '/weir.key'})
        rack.start_switch()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        ask = b'GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n'
        held = []
        for turn in range(7):
            with rack.inside('sw'):
                connection = context.wrap_socket(
                    socket.create_connection(('127.0.0.1', PORT), 120))
            held.append(connection)
            connection.sendall(ask[:-2])  # on its way, when the certificate changes
            new_certificate(rack)
            api.wait_read()
            renewed(rack)
            connection.sendall(ask[-2:])
            for more in (ask, b''):  # and goes on
                said = b''
                while not said.endswith(b'}\n'):
                    said += connection.recv(4096) or b'closed}\n'
                check(said.startswith(b'HTTP/1.1 200') and b'Connection: close' not in said, '%s', said)
                connection.sendall(more)
        for connection in held:
            connection.close()
        rack.stop_switch()


if __name__ == '__main__':
    main()
