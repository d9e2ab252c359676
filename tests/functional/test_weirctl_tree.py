#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl tree, and blocks --stuck through a tree, against control APIs that are played: two leaves, two spines."""
import contextlib
import copy
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from ctl import WEIRCTL, ctl, good, says
from fake_api import FakeApi, job
from tap import case, check, main

KEYS = os.path.join(os.environ['WEIR_BUILD'], 'ctrl', 'weir-keys')
SETTINGS = json.loads(subprocess.run([KEYS], check=True, stdout=subprocess.PIPE).stdout)['settings']
NAMES = ['leaf0', 'leaf1', 'spine0', 'spine1']
NONE = (404, {'error': {'status': 404, 'code': 'unknown_job', 'key': None, 'message': 'no job is called "ring"'}})
EXISTS = (409, {'error': {'status': 409, 'code': 'exists', 'key': 'name', 'message': 'a job is called "ring" already'}})
PRIVATE = (403, {'error': {'status': 403, 'code': 'forbidden', 'key': None, 'message': 'use https://'}})
REFUSED = (507, {'error': {'status': 507, 'code': 'no_memory', 'key': 'window', 'message': 'too little memory',
                           'free': {'memory': 5}, 'needed': {'memory': 50}}})


def default(one):
    """A setting's value in an answer."""
    usual = one['default']
    return False if one['kind'] == 'boolean' else int(usual) if one['kind'] in ('integer', 'power') else usual


def is_dry(path):
    return path.endswith('?dry_run=1')


class Switch(FakeApi):
    """One whose jobs can be made and deleted. number: of its addresses, and of the first job's id."""

    def __init__(self, name, number, neighbors=(), **more):
        super().__init__(**more)
        self.name, self.number, self.jobs = name, number, {}
        self.routes.update({
            '/v1/status': {'name': name, 'address': '10.77.%d.254' % number, 'mac': '02:00:00:00:00:%02x' % number,
                           'udp_port_ext': 12001},
            '/v1/ports': {'ports': [{'name': 'p0', 'mtu': 9000, 'neighbor': None}] + [
                {'name': 'up%d' % n, 'mtu': 9000, 'neighbor': one} for n, one in enumerate(neighbors)]},
            '/v1/jobs': self.make, '/v1/jobs/ring': self.of})

    def make(self, handler):
        dry = is_dry(handler.path)
        if 'ring' in self.jobs or (handler.body.get('authenticate') and not self.address.startswith('unix:')):
            return EXISTS if 'ring' in self.jobs else PRIVATE
        made = dict(copy.deepcopy(handler.body), id=handler.body.get('id', self.number))
        if not dry:
            self.jobs[made['name']] = made
        answer = dict({one['name']: default(one) for one in SETTINGS}, **copy.deepcopy(made), **({'dry_run': True} if dry else {}))
        for link in answer.get('tree', {}).get('parents', []):
            link.pop('key', None)
        for source in answer.get('sources', []) if made.get('authenticate') and not dry else []:
            source['key'] = '%064x' % (256 * self.number + source['id'])
        return 201, answer

    def of(self, handler):
        if handler.command == 'DELETE':
            return {'state': 'gone'} if self.jobs.pop('ring', None) else NONE
        return dict(job('ring', self.number), **self.jobs['ring']) if 'ring' in self.jobs else NONE

    def sent(self, command):
        """But for dry runs."""
        return [a for a in self.asked if a[0] == command and not is_dry(a[1])]

    def answer_in_earnest(self, answer):
        """Let a function answer what is not a dry run."""
        self.routes['/v1/jobs'] = lambda handler: (self.make if is_dry(handler.path) else answer)(handler)


@contextlib.contextmanager
def racks():
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Switch(name, n + 1, NAMES[2:] if n < 2 else ())) for n, name in enumerate(NAMES)]


def named(switches):
    return ','.join('%s=%s' % (s.name, s.address) for s in switches)


def tree(verb, switches, *words, **more):
    return ctl(None, 'tree', verb, 'ring', '--switches', named(switches), *words, **more)


