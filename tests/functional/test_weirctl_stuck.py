#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl blocks --stuck against a control API that is played: the switch's sentences are printed."""
import sys

from ctl import ctl, good, says
from fake_api import FakeApi, block, stuck
from tap import case, check, main


@case
def why_is_it_stuck():
    with FakeApi() as api:
        api.fill()
        out = good(ctl(api.address, 'blocks', '--stuck'))
        check(out == 'job ring: 64 blocks 17..80 wait for rank 2 (10.77.0.3), last heard 12.4 s ago; policy wait: '
              'nothing will happen until it sends\n  the oldest open for 12.6 s\n', '%s', out)
        check(('GET', '/v1/blocks?limit=256&stuck=1') in [a[:2] for a in api.asked], '%s', api.asked)
        api.routes['/v1/blocks'] = {'blocks': [], 'stuck': [stuck('eval', 'waits', None)]}
        check(good(ctl(api.address, 'blocks', '--stuck')) == 'job eval: waits\n', 'without a detail')
        api.routes['/v1/blocks'] = {'blocks': [], 'stuck': []}
        check(good(ctl(api.address, 'blocks', '--stuck')) == 'nothing is stuck\n', 'nothing')
        good(ctl(api.address, 'blocks', '--stuck', '--job', 'a/b&c', '--limit', '7'))
        check(('GET', '/v1/blocks?job=a%2Fb%26c&limit=7&stuck=1') in [a[:2] for a in api.asked],
              '%s', api.asked)


@case
def what_is_not_listed_is_told():
    with FakeApi() as api:
        api.fill()
        api.routes['/v1/blocks'] = {'blocks': [block(b) for b in range(7)], 'stuck': [stuck()] * 7}
        for words in (['blocks'], ['blocks', '--stuck']):
            check('only the first 7 are listed' in good(ctl(api.address, *words, '--limit', '7')), '%s', words)
            check('only' not in good(ctl(api.address, *words, '--limit', '8')), '%s', words)


@case
def what_is_not_known_is_not_well():
    with FakeApi() as api:
        api.fill()
        for answer in ((503, {'error': {'code': 'busy', 'key': None, 'message': 'too much to do'}}),
                       FakeApi.unknown, b'<html>', {'blocks': []}):
            api.routes['/v1/blocks'] = answer
            run = says(ctl(api.address, 'blocks', '--stuck'), 1, 'weirctl: ')
            check('nothing is stuck' not in run.out, '%s', run)


if __name__ == '__main__':
    sys.exit(main())
