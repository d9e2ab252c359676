#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make demo on a slow machine: it waits while a run makes progress, and not for ever. Time is pretended."""
import contextlib
import io
import json
import os
import sys

from tap import case, check, main
from rack import RackError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'demo'))
import demo  # noqa: E402 (the path comes first)
import demo_tree  # noqa: E402
from tree import Tree  # noqa: E402


class Run:
    """A process that ends after so many seconds; it makes progress until `stuck`."""
    name = 'perf-job1-0-1'

    def __init__(self, takes, stuck=1 << 30):
        self.now, self.takes, self.stuck = 1000.0, takes, stuck
        self.end = self.now + takes

    @property
    def status(self):
        return 0 if self.now >= self.end else None

    @property
    def output(self):
        return ''.join('row %d\n' % i for i in range(int(self.now - 1000) // 100))

    def pause(self, _seconds):
        self.now += 1

    def follow(self):
        """Returns (exit status or error, output)."""
        demo.slow.clear()
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                outcome = demo.follow(self, lambda: min(self.now - 1000, self.stuck),
                                      lambda: self.now, self.pause)
            except RackError as error:
                outcome = str(error)
        return outcome, said.getvalue()


@case
def a_run_has_the_time_that_it_needs_and_no_more():
    # How long it takes, and after how much it is stuck; the outcome, and lines of its output.
    for takes, stuck, wanted, rows in ((60, 1 << 30, '0', 0), (850, 1 << 30, '0', 8), (850, 80, 'no progress for 70 s', None),
                                       (1 << 20, 1 << 30, 'still running after 901 s; this machine is slow', None)):
        run = Run(takes, stuck)
        outcome, said = run.follow()
        check(wanted in str(outcome), '%s', outcome)
        check(rows is None or said.count('row ') == rows and said.count('this machine is slow (load ') == (rows > 0), '%s', said)
        check(run.now - 1000 < min(stuck + 3 * demo.QUIET_SECONDS, 1000), 'after %g s', run.now - 1000)


@case
def the_configurations_of_the_tree():
    """configs/tree/ has what a tree of this size makes of itself, but for names and comments."""
    tree = Tree(leaves=demo_tree.LEAVES, hosts=demo.HOSTS, spines=demo_tree.SPINES, mtu=demo.MTU)
    tree.add_job(1, elements=2048)
    for switch in tree:
        with open(os.path.join(demo_tree.CONFIGS, switch.label + '.json')) as file:
            found = json.load(file)
        made = switch.config()
        check(found['switch'] == {**made['switch'], 'name': switch.label}, '%s', found['switch'])
        labels = {other.switch_name: other.label for other in tree}
        ports = [{**port, 'neighbor': labels[port['neighbor']]} if 'neighbor' in port else port for port in made['ports']]
        check(found['ports'] == ports, '%s: %s, not %s', switch.label, found['ports'], ports)
        of_file, of_tree = found['jobs'][0], made['jobs'][0]
        check(of_file['timeout_ms'] == of_tree['timeout_ms'], '%s', of_file)
        for entry in of_tree.get('tree', {}).get('parents', []) + of_tree['sources']:
            entry.pop('api', None)
        check(of_file.get('tree') == of_tree.get('tree'), '%s: %s', switch.label, of_file.get('tree'))
        if switch.level > 0:
            check(of_file['sources'] == of_tree['sources'], '%s: %s', switch.label, of_file['sources'])


if __name__ == '__main__':
    main()
