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


def runner(rack, *options):
    """A function that runs weirctl with options and returns what it printed, which patterns have to match."""
    def ctl(words, *patterns, status=0):
        run = rack.spawn('sw', [rack.program(WEIRCTL), *options, *words.split()])
        found = run.end(40)
        check(found == status, 'weirctl %s: status %s, not %d\n%s', words, found, status, run.output)
        for pattern in patterns:
            check(re.search(pattern, run.output, re.M), '%s: "%s" is not in:\n%s', words, pattern, run.output)
        return run.output
    return ctl


@contextlib.contextmanager
def switch(jobs=None, **changes):
    """A rack of two hosts whose switch has a control API, and weirctl for it."""
    with Rack(hosts=2, jobs=[job(1, 2)] if jobs is None else jobs) as rack:
        address = 'unix:' + os.path.join(rack.folder, 'api.sock')
        rack.changes = dict(changes, api={'listen': [address]})
        ctl = runner(rack, '-s', address)
        ctl('status', 'is the switch running', status=3)
        rack.start_switch()
        yield rack, ctl
        rack.stop_switch()
        ctl('status', 'is the switch running', status=3)


def number(text, pattern):
    """The group of a pattern, in a line of a table."""
    found = re.search(pattern, text, re.M)
    check(found, '"%s" is not in:\n%s', pattern, text)
    return int(found.group(1))


@case
def what_it_shows_is_what_happened():
    with switch() as (rack, ctl):
        ctl('jobs', r'^job1 +1  joining  0 of 2 +0 +0 ')
        check(ctl('blocks --stuck') == 'nothing is stuck\n', 'before anything ran')
        finish(start(rack, 1, [0, 1], '-b', '64K', '-e', '64K', '-n', 20, '-w', 0))
        blocks = number(ctl('counters'), r'^job job1 +blocks_complete +(\d+)$')
        check(number(ctl('jobs'), r'^job1 +1  running  2 of 2 +\d+ +(\d+) ') == blocks, 'jobs')
        check(number(ctl('job job1'), r'^blocks_complete +(\d+)$') == blocks >= 20 * 64, '%d blocks', blocks)
        received = [number(ctl('ports'), r'^p%d +up .*?  (\d+)  [\d.]+ [KM]iB ' % p) for p in (0, 1)]
        check(min(received) >= blocks, '%s', received)
        for words, *patterns in (('members job1', r'^   1  joined  10\.77\.0\.2 '), ('counters --zeros', ' 0$'), ('config', '"jobs"'),
                                 ('status', '^switch   .*, weir-switch ', r'^packets +\d+ +\d+ +\d+ %$'), ('health', r'^status +ok\nuptime '),
                                 ('ports', '^p1 +up '), ('tenants', '.')):
            text = ctl(words, *patterns)
            if words in ('status', 'ports', 'health'):  # no value is a dash
                check(not re.search(r'(^| )-( |,|$)', text, re.M), '%s:\n%s', words, text)
        for words in ('status', 'ports', 'jobs', 'counters', 'config'):
            check(json.loads(ctl('--json ' + words)), '%s', words)
        ctl('job none', 'unknown_job', status=1)


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
        options = ('-b', '4M', '-e', '4M', '-n', 10000, '-w', 0)
        runs = start(rack, 1, [0], *options)
        wait_for(lambda: '1 of 2' in ctl('jobs'), 'nobody joins: %s', lambda: ctl('jobs'))
        ctl('blocks --stuck', 'job1: has not begun: 1 of 2 sources have joined; waiting for rank 1')
        runs.append(rack.perf(1, 1, *options, source=1))
        wait_for(lambda: number(ctl('jobs'), r'^job1 .* of 2 +\d+ +(\d+) ') >= 1000,
                 'nothing happens: %s', lambda: runs[0].output)
        check(all(run.status is None for run in runs), '%s', runs[0].output)
        ctl('member delete job1 1', 'still in job job1', status=1)  # it has its place from the configuration
        runs[1].kill()

        def stuck():
            words = ctl('blocks --stuck')
            return words if 'rank 1' in words else None
        words = wait_for(stuck, 'rank 1 is not named')
        for text in ('job1', 'rank 1', '10.77.0.2', 'last heard', 'wait'):
            check(text in words, '%s is not said:\n%s', text, words)
        check('rank 0' not in words, 'the host that lives is blamed:\n%s', words)
        found = json.loads(ctl('--json blocks --stuck'))
        check(found['total'] == len(found['blocks']) > 0, '%s', found)
        ages = [block['age'] for block in found['blocks']]
        check(ages == sorted(ages, reverse=True), 'oldest first: %s', ages)
        member = json.loads(ctl('--json job job1'))['members'][1]
        check(member['last_heard'] >= 1 and member['port'] == 'p1', '%s', member)
        for text in (r'nothing comes from rank 1 \(10\.77\.0\.2\), last heard', r'rank 1 \(10\.77\.0\.2\) caused \d+ % of the time'):
            wait_for(lambda: re.search(text, ctl('members job1')), '"%s" is not said: %s', text, lambda: ctl('members job1'))
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
        Control(rack, tenants=[{'name': 'vision', 'token_sha256': hashlib.sha256(b'secret').hexdigest()}], **more)
        rack.start_switch()
        token = os.path.join(rack.folder, 'token')
        with open(token, 'w') as file:
            file.write('secret\n')
        yield rack, runner(rack, '-s', 'http%s://127.0.0.1:%d' % ('s' if certify else '', PORT), '--token-file', token,
                           '--timeout', '30s', *words)
        rack.stop_switch()


