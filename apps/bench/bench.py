#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every figure of docs/benchmarks.md on this machine, in a few minutes.

    bench.py [--weir-bench PATH] [--out FOLDER] [--huge auto|no] [--bound TIME] BUILD [BENCH...]

Runs a selection of each bench of weir-bench (or only of those named), one after the other, each within a bound of time, and
writes into BUILD/bench (or FOLDER), as docs/benchmarks.md says.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'rack'))

from command_line import span  # noqa: E402 (the path comes first)
from experiment import Teller, machine, table, write_json  # noqa: E402
from figures import figure_lines, figures  # noqa: E402
from rack import catch_signals, sweep  # noqa: E402
from report import number_in  # noqa: E402

NR_HUGEPAGES = '/proc/sys/vm/nr_hugepages'
FREE_PAGES = '/proc/meminfo', r'HugePages_Free:\s+(\d+)'
HUGE_PAGES = 768  # of 2 MiB: what the largest bench takes
HUGE_SHARE = 0.5  # of the memory that is free, at most
ERROR_LINES = 8  # of a failed bench that are shown


def lcores():
    """The largest power of two that this machine has CPUs for."""
    return 1 << (min(len(os.sched_getaffinity(0)), 16).bit_length() - 1)


POINTS = ['--elements', '64,256,1024', '--type', 'int32']

# Bench, what is varied, options, seconds that it takes on two CPUs. Three times as long and 20 s
# more are the bound.
SELECTION = [
    ('engine', 'elements', ['--elements', '32..2048', '--repeat', '7'], 6),
    ('engine', 'elements', ['--elements', '32..2048', '--repeat', '7',
                            '--results', 'multicast'], 6),
    ('engine', 'threads', ['--threads', '1,2,4,8,16,20,32,64', '--elements', '64,256,1024',
                           '--type', 'fp32'], 7),
    ('engine', 'window', ['--window', '8..512', '--elements', '64,256,1024', '--type', 'fp32'],
     7),
    ('engine', 'sources', ['--sources', '2..64', '--elements', '64,1024', '--type', 'fp32'], 4),
    ('engine', 'tags', ['--authenticate', '--elements', '64,256,1024', '--type', 'fp32'], 2),
    ('engine', 'jobs', ['--jobs', '1,8,64'] + POINTS, 2),
    ('engine', 'instructions', ['--count', '--order', 'block'] + POINTS, 20),
    ('engine', 'instructions', ['--count', '--order', 'block', '--results', 'multicast'] + POINTS, 20),
    ('engine', 'lcores', ['--lcores', '1..%d' % lcores(), '--far', '0,50', '--type', 'int32'],
     3 * lcores().bit_length()),
    ('tree', 'elements', ['--repeat', '3'], 25),
    ('hash', 'records', ['--records', '1k,8k,64k,256k,1M', '--load', '50'], 6),
    ('hash', 'load', ['--records', '1M', '--load', '90'], 3),
    ('kernels', 'types and operations', ['--repeat', '3', '--phase', '2'], 12),
    ('ports', 'elements and frames', ['--repeat', '3'], 10),
    ('latency', 'load', ['--elements', '1024', '--loads', '0,50,80,95', '--repeat', '3'], 15),
    ('rfc2544', 'frames', ['--frames', '64,256,512,1024,1518', '--resolution', '5'], 25),
    ('hosts', 'end to end', ['--hosts', '2', '--sizes', '4,64K,1M', '--repeat', '1'], 25),
]


def write_pages(pages):
    with contextlib.suppress(OSError), open(NR_HUGEPAGES, 'w') as file:
        file.write('%d\n' % pages)
        return True
    return False


@contextlib.contextmanager
def huge_pages(wanted):
    """Huge pages for the run, where this process may reserve some; as before afterwards."""
    before, free = number_in(NR_HUGEPAGES), number_in(*FREE_PAGES)
    spare = number_in('/proc/meminfo', r'MemAvailable:\s+(\d+)') * 1024
    size = number_in('/proc/meminfo', r'Hugepagesize:\s+(\d+)') * 1024
    more = min(HUGE_PAGES - free, int(spare * HUGE_SHARE / size) if size else 0)
    changed = wanted and size == 2 << 20 and more > 0 and write_pages(before + more)
    try:
        yield
    finally:
        if changed:
            write_pages(before)


def last_lines(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()][-ERROR_LINES:]


