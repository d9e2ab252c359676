#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hosts whose transport is `dpdk`, over memif: weir-perf, the Python package and the MPI component as they are, what they compute
beside hosts on UDP sockets, and what is said when something is missing."""
import json
import os
import re
import shutil
import signal
import subprocess

from tap import Skip, case, check, main, wait_for
from libweir import environment as sanitized
from libweir import path
from memif import MemifRack
from mpi import MpiRack, mpirun
from rack import ROOT, SWITCH_MAC, Rack, job

PERF = ['--switch', '10.77.0.254', '--job', '1', '--sources', '2', '--timeout', '60000']
FEW = ('-b', '64K', '-e', '64K')


class MpiMemif(MemifRack, MpiRack):
    """Both: the first network of its hosts leads nowhere."""


def measure(rack, *options, seconds=120):
    """The reports of two hosts, of which all elements are right."""
    runs = [rack.perf(host, 1, *options, '--timeout', 60000) for host in range(2)]
    reports = []
    for run in runs:
        run.wait(seconds)
        with open(run.json) as file:
            reports.append(json.load(file))
        check(reports[-1]['wrong'] == 0 and not reports[-1].get('error'), '%s', reports[-1])
    return reports


@case
def every_collective():
    """Blocks of one frame and of jumbo frames, with unicast and multicast results, and each way to wait."""
    for mtu, elements, idle, more in ((1500, 256, 'sleep', {}), (9000, 2048, 'yield', {}),
                                      (9000, 1024, 'spin', {'results': '239.1.2.3'})):
        with MemifRack(mtu=mtu, jobs=[job(1, 2, elements=elements, timeout_ms=10000, **more)]) as rack:
            rack.idle = idle
            rack.start_switch()
            reports = measure(rack, 'all', '-b', 4, '-e', '64K', '-f', 128, '-n', 1, '-d', 'fp32', '-r', 1)
            check(len({row['collective'] for row in reports[0]['rows']}) == 9, '%s', reports[0]['rows'])
            measure(rack, '-b', '64K', '-e', '64K', '-n', 5, '--inflight', 4)
            rack.stop_switch()


SUMS = '''
import hashlib, sys
import numpy, weir
with weir.open(switch='10.77.0.254', address=sys.argv[1], job=1, rank=int(sys.argv[2]), size=2) as comm:
    numbers = numpy.random.default_rng(comm.rank).standard_normal(100000).astype('float32')
    print(hashlib.sha256(comm.allreduce(numbers).tobytes()).hexdigest())
'''


@case
def python_has_the_same_results_as_over_sockets():
    found = set()
    for kind in (Rack, MemifRack):
        with kind(jobs=[job(1, 2, timeout_ms=10000)]) as rack:
            rack.start_switch()
            around = {**os.environ, 'PYTHONPATH': os.path.join(ROOT, 'apps', 'python'), 'WEIR_LIBRARY': path(rack.build),
                      **(sanitized(rack.build) or {})}
            runs = [rack.spawn(host, ['/usr/bin/python3', '-c', SUMS, rack.address(host), str(host)], 'sums', around)
                    for host in range(2)]
            found.update(re.search('[0-9a-f]{64}', run.wait(60)).group() for run in runs)
            rack.stop_switch()
    check(len(found) == 1, '%s', found)


SUM = '''
#include <mpi.h>
int main(int argc, char **argv)
{
	int own[5000], sum[5000], wrong = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &own[0]);
	for (int i = 1; i < 5000; i++) own[i] = own[0] + i;
	MPI_Allreduce(own, sum, 5000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 1; i < 5000; i++) wrong += sum[i] != 1 + 2 * i;
	MPI_Finalize();
	return wrong != 0;
}
'''


@case
def an_mpi_program():
    if not shutil.which('mpirun.openmpi'):
        raise Skip('Open MPI is not installed (.ci/install packages.mpi)')
    with MpiMemif(hosts=2) as rack:
        program = os.path.join(rack.folder, 'sum')
        subprocess.run(['mpicc.openmpi', '-x', 'c', '-o', program, '-'], input=SUM, text=True, check=True, timeout=800)
        rack.start_switch()
        start = os.path.join(rack.folder, 'start')
        with open(start, 'w') as file:
            file.write('case $OMPI_COMM_WORLD_RANK in\n%sesac\nexec "$@"\n' % ''.join(
                "%d) export WEIR_DPDK='%s' ;;\n" % (host, rack.environment(host)['WEIR_DPDK']) for host in range(2)))
        own = {key: value for key, value in rack.environment(0).items() if key != 'WEIR_DPDK'}
        own['WEIR_DPDK_MTU'] = '2000'  # the switch makes blocks that fill a slot
        run = mpirun(rack, ['sh', start, program], hosts=2,
                     weir='component', settings={'min_bytes': 0}, env={'WEIR_SWITCH': 'unix:' + rack.api_path},
                     ranks={**own, 'WEIR_SWITCH': 'unix:' + rack.api_path})
        check(run.offloaded.get('allreduce', 0) > 0, '%s\n%s', run.reports, run.output)
        rack.stop_switch()


def perf(rack, host, *options, **environment):
    """weir-perf whose environment says all of its transport."""
    return Rack.spawn(rack, host, [rack.program(('perf', 'weir-perf')), *PERF, '--source', str(host), '--address',
                                   rack.address(host), *options], 'perf', {**os.environ, **environment})


def refused(rack, pattern, *options, **environment):
    """A host cannot open; its text."""
    text = perf(rack, 0, *options, **{**rack.environment(0), **environment}).wait(60, 1)
    check(re.search(pattern, text), 'no "%s" in:\n%s', pattern, text)


@case
def what_is_wrong_is_said():
    with MemifRack(jobs=[job(1, 2)]) as rack:
        memif = rack.environment(0)['WEIR_DPDK']
        refused(rack, r'"nothing".*cannot be loaded: libweir-nothing\.so', WEIR_TRANSPORT='nothing')
        refused(rack, r'DPDK has no device: WEIR_DPDK names one', WEIR_DPDK='--no-huge --no-pci')
        refused(rack, r'WEIR_DPDK has more than 4095 characters', WEIR_DPDK='--no-huge ' * 500)
        refused(rack, r'DPDK does not start', WEIR_DPDK='--no-huge --no-pci --vdev=net_nothing0')
        refused(rack, r'which device\?: DPDK has net_memif0 net_null0; WEIR_DPDK_PORT', WEIR_DPDK=memif + ' --vdev=net_null0')
        refused(rack, r'no device net_x: DPDK has net_memif0;', WEIR_DPDK_PORT='net_x')
        refused(rack, r'net_memif0 .* -m in WEIR_DPDK', WEIR_DPDK=memif.replace('-m 64', '-m 4'))
        refused(rack, r'zero-copy=yes is not supported', WEIR_DPDK=memif + ',zero-copy=yes')
        refused(rack, r'WEIR_DPDK_MTU: "9k" is no number in \[576, 9600\]', WEIR_DPDK_MTU='9k')
        refused(rack, r'WEIR_DPDK_IDLE: "nap" is not spin', WEIR_DPDK_IDLE='nap')
        refused(rack, r'WEIR_DPDK_SWITCH_MAC: "02:00" is no MAC', WEIR_DPDK_SWITCH_MAC='02:00')
        # No switch at the other end; and one that answers no ARP.
        refused(rack, r'Network is down: did this host lose its link', '--join-timeout', '3000')
        rack.changes['exception'] = None
        config = {key: value for key, value in rack.config().items() if value is not None}
        rack.start_switch(rack.write_config(json.dumps(config)))
        refused(rack, r'No route to host: does it answer ARP\?', '--join-timeout', '4000')
        runs = [perf(rack, host, *FEW, **rack.environment(host), WEIR_DPDK_SWITCH_MAC=SWITCH_MAC) for host in range(2)]
        for run in runs:
            run.wait(60)
        rack.stop_switch()


@case
def blocks_that_do_not_fit():
    with MemifRack(mtu=9000, jobs=[job(1, 2, elements=2048)]) as rack:
        rack.start_switch()
        runs = [perf(rack, host, *FEW, **{**rack.environment(host), 'WEIR_DPDK_MTU': '1500'}) for host in range(2)]
        check(any(re.search(r'MTU', run.wait(60, 1)) for run in runs), '%s', [run.output for run in runs])
        rack.stop_switch()


@case
def over_an_interface_of_the_kernel():
    """AF_XDP over veth, in copy mode."""
    with Rack(jobs=[job(1, 2)]) as rack:
        rack.start_switch()
        runs = [perf(rack, host, *FEW, WEIR_TRANSPORT=rack.program(('libweir-dpdk', 'libweir-dpdk.so.0')),
                     WEIR_DPDK='--no-huge --no-pci -m 64 --vdev=net_af_xdp0,iface=eth0,force_copy=1') for host in range(2)]
        for run in runs:
            if run.end(60) != 0 and re.search('librte_net_af_xdp|failed to find driver|Operation not supported', run.output):
                raise Skip('no driver or kernel for AF_XDP here: ' + run.output[-300:])
            run.wait(60)
        rack.stop_switch()


@case
def a_switch_that_comes_back():
    """Its end of the memif goes and comes; the job begins again."""
    with MemifRack(jobs=[job(1, 2, timeout_ms=10000)]) as rack:
        rack.start_switch()
        runs = [rack.perf(host, 1, '-b', '64K', '-e', '64K', '-n', 1000000, '--rejoin', 1000, '--timeout', 3000,
                          '--join-timeout', 60000) for host in range(2)]
        wait_for(lambda: rack.read_stats()['jobs'][0]['blocks_complete'] > 100, 'no blocks')
        rack.switch.signal(signal.SIGKILL)
        rack.switch.end(60)
        rack.start_switch()
        wait_for(lambda: rack.read_stats()['jobs'][0]['blocks_complete'] > 100, 'no blocks of the second switch: %s',
                 lambda: [run.output[-1000:] for run in runs])
        for run in runs:
            run.kill()
        rack.stop_switch()


if __name__ == '__main__':
    main()