def create(switches, *words, **more):
    return tree('create', switches, '--sizes', '4,2', *words, **more)


def saved(switches, *words):
    """The plan of a command line."""
    return json.loads(good(create(switches, '--dry-run', '--json', *words)))


def carry_out(plan, *words):
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        json.dump(plan, file)
        file.flush()
        return ctl(None, 'tree', 'create', 'ring', '--plan', file.name, *words)


def nothing_was_made(switches):
    for one in switches:
        check(not one.sent('POST') and not one.jobs, '%s was asked: %s', one.name, one.asked)


@case
def the_plan_is_printed():
    with racks() as switches, tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, 'plan.json')
        says(create(switches, '--dry-run', '--save', file, '--timeout-ms', '500', '--elements', '1024'), 0,
             r'spine0 +root +10\.77\.3\.254 +unix:\S+ +3 +0\.\.5 +planned .* - +1\.0 s +20\.0 s\n',
             r'leaf0 +leaf +10\.77\.1\.254 +unix:\S+ +1 +0\.\.3 +planned .* spine0 by up0, spine1 by up1 +500 ms +10\.0 s\n',
             r'leaf1 +leaf .* 4\.\.5 .* spine0 by up0', r'job ring: 6 ranks, sum of fp32, 1024 elements a block')
        nothing_was_made(switches)
        with open(file) as of:
            plan = json.load(of)
        check([s['name'] for s in plan['switches']] == NAMES[2:] + NAMES[:2], '%s', plan)
        check(plan == saved(switches, '--timeout-ms', '500', '--elements', '1024'), '--json differs')
        says(create(switches, '--dry-run', '--save', folder), 1, 'Is a directory')
        out = create(switches, '--dry-run', columns=60).out
        check(max(map(len, out.splitlines())) <= 60, '%s', out)


@case
def settings_that_must_be_equal():
    """They go to the parents, too, and an edited plan is checked for them. The others are each switch's own."""
    with racks() as switches:
        for one in SETTINGS:
            name, usual = one['name'], one['default']
            if name in ('temporary', 'rejoin', 'timeout_ms', 'dead_after_ms'):
                continue  # what a tree's jobs can't have, and what depends on the level
            value = {'boolean': lambda: True, 'results': lambda: '239.1.1.1',
                     'word': lambda: next(w for w in one['words'].split('|') if w != usual)
                     }.get(one['kind'], lambda: 2 * int(usual) or 7)()
            words = ['--' + name.replace('_', '-')] + ([] if value is True else [str(value)])
            plan = saved(switches, *words)
            made = [s['job'].get(name) for s in plan['switches']]
            check(made == [value if one['equal'] else None] * 2 + [value] * 2, '%s: %s', name, made)
            if one['equal']:
                put(plan, 'spine1', name, None)
                says(carry_out(plan), 1, 'leaf0 below spine1: %s is %s, there %s: must be equal' % (
                    name, json.dumps(value), json.dumps(default(one))))
        nothing_was_made(switches)


