#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""/v1/faults of a real switch: set, seen, refused and cleared; and a contribution that is dropped."""

from control import Control
from openapi import Document
from rack import Rack, job
from tap import case, check, main, wait_for
from wire import Peer

LOSS = {'seed': 7, 'rules': [{'direction': 'in', 'what': 'contribution', 'action': 'drop'}]}


def do(api, method, body=None, status=200):
    answer = api.unix(method, '/v1/faults', body)
    check(answer.status == status, '%s: %d %s', method, answer.status, answer.text)
    Document().check(Document().root['paths']['/v1/faults'][method.lower()], status, answer.body)
    return answer.body


def wait_for_hits(api, hits):
    wait_for(lambda: do(api, 'GET')['rules'][0]['hit'] >= hits, '%d hits', hits)
    found = do(api, 'GET')['rules'][0]
    check(found['hit'] == hits, '%s', found)


@case
def faults_are_set_and_cleared():
    with Rack(hosts=2, jobs=[dict(job(1, 2), generation=7)]) as rack:
        api = Control(rack)
        rack.start_switch()
        check(do(api, 'GET')['rules'] == [], 'faults from the start')
        found = do(api, 'PUT', LOSS)
        check(found['seed'] == 7 and found['rules'][0]['hit'] == 0, '%s', found)
        with Peer(rack, 0, 1, 0) as peer:
            peer.generation = 7
            peer.send(0, [1, 2])
            wait_for_hits(api, 1)
        check(api.get('/v1/counters')['drops']['fault_drop'] == 1, 'not counted')
        wrong = {'rules': [dict(LOSS['rules'][0], port='none')]}
        error = do(api, 'PUT', wrong, 400)['error']
        check(error['key'] == 'faults.rules[0].port', '%s', error)
        check(do(api, 'GET')['seed'] == 7, 'a refusal changed something')
        check(do(api, 'DELETE')['rules'] == [], 'not cleared')
        for line in ('faults set', 'faults cleared'):
            check(line in rack.switch.output, '%s', rack.switch.output)
        rack.stop_switch()


main()
