# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that sum step after step, as training does: host_loop on the hosts of a rack or tree."""
import os
import re

from tap import check

STEPS = 300


class Loops:
    """host_loop on the first hosts: in job 1, by its addresses; or with `control`, in the job of the control
    API that `name` says."""

    def __init__(self, rack, hosts, steps=STEPS, control=None, name='1', **options):
        self.rack, self.steps, self.control, self.name = rack, steps, control, name
        self.options = dict({'pause': 3000, 'timeout': 3000, 'join': 200000}, **options)
        self.runs = [self.start(host) for host in range(hosts)]

    def start(self, host, **more):
        words = ['%s=%s' % item for item in dict(self.options, **more).items()]
        program = os.path.join(self.rack.build, 'tests', 'functional', 'weir-host-loop')
        switch = self.control or self.rack.at(host)[0].switch_address
        return self.rack.spawn(host, [program, switch, self.rack.address(host), str(host), self.name, str(self.steps)] +
                               words, 'loop')

    def reach(self, step, hosts=None):
        for host in range(len(self.runs)) if hosts is None else hosts:
            self.runs[host].wait_line('at %d' % step, 30)

    def finish(self, hosts=None, seconds=60):
        """Each ends well. Returns what they said."""
        return [said(self.runs[host].wait(seconds))
                for host in (range(len(self.runs)) if hosts is None else hosts)]


def said(output):
    last = re.search(r'^done: (.*)$', output, re.M).group(1)
    found = {key: int(value) for key, value in (word.split('=') for word in last.split())}
    check(found['wrong'] == 0, 'a wrong sum: %s', output)
    found['generations'] = [int(g) for g in re.findall(r'^generation: (\d+)', output, re.M)]
    found['failures'] = re.findall(r'^failed: (.*)$', output, re.M)
    return found
