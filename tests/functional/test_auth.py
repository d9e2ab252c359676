#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An authenticated job: weir-perf with its key, and an attacker in a namespace of its own."""
import collections
import contextlib
import os
import re
import signal
import socket
import time

from control import PORT, Control, make_certificate, running, switch
from tap import case, check, main
from perf import finish, key_file, report, start
from rack import SWITCH_ADDRESS, SWITCH_MAC, Rack, job
from wire import ALLREDUCE, EXTENDED, INT32, JOIN, SUM, Raw, frame, header, learn, source_key

AUTHENTICATED = 2  # the flag
ATTACKER = 2  # a host that is no source
SHORTEST = 500  # of the frames that are listened to: forged ones are shorter


def sums(*options, **job_options):
    with key_file() as key:
        keyed = job(1, 3, key_file=key, **job_options)
        with running(hosts=3, jobs=[keyed, job(2, 3)], workers=2) as rack:
            for _ in range(2):  # a second generation
                runs = start(rack, 1, range(3), '--key-file', key, *options)
                runs += start(rack, 2, range(3), *options)
                finish(runs)
                for run in runs:
                    check(report(run)['stats']['forged'] == 0, '%s', report(run)['stats'])
            stats = rack.check_packets()
            check(stats['drops']['forged'] == 0, '%s', stats['drops'])
            check(stats['jobs'][0]['generations'] == 2, '%s', stats['jobs'][0])


@case
def jobs_without_a_key_are_named_at_the_start():
    with key_file() as key:
        jobs = [job(1, 2), job(2, 2, key_file=key), job(3, 2, generation=7)]
        for these, named in ((jobs, ['job1, job3']), (jobs[1:2], [])):
            with Rack(hosts=2, jobs=these) as rack:
                run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '--check', '-c', rack.write_config()])
                check(run.end(20) == 0, '%s', run.output)
                check(re.findall(r'^weir-switch: warning: .*addresses alone .*: (.*)$', run.output, re.M) == named, '%s', run.output)


@case
def sums_are_right():
    sums('-b', 4, '-e', '256K', '-f', 16, '-n', 3, '-d', 'int32')


@case
def sums_by_multicast_are_right():
    sums('-b', 4, '-e', '64K', '-f', 16, '-n', 3, '-d', 'fp32', results='239.77.0.1')


@case
def barriers():
    sums('-C', 'barrier', '-n', 50)


@case
def each_host_has_the_key_of_its_source_alone():
    with key_file() as key, contextlib.ExitStack() as held:
        with open(key) as file:
            whole = bytes.fromhex(file.read())
        own = [held.enter_context(key_file(source_key(whole, s).hex())) for s in range(2)]
        with running(hosts=2, jobs=[job(1, 2, key_file=key)]) as rack:
            def start_with(keys, *more):
                return [rack.perf(s, 1, '--key-file', keys[s], '--source-key', '-b', 4, '-e', '64K', '-f', 4,
                                  '-n', 2, *more) for s in range(2)]

            finish(start_with(own))
            check(rack.check_packets()['drops']['forged'] == 0, 'forged')
            for run in start_with(own[::-1], '--join-timeout', 500):
                run.wait(10, status=1)
                check('has not answered the join' in run.output, '%s', run.output)


def overheard(rack, host):
    """A socket that hears what a host sends and receives."""
    with rack.inside(host):
        heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        heard.bind(('eth0', 0))
        heard.settimeout(0.2)
    return heard


Said = collections.namedtuple('Said', 'data block generation port')


def listen(heard):
    """The next contribution that the host sends; None: something else, or nothing."""
    try:
        data = heard.recv(9000)
    except socket.timeout:
        return None
    if len(data) < SHORTEST or data[23] != 17 or data[36:38] != EXTENDED.to_bytes(2, 'big'):
        return None
    generation = int.from_bytes(data[50:52], 'big')
    if generation == 0:
        return None
    return Said(data, int.from_bytes(data[43:47], 'big'), generation,
                int.from_bytes(data[34:36], 'big'))


def last_of(heard, said):
    """The contribution of the highest block among those that have been sent so far."""
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        more = listen(heard)
        if more is not None and more.block > said.block:
            said = more
    return said


def forgeries(generation, number, port):
    """(place, frame) of one who knows all but the key and is on every link: to the switch, from a host, as its source 0
    is known there; and to source 0, from the switch's end of its link."""
    allreduce = (ALLREDUCE, SUM, INT32, AUTHENTICATED, 0)
    for source in range(2):
        def from_it(payload, source=source):
            return source, frame(Rack.address(source), payload, EXTENDED, source_mac=Rack.mac(source), source_port=port)

        for tag in (b'', bytes(16), os.urandom(16)):
            payload = header(1, number, source, generation, 4, allreduce) + bytes(16) + tag
            yield from_it(payload)
        payload = header(1, number, source, generation, 4, (ALLREDUCE, SUM, INT32, 0, 0))
        yield from_it(payload + bytes(16))
        join = header(1, number, source, 0, 0, (JOIN, 0, 0, AUTHENTICATED, 0)) + os.urandom(52)
        yield from_it(join)
    for status in (0, 4, 5, 9):
        more = 256 if status == 0 else 0
        payload = header(1, number, 0, generation + (status == 5), more,
                         (ALLREDUCE, SUM, INT32, AUTHENTICATED, status), status=status,
                         sources=2 if status == 0 else 0)
        yield 'sw', frame(SWITCH_ADDRESS, payload + bytes(4 * more) + os.urandom(16), port, Rack.address(0),
                          source_mac=SWITCH_MAC, destination_mac=Rack.mac(0), source_port=EXTENDED)


