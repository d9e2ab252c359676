#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""?dry_run=1 of every operation that changes something: it answers as the change does and changes nothing, and then the
change answers as it did."""
import json
import os
import re

from control import Control, offer_programs, switch, tenant
from filter_files import BY_PORT, elf, offer_filters
from openapi import Document
from rack import Rack, job
from tap import case, check, main, wait_for

CHANGE = re.compile('job|member|program|filter|faults|reload|token|refused')  # in a line of the log
OWN = {'membership', 'key', 'tokens', 'created', 'dry_run', 'elapsed_ms', 'last_heard', 'joined', 'reserved', 'passed'}  # of one answer
HUGE = {'size': 256, 'window': 4096, 'elements': 300, 'deterministic': True}
LEAVES = [{'id': 0, 'address': '10.77.0.201', 'ranks': 2}, {'id': 2, 'address': '10.77.0.202', 'ranks': 2}]

# Method, path, body, status, code. Each names a job of its own, so that the order does not matter.
TABLE = [
    ('POST', '/v1/jobs', {'name': 'new', 'size': 2, 'window': 16}, 201, None),
    ('POST', '/v1/jobs', {'name': 'spine', 'id': 80, 'sources': LEAVES, 'authenticate': True, 'rejoin': 'revoke'}, 201, None),
    ('POST', '/v1/jobs', {'name': 'set', 'size': 2}, 409, 'exists'),
    ('POST', '/v1/jobs', dict(HUGE, name='huge'), 507, 'no_memory'),
    ('PATCH', '/v1/jobs/set', {'timeout_ms': 77, 'expire_s': 9}, 200, None),
    ('PATCH', '/v1/jobs/set', {'timeout_ms': 0}, 400, 'out_of_range'),
    ('POST', '/v1/jobs/tokens/tokens', None, 200, None),
    ('POST', '/v1/jobs/job1/tokens', None, 409, 'conflict'),
    ('POST', '/v1/jobs/join/members', {'rank': 1, 'size': 2, 'address': '10.77.0.2'}, 200, None),
    ('POST', '/v1/jobs/join/members', {'rank': 2, 'size': 2, 'address': '10.77.0.2'}, 400, 'out_of_range'),
    ('POST', '/v1/jobs/both/members', {'rank': 0, 'size': 2, 'address': '10.77.0.1', 'create': {'id': 81}}, 200, None),
    ('DELETE', '/v1/jobs/leave/members/0', None, 200, None),
    ('DELETE', '/v1/jobs/leave/members/1', None, 404, 'unknown_member'),
    ('DELETE', '/v1/jobs/last/members/0', None, 200, None),
    ('DELETE', '/v1/jobs/gone', None, 200, None),
    ('DELETE', '/v1/jobs/none', None, 404, 'unknown_job'),
    ('DELETE', '/v1/jobs?prefix=tmp-', None, 200, None),
    ('POST', '/v1/programs', {'file': 'loaded.so'}, 409, 'exists'),
    ('POST', '/v1/programs', {'file': 'loaded.so', 'settings': {'port': 1}}, 400, 'out_of_range'),
    ('DELETE', '/v1/programs/loaded', None, 200, None),
    ('DELETE', '/v1/programs/forward', None, 409, 'conflict'),
    ('POST', '/v1/filters', {'file': 'new.o', 'values': [5]}, 201, None),
    ('POST', '/v1/filters', {'file': 'old.o'}, 409, 'exists'),
    ('POST', '/v1/filters', {'file': 'none.o'}, 400, 'out_of_range'),
    ('DELETE', '/v1/filters/old', None, 200, None),
    ('DELETE', '/v1/filters/none', None, 404, 'unknown_filter'),
    ('PUT', '/v1/faults', {'seed': 5, 'rules': [{'direction': 'in', 'action': 'drop', 'chance_ppm': 1}]}, 200, None),
    ('PUT', '/v1/faults', {'rules': [{'direction': 'in', 'action': 'burn'}]}, 400, 'out_of_range'),
    ('DELETE', '/v1/faults', None, 200, None),
    ('POST', '/v1/reload', None, 200, None),
]


def dry(path):
    return path + ('&' if '?' in path else '?') + 'dry_run=1'


def without(value, keys=frozenset(OWN)):
    if isinstance(value, dict):
        return {k: without(v, keys) for k, v in value.items() if k not in keys}
    return [without(v, keys) for v in value] if isinstance(value, list) else value


def seen(rack, api):
    """All that a change would show in."""
    with open(rack.changes['state']['file']) as file:
        state = file.read()
    return {'jobs': api.get('/v1/jobs'), 'programs': without(api.get('/v1/programs'), {'counters'}), 'memory': api.memory(), 'config': api.get('/v1/config'), 'state': state,
            'members': [without(api.get('/v1/jobs/' + name)['members'], {'last_heard', 'gone'}) for name in sorted(api.jobs())],
            'filters': without(api.get('/v1/filters'), {'passed'}), 'faults': without(api.get('/v1/faults'), {'elapsed_ms'}),
            'log': [line for line in rack.switch.output.splitlines() if CHANGE.search(line)]}


def ask(api, method, path, body, status, code):
    """A job may also end as `draining`."""
    status = (200, 202) if (method, status) == ('DELETE', 200) else status
    return api.do(method, path, body, status, code)


def prepare(rack, api):
    """A job for each operation, a fault, and a file with one more job. Returns when the state file has all."""
    for name in ('set', 'tokens', 'join', 'leave', 'gone'):
        api.create(name, 2)
    for name in ('last', 'tmp-1', 'tmp-2'):
        api.create(name, 2, temporary=True, expire_s=1000)
    api.do('PUT', '/v1/faults', {'rules': [{'direction': 'out', 'action': 'drop', 'chance_ppm': 2}]})
    api.do('POST', '/v1/programs', {'file': 'loaded.so'}, 201)
    api.do('POST', '/v1/filters', {'file': 'old.o'}, 201)
    joined = [api.join(name, 0, 2, 0)['membership'] for name in ('last', 'leave')][-1]
    rack.jobs.append(job(90, 2))
    rack.write_config()

    def kept():
        with open(rack.changes['state']['file']) as file:
            return str(joined) in file.read()
    wait_for(kept, 'the state has no membership %s', lambda: joined)


@case
def every_change_is_tried_and_then_made():
    with Rack(hosts=2, jobs=[job(1, 2)], changes={'memory_mb': 64}) as rack:
        rack.changes['state'] = {'file': os.path.join(rack.folder, 'state.json')}
        offer_programs(rack, 'loaded.so')
        offer_filters(rack, {'old.o': elf(BY_PORT), 'new.o': elf(BY_PORT)})
        api = Control(rack)
        rack.start_switch()
        prepare(rack, api)
        tried = []
        before = seen(rack, api)
        for row in TABLE:
            answer = ask(api, row[0], dry(row[1]), *row[2:])
            check(answer.get('dry_run', False) == (row[4] is None), '%s: %s', row, answer)
            check(not {'membership', 'key'} & set(answer) and not answer.get('tokens'), '%s: %s', row, answer)
            check('"key": "' not in json.dumps(answer.get('sources', [])), '%s', answer)
            after = seen(rack, api)
            for what, value in before.items():
                check(after[what] == value, '%s: %s was %s, is %s', row, what, value, after[what])
            tried.append(answer)
        for row, expected in zip(TABLE, tried):
            answer = ask(api, *row)
            check('dry_run' not in answer, '%s: %s', row, answer)
            if 'state' in answer and row[0] == 'DELETE':
                expected, answer = {}, {}  # a dry run knows nothing of packets that leave
            if 'error' in answer:
                expected, answer = ({k: a['error'].get(k) for k in ('code', 'key')} for a in (expected, answer))
            check(without(answer) == without(expected), '%s: %s, but tried %s', row, answer, expected)
        check({'new', 'spine', 'both', 'job90'} <= set(api.jobs()), '%s', sorted(api.jobs()))
        check(not {'gone', 'last', 'tmp-1', 'tmp-2'} & set(api.jobs()), '%s', sorted(api.jobs()))
        rack.stop_switch()


@case
def the_table_has_every_operation():
    document = Document()
    changes = {(method, path) for path, method, _ in document.operations() if method != 'GET'}
    changes.remove(('POST', '/v1/simulate'))  # it changes nothing
    for method, path, *_ in TABLE:
        changes = {(m, p) for m, p in changes
                   if m != method or not re.fullmatch(re.sub(r'{\w+}', '[^/]+', p), path.split('?')[0])}
    check(not changes, 'not in the table: %s', changes)


@case
def a_reload_says_what_it_would_do():
    with switch(jobs=[job(1, 2), job(2, 2), job(3, 2)]) as (rack, api):
        rack.jobs[:] = [job(1, 2, timeout_ms=77), job(2, 2, window=16), job(4, 2)]
        rack.write_config()
        counts = {'jobs_created': 1, 'jobs_changed': 1, 'jobs_replaced': 1, 'jobs_deleted': 1}
        for path in (dry('/v1/reload'), dry('/v1/reload'), '/v1/reload'):
            answer = api.do('POST', path)
            check({k: answer[k] for k in counts} == counts, '%s: %s', path, answer)
            check(('job4' in api.jobs()) == (path == '/v1/reload'), '%s: %s', path, sorted(api.jobs()))
        # A file that changes what a reload does not, and one that is wrong.
        for change in ({'workers': {'count': 2}}, {'memory_mb': 1}):
            rack.changes.update(change)
            rack.write_config()
            refused = [api.do('POST', path, None, 409, 'conflict') for path in (dry('/v1/reload'), '/v1/reload')]
            check(refused[0] == refused[1], '%s', refused)
            for key in change:
                del rack.changes[key]
        rack.write_config()


@case
def a_dry_run_is_a_change_to_the_limits_and_no_other_word_will_do():
    with switch(tenants=[tenant('a', quota={'changes_per_s': 1, 'changes_burst': 2})]) as (_rack, api):
        for status in (201, 201, 429):
            api.do('POST', dry('/v1/jobs'), {'name': 'x', 'size': 2}, status, token='a')
        for word, code in (('yes', 'wrong_type'), ('2', 'out_of_range'), ('', 'wrong_type'), ('1&dry_run=1', 'duplicate')):
            api.do('POST', '/v1/jobs?dry_run=' + word, {'name': 'x', 'size': 2}, 400, code)
        api.do('GET', '/v1/jobs?dry_run=1', status=400, code='unknown_key')
        check(api.jobs() == {}, '%s', api.jobs())
        check(api.do('POST', '/v1/jobs?dry_run=0', {'name': 'x', 'size': 2}, 201)['name'] == 'x', '0')


main()
