#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who is in a job, and what it waits for: in a second run, after hosts left, died or began anew."""
import contextlib
import os
import re
import sys
import time

from control import PORT, switch
from join_hosts import environment
from rack import SWITCH_ADDRESS, job
from tap import case, check, main, wait_for
from wire import DISPLACED, WAITING, Peer, join_all

WEIRCTL = ('ctl', 'weirctl')
FORGOTTEN = 3  # seconds: docs/protocol.md


@contextlib.contextmanager
def sources(rack, number, count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Peer(rack, s, number, s, key=rack.keys.get((number, s)))) for s in range(count)]


def ctl(rack, api, *words):
    run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', 'unix:' + api.path, *words])
    check(run.end(20) == 0, 'weirctl %s:\n%s', words, run.output)
    return re.sub(r'\s+', ' ', run.output)


def metric(api, name, **labels):
    """Its value, or None."""
    text = api.unix('GET', '/metrics').text.decode()
    for line in text.splitlines():
        found = re.match(r'weir_%s{([^}]*)} (\S+)$' % name, line)
        if found and all('%s="%s"' % one in found.group(1) for one in labels.items()):
            return float(found.group(2))
    return None


def silence(api, rank):
    """Seconds since the last packet of a rank of "ring"."""
    return time.time() - metric(api, 'source_last_contact_timestamp_seconds', weir_job='ring', rank=str(rank))


def state(api, name):
    found = api.get('/v1/jobs/' + name)
    return found['state'], found['joined'], [m['state'] for m in found['members']]


@case
def a_second_run_of_a_job_of_the_file_lacks_a_host():
    with switch(3, [job(1, 3)]) as (rack, api), sources(rack, 1, 3) as peers:
        check(state(api, 'job1') == ('joining', 0, ['expected'] * 3), '%s', state(api, 'job1'))
        join_all(peers)
        check(state(api, 'job1') == ('running', 3, ['joined'] * 3), '%s', state(api, 'job1'))
        for peer in peers[:2]:
            peer.send_join()
            check(peer.receive().status == WAITING, 'waiting')
        now = state(api, 'job1')
        check(now == ('joining', 2, ['joined', 'joined', 'expected']), '%s', now)
        check(metric(api, 'job_members_joined', weir_job='job1') == 2, 'metric')
        check(re.search(r'job1 +1 +joining +2 of 3', ctl(rack, api, 'jobs')), 'weirctl jobs')
        told = ctl(rack, api, 'blocks', '--stuck')
        check('job job1: 2 of 3 sources have joined again; waiting for ' in told and 'rank 2 (10.77.0.3)' in told and
              'rank 0' not in told and 'rank 1' not in told, '%s', told)
        peers[2].send_join()
        for peer in peers:
            peer.take_join()
        check(state(api, 'job1') == ('running', 3, ['joined'] * 3), '%s', state(api, 'job1'))


@case
def a_second_run_of_a_job_of_the_api_lacks_a_host():
    with switch(2) as (rack, api):
        number = api.job_of('ring', [0, 1])
        with sources(rack, number, 2) as peers:
            join_all(peers)
            check(state(api, 'ring') == ('running', 2, ['joined'] * 2), '%s', state(api, 'ring'))
            for rank in range(2):
                api.leave('ring', rank)
            check(state(api, 'ring') == ('idle', 0, ['left'] * 2), '%s', state(api, 'ring'))
            check(ctl(rack, api, 'blocks', '--stuck') == 'nothing is stuck ', 'idle')
            api.join('ring', 1, 2, 1)
            peers[1].key = rack.keys[number, 1]
            peers[1].send_join()
            check(peers[1].receive().status == WAITING, 'waiting')
            check(state(api, 'ring') == ('joining', 1, ['left', 'joined']), '%s',
                  state(api, 'ring'))
            told = ctl(rack, api, 'blocks', '--stuck')
            check('job ring: 1 of 2 sources have joined again; waiting for rank 0 '
                  '(10.77.0.1), left '
                  in told, '%s', told)


IDLE = """
import os, signal, sys
sys.path.insert(0, %r)
from libweir import Handle, Library
with Handle(Library(os.environ['WEIR_BUILD'])) as handle:
    print('joined', flush=True)
    signal.pause()
""" % os.path.dirname(os.path.abspath(__file__))


@case
def a_member_that_computes_does_not_expire():
    with switch(1) as (rack, api):
        api.create('ring', 1, expire_s=9)
        run = rack.spawn(0, [sys.executable, '-c', IDLE], 'idle', environment(
            rank=0, size=1, WEIR_BUILD=os.environ['WEIR_BUILD'], WEIR_JOB='ring',
            WEIR_SWITCH='http://%s:%d' % (SWITCH_ADDRESS, PORT)))
        run.wait_line('joined', 30)
        wait_for(lambda: silence(api, 0) > 2, 'never silent')
        wait_for(lambda: silence(api, 0) < 1, 'silent for %s s', lambda: silence(api, 0))
        check(state(api, 'ring')[-1] == ['joined'], '%s', state(api, 'ring'))


