#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Handles that open in the background, temporary jobs, and the control thread that does what waits."""
import json
import os
import re
import subprocess
import sys
import threading

import libweir
from fake_api import FakeApi
from join_hosts import PORT, Members, answer, environment, error
from control import running
from tap import case, check, main, shared, wait_for
from rack import SWITCH_ADDRESS

BUILD = os.environ['WEIR_BUILD']
OPENER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'opener.py')
SECONDS = 300


def loader():
    """What a Python process needs besides, to load the library."""
    made = libweir.environment(BUILD) or {}
    return {k: v for k, v in made.items() if k in ('LD_PRELOAD', 'ASAN_OPTIONS')}


class Opener:
    """A process of opener.py, here or on a host of a rack. variables: of its environment; other: another handle's
    configuration."""

    def __init__(self, rack=None, host=None, variables=None, other=None, **config):
        inside = [] if rack is None else ['ip', 'netns', 'exec', rack.namespace(host)]
        self.popen = subprocess.Popen(
            inside + [sys.executable, OPENER, BUILD, json.dumps(config), json.dumps(other or {})], text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(environment(**variables or {}), **loader()))
        self.watch = threading.Timer(2 * SECONDS, self.popen.kill)
        self.watch.start()
        self.reads('opening')

    def says(self, word):
        self.popen.stdin.write(word + '\n')

    def reads(self, pattern):
        line = self.popen.stdout.readline()
        check(re.match(pattern, line), '"%s" is not: %s%s', pattern, line,
              '' if line else self.popen.communicate()[1])

    def does(self, word, pattern):
        self.says(word)
        self.reads(pattern)

    def ends(self, status=0):
        self.popen.stdin.close()
        found = self.popen.wait(SECONDS)
        self.watch.cancel()
        check(found == status, 'status %d: %s', found, self.popen.stderr.read())

    def kill(self):
        self.popen.kill()
        self.ends(-9)


def member(rank, size, **more):
    """A member of the temporary job "ring" of a rack."""
    return dict(control='http://%s:%d' % (SWITCH_ADDRESS, PORT), job_name='ring', source=rank, sources=size,
                create=True, temporary=True, **more)


@shared
def temporary_jobs():
    """A rack whose hosts make temporary jobs."""
    with running(hosts=2, changes={'api': {'listen': ['tcp:SWITCH:%d' % PORT], 'open_jobs': 8}}) as rack:
        yield rack


def names(rack):
    """Of the switch's jobs."""
    found = rack.call('sw', [rack.program(('ctl', 'weirctl')), '-s', 'http://%s:%d' % (SWITCH_ADDRESS, PORT),
                             'jobs', '--json'])
    return [job['name'] for job in json.loads(found)['jobs']]


@case
def a_handle_opens_while_its_process_goes_on():
    rack = temporary_jobs()
    first = Opener(rack, 0, **member(0, 2, settings='expire_s=1000'))
    second = Opener(rack, 1, **member(1, 2, settings='expire_s=1000'))
    for rank in (first, second):
        rank.does('wait', r'0 $')
    for rank in (first, second):
        rank.says('sum')
    for rank in (first, second):
        rank.reads('0 2$')
    check(names(rack) == ['ring'], '%s', names(rack))
    # One leaves before the process ends, the other's end closes nothing, so it stays.
    first.says('close')
    first.ends()
    second.says('close')
    second.ends()
    check(names(rack) == [], 'left over after all have left: %s', names(rack))


@case
def a_member_that_is_lost_fails_the_others():
    rack = temporary_jobs()
    for how in ('left', 'expired in'):
        settings = 'expire_s=3' if how != 'left' else 'expire_s=1000'
        lost = Opener(rack, 1, **member(1, 2, settings=settings, op_timeout_ms=60000))
        waits = Opener(rack, 0, **member(0, 2, settings=settings, op_timeout_ms=60000))
        for rank in (waits, lost):
            rank.does('wait', r'0 $')
        waits.says('sum')
        if how == 'left':
            lost.says('close')
            lost.ends()
        else:
            lost.kill()
        waits.reads(r'-103 rank 1 \(10\.77\.0\.2\) has %s job "ring"' % how)
        waits.says('close')
        waits.ends()
        wait_for(lambda: names(rack) == [], 'left over')


