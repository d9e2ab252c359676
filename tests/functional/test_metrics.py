#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""GET /metrics and GET /v1/history of a real switch."""
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import time

import control
from exposition import parse
from rack import DPDK, ROOT, job
from process import cpu_seconds
from tap import Skip, case, check, main, shared, wait_for

PAGE = os.path.join(ROOT, 'docs', 'counters.md')
DASHBOARD = os.path.join(ROOT, 'configs', 'grafana', 'weir.json')
SAMPLES = os.path.join(ROOT, 'configs', 'prometheus')


BEGAN = time.time()


def switch(jobs=None, **more):
    return control.switch(jobs=[job(1, 2)] if jobs is None else jobs, **more)


def many(number, sources, **options):
    """A job of more sources than hosts: they share addresses."""
    made = job(number, 2, **options)
    made['sources'] = [{'id': i, 'address': '10.77.0.%d' % (i % 2 + 1)} for i in range(sources)]
    return made


@shared
def two_jobs():
    """One has more sources than have series of their own, and the other sources that were heard: every label occurs."""
    with switch([job(1, 2), many(2, 66)], filters=['filter.o']) as found:
        sums(found[0])
        yield found


def scrape(api, **more):
    answer = api.unix('GET', '/metrics', **more)
    check(answer.status == 200, '%d', answer.status)
    check(answer.headers['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8', '%s',
          answer.headers['Content-Type'])
    return parse(answer.text.decode())


def sums(rack, size='65536'):
    runs = [rack.perf(i, 1, '-b', size, '-e', size, '-n', 5) for i in range(2)]
    for run in runs:
        run.wait(30)


def promtool():
    path = os.environ.get('WEIR_PROMTOOL') or shutil.which('promtool')
    if path is None:
        raise Skip('promtool is not there: Debian package prometheus')
    return path


def rows_of(page, heading):
    """The cells of the table under a heading, without its head."""
    part = page.split('\n## %s\n' % heading)[1].split('\n## ')[0]
    table = [line for line in part.splitlines() if line.startswith('| ')][2:]
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in table]


def documented():
    """name → type, labels, meaning of every metric: rows of their table, and counters of the others."""
    with open(PAGE) as file:
        page = file.read()
    found = {'weir_packets_dropped_total': ('counter', {'reason'}, 'packets dropped, by reason')}
    for heading, kind, label in (('Packets', 'packets', None), ('Ports', 'port', 'port'),
                                 ('Workers', 'worker', 'worker'), ('Jobs', 'job', 'weir_job')):
        for name, meaning, *_ in rows_of(page, heading):
            labels = {label} - {None}
            if name in ('`tx_packets`', '`tx_bytes`', '`queue_full`'):
                labels.add('priority')
            found['weir_%s_%s_total' % (kind, name.strip('`'))] = 'counter', labels, meaning
    histograms = re.search(r'is\s+a\s+counter,(.*?)are\s+histograms', page, re.S).group(1)
    for labels, names in rows_of(page, 'Prometheus'):
        for name in re.findall(r'`(\w+)`', names):
            check(name not in found, '%s twice', name)
            type_ = 'counter' if name.endswith('_total') else 'histogram' if '`%s`' % name in histograms else 'gauge'
            found[name] = type_, set(re.findall(r'`(\w+)`', labels)), None  # only HELP has its meaning
    return found


@case
def every_metric_is_in_the_page_and_no_other():
    page = documented()
    _, api = two_jobs()
    api.do('PUT', '/v1/faults', {'rules': [{'direction': 'in', 'action': 'drop'}]})
    api.do('POST', '/v1/filters', {'file': 'filter.o'}, 201)
    families = scrape(api)
    api.do('DELETE', '/v1/faults')
    api.do('DELETE', '/v1/filters/filter')
    for name, family in families.items():
        check(name in page, '%s is not in docs/counters.md', name)
        # test_api_tree.py has parents.
        labels = {'weir_job', 'parent'} if name.startswith('weir_parent_') else family.labels()
        check(family.help, '%s has no HELP', name)
        is_ = family.type, labels, page[name][2] and family.help
        check(page[name] == is_, '%s:\n%s\n%s', name, page[name], is_)
    for name in page:
        check(name in families, '%s is in docs/counters.md, and not in the answer', name)