@case
def a_tenant_changes_jobs_over_tls():
    with tenant(certify=True) as (_rack, ctl):
        ctl('job create ring --size 2', '^job      ring, id 0,')
        ctl('job set ring --policy partial', 'policy   partial')
        ctl('jobs', 'vision')
        check(ctl('job delete ring --wait') == 'gone\n', 'delete')


@case
def the_rank_of_a_host_that_is_gone_is_freed():
    """What the refusal of a taken rank advises, word by word."""
    with tenant() as (rack, ctl):
        ctl('job create ring --size 2')

        def join(host):
            return rack.spawn(host, [
                rack.program(('perf', 'weir-perf')), '--switch', 'http://10.77.0.254:%d' % PORT,
                '--job-name', 'ring'], env=dict(os.environ, WEIR_RANK='0', WEIR_SIZE='2', WEIR_TOKEN='secret'))

        gone = join(0)
        wait_for(lambda: '1 of 2' in ctl('jobs'), 'nobody joins: %s', lambda: ctl('jobs'))
        gone.kill()
        second = join(1)
        check(second.end(20) != 0, '%s', second.output)
        advice = re.findall(r'weirctl (member delete ring 0)', second.output)
        check(advice and 'weirctl member delete NAME RANK' in second.output, '%s', second.output)
        check(ctl(advice[0]) == 'gone\n', 'delete')
        for words, code in (('ring 0', 'unknown_member'), ('ring x/../1', 'unknown_member'), ('none 0', 'unknown_job')):
            ctl('member delete ' + words, code, status=1)
        third = join(1)
        wait_for(lambda: '10.77.0.2' in ctl('members ring'), '%s', lambda: third.output)
        third.kill()


@case
def faults_are_set_saved_and_set_again():
    with switch(jobs=[]) as (rack, ctl):
        ctl('job create ring --size 2 --id 9')
        ctl('faults add drop --percent 1 --job ring', r'   1  any +out +aggregation, job 9 +1 % +drop +0 +0 +0$')
        out = ctl('faults add delay --port p1 --direction in --us 500 --seed 7', 'seed 7;', r'   2  p1 +in +any +100 % +delay 500 us')
        saved = os.path.join(rack.folder, 'saved.json')
        with open(saved, 'w') as file:
            file.write(ctl('faults --json'))
        ctl('faults add melt', r'faults\.rules\[3\]\.action: ', status=1)
        ctl('faults add drop --port p7', 'no port has the name "p7"', status=1)
        check(ctl('faults clear') == ctl('faults') == 'no faults\n', 'clear')
        again = ctl('faults set ' + saved)
        check(again.split('\n')[2:] == out.split('\n')[2:], '%s\n%s', again, out)
        ctl('status', '3 rules injected')
        for line in ('"faults set" uid=0 pid=', '"faults cleared" uid=0 pid='):
            check(line in rack.switch.output, '%s', rack.switch.output)


if __name__ == '__main__':
    sys.exit(main())
