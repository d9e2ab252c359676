#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tenants beside each other: how often each may change something, what its jobs take, names that two want; and the token of
one rank: what its host may do, and how long."""
import json
import os
import time

from control import switch, tenant
from openapi import Document
from process import answer_to
from rack import Rack, job
from tap import case, check, main, shared, wait_for

WEIRCTL = ('ctl', 'weirctl')


def limited(name, rate, burst=None, **more):
    """Their tokens are their names."""
    return tenant(name, quota=dict(more, changes_per_s=rate, **({'changes_burst': burst} if burst else {})))


TENANTS = [tenant('v'), tenant('s'), limited('slow', 2, 6), limited('too', 2, 6), limited('free', 0), limited('few', 1, 20),
           limited('again', 1, 30), limited('big', 0, memory_mb=16, jobs=0)]


@shared
def tenants():
    with switch(hosts=3, jobs=[job(1, 2)], tenants=TENANTS) as found:
        yield found


# -- how often

def patch(api, token):
    return api.tcp('PATCH', '/v1/jobs/none', {}, token=token)


def burst(api, token, most=50):
    """Changes until one is refused as too often: how many went through, and the refusal."""
    for count in range(most):
        answer = patch(api, token)
        if answer.status == 429:
            return count, answer
        check(answer.status == 404, '%s', answer.text)
    raise AssertionError('%d changes, and none is too many' % most)


def refuses(api, token, ask):
    """Ask when nothing is left, nor nearly enough for one more: what came has just been used. Once more where the next
    one had come before the answer."""
    for _ in range(100):
        burst(api, token)
        wait_for(lambda: patch(api, token).status != 429, 'it waits for ever')
        began = time.monotonic()
        answer = ask()
        if answer.status == 429 or time.monotonic() - began < 0.3:
            return answer
        api.unix('DELETE', '/v1/jobs/x')  # what it may have made
    raise AssertionError('too slow a machine')


@case
def who_changes_too_often_waits():
    rack, api = tenants()
    began = time.monotonic()
    count, refused = burst(api, 'slow')
    took = time.monotonic() - began
    check(6 <= count <= 6 + 2 * took + 1, '%d changes in %.2f s', count, took)
    check(refused.code == 'too_often' and int(refused.headers['Retry-After']) == 1, '%s %s', refused.headers, refused.text)
    Document().judge('PATCH', '/v1/jobs/none', refused.status, refused.body)
    # Every change is meant, before its body is read; and nothing is done. Over the Unix socket the token is the same tenant's.
    for way, method, path, body in ((api.tcp, 'POST', '/v1/jobs', {'name': 'x', 'size': 2}),
                                    (api.tcp, 'POST', '/v1/jobs', b'no JSON'),
                                    (api.tcp, 'DELETE', '/v1/jobs/x', None),
                                    (api.tcp, 'POST', '/v1/jobs/x/members', {'rank': 0, 'size': 2}),
                                    (api.tcp, 'DELETE', '/v1/jobs/x/members/0', None),
                                    (api.unix, 'DELETE', '/v1/jobs/x', None)):
        answer = refuses(api, 'slow', lambda: way(method, path, body, token='slow'))  # pylint: disable=cell-var-from-loop
        check(answer.status == 429, '%s %s: %s', method, path, answer.text)
    check(set(api.jobs()) == {'job1'}, 'something was done')
    # Reading goes on, and so do others.
    api.get('/v1/jobs', token='slow')
    check(burst(api, 'too')[0] >= 6, "another's")
    for _ in range(50):
        check(patch(api, 'free').status == 404, 'without a limit')
        check(api.unix('DELETE', '/v1/jobs/none').status == 404, 'an administrator')
    time.sleep(int(burst(api, 'slow')[1].headers['Retry-After']))  # the time is what is told
    check(patch(api, 'slow').status == 404, 'after Retry-After')
    check('a tenant changes too often' in rack.switch.output, '%s', rack.switch.output)


@case
def another_rate_comes_with_a_reload():
    rack, api = tenants()
    began = time.monotonic()
    burst(api, 'again')
    rack.changes['api']['tenants'] = [limited('maps', 1, 2), limited('again', 1, 31)] + TENANTS[:-2] + TENANTS[-1:]
    rack.write_config()
    check('configuration reloaded' in answer_to(rack), 'refused')
    count = burst(api, 'again')[0]
    check(count <= 2 + time.monotonic() - began, 'the reload has filled the bucket: %d', count)
    check(burst(api, 'maps')[0] >= 2, 'the new tenant')
    quota = api.get('/v1/tenants')['tenants'][1]['quota']
    check(quota['changes_per_s'] == 1 and quota['changes_burst'] == 31, '%s', quota)


# -- who may

ACCESSES = ('public', 'read', 'read_job', 'read_all', 'join', 'change', 'open', 'admin')
PERMISSIONS = {  # by access: + allowed, u 401, f 403
    'nobody over TCP': '+uuuuuuu',
    'a tenant': '+++f+++f',
    'a rank': '+f+f+fff',
    'an administrator': '++++++++',
}


@case
def each_operation_is_for_whom_its_access_says():
    """Each caller tries each operation; nothing changes, for a change is a dry run or lacks its body."""
    _, api = tenants()
    api.do('POST', '/v1/jobs', {'name': 'mine', 'size': 2}, 201, token='free')
    rank = api.get('/v1/jobs/mine') and api.do('POST', '/v1/jobs/mine/tokens', token='free')['tokens'][1]
    callers = {'nobody over TCP': api.tcp, 'an administrator': api.unix,
               'a tenant': lambda *asked: api.tcp(*asked, token='free'), 'a rank': lambda *asked: api.tcp(*asked, token=rank)}
    tried = set()
    for path, method, operation in Document().operations():
        target = path.replace('{name}', 'p0' if 'ports' in path else 'mine').replace('{rank}', '1').replace('{file}', 'app.js')
        target += '' if method == 'GET' else '?dry_run=1'
        tried.add(operation['x-access'])
        for caller, ask in callers.items():
            status = ask(method, target).status
            may = {401: 'u', 403: 'f'}.get(status, '+')
            check(may == PERMISSIONS[caller][ACCESSES.index(operation['x-access'])], '%s: %s %s: %d', caller, method, target, status)
    check(tried == set(ACCESSES), '%s', tried)
    check('mine' in api.jobs(), 'it is gone')
    api.do('DELETE', '/v1/jobs/mine', token='free')


# -- what a job takes

def fill(api, token, **more):
    """Jobs of a tenant, as many as it may have. Returns their number."""
    answer, made = {}, -1
    while 'error' not in answer:
        made += 1
        answer = api.create('%s%d' % (token, made), status=(201, 403), token=token, window=1, **more)
    check(answer['error']['code'] == 'quota', '%s', answer)
    return made


@case
def a_quota_counts_all_that_a_job_takes():
    _, api = tenants()
    # What DPDK's heap keeps for itself is there then.
    api.create('warm', 256, window=1, elements=1)
    api.delete('warm')
    free = api.memory()['free']
    made = fill(api, 'big', size=256, elements=1)
    taken = free - api.memory()['free']
    use = next(t for t in api.get('/v1/tenants')['tenants'] if t['name'] == 'big')
    print('# %d jobs take %.2f MiB, counted %.2f' % (made, taken / 2 ** 20, use['memory'] / 2 ** 20))
    check(0.9 * taken <= use['memory'] <= 1.1 * taken, '%d are counted, and %d taken', use['memory'], taken)


@case
def one_tenant_cannot_take_all_ids():
    _, api = tenants()
    made = fill(api, 's', size=1)
    check(made == 32, '%d jobs', made)
    api.create('other', 1)


# -- names

@case
def a_name_in_use_tells_nothing_of_its_job():
    _, api = tenants()

    def ask(method, path, body=None, token='s'):
        answer = api.tcp(method, path, body, token=token)
        return answer.status, json.dumps(answer.body)

    made = {'name': 'taken', 'size': 3, 'window': 16, 'elements': 128, 'timeout_ms': 777}
    api.create(**made, token='v')
    join = {'rank': 0, 'size': 3, 'address': Rack.address(0)}
    # Whatever is asked for, the answer is the one for a name that nobody has.
    for method, path, body in (('GET', '', None), ('PATCH', '', {'timeout_ms': 5}), ('DELETE', '', None),
                               ('POST', '/members', join), ('DELETE', '/members/0', None)):
        taken = ask(method, '/v1/jobs/taken' + path, body)
        free = ask(method, '/v1/jobs/none' + path, body)
        check(taken == (404, free[1].replace('none', 'taken')), '%s%s: %s', method, path, taken)
    check(ask('GET', '/v1/blocks?job=taken')[0] == 404, 'blocks')
    # Its name alone is told to be taken, as one's own would be.
    for path, body, key in (('/v1/jobs', {'name': 'taken', 'size': 2}, 'name'), ('/v1/jobs', made, 'name'),
                            ('/v1/jobs/taken/members', dict(join, create={}), 'create.name')):
        error = api.do('POST', path, body, 409, 'exists', key, token='s')['error']
        check(error['message'] == 'a job is called "taken" already: names are unique', '%s', error)
    check(ask('POST', '/v1/jobs', made, token='v')[0] == 409, 'his own')
    found = api.get('/v1/jobs/taken')
    check(found['tenant'] == 'v' and found['joined'] == 0 and found['timeout_ms'] == 777, '%s', found)


# -- tokens of ranks

def expect(answer, status, code=None):
    check(answer.status == status, '%d, not %d: %s', answer.status, status, answer.text)
    check(code is None or answer.code == code, '%s', answer.text)
    return answer.body


def tokens_of(api, name, token=None):
    answer = api.unix('POST', '/v1/jobs/%s/tokens' % name, token=token)
    Document().judge('POST', '/v1/jobs/%s/tokens' % name, answer.status, answer.body)
    return expect(answer, 200)['tokens']


def member(rank, host=None):
    return {'rank': rank, 'size': 3, 'address': Rack.address(rank if host is None else host)}


def is_one_rank_of_ring(api, token, ask):
    """The token joins, leaves and looks as rank 1 of job ring, and nothing else."""
    for body in (member(1), dict(member(1), create={})):
        expect(ask('POST', '/v1/jobs/ring/members', body, token=token), 200)
    check(expect(ask('GET', '/v1/jobs/ring', token=token), 200)['members'][1]['state'] == 'joined', 'joined')
    for body in (member(0), dict(member(0, 1), create={})):
        expect(ask('POST', '/v1/jobs/ring/members', body, token=token), 403, 'forbidden')
    expect(ask('DELETE', '/v1/jobs/ring/members/0', token=token), 403, 'forbidden')
    for name in ('pair', 'none'):
        for method, path, body in (('POST', '/members', member(1)), ('DELETE', '/members/1', None), ('GET', '', None)):
            expect(ask(method, '/v1/jobs/%s%s' % (name, path), body, token=token), 404, 'unknown_job')
    expect(ask('POST', '/v1/jobs/none/members', dict(member(1), create={}), token=token), 403, 'forbidden')
    for path, method, operation in Document().operations():
        if operation['x-access'] not in ('public', 'join', 'read_job'):
            expect(ask(method, path.replace('{name}', 'ring'), token=token), 403, 'forbidden')
    # What a host asks for, and tells people why it waits.
    for path in '/v1/status', '/v1/blocks?stuck=1&job=ring':
        expect(ask('GET', path, token=token), 200)
    expect(ask('GET', '/v1/blocks?job=pair', token=token), 404, 'unknown_job')
    check(b'pair' not in ask('GET', '/metrics', token=token).text, 'metrics')
    members = api.get('/v1/jobs/ring')['members']
    check([m['state'] for m in members] == ['joined', 'joined', 'expected'], '%s', members)
    expect(ask('DELETE', '/v1/jobs/ring/members/1', token=token), 200)


def is_one_rank_of_one_job(rack, api, owner):
    def create(name):
        expect(api.unix('POST', '/v1/jobs', {'name': name, 'size': 3}, token=owner), 201)

    create('ring')
    create('pair')
    expect(api.unix('POST', '/v1/jobs/ring/members', member(0), token=owner), 200)
    tokens = tokens_of(api, 'ring', owner)
    check(len(set(tokens)) == 3 and tokens == tokens_of(api, 'ring', owner), '%s', tokens)
    check('msg="rank tokens given"' in rack.switch.output and tokens[1] not in rack.switch.output, 'the log')
    for ask in (api.tcp, api.unix):  # root, too, has only the rights of the token
        is_one_rank_of_ring(api, tokens[1], ask)
    check('token=ring~1 job=ring rank=1' in rack.switch.output, 'the log: %s', rack.switch.output)
    for wrong in (tokens[1][:-1], tokens[1] + '0', tokens[1].replace('~1~', '~2~'), 'ring~1~'):
        expect(api.tcp('GET', '/v1/jobs/ring', token=wrong), 401, 'unauthorized')
    # Who gets them: the job's owner alone, and of a job that hosts join over the API.
    expect(api.tcp('POST', '/v1/jobs/ring/tokens'), 401 if owner else 403)
    api.do('POST', '/v1/jobs/job1/tokens', None, 409, 'conflict')
    api.do('POST', '/v1/jobs/none/tokens', None, 404, 'unknown_job')
    api.do('POST', '/v1/jobs/ring/tokens', {}, 400, 'unknown_key')
    # They end with the job, also where another has its name.
    expect(api.unix('DELETE', '/v1/jobs/ring'), 200)
    for _ in range(2):
        expect(api.tcp('POST', '/v1/jobs/ring/members', member(1), token=tokens[1]), 401, 'unauthorized')
        expect(api.tcp('GET', '/v1/health', token=tokens[1]), 401, 'unauthorized')
        if 'ring' not in [j['name'] for j in api.get('/v1/jobs')['jobs']]:
            create('ring')
    check(not set(tokens) & set(tokens_of(api, 'ring', owner)), 'the same tokens')


@case
def a_token_is_of_one_rank_of_one_job():
    is_one_rank_of_one_job(*tenants(), 'v')
    with switch(hosts=3, jobs=[job(1, 2)]) as (rack, api):
        is_one_rank_of_one_job(rack, api, None)


@case
def tokens_take_the_changes_of_their_tenant():
    """All rank tokens of a tenant's jobs together."""
    _, api = tenants()
    api.create('few', 3, token='few')
    tokens = tokens_of(api, 'few', 'few')
    answers = [api.unix('POST', '/v1/jobs/few/members', member(n % 3), token=tokens[n % 3]) for n in range(60)]
    check(answers[0].status == 200, '%s', answers[0].text)
    check(any(a.status == 429 and b'tenant few' in a.text for a in answers), 'all were taken')


