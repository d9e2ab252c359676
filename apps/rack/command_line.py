# SPDX-License-Identifier: BSD-3-Clause
"""The command line of the programs in Python, as apps/report/options.h has it for those in C."""
import argparse
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, '..', 'python', 'weir'))  # in the source; installed, the file is here

from _abi import VERSION  # noqa: E402 (the path comes first)

sys.path.pop()  # the package has a module torch

_standard_output = None  # once everything but the JSON goes to standard error
UNITS = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1, 'min': 60, 'h': 3600}  # as in ctrl/api/units.c


def span(unit, least=0, most=float('inf'), kind=int):
    """A type for argparse: a time such as 50ms, or a number in `unit`, in which the result and its range are."""
    def read(text):
        number, word = re.fullmatch(r'([\d.]+)(%s)?' % '|'.join(UNITS), text).groups()
        value = float(number) * UNITS[word or unit] / UNITS[unit]
        value = round(value) if kind is int else value
        if not least <= value <= most:
            raise argparse.ArgumentTypeError('%s is not in %g%s..%g%s' % (text, least, unit, most, unit))
        return value

    def checked(text):
        try:
            return read(text)
        except (AttributeError, ValueError):
            raise argparse.ArgumentTypeError('%s is not a time such as 50ms or 2s' % text) from None
    return checked


def size(text, least=4, most=1 << 30, multiple=4):
    """A type for argparse: bytes; K, M and G are powers of 1024."""
    found = re.fullmatch(r'(\d+)([KMG]?)', text.upper())
    number = int(found.group(1)) << 10 * ' KMG'.index(found.group(2) or ' ') if found else 0
    if not found or not least <= number <= most or number % multiple:
        raise argparse.ArgumentTypeError('%s is not a size like 4, 64K or 1M, a multiple of %d up to %dG' % (
            text, multiple, most >> 30))
    return number


class Parser(argparse.ArgumentParser):
    """argparse with --version, and --json where add_json() is called."""

    def __init__(self, *words, **more):
        super().__init__(*words, allow_abbrev=False, **more)
        self.add_argument('-V', '--version', action='version', version='%s %s' % (self.prog.split()[0], VERSION),
                          help='print the version')

    def format_help(self):
        return super().format_help() + '\nexit status: 0 success, 1 failed, 2 wrong usage or it cannot run here; see weir(7)\n'

    def add_json(self, group=None, what='all figures'):
        """--json: standard output, and all other output goes to standard error; --json=FILE: a file."""
        (group or self).add_argument('--json', metavar='FILE', help='print %s as JSON; --json=FILE: into FILE' % what)

    def parse_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else args
        chosen = super().parse_args(['--json=-' if word == '--json' else word for word in words], namespace)
        global _standard_output
        if getattr(chosen, 'json', None) == '-' and _standard_output is None:
            sys.stdout.flush()
            _standard_output = os.fdopen(os.dup(1), 'w')
            os.dup2(2, 1)
        return chosen


def write_json(path, what):
    """path: of --json."""
    with _standard_output if path == '-' else open(path, 'w') as file:
        json.dump(what, file, indent=1)
        file.write('\n')
