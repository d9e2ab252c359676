#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What outlives a restart: jobs made over the API, their members, and that no generation comes
twice; after an end in peace, after kill -9 at any moment, and what is said of a file that is not
one."""
import base64
import hashlib
import hmac
import http.client
import json
import os
import signal
import threading

from control import Control
from perf import reduce
from rack import Rack, job
from tap import case, check, main, seed, wait_for


class Kept:
    """A rack whose switch keeps its state, to be started again and again."""

    def __init__(self, hosts=2, jobs=(), changes=None, **section):
        self.rack = Rack(hosts=hosts, jobs=list(jobs), changes=changes)
        self.api = Control(self.rack, **section)
        self.file = os.path.join(self.rack.folder, 'state.json')
        self.rack.changes['state'] = {'file': self.file}

    def __enter__(self):
        self.rack.__enter__()
        return self

    def __exit__(self, *error):
        self.rack.__exit__(*error)

    def start(self, *options):
        rack = self.rack
        path = rack.write_config()
        rack.runtimes.add('/run/dpdk/weir-' + rack.config()['switch']['name'])
        rack.switch = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', path,
                                        '--stats-file', rack.stats_file, *options], 'switch')
        return rack.switch

    def up(self, *options):
        self.start(*options).wait_line('weir-switch: ready', 30)

    def kill(self):
        self.rack.switch.kill()

    def end(self):
        self.rack.switch.signal(signal.SIGTERM)
        return self.rack.switch.wait(20)

    def state(self):
        with open(self.file) as file:
            return json.load(file)


def key_is_as_documented(kept, name):
    """What a member gets is made from the job's key, which is in the file, and from its membership."""
    joined = kept.api.join(name, 1, 2, 1)
    [saved] = [j for j in kept.state()['jobs'] if j['name'] == name]
    said = b'weir source\1' + joined['membership'].to_bytes(8, 'big')
    made = hmac.new(bytes.fromhex(saved['key']), said, hashlib.sha256).digest()
    check(base64.b64decode(joined['key']) == made, '%s', joined)


def kept_of(made):
    """What of a job stays over a restart."""
    keys = ['id', 'name', 'tenant', 'origin', 'size', 'window', 'elements', 'type', 'op', 'deterministic', 'policy',
            'timeout_ms', 'results', 'rate_mbit', 'expire_s', 'dead_after_ms', 'rejoin']
    if made['origin'] == 'api':
        keys.append('joined')
    return {key: made[key] for key in keys}


