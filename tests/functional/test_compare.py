#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make compare in short: Weir's side always, the others where they are installed; the table and the last
line from figures that are known; wrong results are found, and nothing stays behind an interruption."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from tap import Skip, case, check, main
from rack import RackError

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
APPS = os.path.abspath(os.path.join(ROOT, 'apps', 'compare'))
RUNNER = os.path.join(APPS, 'compare.py')
sys.path.insert(0, APPS)

import compare  # noqa: E402 (the path comes first)
import racks  # noqa: E402
import systems  # noqa: E402

BUILD = os.environ['WEIR_BUILD']
LAST = r'compare: (\d+) hosts (\d+ \w+): (\d\.\d\d) of the link, (\d+\.\d\d|-\.--) x the best other'


def point(system, algorithm, bytes_, us, hosts=8, collective='allreduce'):
    return {'hosts': hosts, 'collective': collective, 'bytes': bytes_, 'system': system,
            'algorithm': algorithm, 'us': us, 'samples_us': [us]}


POINTS = [
    point('Weir', 'default', 4, 100.0), point('Open MPI', 'default', 4, 80.0),
    point('Open MPI', 'ring', 4, 90.0), point('Gloo', 'ring', 4, 400.0),
    point('Weir', 'default', 1 << 20, 43000.0), point('Open MPI', 'default', 1 << 20, 99000.0),
    point('Gloo', 'ring', 1 << 20, 77400.0), point('Gloo', 'bcube', 1 << 20, 88000.0),
    point('Weir', 'default', 1 << 22, 200000.0), point('Gloo', 'ring', 1 << 22, 300000.0),
    point('Weir', 'default', 1 << 20, 50000.0, hosts=2),
    point('Gloo', 'ring', 1 << 20, 45000.0, hosts=2),
    point('Weir', 'default', 1 << 20, 42000.0, collective='alltoall'),
    point('Open MPI + Weir', 'default', 4, 85.0), point('Open MPI + Weir', 'default', 1 << 20, 44300.0),
    point('Open MPI + Weir', 'default', 1 << 20, 43200.0, collective='alltoall'),
    point('PyTorch', 'weir', 1 << 20, 43430.0), point('PyTorch', 'gloo', 1 << 20, 75000.0),
    point('PyTorch', 'weir', 1 << 22, 220000.0),
]


@case
def the_table_and_the_last_line_say_what_was_measured():
    lines = compare.lines(POINTS, 200)
    heads = [line for line in lines if line.startswith('# a')]
    check(heads == ['# allreduce, 8 hosts', '# allreduce, 2 hosts', '# alltoall, 8 hosts'], '%s', heads)
    row = [line.split() for line in lines if '43000.0' in line]
    # 8388608 bit in 43 ms are 195.08 Mbit/s.
    check(row == [['1', 'MiB', '43000.0', '195', '0.975', '77400.0', '108', '0.542', 'Gloo,', 'ring',
                   '1.80', '44300.0', '0.947', '2.23']], '%s', row)
    check(any(re.search(r'4 B +100\.0 .* 80\.0 .* Open MPI +0\.80 +85\.0 +0\.002 +0\.94$', line) for line in lines),
          '%s', lines)
    check(any(re.search(r'42000\.0 +200 +0\.999 +- +- +- +- +- +43200\.0 +0\.971 +-$', line) for line in lines), '%s',
          lines)
    check(any(re.search(r'200000\.0 .* - +- +-$', line) for line in lines), '%s', lines)
    check(max(len(line) for line in lines) <= 130, 'too wide: %s', lines)
    row = [line.split() for line in compare.torch_lines(POINTS, 200)]
    check(row[-2:] == [['1', 'MiB', '43000.0', '0.975', '43430.0', '0.966', '1.010', '75000.0', '0.559', '1.73'],
                       ['4', 'MiB', '200000.0', '0.839', '220000.0', '0.763', '1.100', '-', '-', '-']], '%s', row)
    last = compare.last_lines(POINTS, 200)
    check(last == ['compare: 8 hosts 1 MiB through MPI: 2.23 x plain Open MPI',
                   'compare: 8 hosts 1 MiB through torch: 1.73 x gloo', 'compare: 8 hosts 1 MiB: 0.98 of the link, 1.80 x the best other'], '%s', last)
    # Without 1 MiB the size next to it; without the others no ratio.
    few = [p for p in POINTS if p['bytes'] != 1 << 20 and p['system'] == 'Weir']
    last = compare.last_lines(few, 200)
    check(last == ['compare: 8 hosts 4 MiB: 0.84 of the link, -.-- x the best other'], '%s', last)
    last = compare.last_lines([p for p in POINTS if p['algorithm'] != 'default' or 'Weir' in p['system']], 200)
    check(last[0] == 'compare: 8 hosts 1 MiB through MPI: -.-- x plain Open MPI', '%s', last)