@case
def faults_have_a_series_per_rule():
    rack, api = two_jobs()
    found = scrape(api)
    check(found['weir_fault_rules'].value() == 0, 'set from the start')
    check(not found['weir_fault_hit_packets_total'].samples, 'a rule that is not there')
    api.do('PUT', '/v1/faults', {'rules': [
        {'direction': 'out', 'action': 'duplicate', 'choice': 'every', 'nth': 4, 'port': 'p1',
         'what': 'result'},
        {'direction': 'in', 'action': 'drop', 'what': 'ordinary', 'chance_ppm': 0}]})
    sums(rack)
    told = api.get('/v1/faults')['rules']
    found = scrape(api)
    check(found['weir_fault_rules'].value() == 2, 'rules')
    check(told[0]['hit'] > 10 and found['weir_fault_held_packets'].value() == 0, '%s', told)
    for index, labels in enumerate(({'action': 'duplicate', 'direction': 'out', 'port': 'p1'},
                                    {'action': 'drop', 'direction': 'in', 'port': ''})):
        for key in ('matched', 'hit', 'spared'):
            value = found['weir_fault_%s_packets_total' % key].value(rule=str(index), **labels)
            check(value == told[index][key], '%s of rule %d: %s, not %s', key, index, value, told[index])
    api.do('DELETE', '/v1/faults')


@case
def the_metrics_are_true():
    rack, api = two_jobs()
    sums(rack)
    stats = rack.check_packets()
    counters = api.get('/v1/counters')
    found = scrape(api)

    def value(name, *args, **labels):
        return found['weir_' + name].value(*args, **labels)

    check(value('packets_received_total') == stats['received'], 'received')
    for reason, count in stats['drops'].items():
        check(value('packets_dropped_total', reason=reason) == count, '%s', reason)
    check(len(found['weir_packets_dropped_total'].samples) == len(stats['drops']), 'reasons')
    for port in counters['ports']:
        check(value('port_up', port=port['name']) == 1, 'link')
        for key in ('rx_packets', 'rx_bytes', 'missed'):
            check(value('port_%s_total' % key, port=port['name']) == port[key], '%s', key)
        for priority in ('results', 'bulk'):
            for key in ('tx_packets', 'tx_bytes', 'queue_full'):
                check(value('port_%s_total' % key, port=port['name'], priority=priority) ==
                      port[key][priority], '%s %s', port['name'], priority)
    for key, count in counters['jobs'][0].items():
        if key not in ('id', 'name'):
            check(value('job_%s_total' % key, weir_job='job1') == count, '%s', key)
    blocks = value('job_blocks_complete_total', weir_job='job1')
    check(blocks > 50, '%d blocks', blocks)
    for name in ('block_latency', 'contribution_spread'):
        check(value('job_%s_seconds' % name, '_count', weir_job='job1') == blocks, '%s', name)
        check(value('job_%s_seconds' % name, '_sum', weir_job='job1') > 0, '%s', name)
    check(value('job_members_joined', weir_job='job1') == 2, 'joined')
    last = [value('source_last_blocks_total', weir_job='job1', rank=str(r)) for r in range(2)]
    check(sum(last) == blocks, '%s of %d', last, blocks)
    contact = value('source_last_contact_timestamp_seconds', weir_job='job1', rank='0')
    check(BEGAN < value('start_time_seconds') < contact < time.time(), 'last contact: %s', contact)
    check(0 < value('pool_free_buffers', pool='packets') <= value('pool_buffers',
                                                                pool='packets'), 'pools')
    check(value('metrics_left_out') == 2 and value('ready') == 1, 'left out')
    check(value('job_info', weir_job='job1', id='1', policy='wait', tenant='', origin='file', hop='') == 1,
          'info')


@case
def the_process_is_described():
    rack, api = two_jobs()

    def value(name):
        return scrape(api)['process_' + name].value()

    def proc(name):
        with open('/proc/%s/%s' % (rack.switch.pid, name)) as file:
            return file.read()

    def times():
        """CPU time and start, in seconds."""
        user, system, *_, start = proc('stat').rsplit(')', 1)[1].split()[11:20]
        return (int(user) + int(system)) / 100, int(start) / 100

    booted = int(re.search(r'^btime (\d+)', proc('../stat'), re.M).group(1))
    check(abs(value('start_time_seconds') - booted - times()[1]) < 2, 'start')
    check(0 < times()[0] <= value('cpu_seconds_total') <= times()[0], 'CPU time')
    for name, key in (('resident_memory_bytes', 'VmRSS'), ('virtual_memory_bytes', 'VmSize')):
        now = 1024 * int(re.search(key + r':\s+(\d+) kB', proc('status')).group(1))
        check(abs(value(name) - now) < now / 4, '%s: %s', name, now)
    check(5 < value('open_fds') < value('max_fds'), 'descriptors')
    check(value('max_fds') == int(re.search(r'Max open files +(\d+)', proc('limits')).group(1)), 'limit')
    wait_for(lambda: value('threads') == len(os.listdir('/proc/%d/task' % rack.switch.pid)), 'threads')


