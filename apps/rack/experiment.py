# SPDX-License-Identifier: BSD-3-Clause
"""What experiments on racks have in common, which measure for minutes: what they say meanwhile, and what
they leave behind as figures, plots and tables."""
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'bench'))

from plots import svg  # noqa: E402 (the path comes first)
from rack import RackError  # noqa: E402


class Teller:
    """A line for each thing that is done, with the time that it took and, where that is known, will take."""

    def __init__(self, name, seconds=None):
        self.began, self.name = time.monotonic(), name
        self.of = '' if seconds is None else ' of about %.0f s' % seconds

    def say(self, text):
        print('%s: [%5.1f s%s] %s' % (self.name, time.monotonic() - self.began, self.of, text),
              flush=True)

    def warn(self, machine):
        """Of a machine that is not quiet."""
        if machine['load_before'] > 0.5:
            self.say('other processes are busy on this machine (load %.1f): the figures will be worse'
                     % machine['load_before'])


def draw(plots, machine, folder):
    """Draw these into SVG files. Returns their names."""
    subtitle = '%s, %d CPUs for hosts and switch, Linux %s' % (machine['cpu'], machine['cpus'],
                                                              machine['kernel'])
    os.makedirs(folder, exist_ok=True)
    made = []
    for plot in plots:
        path = os.path.join(folder, plot.name + '.svg')
        wrong = svg(plot, subtitle, path)
        if wrong:
            raise RackError(wrong)
        made.append(path)
    return made


def renew(page, tables):
    """Replace a page's tables, by name: the code after a line `<!-- NAME -->`."""
    with open(page) as file:
        text = file.read()
    for name, table in tables.items():
        text, count = re.subn(r'(<!-- %s -->\n```\n).*?(?=```)' % re.escape(name),
                              lambda found, table=table: found.group(1) + table + '\n', text,
                              flags=re.S)
        if count != 1:
            raise RackError('%s has %d places for the table %s' % (page, count, name))
    with open(page, 'w') as file:
        file.write(text)


def keep(chosen, found, plots, tables, teller):
    """Write what was asked for: chosen.json, chosen.plots, chosen.page. plots: a function that makes them of what
    was found; tables: by their names in the page."""
    if chosen.json:
        os.makedirs(os.path.dirname(os.path.abspath(chosen.json)), exist_ok=True)
        with open(chosen.json, 'w') as file:
            json.dump(found, file, indent=1)
            file.write('\n')
        teller.say('figures in ' + chosen.json)
    if chosen.plots:
        for path in draw(plots(found), found['machine'], chosen.plots):
            teller.say('drawn ' + path)
    if chosen.page:
        renew(chosen.page, tables)
        teller.say('tables in ' + chosen.page)
