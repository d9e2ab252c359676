# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that sum step after step, as training does: weir-faults-host on the hosts of a rack or tree."""
import json
import os
import re

from tap import check

STEPS = 300


class Loops:
    """weir-faults-host on the first hosts, with its options: in job 1, by its addresses; or with `control`, in the job of
    the control API that `name` says. key: of an authenticated job, in hexadecimal digits."""

    def __init__(self, rack, hosts, steps=STEPS, control=None, name='1', **options):
        self.rack, self.control, self.name = rack, control, name
        self.options = dict({'steps': steps, 'count': 700, 'in_place': 1, 'pause_us': 3000, 'timeout_ms': 3000,
                             'join_ms': 200000}, **options)
        self.runs = [self.start(host) for host in range(hosts)]

    def start(self, host, **more):
        switch = self.rack.at(host)[0]
        options = dict(self.options, **more)
        if 'key' in options:
            path = os.path.join(switch.folder, 'loop%d.key' % host)
            with open(path, 'w') as file:
                file.write(options['key'])
            options['key'] = path
        words = ['--%s=%s' % (name.replace('_', '-'), value) for name, value in options.items()]
        return self.rack.spawn(host, [
            os.path.join(self.rack.build, 'apps', 'faults', 'weir-faults-host'), '--switch',
            self.control or switch.switch_address, '--address', self.rack.address(host), '--source', str(host), '--job',
            self.name] + words, 'loop')

    def reach(self, step, hosts=None):
        for host in range(len(self.runs)) if hosts is None else hosts:
            self.runs[host].wait_line('at %d' % step, 30)

    def finish(self, hosts=None, seconds=60):
        """Each ends well. Returns what they said."""
        return [said(self.runs[host].wait(seconds))
                for host in (range(len(self.runs)) if hosts is None else hosts)]


def said(output):
    found = json.loads(re.search(r'^end: (.*)$', output, re.M).group(1))
    check(found['wrong'] == 0, 'a wrong sum: %s', output)
    found['generations'] = [int(g) for g in re.findall(r'^generation: (\d+)', output, re.M)]
    found['failures'] = re.findall(r'^failed: (.*)$', output, re.M)
    nap = re.search(r'^nap: (.*)$', output, re.M)
    found['nap'] = json.loads(nap.group(1)) if nap else None
    return found
