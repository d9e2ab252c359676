#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per packet of the main paths, counted by callgrind, beside the kept ones.

    tests/instructions/check.py [--build BUILD] [PATH...]      prints TAP; a path is a case
    tests/instructions/check.py [--build BUILD] --renew        writes instructions.json anew

A figure more than 3 % above the kept one is a failure: who wants to pay that renews the file and
says why in the commit. So is one more than 3 % below: note the gain, or it may be lost unseen.

Instructions depend on the compiler and its options, and on the vectors that the CPU has, not on how
busy the machine is: the work is the same every time, also of two workers, which go in step. On a
build for which the numbers were not made every case is skipped, and says why. BUILD is $WEIR_BUILD
or build/.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, 'instructions.json')
BUILD_OPTIONS = ['optimization', 'c_args', 'b_lto', 'b_sanitize', 'b_coverage', 'b_ndebug']
PER_CENT = 3.0
PROCESSES = 2
SECONDS = 120  # of one path; a few on an idle machine
PACKETS = 5000
OPERATIONS = 4096

# One order for good: a block's contributions one after the other.
ENGINE = ['engine', '--frames', '512', '--packets', str(PACKETS), '--isa', 'avx2', '--order', 'block']
HASH = ['hash', '--records', '4000', '--load', '50', '--operations', str(OPERATIONS),
        '--operation']


def engine(*options, elements=64, dtype='int32'):
    return ENGINE + ['--elements', str(elements), '--type', dtype] + list(options)


PATHS = {
    'engine 64': engine(),
    'engine 1024': engine(elements=1024),
    'engine 64, fp32': engine(dtype='fp32'),
    'engine 64, multicast': engine('--results', 'multicast'),
    'engine 64, software checksums': engine('--checksum', 'software'),
    'engine 64, one thread': engine('--threads', '1'),
    'engine 64, order random': engine('--order', 'random'),
    'engine 64, two workers': engine('--lcores', '2', '--far', '50'),
    'engine 64, leaf': engine('--role', 'leaf'),
    'engine 64, spine': engine('--role', 'spine'),
    'forward': engine('--traffic', 'forward', elements=16),
    'hash hit': HASH + ['hit'],
    'hash miss': HASH + ['miss'],
    'hash insert': HASH + ['insert'],
    'hash delete': HASH + ['delete'],
}


class Wrong(Exception):
    """A path could not be counted; says why."""


def introspect(build, what):
    with open(os.path.join(build, 'meson-info', 'intro-%s.json' % what)) as file:
        return json.load(file)


def describe(build):
    """What the numbers depend on, as this build has it."""
    # A gcc 12 is the same compiler in all its updates; so is the DPDK of a release.
    compiler = subprocess.run(compiler_of(build) + ['--version'], text=True, check=True,
                              stdout=subprocess.PIPE).stdout.split('\n', maxsplit=1)[0]
    version = re.search(r'(\d+)\.\d+\.\d+', compiler)
    name = 'clang' if 'clang' in compiler else 'gcc'
    dpdk = next((d['version'] for d in introspect(build, 'dependencies')
                 if d['name'] == 'libdpdk'), 'none')
    found = {
        'compiler': '%s %s' % (name, version.group(1) if version else '?'),
        'dpdk': '.'.join(dpdk.split('.')[:2]),
        'machine': os.uname().machine,
        'vectors': vectors(),
    }
    options = {o['name']: o['value'] for o in introspect(build, 'buildoptions')}
    for name in BUILD_OPTIONS:
        value = options.get(name)
        found[name] = ' '.join(value) if isinstance(value, list) else str(value).lower()
    return found


def compiler_of(build):
    """The compiler's command, of the first C source that the build has."""
    for target in introspect(build, 'targets'):
        for source in target['target_sources']:
            if source.get('language') == 'c':
                return source['compiler']
    raise Wrong('the build has no C source')


def vectors():
    """The widest vectors that valgrind can run here: it knows none of AVX-512."""
    with open('/proc/cpuinfo') as file:
        flags = re.search(r'^flags\s*:(.*)', file.read(), re.M)
    return 'avx2' if flags and 'avx2' in flags.group(1).split() else 'narrower'


def obstacle(kept, build):
    """Why the kept numbers do not hold here, or None."""
    if shutil.which('valgrind') is None:
        return 'valgrind is not installed'
    found = describe(build)
    for key, value in kept.items():
        if found.get(key) != value:
            return 'the numbers hold for %s %s, and this is %s' % (
                key, value or 'none', found.get(key) or 'none')
    return None


