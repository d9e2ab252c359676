# SPDX-License-Identifier: BSD-3-Clause
"""What measuring programs have in common: the machine, progress, tables, and the files they leave behind."""
import os
import platform
import re
import time

from command_line import size, write_json
from plots import svg
from rack import RackError


def machine():
    """What figures depend on."""
    with open('/proc/cpuinfo') as file:
        found = re.search(r'model name\s*:\s*(.+)', file.read())
    cpu = re.sub(r'\((R|TM|tm)\)|CPU(?= @)', '', found.group(1)) if found else 'CPU unknown'
    return {'cpu': re.sub(r'\s+', ' ', cpu).strip(), 'cpus': len(os.sched_getaffinity(0)),
            'kernel': platform.release(), 'load_before': os.getloadavg()[0]}


class Teller:
    """Prints a line for each step, with the time since the beginning and, where known, the expected time."""

    def __init__(self, name, seconds=None):
        self.began, self.name = time.monotonic(), name
        self.of = '' if seconds is None else ' of about %.0f s' % seconds

    def say(self, text):
        print('%s: [%5.1f s%s] %s' % (self.name, time.monotonic() - self.began, self.of, text),
              flush=True)

    def warn(self, here):
        if here['load_before'] > 0.5:
            self.say('other processes are busy on this machine (load %.1f): the figures will be worse'
                     % here['load_before'])


def size_text(bytes_):
    for unit, name in ((1 << 30, 'GiB'), (1 << 20, 'MiB'), (1 << 10, 'KiB')):
        if bytes_ >= unit and bytes_ % unit == 0:
            return '%d %s' % (bytes_ // unit, name)
    return '%d B' % bytes_


def table(heads, groups, left=()):
    """The lines of a table. heads: its header lines, groups: [(title or None, rows)], all rows tuples of text.
    left: numbers of the columns that are aligned left."""
    rows = [row for _, group in groups for row in group]
    wide = [max(map(len, column)) for column in zip(*heads, *rows)]

    def line(mark, row):
        return (mark + '  '.join(cell.ljust(w) if c in left else cell.rjust(w)
                                 for c, (cell, w) in enumerate(zip(row, wide)))).rstrip()

    lines = [line('# ', row) for row in heads]
    for title, group in groups:
        lines += ([] if title is None else ['', '# ' + title]) + [line('  ', row) for row in group]
    return lines


def renew(page, tables):
    """Replace tables of a page by name: the code after a line `<!-- NAME -->`."""
    with open(page) as file:
        text = file.read()
    for name, lines in tables.items():
        text, count = re.subn(r'(<!-- %s -->\n```\n).*?(?=```)' % re.escape(name),
                              lambda found, lines=lines: found.group(1) + lines + '\n', text,
                              flags=re.S)
        if count != 1:
            raise RackError('%s has %d places for the table %s' % (page, count, name))
    with open(page, 'w') as file:
        file.write(text)


def play(name, measure):
    """The exit status of an experiment that needs a rack: measure() says it, or an error is told."""
    if os.getuid() != 0:
        print('%s: needs root, for network namespaces' % name)
        return 2
    try:
        return measure()
    except RackError as error:
        print('%s: failed: %s' % (name, error))
        return 1
    except SystemExit:
        print('%s: interrupted; processes and namespaces are gone' % name, flush=True)
        raise


def add_outputs(parser):
    """The options of what keep() writes."""
    parser.add_json()
    parser.add_argument('--plots', metavar='FOLDER', help='draw SVG files into this folder')
    parser.add_argument('--page', metavar='FILE', help='put the tables into this Markdown page')


def keep(chosen, found, plots, tables, teller):
    """Write what was asked for: chosen.json, chosen.plots, chosen.page. plots: a function that makes them of the
    figures found; tables: by their names in the page."""
    if chosen.json:
        if chosen.json != '-':
            os.makedirs(os.path.dirname(os.path.abspath(chosen.json)), exist_ok=True)
        write_json(chosen.json, found)
        teller.say('figures in ' + chosen.json)
    if chosen.plots:
        os.makedirs(chosen.plots, exist_ok=True)
        subtitle = '%(cpu)s, %(cpus)d CPUs for hosts and switch, Linux %(kernel)s' % found['machine']
        for plot in plots(found):
            path = os.path.join(chosen.plots, plot.name + '.svg')
            wrong = svg(plot, subtitle, path)
            if wrong:
                raise RackError(wrong)
            teller.say('drawn ' + path)
    if chosen.page:
        renew(chosen.page, tables)
        teller.say('tables in ' + chosen.page)
