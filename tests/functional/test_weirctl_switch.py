#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl against a real switch, as its operator would use it: before, during and after a run."""
import contextlib
import hashlib
import json
import os
import re
import sys

from control import PORT, Control, make_certificate
from perf import finish, start
from rack import Rack, job
from tap import case, check, main, wait_for

WEIRCTL = ('ctl', 'weirctl')


@contextlib.contextmanager
def switch(**changes):
    """A rack of two hosts whose switch has a control API; yields it, and a function that runs
    weirctl and returns what it printed."""
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        address = 'unix:' + os.path.join(rack.folder, 'api.sock')
        rack.changes = dict(changes, api={'listen': [address]})
        rack.start_switch()

        def ctl(*words, status=0):
            run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', address, *words])
            found = run.end(20)
            check(found == status, 'weirctl %s: status %s, not %d\n%s', words, found, status,
                  run.output)
            return run.output

        yield rack, ctl
        rack.stop_switch()


def number(text, pattern):
    """The group of a pattern, in a line of a table."""
    found = re.search(pattern, text, re.M)
    check(found, '"%s" is not in:\n%s', pattern, text)
    return int(found.group(1))


@case
def what_it_shows_is_what_happened():
    with switch() as (rack, ctl):
        before = ctl('jobs')
        check(re.search(r'^job1 +1  joining  0 of 2 +0 +0 ', before, re.M), '%s', before)
        finish(start(rack, 1, [0, 1], '-b', '64K', '-e', '64K', '-n', 20, '-w', 0))
        blocks = number(ctl('counters'), r'^job job1 +blocks_complete +(\d+)$')
        check(number(ctl('jobs'), r'^job1 +1  running  2 of 2 +\d+ +(\d+) ') == blocks, 'jobs')
        check(number(ctl('job', 'job1'), r'^blocks_complete +(\d+)$') == blocks, 'job')
        check(blocks >= 20 * 64, '%d blocks', blocks)
        received = [number(ctl('ports'), r'^p%d +up .*?  (\d+)  [\d.]+ [KM]iB ' % p) for p in (0, 1)]
        check(min(received) >= blocks, '%s', received)
        members = ctl('members', 'job1')
        check(re.search(r'^   1  joined  10\.77\.0\.2 ', members, re.M), '%s', members)
        status = ctl('status')
        check('switch   ' in status and ', weir-switch ' in status, '%s', status)
        check(re.search(r'^packets +\d+ +\d+ +\d+ %$', status, re.M), '%s', status)
        check(ctl('health').startswith('ok, up '), 'health')


@case
def every_command_answers():
    """Nothing that the switch answers is a dash where it has to be a value."""
    with switch() as (_rack, ctl):
        for words in ('status', 'health', 'ports', 'jobs', 'job job1', 'counters --zeros', 'config',
                      'tenants'):
            text = ctl(*words.split())
            check(text.strip(), '%s: nothing', words)
            if words in ('status', 'ports', 'health'):
                check(not re.search(r'(^| )-( |,|$)', text, re.M), '%s:\n%s', words, text)
        for words in ('status', 'ports', 'jobs', 'counters', 'config'):
            check(json.loads(ctl('--json', words)), '%s', words)
        check('unknown_job' in ctl('job', 'none', status=1), 'unknown job')
        check(re.search(r'^p1 +up ', ctl('ports'), re.M), 'link')


@case
def a_link_that_goes_down_is_seen_and_logged_once():
    """At either end of the veth; packets flow again when it is back."""
    with switch() as (rack, ctl):
        def link(port):
            return re.search(r'^%s +(\w+) ' % port, ctl('ports'), re.M).group(1)

        def logged(what, port):
            return len(re.findall(r'msg="link %s".* port=%s\b' % (what, port), rack.switch.output))

        # The kernel tells of a veth's other end when it has time, perhaps after the start.
        ports = ('p0', 'p1')
        wait_for(lambda: all(link(p) == 'up' and logged('up', p) == logged('down', p) for p in ports),
                 'from the start:\n%s', lambda: ctl('ports'))
        before = {p: logged('up', p) for p in ports}
        for times, (place, name) in enumerate([('sw', 'p0'), (0, 'eth0')], 1):
            # The other port's change comes later: by then a second message of the first one would be there.
            for way in ('down', 'up'):
                for port, where in (('p0', (place, name)), ('p1', ('sw', 'p1'))):
                    rack.call(where[0], ['ip', 'link', 'set', where[1], way])
                    wait_for(lambda: link(port) == way and logged(way, port) >= before[port] + times,
                             '%s is not %s', where, way)
                check(logged(way, 'p0') == before['p0'] + times, '%s', rack.switch.output)
        rack.ping(0, rack.address(1))


