#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of a tree of switches over the control API: made, shown, joined, kept over a restart, and refused."""
import json
import os
import re
import signal
import time

from control import Control, cleared, switch, tenant
from exposition import parse
from openapi import Document
from tap import case, check, main, shared, wait_for
from rack import SWITCH_ADDRESS, Rack
from tree import Tree, source_key

KEY = '%064x' % 0x0102030405060708
MAC = '02:57:45:49:53:00'


def parent(number=0, **more):
    return dict({'name': 'spine%d' % number, 'address': '10.78.%d.254' % number, 'mac': MAC,
                 'port': 'p1', 'job': 7}, **more)


def leaf(name='ring', **more):
    tree = {'ranks': more.pop('ranks', 8), 'first_rank': more.pop('first_rank', 4),
            'parents': more.pop('parents', [parent()])}
    return dict({'name': name, 'size': 2, 'rejoin': 'revoke', 'tree': tree}, **more)


def child(first, ranks, **more):
    return dict({'id': first, 'address': '10.99.%d.254' % first, 'ranks': ranks}, **more)


def root(name='ring', **more):
    return dict({'name': name, 'rejoin': 'revoke', 'sources': [child(0, 4), child(4, 2)]}, **more)


@shared
def plain():
    with Rack(hosts=2) as rack:
        api = Control(rack)
        rack.changes['state'] = {'file': os.path.join(rack.folder, 'state.json')}
        rack.start_switch()
        yield rack, api
        rack.stop_switch()


@case
def a_leaf_is_shown_with_its_parents():
    with cleared(plain()) as (rack, api):
        made = api.do('POST', '/v1/jobs', leaf(parents=[
            parent(key=KEY, api='http://spine0:8080'), parent(1, udp_port=12007)]), 201)
        tree = made['tree']
        check((tree['ranks'], tree['first_rank']) == (8, 4), '%s', tree)
        now = {'generation': 0, 'serves': False, 'silent_ms': None, 'joining': False, 'refused': None}
        check(tree['parents'] == [
            dict(parent(), udp_port=12001, api='http://spine0:8080', **now),
            dict(parent(1), udp_port=12007, api=None, **now)], '%s', tree['parents'])
        check([m['rank'] for m in made['members']] == [4, 5], '%s', made['members'])
        check('sources' not in made and made['size'] == 2, '%s', made)
        shown = api.do('GET', '/v1/jobs/ring')
        check(shown['tree'] == tree, '%s', shown)
        for way in ('/v1/jobs', '/v1/jobs/ring', '/v1/blocks', '/v1/blocks?stuck=1', '/v1/config', '/metrics'):
            check(KEY.encode() not in api.unix('GET', way).text.lower(), '%s has the key', way)
        check(KEY not in rack.switch.output.lower(), 'the log has the key')


@case
def hosts_join_a_leaf_by_their_ranks_in_the_tree():
    with cleared(plain()) as (_, api):
        api.do('POST', '/v1/jobs', leaf(), 201)
        joined = api.join('ring', 4, 8, 0)
        check((joined['size'], joined['source']) == (8, 4), '%s', joined)
        api.join('ring', 5, 8, 1, create={'size': 8})
        api.join('ring', 5, 8, 1, create={'size': 2}, status=409, key='create.size')
        api.join('ring', 3, 8, 1, status=400, key='rank')
        api.join('ring', 6, 8, 1, status=400, key='rank')
        api.join('ring', 4, 2, 0, status=409, key='size')
        api.join('ring', 4, 9, 0, status=409, key='size')
        job = api.do('GET', '/v1/jobs/ring')
        check([(m['rank'], m['state']) for m in job['members']] == [(4, 'joined'), (5, 'joined')], '%s', job)
        api.do('DELETE', '/v1/jobs/ring/members/3', status=404)
        api.do('DELETE', '/v1/jobs/ring/members/5')
        check([m['state'] for m in api.do('GET', '/v1/jobs/ring')['members']] == ['joined', 'left'], 'left')
        tokens = api.do('POST', '/v1/jobs/ring/tokens')['tokens']
        check([t.split('~')[1] for t in tokens] == ['4', '5'], '%s', tokens)


