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
from scenario import (ACTION, COLLECTIVES, EXPECT, JOB, SCENARIO, STRAGGLERS, TYPES, ScenarioError, load,
                      parse)

GOOD = {
    'about': 'a test', 'hosts': 3, 'jobs': [{'steps': 10}],
    'actions': [{'do': 'stop', 'host': 1, 'at_step': 5, 'for_ms': 100}],
    'traffic': [{'ping': {'from': 0, 'to': 'switch'}}],
    'expect': {'ends': {'1': 'done'}, 'counts': {'lost': [0, None]}},
}


def refused(reason, change):
    made = copy.deepcopy(GOOD)
    change(made)
    try:
        parse(json.dumps(made), 'x.json')
    except ScenarioError as error:
        check(str(error) == 'x.json: ' + reason, '"%s" is not "x.json: %s"', error, reason)
        return
    check(False, 'taken: %s', made)


@case
def all_of_them_are_read():
    files = sorted(glob.glob(os.path.join(HERE, '*.json')))
    check(len(files) >= 25, '%d scenarios', len(files))
    for path in files:
        made = load(path)
        check(made['about'] and re.fullmatch(r'[a-z0-9.-]+', made['name']), '%s', path)
        checked = made['expect']['counts'] or made['expect']['says'] or made['expect']['longest_ms']
        check(checked, '%s: expects nothing: it would not notice if its faults were gone', path)


@case
def what_is_wrong_is_named():
    parse(json.dumps(GOOD), 'x.json')
    refused('"about" is missing', lambda s: s.pop('about'))
    refused('hots: unknown key; did you mean "hosts"?', lambda s: s.update(hots=3))
    refused('hosts: 0 is not in 1..32', lambda s: s.update(hosts=0))
    refused('hosts: true is not an integer', lambda s: s.update(hosts=True))
    refused('jobs: has 0 entries, not 1..8', lambda s: s.update(jobs=[]))
    refused('jobs[0].steps: "10" is not an integer', lambda s: s['jobs'][0].update(steps='10'))
    refused('jobs[0].stepz: unknown key; did you mean "steps"?', lambda s: s['jobs'][0].update(stepz=1))
    refused('jobs[0].hosts[1]: 3 is not in 0..2', lambda s: s['jobs'][0].update(hosts=[0, 3]))
    refused('jobs[0].hosts: a host is there twice', lambda s: s['jobs'][0].update(hosts=[0, 0]))
    refused('jobs[0].options.id: is weir-faults\' to set', lambda s: s['jobs'][0].update(options={'id': 7}))
    refused('jobs[0].type: "fp4" must be one of ' + ', '.join(TYPES),
            lambda s: s['jobs'][0].update(type='fp4'))
    refused('jobs[0].op: "bxor" is for integers', lambda s: s['jobs'][0].update(type='fp16', op='bxor'))
    refused('jobs[0].collective: "barrier" must be one of ' + ', '.join(COLLECTIVES),
            lambda s: s['jobs'][0].update(collective='barrier'))
    refused('jobs[0].root: the job has 3 hosts', lambda s: s['jobs'][0].update(root=3))
    refused('jobs[0].error_feedback: goes with "allreduce" only',
            lambda s: s['jobs'][0].update(error_feedback=True, collective='reduce'))
    refused('jobs[0].error_feedback: goes with sums of type "int32" only: those of fp32 depend on their order',
            lambda s: s['jobs'][0].update(error_feedback=True, op='max'))
    refused('actions[0].host: host 1 is in no job', lambda s: s['jobs'][0].update(hosts=[0, 2]))
    refused('expect.ends.1: host 1 is in no job',
            lambda s: (s['jobs'][0].update(hosts=[0, 2]), s['actions'].clear()))
    refused('expect.ends: "01" is not a host, "random" or "all"',
            lambda s: s['expect'].update(ends={'01': 'done'}))
    refused('jobs[0].endless: true in all jobs: it would not end',
            lambda s: s['jobs'][0].update(endless=True))
    refused('jobs[0].stragglers.hosts: the job has 3 hosts', lambda s: s['jobs'][0].update(
        stragglers={'hosts': 4, 'least_ms': 1, 'most_ms': 2}))
    refused('jobs[0].stragglers: "most_ms" is missing', lambda s: s['jobs'][0].update(
        stragglers={'hosts': 1, 'least_ms': 1}))
    refused('switch.ports: is weir-faults\' to set', lambda s: s.update(switch={'ports': []}))
    refused('actions[0].do: "stopp" must be one of stop, continue, kill, start, link_down, link_up, faults',
            lambda s: s['actions'][0].update(do='stopp'))
    refused('actions[0]: needs either "host" or "switch"', lambda s: s['actions'][0].update(switch=True))
    refused('actions[0].host: 3 is not in 0..2', lambda s: s['actions'][0].update(host=3))
    refused('actions[0].for_ms: nothing undoes "start"', lambda s: s['actions'][0].update(do='start'))
    refused('actions[0]: "faults" goes with "do": "faults", and with nothing else',
            lambda s: s['actions'][0].update(faults={}))
    refused('traffic[0]: is either "ping" or "flood"', lambda s: s.update(traffic=[{}]))
    refused('traffic[0].ping: "to" is missing', lambda s: s['traffic'][0]['ping'].pop('to'))
    refused('expect.counts.lost: [3, 2]: the least is more than the most',
            lambda s: s['expect']['counts'].update(lost=[3, 2]))
    refused('expect.ends.1: "dead" must be one of done, failed, killed, any',
            lambda s: s['expect']['ends'].update({'1': 'dead'}))
    refused('expect.ends.3: 3 is not in 0..2', lambda s: s['expect']['ends'].update({'3': 'done'}))
    refused('expect.says.0: "(": missing ), unterminated subpattern at position 0',
            lambda s: s['expect'].update(says={'0': '('}))
    refused('seed: "%s... is not an integer' % ('x' * 56), lambda s: s.update(seed='x' * 1000))
    refused('seed: -1 is not in 0..9223372036854775807', lambda s: s.update(seed=-1))


@case
def texts_that_are_no_scenario():
    for text, reason in (('{', r'x\.json:1:2: '), ('[]', r'x\.json: \[\] is not an object'),
                         ('{"about": "a", "about": "b"}', r'x\.json: about: is there twice')):
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
    for what in (SCENARIO, JOB, STRAGGLERS, ACTION, EXPECT):
        for key in what.known:
            check(re.search(r'`%s`' % key, page), 'docs/faults.md lacks `%s`', key)


if __name__ == '__main__':
    main()