@case
def prometheus_takes_them():
    path = promtool()
    rack, api = two_jobs()
    sums(rack)
    text = api.unix('GET', '/metrics').text
    done = subprocess.run([path, 'check', 'metrics'], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=800, check=False)
    check(done.returncode == 0 and done.stdout == b'', '%s', done.stdout.decode())


@case
def prometheus_takes_the_samples_of_its_configuration():
    path = promtool()
    rules = glob.glob(os.path.join(SAMPLES, '*rules.yml'))
    check(rules, 'no rules in %s', SAMPLES)
    for command in (['check', 'rules'] + rules,
                    ['check', 'config', os.path.join(SAMPLES, 'prometheus.yml')],
                    ['test', 'rules', os.path.join(SAMPLES, 'rules_test.yml')]):
        done = subprocess.run([path] + command, stdout=subprocess.PIPE, cwd=SAMPLES,
                              stderr=subprocess.STDOUT, timeout=800, check=False)
        check(done.returncode == 0, '%s: %s', command, done.stdout.decode())


@case
def rules_and_the_dashboard_ask_for_metrics_that_are_there():
    _, api = two_jobs()
    families = scrape(api)
    with open(DASHBOARD) as file:
        panels = json.load(file)['panels']
    check(all(panel['targets'] for panel in panels), 'an empty panel')
    for path in glob.glob(os.path.join(SAMPLES, '*rules.yml')) + [DASHBOARD]:
        with open(path) as file:
            asked = set(re.findall(r'\bweir_\w+', file.read())) - {'weir_job'}  # a label
        check(len(asked) > 5, '%s: %s', path, asked)
        for name in asked:
            check(re.sub('_(bucket|sum|count)$', '', name) in families, '%s: %s', path, name)


@case
def sources_without_end_are_summed_up():
    with switch([many(n, 256, window=1, elements=1) for n in range(20)] + [job(20, 2)]) as (
            _rack, api):
        found = scrape(api)
        waited = found['weir_source_waited_seconds_total']
        check(len(waited.samples) == 20 * (64 + 1) + 2, '%d', len(waited.samples))
        check(waited.value(weir_job='job7', rank='others') == 0, 'others')
        check(found['weir_metrics_left_out'].value() == 20 * 192, 'left out')


def of_sources(api):
    samples = scrape(api)['weir_source_last_blocks_total'].samples
    return sorted((dict(labels)['weir_job'], dict(labels)['rank']) for _suffix, labels in samples)


@case
def a_rank_is_always_in_the_same_series():
    """Whoever joins moves nobody into the sum of the others, or out of it."""
    _, api = two_jobs()
    api.create('wide', 70)
    for rank in list(range(1, 66)) + [0]:
        api.join('wide', rank, 70, rank)
        if rank in (64, 65, 0):
            own = {r for name, r in of_sources(api) if name == 'wide'}
            check(own == {str(r) for r in range(0 if rank == 0 else 1, 64)} | {'others'}, '%s', own)
    api.delete('wide')


@case
def a_job_that_goes_moves_no_series():
    with switch([many(n, 64, window=1, elements=1) for n in range(66)]) as (_rack, api):
        before = of_sources(api)
        check(('job63', '63') in before and ('job64', 'others') in before and
              ('job64', '0') not in before, '%s', before[-70:])
        check(api.unix('DELETE', '/v1/jobs/job3').status in (200, 202), 'delete')
        after = of_sources(api)
        check(after == [s for s in before if s[0] != 'job3'], '%s', set(before) ^ set(after))
        check(api.unix('POST', '/v1/jobs', {'name': 'new', 'size': 64, 'window': 1}).status == 201,
              'create')
        check(api.unix('POST', '/v1/jobs/new/members',
                       {'rank': 9, 'size': 64, 'address': '10.77.0.1'}).status == 200, 'join')
        check(of_sources(api) == sorted(after + [('new', '9')]), 'what is free is the next one\'s')


@case
def a_tenant_sees_its_own():
    with switch(tenants=[control.tenant('vision', 'look'), control.tenant('ops', 'run', admin=True)]) as (_rack, api):
        for token, jobs in ((None, 0), ('look', 0), ('run', 1)):
            found = parse(api.tcp('GET', '/metrics', token=token).text.decode())
            check(found['weir_jobs'].value() == jobs, '%s: %s', token, found['weir_jobs'].samples)
            check(len(found['weir_job_info'].samples) == jobs, '%s', token)
            check(len(found['weir_packets_dropped_total'].samples) > 20, '%s', token)
        check(api.tcp('GET', '/v1/history').status == 401, 'history without a token')
        wait_for(lambda: api.tcp('GET', '/v1/history', token='run').body['jobs'], 'no history')
        check(api.tcp('GET', '/v1/history', token='look').body['jobs'] == [], "others' history")
        check(len(api.tcp('GET', '/v1/history', token='run').body['jobs']) == 1, 'history')


