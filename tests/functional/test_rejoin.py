#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that join again: those of weir-perf --rejoin, in authenticated jobs, as members by the control API, after they were
expelled. It works, or there is an error in bounded time that says what is wrong."""
import os
import re
import signal
import socket
import tempfile
import threading
import time

from control import Control, running
from perf import SLOW, key_file, report, under_way, wait_row
from tap import case, check, main, wait_for
from wire import EXTENDED, JOIN, PROBE
from rack import Rack, job

SIZES = ('-b', '4K', '-e', '8K', '-f', '2', '-n', '100', '-w', '0', '-d', 'int32')
SO_RCVBUFFORCE = 33  # beyond what an ordinary process may have
OPTIONS = ('--rejoin', '8', '--timeout', '2000', '--join-timeout', '10000')


def ends_right(runs, status=(0,), seconds=60):
    """Every run ends well (status 3: some results were partial) and says that nothing was wrong. Returns
    the reports."""
    for run in runs:
        check(run.end(seconds) in status, '%s', run.output)
    found = [report(run) for run in runs]
    for one in found:
        check(one['wrong'] == 0 and one.get('error') is None and all(row['wrong'] == 0 for row in one['rows']), '%s', one)
        check(all(r['recovered'] for r in one['rejoins']), '%s', one['rejoins'])
    return found


def fails(run, seconds, *patterns):
    """It ends with an error within so many seconds, and says why."""
    began = time.monotonic()
    out = run.wait(seconds, 1)
    for pattern in patterns:
        check(re.search(pattern, out), '"%s" is not in what came after %.1f s:\n%s', pattern,
              time.monotonic() - began, out)


# -- hosts and the switch, killed and started anew

PATIENT = ('--join-timeout', '60000')
LONGER = (*SIZES, *OPTIONS, *PATIENT, '-e', '16K', '-w', '5')


def recovered(found, most=8):
    check(1 <= len(found['rejoins']) <= most, '%s', found['rejoins'])
    for one in found['rejoins']:
        check(one['recovered'] and one['error'] and one['code'] < 0 and one['generation'] > 0, '%s', one)
        check(one['failed_at'] - 1 <= one['resumed_at'] <= one['failed_at'], '%s', one)
    check(found['repeated'] <= len(found['rejoins']), '%s', found)


def whole(found, rows=3):
    """Every row is there, with the time of every iteration, once."""
    check(len(found['rows']) == rows, '%s', found['rows'])
    for row in found['rows']:
        for way in ('out_of_place', 'in_place'):
            check(row[way]['operations'] == found['iterations'], '%s', row)


def comes_back(rejoin, timeout):
    with running(hosts=3, jobs=[job(1, 3, timeout_ms=200, rejoin=rejoin)], workers=2,
                 changes={'faults': SLOW}) as rack:
        runs = [rack.perf(host, 1, *LONGER, '--timeout', timeout) for host in range(3)]
        wait_row(runs[0])
        runs[2].kill()
        runs[2] = rack.perf(2, 1, *LONGER, '--timeout', timeout)
        found = ends_right(runs)
        for one in found[:2]:
            recovered(one)
            whole(one)
            # With `revoke` they need not wait for their own timeouts.
            check(one['rejoins'][0]['code'] == (-110 if rejoin == 'wait' else -116), '%s', one)
        check(found[2]['began_at'] > 50, '%s', found[2])
        # On a busy machine a host may once more be slow for so long.
        check(rejoin == 'wait' or not found[2]['rejoins'], '%s', found[2])
        check(found[2]['rows'][-1]['in_place']['operations'] == 100, '%s', found[2]['rows'])
        check('# joined again after' in runs[0].output and '# failed in' in runs[0].output, '%s',
              runs[0].output)
        check('began with iteration %d\n' % found[2]['began_at'] in runs[2].output, '%s', runs[2].output)
        stats = rack.check_packets()
        check(stats['jobs'][0]['revokes'] == (rejoin == 'revoke'), '%s', stats['jobs'][0])
        check(stats['jobs'][0]['blocks_in_flight'] == 0 or rejoin == 'wait', '%s', stats['jobs'][0])


@case
def a_host_is_killed_and_comes_back():
    comes_back('wait', '2000')


@case
def a_host_that_comes_back_revokes_the_others():
    comes_back('revoke', '120000')


def switch_is_killed(*options, when=lambda rack, runs: wait_row(runs[0]), **changes):
    with Rack(hosts=2, jobs=[job(1, 2, timeout_ms=200)], changes={'faults': SLOW}) as rack:
        for key in changes:
            rack.changes[key] = {'file': os.path.join(rack.folder, changes[key])}
        rack.start_switch()
        # A busy machine may need seconds to start a switch.
        runs = [rack.perf(host, 1, *OPTIONS, *PATIENT, *options, '--timeout', '120000') for host in range(2)]
        when(rack, runs)
        rack.switch.kill()
        rack.start_switch()
        found = ends_right(runs)
        for one in found:
            recovered(one)
            check('generation' in one['rejoins'][0]['error'], '%s', one['rejoins'])
        rack.check_packets()
        rack.stop_switch()
    return found


@case
def the_switch_is_killed_and_started_with_its_state():
    for found in switch_is_killed(*LONGER, state='state.json'):
        whole(found)


@case
def barriers_go_on():
    for found in switch_is_killed('-C', 'barrier', '-n', '500', when=under_way):
        check(found['rows'][0]['in_place']['operations'] == 500, '%s', found['rows'])


@case
def a_model_goes_on():
    with tempfile.NamedTemporaryFile('w', prefix='weir-model-') as file:
        file.write('a 4000\nb 10\nc 700\n')
        file.flush()
        for found in switch_is_killed('--shapes', file.name, '-n', '100', when=lambda _, runs: wait_row(runs[0], 18840)):
            check(len(found['rows']) == 100, '%d rows', len(found['rows']))


@case
def tries_are_bounded():
    with running(hosts=2, jobs=[job(1, 2, timeout_ms=200)], changes={'faults': SLOW}) as rack:
        few = ('--rejoin', '2', '--timeout', '2000', '--join-timeout', '2000')
        runs = [rack.perf(host, 1, *LONGER, *few) for host in range(2)]
        wait_row(runs[0])
        runs[1].kill()
        runs[0].wait(15, 1)
        found = report(runs[0])
        check('missing: source 1' in found['error'], '%s', found['error'])
        check(len(found['rejoins']) == 1 and not found['rejoins'][0]['recovered'] and
              found['rejoins'][0]['tries'] == 2, '%s', found['rejoins'])


# -- authenticated: what is on the wire


class Overheard:
    """What a host sends and receives on the switch's UDP port, from the aggregation header on."""

    def __init__(self, rack, host):
        with rack.inside(host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.socket.bind(('eth0', 0))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        self.socket.settimeout(0.1)
        self.sent, self.received, self.on = [], [], True
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while self.on:
            try:
                data = self.socket.recv(9000)
            except socket.timeout:
                continue
            if len(data) < 58 or data[23] != 17:
                continue
            length = int.from_bytes(data[38:40], 'big') - 8
            if data[36:38] == EXTENDED.to_bytes(2, 'big'):
                self.sent.append(data[42:42 + length])
            elif data[34:36] == EXTENDED.to_bytes(2, 'big'):
                self.received.append(data[42:42 + length])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.on = False
        self.thread.join(5)
        self.socket.close()


def challenges(packets):
    """Of the generations that began: {generation and challenge}, and how often they were told."""
    found = {}
    for packet in packets:
        if packet[12] >> 4 == JOIN and packet[15] == 0:
            at = 34 + int.from_bytes(packet[32:34], 'big') if packet[18] & 0x20 else 32  # behind the settings
            key = (int.from_bytes(packet[8:10], 'big'), packet[at:at + 16])
            found[key] = found.get(key, 0) + 1
    return found


def no_key_comes_twice(heard, least):
    begun = challenges(heard.received)
    check(len(begun) >= least, 'only %d generations: %s', len(begun), begun)
    check(len({challenge for _, challenge in begun}) == len(begun), 'a challenge came twice: %s', begun)
    # Under one key a block has one contribution and one probe: who repeats it, repeats the same bytes.
    said = {}
    for packet in heard.sent:
        generation = int.from_bytes(packet[8:10], 'big')
        if generation != 0 and packet[12] >> 4 != JOIN:
            check(packet[13] & 2, 'a contribution without a tag')
            said.setdefault((generation, packet[1:5], packet[12] >> 4 == PROBE), set()).add(packet)
    check(len(said) > 100, 'only %d blocks were overheard', len(said))
    numbers = [generation for generation, _ in begun]
    for (generation, _, _), messages in said.items():
        # Two runs of the switch may draw one number, with other challenges.
        check(len(messages) <= numbers.count(generation), 'two messages under one key and nonce')


@case
def no_key_is_used_twice_after_a_restart():
    with key_file() as key, Rack(hosts=2, jobs=[job(1, 2, timeout_ms=200, key_file=key)], changes={'faults': SLOW}) as rack:
        rack.start_switch()
        more = ('--key-file', key, *SIZES, '-e', '16K', *OPTIONS)
        with Overheard(rack, 0) as heard:
            runs = [rack.perf(host, 1, *more) for host in range(2)]
            wait_row(runs[0])
            rack.switch.kill()
            rack.start_switch()
            wait_row(runs[0], 8192)
            runs[1].kill()
            runs[1] = rack.perf(1, 1, *more)
            found = ends_right(runs)
        check(len(found[0]['rejoins']) >= 2, '%s', found[0]['rejoins'])
        no_key_comes_twice(heard, 3)
        rack.check_packets()
        rack.stop_switch()


# -- members by the control API


class Members:
    """Hosts of the job "ring" that are told its name, and a switch that may be started anew."""

    def __init__(self, hosts=2, state=False, made=None):
        self.rack = Rack(hosts=hosts, changes={'faults': SLOW})
        self.api = Control(self.rack)
        self.state, self.made = state, made

    def __enter__(self):
        self.rack.__enter__()
        if self.state:
            self.rack.changes['state'] = {'file': os.path.join(self.rack.folder, 'state.json')}
        self.rack.start_switch()
        if self.made is not None:
            answer = self.ask('POST', '/v1/jobs', dict(self.made, name='ring', size=2, timeout_ms=200))
            check(answer.status == 201, '%d %s', answer.status, answer.text)
        return self

    def __exit__(self, *error):
        self.rack.__exit__(*error)

    def ask(self, method, path, body=None):
        return self.api.unix(method, path, body)

    def start(self, rank, *options, host=None):
        rack, host = self.rack, rank if host is None else host
        path = os.path.join(rack.folder, 'report-%d-%d.json' % (rank, len(rack.processes)))
        run = rack.spawn(host, [rack.program(('perf', 'weir-perf')), '--switch', 'unix:' + self.api.path,
                                '--job-name', 'ring', '--address', rack.address(host), '--source',
                                str(rank), '--sources', '2', '--json=' + path, *SIZES, *OPTIONS,
                                *options], 'perf')
        run.json = path
        return run

    def run(self, *options):
        runs = [self.start(rank, *options) for rank in range(2)]
        wait_row(runs[0])
        return runs

    def restart(self):
        self.rack.switch.kill()
        self.rack.start_switch()

    def rank_1(self):
        return self.ask('GET', '/v1/jobs/ring').body['members'][1]

    def end(self):
        self.rack.check_packets()
        self.rack.stop_switch()


@case
def members_through_a_restart():
    for state, more in ((True, ('--authenticate',)), (False, ())):
        with Members(state=state) as members:
            runs = members.run('--create', *more)
            members.restart()
            for found in ends_right(runs):
                check(found['rejoins'], 'they did not notice')
            found = members.ask('GET', '/v1/jobs/ring').body
            check(found['authenticate'] == bool(more), '%s', found)
            members.end()


@case
def members_of_a_switch_without_its_control_api():
    """It is started without: nobody can be asked, and the memberships hold."""
    members = Members()
    members.rack.jobs = [job(1, 2, name='ring', timeout_ms=200)]
    with members:
        runs = members.run('--join-timeout', '4000')
        del members.rack.changes['api']
        members.restart()
        for found in ends_right(runs):
            check(found['rejoins'][0]['ms'] > 1500, '%s', found['rejoins'])
        members.end()


@case
def members_of_a_job_that_is_lost():
    """The switch does not keep its state, and nobody makes the job again."""
    with Members(made={}) as members:
        runs = members.run('--rejoin', '2')
        members.restart()
        for run in runs:
            # A restart may take longer than a silent switch is waited for.
            fails(run, 20, r'job "ring" (\(0\) )?is gone|has not answered', 'no job is called "ring"',
                  'weirctl job create')
        members.end()


@case
def members_of_a_job_that_is_deleted():
    with Members(made={}) as members:
        runs = members.run('--rejoin', '2')
        members.ask('DELETE', '/v1/jobs/ring')
        for run in runs:
            fails(run, 20, 'it was deleted', 'weirctl job create')
        # Those that may make it do, and it is theirs.
        runs = members.run('--create')
        members.ask('DELETE', '/v1/jobs/ring')
        ends_right(runs)
        members.end()


@case
def a_member_that_expired():
    with Members(made={'expire_s': 3, 'rejoin': 'revoke'}) as members:
        runs = members.run('--timeout', '60000')
        runs[1].signal(signal.SIGSTOP)
        wait_for(lambda: members.rank_1()['state'] == 'expired', 'rank 1 does not expire')
        runs[1].signal(signal.SIGCONT)
        found = ends_right(runs, seconds=45)  # before that timeout, on a busy machine too
        check('no longer' in found[1]['rejoins'][0]['error'], '%s', found[1]['rejoins'])
        check(found[0]['rejoins'][0]['code'] == -116, '%s', found[0]['rejoins'])
        members.end()


@case
def a_member_whose_place_is_taken():
    with Members(hosts=3, made={}) as members:
        runs = members.run()
        runs[1].signal(signal.SIGSTOP)
        members.ask('DELETE', '/v1/jobs/ring/members/1')
        other = members.start(1, host=2)
        runs.append(other)
        wait_for(lambda: members.rank_1()['address'] == '10.77.0.3', 'nobody takes it')
        runs[1].signal(signal.SIGCONT)
        fails(runs[1], 30, r'taken by a newer join from 10\.77\.0\.3|another host now, 10\.77\.0\.3',
              'does another host have this rank|is another process running as rank 1')
        ends_right([runs[0], other])
        members.end()


# -- expelled


def expelled(rejoin, *options):
    """Host 2 stands still for longer than it may. Yields the rack and the runs, when it goes on."""
    shape = job(1, 3, timeout_ms=50, policy='partial', window=4, dead_after_ms=1000, rejoin=rejoin)
    with running(hosts=3, jobs=[shape], changes={'faults': SLOW}) as rack:
        runs = [rack.perf(host, 1, '-b', '4K', '-e', '4K', '-n', '500', '-d', 'int32', *options)
                for host in range(3)]
        wait_for(lambda: rack.read_stats()['jobs'][0]['blocks_complete'] > 200, 'nothing happens')
        runs[2].signal(signal.SIGSTOP)
        wait_for(lambda: rack.read_stats()['jobs'][0]['expelled'], 'nobody is expelled')
        runs[2].signal(signal.SIGCONT)
        yield rack, runs


@case
def who_was_expelled_revokes_the_others():
    for rack, runs in expelled('revoke', '--rejoin', '5', '--join-timeout', '10000'):
        found = ends_right(runs, (0, 3))  # where the switch was delayed, the revocation comes before a partial result
        check('silent for too long' in found[2]['rejoins'][0]['error'], '%s', found[2]['rejoins'])
        for one in found[:2]:
            check(one['rejoins'][0]['code'] == -116, '%s', one['rejoins'])
        stats = rack.check_packets()['jobs'][0]
        check(stats['revokes'] == 1, '%s', stats)


@case
def or_waits_for_them_and_is_told():
    for rack, runs in expelled('wait', '--rejoin', '1', '--join-timeout', '1500'):
        fails(runs[2], 15, 'silent for too long', 'did not begin within [0-9]+ ms, missing: '
              'sources 0-1')
        # Those run on without it, and need not join again.
        for one in ends_right(runs[:2], (3,)):
            check(not one['rejoins'] and one['degraded'] > 0, '%s', one['rejoins'])


if __name__ == '__main__':
    main()
