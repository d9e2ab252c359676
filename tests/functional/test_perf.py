#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-perf over a switch: every collective, type and operation, its table, its report, its check."""
import json
import re

from control import running
from tap import case, check, main
from rack import job
from elements import TYPE
from ranks import allowed
from reference import ROOTED, SLICED_RECEIVE, SLICED_SEND

HOSTS = 3
SLICED = SLICED_SEND + SLICED_RECEIVE


def everything(roots):
    """What `all` has to measure: (collective, type, operation, root)."""
    return {(collective, 'none' if collective == 'barrier' else kind, op or 'none', root)
            for collective, kind, op in allowed() for root in (roots if collective in ROOTED else [-1])}


def measure(*options, each=(), status=0, hosts=HOSTS, seconds=120, **job_options):
    """The reports of all ranks, and rank 0's output; rank 1 has options of its own in `each`."""
    with running(hosts=hosts, jobs=[job(1, hosts, **job_options)]) as rack:
        runs = [rack.perf(h, 1, *options, *(each if h == 1 else ())) for h in range(hosts)]
        outputs = [run.wait(seconds, status) for run in runs]
        reports = []
        for run in runs:
            with open(run.json) as file:
                reports.append(json.load(file))
    return reports, outputs[0]


def name(row):
    return row['collective'], row['type'], row['redop'], row['root']


def timings(row):
    return [row[way] for way in ('out_of_place', 'in_place') if row[way] is not None]


def factor(collective):
    others = (HOSTS - 1) / HOSTS
    return 2 * others if collective == 'allreduce' else others if collective in SLICED else 1


@case
def everything_is_measured_and_right():
    reports, _ = measure('-C', 'all', '-d', 'all', '-o', 'all', '-r', 'all', '-b', 6656, '-e', 6656,
                         '-n', 1, '-w', 0)
    wanted = everything(range(HOSTS))
    for report in reports:
        rows = report['rows']
        check({name(row) for row in rows} == wanted, '%s', {name(row) for row in rows} ^ wanted)
        check(len(rows) == len(wanted), '%d rows', len(rows))
        check(report['wrong'] == 0 and not report.get('error'), '%s', report['error'])
        for row in rows:
            for t in timings(row):
                check(t['wrong'] == 0 and t['operations'] == 1 and t['degraded'] == 0, '%s', row)
                check(abs(t['busbw'] - t['algbw'] * factor(row['collective'])) < 1e-6, '%s', row)
            if row['collective'] != 'barrier':
                slices = HOSTS if row['collective'] in SLICED else 1
                check(row['size'] == row['count'] * slices * TYPE[row['type']].bytes, '%s', row)


@case
def the_bytes_on_the_wire_are_told():
    # fp32, and blocks of 256 elements: of one slice a third, of AlltoAll's a ninth. 58 bytes of headers each.
    size = 12288
    reports, output = measure('all', '-b', size, '-e', size, '-n', 4, '-r', 1, '--link-rate', '10G')
    for row in reports[0]['rows']:
        if row['collective'] == 'barrier':
            continue
        slices = 1 if row['collective'] not in SLICED else 9 if row['collective'] == 'alltoall' else 3
        # Own slices stay at their host, but in a sum.
        data = size * 2 // 3 if row['collective'] in ('scatter', 'gather', 'allgather', 'alltoall') else size
        wanted = data + -(-row['count'] // (256 // slices)) * 58
        most = [max(t['wire_sent'], t['wire_received']) for t in timings(row)]
        # Above it are repetitions, many of them where a process lost its CPU for a while.
        check(all(wanted <= m for m in most), '%d: %s', wanted, row)
        for t, m in zip(timings(row), most):
            rate = 10e9 / 8e6
            check(abs(t['link_share'] - m / t['time_us'] / rate) < 1e-3, '%s', row)
            check(abs(t['data_share'] - size / t['time_us'] / rate) < 1e-3, '%s', row)
            check(0 < t['data_share'] and (data < size or t['data_share'] < t['link_share']), '%s', row)
    check('link%' in output and max(map(len, output.splitlines())) <= 140, '%s', output)
    # Only the root of a Gather is sent anything but headers.
    for rank, report in enumerate(reports):
        for row in report['rows']:
            if row['collective'] == 'gather':
                received = row['out_of_place']['own_wire_received']
                check((received > size // 2) == (rank == 1), '%d: %s', rank, row)


@case
def operations_in_flight():
    reports, _ = measure('-C', 'all', '-b', 60, '-e', '60K', '-f', 32, '-n', 3, '--inflight', 5, '-d',
                         'int16,fp32')
    for row in reports[0]['rows']:
        check(all(t['operations'] == 15 for t in timings(row)), '%s', row)
    check(reports[0]['inflight'] == 5 and reports[0]['wrong'] == 0, '%s', reports[0])


@case
def what_is_spoiled_is_seen():
    # On the rank that is the root, so that each collective has a result there.
    reports, output = measure('-C', 'all', '-r', 1, '-b', 600, '-e', 600, '-n', 3, '-w', 0, '-d',
                              'int8,bf16', '-o', 'max', each=['--spoil'], status=1)
    for rank, report in enumerate(reports):
        check(len(report['rows']) == 2 * 8 + 1, '%s', report['rows'])
        for row in report['rows']:
            if row['collective'] == 'barrier':
                continue
            for t in timings(row):
                check(t['wrong'] == 3 and t['own_wrong'] == (3 if rank == 1 else 0), '%s', row)
    check('Out of bounds values : 96 FAILED' in output, '%s', output)


@case
def latencies():
    reports, output = measure('-C', 'allreduce,barrier,alltoall', '-b', 4, '-e', 4, '-n', 50,
                              '--latency')
    for row in reports[0]['rows']:
        for t in timings(row):
            check(0 < t['min_us'] <= t['median_us'] <= t['p99_us'], '%s', row)
            check(t['min_us'] <= t['time_us'] <= t['p99_us'] * 2, '%s', row)
    check(len(re.findall('median', output)) == 2 + 1 + 2, '%s', output)
    # An AlltoAll of less than an element for each is one of an element for each.
    check([row['size'] for row in reports[0]['rows']] == [4, 12, 0], '%s', reports[0]['rows'])


if __name__ == '__main__':
    main()
