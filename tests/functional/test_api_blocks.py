#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""GET /v1/blocks of a real switch: who is missing, whatever ids a job's sources have, and why in sentences."""
import re

from control import Control
from openapi import Document
from rack import Rack, job
from tap import case, check, main, wait_for
from wire import Peer, join_all


def blocks(api):
    """The blocks in flight, as soon as there are some."""
    return wait_for(lambda: api.get('/v1/blocks')['blocks'], 'no block')


@case
def missing_are_sources_that_the_job_has():
    ids = {1: 0, 5: 1, 9: 2}  # and the host of each
    sources = [{'id': i, 'address': Rack.address(host)} for i, host in ids.items()]
    with Rack(hosts=3, jobs=[dict(job(1, 3), sources=sources, generation=7,
                                          policy='wait')]) as rack:
        api = Control(rack)
        rack.start_switch()
        with Peer(rack, 1, 1, 5) as peer:
            peer.generation = 7
            peer.send(0, [1, 2])
            found = blocks(api)
            check(len(found) == 1 and found[0]['heard'] == 1 and found[0]['size'] == 3, '%s', found)
            missing = [(one['rank'], one['address']) for one in found[0]['missing']]
            check(missing == [(1, Rack.address(0)), (9, Rack.address(2))], 'missing: %s', missing)
        found = api.get('/v1/jobs/job1')['members']
        check([member['rank'] for member in found] == list(ids), '%s', found)
        rack.stop_switch()


def stuck(api):
    """The only entry of what is stuck, as soon as there is one."""
    (found,) = wait_for(lambda: api.get('/v1/blocks?stuck=1')['stuck'], 'nothing is stuck')
    return found


@case
def sentences_name_sources_and_say_what_the_policy_does():
    sources = [{'id': i, 'address': Rack.address(i)} for i in range(7)]
    for policy, ends in (('wait', r'wait: nothing will happen until they send'),
                         ('partial', r'partial: results without them go out in \d+\.\d s'),
                         ('error', r'error: the blocks fail in \d+\.\d s')):
        with Rack(hosts=1, jobs=[dict(job(1, 7), sources=sources, generation=7, policy=policy,
                                              timeout_ms=60000)]) as rack:
            api = Control(rack)
            rack.start_switch()
            with Peer(rack, 0, 1, 0) as peer:
                peer.generation = 7
                for number in (5, 6, 9):
                    peer.send(number, [1, 2])
                wait_for(lambda: '3 blocks' in stuck(api)['text'], '%s', lambda: stuck(api))
                found = stuck(api)
            never = '; '.join(r'rank %d \(10\.77\.0\.%d\), never heard' % (r, r + 1) for r in range(1, 5))
            check(re.fullmatch(r'3 blocks 5\.\.6, 9 wait for %s; and for 2 more: ranks 5\.\.6; policy %s' % (never, ends),
                               found['text']), '%s', found['text'])
            check(re.fullmatch(r'the oldest open for [\d.]+ s, no new contribution for [\d.]+ s; 1 of 7 sources have '
                               'contributed; generation 7', found['detail']), '%s', found['detail'])
            check(found['job'] == 'job1' and found['reason'] == 'blocks', '%s', found)
            page = Document()
            page.check(page.root['paths']['/v1/blocks']['get'], 200, api.get('/v1/blocks?stuck=1'))
            check([one['rank'] for one in found['missing']] == list(range(1, 7)), '%s', found)
            rack.stop_switch()


@case
def who_does_not_acknowledge_is_named():
    """Of policy partial, while all blocks are done and the hosts wait for one of them."""
    with Rack(hosts=2, jobs=[job(1, 2, window=1, policy='partial', timeout_ms=50)]) as rack:
        api = Control(rack)
        rack.start_switch()
        with Peer(rack, 0, 1, 0) as peer, Peer(rack, 1, 1, 1) as silent:
            join_all([peer, silent])
            silent.send(0, [1])
            for number in range(2):
                peer.send(number, [1])
                check(peer.receive().block == number, 'result')

            def speaks():
                peer.send(1, [1])
                peer.receive(0.2)
                return api.get('/v1/blocks?stuck=1')['stuck']
            wait_for(speaks, 'nothing is stuck: %s', lambda: api.get('/v1/jobs/job1'))
            check(re.fullmatch(r'its results wait for the acknowledgement of rank 1 \(10\.77\.0\.2\), last heard '
                               r'[\d.]+ s ago; policy partial: after 10\.0 s of silence the others continue without '
                               'it', stuck(api)['text']), '%s', stuck(api))
            check(stuck(api)['reason'] == 'acknowledgement', '%s', stuck(api))
        rack.stop_switch()


if __name__ == '__main__':
    main()
