#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl faults: what it shows, and what it asks for. Against an API that is played, then a real
switch."""
import json
import os
import re
import subprocess
import sys
import tempfile

from ctl import WEIRCTL, ctl, good, says
from fake_api import FakeApi, fault, faults
from rack import Rack
from tap import case, check, main

NONE = {'seed': 0, 'held': 0, 'rules': [], 'elapsed_ms': 0, 'held_now': 0, 'spared': 7}


def last(api, method):
    check(api.asked[-1][:2] == (method, '/v1/faults'), '%s', api.asked)
    return api.asked[-1][2]


@case
def what_is_set_is_told():
    with FakeApi() as api:
        api.fill()
        out = good(ctl(api.address, 'faults'))
        check(out == good(ctl(api.address, 'faults', 'show')), 'show')
        for line in (
                r'faults   set 12\.4 s ago, seed 9007199254740993; 3 packets held, 1024 at most by each',
                r'   0  p0 +in +contributions, job 3 +1\.25 % +drop +12345  123 +0\n',
                r'   1  any +out +results, job 3, source 2, blocks 5\.\.9 +1 in 100 +'
                r'delay 500 us to 1\.5 ms +12345 ',
                r'   2  any +in +any +numbers 1\.\.3, 7 +corrupt 2 bits +12345  123 +4\n',
                r'   3  any +in +any +bursts: begin 1 %, end 20 %, hit 100 %, else 0 %; '
                r'1 s to 1\.25 s, each 60 s +blackout ',
                r'   4  any +in +any +0\.0001 % +reorder by up to 3 '):
            check(re.search(line, out), '"%s" is not in:\n%s', line, out)
        api.routes['/v1/faults'] = dict(faults(), rules=[
            fault(action='delay', delay='pareto', us=20, most_us=10000000, job=3),
            fault(action='delay', us=10000000, first_block=7)])
        out = good(ctl(api.address, 'faults'))
        check('delay pareto, least of 20 us, at most 10 s' in out, '%s', out)
        check('aggregation, job 3' in out and 'aggregation, blocks 7..' in out, '%s', out)
        api.routes['/v1/faults'] = NONE
        check(good(ctl(api.address, 'faults')) == 'no faults\n', 'none')


@case
def nobody_forgets_them():
    with FakeApi() as api:
        api.fill()
        check('injected' not in good(ctl(api.address, 'status')), 'none')
        api.routes['/v1/status']['faults'] = {'rules': 5, 'elapsed_ms': 12400, 'hit': 615, 'held_now': 3}
        check('faults   5 rules injected 12.4 s ago, 615 packets hit: weirctl faults\n'
              in good(ctl(api.address, 'status')), 'status')


@case
def a_file_is_set():
    section = {'seed': 7, 'rules': [{'direction': 'in', 'action': 'drop', 'nth': 3, 'choice': 'every'}]}
    told = dict(faults(), rules=[fault(port='p0')])
    bare = {k: v for k, v in told['rules'][0].items() if k not in ('matched', 'hit', 'spared')}
    with FakeApi() as api, tempfile.TemporaryDirectory(prefix='weir-ctl-') as folder:
        api.fill()
        path = os.path.join(folder, 'faults.json')

        def given(value):
            with open(path, 'w') as file:
                file.write(value if isinstance(value, str) else json.dumps(value))
            return path
        # A section, a whole configuration, and what `faults --json` printed.
        for value, body in ((section, section), ({'switch': {}, 'faults': section}, section),
                            (told, {'seed': told['seed'], 'held': 1024, 'rules': [bare]}),
                            (NONE, {'rules': []})):
            good(ctl(api.address, 'faults', 'set', given(value)))
            check(last(api, 'PUT') == body, '%s, not %s', last(api, 'PUT'), body)
        run = subprocess.run([WEIRCTL, '-s', api.address, 'faults', 'set', '-'], timeout=800,
                             input=json.dumps(section), text=True, stdout=subprocess.PIPE)
        check(run.returncode == 0 and last(api, 'PUT') == section, '%s', run)
        asked = len(api.asked)
        says(ctl(api.address, 'faults', 'set', given('{"rules": [}')), 2, r'faults\.json:1:\d+: ')
        says(ctl(api.address, 'faults', 'set', given({'jobs': []})), 2, '"rules" is missing')
        says(ctl(api.address, 'faults', 'set', given([])), 2, '"rules" is missing')
        check(len(api.asked) == asked, 'the switch was asked for it')
        api.routes['/v1/faults'] = (400, {'error': {
            'status': 400, 'code': 'out_of_range', 'key': 'faults.rules[0].us', 'message': 'no'}})
        says(ctl(api.address, 'faults', 'set', given(section)), 1,
             r'faults\.rules\[0\]\.us: no \(out_of_range\)')
        says(ctl(api.address, 'faults', 'add', 'delay', '--us', '99999999'), 1, 'out_of_range')


@case
def one_line_adds_a_rule():
    with FakeApi() as api:
        api.fill()
        api.routes['/v1/faults'] = NONE
        good(ctl(api.address, 'faults', 'add', 'drop', '--direction', 'in', '--percent', '1', '--job', '3',
                 '--port', 'p0', '--seed', '9223372036854775807'))
        check(last(api, 'PUT') == {'seed': 2 ** 63 - 1, 'rules': [
            {'direction': 'in', 'chance_ppm': 10000, 'job': 3, 'port': 'p0', 'action': 'drop'}]},
            '%s', last(api, 'PUT'))
        # Both ways, behind those that are there, whose seed stays; and a job by its name.
        api.routes['/v1/faults'] = dict(faults(), rules=[fault()])
        good(ctl(api.address, 'faults', 'add', 'delay', '--list', '1,5,9', '--us', '10', '--most-us', '20',
                 '--delay', 'uniform', '--job', 'eval', '--what', 'result', '--source', '1',
                 '--first-block', '2', '--last-block', '3', '--from-ms', '4', '--to-ms', '5',
                 '--repeat-ms', '6'))
        body = last(api, 'PUT')
        check(body['seed'] == faults()['seed'] and len(body['rules']) == 3, '%s', body)
        for rule, way in zip(body['rules'][1:], ('in', 'out')):
            check(rule == {'action': 'delay', 'direction': way, 'choice': 'list', 'list': [1, 5, 9],
                           'us': 10, 'most_us': 20, 'delay': 'uniform', 'job': 2, 'what': 'result',
                           'source': 1, 'first_block': 2, 'last_block': 3, 'from_ms': 4, 'to_ms': 5,
                           'repeat_ms': 6}, '%s', rule)
        good(ctl(api.address, 'faults', 'add', 'corrupt', '--nth', '7', '--bits', '2', '--direction', 'out'))
        check(last(api, 'PUT')['rules'][1] == {'action': 'corrupt', 'choice': 'every', 'nth': 7, 'bits': 2,
                                               'direction': 'out'}, '%s', last(api, 'PUT'))
        asked = len(api.asked)
        says(ctl(api.address, 'faults', 'add', 'drop', '--job', 'none'), 1, 'there is no job none')
        check(api.asked[asked:] and all(a[0] == 'GET' for a in api.asked[asked:]), '%s', api.asked[asked:])
        good(ctl(api.address, 'faults', 'clear'))
        check(last(api, 'DELETE') is None, 'clear')
        del api.routes['/v1/faults']
        says(ctl(api.address, 'faults', 'add', 'drop'), 1, 'cannot inject faults')


@case
def a_real_switch_takes_them():
    with Rack(hosts=2) as rack:
        address = 'unix:' + os.path.join(rack.folder, 'api.sock')
        rack.changes = {'api': {'listen': [address]}}
        rack.start_switch()
        good(ctl(address, 'job', 'create', 'ring', '--size', '2', '--id', '9'))
        out = good(ctl(address, 'faults', 'add', 'drop', '--percent', '1', '--job', 'ring'))
        check(re.search(r'   1  any +out +aggregation, job 9 +1 % +drop +0 +0 +0\n', out), '%s', out)
        out = good(ctl(address, 'faults', 'add', 'delay', '--port', 'p1', '--direction', 'in', '--us', '500',
                       '--seed', '7'))
        check('seed 7;' in out and re.search(r'   2  p1 +in +any +100 % +delay 500 us', out), '%s', out)
        saved = os.path.join(rack.folder, 'saved.json')
        with open(saved, 'w') as file:
            file.write(good(ctl(address, 'faults', '--json')))
        says(ctl(address, 'faults', 'add', 'melt'), 1, r'faults\.rules\[3\]\.action: ')
        says(ctl(address, 'faults', 'add', 'drop', '--port', 'p7'), 1, 'no port has the name "p7"')
        check(good(ctl(address, 'faults', 'clear')) == 'no faults\n', 'clear')
        check(good(ctl(address, 'faults')) == 'no faults\n', 'cleared')
        again = good(ctl(address, 'faults', 'set', saved))
        check(again.split('\n')[2:] == out.split('\n')[2:], '%s\n%s', again, out)
        check('3 rules injected' in good(ctl(address, 'status')), 'status')
        for line in ('"faults set" uid=0 pid=', '"faults cleared" uid=0 pid='):
            check(re.search(line, rack.switch.output), '%s', rack.switch.output)
        rack.stop_switch()


if __name__ == '__main__':
    sys.exit(main())
