#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a scenario's file may be: those of this folder, wrong ones, and the page that tells of them."""
import copy
import glob
import json
import os
import re

from faults import HERE, ROOT, Ended

from tap import case, check, main
from scenario import (ACTION, COLLECTIVES, EXPECT, JOB, SCENARIO, STRAGGLERS, TREE, Places, ScenarioError, filled, load, parse,
                      rules)

GOOD = {
    'about': 'a test', 'hosts': 3, 'jobs': [{'steps': 10}],
    'actions': [{'do': 'stop', 'host': 1, 'at_step': 5, 'for_ms': 100}],
    'traffic': [{'ping': {'from': 0, 'to': 'switch'}}],
    'expect': {'ends': {'1': 'done'}, 'counts': {'lost': [0, None]}},
}


GOOD_TREE = {
    'about': 'a tree', 'tree': {'leaves': 2, 'spines': 2, 'hosts': 2}, 'jobs': [{'spines': [1]}],
    'faults': {'held': 5, 'rules': [{'link': 'leaf-spine', 'way': 'up', 'action': 'drop', 'chance_ppm': 10000},
                                    {'link': ['host3-leaf1', 'leaf0-spine1'], 'action': 'duplicate'}]},
    'actions': [{'do': 'kill', 'switch': 'leaf0'}, {'do': 'link_down', 'link': 'leaf0-spine1'}],
    'expect': {'counts': {'leaf0.job1.late': [0, None]}},
}


def parsed(made):
    """The only scenario."""
    return parse(json.dumps(made), 'x.json')[0]


def refused(reason, change, good=None):
    made = copy.deepcopy(good or GOOD)
    change(made)
    try:
        parse(json.dumps(made), 'x.json')
    except ScenarioError as error:
        check(str(error) in ('x.json: ' + reason, reason), '"%s" is not "x.json: %s"', error, reason)
        return
    check(False, 'taken: %s', made)


@case
def all_of_them_are_read():
    found = [made for path in glob.glob(os.path.join(HERE, '*.json')) for made in load(path)]
    check(len(found) == len({made['name'] for made in found}) >= 150, '%d scenarios', len(found))
    for made in found:
        check(made['about'] and re.fullmatch(r'[a-z0-9.-]+', made['name']), '%s', made['file'])
        checked = made['expect']['counts'] or made['expect']['says'] or made['expect']['longest_ms']
        check(checked, '%s: expects nothing: it would not notice if its faults were gone', made['file'])


@case
def a_file_with_a_matrix_is_a_family():
    made = dict(GOOD, faults={'rules': [{'action': 'drop'}, {'action': 'delay', 'us': 5}]}, matrix=[
        {'fp16': {'about': 'halves', 'jobs': {'type': 'fp16'}}, 'two-jobs': {'jobs': [{}, {}], 'actions': None}},
        {'in': {'faults': {'rules': {'direction': 'in'}}, 'expect': {'ends': {'1': None}, 'counts': {'lost': [1, 2]}}}, 'both': {}}])
    found = {one['file']: one for one in parse(json.dumps(made), 'x.json')}
    check(list(found) == ['x.json:fp16-in', 'x.json:fp16-both', 'x.json:two-jobs-in', 'x.json:two-jobs-both'], '%s', found)
    one, other = found['x.json:fp16-in'], found['x.json:two-jobs-both']
    check(one['name'] == 'x-fp16-in' and one['about'] == 'a test; halves', '%s', one)
    check([(job['steps'], job['type']) for job in one['jobs']] == [(10, 'fp16')], '%s', one['jobs'])
    check(one['faults']['rules'] == [{'action': 'drop', 'direction': 'in'}, {'action': 'delay', 'us': 5, 'direction': 'in'}] and
          one['expect']['counts'] == {'lost': [1, 2]} and one['expect']['ends'] == {}, '%s', one)
    check(len(other['jobs']) == 2 and other['actions'] == [] and other['faults'] == made['faults'], '%s', other)
    alone = dict(parsed(one['source']), file=one['file'], name=one['name'])
    check(alone == one, 'alone it is another: %s, not %s', alone, one)
    refused('x.json:a-c: jobs[0].steps: 0 is not in 1..1000000',
            lambda s: s.update(matrix=[{'a': {}}, {'b': {}, 'c': {'jobs': {'steps': 0}}}]))
    refused('x.json:a: about: 5 is not a non-empty string', lambda s: s.update(matrix=[{'a': {'about': 5}}]))
    refused('matrix: has 0 entries, not 1..8', lambda s: s.update(matrix=[]))
    refused('matrix[0]: "A" is not words of a name', lambda s: s.update(matrix=[{'A': {}}]))
    refused('matrix[0].a: [] is not an object', lambda s: s.update(matrix=[{'a': []}]))