@case
def aims_that_are_missed_are_said():
    words = compare.missed(POINTS, 200)
    check(words == [
        '8 hosts, allreduce, 4 B: through MPI 85.0 us; plain Open MPI takes 80.0 us',
        '8 hosts, 4 B: 100.0 us; Open MPI takes 80.0 us',
        '8 hosts, allreduce, 1 MiB: through MPI 1.030 x the time of libweir; the aim is 1.03',
        '8 hosts, 4 MiB: through PyTorch 1.100 x the time of libweir; the aim is 1.05',
        '8 hosts, 4 MiB: 0.839 of the link; the aim is 0.95',
        '8 hosts, 4 MiB: 1.50 x the best other (Gloo, ring); the aim is 1.7',
        '2 hosts, 1 MiB: 0.839 of the link; the aim is 0.95'], '%s', words)
    mine = [point('Open MPI + Weir', 'default', bytes_, 1000.0, hosts, collective) for hosts, collective, bytes_ in (
        (8, 'allreduce', 1 << 12), (8, 'allreduce', 1 << 14), (4, 'allreduce', 1 << 14), (8, 'alltoall', 1 << 14))]
    words = compare.missed(mine + [dict(p, system='Open MPI', us=1690.0) for p in mine], 200)
    check(words == ['8 hosts, allreduce, 16 KiB: through MPI 1.69 x plain Open MPI; the aim is 1.7'], '%s', words)


@case
def two_racks_are_said():
    points = [dict(point(system, algorithm, bytes_, us), order=order, crossed=crossed * bytes_)
              for system, algorithm, order, bytes_, us, crossed in (
                  ('Weir', 'default', None, 1 << 16, 5000.0, 1.02), ('Weir', 'default', None, 1 << 20, 85000.0, 1.01),
                  ('Gloo', 'ring', racks.BY_RACK, 1 << 20, 170000.0, 1.77),
                  ('Open MPI', 'default', racks.BY_RACK, 1 << 20, 180000.0, 1.01),
                  ('Gloo', 'halving', racks.DEALT, 1 << 20, 425000.0, 4.04))]
    lines = racks.lines(points, 100, compare.size_text)
    check([line.split() for line in lines[-2:]] == [
        ['64', 'KiB', '5000.0', '1.049', '1.02'] + ['-'] * 8,
        ['1', 'MiB', '85000.0', '0.987', '1.01', '170000.0', '1.77', 'Gloo,', 'ring', '2.00',
         '425000.0', '4.04', 'Gloo,', 'halving', '5.00']], '%s', lines)
    check(max(len(line) for line in lines) <= 130, 'too wide: %s', lines)
    check(racks.last_lines(points, compare.size_text, compare.times) == [
        'compare: 2 racks of 4 hosts 1 MiB, ranks dealt: 5.00 x the best other',
        'compare: 2 racks of 4 hosts 1 MiB: 2.00 x the best other'], '%s', points)
    check(racks.missed(points, compare.size_text) == ['2 racks, 1 MiB: 2.00 x the best other; the aim is 3.0'], '%s', points)
    check(racks.last_lines([], compare.size_text, compare.times) == [], 'of nothing')
    check(racks.ORDERS[racks.DEALT] == [0, 4, 1, 5, 2, 6, 3, 7], '%s', racks.ORDERS)


class Canned:
    """A system that answers at once."""

    def __init__(self, name, us, wrong=0, algorithms=('default',)):
        self.name, self.us, self.wrong, self.algorithms = name, us, wrong, {'allreduce': algorithms}
        self.orders = []

    def run(self, order, _seconds):
        self.orders.append(order)
        took = int(self.us[order['algorithm']] * order['iterations'] * 1000)
        return [{'began': 5000 + r, 'ended': 5000 + took - (r == 0), 'wrong': self.wrong * r}
                for r in range(2)]