@case
def jobs_and_members_come_back():
    with Kept(jobs=[job(7, 2)]) as kept:
        kept.up()
        check(os.stat(kept.file).st_mode & 0o777 == 0o600, 'others may read the state')
        kept.api.create('ring', 2, window=16, policy='partial', timeout_ms=300, elements=99,
                    expire_s=9000, rate_mbit=900, dead_after_ms=77, rejoin='revoke')
        kept.api.create('gone', 2)
        kept.api.create('group', 3, results='224.1.2.3', type='fp16', op='avg', deterministic=True, id=200)
        for rank in range(2):
            kept.api.join('ring', rank, 2, rank)
        kept.api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': 345})
        kept.api.delete('gone')
        reduce(kept.rack, 0, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
        reduce(kept.rack, 7, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
        token = kept.api.do('POST', '/v1/jobs/ring/tokens')['tokens'][1]
        before = kept.api.jobs()
        generations = [before['ring']['generation'], before['job7']['generation']]
        for way in (kept.end, kept.kill, kept.kill):
            way()
            kept.up()
            now = kept.api.jobs()
            check({n: kept_of(j) for n, j in now.items()} ==
                  {n: kept_of(j) for n, j in before.items()}, '%s\n%s', now, before)
            check(abs(now['ring']['created'] - before['ring']['created']) < 1.1, 'created')
            members = kept.api.get('/v1/jobs/ring')['members']
            check([m['state'] for m in members] == ['joined'] * 2 and
                  members[1]['address'] == '10.77.0.2', '%s', members)
            check('msg="job restored"' in kept.rack.switch.output, 'not logged')
            key_is_as_documented(kept, 'ring')
            check(kept.api.do('POST', '/v1/jobs/ring/tokens')['tokens'][1] == token, 'another token')
            # Hosts that know nothing of it go on, and in generations that were never before.
            reduce(kept.rack, 0, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
            reduce(kept.rack, 7, [0, 1], '-b', '16K', '-e', '16K', '-n', 3)
            now = kept.api.jobs()
            for index, name in ((0, 'ring'), (1, 'job7')):
                ahead = (now[name]['generation'] - generations[index]) % 65535
                check(0 < ahead < 3000, '%s: %d after %d', name, now[name]['generation'],
                      generations[index])
                generations[index] = now[name]['generation']
        kept.end()


@case
def killed_at_any_moment_it_keeps_what_it_confirmed():
    dice = seed()
    with Kept() as kept:
        confirmed, number, kills = {}, 0, 0
        while kills < 4:
            kept.up()
            found = kept.api.jobs()
            for name, there in confirmed.items():
                check((name in found) == there or there is None, '%s is %s after kill %d', name,
                      'lost' if there else 'back', kills)
            confirmed = {name: True for name in found}
            timer = threading.Timer(dice.uniform(0, 0.02), kept.rack.switch.popen.kill)
            last = number + dice.randrange(3, 60)
            try:
                while True:
                    if number == last:
                        timer.start()
                    name = 'j%d' % number
                    number += 1
                    confirmed[name] = None  # asked for: may be there or not
                    kept.api.create(name, 2, window=1, elements=1)
                    confirmed[name] = True
                    if len(found) + number % 40 > 30:
                        victim = dice.choice([n for n, t in confirmed.items() if t])
                        confirmed[victim] = None
                        kept.api.delete(victim)
                        confirmed[victim] = False
            except (OSError, http.client.HTTPException):
                pass
            if timer.ident is not None:  # it has been started
                timer.join()
            kept.kill()
            kills += 1
        print('# %d jobs asked for, %d there' % (number, len(kept.state()['jobs'])))
        check(number > 2 * kills, '%d jobs', number)  # of those of a kill, all but the last were confirmed


@case
def a_damaged_state_refuses_the_start_and_stays():
    with Kept() as kept:
        kept.up()
        kept.api.create('ring', 2)
        kept.end()
        with open(kept.file) as file:
            good = file.read()
        for text, reason in ((good[:len(good) // 2], 'state.json:'), ('', 'state.json:'),
                             (good.replace('"window": 64', '"window": 65'), 'jobs[0].window: 65'),
                             (good.replace('"weir_state": 1', '"weir_state": 9'), 'a later Weir'),
                             (good.replace('"switch": "', '"switch": "x'), 'the state of switch')):
            with open(kept.file, 'w') as file:
                file.write(text)
            run = kept.start()
            check(run.end(20) == 2, '%s', run.output)
            check(reason in run.output and '--forget-state' in run.output, '%s', run.output)
            check(kept.file in run.output, '%s', run.output)
            with open(kept.file) as file:
                check(file.read() == text, 'it was touched')
        kept.up('--forget-state')
        check(kept.api.jobs() == {}, '%s', kept.api.jobs())
        with open(kept.file + '.forgotten') as file:
            check(file.read() == text, 'not laid aside')
        kept.end()


@case
def a_job_that_does_not_fit_is_set_aside():
    with Kept() as kept:
        kept.up()
        kept.api.create('ring', 2, id=5, timeout_ms=77)
        kept.api.create('pair', 2)
        for rank in range(2):
            kept.api.join('ring', rank, 2, rank)
        kept.end()
        for jobs, names in (([job(5, 2)], ['job5', 'pair']), ([job(6, 2, name='ring')], ['pair', 'ring'])):
            kept.rack.jobs = jobs
            kept.up()
            check(sorted(kept.api.jobs()) == names, '%s', kept.api.jobs())
            line = next(line for line in kept.rack.switch.output.splitlines() if 'set aside' in line)
            check('job=ring' in line and 'already' in line, '%s', line)
            kept.api.create('more', 2)  # the file is written again
            kept.api.delete('more')
            kept.end()
        kept.rack.jobs = []
        kept.up()
        check(sorted(kept.api.jobs()) == ['pair', 'ring'], 'lost: %s', kept.api.jobs())
        now = kept.api.get('/v1/jobs/ring')
        check((now['id'], now['timeout_ms'], now['joined']) == (5, 77, 2), '%s', now)
        check(not any(j.get('set_aside') for j in kept.state()['jobs']), '%s', kept.state())
        kept.end()
        # Another job of the name takes its place.
        kept.rack.jobs = [job(5, 2)]
        kept.up()
        kept.api.create('ring', 3)
        kept.end()
        kept.rack.jobs = []
        kept.up()
        check(kept.api.jobs()['ring']['size'] == 3 and len(kept.state()['jobs']) == 2, '%s', kept.state())
        kept.end()


@case
def what_a_deleted_job_of_the_file_needs_stays_free():
    with Kept(jobs=[job(0, 2, window=64)], changes={'tables': {'blocks': 192}}) as kept:
        kept.up()
        kept.api.delete('job0')
        error = kept.api.create('large', 2, 507, key='window', window=64)['error']
        check('job0' in error['message'], '%s', error)
        kept.api.create('small', 2, window=32)
        kept.kill()
        kept.up()
        check(sorted(kept.api.jobs()) == ['job0', 'small'], '%s', kept.api.jobs())
        kept.end()


def second(kept, *options):
    """Another switch on the same state, with nothing else in common."""
    config = {'switch': {'name': kept.rack.name[5:] + '-b', 'address': '10.77.0.253/24'},
              'memory_mb': 128, 'eal': ['--no-huge', '--no-pci', '--no-telemetry', '--no-shconf'],
              'ports': [{'name': 'p0', 'device': 'net_null0,no-rx=1'}],
              'state': {'file': kept.file}}
    path = kept.rack.write_config(json.dumps(config), 'second.json')
    return kept.rack.spawn('sw', [kept.rack.program(('switch', 'weir-switch')), '-c', path,
                                  *options])


@case
def a_state_is_one_switch_s():
    with Kept() as kept:
        lock = kept.file + '.lock'
        for turn in range(2):
            kept.up()
            kept.api.create('ring%d' % turn, 2)
            before = kept.state()
            for options in ((), ('--forget-state',)):
                run = second(kept, *options)
                check(run.end(20) == 1 and 'another switch runs on ' + kept.file in run.output,
                      '%s', run.output)
            # Looking is allowed, and changes nothing. (The state is another switch's, it says.)
            run = second(kept, '--check')
            check(run.end(20) == 2 and 'another switch runs' not in run.output, '%s', run.output)
            check(kept.state() == before and os.path.exists(lock), 'touched')
            # What a killed one leaves is no lock; and what is replaced meanwhile is still this one's.
            kept.api.create('more%d' % turn, 2)
            check(second(kept).end(20) == 1, 'the lock went with a change')
            kept.kill()
            check(os.path.exists(lock), 'a killed switch has cleaned up')
        kept.up()
        check(sorted(kept.api.jobs()) == ['more0', 'more1', 'ring0', 'ring1'], '%s', kept.api.jobs())
        kept.end()
        check(not os.path.exists(lock), 'the lock is still there')
        os.rename(kept.file, kept.file + '.away')
        run = second(kept)
        run.wait_line('weir-switch: ready', 30)
        run.signal(signal.SIGTERM)
        run.wait(20)


@case
def a_folder_that_can_not_be_written_is_said():
    with Kept() as kept:
        kept.rack.changes['state'] = {'file': '/nowhere/weir/state.json'}
        run = kept.start()
        check(run.end(20) == 1 and '/nowhere/weir/state.json cannot be written' in run.output, '%s',
              run.output)
        kept.rack.changes['state'] = {'file': 'state.json'}
        run = kept.start()
        check(run.end(20) == 2 and 'state.file' in run.output, '%s', run.output)


@case
def a_disk_that_fails_later_is_logged_and_tried_again():
    with Kept() as kept:
        folder = os.path.join(kept.rack.folder, 'state')
        os.mkdir(folder)
        kept.file = os.path.join(folder, 's.json')
        kept.rack.changes['state'] = {'file': kept.file}
        kept.up()
        os.rename(folder, folder + '.away')
        kept.api.create('ring', 2)
        check('the state was not written' in kept.rack.switch.output, 'not logged')
        os.rename(folder + '.away', folder)
        wait_for(lambda: 'the state is written again' in kept.rack.switch.output, 'not tried again')
        check(kept.state()['jobs'], 'nothing is written')
        kept.kill()
        kept.up()
        check(list(kept.api.jobs()) == ['ring'], 'lost')
        kept.end()


if __name__ == '__main__':
    main()
