#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tenants beside each other: how often each may change something, and names that two want."""
import contextlib
import hashlib
import json
import os
import time

import control
from openapi import Document
from rack import SWITCH_ADDRESS, Rack
from process import answer_to
from tap import case, check, main, wait_for


def tenant(name, token, **quota):
    return {'name': name, 'token_sha256': hashlib.sha256(token.encode()).hexdigest(),
            'quota': quota}


def switch(*tenants):
    return control.switch(tenants=list(tenants))


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
    with switch(tenant('vision', 'v', changes_per_s=2, changes_burst=6),
                tenant('speech', 's', changes_per_s=2, changes_burst=6),
                tenant('free', 'f', changes_per_s=0)) as (rack, api):
        began = time.monotonic()
        count, refused = burst(api, 'v')
        took = time.monotonic() - began
        check(6 <= count <= 6 + 2 * took + 1, '%d changes in %.2f s', count, took)
        check(refused.code == 'too_often' and int(refused.headers['Retry-After']) == 1, '%s %s',
              refused.headers, refused.text)
        operation = Document().root['paths']['/v1/jobs/{name}']['patch']
        Document().check(operation, refused.status, refused.body)
        # Every change is meant, before its body is read; and nothing is done.
        for method, path, body in (('POST', '/v1/jobs', {'name': 'x', 'size': 2}),
                                   ('POST', '/v1/jobs', b'no JSON'),
                                   ('DELETE', '/v1/jobs/x', None),
                                   ('POST', '/v1/jobs/x/members', {'rank': 0, 'size': 2}),
                                   ('DELETE', '/v1/jobs/x/members/0', None)):
            answer = refuses(api, 'v', lambda: api.tcp(method, path, body, token='v'))  # pylint: disable=cell-var-from-loop
            check(answer.status == 429, '%s %s: %s', method, path, answer.text)
        check(api.get('/v1/jobs')['jobs'] == [], 'something was done')
        # Over the Unix socket the token is the same tenant's.
        check(refuses(api, 'v', lambda: api.unix('DELETE', '/v1/jobs/x', token='v')).status == 429, 'the Unix socket')
        # Reading goes on, and so do others.
        check(api.tcp('GET', '/v1/jobs', token='v').status == 200, 'reading')
        check(burst(api, 's')[0] >= 6, "another's")
        for _ in range(50):
            check(patch(api, 'f').status == 404, 'without a limit')
            check(api.unix('DELETE', '/v1/jobs/none').status == 404, 'an administrator')
        time.sleep(int(burst(api, 'v')[1].headers['Retry-After']))  # the time is what is told
        check(patch(api, 'v').status == 404, 'after Retry-After')
        check('a tenant changes too often' in rack.switch.output, '%s', rack.switch.output)


@case
def another_rate_comes_with_a_reload():
    with switch(tenant('vision', 'v', changes_per_s=1, changes_burst=30)) as (rack, api):
        began = time.monotonic()
        burst(api, 'v')
        path = os.path.join(rack.folder, 'switch.json')
        with open(path) as file:
            text = json.load(file)
        text['api']['tenants'] = [tenant('maps', 'm', changes_per_s=1, changes_burst=2),
                                  tenant('vision', 'v', changes_per_s=1, changes_burst=31)]
        with open(path, 'w') as file:
            json.dump(text, file)
        check('configuration reloaded' in answer_to(rack), 'refused')
        count = burst(api, 'v')[0]
        check(count <= 2 + time.monotonic() - began, 'the reload has filled the bucket: %d', count)
        check(burst(api, 'm')[0] >= 2, 'the new tenant')
        quota = api.get('/v1/tenants')['tenants'][1]['quota']
        check(quota['changes_per_s'] == 1 and quota['changes_burst'] == 31, '%s', quota)


# -- what a job takes

@case
def a_quota_counts_all_that_a_job_takes():
    with switch(tenant('vision', 'v', memory_mb=16, jobs=0)) as (_rack, api):
        # What DPDK's heap keeps for itself is there then.
        api.tcp('POST', '/v1/jobs', {'name': 'warm', 'size': 256, 'window': 1, 'elements': 1}, token='v')
        api.tcp('DELETE', '/v1/jobs/warm', token='v')
        free, made = api.get('/v1/status')['memory']['free'], 0
        while True:
            answer = api.tcp('POST', '/v1/jobs', {'name': 'j%d' % made, 'size': 256, 'window': 1,
                                                  'elements': 1}, token='v')
            if answer.status != 201:
                break
            made += 1
        check(answer.status == 403 and answer.code == 'quota', '%s', answer.text)
        taken = free - api.get('/v1/status')['memory']['free']
        use = api.get('/v1/tenants')['tenants'][0]
        print('# %d jobs take %.2f MiB, counted %.2f' % (made, taken / 2 ** 20, use['memory'] / 2 ** 20))
        check(0.9 * taken <= use['memory'] <= 1.1 * taken, '%d are counted, and %d taken', use['memory'], taken)


@case
def one_tenant_cannot_take_all_ids():
    with switch(tenant('vision', 'v')) as (_rack, api):
        made = 0
        while (answer := api.tcp('POST', '/v1/jobs', {'name': 'j%d' % made, 'size': 1, 'window': 1},
                                 token='v')).status == 201:
            made += 1
        check(answer.code == 'quota' and made == 32, '%d jobs: %s', made, answer.text)
        check(api.unix('POST', '/v1/jobs', {'name': 'other', 'size': 1}).status == 201, 'none is left')


# -- names

@case
def a_name_in_use_tells_nothing_of_its_job():
    with switch(tenant('vision', 'v'), tenant('speech', 's')) as (_rack, api):
        def ask(method, path, body=None, token='s'):
            answer = api.tcp(method, path, body, token=token)
            return answer.status, json.dumps(answer.body)

        made = {'name': 'ring', 'size': 3, 'window': 16, 'elements': 128, 'timeout_ms': 777}
        check(api.tcp('POST', '/v1/jobs', made, token='v').status == 201, 'create')
        join = {'rank': 0, 'size': 3, 'address': Rack.address(0)}
        # Whatever is asked for, the answer is the one for a name that nobody has.
        for method, path, body in (('GET', '', None), ('PATCH', '', {'timeout_ms': 5}),
                                   ('DELETE', '', None), ('POST', '/members', join),
                                   ('DELETE', '/members/0', None)):
            taken = ask(method, '/v1/jobs/ring' + path, body)
            free = ask(method, '/v1/jobs/none' + path, body)
            check(taken == (404, free[1].replace('none', 'ring')), '%s%s: %s', method, path, taken)
        check(ask('GET', '/v1/blocks?job=ring')[0] == 404, 'blocks')
        # Its name alone is told to be taken, as one's own would be.
        for path, body, key in (('/v1/jobs', {'name': 'ring', 'size': 2}, 'name'),
                                ('/v1/jobs', made, 'name'),
                                ('/v1/jobs/ring/members', dict(join, create={}), 'create.name')):
            status, text = ask('POST', path, body)
            error = json.loads(text)['error']
            check(status == 409 and error['code'] == 'exists' and error['key'] == key, '%s', text)
            check(error['message'] == 'a job is called "ring" already: names are unique', '%s',
                  text)
        check(ask('POST', '/v1/jobs', made, token='v')[0] == 409, 'his own')
        found = api.get('/v1/jobs/ring')
        check(found['tenant'] == 'vision' and found['joined'] == 0 and
              found['timeout_ms'] == 777, '%s', found)


if __name__ == '__main__':
    main()