@case
def all_jobs_are_created():
    with racks() as switches:
        out = good(create(switches, '--timeout-ms', '500', '--policy', 'partial', '--expire-s', '30'))
        check('created on 4 switches' in out, '%s', out)
        leaf0, leaf1, spine0, spine1 = (s.jobs['ring'] for s in switches)
        for n, spine in enumerate((spine0, spine1)):
            check(spine == {
                'name': 'ring', 'id': 3 + n, 'policy': 'partial', 'rejoin': 'revoke', 'timeout_ms': 1000,
                'dead_after_ms': 20000, 'size': 2, 'sources': [
                    {'id': 0, 'address': '10.77.1.254', 'ranks': 4, 'name': 'leaf0', 'api': switches[0].address},
                    {'id': 4, 'address': '10.77.2.254', 'ranks': 2, 'name': 'leaf1', 'api': switches[1].address}]},
                '%s', spine)
        parents = [{'name': 'spine%d' % n, 'address': '10.77.%d.254' % (3 + n), 'mac': '02:00:00:00:00:%02x' % (3 + n),
                    'port': 'up%d' % n, 'udp_port': 12001, 'job': 3 + n, 'api': switches[2 + n].address}
                   for n in range(2)]
        for leaf, number, first, size in ((leaf0, 1, 0, 4), (leaf1, 2, 4, 2)):
            check(leaf == {'name': 'ring', 'id': number, 'policy': 'partial', 'rejoin': 'revoke', 'timeout_ms': 500,
                           'dead_after_ms': 10000, 'expire_s': 30, 'size': size,
                           'tree': {'ranks': 6, 'first_rank': first, 'parents': parents}}, '%s', leaf)
        says(create(switches), 1, *(r'%s: name: a job is called "ring" already' % name for name in NAMES), 'not created')
        check(all(len(s.sent('POST')) == 1 and not s.sent('DELETE') for s in switches), 'it is left alone')
        # In JSON, the plan is all there is.
        good(tree('delete', switches))
        check(json.loads(good(create(switches, '--json')))['name'] == 'ring', 'the plan')


@case
def keys_are_handed_over_and_do_not_cross_the_network_in_clear_text():
    with racks() as switches, Switch('leaf1', 2, NAMES[2:], tcp=True) as over_tcp:
        says(create([switches[0], over_tcp] + switches[2:], '--authenticate'), 1,
             'leaf1: use https://')
        nothing_was_made(switches)
        check('key' not in json.dumps(saved(switches, '--authenticate')), 'a key in the plan')
        good(create(switches, '--authenticate', '--id', '7'))
        for leaf, first in ((switches[0], 0), (switches[1], 4)):
            links = leaf.jobs['ring']['tree']['parents']
            check([(l['key'], l['job']) for l in links] == [('%064x' % (256 * n + first), 7) for n in (3, 4)], '%s', links)


@case
def all_or_none():
    """A switch that refuses, that does not answer, or whose answer makes no sense: the last two may have made the job."""
    with racks() as switches:
        made, done = switches[0].make, threading.Event()

        def slow(handler):
            made(handler)
            done.wait(60)
            return 201, {}

        def busy(handler):
            made(handler)
            return 503, {'error': {'status': 503, 'code': 'busy', 'message': 'the switch is out of memory for answers'}}

        for answer, status, why in ((lambda _handler: REFUSED, 1, r'leaf0: window: too little memory \(no_memory\)'),
                                    (slow, 3, 'no answer of the switch'), (busy, 1, 'out of memory'),
                                    (lambda handler: made(handler) and (201, b'<html>'), 1, 'does not answer in JSON')):
            switches[0].answer_in_earnest(answer)  # the third that is asked
            run = says(create(switches, '-t', '3s'), status, why, 'because of leaf0', 'no switch has job ring')
            check('created on' not in run.out and not any(s.jobs for s in switches), '%s, %s', run, [s.jobs for s in switches])
            check(not switches[1].sent('POST'), 'the fourth was asked')
        # One that can't delete it any more is named.
        switches[2].routes['/v1/jobs/ring'] = lambda h: REFUSED if h.command == 'DELETE' else NONE
        says(create(switches), 1, 'job ring may be left on spine0: weirctl tree delete ring')
        done.set()


@case
def each_switch_is_asked_first():
    """All that refuse say why, and then none has been asked to make the job."""
    with racks() as switches:
        for one in (switches[0], switches[3]):
            one.routes['/v1/jobs'] = lambda _handler: REFUSED
        says(create(switches), 1, r'leaf0: window: too little memory \(no_memory\)', r'spine1: window: too little memory',
             'job ring: not created')
        check(all(len(one.asked) == 3 for one in switches), '%s', [one.asked for one in switches])
        nothing_was_made(switches)
        # A child of one that refuses is checked nevertheless, with any id, and of any keys.
        body = next(a[2] for a in switches[1].asked if a[0] == 'POST')
        check([l['job'] for l in body['tree']['parents']] == [3, 0], '%s', body)