def attack(rack, begin, old=None):
    """Forge and repeat until the runs end, which `begin` starts and returns. Returns them, the last contribution that
    was overheard, and how many were repeated."""
    sent, repeated, rounds, last = 0, 0, 0, None
    with contextlib.ExitStack() as held:
        raw = {place: held.enter_context(Raw(rack, place, name)) for place, name in
               ((0, 'eth0'), (1, 'eth0'), ('sw', 'p0'))}
        heard = held.enter_context(contextlib.closing(overheard(rack, 0)))
        runs = begin()
        while any(run.status is None for run in runs) and sent < 10000:
            said = listen(heard)
            if said is None:
                continue
            if rounds < 4:  # source 0 waits for results, so forged ones come first
                runs[1].signal(signal.SIGSTOP)
                said = last_of(heard, said)
            for block in range(said.block - 16, said.block + 1):
                for place, data in forgeries(said.generation, block & 0xffffffff, said.port):
                    raw[place].send(data)
                    sent += 1
            runs[1].signal(signal.SIGCONT)
            # Once more what source 0 said, from another place; and from its own what it said in another run.
            raw[0].send(said.data[:6] + mac_bytes(ATTACKER) + said.data[12:])
            if old is not None:
                raw[0].send(frame(Rack.address(0), old.data[42:], EXTENDED, source_mac=Rack.mac(0),
                                  source_port=said.port))
            repeated += 1
            rounds, last = rounds + 1, said
    check(sent > 100 and repeated > 0, '%d sent, %d repeated', sent, repeated)
    return runs, last, repeated


def changed_nothing(rack, runs, repeated, generations=1):
    """The sums are right, and what was sent beside them is dropped under its reasons: for its tag, if it is a join
    or came from its source's place; else for that."""
    finish(runs)
    stats = rack.check_packets()
    check(stats['drops']['forged'] > 100, '%s', stats['drops'])
    check(stats['drops']['address'] > repeated, '%d repeated: %s', repeated, stats['drops'])
    check(stats['jobs'][0]['forged'] == stats['drops']['forged'], '%s', stats['jobs'][0])
    check(stats['jobs'][0]['generations'] == generations, '%s', stats['jobs'][0])
    check(report(runs[0])['stats']['forged'] > 0, '%s', report(runs[0])['stats'])
    return stats


ATTACKED = ('-b', '256K', '-e', '256K', '-n', 30, '-w', 0, '-d', 'int32')


@case
def an_attacker_changes_nothing():
    with key_file() as key:
        keyed = job(1, 2, key_file=key, type='int32', window=16)
        with running(hosts=3, jobs=[keyed], workers=2) as rack:
            learn(rack)
            runs, _, repeated = attack(rack, lambda: [rack.perf(i, 1, '--key-file', key, *ATTACKED) for i in range(2)])
            changed_nothing(rack, runs, repeated)


def members(rack, url, *options):
    """weir-perf on hosts 0 and 1, which know where the switch is, the job's name, and who they are."""
    runs = []
    for rank in range(2):
        path = os.path.join(rack.folder, 'report-%d-%d.json' % (rank, len(rack.processes)))
        runs.append(rack.spawn(rank, [rack.program(('perf', 'weir-perf'))] + [
            str(o) for o in ('--switch', url, '--job-name', 'sealed', '--address',
                             rack.address(rank), '--source', rank, '--sources', 2, '--timeout',
                             20000, '--json=' + path, *ATTACKED, *options)], 'perf'))
        runs[-1].json = path
    return runs


@case
def members_that_get_their_keys_over_tls():
    with Rack(hosts=3, workers=2) as rack:
        crt, key = make_certificate(rack.folder, 'switch')
        api = Control(rack, tls={'certificate': crt, 'key': key})
        rack.start_switch()
        learn(rack)
        api.create('sealed', 2, id=1, window=16, type='int32', authenticate=True)
        url = 'https://%s:%d' % (SWITCH_ADDRESS, PORT)
        runs, old, repeated = attack(rack, lambda: members(rack, url, '--ca', crt))
        before = changed_nothing(rack, runs, repeated)['drops']['stale']
        # The next run has other keys: what is repeated from this one is stale.
        runs, _, more = attack(rack, lambda: members(rack, url, '--ca', crt), old)
        repeated += more
        stats = changed_nothing(rack, runs, repeated, 2)
        check(stats['drops']['stale'] > before, 'nothing is stale')
        rack.stop_switch()


@case
def members_prove_their_joins_in_a_plain_job_and_make_an_authenticated_one():
    """In the base form, too. The packets of the plain job are no longer than others'."""
    with switch() as (rack, api):
        api.create('sealed', 2, type='int32')
        for more in ((), ('--base-form',)):
            runs = members(rack, 'unix:' + api.path, *more)
            finish(runs)
            stats = report(runs[0])['stats']
            check(stats['wire_sent'] - stats['payload_sent'] <= 60 * stats['packets_sent'], '%s', stats)
        api.delete('sealed')
        finish(members(rack, 'unix:' + api.path, '--create', '--authenticate'))
        check(api.get('/v1/jobs/sealed')['authenticate'], 'sealed')
        check(rack.check_packets()['drops']['forged'] == 0, 'forged')


def mac_bytes(host):
    return bytes.fromhex(Rack.mac(host).replace(':', ''))


@case
def another_key_or_none_ends_in_time():
    with key_file() as key, key_file() as other, running(hosts=1, jobs=[job(1, 1, key_file=key), job(2, 1)]) as rack:
        for number, options in ((1, ['--key-file', other]), (1, []), (2, ['--key-file', other])):
            run = rack.perf(0, number, '-b', 4, '-e', 4, '--join-timeout', 500, *options)
            run.wait(10, status=1)
            check('has not answered the join' in run.output, '%s', run.output)


if __name__ == '__main__':
    main()
