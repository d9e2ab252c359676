# SPDX-License-Identifier: BSD-3-Clause
"""Runs of weir-perf on the hosts of a rack, and what must be true of them."""
import contextlib
import json
import os
import re
import tempfile

from tap import check, wait_for

ELEMENT = 4  # bytes of int32 and fp32


@contextlib.contextmanager
def key_file(text=None):
    """The path of a file with a key, hexadecimal."""
    with tempfile.NamedTemporaryFile('w', prefix='weir-key-') as file:
        file.write((text or os.urandom(32).hex()) + '\n')
        file.flush()
        yield file.name


def report(run):
    with open(run.json) as file:
        return json.load(file)


def shapes(rack, counts):
    """A file of tensors of these element counts."""
    path = os.path.join(rack.folder, 'shapes-%d' % len(os.listdir(rack.folder)))
    with open(path, 'w') as file:
        for number, count in enumerate(counts):
            file.write('t%d %d\n' % (number, count))
    return path


# Of a switch: runs are still under way when a test disturbs them, however quick the machine is.
SLOW = {'seed': 1, 'rules': [{'direction': 'out', 'what': 'result', 'action': 'delay', 'us': 2000}]}
SLOWER = {'rules': [{'direction': 'out', 'what': 'result', 'action': 'delay', 'us': 5000}]}


def start(rack, number, hosts, *options):
    """Start weir-perf on these hosts; source i is on hosts[i]."""
    return [rack.perf(host, number, *options, source=i) for i, host in enumerate(hosts)]


def under_way(rack, runs, number=None):
    """Wait until the switch completes blocks of a job, of its only one by default; no run has ended yet."""
    def complete():
        return sum(j['blocks_complete'] for j in rack.read_stats()['jobs'] if number in (None, j['id']))

    before = complete()
    wait_for(lambda: complete() > before + 100, 'nothing happens: %s', lambda: runs[0].output)
    for run in runs:
        check(run.status is None, '%s: over too soon\n%s', run.name, run.output)


def wait_row(run, size=4096):
    """Wait until the table of a run has a row of so many bytes."""
    wait_for(lambda: re.search(r'^ *%d ' % size, run.output, re.M), 'no row of %d bytes: %s', size,
             lambda: run.output)


def finish(runs, seconds=60):
    """Every run ends, says that nothing was wrong, and its report says the same."""
    for run in runs:
        run.wait(seconds)
    for run in runs:
        rows = report(run)['rows']
        check(rows, '%s: no row in its report', run.name)
        for row in rows:
            check(row['wrong'] == 0, '%s: %s', run.name, row)
    return runs


def reduce(rack, number, hosts, *options, seconds=60):
    return finish(start(rack, number, hosts, *options), seconds)


def beside(begin, change, times):
    """Call change(0), change(1), and so on, until this was done so often while all runs that `begin` starts were under way;
    others begin where they have ended. Every run ends right."""
    runs, done, turn = begin(), 0, 0
    while done < times:
        change(turn)
        turn += 1
        if all(run.status is None for run in runs):
            done += 1
        else:
            finish(runs)
            runs = begin()
    finish(runs)
    print('# %d of %d changes while all ran' % (done, turn))
