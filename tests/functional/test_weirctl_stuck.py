#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl blocks --stuck against a control API that is played: what waits for whom, and that
what is not known is not called well."""
import re
import sys

from ctl import ctl, good, says
from fake_api import FakeApi, block, job, members
from tap import case, check, main


@case
def why_is_it_stuck():
    with FakeApi() as api:
        api.fill()
        out = good(ctl(api.address, 'blocks', '--stuck'))
        check(out.startswith('job ring: 64 blocks 17..80 wait for rank 2 (10.77.0.3), last heard '
                             '12.4 s ago; policy wait: nothing will happen until it sends\n'),
              '%s', out)
        check('the oldest open for 12.6 s' in out and '3 of 4 sources' in out, '%s', out)
        check(('GET', '/v1/blocks?limit=1024&stuck=1') in [a[:2] for a in api.asked], '%s', api.asked)
        api.routes['/v1/blocks'] = {'blocks': [
            block(5, missing=(1,), policy='partial', policy_in=0.8),
            block(6, missing=(1, 3), policy='error', policy_in=-0.1),
            block(7, missing=(3,), policy='partial', policy_in=0.8),
            block(9, 'eval', missing=(1,), policy='partial', policy_in=2.0)]}
        out = good(ctl(api.address, 'blocks', '--stuck'))
        check(len(re.findall('^job ', out, re.M)) == 4, 'other sources, one paragraph: %s', out)
        check('job ring: block 7 waits for rank 3 (10.77.0.4)' in out, '%s', out)
        check(re.search(r'^job ring: block 5 waits for rank 1 .*results without it go out in 800 ms$',
                        out, re.M), '%s', out)
        check(re.search(r'^job ring: block 6 waits for rank 1 \(10\.77\.0\.2\).*; and for rank 3 .*'
                        'every source is told that it failed now$', out, re.M), '%s', out)
        check(re.search('^job eval: block 9 ', out, re.M), '%s', out)
        api.routes['/v1/blocks'] = {'blocks': []}
        check(good(ctl(api.address, 'blocks', '--stuck')) == 'nothing is stuck\n', 'nothing')
        # No block, and yet everybody waits: one has not joined.
        late = members()
        late[3].update(state='expected', last_heard=None)
        api.routes['/v1/jobs'] = {'jobs': [job('ring', 1, state='joining', joined=3)]}
        api.routes['/v1/jobs/ring'] = job('ring', 1, state='joining', joined=3, generation=0,
                                           members=late)
        out = good(ctl(api.address, 'blocks', '--stuck'))
        check(out == 'job ring: has not begun: 3 of 4 sources have joined; it waits for rank 3 '
              '(10.77.0.4), never heard\n', '%s', out)
        good(ctl(api.address, 'blocks', '--stuck', '--job', 'a/b&c', '--limit', '7'))
        check(('GET', '/v1/blocks?job=a%2Fb%26c&limit=7&stuck=1') in [a[:2] for a in api.asked],
              '%s', api.asked)


@case
def what_could_not_be_asked_is_not_well():
    waits = job('ring', 1, state='joining', joined=3)
    with FakeApi() as api:
        api.fill()
        api.routes['/v1/blocks'] = {'blocks': []}
        for answer in ((503, {'error': {'code': 'busy', 'key': None, 'message': 'too much to do'}}),
                       FakeApi.unknown, b'<html>', {'other': []}):
            api.routes['/v1/jobs'] = answer
            run = says(ctl(api.address, 'blocks', '--stuck'), 1, 'the jobs could not be asked')
            check('nothing is stuck' not in run.out, '%s', run)
        api.routes['/v1/jobs'] = lambda handler: handler.connection.close()
        says(ctl(api.address, 'blocks', '--stuck', '-t', '2s'), 3, 'the jobs could not be asked')
        # Of one that waits: who it waits for.
        api.routes['/v1/jobs'] = {'jobs': [waits]}
        api.routes['/v1/jobs/ring'] = (500, b'no')
        says(ctl(api.address, 'blocks', '--stuck'), 1, 'could not be asked')
        # One that went in between is no trouble.
        del api.routes['/v1/jobs/ring']
        check(good(ctl(api.address, 'blocks', '--stuck')) == 'nothing is stuck\n', 'gone')
        # And what is known is told.
        api.routes['/v1/blocks'] = {'blocks': [block(5)]}
        api.routes['/v1/jobs'] = FakeApi.unknown
        says(ctl(api.address, 'blocks', '--stuck'), 1, '^job ring: block 5 waits for rank 2',
             'weirctl: the jobs could not be asked')


@case
def a_job_that_nobody_uses_is_not_stuck():
    new = job('new', 7, state='joining', joined=0, generation=0,
              members=[dict(one, state='expected') for one in members()])
    with FakeApi() as api:
        api.fill()
        api.routes.update({'/v1/blocks': {'blocks': []}, '/v1/jobs': {'jobs': [new]},
                           '/v1/jobs/new': new})
        check(good(ctl(api.address, 'blocks', '--stuck')) == 'nothing is stuck\n', 'new')


@case
def who_does_not_acknowledge_is_named():
    """Of policy partial, while its blocks are done and its hosts stand still for one of them."""
    def ring(**more):
        found = dict(policy='partial', dead_after_ms=10000, blocks_in_flight=0,
                     buffers={'used': 128, 'reserved': 128}, members=members(dead=2))
        found.update(more)
        return job('ring', 1, **found)

    with FakeApi() as api:
        api.fill()
        api.routes['/v1/blocks'] = {'blocks': []}

        def stuck(**more):
            api.routes['/v1/jobs'] = {'jobs': [ring(**more)]}
            api.routes['/v1/jobs/ring'] = ring(**more)
            return good(ctl(api.address, 'blocks', '--stuck'))

        check(stuck() == 'job ring: its results wait for the acknowledgement of rank 2 (10.77.0.3), last heard '
              '12.4 s ago; policy partial: after 10.0 s of that the others go on without it\n', '%s', stuck())
        check('dead_after_ms is 0: nothing will happen until it sends\n' in stuck(dead_after_ms=0), '%s', stuck())
        # All heard; at rest; blocks that are open speak for themselves; nobody was heard for long.
        for more in ({'members': members()}, {'buffers': {'used': 64, 'reserved': 128}},
                     {'blocks_in_flight': 1}, {'policy': 'wait'}, {'timeout_ms': 20000},
                     {'members': [dict(one, last_heard=12.4) for one in members()]}):
            check(stuck(**more) == 'nothing is stuck\n', '%s: %s', more, stuck(**more))


if __name__ == '__main__':
    sys.exit(main())
