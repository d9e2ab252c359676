#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rank tokens: what a host with the token of one rank may do, and how long."""
import hashlib
import os

import control
from openapi import Document
from rack import Rack, job
from tap import case, check, main

WEIRCTL = ('ctl', 'weirctl')
VISION = {'name': 'vision', 'token_sha256': hashlib.sha256(b'v').hexdigest()}


def expect(answer, status, code=None):
    check(answer.status == status, '%d, not %d: %s', answer.status, status, answer.text)
    check(code is None or answer.code == code, '%s', answer.text)
    return answer.body


def create(api, name, token=None, **more):
    expect(api.unix('POST', '/v1/jobs', dict(more, name=name, size=3), token=token), 201)


def tokens_of(api, name, token=None):
    answer = api.unix('POST', '/v1/jobs/%s/tokens' % name, token=token)
    Document().check(Document().root['paths']['/v1/jobs/{name}/tokens']['post'], answer.status, answer.body)
    return expect(answer, 200)['tokens']


def member(rank, host=None):
    return {'rank': rank, 'size': 3, 'address': Rack.address(rank if host is None else host)}


def is_one_rank_of_ring(api, token, ask):
    """The token joins, leaves and looks as rank 1 of job ring, and nothing else."""
    for body in (member(1), dict(member(1), create={})):
        expect(ask('POST', '/v1/jobs/ring/members', body, token=token), 200)
    check(expect(ask('GET', '/v1/jobs/ring', token=token), 200)['members'][1]['state'] == 'joined', 'joined')
    expect(ask('POST', '/v1/jobs/ring/members', member(0), token=token), 403, 'forbidden')
    expect(ask('POST', '/v1/jobs/ring/members', dict(member(0, 1), create={}), token=token), 403, 'forbidden')
    expect(ask('DELETE', '/v1/jobs/ring/members/0', token=token), 403, 'forbidden')
    for name in ('pair', 'none'):
        expect(ask('POST', '/v1/jobs/%s/members' % name, member(1), token=token), 404, 'unknown_job')
        expect(ask('DELETE', '/v1/jobs/%s/members/1' % name, token=token), 404, 'unknown_job')
        expect(ask('GET', '/v1/jobs/%s' % name, token=token), 404, 'unknown_job')
    expect(ask('POST', '/v1/jobs/none/members', dict(member(1), create={}), token=token), 403, 'forbidden')
    for path, method, operation in Document().served():
        if operation['x-access'] not in ('public', 'join', 'read_job'):
            expect(ask(method, path.replace('{name}', 'ring'), token=token), 403, 'forbidden')
    # What a host asks for, and tells people why it waits.
    expect(ask('GET', '/v1/status', token=token), 200)
    expect(ask('GET', '/v1/blocks?stuck=1&job=ring', token=token), 200)
    expect(ask('GET', '/v1/blocks?job=pair', token=token), 404, 'unknown_job')
    check(b'pair' not in ask('GET', '/metrics', token=token).text, 'metrics')
    members = api.get('/v1/jobs/ring')['members']
    check([m['state'] for m in members] == ['joined', 'joined', 'expected'], '%s', members)
    expect(ask('DELETE', '/v1/jobs/ring/members/1', token=token), 200)


@case
def it_takes_the_changes_of_its_tenant():
    """All rank tokens of a tenant's jobs together."""
    with control.switch(hosts=3, jobs=[job(1, 2)],
                        tenants=[dict(VISION, quota={'changes_per_s': 1, 'changes_burst': 20})]) as (_, api):
        create(api, 'ring', 'v')
        tokens = tokens_of(api, 'ring', 'v')
        answers = [api.unix('POST', '/v1/jobs/ring/members', member(n % 3), token=tokens[n % 3]) for n in range(60)]
        check(answers[0].status == 200, '%s', answers[0].text)
        check(any(a.status == 429 and b'tenant vision' in a.text for a in answers), 'all were taken')


@case
def it_is_one_rank_of_one_job():
    for tenants, owner in (([VISION], 'v'), ([], None)):
        with control.switch(hosts=3, jobs=[job(1, 2)], tenants=tenants) as (rack, api):
            create(api, 'ring', owner)
            create(api, 'pair', owner)
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
            expect(api.tcp('POST', '/v1/jobs/ring/tokens'), 401 if tenants else 403)
            expect(api.unix('POST', '/v1/jobs/job1/tokens'), 409, 'conflict')
            expect(api.unix('POST', '/v1/jobs/none/tokens'), 404, 'unknown_job')
            expect(api.unix('POST', '/v1/jobs/ring/tokens', {}), 400, 'unknown_key')
            # They end with the job, also where another has its name.
            expect(api.unix('DELETE', '/v1/jobs/ring'), 200)
            for _ in range(2):
                expect(api.tcp('POST', '/v1/jobs/ring/members', member(1), token=tokens[1]), 401, 'unauthorized')
                expect(api.tcp('GET', '/v1/health', token=tokens[1]), 401, 'unauthorized')
                if not [j for j in api.get('/v1/jobs')['jobs'] if j['name'] == 'ring']:
                    create(api, 'ring', owner)
            check(not set(tokens) & set(tokens_of(api, 'ring', owner)), 'the same tokens')


@case
def those_of_an_authenticated_job_need_a_private_connection():
    with control.switch(hosts=3, tenants=[VISION]) as (_rack, api):
        create(api, 'ring', 'v', authenticate=True)
        expect(api.tcp('POST', '/v1/jobs/ring/tokens', token='v'), 403, 'forbidden')
        token = tokens_of(api, 'ring', 'v')[2]
        expect(api.tcp('POST', '/v1/jobs/ring/members', member(2), token=token), 403, 'forbidden')
        key = expect(api.unix('POST', '/v1/jobs/ring/members', member(2), token=token), 200)['key']
        check(key not in (None, ''), 'no key')


@case
def weirctl_prints_them():
    with control.switch(jobs=[job(1, 2)], tenants=[VISION]) as (rack, api):
        def ctl(*words, status=0):
            run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', 'unix:' + api.path, *words])
            check(run.end(20) == status, 'weirctl %s: %s', words, run.output)
            return run.output

        create(api, 'ring', 'v')
        tokens = tokens_of(api, 'ring')
        check(ctl('job', 'tokens', 'ring') == ''.join('%d %s\n' % pair for pair in enumerate(tokens)), 'all')
        check(ctl('job', 'tokens', 'ring', '--rank', '2') == tokens[2] + '\n', 'one')
        said = ctl('job', 'tokens', 'ring', '--rank', '3', status=1)
        check(said == 'weirctl: --rank 3: job ring has 3 ranks, from 0\n', '%s', said)
        check('tokens are for jobs made over the API' in ctl('job', 'tokens', 'job1', status=1).replace('\n', ' '), 'file')
        # What it prints is what a host needs.
        file = os.path.join(rack.folder, 'rank.token')
        with open(file, 'w') as out:
            out.write(ctl('job', 'tokens', 'ring', '--rank', '1'))
        check('ring' in ctl('--token-file', file, 'job', 'ring'), 'job')
        ctl('--token-file', file, 'jobs', status=1)


if __name__ == '__main__':
    main()