@case
def a_host_that_is_killed_is_named_within_seconds():
    with switch() as (rack, ctl):
        first = ctl('blocks', '--stuck')
        check(first == 'nothing is stuck\n', 'before anything ran:\n%s', first)
        options = ('-b', '4M', '-e', '4M', '-n', 10000, '-w', 0)
        runs = start(rack, 1, [0], *options)
        wait_for(lambda: '1 of 2' in ctl('jobs'), 'nobody joins: %s', lambda: ctl('jobs'))
        first = ctl('blocks', '--stuck')
        check('job1: has not begun: 1 of 2 sources have joined; waiting for rank 1' in first,
              'before the second host:\n%s', first)
        runs.append(rack.perf(1, 1, *options, source=1))
        wait_for(lambda: number(ctl('jobs'), r'^job1 .* of 2 +\d+ +(\d+) ') >= 1000,
                 'nothing happens: %s', lambda: runs[0].output)
        check(all(run.status is None for run in runs), '%s', runs[0].output)
        runs[1].kill()

        def stuck():
            words = ctl('blocks', '--stuck')
            return words if 'rank 1' in words else None
        words = wait_for(stuck, 'rank 1 is not named')
        for text in ('job1', 'rank 1', '10.77.0.2', 'last heard', 'wait'):
            check(text in words, '%s is not said:\n%s', text, words)
        check('rank 0' not in words, 'the host that lives is blamed:\n%s', words)
        found = json.loads(ctl('--json', 'blocks', '--stuck'))
        check(found['total'] == len(found['blocks']) > 0, '%s', found)
        ages = [block['age'] for block in found['blocks']]
        check(ages == sorted(ages, reverse=True), 'oldest first: %s', ages)
        member = json.loads(ctl('--json', 'job', 'job1'))['members'][1]
        check(member['last_heard'] >= 1 and member['port'] == 'p1', '%s', member)
        runs[0].kill()


@contextlib.contextmanager
def tenant(certify=False):
    """A switch that is asked over TCP, and weirctl with a tenant's token for it."""
    with Rack(hosts=2) as rack:
        more, words = {}, []
        if certify:
            certificate, key = make_certificate(rack.folder, 'api')
            more['tls'] = {'certificate': certificate, 'key': key}
            words = ['--ca', certificate]
        Control(rack, tenants=[{'name': 'vision',
                                'token_sha256': hashlib.sha256(b'secret').hexdigest()}], **more)
        rack.start_switch()
        token = os.path.join(rack.folder, 'token')
        with open(token, 'w') as file:
            file.write('secret\n')
        address = 'http%s://127.0.0.1:%d' % ('s' if certify else '', PORT)

        def ctl(*given, status=0):
            run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', address, '--token-file', token,
                                    '--timeout', '30s', *words, *given])
            found = run.end(40)
            check(found == status, 'weirctl %s: status %s, not %d\n%s', given, found, status,
                  run.output)
            return run.output

        yield rack, ctl
        rack.stop_switch()


@case
def a_tenant_changes_jobs_over_tcp():
    for certify in (False, True):
        with tenant(certify) as (_rack, ctl):
            made = ctl('job', 'create', 'ring', '--size', '2')
            check(made.startswith('job      ring, id 0,'), '%s', made)
            made = ctl('job', 'set', 'ring', '--policy', 'partial')
            check('policy   partial' in made, '%s', made)
            check('vision' in ctl('jobs'), 'of no tenant')
            check(ctl('job', 'delete', 'ring', '--wait') == 'gone\n', 'delete')


@case
def the_rank_of_a_host_that_is_gone_is_freed():
    """What the refusal of a taken rank advises, word by word."""
    with tenant() as (rack, ctl):
        ctl('job', 'create', 'ring', '--size', '2')

        def join(host):
            return rack.spawn(host, [
                rack.program(('perf', 'weir-perf')), '--switch', 'http://10.77.0.254:%d' % PORT,
                '--job-name', 'ring'], env=dict(os.environ, WEIR_RANK='0', WEIR_SIZE='2',
                                               WEIR_TOKEN='secret'))

        gone = join(0)
        wait_for(lambda: '1 of 2' in ctl('jobs'), 'nobody joins: %s', lambda: ctl('jobs'))
        gone.kill()
        second = join(1)
        check(second.end(20) != 0, '%s', second.output)
        advice = re.findall(r'weirctl (member delete ring 0)', second.output)
        check(advice and 'weirctl member delete NAME RANK' in second.output, '%s', second.output)
        check(ctl(*advice[0].split()) == 'gone\n', 'delete')
        check('unknown_member' in ctl('member', 'delete', 'ring', '0', status=1), 'again')
        check('unknown_member' in ctl('member', 'delete', 'ring', 'x/../1', status=1), 'no rank')
        check('unknown_job' in ctl('member', 'delete', 'none', '0', status=1), 'no job')
        third = join(1)
        wait_for(lambda: '10.77.0.2' in ctl('members', 'ring'), '%s', lambda: third.output)
        third.kill()


@case
def a_source_of_the_configuration_keeps_its_place():
    with switch() as (rack, ctl):
        runs = start(rack, 1, [0, 1], '-b', '64K', '-e', '64K', '-n', 100000, '-w', 0)
        wait_for(lambda: '2 of 2' in ctl('jobs'), 'nobody joins: %s', lambda: ctl('jobs'))
        check('still in job job1' in ctl('member', 'delete', 'job1', '1', status=1), 'said')
        for run in runs:
            run.kill()


@case
def the_switch_goes():
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        address = 'unix:' + os.path.join(rack.folder, 'api.sock')
        run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', address, 'status'])
        check(run.end(10) == 3 and 'is the switch running' in run.output, '%s', run.output)
        rack.changes = {'api': {'listen': [address]}}
        rack.start_switch()
        rack.stop_switch()
        run = rack.spawn('sw', [rack.program(WEIRCTL), '-s', address, 'status'])
        check(run.end(10) == 3 and 'is the switch running' in run.output, '%s', run.output)


if __name__ == '__main__':
    sys.exit(main())