@case
def one_of_a_family_is_named():
    path = os.path.join(HERE, 'loss.json')
    check(len(load(path)) == 12 and len(load(path + ':*-in')) == 4, '%d', len(load(path)))
    listed, shown = Ended('list', path), Ended('show', path + ':5-percent-out')
    check(listed.status == 0 and listed.output.splitlines()[7].split(None, 1) == [
        path + ':5-percent-out', 'packets are lost; 5 %; on the way to the hosts'], '%s', listed)
    check(shown.status == 0 and json.loads(shown.output) == load(path + ':5-percent-out')[0]['source'], '%s', shown)
    for run, reason in ((Ended('run', path), 'loss.json: there are 12 scenarios; name one, such as .*loss.json:0.1-percent-in'),
                        (Ended('show', path + ':6-percent'), 'loss.json:6-percent: there is none in .*it has 0.1-percent-in, 0'),
                        (Ended('check', os.path.join(HERE, 'killed-random.json:x')), 'it has no matrix')):
        check(run.status == 2 and re.search(reason, run.output), '"%s" is not in %s', reason, run)


@case
def what_is_wrong_is_named():
    parsed(GOOD)
    refused('"about" is missing', lambda s: s.pop('about'))
    refused('hots: unknown key; did you mean "hosts"?', lambda s: s.update(hots=3))
    refused('hosts: 0 is not in 1..32', lambda s: s.update(hosts=0))
    refused('hosts: true is not an integer', lambda s: s.update(hosts=True))
    refused('seed: "%s... is not an integer' % ('x' * 56), lambda s: s.update(seed='x' * 1000))
    refused('jobs: has 0 entries, not 1..8', lambda s: s.update(jobs=[]))
    refused('switch.ports: is weir-faults\' to set', lambda s: s.update(switch={'ports': []}))
    for reason, job in (
            ('hosts[1]: 3 is not in 0..2', {'hosts': [0, 3]}), ('hosts: a host is there twice', {'hosts': [0, 0]}),
            ('options.id: is weir-faults\' to set', {'options': {'id': 7}}),
            ('op: "bxor" is for integers', {'type': 'fp16', 'op': 'bxor'}), ('root: the job has 3 hosts', {'root': 3}),
            ('collective: "barrier" must be one of ' + ', '.join(COLLECTIVES), {'collective': 'barrier'}),
            ('error_feedback: goes with "allreduce" only', {'error_feedback': True, 'collective': 'reduce'}),
            ('error_feedback: goes with sums of type "int32" only: those of fp32 depend on their order',
             {'error_feedback': True, 'op': 'max'}),
            ('endless: true in all jobs: it would not end', {'endless': True}),
            ('stragglers.hosts: the job has 3 hosts', {'stragglers': {'hosts': 4, 'least_ms': 1, 'most_ms': 2}}),
            ('stragglers: "most_ms" is missing', {'stragglers': {'hosts': 1, 'least_ms': 1}})):
        refused('jobs[0].' + reason, lambda s, job=job: s['jobs'][0].update(job))
    for reason, job in (
            ('host: has 0 entries, not 1..64', {'host': []}),
            ('host[1]: there is no {swich}; did you mean {switch}?', {'host': ['x', '--to={swich}']}),
            ('host[1]: there is no {print $1}; {{ and }} are braces', {'host': ['awk', '{print $1}']}),
            ('host[1]: there is no {}; {{ and }} are braces', {'host': ['x', '{}']}),
            ('host[1]: a single } in "{{rank}": write }}', {'host': ['x', '{{rank}']}),
            ('host[1]: a single { in "{{{": write {{', {'host': ['x', '{{{']}),
            ('host: {key_file} goes with "authenticate"', {'host': ['x', '{key_file}']}),
            ('count: has no effect: "host" has no {count}', {'host': ['x', '{steps}'], 'count': 7}),
            ('plant: does not go with "host"', {'host': ['x', '{steps}'], 'plant': {'host': 1, 'what': 'hang'}})):
        refused('jobs[0].' + reason, lambda s, job=job: s['jobs'][0].update(job))
    (job,) = parsed(dict(GOOD, jobs=[{'host': ['x', '{{"a": {{{count}}}}}', '{rank}'], 'count': 7}]))['jobs']
    check(job['steps'] == 0 and filled(job, {'rank': 2}) == ['x', '{"a": {7}}', '2'], '%s', job)
    refused('actions[0].host: host 1 is in no job', lambda s: s['jobs'][0].update(hosts=[0, 2]))
    for reason, action in (
            ('.for_ms: nothing undoes "start"', {'do': 'start'}), ('.host: 3 is not in 0..2', {'host': 3}),
            (': needs either "host" or "switch"', {'switch': True}),
            (': "faults" goes with "do": "faults", and with nothing else', {'faults': {}})):
        refused('actions[0]' + reason, lambda s, action=action: s['actions'][0].update(action))
    refused('actions[0].switch: there is one switch: true', lambda s: s.update(actions=[{'do': 'stop', 'switch': 'leaf0'}]))
    refused('traffic[0]: is either "ping" or "flood"', lambda s: s.update(traffic=[{}]))
    refused('expect.counts.lost: [3, 2]: the least is more than the most',
            lambda s: s['expect']['counts'].update(lost=[3, 2]))
    refused('expect.says.0: "(": missing ), unterminated subpattern at position 0',
            lambda s: s['expect'].update(says={'0': '('}))
    refused('expect.ends.1: host 1 is in no job', lambda s: (s['jobs'][0].update(hosts=[0, 2]), s['actions'].clear()))
    for reason, ends in ((': "01" is not a host, "random" or "all"', {'01': 'done'}), ('.3: 3 is not in 0..2', {'3': 'done'}),
                         ('.1: "dead" must be one of done, failed, killed, any', {'1': 'dead'})):
        refused('expect.ends' + reason, lambda s, ends=ends: s['expect'].update(ends=ends))