@case
def who_left_or_expired_is_named_with_its_address():
    with switch(2) as (rack, api):
        number = api.job_of('ring', [0, 1], expire_s=1000)
        with sources(rack, number, 2) as peers:
            join_all(peers)
            peers[1].send(0, [1])
            check(peers[1].receive(0.1) is None, 'no result')
            peers[0].send(1, [1])
            api.leave('ring', 1)

            def blocks():
                return api.get('/v1/blocks?job=ring')['blocks']

            def missing():
                return blocks()[1]['missing'][0]
            wait_for(lambda: len(blocks()) > 1, '%s', blocks)
            wait_for(lambda: missing()['gone'] > 0.2, '%s', missing)
            found = missing()
            check(found['address'] == rack.address(1) and found['state'] == 'left' and
                  found['gone'] < found['last_heard'], '%s', found)
            check(silence(api, 1) > 0.2, 'metric')
            check(state(api, 'ring')[:2] == ('joining', 1), '%s', state(api, 'ring'))

            # Rank 0 is heard until its own end; then nobody is there to wait.
            def words():
                peers[0].send(1, [1])
                told = ctl(rack, api, 'blocks', '--stuck')
                return told if 'block 1 ' in told else None
            told = wait_for(words, 'it waits for nobody')
            check(re.search(r'block 1 waits for rank 1 \(10\.77\.0\.2\), left [\d.]+ m?s ago', told)
                  and 'the job continues when all its ranks have joined again' in told, '%s', told)
            api.do('PATCH', '/v1/jobs/ring', {'expire_s': 2})
            wait_for(lambda: state(api, 'ring') == ('idle', 0, ['expired', 'left']), '%s',
                     lambda: state(api, 'ring'))
            check(ctl(rack, api, 'blocks', '--stuck') == 'nothing is stuck ', 'stuck')
            check(metric(api, 'job_blocks_in_flight', weir_job='ring') == 0, 'in flight')
            check([b['state'] for b in api.get('/v1/blocks')['blocks']] == ['abandoned'] * 2,
                  '%s', api.get('/v1/blocks'))
            check(silence(api, 0) > 1, 'metric')


@case
def a_host_that_began_anew_is_told_from_one_that_is_slow():
    with switch(2, [job(1, 2)]) as (rack, api), sources(rack, 1, 2) as peers:
        join_all(peers)
        peers[0].send(0, [1])
        wait_for(lambda: api.get('/v1/jobs/job1')['members'][1]['last_heard'] > 0.3, 'it is heard')
        with Peer(rack, 1, 1, 1) as again:
            def told():
                """What is missing, once it asks for a while: it repeats itself, or is forgotten."""
                again.send_join(77)
                peers[0].send(0, [1])
                blocks = api.get('/v1/blocks?stuck=1')['blocks']
                found = blocks[0]['missing'][0] if blocks else {}
                return found if (found.get('asks') or 0) > 0.5 else None
            found = wait_for(told, 'nobody asks')
            check(found['rank'] == 1 and found['last_heard'] >= found['asks'] and
                  not found['contested'], '%s', found)

            def words():
                again.send_join(77)
                said = ctl(rack, api, 'blocks', '--stuck')
                return said if 'asking to join' in said else None
            check(re.search(r'rank 1 \(10\.77\.0\.2\), which has been asking to join for [\d.]+ m?s; '
                            r'the job continues when all its ranks', wait_for(words, 'it did not')), '%s',
                  ctl(rack, api, 'blocks', '--stuck'))


@case
def joins_of_the_dead_are_forgotten():
    with switch(2, [job(1, 2)]) as (rack, api), sources(rack, 1, 2) as peers:
        peers[1].send_join()
        check(peers[1].receive().bitmap() == [1], 'bitmap')
        for _ in range(2):
            said = time.monotonic()
            peers[1].send_join(peers[1].nonce)
            peers[1].receive()
            time.sleep(FORGOTTEN / 2)  # a time that is kept
            found = state(api, 'job1')[:2]
            check(found == ('joining', 1) or time.monotonic() - said > FORGOTTEN, 'repeated in time: %s', found)
        wait_for(lambda: state(api, 'job1')[:2] == ('joining', 0), '%s', lambda: state(api, 'job1'))
        peers[0].send_join()
        reply = peers[0].receive()
        check(reply.status == WAITING and reply.bitmap() == [0], '%s', reply.status)
        peers[1].send_join()
        for peer in peers:
            peer.take_join()


@case
def two_processes_of_one_rank_are_seen():
    with switch(3, [job(1, 3)]) as (rack, api), sources(rack, 1, 3) as peers:
        def contested():
            return [m['contested'] for m in api.get('/v1/jobs/job1')['members']]

        peers[0].send_join()
        with Peer(rack, 1, 1, 1) as other:
            peers[1].send_join(11)
            check(peers[1].receive().status == WAITING, 'waiting')
            check(contested() == [False] * 3, '%s', contested())
            other.send_join(12)
            check(other.receive().status == WAITING, 'waiting')
            for _ in range(2):  # at once, and each time that the former one repeats itself
                said = peers[1].receive()
                check((said.status, said.block) == (DISPLACED, 11) and
                      said.displaced_by() == (rack.address(1), other.port), '%s', vars(said))
                peers[1].send_join(11)
            check(contested() == [False, True, False], '%s', contested())
            told = ctl(rack, api, 'members', 'job1')
            check('two processes join as rank 1 (10.77.0.2)' in told, '%s', told)


if __name__ == '__main__':
    main()