@case
def an_interrupted_command_leaves_nothing():
    with racks() as switches:
        made, here, gone = switches[3].make, threading.Event(), threading.Event()

        def slow(handler):
            here.set()
            gone.wait(60)  # the signal comes meanwhile
            return made(handler)

        switches[3].answer_in_earnest(slow)
        run = subprocess.Popen([WEIRCTL, 'tree', 'create', 'ring', '--switches', named(switches), '--sizes', '4,2'],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        check(here.wait(300), 'it does not come so far')
        run.send_signal(signal.SIGINT)
        gone.set()
        out = run.communicate(timeout=300)[0].decode()
        check(run.returncode == -signal.SIGINT, '%s: %s', run.returncode, out)
        check('interrupted' in out and 'no switch has job ring' in out and 'because' not in out, '%s', out)
        check(not any(s.jobs for s in switches), 'left: %s', [s.jobs for s in switches])


def put(plan, name, path, value):
    """Set a value of a switch's job; keys of a path are joined by dots, None deletes."""
    at = next(s for s in plan['switches'] if s['name'] == name)['job']
    *keys, last = [int(k) if k.isdigit() else k for k in path.split('.')]
    for key in keys:
        at = at[key]
    if value is None:
        del at[last]
    else:
        at[last] = value


EDITS = [
    ([('leaf1', 'elements', 255)], 'leaf1 below spine0: elements is 255, there 256: must be equal'),
    ([('leaf1', 'rejoin', 'wait')], 'rejoin is "wait", there "revoke": must be revoke on both'),
    ([(name, 'policy', 'error') for name in NAMES] + [('spine1', 'timeout_ms', 1250)],
     r'leaf0 below spine1: timeout_ms is 1000, there 1250: .* 1\.25 times as long, and 1 ms more'),
    ([(name, 'policy', 'partial') for name in NAMES] + [('spine1', 'dead_after_ms', 10999)],
     r'dead_after_ms is 10000, there 10999: .* must be longer by this switch\'s timeout_ms'),
    ([('leaf1', 'tree.first_rank', 3)], r'leaf1 below spine0: its source is {"id": 3, "ranks": 2, "address": "10\.77\.2\.254"}, '
     r'there \[.*{"id": 4, .*\]: it must be one of the parent\'s'),
    ([('spine1', 'sources.1.id', 0)], 'leaf1 below spine1: its source is'),
    ([('leaf1', 'size', 3)], 'its source is {"id": 4, "ranks": 3'),
    ([('leaf1', 'tree.ranks', 8)], 'leaf1 below spine0: they are of trees of 8 and 6 ranks'),
    ([('spine0', 'sources.1.address', '10.77.2.9')], r'leaf1 below spine0: its source is .*10\.77\.2\.254.* there .*10\.77\.2\.9'),
    ([('leaf0', 'tree.parents.1.address', '10.9.9.9')],
     r'leaf0 below spine1: the parent\'s address is "10\.9\.9\.9", there "10\.77\.4\.254"'),
    ([('leaf0', 'tree.parents.1.name', 'spine7')], 'leaf0: its parent spine7 must be in the plan, and before it'),
    ([('leaf0', 'tree', None)], 'spine0: it has 2 sources, and 1 switches of the plan are below it'),
]


@case
def edited_plans_are_checked():
    with racks() as switches:
        plan = saved(switches)
        for edits, why in EDITS:
            wrong = copy.deepcopy(plan)
            for name, path, value in edits:
                put(wrong, name, path, value)
            says(carry_out(wrong), 1, why)
        for edit, status, why in (
                (lambda p: p['switches'].reverse(), 1, 'its parent spine0 must be in the plan, and before it'),
                (lambda p: p['switches'][3]['job']['tree']['parents'].reverse(), 1,
                 'leaf0 and leaf1 share a parent: both must list the same parents, in the same order'),
                (lambda p: p['switches'][3]['job']['tree']['parents'].pop(), 1, 'leaf0 and leaf1 share a parent'),
                (lambda p: p['switches'].pop(), 1, 'spine0: it has 2 sources, and 1 switches of the plan are below it'),
                (lambda p: p['switches'].append(p['switches'][0]), 2, 'switch spine0: it is there twice'),
                (lambda p: p.update(name='other'), 2, 'no plan of job ring: its "name" is other'),
                (lambda p: p.update(switches={}), 2, r'has 0 "switches"'),
                (lambda p: p['switches'][0].pop('api'), 2, r'its address, "api", is missing'),
                (lambda p: p['switches'][0].pop('name'), 2, 'its name is missing')):
            wrong = copy.deepcopy(plan)
            edit(wrong)
            says(carry_out(wrong), status, why)
        nothing_was_made(switches)
        # What may be edited.
        for name, path, value in (('spine1', 'timeout_ms', 1251), ('spine1', 'dead_after_ms', 0), ('leaf0', 'id', 9),
                                  ('leaf0', 'name', 'other'), ('leaf0', 'tree.parents.1.mac', '02:aa:aa:aa:aa:aa')):
            put(plan, name, path, value)
        says(carry_out(plan, '--dry-run'), 0, 'leaf0 +leaf .* 9 +0', 'job ring')
        nothing_was_made(switches)
        good(carry_out(plan))
        leaf, spine = switches[0].jobs['ring'], switches[3].jobs['ring']
        check(leaf['id'] == 9 and leaf['tree']['parents'][1]['mac'] == '02:aa:aa:aa:aa:aa', '%s', leaf)
        check(spine['timeout_ms'] == 1251 and spine['dead_after_ms'] == 0, '%s', spine)
        says(carry_out(plan, '--window', '8'), 2, 'a plan has the sizes and the settings')


@case
def a_third_level_is_a_plan():
    with racks() as switches, Switch('core', 9) as core:
        plan = saved(switches[:1] + switches[2:3], '--sizes', '4')
        middle, leaf = plan['switches']
        leaf['job']['tree']['ranks'] = middle['job']['sources'][0]['ranks'] = 4
        middle['job']['tree'] = {'ranks': 4, 'first_rank': 0, 'parents': [
            {'name': 'core', 'address': '10.77.9.254', 'mac': '02:00:00:00:00:09', 'port': 'p0', 'udp_port': 12001}]}
        plan['switches'].insert(0, {'name': 'core', 'api': core.address, 'job': {
            'name': 'ring', 'size': 1, 'rejoin': 'revoke', 'timeout_ms': 4000, 'dead_after_ms': 40000,
            'sources': [{'id': 0, 'address': '10.77.3.254', 'ranks': 4}]}})
        says(carry_out(plan), 0, r'spine0 +middle .* 0\.\.3 .* core by p0')
        check(switches[2].jobs['ring']['tree']['parents'][0]['job'] == 9, '%s', switches[2].jobs)


@case
def mistakes_are_named():
    with racks() as switches:
        for words, why in ((['--sizes', '4,2,2,2'], '4 sizes need as many leaves and at least one parent'),
                           (['--sizes', '4,2,2,2,1'], '5 sizes need'),
                           (['--sizes', '4,'], '--sizes 4,: must be numbers'), (['--sizes', '200,57'], '256 together'),
                           (['--sizes', '0,4'], '--sizes 0,4: must be numbers'), ([], '--sizes N,N'),
                           (['--sizes', '4,2', '--temporary'], 'are not temporary'),
                           (['--sizes', '4,2', '--plan', 'x'], 'a plan has the sizes')):
            says(tree('create', switches, *words), 2, why)
        for words, status, why in (('create ring --sizes 4', 2, 'either --switches NAME,... or --plan FILE'),
                                   ('show ring', 2, 'either --switches NAME,... or --plan FILE'),
                                   ('create ring --switches a=x:1,b --sizes 1', 2, 'none of http://HOST:PORT'),
                                   ('show ring --switches nowhere.invalid', 3, 'http://nowhere.invalid:8080')):  # a host's name
            says(ctl(None, 'tree', *words.split()), status, why)
        switches[1].routes['/v1/ports']['ports'][2]['neighbor'] = None
        says(create(switches), 1, r'leaf1 has no port to spine1: set "neighbor" of the port to "spine1"')
        nothing_was_made(switches)
        switches[3].stop()
        says(create(switches), 3, 'no connection .*' + re.escape(switches[3].address))
        nothing_was_made(switches)


@case
def a_tree_is_shown_and_deleted():
    with racks() as switches:
        good(create(switches))
        leaf, spine = switches[0].jobs['ring'], switches[2].jobs['ring']
        leaf.update(generation=7, joined=3)
        spine.update(generation=9, joined=2, state='joining')
        leaf['tree']['parents'][0].update(generation=9, serves=True, silent_ms=2100, joining=False)
        leaf['tree']['parents'][1].update(generation=0, serves=False, silent_ms=None, joining=False)
        switches[1].jobs['ring'].update(generation=0, tree=copy.deepcopy(leaf['tree']))
        switches[1].jobs['ring']['tree']['parents'][0].update(serves=False, joining=True)
        switches[1].jobs['ring']['tree']['first_rank'] = 4
        says(tree('show', switches), 0, r'leaf0 +leaf .* 0\.\.3 +running +7 +3 of 4 +spine0 by up0 silent for 2\.1 s, spine1 by up1 not used',
             r'leaf1 +leaf .* 4\.\.5 +\S+ +\d+ +\d of 2 +spine0 by up0 joining, spine1 by up1 not joined ',
             r'spine0 +root +10\.77\.3\.254 .* 0\.\.5 +joining +9 +2 of 2 +-', 'job ring: 6 ranks')
        check([row['name'] for row in json.loads(good(tree('show', switches, '--json')))] == NAMES, '--json')
        leaf['tree']['parents'][0]['refused'] = {'setting': 'window', 'here': 64, 'there': 32, 'why': 'must be equal'}
        says(tree('show', switches), 0, r'spine0 by up0 refused: window is 64, there 32: must be equal, spine1 by up1 not used')
        del switches[1].jobs['ring']
        says(tree('show', switches), 1, 'leaf1 +- .* no job +- +- +- +- +-$')
        switches[3].stop()
        says(tree('show', switches), 3, 'spine1 +- .* no answer ', 'leaf0 +leaf')
        says(tree('delete', switches), 3, 'leaf1 has no job ring', 'deleted on 2 of 4 switches', 'no connection',
             'job ring may be left on spine1: weirctl tree delete ring')
        check(not any(s.jobs for s in switches[:3]), 'left: %s', [s.jobs for s in switches])


# -- blocks --stuck

def missing(name, number, api=None, ranks=4):
    return {'rank': 4 * number, 'address': '10.77.%d.254' % (number + 1), 'last_heard': 2.1, 'ranks': ranks,
            'name': name, 'api': api}


def stuck(text, blocks=(17,), **more):
    return dict({'job': 'ring', 'reason': 'blocks', 'text': text, 'detail': None, 'blocks': list(blocks), 'missing': []}, **more)


def is_stuck(switch, *entries):
    switch.routes['/v1/blocks'] = {'blocks': [], 'stuck': list(entries)}


HOST = 'block 17 waits for rank 6 (10.77.1.3), last heard 2.1 s ago; policy wait: nothing will happen until it sends'


def up(parent, **more):
    return stuck('block 17 waits for ' + parent.name, reason='parent', parent=parent.name, api=parent.address, **more)


@case
def stuck_blocks_lead_to_the_host():
    with racks() as switches:
        leaf0, leaf1, spine0, spine1 = switches

        def chain(*lines, address=spine0.address):
            run = ctl(address, 'blocks', '--stuck', '-t', '100s')
            check(run.status == 0 and run.out == 'job ring: %s\n' % '\n'.join(lines), '%s', run)
            return run

        both = '64 blocks 17..80 wait for leaf1 (10.77.2.254, ranks 4..7), last heard 2.1 s ago'
        is_stuck(leaf0, up(spine0, detail='open for 2.1 s'))
        is_stuck(spine0, stuck(both, range(17, 81), missing=[missing('leaf1', 1, leaf1.address)]))
        is_stuck(leaf1, stuck('block 3 waits for rank 5', [3]), stuck(HOST))
        chain('block 17 waits for spine0', '  open for 2.1 s', '  spine0: ' + both, '    leaf1: ' + HOST, address=leaf0.address)
        chain(both, '  leaf1: ' + HOST)
        check('job ring: ' + HOST in good(ctl(leaf1.address, 'blocks', '--stuck')), 'the leaf')
        # Both leaves at once; each switch is asked once.
        is_stuck(leaf0, stuck('block 17 waits for rank 1'))
        spine0.routes['/v1/blocks']['stuck'][0]['missing'].insert(0, missing('leaf0', 0, leaf0.address))
        before = len(leaf1.asked)
        chain(both, '  leaf0: block 17 waits for rank 1', '  leaf1: ' + HOST)
        check(len(leaf1.asked) == before + 1, '%s', leaf1.asked)
        # --json follows nothing.
        check(json.loads(good(ctl(spine0.address, 'blocks', '--stuck', '--json'))) == spine0.routes['/v1/blocks'], 'json')
        # A chain that breaks names the place.
        entry = stuck('block 17 waits for leaf1', missing=[missing('leaf1', 1, leaf1.address)])
        is_stuck(spine0, entry)
        is_stuck(leaf1)
        chain('block 17 waits for leaf1', '  leaf1: nothing is stuck: packets between the two may be lost')
        leaf1.routes['/v1/blocks'] = NONE
        chain('block 17 waits for leaf1', '  leaf1 has no job ring')
        is_stuck(leaf1, up(spine0))
        chain('block 17 waits for leaf1', '  leaf1: block 17 waits for spine0; packets between the two are lost')
        # In a circle nobody asks for ever.
        is_stuck(leaf1, up(spine1))
        is_stuck(spine1, stuck('block 17 waits for leaf0', missing=[missing('leaf0', 0, leaf0.address)]))
        is_stuck(leaf0, up(spine0))
        circle = [(leaf1, 'spine1'), (spine1, 'leaf0'), (leaf0, 'spine0'), (spine0, 'leaf1')]
        chain('block 17 waits for leaf1', *('%*s%s: block 17 waits for %s' % (2 * n + 2, '', circle[n % 4][0].name, circle[n % 4][1])
                                            for n in range(8)))
        leaf1.routes['/v1/blocks'] = (503, {'error': {'code': 'busy', 'key': None, 'message': 'too much to do'}})
        chain('block 17 waits for leaf1', '  leaf1 does not answer at ' + leaf1.address)
        leaf1.stop()
        check('no connection' in chain('block 17 waits for leaf1', '  leaf1 does not answer at ' + leaf1.address).err, 'why')
        # What has no address is told as the switch tells it.
        entry['missing'][0]['api'] = None
        check('no connection' not in chain('block 17 waits for leaf1').err, 'it is asked')


@case
def a_token_does_not_leave_tls():
    with Switch('spine0', 3) as spine, Switch('leaf1', 2, tcp=True) as leaf, tempfile.NamedTemporaryFile('w') as token:
        token.write('secret\n')
        token.flush()
        is_stuck(spine, stuck('block 17 waits for leaf1', missing=[missing('leaf1', 1, leaf.address)]))
        is_stuck(leaf, stuck(HOST))
        for variables, words in (({}, ['--token-file', token.name]), ({'WEIR_TOKEN': 'secret'}, [])):
            check(HOST in good(ctl(spine.address, 'blocks', '--stuck', *words, **variables)), 'the host')
        check(all('secret' in a[3].get('Authorization', '') for a in spine.asked), '%s', spine.asked)
        check(leaf.asked and not any('Authorization' in a[3] for a in leaf.asked), '%s', leaf.asked)


if __name__ == '__main__':
    sys.exit(main())
