#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Changes of jobs while a worker stands still: what is answered is true, and nothing is left behind."""
import sys

from control import switch
from process import frozen
from tap import case, check, main, wait_for



def memory_of(api):
    return api.get('/v1/status')['memory']


@case
def a_deleted_job_drains_until_the_worker_has_let_go():
    with switch() as (rack, api):
        before = memory_of(api)
        answer = api.unix('POST', '/v1/jobs', {'name': 'one', 'size': 2})
        check(answer.status == 201, '%s', answer.text)
        check(memory_of(api) != before, 'the job takes no memory: %s', before)
        with frozen(rack.switch.pid, 'worker'):
            answer = api.unix('DELETE', '/v1/jobs/one')
            check(answer.status == 202 and answer.body['state'] == 'draining', '%d %s',
                  answer.status, answer.text)
            jobs = [(j['name'], j['state']) for j in api.get('/v1/jobs')['jobs']]
            check(jobs == [('one', 'draining')], '%s', jobs)
        wait_for(lambda: memory_of(api) == before, '%s, and before %s', lambda: memory_of(api), before)
        check(api.get('/v1/jobs')['jobs'] == [], 'it still drains')


@case
def a_join_that_makes_the_job_is_whole_or_nothing():
    with switch() as (rack, api):
        api.patient = False
        with frozen(rack.switch.pid, 'worker'):
            answer = api.unix('POST', '/v1/jobs/ring/members',
                              {'rank': 0, 'size': 2, 'address': '10.77.0.1', 'create': {}})
        said = [(j['name'], j['joined']) for j in api.get('/v1/jobs')['jobs']]
        check(said == ([('ring', 1)] if answer.status == 200 else []), '%d %s: %s', answer.status,
              answer.text, said)


@case
def faults_are_taken_when_the_worker_turns_again():
    """A change waits half a second for it, and a second one is refused: nothing is freed that it sees."""
    section = {'seed': 1, 'rules': [{'direction': 'in', 'action': 'drop', 'chance_ppm': 0}]}
    with switch() as (rack, api):
        api.patient = False
        check(api.unix('PUT', '/v1/faults', section).status == 200, 'a worker that turns')
        rack.stats_at_rest()  # it has taken them
        with frozen(rack.switch.pid, 'worker'):
            answer = api.unix('PUT', '/v1/faults', dict(section, seed=2))
            check(answer.status == 200 and answer.body['seed'] == 2, '%s', answer.text)
            answer = api.unix('PUT', '/v1/faults', dict(section, seed=3))
            check(answer.status == 503 and answer.code == 'busy', '%s', answer.text)
            check(api.unix('DELETE', '/v1/faults').status == 503, 'cleared')
            check(api.get('/v1/faults')['seed'] == 2, 'refused, and yet changed')
        wait_for(lambda: api.unix('PUT', '/v1/faults', dict(section, seed=4)).status == 200, 'still busy')
        check('worker 0 is stuck: it has not taken the new faults yet' in rack.switch.output, 'not said')


if __name__ == '__main__':
    sys.exit(main())
