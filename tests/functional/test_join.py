#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that join through the control API, a played one and a switch's own, over the links that
they train on; and what they say when something becomes of their job."""
import contextlib
import json
import os
import re
import signal

from fake_api import FakeApi
from join_hosts import LAUNCHERS, PERF, PORT, SHORT, Members, environment
import control
from control import running, switch, tenant
from tap import case, check, main, wait_for
from rack import SWITCH_ADDRESS, job


def hosts_with(rack, address, each=None, options=(), only=None, **settings):
    """A weir-perf on every host, or on `only` these, told nothing but where the switch is, the job,
    and who it is."""
    runs = []
    for host in range(rack.hosts) if only is None else only:
        report = os.path.join(rack.folder, 'report-%d-%d.json' % (host, len(rack.processes)))
        known = dict(rank=host, size=rack.hosts, launcher=host, WEIR_SWITCH=address,
                     WEIR_JOB='ring')
        known.update(settings)
        known.update(each(host) if each else {})
        run = rack.spawn(host, [PERF, *SHORT, '--timeout', '60000', '--json=' + report, *options],
                         'perf', environment(**known))
        run.json = report
        runs.append(run)
    return runs


def right(runs):
    for run in runs:
        run.wait(50)
        with open(run.json) as file:
            rows = json.load(file)['rows']
        check(rows and all(row['wrong'] == 0 for row in rows), '%s: %s', run.name, rows)


@case
def hosts_join_over_the_links_that_they_train_on():
    with running(hosts=3, jobs=[job(1, 3, name='ring')]) as rack:
        with rack.inside('sw'):
            api = FakeApi(tcp=True, host=SWITCH_ADDRESS, port=PORT)
        with api:
            members, create = Members(api, 3), ['--create', '--deterministic']
            for again in range(2):  # the second is the job's next generation
                right(hosts_with(rack, api.address, options=create if again else []))
                check(not members.now, 'members that did not leave: %s', members.now)
                for rank, body in members.ever.items():
                    want = {'rank': rank, 'size': 3, 'address': rack.address(rank)}
                    made = dict(want, create={'deterministic': True})
                    check(body == (made if again else want), '%s', body)
                check(len(members.ever) == 3, '%s', members.ever)
                members.ever.clear()
            api.routes['/v1/status'] = {'address': '192.0.2.1'}
            for run in hosts_with(rack, api.address):
                out = run.wait(10, 1)
                check('no route to the switch\'s address 192.0.2.1' in out, '%s', out)


@case
def members_as_launchers_start_them():
    """Several on a host."""
    hosts = [0, 0, 0, 1, 1]
    with switch_with_api(2) as (rack, _):
        for launcher in range(len(LAUNCHERS)):
            runs = []
            for rank, host in enumerate(hosts):
                known = environment(rank=rank, size=len(hosts), launcher=launcher, WEIR_JOB='ring',
                                    WEIR_SWITCH='unix:' + rack.api.path)
                report = os.path.join(rack.folder, 'report-%d-%d.json' % (launcher, rank))
                runs.append(rack.spawn(host, [PERF, *SHORT, '--create', '--json=' + report], 'perf', known))
                runs[-1].json = report
            right(runs)


@case
def a_token_that_is_wrong():
    with running(hosts=2, jobs=[job(1, 2, name='ring')]) as rack:
        with rack.inside('sw'):
            api = FakeApi(tcp=True, host=SWITCH_ADDRESS, port=PORT)
        with api:
            members = Members(api, 2, token='s3cret')
            for run in hosts_with(rack, api.address, WEIR_TOKEN='guessed'):
                out = run.wait(20, 1)
                check('refuses the token of WEIR_TOKEN' in out, '%s', out)
                check('guessed' not in out, 'the token is in the log: %s', out)
            for run in hosts_with(rack, api.address):
                check('WEIR_TOKEN_FILE' in run.wait(20, 1), '%s', run.output)
            check(not members.ever, '%s', members.ever)
            path = os.path.join(rack.folder, 'token')
            with open(path, 'w') as file:
                file.write('s3cret\n')
            right(hosts_with(rack, api.address, WEIR_TOKEN_FILE=path))
            check(not members.now and len(members.ever) == 2, '%s', members.now)


TENANTS = [tenant('lab', 's3cret'), tenant('other')]
OPERATED = TENANTS + [tenant('desk', 'adm1n', admin=True)]


@contextlib.contextmanager
def switch_with_api(hosts, jobs=(), tenants=None):
    """A rack whose switch has a control API on its own address, too; yields rack and URL."""
    with switch(hosts, jobs, **({'tenants': tenants} if tenants else {})) as (rack, rack_api):
        rack.api = rack_api
        yield rack, 'http://%s:%d' % (SWITCH_ADDRESS, control.PORT)
        rack.check_packets()


def ask(rack, method, path, body=None):
    """What the control API of a real switch says to its administrator."""
    return rack.api.unix(method, path, body).body


@case
def hosts_whose_mtu_differs_from_the_switchs_are_told():
    with switch_with_api(2, [job(1, 2, name='ring', elements=256)]) as (rack, address):
        def warnings(mtu):
            rack._ip_in(0, 'link set dev eth0 mtu %d' % mtu)
            runs = hosts_with(rack, address, options=['--join-timeout', '3000'])
            if mtu >= 1500:
                right(runs)
            else:
                check(re.search(r'job "ring" \(1\): its blocks make datagrams of 10\d\d bytes, and this host\'s interface eth0 '
                                'has MTU 1000: ip link set dev eth0 mtu 1500, ', runs[0].wait(30, 1)), '%s', runs[0].output)
                runs[1].wait(30, 1)
            check('MTU' not in runs[1].output, '%s', runs[1].output)
            return [line for line in runs[0].output.splitlines() if line.startswith('weir: ')]

        check(warnings(1500) == [], 'a warning without a reason')
        check(warnings(9000) == [
            "weir: this host's interface eth0 has MTU 9000, and the switch's links have MTU 1500: the "
            "switch drops larger packets; ip link set dev eth0 mtu 1500, or raise the switch's MTU"],
            'no warning, or another')
        check(warnings(1000) == [], 'a warning with the error')


@case
def a_member_that_leaves_fails_the_others_at_once():
    with switch_with_api(3, tenants=TENANTS) as (rack, address):
        settings = {'WEIR_TOKEN': 's3cret'}
        (first,) = hosts_with(rack, address, only=[0], options=['--create'], **settings)
        first.wait_line('weir: still waiting: ', 30)
        check('missing: ranks 1-2 (1 of 3 are in)' in first.output, '%s', first.output)
        (second,) = hosts_with(rack, address, only=[1], options=['--create', '--join-timeout', '2000'], **settings)
        second.wait(20, 1)
        out = first.wait(30, 1)
        check('rank 1 (%s) left job "ring" before it had begun' % rack.address(1) in out, '%s', out)


@case
def a_real_switch_makes_the_job():
    with switch_with_api(3, tenants=TENANTS) as (rack, address):
        for run in hosts_with(rack, address, WEIR_TOKEN='s3cret'):
            check('weir-perf --create' in run.wait(20, 1), '%s', run.output)
        for _ in range(2):
            right(hosts_with(rack, address, options=['--create'], WEIR_TOKEN='s3cret'))
        for token, said in (('guessed', 'refuses the token of WEIR_TOKEN'), (None, 'WEIR_TOKEN_FILE')):
            for run in hosts_with(rack, address, options=['--create'], **({'WEIR_TOKEN': token} if token else {})):
                check(said in run.wait(20, 1), '%s', run.output)
        # A job of three by this name is there.
        [run] = hosts_with(rack, address, WEIR_TOKEN='s3cret', size=2, rank=0)[:1]
        check('size' in run.wait(20, 1), '%s', run.output)


@case
def a_job_of_the_file_needs_no_token():
    with switch_with_api(2, [job(1, 2, name='ring')]) as (rack, address):
        right(hosts_with(rack, address))
        for run in hosts_with(rack, address, WEIR_JOB='nobody', options=['--create']):
            check('refuses without a token' in run.wait(20, 1), '%s', run.output)


def one_is_in(rack):
    """Wait until the job has its first member."""
    wait_for(lambda: ask(rack, 'GET', '/v1/jobs/ring').get('joined') == 1, 'nobody has joined')


@case
def a_token_is_for_one_rank():
    """That is all that a host needs."""
    with switch_with_api(2, tenants=OPERATED) as (rack, address):
        ask(rack, 'POST', '/v1/jobs', {'name': 'ring', 'size': 2})
        tokens = ask(rack, 'POST', '/v1/jobs/ring/tokens')['tokens']
        right(hosts_with(rack, address, lambda rank: {'WEIR_TOKEN': tokens[rank]}))
        for run in hosts_with(rack, address, lambda rank: {'WEIR_TOKEN': tokens[1 - rank]}):
            check('refuses the token of WEIR_TOKEN' in run.wait(20, 1), '%s', run.output)


@case
def a_rank_is_taken():
    """Two hosts are told that they are rank 0: the second hears of the first."""
    with switch_with_api(2, tenants=OPERATED) as (rack, address):
        settings = dict(options=['--create', '--join-timeout', '200000'], WEIR_TOKEN='s3cret')
        [first] = hosts_with(rack, address, lambda _: dict(rank=0), only=[0], **settings)
        one_is_in(rack)
        [second] = hosts_with(rack, address, lambda _: dict(rank=0), only=[1], **settings)
        check('does another host have this rank' in second.wait(15, 1), '%s', second.output)
        [last] = hosts_with(rack, address, only=[1], **settings)
        right([first, last])


@case
def the_next_of_a_rank_stays_when_the_last_one_leaves():
    """A supervisor starts a rank again before the one that has failed is gone."""
    def rank_1(timeout):
        return hosts_with(rack, address, only=[1], WEIR_TOKEN='s3cret',
                          options=['--create', '--join-timeout', timeout])[0]

    with switch_with_api(2, tenants=OPERATED) as (rack, address):
        failed = rank_1('20000')
        one_is_in(rack)
        again = rank_1('200000')
        check('is another process running as rank 1?' in failed.wait(15, 1), '%s', failed.output)
        # On the wire, too, the last that asked is the one that lives.
        sent = rack.wire(1)['tx_packets']
        wait_for(lambda: rack.wire(1)['tx_packets'] > sent + 1, 'rank 1 asks no more: %s', lambda: again.output)
        right([again] + hosts_with(rack, address, only=[0], options=['--create'],
                                   WEIR_TOKEN='s3cret'))


NEVER = '600000'  # ms: longer than the end of a run is waited for
LONG = ('-b', '1M', '-e', '1M', '-n', '100000', '--timeout', NEVER, '--join-timeout', '60000')


def hears(run, *patterns):
    """The run fails, and its error says why."""
    out = run.wait(0, 1)
    for pattern in patterns:
        check(re.search(pattern, out), '"%s" is not in:\n%s', pattern, out)


def under_way(rack, runs, name='ring'):
    """Wait until the job has a generation, and blocks."""
    wait_for(lambda: ask(rack, 'GET', '/v1/jobs/' + name).get('counters', {}).get('blocks_complete'),
             'nothing happens: %s', lambda: runs[0].output)


@case
def a_job_that_is_deleted_under_its_hosts():
    """They need not wait for their own timeouts: neither those that joined here nor those
    that have addresses alone."""
    with switch_with_api(4, [job(9, 2, 2, name='static')], OPERATED) as (rack, address):
        runs = hosts_with(rack, address, only=[0, 1], size=2, options=['--create', *LONG],
                          WEIR_TOKEN='s3cret')
        alone = [rack.perf(2 + i, 9, *LONG, source=i) for i in range(2)]
        under_way(rack, runs)
        under_way(rack, alone, 'static')
        for name in ('ring', 'static'):
            ask(rack, 'DELETE', '/v1/jobs/' + name)
        for run in runs:
            hears(run, 'job "ring" is gone at the switch .according to http://.*: it was deleted')
        for run in alone:
            hears(run, 'job 9 is gone at the switch: it was deleted')
        # The name is another job's by the time that a host asks.
        runs = hosts_with(rack, address, only=[0, 1], size=2, options=['--create', *LONG],
                          WEIR_TOKEN='s3cret')
        under_way(rack, runs)
        ask(rack, 'DELETE', '/v1/jobs/ring')
        for run in runs:
            hears(run, 'is gone at the switch')


@case
def a_member_that_is_removed_expires_or_is_replaced():
    """While it sends nothing; it hears of it when it sends again."""
    def removed(rack, job_path):
        ask(rack, 'DELETE', job_path + '/members/1')

    def expired(rack, job_path):
        ask(rack, 'PATCH', job_path, {'expire_s': 1})
        wait_for(lambda: ask(rack, 'GET', job_path)['members'][1]['state'] == 'expired',
                 'rank 1 does not expire')

    def replaced(rack, job_path):
        removed(rack, job_path)
        other = {'rank': 1, 'size': 2, 'address': rack.address(2)}
        check(ask(rack, 'POST', job_path + '/members', other).get('source') == 1, 'not taken')

    with switch_with_api(3, tenants=OPERATED) as (rack, address):
        for how, words in ((removed, 'no longer a member .*: it has left, or was removed'),
                           (expired, 'no longer a member .*: it was silent for longer than the'),
                           (replaced, r'rank 1 of job "replaced" is another host now, 10\.77\.0\.3')):
            runs = hosts_with(rack, address, only=[0, 1], size=2, options=['--create', *LONG],
                              WEIR_TOKEN='s3cret', WEIR_JOB=how.__name__)
            under_way(rack, runs, how.__name__)
            runs[1].signal(signal.SIGSTOP)
            how(rack, '/v1/jobs/' + how.__name__)
            runs[1].signal(signal.SIGCONT)
            hears(runs[1], words)
            runs[0].kill()


@case
def those_whose_ranks_others_take_are_told():
    """At once, and not after their own timeouts: in jobs of the API and of the file."""
    with switch_with_api(2, [job(9, 2, name='static')], OPERATED) as (rack, address):
        for name, create in (('ring', ['--create']), ('static', [])):
            known = dict(WEIR_JOB=name, options=[*create, '--rejoin', '3', *LONG], WEIR_TOKEN='adm1n')
            former = hosts_with(rack, address, **known)
            under_way(rack, former, name)
            newer = hosts_with(rack, address, **known)
            for host, run in enumerate(former):
                hears(run, r'the place of rank %d was taken by a newer join from 10\.77\.0\.%d port \d+ .*: is '
                      'another process running as rank %d' % (host, host + 1, host))
            for run in newer:
                check(run.status is None, '%s', run.output)
                run.kill()


@case
def a_straggler_is_named_by_its_address():
    """Also before the job's own timeout has passed, when the switch tells nobody yet."""
    jobs = {'short': 500, 'long': 30000}
    with switch_with_api(2, [job(n, 2, name=name, timeout_ms=jobs[name]) for n, name in enumerate(jobs)], OPERATED) as (rack, address):
        for name in jobs:
            runs = hosts_with(rack, address, options=[*LONG, '--timeout', '2000'], WEIR_TOKEN='adm1n', WEIR_JOB=name)
            under_way(rack, runs, name)
            runs[1].kill()
            hears(runs[0], r'rank 1 \(10\.77\.0\.2, last heard [0-9.]+ s ago\)')


@case
def who_has_not_joined_is_named():
    with switch_with_api(3, tenants=OPERATED) as (rack, address):
        [run] = hosts_with(rack, address, only=[0], options=['--create', '--join-timeout', '2000'],
                           WEIR_TOKEN='s3cret')
        hears(run, 'missing: ranks 1-2', r'rank 1 \(has not joined\), rank 2',
              r'job "ring" \(\d+\) did not begin')


if __name__ == '__main__':
    main()