@case
def trees():
    def tree(reason, change):
        refused(reason, change, GOOD_TREE)

    made = parsed(GOOD_TREE)
    check(made['hosts'] == 4 and made['jobs'][0]['hosts'] == [0, 1, 2, 3], '%s', made)
    tree('needs either "hosts" or "tree"', lambda s: s.update(hosts=4))
    refused('needs either "hosts" or "tree"', lambda s: s.pop('hosts'))
    tree('tree: 64 hosts are not in 1..32', lambda s: s.update(tree={'leaves': 2, 'hosts': 32}))
    refused('jobs[0].spine_options: goes with "tree" only',
            lambda s: s['jobs'][0].update(spine_options={'timeout_ms': 1}))
    for reason, job in (
            ('spines: 2 is not in 0..1', {'spines': [2]}), ('spines: a spine is there twice', {'spines': [1, 1]}),
            ('spine_options.id: is weir-faults\' to set', {'spine_options': {'id': 1}}),
            ('hosts: the hosts of a leaf must follow each other', {'hosts': [0, 2, 1]}),
            ('stragglers.hosts: a rack of the job has 1 hosts',
             {'hosts': [0, 1, 2], 'stragglers': {'hosts': 2, 'least_ms': 1, 'most_ms': 2}})):
        tree('jobs[0].' + reason, lambda s, job=job: s['jobs'][0].update(job))
    tree('jobs[0].spines: a job below tops has all spines', lambda s: s['tree'].update(tops=1))
    tree('actions[0].switch: is one of leaf0, leaf1, spine0, spine1', lambda s: s['actions'][0].update(switch=True))
    tree('actions[0]: needs either "host" or "switch" or "link"', lambda s: s['actions'][0].update(host=1))
    tree('actions[1].link: there is no link "leaf0-spine2"', lambda s: s['actions'][1].update(link='leaf0-spine2'))
    tree('actions[1].link: goes with "link_down" and "link_up"', lambda s: s['actions'][1].update(do='stop'))
    tree('faults.rules[0].link: there is no link "spine-leaf"', lambda s: s['faults']['rules'][0].update(link='spine-leaf'))
    tree('faults.rules[0].way: "in" must be one of up, down', lambda s: s['faults']['rules'][0].update(way='in'))
    tree('faults.rules[1].direction: a tree has "link" and "way"',
         lambda s: s['faults']['rules'][1].update(direction='in'))
    refused('faults.rules[1]: 5 is not an object', lambda s: s.update(faults={'rules': [{'action': 'drop'}, 5]}))
    refused('faults.rules[0].link: goes with "tree" only',
            lambda s: s.update(faults={'rules': [{'action': 'drop', 'link': 'leaf-spine'}]}))


