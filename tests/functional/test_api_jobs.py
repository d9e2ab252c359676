#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that come and go over the control API, with real hosts: made, used, changed, deleted, and
refused; and what becomes of the others meanwhile."""
import base64
import contextlib

from control import switch, tenant
from perf import SLOWER, beside, finish, reduce, start, under_way
from rack import SWITCH_ADDRESS, job
from tap import case, check, main, shared, wait_for

OUTSIDE = '192.0.2.1'
FEW = ('-b', '16K', '-e', '16K', '-n', 3)
THERE = [{'place': host, 'address': SWITCH_ADDRESS} for host in range(3)]  # over TCP, from a host


@shared
def plain():
    """A rack without tenants; each case leaves what it has found: job1."""
    with switch(hosts=3, jobs=[job(1, 2)], changes={'tables': {'blocks': 4096}}) as found:
        yield found
        found[0].check_packets()


def states(api, name):
    return [m['state'] for m in api.get('/v1/jobs/' + name)['members']]


# -- a job's life

@case
def a_job_is_made_used_changed_and_deleted():
    rack, api = plain()
    before = api.memory()
    made = api.create('ring', 2, window=16, policy='wait', timeout_ms=200)
    check(made['state'] == 'joining' and made['origin'] == 'api' and made['joined'] == 0 and
          made['size'] == 2 and made['id'] == 0 and made['generation'] == 0, '%s', made)
    check(api.memory()['blocks_reserved'] == before['blocks_reserved'] + 32, 'records')
    check(api.memory()['free'] < before['free'], 'memory')
    # Before a host has joined over HTTP its packets are not taken.
    early = rack.perf(0, 0, '-b', '4K', '-e', '4K', '--join-timeout', 300, source=0)
    check(early.end(20) == 1, '%s', early.output)
    found = api.join('ring', 0, 2, 0)
    check(found['job'] == 0 and found['source'] == 0 and found['window'] == 16 and
          found['switch']['address'] == SWITCH_ADDRESS, '%s', found)
    api.join('ring', 1, 2, 1)
    check(api.join('ring', 1, 2, 1) is not None, 'the same again')
    reduce(rack, 0, [0, 1], '-b', '4K', '-e', '64K', '-f', 4, '-n', 5)
    now = api.get('/v1/jobs/ring')
    check(now['state'] == 'running' and now['joined'] == 2 and now['generation'] > 0, '%s', now)
    check([(m['state'], m['port']) for m in now['members']] == [('joined', 'p0'), ('joined', 'p1')], '%s', now['members'])
    check(now['counters']['blocks_complete'] > 0, '%s', now)
    # A change while it runs.
    runs = start(rack, 0, [0, 1], '-b', '256K', '-e', '256K', '-n', 20)
    for change in ({'timeout_ms': 30000, 'policy': 'error'}, {'timeout_ms': 60000, 'policy': 'error'},  # no CPU is away so long
                   {'policy': 'wait', 'rejoin': 'revoke'}, {'rejoin': 'wait', 'timeout_ms': 1000}):
        changed = api.do('PATCH', '/v1/jobs/ring', change)
        check(change.items() <= changed.items(), '%s', changed)
    finish(runs)
    told = [j for j in rack.stats_at_rest()['jobs'] if j['name'] == 'ring']
    check(len(told) == 1 and told[0]['blocks_complete'] > 0, '%s', told)
    # Deleted under its hosts' feet: they hear within their bound, and not wrong sums.
    runs = start(rack, 0, [0, 1], '-b', '4M', '-e', '4M', '-n', 1000, '--timeout', 3000, '--join-timeout', 60000)
    under_way(rack, runs, 0)
    api.delete('ring')
    for run in runs:
        check(run.end(60) == 1, '%s', run.output)
    for method in 'GET', 'DELETE':
        api.do(method, '/v1/jobs/ring', status=404, code='unknown_job')
    check(api.memory() == before, '%s is not %s', api.memory(), before)
    check(rack.stats_at_rest()['drops']['unknown_job'] > 0, 'unknown_job')


@case
def the_next_job_of_an_id_is_another():
    """Its generation follows, so that what still flies of the former one is stale."""
    rack, api = plain()
    seen = []
    for turn in range(3):
        name = 'turn%d' % turn
        check(api.job_of(name, [0, 1], id=9, elements=64 << turn) == 9, 'another id')
        reduce(rack, 9, [0, 1], *FEW)
        seen.append(api.get('/v1/jobs/' + name)['generation'])
        api.delete(name)
    check(seen[1] == seen[0] % 65535 + 1 and seen[2] == seen[1] % 65535 + 1, '%s', seen)


# -- members

@case
def members_leave_and_others_take_their_rank():
    rack, api = plain()
    number = api.job_of('pair', [0, 1])
    reduce(rack, number, [0, 1], *FEW)
    api.join('pair', 1, 2, 2, status=409, code='conflict', key='address')
    api.leave('pair', 1)
    for nobody in 1, 'x':
        api.leave('pair', nobody, 404, 'unknown_member')
    check(states(api, 'pair') == ['joined', 'left'], 'members')
    # One that is late takes nothing from its successor, of the same host and rank.
    late, now = (api.join('pair', 1, 2, 2)['membership'] for _ in range(2))
    check(now > late, '%d, then %d', late, now)
    api.leave('pair', '1?membership=%d' % late)
    member = api.get('/v1/jobs/pair')['members'][1]
    check(member['state'] != 'left' and member['gone'] is None, '%s', member)
    for wrong, code in (('0', 'out_of_range'), ('x', 'wrong_type')):
        api.leave('pair', '1?membership=' + wrong, 400, code, key='membership')
    api.leave('pair', '1?membership=%d' % now)
    api.leave('pair', '1?membership=%d' % now, 404, 'unknown_member')
    api.join('pair', 1, 2, 2)
    reduce(rack, number, [0, 2], *FEW)
    # Over TCP the client's address is the default, over the Unix socket there is none.
    api.leave('pair', 1)
    api.join('pair', 1, 2, None, status=400, code='missing_key', key='address')
    api.join('pair', 1, 2, None, **THERE[1])
    check(api.get('/v1/jobs/pair')['members'][1]['address'] == rack.address(1), 'address')
    reduce(rack, number, [0, 1], *FEW)
    api.delete('pair')


@case
def each_host_speaks_for_itself():
    """Without tenants, whoever comes over TCP may join and leave: at its own address alone."""
    rack, api = plain()
    api.create('pair', 2)
    api.join('pair', 0, 2, None, **THERE[0])
    forbidden = {'status': 403, 'code': 'forbidden', 'key': 'address'}
    api.join('pair', 1, 2, 1, **forbidden, **THERE[0])
    api.join('pair', 0, 2, 0, **forbidden, **THERE[1])
    for name in 'pair', 'job1':
        api.leave(name, 0, **forbidden, **THERE[1])
    api.join('pair', 0, 2, None, status=409, code='conflict', key='address', **THERE[1])
    check(states(api, 'pair') == ['joined', 'expected'], 'members')
    api.leave('pair', 1, 404, 'unknown_member', **THERE[0])
    api.leave('pair', 0, **THERE[0])
    # An administrator speaks for everybody.
    api.join('pair', 0, 2, 1)
    api.leave('pair', 0)
    api.delete('pair')


@case
def members_who_are_silent_expire():
    rack, api = plain()
    number = api.job_of('pair', [0, 1], expire_s=1000)
    runs = start(rack, number, [0, 1], '-b', '64K', '-e', '64K', '-n', 1000000)
    under_way(rack, runs, number)
    done = api.get('/v1/jobs/pair')['counters']['blocks_complete']
    api.do('PATCH', '/v1/jobs/pair', {'expire_s': 2})
    wait_for(lambda: api.get('/v1/jobs/pair')['counters']['blocks_complete'] > done + 2000, 'nothing happens')
    check(states(api, 'pair') == ['joined'] * 2, 'who sends expires')
    for run in runs:
        run.kill()
    wait_for(lambda: states(api, 'pair') == ['expired'] * 2, 'nobody expires: %s', lambda: states(api, 'pair'))
    check(api.get('/v1/jobs/pair')['joined'] == 0, 'joined')
    check('msg="member expired"' in rack.switch.output, 'not logged')
    # In the place of who has expired anybody may come.
    for rank in range(2):
        api.join('pair', rank, 2, 1 - rank)
    reduce(rack, number, [1, 0], *FEW)
    api.delete('pair')


@case
def a_join_makes_the_job():
    rack, api = plain()
    create = {'window': 8, 'elements': 64}
    api.join('made', 0, 2, 0, status=404, code='unknown_job')
    found = api.join('made', 0, 2, 0, create=create)
    check(found['window'] == 8 and found['elements'] == 64, '%s', found)
    api.join('made', 1, 2, 1, create=create)
    reduce(rack, found['job'], [0, 1], *FEW)
    # What is there is what they ask for, or they hear of it: nothing is taken silently.
    same = dict(create, name='made', size=2, type='fp32', op='sum', deterministic=False, results='unicast',
                policy='wait', timeout_ms=1000, rate_mbit=0, expire_s=0, authenticate=False, id=found['job'])
    for good in same, {}:
        api.join('made', 1, 2, 1, create=good)
    check(api.get('/v1/jobs/made')['element_bytes'] == 4, 'not the size of fp32')
    others = {'window': 16, 'elements': 65, 'type': 'int32', 'op': 'max', 'size': 3, 'deterministic': True, 'name': 'mad',
              'results': '239.1.2.3', 'policy': 'error', 'timeout_ms': 999, 'rate_mbit': 1, 'dead_after_ms': 1,
              'rejoin': 'revoke', 'expire_s': 1, 'authenticate': True, 'id': found['job'] + 1}
    for key, other in others.items():
        api.join('made', 1, 2, 1, create=dict(create, **{key: other}), status=409, code='conflict', key='create.' + key)
    # All or nothing.
    api.do('POST', '/v1/jobs/other/members', {'address': OUTSIDE, 'rank': 0, 'size': 2, 'create': create}, 400,
           'out_of_range', 'address')
    api.do('GET', '/v1/jobs/other', status=404, code='unknown_job')
    for wrong, status, code, key in (({'size': 3}, 409, 'conflict', 'size'), ({'name': 'x'}, 409, 'conflict', 'name'),
                                     ({'windov': 3}, 400, 'unknown_key', 'windov'),
                                     ({'window': 4096, 'elements': 4000}, 400, 'out_of_range', 'elements')):
        api.join('other', 0, 2, 0, create=wrong, status=status, code=code, key='create.' + key)
    # Without tenants, whoever comes over TCP may join, and not create.
    api.join('other', 0, 2, None, create=create, status=403, code='forbidden', key='create', **THERE[0])
    api.join('made', 0, 2, None, **THERE[0])
    api.delete('made')


@case
def keys_go_where_nobody_listens():
    rack, api = plain()
    made = api.create('sealed', 2, authenticate=True)
    check(made['authenticate'] and 'key' not in made, '%s', made)

    def key(name, rank, **who):
        return base64.b64decode(api.join(name, rank, 2, rank, **who)['key'])

    keys = [key('sealed', rank) for rank in (0, 1, 0)]
    found = api.join('sealed', 0, 2, 0, status=403, code='forbidden', **THERE[0])
    check('TLS' in found['error']['message'], '%s', found)
    # Who has no key is not heard.
    rack.keys.clear()
    run = rack.perf(0, made['id'], '-b', '4K', '-e', '4K', '--join-timeout', 300, source=0)
    check(run.end(20) == 1, '%s', run.output)
    check(api.get('/v1/counters')['drops']['forged'] > 0, 'forged')
    # Who asks for it sums under it.
    runs = [rack.spawn(host, [rack.program(('perf', 'weir-perf')), '--switch', 'unix:' + api.path, '--job-name', 'sealed',
                              '--address', rack.address(host), '--source', str(host), '--sources', '2', '-b', '4', '-e',
                              '64K', '-f', '8', '-n', '3', '-d', 'int32']) for host in range(2)]
    for run in runs:
        run.wait(30)
    # Joins of other jobs are proved, too, and their keys are given to all members.
    api.create('open', 2)
    keys += [key('open', 0, **THERE[0]) for _ in range(2)]
    api.create('another', 2, authenticate=True)
    keys.append(key('another', 0))
    check(all(len(k) == 32 and len(set(k)) > 8 for k in keys), '%s', keys)
    check(len(set(keys)) == 6, 'two ranks, memberships or jobs with one key: %s', keys)
    check('key' not in str(api.get('/v1/jobs/sealed')), 'the key is told')
    check(not any(base64.b64encode(k).decode() in rack.switch.output for k in keys), 'the log has a key')
    for name in 'sealed', 'open', 'another':
        api.delete(name)


# -- refusals

@case
def blocks_that_exceed_the_mtu_are_refused():
    """Else the packets would be lost without a counter. The links of the rack have an MTU of 1500."""
    _, api = plain()
    refused = api.create('wide', 2, 400, code='out_of_range', key='elements', elements=365)
    check('has MTU 1500: ip link set dev' in refused['error']['message'], '%s', refused)
    api.create('fits', 2, elements=364)
    joined = api.join('fits', 0, 2, 0)
    check(joined['switch']['mtu'] == 1500 and joined['datagram_bytes'] == 1500, '%s', joined)
    api.do('PATCH', '/v1/jobs/fits', {'policy': 'partial'}, 400, 'out_of_range', 'policy')
    api.do('PATCH', '/v1/jobs/fits', {'timeout_ms': 2000})
    api.delete('fits')
    check(api.create('small', 2, type='fp8_e4m3')['element_bytes'] == 1, 'not the size of fp8')
    api.delete('small')


REFUSED = [
    ({'name': 'ring'}, 409, 'exists', 'name'),
    ({'name': 'job1'}, 409, 'exists', 'name'),
    ({'id': 1}, 409, 'exists', 'id'),
    ({'id': 256}, 400, 'out_of_range', 'id'),
    ({'size': None}, 400, 'missing_key', 'size'),
    ({'name': None}, 400, 'missing_key', 'name'),
    ({'name': '-x'}, 400, 'out_of_range', 'name'),
    ({'name': 'x' * 32}, 400, 'out_of_range', 'name'),
    ({'size': 257}, 400, 'out_of_range', 'size'),
    ({'size': '2'}, 400, 'wrong_type', 'size'),
    ({'window': 48}, 400, 'out_of_range', 'window'),
    ({'window': 8192}, 400, 'out_of_range', 'window'),
    ({'type': 'fp8'}, 400, 'out_of_range', 'type'),
    ({'results': '10.0.0.1'}, 400, 'out_of_range', 'results'),
    ({'results': '224.0.0.251'}, 400, 'out_of_range', 'results'),
    ({'hosts': []}, 400, 'unknown_key', 'hosts'),
    ({'elements': 500}, 400, 'out_of_range', 'elements'),  # more than a frame of the ports carries
]


@case
def what_can_not_be_is_refused_and_changes_nothing():
    _, api = plain()
    api.create('ring', 2)
    before = api.memory()
    for change, status, code, key in REFUSED:
        body = {k: v for k, v in dict({'name': 'x', 'size': 2}, **change).items() if v is not None}
        api.do('POST', '/v1/jobs', body, status, code, key)
    # 2 x 2048 records are there, less those of the two jobs.
    error = api.create('x', 2, 507, code='no_memory', key='window', window=2048)['error']
    check(error['needed']['blocks'] == 4096 and error['free']['blocks'] == 4096 - 256, '%s', error)
    api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': 0}, 400, 'out_of_range', 'timeout_ms')
    api.do('PATCH', '/v1/jobs/ring', {'window': 32}, 400, 'unknown_key', 'window')
    api.do('PATCH', '/v1/jobs/none', {'timeout_ms': 10}, 404, 'unknown_job')
    for wrong in (OUTSIDE, SWITCH_ADDRESS, '10.77.0.255', '10.77.0.0'):
        api.do('POST', '/v1/jobs/ring/members', {'rank': 0, 'size': 2, 'address': wrong}, 400, 'out_of_range', 'address')
    api.join('ring', 2, 2, 0, status=400, code='out_of_range', key='rank')
    api.join('ring', 0, 3, 0, status=409, code='conflict', key='size')
    check(api.memory() == before, '%s is not %s', api.memory(), before)
    check([(j['name'], j['joined']) for j in api.get('/v1/jobs')['jobs']][0] == ('ring', 0), 'jobs')
    api.delete('ring')


@case
def memory_runs_out_and_is_said():
    with switch(changes={'tables': {'blocks': 1 << 17}, 'memory_mb': 160}) as (_, api):
        before = api.memory()
        answer = {}
        names = []
        while 'error' not in answer:
            names.append('j%d' % len(names))
            answer = api.create(names[-1], 2, (201, 507), window=2048, elements=340)
        error = answer['error']
        check(error['code'] == 'no_memory' and error['free']['memory'] < error['needed']['memory'] and len(names) > 3,
              '%s', error)
        check(api.create('small', 2, window=1)['id'] == len(names) - 1, 'another id')
        for name in names[:-1] + ['small']:
            api.delete(name)
        check(api.memory() == before, '%s is not %s', api.memory(), before)


# -- temporary jobs

@shared
def open_rack():
    """Whose hosts may make jobs."""
    with switch(open_jobs=256, changes={'tables': {'blocks': 65536}, 'memory_mb': 256}) as found:
        yield found
        found[0].check_packets()


@case
def temporary_jobs_end_by_themselves():
    rack, api = open_rack()
    create, soon = {'temporary': True, 'expire_s': 1000}, {'temporary': True, 'expire_s': 1}
    # Hosts make it by their joins, and it ends with the last one of them.
    for _ in range(2):
        for rank in range(2):
            found = api.join('pair', rank, 2, None, create=create, **THERE[rank])
        reduce(rack, found['job'], [0, 1], *FEW)
        told = api.get('/v1/jobs/pair')
        check(told['temporary'] and told['expire_s'] == 1000, '%s', told)
        for rank in range(2):
            check('pair' in api.jobs(), 'rank %d is still in', rank)
            api.leave('pair', rank, **THERE[rank])
        check('pair' not in api.jobs(), 'it is without members')
    # They expire; or none joins.
    api.join('pair', 0, 2, None, create=soon, **THERE[0])
    api.create('empty', 2, **soon, **THERE[1])
    api.create('stays', 2)
    wait_for(lambda: set(api.jobs()) == {'stays'}, 'they stay, or all go: %s', api.jobs)
    told = api.create('default', 2, temporary=True)
    check(told['expire_s'] == 30 and told['elements'] == 320, '%s', told)
    # Whoever asks for as many as fit, asks for what there is.
    api.join('default', 0, 2, 0, create={'temporary': True, 'elements': 0})
    api.join('default', 1, 2, 1, create={'elements': 64}, status=409, code='conflict', key='create.elements')
    check(api.create('fits', 2, elements=0, policy='partial')['elements'] == 320, 'elements')
    api.create('never', 2, temporary=True, expire_s=0, status=400, code='out_of_range', key='expire_s')
    api.do('PATCH', '/v1/jobs/default', {'expire_s': 0}, 400, 'out_of_range', 'expire_s')
    for name in api.jobs():
        api.delete(name)


@case
def job_ids_run_out():
    """270 temporary jobs are alive at once, or nearly; then more come and go in a row."""
    _, api = open_rack()
    with contextlib.closing(api.connect(0, SWITCH_ADDRESS)) as connection:
        def join(name):
            return api.ask(connection, 'POST', '/v1/jobs/%s/members' % name, {
                'rank': 0, 'size': 1, 'create': {'temporary': True, 'expire_s': 1000}})

        def leave(name):
            return api.ask(connection, 'DELETE', '/v1/jobs/%s/members/0' % name).status

        answers = [join('job-%d' % number) for number in range(270)]
        check([a.status for a in answers] == [200] * 256 + [507] * 14, '%s', [a.text for a in answers[255:258]])
        check(answers[-1].code == 'no_free_job', '%s', answers[-1].text)
        check(sorted({a.body['job'] for a in answers[:256]}) == list(range(256)), 'ids')
        check(all(leave('job-%d' % number) == 200 for number in range(256)), 'leave')
        for number in range(40):
            wait_for(lambda: join('job').status == 200, 'job %d', number)
            check(leave('job') == 200, 'job %d', number)
    check(not api.get('/v1/jobs')['jobs'], 'jobs are left')


# -- tenants

QUOTA = {'jobs': 2, 'members': 4, 'blocks': 512, 'memory_mb': 1, 'rate_mbit': 1000}


@shared
def with_tenants():
    with switch(tenants=[tenant('v', quota=QUOTA), tenant('s')]) as found:
        yield found


@case
def temporary_jobs_are_deleted_by_prefix():
    rack, api = with_tenants()
    for name, more in (('run.0', {}), ('run.1', {}), ('runs', {}), ('run.stays', {'temporary': False})):
        api.create(name, 2, token='s', **dict({'temporary': True}, **more))
    api.create('run.v', 2, token='v', temporary=True, rate_mbit=1)
    for query in ('', '?prefix=', '?name=run.'):
        api.do('DELETE', '/v1/jobs' + query, None, 400, token='s')
    for prefix, count in (('walk.', 0), ('run.', 2)):
        found = api.do('DELETE', '/v1/jobs?prefix=' + prefix, token='s')
        check(found['deleted'] == count, '%s: %s', prefix, found)
    check(set(api.jobs()) == {'run.v', 'run.stays', 'runs'}, '%s', api.jobs())
    weirctl = [rack.program(('ctl', 'weirctl')), '-s', 'unix:' + api.path]
    jobs = rack.spawn('sw', weirctl + ['jobs'])
    check(jobs.end(20) == 0 and jobs.output.count('temporary') == 2, '%s', jobs.output)
    ctl = rack.spawn('sw', weirctl + ['job', 'delete', '--prefix', 'run'])
    check(ctl.end(20) == 0 and '2 deleted' in ctl.output, '%s', ctl.output)
    check(set(api.jobs()) == {'run.stays'}, '%s', api.jobs())
    api.delete('run.stays')


@case
def tenants_do_not_see_each_other():
    rack, api = with_tenants()
    v, s = {'token': 'v'}, {'token': 's'}
    mine = api.create('ring', 2, rate_mbit=600, **v)
    check(mine['tenant'] == 'v', '%s', mine)
    member = {'rank': 0, 'size': 2, 'address': '10.77.0.1'}
    for method, path, body in (('GET', '', None), ('DELETE', '', None), ('PATCH', '', {'timeout_ms': 1}),
                               ('POST', '/members', member), ('DELETE', '/members/0', None)):
        api.do(method, '/v1/jobs/ring' + path, body, 404, 'unknown_job', **s)
    check(not api.jobs(**s), 'seen')
    api.create('ring', 2, status=409, code='exists', key='name', **s)
    api.create('x', 2, status=401, code='unauthorized', place='sw', address='127.0.0.1')
    # Ids are the administrator's to give.
    api.create('x', 2, id=9, status=403, code='forbidden', key='id', **s)
    api.join('x', 0, 2, 0, create={'id': 9}, status=403, code='forbidden', key='create.id', **s)
    # So that nobody gets another's results.
    api.create('group', 2, results='239.1.1.1', **s)
    api.create('x', 2, rate_mbit=1, results='239.1.1.1', status=409, code='conflict', key='results', **v)
    api.create('again', 2, results='239.1.1.1', **s)
    for name in 'group', 'again':
        api.do('DELETE', '/v1/jobs/' + name, **s)
    # What v may have.
    for more, key in (({}, 'rate_mbit'), ({'rate_mbit': 401}, 'rate_mbit'), ({'rate_mbit': 1, 'window': 256}, 'window'),
                      ({'rate_mbit': 1, 'size': 3}, 'size')):
        api.create('x', **dict({'size': 2}, **more), status=403, code='quota', key=key, **v)
    api.do('PATCH', '/v1/jobs/ring', {'rate_mbit': 1001}, 403, 'quota', 'rate_mbit', **v)
    api.create('two', 1, rate_mbit=400, window=1, **v)
    api.create('three', 1, rate_mbit=1, window=1, status=403, code='quota', **v)
    use = {t['name']: t for t in api.get('/v1/tenants')['tenants']}
    wanted = {'jobs': 2, 'blocks': 130, 'members': 3, 'rate_mbit': 1000}
    check(wanted.items() <= use['v'].items() and use['v']['memory'] > 128 * 1024, '%s', use)
    check(use['s']['jobs'] == 0 and use['s']['memory'] == 0, '%s', use)
    # A job of one that is an administrator's on the socket stays whose it is.
    api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': 500})
    check(api.get('/v1/jobs/ring', **v)['timeout_ms'] == 500, 'changed')
    for rank in range(2):
        api.join('ring', rank, 2, rank, **v)
    reduce(rack, mine['id'], [0, 1], *FEW)
    api.do('DELETE', '/v1/jobs/two', **v)
    api.create('three', 1, rate_mbit=1, window=1, **v)
    for word in ('msg="job created"', 'tenant=v', 'msg="change refused"', 'code=quota', 'msg="job changed"',
                 'msg="member joined"', 'msg="job deleted"'):
        check(word in rack.switch.output, '%s is not logged', word)


# -- the others do not notice

@case
def many_jobs_come_and_go_while_two_run():
    with switch(hosts=4, jobs=[job(1, 2), job(2, 2, first=2)], workers=2, changes={'faults': SLOWER}) as (rack, api):
        # Once before: what DPDK's heap keeps for itself is there then.
        api.job_of('warm', [0, 1], window=64)
        api.delete('warm')
        before = api.memory()

        def go():
            return [run for i in range(2)
                    for run in start(rack, 1 + i, [2 * i, 2 * i + 1], '-b', '64K', '-e', '64K', '-n', 30)]

        def turn(number):
            hosts = [number % 4, (number + 1) % 4]
            made = api.job_of('turn', hosts, window=1 << number % 8, elements=1 + number % 7 * 50)
            if number % 3 == 0:
                reduce(rack, made, hosts, '-b', 64, '-e', 64, '-n', 2)
            api.delete('turn')

        beside(go, turn, 6)
        for name in ('job1', 'job2'):
            count = api.get('/v1/jobs/' + name)['counters']
            check(not any(count[key] for key in ('blocks_error', 'blocks_partial', 'blocks_mismatch', 'stale')), '%s', count)
        wait_for(lambda: api.memory()['free'] == before['free'], '%s is not %s', api.memory, before)
        # The two jobs keep the results of their last windows.
        check(0 <= api.memory().pop('blocks_used') - before.pop('blocks_used') <= 256, 'blocks')
        check(before.items() <= api.memory().items(), '%s is not %s', api.memory(), before)
        check(api.get('/v1/status')['jobs'] == 2, 'jobs')
        rack.check_packets()


@case
def jobs_of_the_file_change_too():
    rack, api = plain()
    changed = api.do('PATCH', '/v1/jobs/job1', {'timeout_ms': 123})
    check(changed['timeout_ms'] == 123 and changed['origin'] == 'file', '%s', changed)
    reduce(rack, 1, [0, 1], *FEW)
    joined = api.join('job1', 1, 2, 1)
    check(joined['job'] == 1 and joined['timeout_ms'] == 123, '%s', joined)
    api.join('job1', 1, 2, 0, status=409, code='conflict', key='address')
    api.join('job1', 2, 2, 0, status=409, code='conflict', key='rank')
    api.leave('job1', 1)
    api.leave('job1', 5, 404, 'unknown_member')
    reduce(rack, 1, [0, 1], *FEW)
    api.do('PATCH', '/v1/jobs/job1', {'expire_s': 5}, 409, 'conflict', 'expire_s')
    api.delete('job1')
    # The file has its name and its id: it is back at the next start.
    for taken in ({'name': 'job1'}, {'name': 'job2', 'id': 1}):
        api.create(**taken, size=2, status=409, code='exists')
    number = api.job_of('job2', [1, 0])
    check(number == 0, '%d', number)
    reduce(rack, number, [1, 0], *FEW)


if __name__ == '__main__':
    main()