@case
def the_keys_of_switches_are_given_once():
    with cleared(plain()) as (rack, api):
        made = api.do('POST', '/v1/jobs', root(authenticate=True), 201)
        keys = [s.pop('key').lower() for s in made['sources']]
        check(made['sources'] == [dict(child(0, 4), name=None, api=None), dict(child(4, 2), name=None, api=None)],
              '%s', made['sources'])
        with open(rack.config()['state']['file']) as file:
            job_key = json.load(file)['jobs'][0]['key']
        check(keys == [source_key(job_key, 0), source_key(job_key, 4)], 'not as docs/protocol.md has it')
        again = api.do('GET', '/v1/jobs/ring')
        check(again['sources'] == made['sources'], '%s', again)
        check(not any(key in rack.switch.output.lower() for key in keys), 'the log has a key')
        api.do('POST', '/v1/jobs', root('open'), 201)
        check('key' not in api.do('GET', '/v1/jobs/open')['sources'][0], 'a job that is not authenticated')


@case
def the_sources_of_a_parent_are_given():
    with cleared(plain()) as (_, api):
        made = api.do('POST', '/v1/jobs', root(sources=[
            child(0, 4, name='leaf0', api='unix:/run/weir/leaf0.sock'), child(4, 2)]), 201)
        check(made['size'] == 2, '%s', made)
        members = made['members']
        check([(m['rank'], m['ranks'], m['name'], m['api'], m['address'], m['state']) for m in members] ==
              [(0, 4, 'leaf0', 'unix:/run/weir/leaf0.sock', '10.99.0.254', 'expected'),
               (4, 2, None, None, '10.99.4.254', 'expected')], '%s', members)
        api.join('ring', 0, 6, 0, status=409, key='rank')
        api.do('POST', '/v1/jobs/ring/tokens', status=409)
        api.do('PATCH', '/v1/jobs/ring', {'rejoin': 'wait'}, 400, 'out_of_range', 'rejoin')
        api.do('PATCH', '/v1/jobs/ring', {'expire_s': 9}, 409, 'conflict', 'expire_s')
        api.do('PATCH', '/v1/jobs/ring', {'timeout_ms': 9})
        # In the middle of a tree: both.
        made = api.do('POST', '/v1/jobs', dict(leaf('middle', first_rank=2, parents=[parent(3)]),
                                               size=1, sources=[child(2, 3)]), 201)
        check(made['sources'][0]['ranks'] == 3 and made['tree']['first_rank'] == 2, '%s', made)


@case
def wrong_trees_are_refused():
    wrong = [
        (leaf(parents=[parent(port='p9')]), 'out_of_range', 'tree.parents[0].port'),
        (leaf(parents=[parent(), parent()]), 'out_of_range', 'tree.parents[1].name'),
        (leaf(parents=[parent(address=SWITCH_ADDRESS)]), 'out_of_range', 'tree.parents[0].address'),
        (leaf(parents=[parent(key='0')]), 'out_of_range', 'tree.parents[0].key'),
        (leaf(parents=[parent(key_file='/etc/passwd')]), 'unknown_key', 'tree.parents[0].key_file'),
        (leaf(ranks=5), 'out_of_range', 'tree.ranks'),
        (leaf(rejoin='wait'), 'out_of_range', 'rejoin'),
        (leaf(authenticate=True), 'out_of_range', 'tree.parents[0]'),
        (root(sources=[]), 'out_of_range', 'sources'),
        (root(sources=[child(0, 4), child(3, 2)]), 'out_of_range', 'sources[1].id'),
        (root(sources=[{'id': 0, 'address': '10.77.0.1'}]), 'missing_key', 'sources[0].ranks'),
        (root(size=6), 'out_of_range', 'size'),
        (root(results='239.1.1.1'), 'out_of_range', 'results'),
        (root(temporary=True), 'conflict', 'temporary'),
        (root(expire_s=4), 'conflict', 'expire_s'),
        ({'name': 'ring'}, 'missing_key', 'size'),
    ]
    with cleared(plain()) as (_, api):
        for body, code, key in wrong:
            api.do('POST', '/v1/jobs', body, 409 if code == 'conflict' else 400, code, key)
        api.do('POST', '/v1/jobs', leaf(), 201)
        api.do('POST', '/v1/jobs', leaf('other'), 409, 'conflict', 'tree.parents')
        check(len(api.get('/v1/jobs')['jobs']) == 1, 'something was made')