class Run:
    """One run of a bench: its records, and what went wrong."""

    def __init__(self, program, selected, folder, huge, bound):
        self.bench, self.varied, self.options, self.seconds = selected
        self.bound = bound or 3 * self.seconds + 20
        self.file = os.path.join(folder, 'run.json')
        self.command = [program, self.bench] + self.options + ['--json=' + self.file] + (
            [] if self.bench == 'hosts' else ['--huge', huge])
        self.records, self.wrong, self.left_out = [], None, None

    def run(self):
        status = None
        try:
            # A bench that is killed takes its devices along, and leaves files.
            done = subprocess.run(self.command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors='replace', timeout=self.bound, check=False)
            status, self.table, self.said = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            self.wrong = 'not done after %g s' % self.bound
            self.table, self.said = [(text or b'').decode(errors='replace') for text in (late.stdout, late.stderr)]
        finally:
            sweep()
        if status == 2 and self.bench == 'hosts':  # where it may not run
            self.left_out = ' '.join(last_lines(self.said)[-1:])
            return
        if status:
            self.wrong = 'exit status %d' % status
        try:  # the records of a run that failed on the way count, too
            with open(self.file) as file:
                self.records = [dict(record, run=self.varied) for record in json.load(file)]
            os.unlink(self.file)
        except (OSError, ValueError):
            self.wrong = self.wrong or 'wrote no records'


def write_bench(folder, bench, runs):
    """A bench's files, again after each of its runs: an interrupt loses one run only."""
    mine = [r for r in runs if r.bench == bench]
    write_json(os.path.join(folder, bench + '.json'), [r for run in mine for r in run.records])
    with open(os.path.join(folder, bench + '.txt'), 'w') as file:
        for run in mine:
            file.write('$ weir-bench %s\n%s%s\n' % (
                ' '.join([bench] + run.options), run.table,
                '# failed: %s\n' % run.wrong if run.wrong else
                '# left out: %s\n' % run.left_out if run.left_out else ''))


def measure(program, selection, folder, huge, bound, teller):
    """Run all, return the runs. One that failed is told at once."""
    runs = []
    for at, selected in enumerate(selection, 1):
        run = Run(program, selected, folder, huge, bound)
        name = '%s (%s)' % (run.bench, run.varied)
        teller.say('%d of %d: %s, about %.0f s' % (at, len(selection), name, run.seconds))
        run.run()
        runs.append(run)
        write_bench(folder, run.bench, runs)
        if run.left_out:
            teller.say('%s left out: %s' % (name, run.left_out))
        if run.wrong:
            teller.say('\nbench:   | '.join(['%s failed: %s' % (name, run.wrong)] + (
                last_lines(run.said) or last_lines(run.table))))
    return runs


def clean(folder):
    """What an earlier run left would pass for this one's."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(('.json', '.txt')):
            os.unlink(os.path.join(folder, name))


def bench(program, selection, folder, wanted_huge, bound):
    teller = Teller('bench', sum(s[3] for s in selection))
    clean(folder)
    with huge_pages(wanted_huge):
        here = dict(machine(), huge_pages=number_in(*FREE_PAGES) if wanted_huge else 0)
        pages = '%d huge pages' % here['huge_pages'] if here['huge_pages'] else 'pages of 4 KiB'
        teller.say('%s, %d CPUs, %s' % (here['cpu'], here['cpus'], pages))
        teller.warn(here)
        write_json(os.path.join(folder, 'machine.json'), here)
        runs = measure(program, selection, folder, 'auto' if wanted_huge else 'no', bound, teller)
    records = [r for run in runs for r in run.records]
    write_json(os.path.join(folder, 'all.json'), records)
    rows = figures(records, {run.bench for run in runs})
    if rows:
        print('\n'.join(figure_lines(rows, table)), flush=True)
    failed = ['%s (%s)' % (run.bench, run.varied) for run in runs if run.wrong]
    teller.say('%d records in %s' % (len(records), os.path.relpath(folder)))
    print('bench: failed: ' + ', '.join(failed) if failed else 'bench: all benches ran')
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('\n\n')[1].strip())
    parser.add_argument('build')
    parser.add_argument('bench', nargs='*')
    parser.add_argument('--weir-bench')
    parser.add_argument('--out')
    parser.add_argument('--huge', choices=['auto', 'no'], default='auto')
    parser.add_argument('--bound', type=span('s'), help='that a run may take, such as 5min')
    args = parser.parse_args()
    program = args.weir_bench or os.path.join(args.build, 'apps', 'bench', 'weir-bench')
    known = dict.fromkeys(s[0] for s in SELECTION)
    unknown = set(args.bench) - set(known)
    if unknown:
        print('bench: no bench %s; there are: %s' % (', '.join(sorted(unknown)), ' '.join(known)))
        return 2
    catch_signals()
    try:
        return bench(program, [s for s in SELECTION if not args.bench or s[0] in args.bench],
                     os.path.abspath(args.out or os.path.join(args.build, 'bench')),
                     args.huge == 'auto', args.bound)
    except SystemExit:
        print('bench: interrupted; its processes are gone, huge pages are as before')
        raise


if __name__ == '__main__':
    sys.exit(main())
