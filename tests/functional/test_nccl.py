#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The plug-in for NCCL, called as NCCL's proxy calls it (nccl_loader.c): each table, all types and operations, aborts."""
import os
import re
import shutil

from tap import case, check, main, seed, wait_for
from mpi import SWITCH, MpiRack

RANKS = 4


def start(rack, scenario, number=1, ranks=RANKS, **changes):
    """A loader on each host. Returns the processes."""
    folder = os.path.join(rack.folder, scenario)
    os.mkdir(folder)
    env = {key: value for key, value in os.environ.items() if not key.startswith('WEIR_')}
    env.update({'WEIR_SWITCH': SWITCH, **changes})
    plugin = rack.program(('nccl', 'libnccl-net-weir.so'))
    loader = os.path.join(rack.build, 'tests', 'functional', 'weir-nccl-loader')
    return [rack.spawn(rank, [loader, plugin, folder, str(rank), str(ranks), str(number), scenario], 'loader', env)
            for rank in range(ranks)]


def finished(processes):
    """Their output, when all have ended well."""
    return [process.wait(60) for process in processes]


# What the ranks of a scenario print


def warned(output):
    """Of other than a long wait: the machine may be busy."""
    return re.search('WARN (?!device_warn)', output)


def aborted(outputs):
    *others, last = outputs
    for output in others:
        check('canceled: buffers' in output and not warned(output), '%s', output)
    check(re.search(r'WARN .*left.*\n(INFO .*\n)*error 6', last), '%s', last)


def killed(outputs):
    for output in outputs:
        check(re.search(r'WARN .*rank 1 .*\n(INFO .*\n)*error 6', output), '%s', output)


def absent(outputs):
    for output in outputs:
        check(re.search('WARN .*no CollNet: job .*\nconnect 2', output), '%s', output)


def worked(outputs):
    for output in outputs:
        check(output.count('switch %s, by interface eth0' % SWITCH) == 1 and not warned(output), '%s', output)


@case
def tables_and_failures():
    """Tables 8 to 12 with two communicators, 8 steps in flight, all types and operations; messages from host to host, past
    strangers that connect first. At the same time other programs abort with steps in flight, lose a rank, and wait for one
    that never comes."""
    draw = seed()
    with MpiRack(hosts=RANKS) as rack:
        rack.start_switch()
        # Members that are silent for so long are gone.
        failing = start(rack, 'killed', draw.getrandbits(63), WEIR_SETTINGS='expire_s=5')
        for process in failing:
            process.wait_line('running', 60)
        failing.pop(1).kill()
        aborting = start(rack, 'aborted', draw.getrandbits(63))
        alone = start(rack, 'absent', draw.getrandbits(63), WEIR_NCCL_TIMEOUT_S='1')
        working = start(rack, 'all', draw.getrandbits(63))
        worked(finished(start(rack, 'messages', draw.getrandbits(63))))
        for output in finished(start(rack, 'large', draw.getrandbits(63))):
            check(output.count('cannot connect: Connection refused') == 3, '%s', output)
            check(len(re.findall(r'WARN .*a message of 0x3e8 bytes for a buffer of (?:0|10):.*\nerror 3', output)) == 2, '%s', output)
        worked(finished(working))
        aborted(finished(aborting))
        absent(finished(alone)[:-1])
        killed(finished(failing))
        wait_for(lambda: not rack.jobs_now(), 'jobs that stay: %s', rack.jobs_now)
        rack.stop_switch()


@case
def no_switch():
    """NCCL continues with its own networks, and the log says why."""
    with MpiRack(hosts=1) as rack:
        rack.start_switch()
        for address, why in (('', 'WEIR_SWITCH is not set'), ('10.77.0.254:8080', 'is no http://'),
                             ('http://10.77.0.254:9', 'refuse')):
            process, = start(rack, 'all', ranks=1, WEIR_SWITCH=address)
            output = process.wait(60)
            check(re.search('not used: .*(%s).*\n(.*\n)*no device\n' % why, output), '%s: %s', address, output)
            shutil.rmtree(os.path.join(rack.folder, 'all'))
        rack.stop_switch()


if __name__ == '__main__':
    main()