def count(build, arguments):
    """Instructions per packet, or per operation, of a path."""
    bench = os.path.join(build, 'apps', 'bench', 'weir-bench')
    with tempfile.TemporaryDirectory(prefix='weir-instructions-') as folder:
        out = os.path.join(folder, 'out')
        command = ['valgrind', '--tool=callgrind', '--instr-atstart=no', '--collect-atstart=no',
                   '--fair-sched=yes', '--callgrind-out-file=' + out, bench] + arguments + ['--huge', 'no']
        try:
            end = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as late:
            raise Wrong('it took longer than %d s' % SECONDS) from late
        text = ''
        if os.path.exists(out):
            with open(out) as file:
                text = file.read()
    packets = re.search(r'^counted (\d+) ', end.stdout, re.M)
    total = re.search(r'^totals: (\d+)', text, re.M)
    if end.returncode != 0 or not packets or not total or int(total.group(1)) == 0:
        raise Wrong('exit status %d, and no count:\n%s' % (end.returncode, end.stdout))
    return int(total.group(1)) / int(packets.group(1))


def judge(kept, found):
    """None, or what is wrong with a figure."""
    if kept is None:
        return 'no number is kept for it'
    change = 100 * (found / kept - 1)
    if change > PER_CENT:
        return '%.1f %% more than kept: mend it, or renew the file and say why' % change
    if change < -PER_CENT:
        return '%.1f %% less than kept: note the gain, renew the file' % -change
    return None


def count_all(build, names):
    """Yield (name, instructions or None, what is wrong) in the order of the names."""
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        jobs = [(name, pool.submit(count, build, PATHS[name])) for name in names]
        for name, job in jobs:
            try:
                yield name, job.result(), None
            except Wrong as why:
                yield name, None, str(why)


def read_kept(path):
    with open(path) as file:
        return json.load(file)


def check(build, names, path):
    kept = read_kept(path)
    print('1..%d' % len(names), flush=True)
    why = obstacle(kept['holds_for'], build)
    if why is not None:
        for number, name in enumerate(names, 1):
            print('ok %d - %s # SKIP %s' % (number, name, why))
        return 0
    failed = 0
    print('# %-32s %9s %9s %8s' % ('instructions per packet', 'kept', 'found', 'change'))
    for number, (name, found, wrong) in enumerate(count_all(build, names), 1):
        before = kept['instructions'].get(name)
        if wrong is None:
            change = '%+.2f %%' % (100 * (found / before - 1)) if before else '-'
            print('# %-32s %9s %9.1f %8s' % (name, before or '-', found, change))
            wrong = judge(before, found)
        failed += wrong is not None
        print('%sok %d - %s' % ('' if wrong is None else 'not ', number, name))
        for line in (wrong or '').splitlines():
            print('# %s' % line)
        sys.stdout.flush()
    if failed:
        print('# to renew: tests/instructions/check.py --build %s --renew' % build)
    return 1 if failed else 0


def renew(build, path):
    if shutil.which('valgrind') is None:
        sys.exit('valgrind is not installed')
    before = read_kept(path)['instructions'] if os.path.exists(path) else {}
    holds = describe(build)
    if holds['b_sanitize'] != 'none':
        sys.exit('not with sanitizers')
    numbers = {}
    for name, found, wrong in count_all(build, list(PATHS)):
        if wrong is not None:
            sys.exit('%s: %s' % (name, wrong))
        numbers[name] = round(found, 1)
        old = before.get(name)
        print('%-32s %9s -> %7.1f %8s' % (
            name, old or '-', found, '%+.2f %%' % (100 * (found / old - 1)) if old else ''),
              flush=True)
    with open(path + '.new', 'w') as file:
        json.dump({'holds_for': holds, 'instructions': numbers}, file, indent=2)
        file.write('\n')
    os.replace(path + '.new', path)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=os.environ.get('WEIR_BUILD', 'build'))
    parser.add_argument('--kept', default=KEPT, help='the file of the numbers')
    parser.add_argument('--renew', action='store_true')
    parser.add_argument('path', nargs='*', metavar='PATH')
    options = parser.parse_args()
    for name in options.path:
        if name not in PATHS:
            parser.error('no path %s; there are: %s' % (name, '; '.join(PATHS)))
    build = os.path.abspath(options.build)
    if options.renew:
        return renew(build, options.kept)
    return check(build, options.path or list(PATHS), options.kept)


if __name__ == '__main__':
    sys.exit(main())