@case
def rules_go_to_the_upper_end_of_their_links():
    made = parsed(GOOD_TREE)
    found = rules(made, made['faults'], lambda switch, link: '%s/%s' % (switch, link))
    up = {'action': 'drop', 'chance_ppm': 10000, 'direction': 'in'}
    both = [{'action': 'duplicate', 'direction': d} for d in ('in', 'out')]
    check(found == {
        'spine0': ({'held': 5, 'rules': [dict(up, port='spine0/leaf0-spine0'),
                                         dict(up, port='spine0/leaf1-spine0')]}, [0, 0]),
        'spine1': ({'held': 5, 'rules': [dict(up, port='spine1/leaf0-spine1'), dict(up, port='spine1/leaf1-spine1')] +
                    [dict(b, port='spine1/leaf0-spine1') for b in both]}, [0, 0, 1, 1]),
        'leaf1': ({'held': 5, 'rules': [dict(b, port='leaf1/host3-leaf1') for b in both]}, [1, 1]),
    }, '%s', found)
    one = dict(GOOD, faults={'rules': [{'action': 'drop'}, {'action': 'delay', 'direction': 'out'}]})
    check(rules(parsed(one), one['faults'], None) == {'switch': ({'rules': [
        {'action': 'drop', 'direction': 'in'}, {'action': 'drop', 'direction': 'out'},
        {'action': 'delay', 'direction': 'out'}]}, [0, 0, 1])}, 'one switch')
    made['faults'] = {'rules': [{'action': 'drop', 'way': 'down'}]}
    found = rules(made, made['faults'], lambda switch, link: link)
    ports = {one['port'] for section, _ in found.values() for one in section['rules']}
    check(ports == set(Places(made).links) and len(ports) == 8, 'all links: %s', found)


@case
def a_rank_reaches_a_top_on_one_way():
    made = dict(GOOD_TREE, tree={'leaves': 4, 'spines': 2, 'tops': 2, 'hosts': 1}, jobs=[{}], actions=[])
    made.pop('faults')
    made = parsed(made)
    check([link for link in Places(made).links if not link.startswith('host')] == [
        'leaf0-spine0', 'leaf1-spine0', 'leaf2-spine1', 'leaf3-spine1', 'spine0-top0', 'spine0-top1', 'spine1-top0',
        'spine1-top1'], '%s', Places(made).links)


@case
def texts_that_are_no_scenario():
    for text, reason in (('{', r'x\.json:1:2: '), ('[]', r'x\.json: \[\] is not an object'),
                         ('{"about": "a", "about": "b"}', r'x\.json: about: is there twice'),
                         ('{"seed": %s}' % ('9' * 5000), r'x\.json: a number has too many digits$'),
                         ('[' * 100000, r'x\.json: arrays or objects are nested too deeply$'),
                         ('{"a":' * 100000, r'x\.json: arrays or objects are nested too deeply$')):
        try:
            parse(text, 'x.json')
        except ScenarioError as error:
            check(re.match(reason, str(error)), '%s', error)
        else:
            check(False, 'taken: %s', text)
    run = Ended('check', os.path.join(HERE, 'nowhere.json'))
    check(run.status == 2 and 'nowhere.json: No such file' in run.output, '%s', run)


@case
def the_page_names_every_key():
    with open(os.path.join(ROOT, 'docs', 'faults.md')) as file:
        page = file.read()
    for what in (SCENARIO, TREE, JOB, STRAGGLERS, ACTION, EXPECT):
        for key in what.known:
            check(re.search(r'`%s`' % key, page), 'docs/faults.md lacks `%s`', key)


if __name__ == '__main__':
    main()
