# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that join through the control API, started as a launcher starts them; and a played API that
they may ask."""
import os
import re
import subprocess

from tap import check
from rack import SWITCH_ADDRESS

BUILD = os.environ['WEIR_BUILD']
PERF = os.path.join(BUILD, 'apps', 'perf', 'weir-perf')
PORT = 8080
SHORT = ('-b', '4K', '-e', '64K', '-f', '4', '-n', '3')
LAUNCHERS = [('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'), ('SLURM_PROCID', 'SLURM_NTASKS'),
             ('RANK', 'WORLD_SIZE'), ('WEIR_RANK', 'WEIR_SIZE'), ('PMI_RANK', 'PMI_SIZE')]


def environment(rank=None, size=None, launcher=3, **more):
    """What a launcher leaves, and nothing of the one that started this test."""
    names = {name for pair in LAUNCHERS for name in pair}
    made = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_') and k not in names}
    if rank is not None:
        made.update(zip(LAUNCHERS[launcher % len(LAUNCHERS)], (str(rank), str(size))))
    made.update(more)
    return made


class Ended:
    def __init__(self, process, seconds=300):
        try:
            self.out, self.err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError('still running after %d s' % seconds) from None
        self.status = process.returncode

    def __str__(self):
        return 'status %s\n%s%s' % (self.status, self.out, self.err)


def start(address, *options, **settings):
    """weir-perf here, as rank 0 of 2 of the job "ring" unless told otherwise."""
    known = dict(rank=0, size=2, WEIR_SWITCH=address, WEIR_JOB='ring')
    known.update(settings)
    return subprocess.Popen([PERF, *SHORT, '--timeout', '60000', *options], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(**known))


def fails(run, *patterns):
    check(run.status == 1, 'not status 1: %s', run)
    check(run.err.count('\n') == 1, 'not a line: %s', run)
    for pattern in patterns:
        check(re.search(pattern, run.err), '"%s" is not in:\n%s', pattern, run)


def error(status, code, key=None, message='so it is', **more):
    return status, {'error': dict(status=status, code=code, key=key, message=message, **more)}


def answer(rank, size, number=1, **more):
    """What the switch says to a member that it takes."""
    made = {'job': number, 'name': 'ring', 'source': rank, 'size': size, 'generation': 0,
            'window': 64, 'elements': 256, 'type': 'fp32', 'op': 'sum', 'timeout_ms': 1000,
            'switch': {'address': SWITCH_ADDRESS, 'udp_port': 12000, 'udp_port_ext': 12001}}
    made.update(more)
    return made


class Members:
    """The members of one job as the control API keeps them."""

    def __init__(self, api, size, name='ring', token=None):
        self.size, self.token, self.now, self.ever = size, token, {}, {}
        api.routes['/v1/status'] = {'name': 'played', 'address': SWITCH_ADDRESS}
        api.routes['/v1/jobs/%s/members' % name] = self.join
        for rank in range(size):
            api.routes['/v1/jobs/%s/members/%d' % (name, rank)] = self.leave

    def trusted(self, handler):
        return not self.token or handler.headers.get('Authorization') == 'Bearer ' + self.token

    def join(self, handler):
        if not self.trusted(handler):
            return error(401, 'unauthorized', message='this token is nobody\'s')
        rank = handler.body['rank']
        self.now[rank] = self.ever[rank] = handler.body
        return answer(rank, self.size, membership=1000 + rank)

    def leave(self, handler):
        if not self.trusted(handler):
            return error(401, 'unauthorized')
        rank, membership = map(int, re.findall(r'[0-9]+', handler.path.rsplit('/', 1)[1]))
        check(membership == 1000 + rank, '%s', handler.path)
        del self.now[rank]
        return {}
