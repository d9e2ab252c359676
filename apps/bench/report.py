# SPDX-License-Identifier: BSD-3-Clause
"""What the benches in Python share: options, tables whose rows appear as they are measured, and the same rows as
records, as apps/report/table.h has them."""
import argparse
import contextlib
import glob
import json
import os
import re
import subprocess
import sys
from collections import namedtuple

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', place) for place in ('rack', 'faults')]  # in the source, and installed

import command_line  # noqa: E402 (the path comes first)
from command_line import size, span  # noqa: E402

BUILD = os.environ.get('WEIR_BUILD', 'build')  # weir-bench sets it
SUFFIXES = {'': 1, 'k': 10**3, 'M': 10**6, 'G': 10**9}

# key: of the records; None: not in them. title: None: not in the table. width: the least.
Column = namedtuple('Column', 'key title unit digits width left', defaults=(None, '', 0, 0, False))


def program(*path):
    """A program of this build, or installed beside weir-bench."""
    return next(filter(os.path.exists, (os.path.join(BUILD, 'apps', *path), os.path.join(BUILD, 'bin', path[-1]))), path[-1])


def number(least, most, kind=int):
    """A type for argparse: a number in a range."""
    def read(text):
        unit = text[-1:] if text[-1:] in SUFFIXES and kind is int else ''
        value = kind(text[:len(text) - len(unit)]) * SUFFIXES[unit]
        if not least <= value <= most:
            raise argparse.ArgumentTypeError('%s is not in %.10g..%.10g' % (text, least, most))
        return value
    read.__name__ = 'number'  # in argparse's message
    return read


def numbers(least, most):
    """The same for a list: 64,256,1024, or 8..4096 for the powers of two in between."""
    one = number(least, most)

    def read(text):
        first, dots, last = text.partition('..')
        return [2**n for n in range(64) if one(first) <= 2**n <= one(last)] if dots else [one(word) for word in text.split(',')]
    read.__name__ = 'list'
    return read


def engine(bench, path, *options):
    """The records of a run of `weir-bench engine`, which may be an older one."""
    run = subprocess.run([path, 'engine', '--json=-', *map(str, options)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print('weir-bench %s: %s engine fails:\n%s' % (bench, path, run.stderr), end='', file=sys.stderr)
        sys.exit(run.returncode)
    return json.loads(run.stdout)


def number_in(path, pattern=r'(\d+)'):
    """In a file; 0: it has none."""
    with contextlib.suppress(OSError), open(path) as file:
        found = re.search(pattern, file.read())
        return int(found.group(1)) if found else 0
    return 0


def shown(value, unit=''):
    """A number with the digits that count."""
    if value is None:
        return '-'
    return ('%.*f %s' % (0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3, value, unit)).strip()


def scheduled(pid, field=0):
    """Seconds that the threads of a process have run; field 1: were ready and had no CPU (proc, sched-stats.rst)."""
    total = 0
    for path in glob.glob('/proc/%d/task/*/schedstat' % pid):
        with contextlib.suppress(OSError), open(path) as file:
            total += int(file.read().split()[field])
    return total / 1e9


class Formatter(argparse.ArgumentDefaultsHelpFormatter):
    def _get_help_string(self, action):
        return super()._get_help_string(action) if action.default else action.help


class Parser(command_line.Parser):
    """argparse, with the default of each option in its help, and the options that every bench has."""

    def __init__(self, bench):
        super().__init__(prog='weir-bench ' + bench, description=os.environ.get('WEIR_BENCH_ABOUT'),
                         formatter_class=Formatter, epilog='docs/benchmarks.md explains the tables')

    def common(self, repeat=5, phase_ms=20, huge=True):
        group = self.add_argument_group('Options of every bench')
        self.add_json(group, 'the records')
        if huge:
            group.add_argument('--huge', choices=('auto', 'yes', 'no'), default='auto', help='use huge pages')
        group.add_argument('--repeat', type=number(1, 99), default=repeat, metavar='N',
                           help='measure each point N times, in turn with its limit; the median counts')
        group.add_argument('--phase', dest='phase_ms', type=span('ms', 1, 10000), default='%dms' % phase_ms,
                           metavar='TIME', help='length of a measurement')


class Report:
    """The tables of a bench, and the records of --json."""

    def __init__(self, bench, path):
        self.bench, self.path = bench, path
        self.records, self.columns, self.head = [], [], False

    def note(self, text, *values):
        print('# ' + (text % values if values else text), flush=True)

    def table(self, columns):
        self.columns, self.head = columns, True

    def line(self, mark, texts):
        shown = [(column, text) for column, text in zip(self.columns, texts) if column.title is not None]
        wide = [max(column.width, len(column.title), len(column.unit)) for column, _ in shown]
        print(mark + ' '.join(text.ljust(w) if column.left else text.rjust(w)
                              for (column, text), w in zip(shown, wide)).rstrip(), flush=True)

    def row(self, *cells):
        """A cell for each column: a text, a truth value, or a number; None: not known."""
        if self.head:
            self.line('# ', [column.title or '' for column in self.columns])
            self.line('# ', [column.unit for column in self.columns])
        self.head = False
        self.line('  ', [cell if isinstance(cell, str) else '-' if cell is None else '%.*f' % (column.digits, cell)
                         for column, cell in zip(self.columns, cells)])
        self.records.append(dict({column.key: cell for column, cell in zip(self.columns, cells) if column.key}, bench=self.bench))

    def close(self):
        """Write the records. An exit status."""
        try:
            if self.path:
                command_line.write_json(self.path, self.records)
        except OSError as error:
            print('weir-bench %s: %s' % (self.bench, error), file=sys.stderr)
            return 1
        return 0
