# SPDX-License-Identifier: BSD-3-Clause
"""weir-perf against the reference switch on loopback: its table, its report, its exit status.

usage: test_weir_perf.py weir-perf weir-fake-switch resnet50.shapes
"""
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'rack'))
import weir_lists  # noqa: E402 (the path comes first)

PERF, SWITCH, RESNET50 = sys.argv[1:4]
REDUCING = [entry[2] for entry in weir_lists.COLLECTIVES if entry[3] == 'REDUCE']
COPYING = [entry[2] for entry in weir_lists.COLLECTIVES if entry[3] not in ('REDUCE', 'NOTHING')]
FLOATS = [entry[2] for entry in weir_lists.DTYPES if entry[4] not in ('SIGNED', 'UNSIGNED')]
SEED = os.environ.get('WEIR_SEED', '1')


@contextlib.contextmanager
def switch(*options):
    """A fake switch; yields its two ports."""
    process = subprocess.Popen([SWITCH, '-seconds', '60', '-seed', SEED] + [str(o) for o in options],
                               stdout=subprocess.PIPE, text=True)
    try:
        words = process.stdout.readline().split()
        assert words and words[0] == 'ready', words
        yield words[1:3]
    finally:
        process.terminate()
        process.communicate(timeout=300)


def start(ports, folder, rank, *options):
    report = os.path.join(folder, '%d.json' % rank)
    process = subprocess.Popen(
        [PERF, '--switch', '127.0.0.1', '--address', '127.0.0.%d' % (10 + rank), '--source',
         str(rank), '--port-base', ports[0], '--port-ext', ports[1], '--timeout', '20000',
         '--json=' + report] + [str(o) for o in options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.report = report
    return process


def run(ranks, *options, job=(), each=None, status=0, started=None):
    """Run a rank each at a switch for `started` of them (all); (outputs, errors, reports) by rank."""
    with tempfile.TemporaryDirectory(prefix='weir-perf-') as folder, switch('-sources', started or ranks, *job) as ports:
        runs = [start(ports, folder, r, *options, *(each[r] if each else ())) for r in range(ranks)]
        try:
            ends = [r.communicate(timeout=300) for r in runs]
        finally:
            for r in runs:
                if r.poll() is None:
                    r.kill()
        for rank, r in enumerate(runs):
            assert r.returncode == status, 'rank %d: exit status %d instead of %d\n%s%s' % (
                (rank, r.returncode, status) + ends[rank])
        reports = [json.load(open(r.report)) for r in runs if os.path.exists(r.report)]
    return [e[0] for e in ends], [e[1] for e in ends], reports


def table(output):
    return [line.split() for line in output.splitlines() if line and not line.startswith('#')]


def sizes():
    for kind in ('int32', 'fp32'):
        out, _, reports = run(3, '-b', 0, '-e', '64K', '-i', '31K', '-n', 2, '-d', kind)
        rows = table(out[0])
        assert [int(r[0]) for r in rows] == [0, 31744, 63488], rows
        assert all(r[8] == '0' and r[12] == '0' for r in rows), rows
        assert table(out[1]) == [], 'the table is rank 0\'s'
        for report in reports:
            assert [r['wrong'] for r in report['rows']] == [0, 0, 0]
            row = report['rows'][2]['in_place']
            assert abs(row['busbw'] / row['algbw'] - 4 / 3) < 1e-6


def the_report_on_standard_output():
    out, errors, reports = run(2, '-b', 64, '-e', 64, '-n', 1, '--json')
    assert [json.loads(text)['rank'] for text in out] == [0, 1] and not reports
    assert len(table(errors[0])) == 1, errors


def losses_and_the_base_form():
    _, _, reports = run(2, '-b', 4, '-e', '32K', '-f', 8, '-n', 2, '-d', 'int32', '--base-form',
                        job=('-type', 'int32', '-loss', 0.03, '-duplicate', 0.03, '-reorder', 0.05))
    assert sum(r['stats']['retransmissions'] for r in reports) > 0


def everything_under_loss():
    _, _, reports = run(3, 'all', '-d', 'all', '-o', 'max,avg', '-r', 1, '-b', 3000, '-e', 3000,
                        '-n', 1, '-w', 0, job=('-loss', 0.02, '-duplicate', 0.02, '-reorder', 0.05))
    for report in reports:
        assert len(report['rows']) == len(weir_lists.DTYPES) * (2 * len(REDUCING) + len(COPYING)) + 1 and report['wrong'] == 0
    assert sum(r['stats']['retransmissions'] for r in reports) > 0


def extremes_of_one_and_of_two():
    for sources in (1, 2):
        _, _, reports = run(sources, ','.join(REDUCING), '-d', ','.join(FLOATS), '-o', 'min,max', '-b', 3000,
                            '-e', 3000, '-n', 1)
        for report in reports:
            assert len(report['rows']) == len(REDUCING) * len(FLOATS) * 2 and report['wrong'] == 0, report['rows']


def a_model():
    with tempfile.NamedTemporaryFile('w') as file:
        file.write('# a model\nconv 16 3 7 7\nbias 16\none 1\n')
        file.flush()
        out, _, reports = run(2, '--shapes', file.name, '-n', 3, '-w', 0)
    rows = table(out[0])
    assert [r[3] for r in rows] == ['3', '3', '3'], rows
    assert [r['size'] for r in reports[1]['rows']] == [4 * (16 * 147 + 17)] * 3


def barriers():
    out, _, _ = run(2, '-C', 'barrier', '-n', 50)
    assert table(out[0])[0][0] == 'barrier'


def wrong_sums_are_seen():
    # Ranks with different seeds expect different data of each other.
    out, errors, reports = run(2, '-b', 4096, '-e', 4096, '-n', 1, '-w', 0, '-d', 'int32',
                               each=[['--seed', 1], ['--seed', 2]], status=1)
    assert 'FAILED' in out[0] and 'wrong' in errors[1]
    assert reports[0]['rows'][0]['out_of_place']['wrong'] == 2048, 'over both ranks'


def a_spoiled_result_is_seen():
    out, _, reports = run(2, '-b', 4096, '-e', 4096, '-n', 3, '-w', 0, each=[[], ['--spoil']], status=1)
    assert 'Out of bounds values : 6 FAILED' in out[0], out[0]
    for rank, report in enumerate(reports):
        for way in ('out_of_place', 'in_place'):
            found = report['rows'][0][way]
            assert found['wrong'] == 3 and found['own_wrong'] == 3 * rank, report['rows']


def links_and_latencies():
    out, _, reports = run(2, 'allreduce', '-b', 4, '-e', 1024, '-f', 256, '-n', 20, '-c', 0, '--link-rate', '1.5G')
    assert 'link%' in out[0] and max(map(len, out[0].splitlines())) <= 140, out[0]
    for report, (bytes_, frame) in itertools.product(reports, ((4, 62), (1024, 1082))):
        row = report['rows'][bytes_ > 4]
        for way in ('out_of_place', 'in_place'):
            t = row[way]
            assert t['wire_sent'] >= frame and t['wire_received'] >= frame, t
            assert t['min_us'] <= t['median_us'] <= t['p99_us'] and t['min_us'] <= t['time_us'], t
            most = max(t['wire_sent'], t['wire_received'])
            assert abs(t['link_share'] - most * 8 / (t['time_us'] * 1500)) < 1e-3, t
            assert abs(t['data_share'] - bytes_ * 8 / (t['time_us'] * 1500)) < 1e-3, t
    out, _, _ = run(2, '-b', 4, '-e', 4, '--latency', '-C', 'allreduce,barrier')
    rows = table(out[0])
    assert len(rows) == 2 and len(rows[0]) == 17 and rows[0][9] == rows[0][14] == '0', rows
    assert rows[1][0] == 'barrier' and len(rows[1]) == 7, rows
    out, _, reports = run(2, '-b', 4, '-e', 4, '-n', 5, '--latency', '--link-rate', '1G')
    row, heads = table(out[0])[0], [h for h in out[0].splitlines() if 'link%' in h and 'p99' in h]
    assert len(row) == 21 and len(heads) == 1 and 'Mbit/s' in out[0], out[0]
    heads = heads[0].split()
    assert heads[6:13] == ['time', 'min', 'median', 'p99', 'link%', 'data%', '#wrong'], heads
    for at, way in ((9, 'out_of_place'), (16, 'in_place')):
        t = reports[0]['rows'][0][way]
        assert abs(float(row[at]) - t['link_share'] * 100) < 0.06, (row, t)
        assert abs(float(row[at + 1]) - t['data_share'] * 100) < 0.06 and row[at + 2] == '0', (row, t)


def a_straggler_is_told():
    # Rank 1 runs for one more size than rank 0 gives it: its last operation has nobody else.
    for how, status in (('as-is', 3), ('fail', 1)):
        with switch('-sources', 2, '-policy', 'partial', '-timeout', 200) as ports:
            with tempfile.TemporaryDirectory() as folder:
                runs = [start(ports, folder, 0, '-C', 'barrier', '-n', 5, '-w', 0),
                        start(ports, folder, 1, '-C', 'barrier', '-n', 6, '-w', 0, '--partial', how)]
                ends = [r.communicate(timeout=300) for r in runs]
        assert runs[0].returncode == 0 and runs[1].returncode == status, ends
        assert 'partial' in ends[1][1], ends


def failures():
    _, errors, reports = run(1, '--join-timeout', 300, status=1, started=2)
    assert errors[0].startswith('weir-perf: rank 0: job 1 did not begin'), errors
    assert 'did not begin' in reports[0]['error']
    for options in (['-b', '3q'], ['--job', '256'], ['-f', '1'], ['stray'], [],
                    ['--partial', 'half'], ['-d', 'int9'], ['nothing'], ['--link-rate', '1Q'],
                    ['--inflight', '65'], ['-d', 'fp16,fp32', '-o', 'sum,band'], ['reduce', '--base-form'],
                    ['all', '--shapes', 'x'], ['-o', 'max', '--partial', 'rescale', '-c', '0'],
                    ['--deterministic'], ['--source-key']):
        end = subprocess.run([PERF, '--switch', '127.0.0.1', '--address', '127.0.0.1', '--source', '0']
                             + options if options else [PERF], capture_output=True, text=True,
                             timeout=300, check=False)
        assert end.returncode == 2 and end.stderr.startswith('weir-perf: '), (options, end)
    with tempfile.TemporaryDirectory(prefix='weir-perf-') as folder:
        name = os.path.join(folder, 'key')
        for text, wanted in ((None, 'No such file or directory'), ('ab' * 20, 'begins with 40'),
                             ('ab' * 31 + 'xy', 'begins with 62'), ('ab' * 200, 'should hold 64 hex'),
                             ('ab' * 64, 'should hold'), ('ab' * 32 + '\0\0', 'should hold')):
            if text is not None:
                with open(name, 'w') as file:
                    file.write(text)
            end = subprocess.run([PERF, '--key-file', name], capture_output=True, text=True, timeout=300,
                                 check=False)
            assert end.returncode == 2 and name in end.stderr and wanted in end.stderr, end
            assert 'abab' not in end.stderr, end
        end = subprocess.run([PERF, '--key-file', folder], capture_output=True, text=True, timeout=300,
                             check=False)
        assert end.returncode == 2 and 'Is a directory' in end.stderr, end
    assert '--shapes' in subprocess.run([PERF, '--help'], capture_output=True, text=True, timeout=300,
                                        check=True).stdout


def the_model_of_the_demo():
    names = [line.split()[0] for line in open(RESNET50) if not line.startswith('#')]
    assert len(set(names)) == 161 and not [n for n in names if not re.fullmatch(r'[a-z0-9.]+', n)]


print('WEIR_SEED=' + SEED)
for case in (sizes, the_report_on_standard_output, losses_and_the_base_form, everything_under_loss, extremes_of_one_and_of_two,
             a_model, barriers, wrong_sums_are_seen, a_spoiled_result_is_seen, links_and_latencies, a_straggler_is_told,
             failures, the_model_of_the_demo):
    case()
    print('ok', case.__name__, flush=True)
