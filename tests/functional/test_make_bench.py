#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make bench with a weir-bench that only pretends: files, plots, figures; benches that fail, hang
or are interrupted; huge pages. And weir-bench plan: its arithmetic, from records made here."""
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tap import Skip, case, check, main

BUILD = os.path.abspath(os.environ.get('WEIR_BUILD', 'build'))
WEIR_BENCH = os.path.join(BUILD, 'apps', 'bench', 'weir-bench')
APPS_BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'bench')
sys.path.insert(0, os.path.abspath(APPS_BENCH))

# Says that it has three benches; does with each what its environment says. An engine's record has
# the parameters that were asked for, all combinations of them.
FAKE = r'''#!/usr/bin/python3
import itertools, json, os, sys, time
if sys.argv[1:] == ['--help']:
    print('usage\n\n  engine    x\n  hash      x\n  kernels   x\n' +
          ('  ports     x\n' if 'FAKE_PORTS' in os.environ else ''))
    sys.exit(0)
name, options = sys.argv[1], dict(zip(sys.argv[2::2], sys.argv[3::2]))
do = dict(w.split('=') for w in os.environ.get('FAKE', '').split()).get(name, 'work')
print('# table of ' + name)
sys.stdout.flush()
if do == 'forbid' and '--over' in options:
    print('weir-bench: ports need root', file=sys.stderr)
    sys.exit(2)
if do == 'hang':
    open(os.environ['FAKE_PID'], 'w').write(str(os.getpid()))
    time.sleep(60)
def values(option, default):
    low, dots, high = options.get(option, default).partition('..')
    if not dots:
        return [int(v) for v in low.split(',')]
    return [2 ** n for n in range(20) if int(low) <= 2 ** n <= int(high)]
records = []
if name == 'engine':
    for t, w, e in itertools.product(values('--threads', '20'), values('--window', '64'),
                                     values('--elements', '64')):
        for kind in [options['--type']] if '--type' in options else ['int32', 'fp32']:
            ratio = float(os.environ.get('FAKE_RATIO', '0.95'))
            params = {'lcores': 1, 'sources': 8, 'threads': t, 'window': w, 'elements': e,
                      'type': kind, 'huge_pages': False,
                      'results': options.get('--results', 'unicast')}
            for metric, unit in (('payload', 'Gbit/s'), ('rate', 'Mpps')):
                records.append({'bench': name, 'metric': metric, 'params': params,
                                'value': 100.0 + t, 'unit': unit, 'limit': (100.0 + t) / ratio,
                                'limit_is': 'bare kernel', 'ratio': ratio})
if do != 'nothing':
    json.dump(records, open(options['--json'], 'w'))
if do == 'fail':
    print('one\ntwo: went wrong', file=sys.stderr)
    sys.exit(1)
'''


class Made:
    """bench.py with the fake, in a folder that is removed afterwards."""

    def __enter__(self):
        if shutil.which('gnuplot') is None:
            raise Skip('gnuplot is not installed')
        self.folder = tempfile.mkdtemp(prefix='weir-make-bench-')
        self.fake = self.path('fake')
        with open(self.fake, 'w') as file:
            file.write(FAKE)
        os.chmod(self.fake, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, *arguments, **environment):
        command = [os.path.join(APPS_BENCH, 'bench.py'), '--weir-bench', self.fake, '--out',
                   self.path('out'), '--huge', 'no', 'nowhere'] + list(arguments)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=dict(os.environ, FAKE_PID=self.path('pid'),
                                                    **environment))

    def run(self, *arguments, status=0, **environment):
        process = self.start(*arguments, **environment)
        try:
            out = process.communicate(timeout=120)[0]
        finally:
            process.kill()
        check(process.returncode == status, 'exit status %d, not %d:\n%s', process.returncode,
              status, out)
        return out

    def json(self, name):
        with open(self.path('out', name)) as file:
            return json.load(file)


def gone(path):
    """The process whose number is in the file has ended."""
    with open(path) as file:
        pid = int(file.read())
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@case
def files_plots_and_figures():
    with Made() as made:
        out = made.run()
        names = set(os.listdir(made.path('out')))
        wanted = {'engine.json', 'engine.txt', 'hash.json', 'hash.txt', 'kernels.json',
                  'kernels.txt', 'all.json', 'machine.json', 'engine-elements.svg',
                  'engine-threads.svg', 'engine-window.svg'}
        check(names == wanted, 'files %s', sorted(names ^ wanted))
        check(made.json('all.json') == made.json('engine.json') != [], 'all.json differs')
        with open(made.path('out', 'engine-threads.svg')) as file:
            plot = file.read()
        for text in ('Engine: thread contexts', 'Gbit/s', 'CPUs, Linux', 'pages of 4 KiB',
                     'bare kernel', '1024 elements'):
            check(text in plot, 'the plot lacks %s', text)
        with open(made.path('out', 'engine.txt')) as file:
            check(file.read().count('# table of engine') == 6, 'tables of engine')
        check(re.search(r'engine, int32, 1024 elements, unicast +120\.0 Gbit/s +126\.3 Gbit/s +0\.950  '
                        r'ratio >= 0\.90 +met', out), 'figures:\n%s', out)
        check(re.search(r'engine, fp32, 64 elements, multicast +120\.0 Gbit/s', out), '%s', out)
        check(re.search(r'16 threads beside 1, fp32, 64 elements +116\.0 Mpps +101\.0 Mpps +1\.149',
                        out), 'figures:\n%s', out)
        check(re.search(r'16 threads beside 1, int32, 64 elements +116\.0 Mpps', out), '%s', out)
        check(re.search(r'hash hits, a million records .*not measured', out), 'figures:\n%s', out)
        check(out.endswith('bench: all benches ran\n'), 'it says:\n%s', out)


@case
def an_aim_that_is_not_met_is_no_failure():
    with Made() as made:
        out = made.run('engine', FAKE_RATIO='0.5')
        check(re.search(r'engine, fp32, 64 elements, .* 0\.500  ratio >= 0\.55 +not met', out),
              'figures:\n%s', out)


@case
def what_was_disturbed_is_not_judged():
    import figures
    record = {'bench': 'ports', 'metric': 'wire', 'value': 2e9, 'limit': 1e9, 'ratio': 2.0,
              'unit': 'byte/s', 'params': {'elements': 1024, 'results': 'unicast', 'over': 'memif'}}
    for disturbed, bound, ratio, verdict in (
            (True, False, 2.0, 'disturbed'), (False, False, 2.0, 'met'),
            (False, True, 2.0, 'met, generator-bound'), (False, True, 0.5, 'not met')):
        record['observed'] = {'disturbed': disturbed, 'generator_bound': bound}
        record['ratio'] = ratio
        rows = figures.figures([record], {'ports'})
        check([r.met for r in rows] == [verdict, 'not measured'], '%s', [r.met for r in rows])


@case
def a_machine_that_cannot_is_not_judged():
    import figures
    record = {'bench': 'engine', 'metric': 'payload', 'unit': 'Gbit/s', 'value': 80.0, 'ratio': 0.8,
              'params': {'lcores': 1, 'sources': 8, 'window': 64, 'threads': 20, 'elements': 1024,
                         'huge_pages': True}}
    for limit, disturbed, verdict in ((100.0, False, 'not judged'), (120.0, False, 'not met'),
                                      (120.0, True, 'disturbed')):
        record['limit'] = limit
        record['observed'] = {'disturbed': disturbed}
        met = [r.met for r in figures.figures([record], {'engine'}) if r.name.startswith('payload')]
        check(met == [verdict], '%s', met)


@case
def a_bench_that_fails_is_told_and_the_rest_goes_on():
    with Made() as made:
        out = made.run(FAKE='hash=fail', status=1)
        check('hash (records) failed: exit status 1\nbench:   | one\nbench:   | two: went wrong\n'
              in out, 'it says:\n%s', out)
        check('# table of kernels' in open(made.path('out', 'kernels.txt')).read(), 'no kernels')
        check(out.endswith('bench: failed: hash (records), hash (load)\n'), 'it says:\n%s', out)
        out = made.run('hash', FAKE='hash=nothing', status=1)
        check('wrote no records' in out, 'it says:\n%s', out)
        check(not os.path.exists(made.path('out', 'engine.json')), 'an earlier file stays')


@case
def what_needs_root_is_left_out_without_it():
    with Made() as made:
        out = made.run('ports', FAKE='ports=forbid', FAKE_PORTS='')
        check('ports (af_packet) left out: weir-bench: ports need root\n' in out, 'it says:\n%s', out)
        check(out.endswith('bench: all benches ran\n'), 'it says:\n%s', out)
        with open(made.path('out', 'ports.txt')) as file:
            check('# left out: weir-bench: ports need root' in file.read(), 'silence')


@case
def a_bench_that_hangs_is_ended():
    with Made() as made:
        out = made.run('hash', 'kernels', '--bound', '5', FAKE='hash=hang', status=1)
        check('hash (records) failed: not done after 5 s' in out, 'it says:\n%s', out)
        check(gone(made.path('pid')), 'it goes on')
        check(os.path.exists(made.path('out', 'kernels.json')), 'the rest did not run')


@case
def an_interrupt_ends_all():
    for number in (signal.SIGINT, signal.SIGTERM):
        with Made() as made:
            process = made.start('hash', 'kernels', FAKE='hash=hang')
            until = time.monotonic() + 10
            while not os.path.exists(made.path('pid')) or not os.path.getsize(made.path('pid')):
                check(time.monotonic() < until, 'it does not start')
                time.sleep(0.05)
            process.send_signal(number)
            out = process.communicate(timeout=120)[0]
            check(process.returncode == 130 and 'interrupted' in out, 'it says:\n%s', out)
            check(gone(made.path('pid')), 'it goes on')


@case
def only_known_benches():
    with Made() as made:
        out = made.run('engine', 'hasch', status=2)
        check('no bench hasch; there are: engine hash kernels' in out, 'it says:\n%s', out)


@case
def huge_pages_are_given_back():
    import bench
    with tempfile.NamedTemporaryFile('w+') as file:
        def pages():
            file.seek(0)
            return int(file.read())

        file.write('7\n')
        file.flush()
        bench.NR_HUGEPAGES, bench.HUGE_PAGES = file.name, 1 << 20
        try:
            with bench.HugePages(True):
                check(pages() > 7, 'none were reserved')
                raise ValueError
        except ValueError:
            pass
        check(pages() == 7, 'not given back: %d', pages())
        with bench.HugePages(False):
            check(pages() == 7, 'reserved unasked')


def plan(*options, status=0):
    """(records by metric, output) of weir-bench plan, with costs that are given."""
    given = [] if '--contribution-ns' in options else ['--contribution-ns', '300']
    given += [] if '--hop-ns' in options else ['--hop-ns', '80']
    run = subprocess.run([WEIR_BENCH, 'plan', '--json', '-'] + given + list(options),
                         capture_output=True, text=True, timeout=120, check=False)
    check(run.returncode == status, 'exit status %d, not %d:\n%s', run.returncode, status, run.stderr)
    found = json.loads(run.stdout) if run.stdout else []
    return {r['metric']: r['value'] for r in found}, run.stderr


def expected(hosts, rate, elements, cost, hop, port=60, load=0.8, rtt=100):
    """The formula again, solved by trying all."""
    wire = 54 + 4 * elements + 24
    n = hosts * rate * 1e9 / (8 * wire)
    lcores = min(k for k in range(1, 100)
                 if n * (cost + (1 - 1 / k) * hop + port) * 1e-9 <= load * k)
    blocks = max(rate * rtt * 1e3 / (8 * wire), lcores)
    return {'contributions': n, 'lcores': lcores, 'window': 2 ** math.ceil(math.log2(blocks)),
            'time': cost + (1 - 1 / lcores) * hop + port}


def same(found, wanted):
    for metric, value in wanted.items():
        check(abs(found[metric] - value) <= 1e-4 * value, '%s is %s, not %s', metric,
              found[metric], value)


@case
def a_plan_is_its_formula():
    found, out = plan('--hosts', '16', '--rate', '10')
    same(found, expected(16, 10, 1024, 300, 80))
    check('16 x 10 Gbit/s / (8 x 4174 B) = 4.792 million' in out, 'it says:\n%s', out)
    check('300.0 + 0.667 x 80.0 + 60.0 = 413.3 ns' in out, 'it says:\n%s', out)
    found, _ = plan('--hosts', '8', '--rate', '25', '--elements', '640', '--contribution-ns', '200',
                    '--hop-ns', '10', '--port-ns', '33', '--load', '50', '--rtt-us', '400')
    same(found, expected(8, 25, 640, 200, 10, 33, 0.5, 400))


@case
def a_plan_s_configuration_is_accepted():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'switch.json')
        found, out = plan('--hosts', '60', '--rate', '2', '--sources', '8', '--ports', '3',
                          '--config', path)
        run = subprocess.run([os.path.join(BUILD, 'apps', 'switch', 'weir-switch'), '--check', '-c',
                              path], capture_output=True, text=True, timeout=120, check=False)
        check(run.returncode == 0, 'refused: %s', run.stderr)
        with open(path) as file:
            config = json.load(file)
    check(len(config['jobs']) == 8 and len(config['jobs'][7]['sources']) == 4, 'jobs %s',
          config['jobs'])
    check(len({s['address'] for j in config['jobs'] for s in j['sources']}) == 60, 'addresses')
    check(config['workers']['count'] == found['lcores'], 'workers %s', config['workers'])
    check(config['memory_mb'] == found['memory'] and
          re.search(r'memory +total +[\d.]+ MiB of %d' % found['memory'], out), '%s', out)


@case
def what_does_not_fit_is_said():
    check('16 worker lcores at most' in plan('--hosts', '60', '--rate', '100', status=1)[1], '')
    check('4096 blocks' in plan('--rtt-us', '100000', status=1)[1], '')
    for options in (['--window', '3'], ['--hosts', '64'], ['--sources', '9'], ['--rate', '0'],
                    ['--load', '101']):
        plan(*options, status=2)


@case
def a_plan_measures_by_itself():
    run = subprocess.run([WEIR_BENCH, 'plan', '--hosts', '2', '--rate', '1', '--huge', 'no',
                          '--repeat', '2', '--phase-ms', '3', '--elements', '64', '--hop-ns', '50'],
                         capture_output=True, text=True, timeout=120, check=False)
    if 'no time to measure' in run.stderr:
        raise Skip('the machine is too busy')
    check(run.returncode == 0 and 'measured now' in run.stdout, 'it says:\n%s%s', run.stdout,
          run.stderr)


if __name__ == '__main__':
    main()