@case
def many_are_opened_one_after_the_other():
    rack = temporary_jobs()
    runs = [rack.spawn(host, [rack.program(('perf', 'weir-perf')), '--opens', '10'], 'perf', environment(
        rank=host, size=2, WEIR_SWITCH='http://%s:%d' % (SWITCH_ADDRESS, PORT), WEIR_JOB='many',
        WEIR_SETTINGS='expire_s=1000')) for host in range(2)]
    outputs = [run.wait(SECONDS) for run in runs]
    check(re.fullmatch(r'# 10 jobs opened: median [\d.]+ ms, 99 % [\d.]+, first [\d.]+; closed: median '
                       r'[\d.]+ ms\n', outputs[0]), '%s', outputs[0])
    check(names(rack) == [], 'left over: %s', names(rack))


def played(api, **more):
    """A member of a job of a played switch that answers no join over UDP."""
    api.routes['/v1/status'] = {'address': '127.0.0.1'}
    api.routes['/v1/jobs/ring/members'] = answer(0, 2, membership=1000, switch={
        'address': '127.0.0.1', 'udp_port': 9, 'udp_port_ext': 10})
    return dict(control=api.address, job_name='ring', source=0, sources=2, create=True, temporary=True, **more)


@case
def the_first_answer_has_to_come_soon():
    hangs = threading.Event()
    with FakeApi(tcp=True) as api:
        config = played(api, contact_timeout_ms=300)
        status = api.routes['/v1/status']
        api.routes['/v1/status'] = lambda _: hangs.wait(SECONDS) and None
        rank = Opener(**config)
        rank.does('wait', r"-110 no answer of the switch's control API at \S+ for [1-3]?\d?\d ms")
        rank.ends()
        hangs.set()
        # Once the switch has said anything, it has the time of the join.
        api.routes['/v1/status'] = status
        busy = []

        def later(_handler):
            busy.append(1)
            return error(503, 'busy') if len(busy) <= 10 else error(404, 'unknown_job')

        api.routes['/v1/jobs/ring/members'] = later
        rank = Opener(**config)
        rank.does('wait', '-2 .*no such job|-2 .*create it')
        rank.ends()
        check(len(busy) == 11, 'asked %d times', len(busy))


@case
def who_closes_while_it_opens_leaves():
    """Also if the process ends at once, while the control thread waits for another switch: the end of the process waits
    for the request."""
    hangs = threading.Event()
    with FakeApi(tcp=True) as api, FakeApi(tcp=True) as silent:
        api.routes['/v1/jobs/ring/members/0'] = {}
        other = played(silent, contact_timeout_ms=400)
        silent.routes['/v1/status'] = lambda _: hangs.wait(SECONDS) and None
        rank = Opener(other=other, **played(api))
        wait_for(lambda: [a for a in api.asked if a[0] == 'POST'], 'a join')
        rank.says('other')
        wait_for(lambda: silent.asked, 'the other handle')
        check('DELETE' not in [a[0] for a in api.asked], 'has left already: %s', api.asked)
        rank.says('close')
        rank.ends()
        hangs.set()
        [asked] = [a for a in api.asked if a[0] == 'DELETE']
        check(asked[1] == '/v1/jobs/ring/members/0?membership=1000', '%s', asked)


@case
def the_job_is_what_the_environment_says():
    with FakeApi(tcp=True) as api:
        members = Members(api, 2)
        config = played(api)
        api.routes['/v1/jobs/ring/members'] = members.join
        for settings, wanted in ((None, {'window': 8, 'policy': 'partial', 'temporary': True}),
                                 ('window=4', {'window': 4, 'temporary': True})):
            rank = Opener(variables={'WEIR_SETTINGS': 'window=8 policy=partial'}, **config,
                          **({'settings': settings} if settings else {}))
            wait_for(lambda: members.ever, 'a join')
            rank.ends()
            check(members.ever.pop(0)['create'] == wanted, 'not %s', wanted)


if __name__ == '__main__':
    main()