@case
def only_administrators_make_trees():
    with switch(hosts=2, tenants=[tenant('vision', 'sesame'), tenant('root', 'key', admin=True)]) as (_, api):
        for body, key in ((leaf(), 'tree'), (root(), 'sources')):
            api.do('POST', '/v1/jobs', body, 403, 'forbidden', key, token='sesame')
        api.do('POST', '/v1/jobs', {'name': 'plain', 'size': 2}, 201, token='sesame')
        # Keys go over private connections alone, in either direction.
        api.do('POST', '/v1/jobs', root(authenticate=True), 403, 'forbidden', token='key')
        api.do('POST', '/v1/jobs', leaf(parents=[parent(key=KEY)]), 403, 'forbidden', token='key')
        api.do('POST', '/v1/jobs', root(), 201, token='key')
        api.do('POST', '/v1/jobs', leaf('leaf'), 201, token='key')


# -- trees that run

AGO = r', last heard [\d.]+ m?s ago'


@shared
def tree_of_two():
    """Two racks with two hosts each."""
    with Tree(leaves=2, hosts=2, spines=1) as tree:
        tree.add_job(1)
        tree.start()
        yield tree
        tree.stop()


def told(tree, name, reason, pattern):
    """The only sentence of a switch, and its blocks, once it is this one; hosts come one by one."""
    def found():
        body = tree[name].ask('GET', '/v1/blocks?stuck=1')
        return body if [re.fullmatch(pattern, one['text']) is not None for one in body['stuck']] == [True] else None
    body = wait_for(found, '%s: %s', name, lambda: tree[name].ask('GET', '/v1/blocks?stuck=1'))
    Document().judge('GET', '/v1/blocks', 200, body)
    (one,) = body['stuck']
    check(one['reason'] == reason and ' %s ' % one['who'] in one['text'], '%s', one)
    return one, body['blocks']


@case
def who_has_not_joined_is_told_on_each_hop():
    tree = tree_of_two()
    runs = [tree.perf(host, 1, '-b', '4096', '-e', '4096', '-n', 5) for host in range(3)]
    one, _ = told(tree, 'leaf0', 'join', r'has not begun: 2 of 2 sources have joined; waiting for spine0 '
                  r'\(10\.78\.0\.254\)' + AGO + '; there, ranks 2..3 have not joined')
    check((one['parent'], one['api'], one['missing']) == ('spine0', tree['spine0'].api_url, []), '%s', one)
    one, _ = told(tree, 'spine0', 'join', r'has not begun: 1 of 2 sources have joined; waiting for leaf1 '
                  r'\(10\.77\.1\.254, ranks 2\.\.3\), never heard')
    check([(m['rank'], m['ranks'], m['name'], m['api']) for m in one['missing']] ==
          [(2, 2, 'leaf1', tree['leaf1'].api_url)], '%s', one)
    told(tree, 'leaf1', 'join', r'has not begun: 1 of 2 sources have joined; waiting for rank 3 .*')
    parents = tree['leaf0'].ask('GET', '/v1/jobs/job1')['tree']['parents']
    check([(p['name'], p['joining'], p['serves'], p['generation']) for p in parents] == [('spine0', True, False, 0)],
          '%s', parents)
    runs.append(tree.perf(3, 1, '-b', '4096', '-e', '4096', '-n', 5))
    wait_for(lambda: tree['leaf0'].ask('GET', '/v1/jobs/job1')['tree']['parents'][0]['serves'], 'it does not begin')
    (parent,) = tree['leaf0'].ask('GET', '/v1/jobs/job1')['tree']['parents']
    above = tree['spine0'].ask('GET', '/v1/jobs/job1')
    check(above['generation'] == parent['generation'] > 0 and parent['serves'] and not parent['joining'] and
          parent['silent_ms'] is not None, '%s; %s', parent, above)
    found = {name: parse(tree[name].ask('GET', '/metrics')) for name in ('leaf0', 'spine0')}
    for what, value in (('generation', parent['generation']), ('serves', 1)):
        is_ = found['leaf0']['weir_parent_' + what].value(weir_job='job1', parent='spine0')
        check(value == is_, '%s is %s', what, is_)
    contact = found['leaf0']['weir_parent_last_contact_timestamp_seconds'].value(weir_job='job1', parent='spine0')
    check(found['spine0']['weir_start_time_seconds'].value() < contact < time.time(), 'last contact: %s', contact)
    for name, hop in (('leaf0', 'leaf'), ('spine0', 'root')):
        check(found[name]['weir_job_info'].value(weir_job='job1', id='1', policy='wait', tenant='',
                                                 origin='file', hop=hop) == 1, '%s is no %s', name, hop)
    heard = found['spine0']['weir_source_last_contact_timestamp_seconds'].samples
    check({dict(labels)['rank'] for _, labels in heard} == {'0', '2'}, 'the sources of spine0: %s', heard)
    log = wait_for(lambda: [said for said in [re.findall(r'msg="(parent [^"]*)" job=job1 parent=spine0',
                                                          tree['leaf0'].switch.output)] if len(said) > 1],
                   'the log does not say it')[0]
    check(log == ['parent heard', 'parent serves'], '%s', log)
    for run in runs:
        run.kill()


