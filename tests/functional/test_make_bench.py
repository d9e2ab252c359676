#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make bench with a weir-bench that only pretends: files, figures; benches that fail, hang
or are interrupted; huge pages."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from tap import case, check, main, wait_for

APPS_BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'bench')
sys.path.insert(0, os.path.abspath(APPS_BENCH))

# Does with each bench what its environment says. An engine's record has
# the parameters that were asked for, all combinations of them.
FAKE = r'''#!/usr/bin/python3
import itertools, json, os, signal, sys, time
words = [w for w in sys.argv[1:] if w not in ('--authenticate', '--late', '--count')]
name, options, tags = words[0], dict(zip(words[1::2], words[2::2])), '--authenticate' in sys.argv
do = dict(w.split('=') for w in os.environ.get('FAKE', '').split()).get(name, 'work')
print('# table of ' + name)
sys.stdout.flush()
if do == 'forbid' and '--over' in options:
    print('weir-bench: ports need root', file=sys.stderr)
    sys.exit(2)
if do == 'hang':
    open(os.environ['FAKE_PID'], 'w').write(str(os.getpid()))
    signal.pause()
def values(option, default):
    low, dots, high = options.get(option, default).partition('..')
    if not dots:
        return [int(v) for v in low.split(',')]
    return [2 ** n for n in range(20) if int(low) <= 2 ** n <= int(high)]
records = []
if name == 'engine':
    for t, w, e, j in itertools.product(values('--threads', '20'), values('--window', '64'),
                                        values('--elements', '64'), values('--jobs', '1')):
        for kind in [options['--type']] if '--type' in options else ['int32', 'fp32']:
            ratio = float(os.environ.get('FAKE_RATIO', '0.95'))
            records.append({'bench': name, 'lcores': 1, 'sources': values('--sources', '8')[0], 'jobs': j,
                            'order': options.get('--order', 'runs'), 'late': '--late' in sys.argv, 'kway': 160.0,
                            'loss': int(options.get('--loss', 0)), 'ordinary': int(options.get('--ordinary', 0)),
                            'counter': 'callgrind' if '--count' in sys.argv else None,
                            'instructions': 300.0 + e if '--count' in sys.argv else None, 'threads': t, 'window': w, 'elements': e,
                            'type': kind, 'huge_pages': False, 'results': options.get('--results', 'unicast'),
                            'payload': 100.0 + t, 'rate': (100.0 + t) / (2 if j > 8 or '--late' in sys.argv else 1), 'bare': (100.0 + t) / ratio})
            if tags:
                records.append(dict(records[-1], authenticated=True, payload=90.0, plain=100.0 + t))
if do != 'nothing':
    json.dump(records, open(options['--json'], 'w'))
if do == 'fail':
    print('one\ntwo: went wrong', file=sys.stderr)
    sys.exit(1)
'''


BENCHES = ['engine', 'tree', 'hash', 'kernels', 'ports', 'latency', 'rfc2544', 'hosts']


class Made:
    """bench.py with the fake, in a folder that is removed afterwards."""

    def __enter__(self):
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
            out = process.communicate(timeout=800)[0]
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
def files_and_figures():
    with Made() as made:
        out = made.run()
        names = set(os.listdir(made.path('out')))
        wanted = {'all.json', 'machine.json'} | {bench + end for bench in BENCHES for end in ('.json', '.txt')}
        check(names == wanted, 'files %s', sorted(names ^ wanted))
        check(made.json('all.json') == made.json('engine.json') != [], 'all.json differs')
        with open(made.path('out', 'engine.txt')) as file:
            check(file.read().count('# table of engine') == 15, 'tables of engine')
        check(re.search(r'engine, int32, 1024 elements, unicast +120\.0 Gbit/s +126\.3 Gbit/s +0\.950  '
                        r'ratio >= 0\.90 +met', out), 'figures:\n%s', out)
        check(re.search(r'engine, fp32, 64 elements, multicast +120\.0 Gbit/s', out), '%s', out)
        check(re.search(r'16 threads beside 1, fp32, 64 elements +116\.0 Mpps +101\.0 Mpps +1\.149',
                        out), 'figures:\n%s', out)
        check(re.search(r'authenticated beside plain, 1024 elements +90\.00 Gbit/s +120\.0 Gbit/s +0\.750', out), '%s', out)
        check(re.search(r'16 threads beside 1, int32, 64 elements +116\.0 Mpps', out), '%s', out)
        for line in (r'instructions, int32, 64 elements, unicast +364\.0 +- +- +<= 400 +met',
                     r'instructions, int32, 1024 elements, multicast +1324 +- +- +<= 480 +not met',
                     r'8 jobs beside 1, 64 elements +120\.0 Mpps +120\.0 Mpps +1\.000  ratio >= 0\.90 +met',
                     r'64 jobs beside 1, 1024 elements +60\.00 Mpps +120\.0 Mpps +0\.500  ratio >= 0\.90 +not met',
                     r'256 sources, 256 elements +120\.0 Mpps +120\.0 Mpps +1\.000  - *\n',
                     r'a late source, 64 elements +60\.00 Mpps +120\.0 Mpps +0\.500  - *\n',
                     r'bare k-way, int32, 1024 elements, unicast +120\.0 Gbit/s +160\.0 Gbit/s +0\.750  ratio >= 0\.85 +not met'):
            check(re.search(line, out), 'no %s:\n%s', line, out)
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
    record = {'bench': 'ports', 'elements': 1024, 'results': 'unicast', 'over': 'memif', 'wire': 20.0}
    for disturbed, bound, ratio, verdict in (
            (True, False, 2.0, 'disturbed'), (False, False, 2.0, 'met'),
            (False, True, 2.0, 'met, generator-bound'), (False, True, 0.5, 'not met')):
        record.update(disturbed=disturbed, generator_bound=bound, wire_testpmd=20.0 / ratio)
        rows = figures.figures([record], {'ports'})
        found = {r.name: r.met for r in rows}
        check(found.pop('ports, 1024 elements, unicast') == verdict, '%s', rows)
        check(len(found) == 3 and set(found.values()) == {'not measured'}, '%s', found)


@case
def a_machine_that_cannot_is_not_judged():
    import figures
    record = {'bench': 'engine', 'lcores': 1, 'sources': 8, 'window': 64, 'threads': 20, 'elements': 1024,
              'huge_pages': True, 'payload': 80.0, 'order': 'runs', **figures.ALONE}
    for limit, disturbed, verdict in ((100.0, False, 'not judged'), (120.0, False, 'not met'),
                                      (120.0, True, 'disturbed')):
        record.update(bare=limit, disturbed=disturbed)
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
        out = made.run('ports', FAKE='ports=forbid')
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
            wait_for(lambda: os.path.exists(made.path('pid')) and os.path.getsize(made.path('pid')),
                     'it does not start')
            process.send_signal(number)
            out = process.communicate(timeout=800)[0]
            check(process.returncode == 128 + number and 'interrupted' in out, 'it says:\n%s', out)
            check(gone(made.path('pid')), 'it goes on')


@case
def only_known_benches():
    with Made() as made:
        out = made.run('engine', 'hasch', status=2)
        check('no bench hasch; there are: ' + ' '.join(BENCHES) in out, 'it says:\n%s', out)


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


if __name__ == '__main__':
    main()