@case
def those_of_an_authenticated_job_need_a_private_connection():
    _, api = tenants()
    expect(api.unix('POST', '/v1/jobs', {'name': 'sealed', 'size': 3, 'authenticate': True}, token='v'), 201)
    api.do('POST', '/v1/jobs/sealed/tokens', None, 403, 'forbidden', token='v')
    token = tokens_of(api, 'sealed', 'v')[2]
    api.do('POST', '/v1/jobs/sealed/members', member(2), 403, 'forbidden', token=token)
    check(expect(api.unix('POST', '/v1/jobs/sealed/members', member(2), token=token), 200)['key'], 'no key')


@case
def weirctl_prints_them():
    rack, api = tenants()

    def ctl(*words, status=0):
        run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', 'unix:' + api.path, *words])
        check(run.end(20) == status, 'weirctl %s: %s', words, run.output)
        return run.output

    api.create('told', 3, token='v')
    tokens = tokens_of(api, 'told')
    check(ctl('job', 'tokens', 'told') == ''.join('%d %s\n' % pair for pair in enumerate(tokens)), 'all')
    check(ctl('job', 'tokens', 'told', '--rank', '2') == tokens[2] + '\n', 'one')
    said = ctl('job', 'tokens', 'told', '--rank', '3', status=1)
    check(said == 'weirctl: --rank 3: job told has 3 ranks, from 0\n', '%s', said)
    check('tokens are for jobs made over the API' in ctl('job', 'tokens', 'job1', status=1).replace('\n', ' '), 'file')
    # What it prints is what a host needs.
    file = os.path.join(rack.folder, 'rank.token')
    with open(file, 'w') as out:
        out.write(ctl('job', 'tokens', 'told', '--rank', '1'))
    check('told' in ctl('--token-file', file, 'job', 'told'), 'job')
    ctl('--token-file', file, 'jobs', status=1)


if __name__ == '__main__':
    main()
