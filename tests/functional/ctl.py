# SPDX-License-Identifier: BSD-3-Clause
"""Runs weirctl for tests of it.

    good(ctl(api.address, 'jobs'))                  # its output; it has to succeed
    says(ctl(api.address, 'job', 'x'), 1, 'pattern')
"""
import os
import re
import subprocess

from tap import check

WEIRCTL = os.path.join(os.environ['WEIR_BUILD'], 'apps', 'ctl', 'weirctl')
# What only reads, and ends by itself.
READ = ['status', 'health', 'ports', 'jobs', 'job ring', 'members ring', 'blocks', 'blocks --stuck',
        'counters', 'config', 'tenants', 'faults']


class Ended:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __str__(self):
        return 'status %s\n%s%s' % (self.status, self.out, self.err)


def ctl(address, *words, columns=0, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_') and k != 'COLUMNS'}
    env.update(LC_ALL='C.UTF-8', **environment)
    if columns:
        env['COLUMNS'] = str(columns)
    if address:
        env['WEIR_SWITCH'] = address
    # The machine may be busy; a later --timeout counts.
    run = subprocess.run([WEIRCTL, '--timeout', '100s', *words], env=env, stdin=subprocess.DEVNULL, timeout=300,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return Ended(run.returncode, run.stdout.decode(), run.stderr.decode())


def good(run):
    check(run.status == 0 and not run.err, '%s', run)
    return run.out


def says(run, status, *patterns):
    check(run.status == status, 'not status %d: %s', status, run)
    for pattern in patterns:
        check(re.search(pattern, run.out + run.err, re.M), '"%s" is not in:\n%s', pattern, run)
    return run