@case
def a_block_is_followed_through_the_tree():
    tree = tree_of_two()

    def answers():
        return tree['leaf0'].ask('GET', '/v1/jobs/job1')['counters']['answers']

    before = answers()
    runs = [tree.perf(host, 1, '-b', '4096', '-e', '4096', '-n', 10000000) for host in range(4)]
    wait_for(lambda: answers() > before, 'no result')
    runs[3].signal(signal.SIGSTOP)
    one, blocks = told(tree, 'leaf0', 'parent',
                       r'(block \d+ waits|\d+ blocks .* wait) for spine0 \(10\.78\.0\.254\)' + AGO)
    check(re.fullmatch(r'.*; 2 of 2 sources have contributed; generation \d+', one['detail']), '%s', one)
    check((one['parent'], one['api']) == ('spine0', tree['spine0'].api_url), '%s', one)
    check(one['missing'] == [] and blocks[0]['block'] in one['blocks'], '%s', one)
    check(all(b['state'] == 'up' and b['waits_for'] == {'parent': 'spine0'} and b['missing'] == []
              for b in blocks), '%s', blocks)
    above, blocks = told(tree, 'spine0', 'blocks',
                         r'.* for leaf1 \(10\.77\.1\.254, ranks 2\.\.3\)' + AGO + '; policy wait: .*')
    check(set(above['blocks']) & set(one['blocks']), '%s and %s', above, one)
    check([(m['name'], m['ranks']) for m in blocks[0]['missing']] == [('leaf1', 2)], '%s', blocks[0])
    below, _ = told(tree, 'leaf1', 'blocks', r'.* for rank 3 \(10\.77\.1\.2\)' + AGO + '; policy wait: .*')
    check(set(above['blocks']) & set(below['blocks']), '%s and %s', above, below)
    runs[3].signal(signal.SIGCONT)
    wait_for(lambda: not tree['leaf0'].ask('GET', '/v1/blocks?stuck=1')['stuck'], 'it stays stuck')
    for run in runs:
        run.kill()


@case
def settings_that_disagree_are_told():
    with Tree(leaves=1, hosts=1, spines=1) as tree:
        tree.add_job(1)
        tree['spine0'].jobs[0]['window'] = 32
        tree.start()
        run = tree.perf(0, 1, '-b', '4096', '-e', '4096', '-n', 5)
        why = 'window 64 here, 32 there: must be equal'
        told(tree, 'leaf0', 'join', r'.*waiting for spine0 \(10\.78\.0\.254\)' + AGO + '; ' + why)
        (parent,) = tree['leaf0'].ask('GET', '/v1/jobs/job1')['tree']['parents']
        check(parent['refused'] == {'setting': 'window', 'here': 64, 'there': 32, 'why': 'must be equal'}, '%s', parent)
        wait_for(lambda: 'msg="the job does not take part in a parent\'s" job=job1 parent=spine0 parent_address=10.78.0.254 '
                 'setting=window here=64 there=32 why="must be equal"' in tree['leaf0'].switch.output, 'not in the log')
        check('unsupported' in run.wait(20, status=1), '%s', run.output)


if __name__ == '__main__':
    main()