def scrape_cost(count):
    """CPU seconds of the control thread for each byte of a page, with this many jobs of 64 sources."""
    jobs = [many(n, 64, window=64) for n in range(count)]
    with switch(jobs, changes={'memory_mb': 384}) as (rack, api):
        with contextlib.closing(api.connect()) as connection:
            length = len(api.ask(connection, 'GET', '/metrics').text)
            costs = []
            for _ in range(5):
                before = cpu_seconds(rack.switch.pid, rack.switch.pid)
                api.ask(connection, 'GET', '/metrics')
                costs.append(cpu_seconds(rack.switch.pid, rack.switch.pid) - before)
            cost = sorted(costs)[2]  # those of one page may be counted with the next one
    print('# %d jobs of 64 sources: %d bytes, %.2f ms of CPU' % (count, length, 1000 * cost), flush=True)
    return cost / length


@case
def the_cost_of_a_scrape_grows_as_its_bytes():
    few, many_jobs = scrape_cost(4), scrape_cost(32)
    check(many_jobs < 3 * few, '%g ns a byte with 32 jobs, %g with 4', 1e9 * many_jobs, 1e9 * few)


def samples(history):
    return len(history['ports'][0]['rx_bps']) if history['ports'] else 0


@case
def the_history_tells_what_was():
    rack, api = two_jobs()
    sums(rack, '1048576')
    rack.ping(0, '10.77.0.200', background=True)
    first = samples(api.get('/v1/history'))
    wait_for(lambda: samples(api.get('/v1/history')) >= first + 3, 'no samples')
    found, counters = api.get('/v1/history'), api.get('/v1/counters')
    check(found['interval'] == 1 and found['time'] <= time.time(), '%s', found['time'])
    length = samples(found)
    for port, now in zip(found['ports'], counters['ports']):
        check(port['name'] == now['name'], '%s', port['name'])
        check(len(port['rx_bps']) == len(port['tx_bps']) == length, '%s', port['name'])
        check(abs(sum(port['rx_bps']) / 8 - now['rx_bytes']) <= 0.25 * now['rx_bytes'] + 2000,
              '%s: %s, %d bytes', port['name'], port['rx_bps'], now['rx_bytes'])
    one, now = (next(j for j in jobs if j['name'] == 'job1') for jobs in (found['jobs'], counters['jobs']))
    check(len(one['blocks']) == length, '%s', one)
    check(abs(sum(one['blocks']) - now['blocks_complete']) < 0.25 * now['blocks_complete'], '%s', one['blocks'])
    check(abs(sum(one['contributions']) - now['contributions']) < 0.25 * now['contributions'], '%s', one)
    check([rank for rank, _ in one['late_share']] == [0, 1], '%s', one['late_share'])
    check(abs(sum(share for _, share in one['late_share']) - 1) < 0.001, '%s', one)
    for reason, rates in found['drops'].items():
        check(counters['drops'][reason] > 0 and len(rates) == length, '%s', reason)


@case
def the_history_keeps_jobs_that_are_gone():
    _, api = two_jobs()

    def found():
        return [job for job in api.get('/v1/history')['jobs'] if job['name'] == 'ring']

    def has_samples():
        """Of the last job of the name."""
        blocks = found()[-1]['blocks']
        return len(blocks) - blocks.count(None) > 1

    for count in (1, 2):  # the second takes the name and the number of the first
        api.create('ring', 2, id=9)
        wait_for(lambda number=count: len(found()) == number and has_samples(), 'no samples')
        if count == 1:
            api.delete('ring')
    # The one that is there is the last of its name, and began later.
    check(found()[0]['late_share'] == [], '%s', found()[0])
    empty = [job['blocks'].count(None) for job in found()]
    check(empty[0] < empty[1], '%s', empty)
    api.delete('ring')


@case
def telemetry_is_not_there_unless_asked_for():
    with switch(changes={'eal': ['--no-huge', '--no-pci', '--no-shconf']}) as (rack, _api):
        folder = os.path.join(DPDK, 'weir-' + rack.config()['switch']['name'])
        found = os.listdir(folder) if os.path.isdir(folder) else []
        check(not any('telemetry' in name for name in found), '%s', found)


if __name__ == '__main__':
    main()
