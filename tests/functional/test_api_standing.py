#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Changes of jobs while a worker stands still: what is answered is true, and nothing is left behind."""
import contextlib
import ctypes
import os
import sys

from control import Control
from rack import Rack
from tap import Skip, case, check, main, wait_for

SEIZE, INTERRUPT, DETACH, ALL_THREADS = 0x4206, 0x4207, 17, 0x40000000


@contextlib.contextmanager
def switch():
    with Rack() as rack:
        api = Control(rack)
        rack.start_switch()
        yield rack, api
        rack.stop_switch()


def worker_of(process):
    """The thread of its first worker."""
    tasks = '/proc/%d/task' % process.pid
    for task in sorted(os.listdir(tasks), key=int):
        with open('%s/%s/comm' % (tasks, task)) as file:
            if 'worker' in file.read():
                return int(task)
    raise AssertionError('no worker')


@contextlib.contextmanager
def standing(rack):
    """A worker that a debugger has stopped."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long] * 4
    worker = worker_of(rack.switch)
    if ptrace(SEIZE, worker, 0, 0) != 0:
        raise Skip('needs ptrace: %s' % os.strerror(ctypes.get_errno()))
    ptrace(INTERRUPT, worker, 0, 0)
    os.waitpid(worker, ALL_THREADS)
    try:
        yield
    finally:
        ptrace(DETACH, worker, 0, 0)


def memory_of(api):
    return api.get('/v1/status')['memory']


@case
def a_deleted_job_drains_until_the_worker_has_let_go():
    with switch() as (rack, api):
        before = memory_of(api)
        answer = api.unix('POST', '/v1/jobs', {'name': 'one', 'size': 2})
        check(answer.status == 201, '%s', answer.text)
        check(memory_of(api) != before, 'the job takes no memory: %s', before)
        with standing(rack):
            answer = api.unix('DELETE', '/v1/jobs/one')
            check(answer.status == 202 and answer.body['state'] == 'draining', '%d %s',
                  answer.status, answer.text)
            jobs = [(j['name'], j['state']) for j in api.get('/v1/jobs')['jobs']]
            check(jobs == [('one', 'draining')], '%s', jobs)
        wait_for(lambda: memory_of(api) == before, '%s, and before %s', lambda: memory_of(api), before)
        check(api.get('/v1/jobs')['jobs'] == [], 'it still drains')


@case
def a_join_that_makes_the_job_is_whole_or_nothing():
    with switch() as (_rack, api):
        with standing(_rack):
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
        check(api.unix('PUT', '/v1/faults', section).status == 200, 'a worker that turns')
        with standing(rack):
            answer = api.unix('PUT', '/v1/faults', dict(section, seed=2))
            check(answer.status == 200 and answer.body['seed'] == 2, '%s', answer.text)
            answer = api.unix('PUT', '/v1/faults', dict(section, seed=3))
            check(answer.status == 503 and answer.code == 'busy', '%s', answer.text)
            check(api.unix('DELETE', '/v1/faults').status == 503, 'cleared')
            check(api.get('/v1/faults')['seed'] == 2, 'refused, and yet changed')
        wait_for(lambda: api.unix('PUT', '/v1/faults', dict(section, seed=4)).status == 200, 'still busy')
        check('a worker does not turn: it has yet to take the faults' in rack.switch.output, 'not said')


if __name__ == '__main__':
    sys.exit(main())