class Bare:
    hosts, rate = 2, 200


def comparison(*up):
    chosen = compare.options(['--repeat', '3'])
    return compare.Comparison(chosen, Bare(), list(up))


@case
def repetitions_are_interleaved_and_slow_ones_given_up():
    """But never what others are compared with: Weir, PyTorch, and plain Open MPI, which is not repeated if it is slow."""
    weir = Canned('Weir', {'default': 50})
    one = comparison(weir, Canned('Gloo', {'ring': 100, 'bcube': 160, 'halving': 330}, 0, ('ring', 'bcube', 'halving')),
                     Canned('Open MPI', {'default': 400}), Canned('PyTorch', {'weir': 500, 'gloo': 500}, 0, ('weir', 'gloo')))
    last = [('default', 1), ('weir', 3), ('gloo', 3)]
    for bytes_, others_ in ((1 << 20, [('ring', 3), ('bcube', 1), ('halving', 1)]), (1 << 22, [('ring', 3), ('bcube', 1)]),
                            (1 << 24, [('ring', 3)])):
        found = [(p['algorithm'], len(p['samples_us'])) for p in one.measure('allreduce', bytes_)]
        check(found == [('default', 3)] + others_ + last, '%s: %s', bytes_, found)
    # Checked once for each size.
    check([o['check'] for o in weir.orders] == 3 * [1, 0, 0], '%s', weir.orders)


def fails(call, kind, *words):
    try:
        call()
    except kind as error:
        check(all(word in str(error) for word in words), '%s', error)
    else:
        check(False, 'nobody noticed')


@case
def a_wrong_result_ends_it():
    one = comparison(Canned('Weir', {'default': 50}, wrong=3))
    fails(lambda: one.measure('allreduce', 4), compare.Wrong, 'Weir', '3 elements are WRONG')


def others():
    """What can be measured beside Weir, where the runner looks for it; raises Skip if Open MPI or Gloo is not there."""
    made = systems.compile_others(os.path.join(BUILD, 'compare'), lambda text: print('# ' + text))
    if not {'Open MPI', 'Gloo'} <= made.keys():
        raise Skip('Open MPI or Gloo is not installed (.ci/install packages.compare)')
    return made


@case
def the_checks_of_the_bench_find_other_data():
    with systems.LimitedRack(BUILD, 2, 1000, {}) as rack:
        rack.start_switch()
        weir = systems.weir(rack)
        for collective, kind in (('allreduce', 'fp32'), ('broadcast', 'int32')):
            good = weir.run({'collective': collective, 'type': kind, 'total': 5000, 'algorithm': 'default', 'warmup': 0,
                             'iterations': 1, 'check': 1, 'seed': 1}, 300)
            check([a['wrong'] for a in good] == [0, 0] and good[0]['fingerprint'] == good[1]['fingerprint'], '%s', good)
        for rank, link in weir.ranks.items():  # each believes in a seed of its own
            link.send(b'run allreduce int32 5000 default 0 1 %d 1\n' % rank)
        bad = [weir.answer(weir.ranks[rank], time.monotonic() + 300)['wrong'] for rank in range(2)]
        check(min(bad) > 4900, '%s', bad)
        weir.close()
        rack.stop_switch()


@case
def a_run_that_offloads_nothing_fails():
    program = others()['Open MPI']
    order = {'collective': 'allreduce', 'type': 'fp32', 'total': 5000, 'algorithm': 'default', 'warmup': 0, 'iterations': 1,
             'seed': 1, 'check': 1}
    with systems.LimitedRack(BUILD, 2, 1000, {'job': {'window': 8}}) as rack:
        rack.start_switch()
        rack.job = {'window': 3}  # which the switch refuses
        up = systems.WeirByMpi(rack, program)
        up.run(order, 300)
        fails(up.close, RackError, 'Open MPI + Weir: not on Weir: allreduce')
        rack.stop_switch()


