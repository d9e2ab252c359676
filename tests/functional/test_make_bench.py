#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make bench with a weir-bench that only pretends: files, figures; benches that fail, hang or are interrupted; huge pages."""
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

# Does with each bench what its environment says. An engine's records have the parameters that were asked for.
FAKE = r'''#!/usr/bin/python3
import itertools, json, os, signal, sys
words = [w for word in sys.argv[1:] for w in word.split('=', 1) if w not in ('--authenticate', '--count')]
name, options = words[0], dict(zip(words[1::2], words[2::2]))
do = dict(w.split('=') for w in os.environ.get('FAKE', '').split()).get(name, 'work')
print('# table of ' + name, flush=True)
if do == 'forbid':
    print('weir-bench: hosts need root', file=sys.stderr)
    sys.exit(2)
if do == 'hang':
    open(os.environ['FAKE_PID'], 'w').write(str(os.getpid()))
    signal.pause()
def values(option, default):
    low, dots, high = options.get(option, default).partition('..')
    return [2 ** n for n in range(20) if int(low) <= 2 ** n <= int(high)] if dots else [int(v) for v in low.split(',')]
records = []
if name == 'engine':
    for e, j, kind in itertools.product(values('--elements', '64'), values('--jobs', '1'), [options.get('--type', 'int32')]):
        records.append({'bench': name, 'lcores': 1, 'sources': 8, 'window': 64, 'threads': 20, 'jobs': j, 'elements': e, 'type': kind,
                        'order': options.get('--order', 'runs'), 'results': options.get('--results', 'unicast'), 'huge_pages': False,
                        'instructions': 300.0 + e if '--count' in sys.argv else None, 'kway': 160.0, 'payload': 120.0,
                        'rate': 120.0 / (2 if j > 8 else 1), 'bare': 120 / 0.95})
        if '--authenticate' in sys.argv:
            records.append(dict(records[-1], authenticated=True, payload=90.0, plain=120.0))
if do != 'nothing':
    json.dump(records, open(options['--json'], 'w'))
if do == 'fail':
    sys.exit('one\ntwo: went wrong')
'''
BENCHES = ['engine', 'tree', 'hash', 'kernels', 'ports', 'latency', 'rfc2544', 'hosts']


class Made:
    """bench.py with the fake, in a folder that is removed afterwards."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='weir-make-bench-')
        with open(self.path('fake'), 'w') as file:
            file.write(FAKE)
        os.chmod(self.path('fake'), 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, *arguments, fake=''):
        command = [os.path.join(APPS_BENCH, 'bench.py'), '--weir-bench', self.path('fake'), '--out', self.path('out'), '--huge', 'no',
                   'nowhere', *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=dict(os.environ, FAKE=fake, FAKE_PID=self.path('pid')))

    def run(self, *arguments, status=0, fake=''):
        process = self.start(*arguments, fake=fake)
        try:
            out = process.communicate(timeout=800)[0]
        finally:
            process.kill()
        check(process.returncode == status, 'exit status %d, not %d:\n%s', process.returncode, status, out)
        return out

    def gone(self):
        """The process that hangs has ended."""
        with open(self.path('pid')) as file:
            return not os.path.exists('/proc/%s' % file.read())


@case
def files_and_figures():
    with Made() as made:
        out = made.run()
        names = set(os.listdir(made.path('out')))
        wanted = {'all.json', 'machine.json'} | {bench + end for bench in BENCHES for end in ('.json', '.txt')}
        check(names == wanted, 'files %s', sorted(names ^ wanted))
        with open(made.path('out', 'all.json')) as every, open(made.path('out', 'engine.json')) as engine:
            check(json.load(every) == json.load(engine) != [], 'all.json differs')
        for line in (r'engine, int32, 1024 elements, unicast +120\.0 Gbit/s +126\.3 Gbit/s +0\.950  ratio >= 0\.90 +met',
                     r'authenticated beside plain, 1024 elements +90\.00 Gbit/s +120\.0 Gbit/s +0\.750',
                     r'instructions, int32, 64 elements, unicast +364\.0 +- +- +<= 400 +met',
                     r'instructions, int32, 1024 elements, multicast +1324 +- +- +<= 480 +not met',
                     r'8 jobs beside 1, 64 elements +120\.0 Mpps +120\.0 Mpps +1\.000  ratio >= 0\.90 +met',
                     r'64 jobs beside 1, 1024 elements +60\.00 Mpps +120\.0 Mpps +0\.500  ratio >= 0\.90 +not met',
                     r'hash hits, a million records .*not measured'):
            check(re.search(line, out), 'no %s:\n%s', line, out)
        check(out.endswith('bench: all benches ran\n'), 'it says:\n%s', out)


@case
def verdicts():
    import figures
    record = {'bench': 'ports', 'elements': 1024, 'results': 'unicast', 'wire': 20.0}
    for disturbed, bound, ratio, verdict in ((True, False, 2.0, 'disturbed'), (False, False, 2.0, 'met'),
                                             (False, True, 2.0, 'met, generator-bound'), (False, True, 0.5, 'not met')):
        record.update(disturbed=disturbed, generator_bound=bound, wire_testpmd=20.0 / ratio)
        found = {r.name: r.met for r in figures.figures([record], {'ports'})}
        check(found['ports, 1024 elements, unicast'] == verdict, '%s', found)
    record = {'bench': 'engine', 'lcores': 1, 'sources': 8, 'window': 64, 'threads': 20, 'elements': 1024, 'huge_pages': True,
              'payload': 80.0, 'order': 'runs', 'jobs': 1, 'bare': 100.0}
    met = [r.met for r in figures.figures([record], {'engine'}) if r.name.startswith('payload')]
    check(met == ['not judged'], '%s', met)


@case
def a_bench_that_fails_is_told_and_the_rest_goes_on():
    with Made() as made:
        out = made.run(status=1, fake='hash=fail hosts=forbid')
        check('hash (records) failed: exit status 1\nbench:   | one\nbench:   | two: went wrong\n' in out, 'it says:\n%s', out)
        check('hosts (end to end) left out: weir-bench: hosts need root\n' in out, 'it says:\n%s', out)
        check(out.endswith('bench: failed: hash (records), hash (load)\n'), 'it says:\n%s', out)
        check('wrote no records' in made.run('hash', status=1, fake='hash=nothing'), 'silence')
        check(not os.path.exists(made.path('out', 'engine.json')), 'an earlier file stays')
        check('no bench hasch; there are: ' + ' '.join(BENCHES) in made.run('engine', 'hasch', status=2), 'silence')


@case
def a_bench_that_hangs_is_ended():
    with Made() as made:
        out = made.run('hash', 'kernels', '--bound', '5', status=1, fake='hash=hang')
        check('hash (records) failed: not done after 5 s' in out and made.gone(), 'it says:\n%s', out)
        check(os.path.exists(made.path('out', 'kernels.json')), 'the rest did not run')


@case
def an_interrupt_ends_all():
    with Made() as made:
        process = made.start('hash', 'kernels', fake='hash=hang')
        try:
            wait_for(lambda: os.path.exists(made.path('pid')) and os.path.getsize(made.path('pid')), 'it does not start')
        finally:
            process.terminate()
        out = process.communicate(timeout=800)[0]
        check(process.returncode == 128 + signal.SIGTERM and 'interrupted' in out and made.gone(), 'it says:\n%s', out)


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
        with bench.huge_pages(True):
            check(pages() > 7, 'none were reserved')
        check(pages() == 7, 'not given back: %d', pages())


if __name__ == '__main__':
    main()
