#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Faults of a switch that works: sums stay right under them, every packet is accounted for, a file brings
them and a reload changes them, on every kind of port; and nothing that they hold holds up a stop."""
import contextlib
import json
import os
import re

from control import Control
from perf import finish, reduce, start
from rack import ROOT, SWITCH_ADDRESS, Rack, job
from process import answer_to
from tap import case, check, main, wait_for
from wire import Peer

EXAMPLE = os.path.join(ROOT, 'configs', 'faults.json')
LOSS = {'seed': 7, 'rules': [{'direction': 'in', 'what': 'contribution', 'action': 'drop',
                              'chance_ppm': 10000}]}
HOLD = {'rules': [{'direction': way, 'action': 'delay', 'us': 10000000} for way in ('in', 'out')]}


@contextlib.contextmanager
def switch(hosts=2, workers=1, jobs=None, queues=1, ends=True, **changes):
    with Rack(hosts=hosts, workers=workers, jobs=[job(1, 2)] if jobs is None else jobs) as rack:
        rack.changes = changes
        if queues > 1:
            changes['ports'] = [{'name': 'p%d' % p, 'rx_queues': queues, 'tx_queues': queues,
                                 'device': '%s,qpairs=%d' % (rack.device(p), queues)}
                                for p in range(hosts)]
        api = Control(rack)
        rack.start_switch()
        yield rack, api
        if ends:
            rack.stop_switch()


def faults_of(api):
    return api.get('/v1/faults')


def set_faults(api, section):
    """None: clear them."""
    return api.do('PUT' if section else 'DELETE', '/v1/faults', section)


@case
def they_are_set_and_cleared():
    with switch(jobs=[dict(job(1, 2), generation=7)]) as (rack, api):
        check(faults_of(api)['rules'] == [], 'faults from the start')
        section = {'seed': 7, 'rules': [{'direction': 'in', 'what': 'contribution', 'action': 'drop'}]}
        found = set_faults(api, section)
        check(found['seed'] == 7 and found['rules'][0]['hit'] == 0, '%s', found)
        with Peer(rack, 0, 1, 0) as peer:
            peer.generation = 7
            peer.send(0, [1, 2])
            wait_for(lambda: faults_of(api)['rules'][0]['hit'] == 1, 'nothing is hit')
        check(api.get('/v1/counters')['drops']['fault_drop'] == 1, 'not counted')
        section['rules'][0]['port'] = 'none'
        api.do('PUT', '/v1/faults', section, 400, key='faults.rules[0].port')
        check(faults_of(api)['seed'] == 7, 'a refusal changed something')
        check(set_faults(api, None)['rules'] == [], 'not cleared')
        for line in ('faults set', 'faults cleared'):
            check(line in rack.switch.output, '%s', rack.switch.output)


def hit_of_matched(api):
    first = faults_of(api)['rules'][0]
    return first['hit'] / first['matched']


@case
def the_example_does_what_it_says():
    """configs/faults.json: the file is right, and its faults on a rack of the same ports and job."""
    with open(EXAMPLE) as file:
        example = json.load(file)
    with Rack(hosts=2) as rack:
        said = rack.call('sw', [rack.program(('switch', 'weir-switch')), '--check', '-c', EXAMPLE])
        check(re.search(r'^memory +faults +0\.\d\d MiB$', said, re.M), '%s', said)
    with switch(jobs=[dict(j, window=32, elements=256, timeout_ms=1000) for j in example['jobs']],
                faults=example['faults']) as (rack, api):
        reduce(rack, 1, [0, 1], '-b', '64K', '-e', '64K', '-n', 20, '-w', 0)
        drops = rack.check_packets()['drops']
        found = faults_of(api)
        check(found['seed'] == 1, '%s', found)
        for index, rule in enumerate(found['rules']):
            check(rule['hit'] > 0, 'rule %d has hit nothing: %s', index, rule)
            check(rule['spared'] == 0, 'rule %d: %s', index, rule)
        check(drops['fault_drop'] == sum(r['hit'] for r in found['rules'] if r['action'] == 'drop'),
              '%s', drops)


def packets_are_accounted_for(queues):
    every = [{'direction': way, 'action': action, 'chance_ppm': 20000, 'distance': 5, 'us': 300,
              'most_us': 3000, 'delay': delay}
             for way in ('in', 'out') for action, delay in
             (('drop', 'constant'), ('duplicate', 'constant'), ('reorder', 'constant'),
              ('corrupt', 'constant'), ('delay', 'pareto'), ('delay', 'exponential'))]
    with switch(hosts=4, workers=2, queues=queues,
                jobs=[job(1, 2), job(2, 2, first=2)]) as (rack, api):
        changes = 0
        while changes < 3:
            runs = start(rack, 1, [0, 1], '-b', '64K', '-e', '64K', '-n', 10, '-w', 0)
            runs += start(rack, 2, [2, 3], '-b', '64K', '-e', '64K', '-n', 10, '-w', 0)
            while any(run.status is None for run in runs) and changes < 400:
                set_faults(api, {'seed': changes, 'rules': every})
                changes += 1
                if changes % 10 == 0:
                    set_faults(api, None)
            finish(runs)
        set_faults(api, {'rules': []})
        rack.check_packets()


@case
def packets_are_accounted_for_under_load_on_two_workers():
    packets_are_accounted_for(1)


@case
def packets_are_accounted_for_with_two_queues_of_each_port():
    packets_are_accounted_for(2)


@case
def a_reload_takes_the_files_section():
    with switch(faults=LOSS) as (rack, api):
        check(faults_of(api)['seed'] == 7, 'not from the start')
        rack.changes['faults'] = dict(LOSS, seed=8)
        rack.write_config()
        check('configuration reloaded' in answer_to(rack), 'refused')
        check(faults_of(api)['seed'] == 8, 'the file has others')
        # What the API set is left alone while the file says the same as before.
        set_faults(api, dict(LOSS, seed=9))
        check('configuration reloaded' in answer_to(rack), 'refused')
        check(faults_of(api)['seed'] == 9, 'a reload of the same file')
        # A section that is wrong is refused whole, with its place.
        wrong = {'seed': 10, 'rules': [dict(LOSS['rules'][0], chance_ppm=1000001)]}
        rack.changes['faults'] = wrong
        path = rack.write_config()
        line = answer_to(rack)
        check(re.search(r'reload refused.*%s:\d+:\d+: faults\.rules\[0\]\.chance_ppm: 1000001 is not in'
                        % re.escape(path), line), '%s', line)
        check(faults_of(api)['seed'] == 9, 'refused, and yet changed')
        # And none at all ends them, the API's too: the file says something else than last time.
        del rack.changes['faults']
        rack.write_config()
        check('configuration reloaded' in answer_to(rack), 'refused')
        check(faults_of(api)['rules'] == [], 'not ended')
        said = re.findall(r'msg="(faults \w+)" uid=0 pid=', rack.switch.output)
        check(said == ['faults set', 'faults set', 'faults cleared'], '%s', said)


@case
def a_reload_that_jobs_refuse_changes_no_faults():
    with switch(faults=LOSS, tables={'blocks': 2048}) as (rack, api):
        set_faults(api, dict(LOSS, seed=9))
        rack.changes['faults'] = dict(LOSS, seed=10)
        rack.jobs = [job(1, 2), job(2, 2, window=4096)]
        rack.write_config()
        check('block records' in answer_to(rack), 'taken')
        check(faults_of(api)['seed'] == 9, "not those that the API had set, but %s", faults_of(api)['seed'])
        check('seed=10' not in rack.switch.output, 'told, and not so')


@case
def the_same_seed_hits_the_same_packets_after_a_restart():
    section = {'seed': 4711, 'rules': [dict(LOSS['rules'][0], chance_ppm=300000)]}
    missing = []
    for _ in range(2):
        with switch(jobs=[dict(job(1, 2, window=64), generation=7)], faults=section) as (rack, api), \
                Peer(rack, 0, 1, 0) as first, Peer(rack, 1, 1, 1) as second:
            first.generation = second.generation = 7
            # Neighbours are known: packets that wait for ARP overtake each other.
            rack.ping(0, SWITCH_ADDRESS, count=1)
            # Source 0 alone: of 64 blocks, those that are open are the ones that came through.
            for block in range(64):
                first.send(block, [1])
            rule = lambda: faults_of(api)['rules'][0]
            open_ = lambda: {b['block'] for b in api.get('/v1/blocks?limit=256')['blocks']}
            wait_for(lambda: rule()['matched'] == 64 and len(open_()) == 64 - rule()['hit'], 'all have come')
            missing.append(sorted(set(range(64)) - open_()))
    check(missing[0] == missing[1] and 5 < len(missing[0]) < 40, '%s', missing)


@case
def what_is_held_does_not_hold_up_a_stop():
    with switch(workers=2, ends=False) as (rack, api):
        set_faults(api, HOLD)
        runs = start(rack, 1, [0, 1], '-b', '64K', '-e', '64K', '-n', 10, '-w', 0)
        wait_for(lambda: faults_of(api)['held_now'] > 0, 'something is held')
        # Nor a reload, nor other faults.
        check('configuration reloaded' in answer_to(rack), 'refused')
        set_faults(api, dict(HOLD, seed=2))
        wait_for(lambda: faults_of(api)['held_now'] > 0, 'something is held again')
        rack.stop_switch()
        for run in runs:
            run.kill()


@case
def a_job_whose_packets_are_held_goes():
    with switch(jobs=[dict(job(1, 2), generation=7)]) as (rack, api):
        with Peer(rack, 0, 1, 0) as first, Peer(rack, 1, 1, 1) as second:
            first.generation = second.generation = 7
            set_faults(api, {'rules': [{'direction': 'out', 'what': 'result', 'action': 'delay', 'us': 2000000}]})
            for peer in (first, second):
                peer.send(0, [1] * 256)
            wait_for(lambda: faults_of(api)['held_now'] == 2, 'both results are held')
            check(api.unix('DELETE', '/v1/jobs/job1').status in (200, 202, 204), 'delete')
            check(first.receive().ints()[0] == 2, 'a wrong sum')
            wait_for(lambda: api.unix('GET', '/v1/jobs/job1').status == 404, 'the job has gone')


@case
def ports_without_interfaces_have_faults_too():
    """net_null gives frames without end, and net_ring what it is sent: their faults are the same."""
    for device, given in (('net_null%d,size=64,copy=0', True), ('net_ring%d', False)):
        with Rack(hosts=0, jobs=[]) as rack:
            rules = [{'direction': 'in', 'action': 'drop', 'choice': 'every', 'nth': 2}] + [
                {'direction': way, 'action': action, 'chance_ppm': 100000, 'us': 500, 'distance': 3}
                for way in ('in', 'out') for action in ('duplicate', 'corrupt', 'reorder', 'delay')]
            rack.changes = {'faults': {'rules': rules},
                            'ports': [{'name': 'n%d' % n, 'device': device % n} for n in range(2)]}
            api = Control(rack)
            rack.start_switch()
            if given:
                wait_for(lambda: all(r['hit'] > 100 for r in faults_of(api)['rules']), 'frames are hit')
                # The worker goes on between the one number and the other.
                wait_for(lambda: 0.45 < hit_of_matched(api) < 0.55, 'every other frame is dropped')
            rack.stop_switch()


if __name__ == '__main__':
    main()