def ran(*words):
    """What the runner writes as JSON, and prints."""
    with tempfile.NamedTemporaryFile(prefix='weir-compare-') as report:
        done = subprocess.run([RUNNER, BUILD, '--quick', '--json=' + report.name, *words], text=True, timeout=800,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        check(done.returncode == 0, '%s', done.stdout)
        return json.load(report), done.stdout


def play(*words):
    with tempfile.TemporaryDirectory(prefix='weir-compare-') as folder:
        found, said = ran('--hosts', '2', '--rate', '1000', '--plots', folder, *words)
        with open(os.path.join(folder, 'compare-allreduce.svg')) as file:
            drawn = file.read()
    check(drawn.startswith('<?xml') and drawn.count('<path') > 5, 'no plot')
    last = re.fullmatch(LAST, said.splitlines()[-1])
    check(last and last.group(1, 2) == ('2', '64 KiB'), 'last line: %s', said)
    return found, last, re.findall('^compare: 2 hosts .* through .*$', said, re.M)


@case
def each_system_is_measured():
    """Weir always, the others where they are installed."""
    try:
        extra = others().keys() & {'PyTorch'}
    except Skip as why:
        print('# %s' % why)
        found, last, _ = play('--collectives', 'allreduce', '--systems')
        check([(p['system'], p['bytes']) for p in found['points']] == [('Weir', 4), ('Weir', 1 << 16)], '%s', found)
        check(0 <= float(last.group(3)) <= 1.3 and last.group(4) == '-.--', '%s', last.group(0))
        return
    found, last, through = play('--collectives', 'allreduce', 'broadcast')
    for collective in ('allreduce', 'broadcast'):
        seen = {p['system'] for p in found['points'] if p['collective'] == collective}
        check(seen == {'Weir', 'Open MPI', 'Open MPI + Weir', 'Gloo'} | (extra if collective == 'allreduce' else set()), '%s',
              found)
    for line, words in zip(through, ['MPI: .* x plain Open MPI'] + ['torch: .* x gloo'] * len(extra)):
        check(re.fullmatch(r'compare: 2 hosts 64 KiB through ' + words, line), '%s', through)
    check(float(last.group(4)) > 0 and len(through) == 1 + len(extra), '%s', last.group(0))


@case
def hosts_may_have_several_ranks():
    others()
    found, _, through = play('--per-host', '2', '--collectives', 'allreduce', '--sizes', '64K')
    check({p['system'] for p in found['points']} == {'Open MPI', systems.WITH_WEIR, systems.FLAT}, '%s', found)
    check(through[0].startswith('compare: 2 hosts 64 KiB through MPI: '), '%s', through)


@case
def two_racks_are_measured():
    """Each byte crosses the thin link once with the tree, and as often as the algorithm says with the others."""
    others()
    points, said = ran('--hosts', '--racks', '2', '--rack-rate', '1000', '--sizes', '256K', '--systems', 'gloo')
    found = {(p['system'], p['algorithm'], p['order']): p['crossed'] / p['bytes'] for p in points['racks']}
    check(len(found) == 1 + 2 * 3, '%s', found)
    # 8250 bytes for 8192; on a busy machine up to as much again is repeated.
    check(1.0 < found['Weir', 'default', None] < 1.75, '%s', found)
    check(1.75 < found['Gloo', 'ring', racks.BY_RACK] < 3.5 and 7 < found['Gloo', 'ring', racks.DEALT] < 14, '%s', found)
    check(re.fullmatch(r'compare: 2 racks of 4 hosts 256 KiB: \d+\.\d\d x the best other', said.splitlines()[-1]), '%s', said)


@case
def an_interruption_leaves_nothing():
    run = subprocess.Popen([RUNNER, BUILD, '--hosts', '2', '--sizes', '64M', '--collectives', 'allreduce', '--systems'], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = ''
    try:
        while 'up are' not in said:
            line = run.stdout.readline()
            check(line, 'ended: %s', said)
            said += line
    finally:
        run.terminate()
    rest, _ = run.communicate(timeout=800)
    check(run.returncode == 128 + signal.SIGTERM and 'interrupted' in rest, '%d: %s', run.returncode, rest)
    name = 'weir-%d-' % run.pid
    left = [n for n in os.listdir('/run/netns') if n.startswith(name)]
    check(not left, 'namespaces: %s', left)
    left = subprocess.run(['pgrep', '-f', name], text=True, stdout=subprocess.PIPE, check=False).stdout
    check(not left, 'processes: %s', left)


if __name__ == '__main__':
    main()
