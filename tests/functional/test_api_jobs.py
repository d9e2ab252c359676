#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that come and go over the control API, with real hosts: made, used, changed, deleted, and
refused; and what becomes of the others meanwhile."""
import base64
import contextlib
import hashlib
import sys
import time

from judged import switch
from perf import finish, reduce, start, under_way
from rack import SWITCH_ADDRESS, job
from tap import case, check, main, wait_for

OUTSIDE = '192.0.2.1'


def hash_of(token):
    return hashlib.sha256(token.encode()).hexdigest()


# -- a job's life

@case
def a_job_is_made_used_changed_and_deleted():
    with switch() as (rack, api):
        before = api.memory()
        made = api.create('ring', 2, window=16, policy='wait', timeout_ms=200)
        check(made['state'] == 'joining' and made['origin'] == 'api' and made['joined'] == 0 and
              made['size'] == 2 and made['id'] == 0 and made['generation'] == 0, '%s', made)
        check(api.memory()['blocks_reserved'] == before['blocks_reserved'] + 32, 'records')
        check(api.memory()['free'] < before['free'], 'memory')
        # Before a host has joined over HTTP its packets are not taken.
        early = rack.perf(0, 0, '-b', '4K', '-e', '4K', '--join-timeout', 700, source=0)
        check(early.end(20) == 1, '%s', early.output)
        found = api.join('ring', 0, 2, 0)
        check(found['job'] == 0 and found['source'] == 0 and found['window'] == 16 and
              found['switch']['address'] == SWITCH_ADDRESS, '%s', found)
        api.join('ring', 1, 2, 1)
        check(api.join('ring', 1, 2, 1) is not None, 'the same again')
        reduce(rack, 0, [0, 1], '-b', '4K', '-e', '64K', '-f', 4, '-n', 5)
        now = api.get('/v1/jobs/ring')
        check(now['state'] == 'running' and now['joined'] == 2 and now['generation'] > 0, '%s', now)
        check([m['state'] for m in now['members']] == ['joined'] * 2, '%s', now['members'])
        check([m['port'] for m in now['members']] == ['p0', 'p1'], '%s', now['members'])
        check(now['counters']['blocks_complete'] > 0, '%s', now)
        # A change while it runs.
        runs = start(rack, 0, [0, 1], '-b', '256K', '-e', '256K', '-n', 60)
        for timeout in (30000, 60000, 45000):  # nobody's CPU is away for so long
            changed = api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': timeout, 'policy': 'error'})
            check(changed['timeout_ms'] == timeout and changed['policy'] == 'error', '%s', changed)
        for rejoin in ('revoke', 'wait'):
            changed = api.do('PATCH', '/v1/jobs/ring', {'policy': 'wait', 'rejoin': rejoin})
            check(changed['rejoin'] == rejoin, '%s', changed)
        finish(runs)
        stats = rack.stats_at_rest()
        told = [j for j in stats['jobs'] if j['name'] == 'ring']
        check(len(told) == 1 and told[0]['blocks_complete'] > 0, '%s', stats['jobs'])
        # Deleted under its hosts' feet: they hear within their bound, and not wrong sums.
        runs = start(rack, 0, [0, 1], '-b', '4M', '-e', '4M', '-n', 1000, '--timeout', 60000)
        under_way(rack, runs)
        api.delete('ring')
        for run in runs:
            check(run.end(60) == 1, '%s', run.output)
        api.do('GET', '/v1/jobs/ring', status=404, code='unknown_job')
        api.do('DELETE', '/v1/jobs/ring', status=404, code='unknown_job')
        check(api.memory() == before, '%s is not %s', api.memory(), before)
        check(rack.stats_at_rest()['drops']['unknown_job'] > 0, 'unknown_job')


@case
def the_next_job_of_an_id_is_another():
    """Its generation follows, so that what still flies of the former one is stale."""
    with switch(workers=3) as (rack, api):
        seen = []
        for turn in range(3):
            number = api.job_of('turn%d' % turn, [0, 1], id=9, elements=64 << turn)
            check(number == 9, '%d', number)
            reduce(rack, 9, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
            seen.append(api.get('/v1/jobs/turn%d' % turn)['generation'])
            api.delete('turn%d' % turn)
        check(seen[1] == seen[0] % 65535 + 1 and seen[2] == seen[1] % 65535 + 1, '%s', seen)


@case
def jobs_of_the_file_change_too():
    with switch(jobs=[job(1, 2)]) as (rack, api):
        changed = api.do('PATCH', '/v1/jobs/job1', {'timeout_ms': 123})
        check(changed['timeout_ms'] == 123 and changed['origin'] == 'file', '%s', changed)
        reduce(rack, 1, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
        joined = api.join('job1', 1, 2, 1)
        check(joined['job'] == 1 and joined['timeout_ms'] == 123, '%s', joined)
        api.join('job1', 1, 2, 0, status=409, code='conflict', key='address')
        api.join('job1', 2, 2, 0, status=409, code='conflict', key='rank')
        api.do('DELETE', '/v1/jobs/job1/members/1')
        api.do('DELETE', '/v1/jobs/job1/members/5', status=404, code='unknown_member')
        reduce(rack, 1, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
        api.do('PATCH', '/v1/jobs/job1', {'expire_s': 5}, 409, 'conflict', 'expire_s')
        api.delete('job1')
        # The file has its name and its id: it is back at the next start.
        for taken in ({'name': 'job1'}, {'name': 'job2', 'id': 1}):
            api.do('POST', '/v1/jobs', dict(taken, size=2), 409, 'exists')
        number = api.job_of('job2', [1, 0])
        check(number == 0, '%d', number)
        reduce(rack, number, [1, 0], '-b', '16K', '-e', '16K', '-n', 3)


# -- members

@case
def members_leave_and_others_take_their_rank():
    with switch(hosts=3) as (rack, api):
        number = api.job_of('pair', [0, 1])
        reduce(rack, number, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
        api.join('pair', 1, 2, 2, status=409, code='conflict', key='address')
        api.do('DELETE', '/v1/jobs/pair/members/1')
        api.do('DELETE', '/v1/jobs/pair/members/1', status=404, code='unknown_member')
        api.do('DELETE', '/v1/jobs/pair/members/x', status=404, code='unknown_member')
        check([m['state'] for m in api.get('/v1/jobs/pair')['members']] == ['joined', 'left'],
              'members')
        # One that is late takes nothing from its successor, of the same host and rank.
        late = api.join('pair', 1, 2, 2)['membership']
        now = api.join('pair', 1, 2, 2)['membership']
        leaves = '/v1/jobs/pair/members/1?membership='
        check(now > late, '%d, then %d', late, now)
        api.do('DELETE', leaves + str(late))
        member = api.get('/v1/jobs/pair')['members'][1]
        check(member['state'] != 'left' and member['gone'] is None, '%s', member)
        for wrong, code in (('0', 'out_of_range'), ('x', 'wrong_type')):
            api.do('DELETE', leaves + wrong, status=400, code=code, key='membership')
        api.do('DELETE', leaves + str(now))
        api.do('DELETE', leaves + str(now), status=404, code='unknown_member')
        api.join('pair', 1, 2, 2)
        reduce(rack, number, [0, 2], '-b', '16K', '-e', '16K', '-n', 3)
        # Over TCP the client's address is the default, over the Unix socket there is none.
        api.do('DELETE', '/v1/jobs/pair/members/1')
        api.join('pair', 1, 2, None, status=400, code='missing_key', key='address')
        api.join('pair', 1, 2, None, place=1, address=SWITCH_ADDRESS)
        check(api.get('/v1/jobs/pair')['members'][1]['address'] == rack.address(1), 'address')
        reduce(rack, number, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)


@case
def each_host_speaks_for_itself():
    """Without tenants, whoever comes over TCP may join and leave: at its own address alone."""
    with switch(jobs=[job(1, 2)]) as (rack, api):
        api.create('pair', 2)
        there = [{'place': n, 'address': SWITCH_ADDRESS} for n in range(2)]
        api.join('pair', 0, 2, None, **there[0])

        def ask(host, method, path, body=None):
            return api.do(method, path, body, 403, 'forbidden', 'address', **there[host])

        ask(0, 'POST', '/v1/jobs/pair/members', {'rank': 1, 'size': 2, 'address': rack.address(1)})
        ask(1, 'DELETE', '/v1/jobs/pair/members/0')
        ask(1, 'DELETE', '/v1/jobs/job1/members/0')
        ask(1, 'POST', '/v1/jobs/pair/members', {'rank': 0, 'size': 2, 'address': rack.address(0)})
        api.join('pair', 0, 2, None, status=409, code='conflict', key='address', **there[1])
        check([m['state'] for m in api.get('/v1/jobs/pair')['members']] == ['joined', 'expected'],
              'members')
        api.do('DELETE', '/v1/jobs/pair/members/1', None, 404, 'unknown_member', **there[0])
        api.do('DELETE', '/v1/jobs/pair/members/0', **there[0])
        # An administrator speaks for everybody.
        api.join('pair', 0, 2, 1)
        api.do('DELETE', '/v1/jobs/pair/members/0')


@case
def members_who_are_silent_expire():
    with switch() as (rack, api):
        number = api.job_of('pair', [0, 1], expire_s=1000)
        runs = start(rack, number, [0, 1], '-b', '64K', '-e', '64K', '-n', 1000000)
        under_way(rack, runs)
        api.do('PATCH', '/v1/jobs/pair', {'expire_s': 3})
        time.sleep(4)  # longer than who is silent may stay
        now = api.get('/v1/jobs/pair')
        check([m['state'] for m in now['members']] == ['joined'] * 2, 'who sends expires: %s', now)
        for run in runs:
            run.kill()
        wait_for(lambda: api.get('/v1/jobs/pair')['joined'] == 0, 'nobody expires: %s',
                 lambda: api.get('/v1/jobs/pair'))
        check([m['state'] for m in api.get('/v1/jobs/pair')['members']] == ['expired'] * 2, 'state')
        check('msg="member expired"' in rack.switch.output, 'not logged')
        # In the place of who has expired anybody may come.
        api.join('pair', 0, 2, 1)
        api.join('pair', 1, 2, 0)
        reduce(rack, number, [1, 0], '-b', '16K', '-e', '16K', '-n', 3)


@case
def a_join_makes_the_job():
    with switch() as (rack, api):
        api.join('made', 0, 2, 0, status=404, code='unknown_job')
        create = {'window': 8, 'elements': 64}
        found = api.join('made', 0, 2, 0, create=create)
        check(found['window'] == 8 and found['elements'] == 64, '%s', found)
        api.join('made', 1, 2, 1, create=create)
        reduce(rack, found['job'], [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
        # What is there is what they ask for, or they hear of it: nothing is taken silently.
        same = dict(create, name='made', size=2, type='fp32', op='sum', deterministic=False, results='unicast',
                    policy='wait', timeout_ms=1000, rate_mbit=0, expire_s=0, authenticate=False)
        api.join('made', 1, 2, 1, create=dict(same, id=found['job']))
        check(api.do('GET', '/v1/jobs/made')['element_bytes'] == 4, 'not the size of fp32')
        check(api.create('small', 2, type='fp8_e4m3')['element_bytes'] == 1, 'not the size of fp8')
        api.delete('small')
        api.join('made', 1, 2, 1, create={})
        for key, other in (('window', 16), ('elements', 65), ('type', 'int32'), ('op', 'max'), ('size', 3), ('deterministic', True),
                           ('name', 'mad'), ('results', '239.1.2.3'), ('policy', 'error'),
                           ('timeout_ms', 999), ('rate_mbit', 1), ('dead_after_ms', 1), ('rejoin', 'revoke'),
                           ('expire_s', 1),
                           ('authenticate', True), ('id', found['job'] + 1)):
            api.join('made', 1, 2, 1, create=dict(create, **{key: other}), status=409,
                     code='conflict', key='create.' + key)
        # All or nothing.
        where = {'address': OUTSIDE, 'rank': 0, 'size': 2}
        api.do('POST', '/v1/jobs/other/members', dict(where, create=create), 400, 'out_of_range',
               'address')
        api.do('GET', '/v1/jobs/other', status=404, code='unknown_job')
        api.join('other', 0, 2, 0, create={'size': 3}, status=409, code='conflict',
                 key='create.size')
        api.join('other', 0, 2, 0, create={'name': 'x'}, status=409, code='conflict',
                 key='create.name')
        api.join('other', 0, 2, 0, create={'windov': 3}, status=400, code='unknown_key',
                 key='create.windov')
        api.join('other', 0, 2, 0, create={'window': 4096, 'elements': 4000}, status=400,
                 code='out_of_range', key='create.elements')
        # Without tenants, whoever comes over TCP may join, and not create.
        api.join('other', 0, 2, None, create=create, place=0, address=SWITCH_ADDRESS, status=403,
                 code='forbidden', key='create')
        api.join('made', 0, 2, None, place=0, address=SWITCH_ADDRESS)


@case
def temporary_jobs_end_by_themselves():
    with switch(open_jobs=256) as (rack, api):
        def there(name):
            return any(j['name'] == name and j['state'] != 'draining' for j in api.get('/v1/jobs')['jobs'])

        create, soon = {'temporary': True, 'expire_s': 1000}, {'temporary': True, 'expire_s': 1}
        # Hosts make it by their joins, and it ends with the last one of them.
        for _ in range(2):
            for rank in range(2):
                found = api.join('pair', rank, 2, None, create=create, place=rank, address=SWITCH_ADDRESS)
            reduce(rack, found['job'], [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
            told = api.do('GET', '/v1/jobs/pair')
            check(told['temporary'] and told['expire_s'] == 1000, '%s', told)
            for rank in range(2):
                check(there('pair'), 'rank %d is still in', rank)
                api.do('DELETE', '/v1/jobs/pair/members/%d' % rank, place=rank, address=SWITCH_ADDRESS)
            check(not there('pair'), 'it is without members')
        # They expire; or none joins.
        api.join('pair', 0, 2, None, create=soon, place=0, address=SWITCH_ADDRESS)
        api.do('POST', '/v1/jobs', dict(soon, name='empty', size=2), 201, place=1, address=SWITCH_ADDRESS)
        api.create('stays', 2)
        wait_for(lambda: not there('pair') and not there('empty'), 'they stay: %s', lambda: api.get('/v1/jobs'))
        check(there('stays'), 'it was not temporary')
        told = api.create('default', 2, temporary=True)
        check(told['expire_s'] == 30 and told['elements'] == 320, '%s', told)
        # Whoever asks for as many as fit, asks for what there is.
        api.join('default', 0, 2, 0, create={'temporary': True, 'elements': 0})
        api.join('default', 1, 2, 1, create={'elements': 64}, status=409, code='conflict', key='create.elements')
        check(api.create('fits', 2, elements=0, policy='partial')['elements'] == 320, 'elements')
        api.create('never', 2, temporary=True, expire_s=0, status=400, code='out_of_range', key='expire_s')
        api.do('PATCH', '/v1/jobs/default', {'expire_s': 0}, 400, 'out_of_range', 'expire_s')


@case
def temporary_jobs_are_deleted_by_prefix():
    tenants = [{'name': n, 'token_sha256': hash_of(n)} for n in ('a', 'b')]
    with switch(tenants=tenants) as (rack, api):
        def names():
            return sorted(j['name'] for j in api.get('/v1/jobs')['jobs'] if j['state'] != 'draining')

        def delete(query, status=200, **more):
            return api.do('DELETE', '/v1/jobs' + query, None, status, **more)

        for name, more in (('run.0', {}), ('run.1', {}), ('runs', {}), ('run.stays', {'temporary': False})):
            api.create(name, 2, token='a', **dict({'temporary': True}, **more))
        api.create('run.b', 2, token='b', temporary=True)
        for query in ('', '?prefix=', '?name=run.'):
            delete(query, 400, token='a')
        check(delete('?prefix=walk.', token='a')['deleted'] == 0, 'another prefix')
        check(delete('?prefix=run.', token='a')['deleted'] == 2, 'its own')
        check(names() == ['run.b', 'run.stays', 'runs'], '%s', names())
        weirctl = [rack.program(('ctl', 'weirctl')), '-s', 'unix:' + api.path]
        jobs = rack.spawn('sw', weirctl + ['jobs'])
        check(jobs.end(20) == 0 and jobs.output.count('temporary') == 2, '%s', jobs.output)
        ctl = rack.spawn('sw', weirctl + ['job', 'delete', '--prefix', 'run'])
        check(ctl.end(20) == 0 and '2 deleted' in ctl.output, '%s', ctl.output)
        check(names() == ['run.stays'], '%s', names())


@case
def job_ids_run_out():
    """270 temporary jobs are alive at once, or nearly; then 300 come and go in a row."""
    with switch(open_jobs=256, changes={'tables': {'blocks': 65536}, 'memory_mb': 256}) as (rack, api):
        with contextlib.closing(api.connect(0, SWITCH_ADDRESS)) as connection:
            def join(name):
                return api.ask(connection, 'POST', '/v1/jobs/%s/members' % name, {
                    'rank': 0, 'size': 1, 'create': {'temporary': True, 'expire_s': 1000}})

            def leave(name):
                return api.ask(connection, 'DELETE', '/v1/jobs/%s/members/0' % name).status

            answers = [join('job-%d' % number) for number in range(270)]
            check([a.status for a in answers] == [200] * 256 + [507] * 14, '%s', [a.text for a in answers[255:258]])
            check(answers[-1].code == 'no_free_job', '%s', answers[-1].text)
            api.judge('POST', '/v1/jobs/x/members', answers[-1])
            check(sorted({a.body['job'] for a in answers[:256]}) == list(range(256)), 'ids')
            check(all(leave('job-%d' % number) == 200 for number in range(256)), 'leave')
            for number in range(300):
                wait_for(lambda: join('job').status == 200, 'job %d', number)
                check(leave('job') == 200, 'job %d', number)
        check(not api.get('/v1/jobs')['jobs'], 'jobs are left')
        rack.check_packets()


@case
def keys_go_where_nobody_listens():
    with switch() as (rack, api):
        made = api.create('sealed', 2, authenticate=True)
        check(made['authenticate'] and 'key' not in made, '%s', made)
        keys = [base64.b64decode(api.join('sealed', rank, 2, rank)['key']) for rank in (0, 1)]
        keys.append(base64.b64decode(api.join('sealed', 0, 2, 0)['key']))
        check(all(len(key) == 32 and len(set(key)) > 8 for key in keys), '%s', keys)
        check(len(set(keys)) == 3, 'two ranks or memberships with one key: %s', keys)
        found = api.join('sealed', 0, 2, 0, place=0, address=SWITCH_ADDRESS, status=403,
                         code='forbidden')
        check('TLS' in found['error']['message'], '%s', found)
        # Who has no key is not heard.
        rack.keys.clear()
        run = rack.perf(0, made['id'], '-b', '4K', '-e', '4K', '--join-timeout', 700, source=0)
        check(run.end(20) == 1, '%s', run.output)
        check(api.get('/v1/counters')['drops']['forged'] > 0, 'forged')
        # Who asks for it sums under it.
        runs = [rack.spawn(host, [rack.program(('perf', 'weir-perf')), '--switch',
                                  'unix:' + api.path, '--job-name', 'sealed', '--address',
                                  rack.address(host), '--source', str(host), '--sources', '2', '-b',
                                  '4', '-e', '64K', '-f', '8', '-n', '3', '-d', 'int32'])
                for host in range(2)]
        for run in runs:
            run.wait(30)
        # Joins of other jobs are proved, too, and their keys are given to all members.
        api.create('open', 2)
        keys += [base64.b64decode(api.join('open', 0, 2, None, place=0, address=SWITCH_ADDRESS)['key'])
                 for _ in range(2)]
        check(len(keys[4]) == 32 and len(set(keys)) == 5, '%s', keys)
        api.create('another', 2, authenticate=True)
        other = base64.b64decode(api.join('another', 0, 2, 0)['key'])
        check(other not in keys, 'two jobs with one key')
        check('key' not in str(api.get('/v1/jobs/sealed')) and
              base64.b64encode(other).decode() not in rack.switch.output, 'the key is told')


# -- refusals

@case
def blocks_that_exceed_the_mtu_are_refused():
    """Else the packets would be lost without a counter. The links of the rack have an MTU of 1500."""
    with switch() as (rack, api):
        refused = api.create('wide', 2, 400, code='out_of_range', key='elements', elements=365)
        check('has MTU 1500: ip link set dev' in refused['error']['message'], '%s', refused)
        api.create('fits', 2, elements=364)
        joined = api.join('fits', 0, 2, 0)
        check(joined['switch']['mtu'] == 1500 and joined['datagram_bytes'] == 1500, '%s', joined)
        api.do('PATCH', '/v1/jobs/fits', {'policy': 'partial'}, 400, 'out_of_range', 'policy')
        api.do('PATCH', '/v1/jobs/fits', {'timeout_ms': 2000})


@case
def what_can_not_be_is_refused_and_changes_nothing():
    with switch(jobs=[job(1, 2)], changes={'tables': {'blocks': 4096}}) as (rack, api):
        api.create('ring', 2)
        before, jobs = api.memory(), api.get('/v1/jobs')

        def refused(body, status, code, key=None):
            api.do('POST', '/v1/jobs', body, status, code, key)

        good = {'name': 'x', 'size': 2}
        refused(dict(good, name='ring'), 409, 'exists', 'name')
        refused(dict(good, name='job1'), 409, 'exists', 'name')
        refused(dict(good, id=1), 409, 'exists', 'id')
        refused(dict(good, id=256), 400, 'out_of_range', 'id')
        refused({'name': 'x'}, 400, 'missing_key', 'size')
        refused({'size': 2}, 400, 'missing_key', 'name')
        refused(dict(good, name='-x'), 400, 'out_of_range', 'name')
        refused(dict(good, name='x' * 32), 400, 'out_of_range', 'name')
        refused(dict(good, size=257), 400, 'out_of_range', 'size')
        refused(dict(good, size='2'), 400, 'wrong_type', 'size')
        refused(dict(good, window=48), 400, 'out_of_range', 'window')
        refused(dict(good, window=8192), 400, 'out_of_range', 'window')
        refused(dict(good, type='fp8'), 400, 'out_of_range', 'type')
        refused(dict(good, results='10.0.0.1'), 400, 'out_of_range', 'results')
        refused(dict(good, results='224.0.0.251'), 400, 'out_of_range', 'results')
        refused(dict(good, hosts=[]), 400, 'unknown_key', 'hosts')
        # More than a frame of the ports carries.
        refused(dict(good, elements=500), 400, 'out_of_range', 'elements')
        # 2 x 2048 records are there, less those of the two jobs.
        error = api.do('POST', '/v1/jobs', dict(good, window=2048), 507, 'no_memory', 'window')
        error = error['error']
        check(error['needed']['blocks'] == 4096 and error['free']['blocks'] == 4096 - 256, '%s',
              error)
        api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': 0}, 400, 'out_of_range', 'timeout_ms')
        api.do('PATCH', '/v1/jobs/ring', {'window': 32}, 400, 'unknown_key', 'window')
        api.do('PATCH', '/v1/jobs/none', {'timeout_ms': 10}, 404, 'unknown_job')
        for wrong in (OUTSIDE, SWITCH_ADDRESS, '10.77.0.255', '10.77.0.0'):
            api.do('POST', '/v1/jobs/ring/members', {'rank': 0, 'size': 2, 'address': wrong}, 400,
                   'out_of_range', 'address')
        api.join('ring', 2, 2, 0, status=400, code='out_of_range', key='rank')
        api.join('ring', 0, 3, 0, status=409, code='conflict', key='size')
        check(api.memory() == before, '%s is not %s', api.memory(), before)
        check(api.get('/v1/jobs')['jobs'][0]['joined'] == 0, '%s', jobs)
        check([j['name'] for j in api.get('/v1/jobs')['jobs']] == ['ring', 'job1'], 'jobs')


@case
def memory_runs_out_and_is_said():
    with switch(changes={'tables': {'blocks': 1 << 17}, 'memory_mb': 160}) as (rack, api):
        before = api.memory()
        names = []
        for number in range(256):
            answer = api.unix('POST', '/v1/jobs', {'name': 'j%d' % number, 'size': 2,
                                                   'window': 2048, 'elements': 340})
            if answer.status != 201:
                break
            names.append('j%d' % number)
        check(answer.status == 507 and answer.code == 'no_memory', '%s', answer.text)
        api.judge('POST', '/v1/jobs', answer)
        error = answer.body['error']
        check(error['free']['memory'] < error['needed']['memory'] and len(names) > 2, '%s', error)
        number = api.create('small', 2, window=1)['id']
        check(number == len(names), '%d', number)
        for name in names + ['small']:
            api.delete(name)
        check(api.memory() == before, '%s is not %s', api.memory(), before)


# -- tenants

@case
def tenants_do_not_see_each_other():
    quota = {'jobs': 2, 'members': 4, 'blocks': 512, 'memory_mb': 1, 'rate_mbit': 1000}
    tenants = [{'name': 'vision', 'token_sha256': hash_of('v'), 'quota': quota},
               {'name': 'speech', 'token_sha256': hash_of('s')}]
    with switch(tenants=tenants) as (rack, api):
        v, s = {'token': 'v'}, {'token': 's'}
        mine = api.create('ring', 2, rate_mbit=600, **v)
        check(mine['tenant'] == 'vision', '%s', mine)
        for method, path, body in (
                ('GET', '/v1/jobs/ring', None), ('DELETE', '/v1/jobs/ring', None),
                ('PATCH', '/v1/jobs/ring', {'timeout_ms': 1}),
                ('POST', '/v1/jobs/ring/members', {'rank': 0, 'size': 2, 'address': '10.77.0.1'}),
                ('DELETE', '/v1/jobs/ring/members/0', None)):
            api.do(method, path, body, 404, 'unknown_job', **s)
        check(api.do('GET', '/v1/jobs', **s)['jobs'] == [], 'seen')
        api.create('ring', 2, status=409, code='exists', key='name', **s)
        api.do('POST', '/v1/jobs', {'name': 'x', 'size': 2}, 401, 'unauthorized', place='sw')
        # Ids are the administrator's to give.
        api.create('x', 2, id=9, status=403, code='forbidden', key='id', **s)
        api.do('POST', '/v1/jobs/x/members', {'rank': 0, 'size': 2, 'address': '10.77.0.1',
                                              'create': {'id': 9}}, 403, 'forbidden', 'create.id',
               **s)
        # So that nobody gets another's results.
        api.create('group', 2, results='239.1.1.1', **s)
        api.create('x', 2, rate_mbit=1, results='239.1.1.1', status=409, code='conflict',
                   key='results', **v)
        api.create('again', 2, results='239.1.1.1', **s)
        api.do('DELETE', '/v1/jobs/group', **s)
        api.do('DELETE', '/v1/jobs/again', **s)
        # What vision may have.
        api.create('x', 2, status=403, code='quota', key='rate_mbit', **v)
        api.create('x', 2, rate_mbit=401, status=403, code='quota', key='rate_mbit', **v)
        api.create('x', 2, rate_mbit=1, window=256, status=403, code='quota', key='window', **v)
        api.create('x', 3, rate_mbit=1, status=403, code='quota', key='size', **v)
        api.do('PATCH', '/v1/jobs/ring', {'rate_mbit': 1001}, 403, 'quota', 'rate_mbit', **v)
        api.create('two', 1, rate_mbit=400, window=1, **v)
        api.create('three', 1, rate_mbit=1, window=1, status=403, code='quota', **v)
        use = {t['name']: t for t in api.do('GET', '/v1/tenants')['tenants']}
        check(use['vision']['jobs'] == 2 and use['vision']['blocks'] == 130 and
              use['vision']['members'] == 3 and use['vision']['rate_mbit'] == 1000 and use['vision']['memory'] > 128 * 1024, '%s', use)
        check(use['speech']['jobs'] == 0 and use['speech']['memory'] == 0, '%s', use)
        # A job of one that is an administrator's on the socket stays whose it is.
        api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': 500})
        check(api.do('GET', '/v1/jobs/ring', **v)['timeout_ms'] == 500, 'changed')
        for rank in range(2):
            api.join('ring', rank, 2, rank, **v)
        reduce(rack, mine['id'], [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
        api.do('DELETE', '/v1/jobs/two', **v)
        api.create('three', 1, rate_mbit=1, window=1, **v)
        log = rack.switch.output
        for word in ('msg="job created"', 'tenant=vision', 'msg="change refused"', 'code=quota',
                     'msg="job changed"', 'msg="member joined"', 'msg="job deleted"'):
            check(word in log, '%s is not logged', word)


# -- the others do not notice

@case
def many_jobs_come_and_go_while_two_run():
    with switch(hosts=4, jobs=[job(1, 2), job(2, 2, first=2)], workers=2) as (rack, api):
        # Once before: what DPDK's heap keeps for itself is there then.
        api.job_of('warm', [0, 1], window=64)
        api.delete('warm')
        before = api.memory()

        def go():
            return [start(rack, 1 + i, [2 * i, 2 * i + 1], '-b', '256K', '-e', '256K', '-n', 300)
                    for i in range(2)]

        runs, rounds, beside, turn = go(), 1, 0, 0
        while turn < 64 or beside < 16:
            number = api.job_of('turn%d' % turn, [turn % 4, (turn + 1) % 4],
                                window=1 << turn % 8, elements=1 + turn % 64 * 5)
            if turn % 8 == 0:
                reduce(rack, number, [turn % 4, (turn + 1) % 4], '-b', '4K', '-e', '4K', '-n', 2)
            api.delete('turn%d' % turn)
            if all(run.status is None for pair in runs for run in pair):
                beside += 1
            else:
                for pair in runs:
                    finish(pair)
                runs, rounds = go(), rounds + 1
            turn += 1
        for pair in runs:
            finish(pair)
        print('# %d of %d turns while both ran, in %d rounds' % (beside, turn, rounds))
        for name in ('job1', 'job2'):
            count = api.get('/v1/jobs/' + name)['counters']
            check(count['blocks_error'] == 0 and count['blocks_partial'] == 0 and
                  count['blocks_mismatch'] == 0 and count['stale'] == 0, '%s', count)
        wait_for(lambda: api.memory()['free'] == before['free'], '%s is not %s', api.memory, before)
        now = api.memory()
        # The two jobs keep the results of their last windows.
        used = now.pop('blocks_used')
        before.pop('blocks_used')
        check(now == before, '%s is not %s', now, before)
        check(used <= 256, '%d blocks', used)
        check(api.get('/v1/status')['jobs'] == 2, 'jobs')
        rack.check_packets()


if __name__ == '__main__':
    sys.exit(main())
