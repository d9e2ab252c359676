# SPDX-License-Identifier: BSD-3-Clause
"""A rack whose hosts reach the switch through shared memory: libweir's transport `dpdk`, and ports of net_memif.

    with MemifRack(hosts=2, mtu=9000, jobs=[job(1, 2, elements=2048)]) as rack:
        ...

as rack.py. The links of the kernel are there, too, but no port of the switch is on them: what a host sends by
sockets goes nowhere.
"""
import contextlib
import os
import re
import signal
import time

from rack import BUSY_SECONDS, Rack, RackError

MEMORY_MB = 64  # of a host


class MemifRack(Rack):
    """idle: of the hosts (WEIR_DPDK_IDLE)."""

    idle = 'sleep'
    holds = True

    def link(self, host):
        """Arguments of both ends."""
        return 'id=%d,socket=%s,socket-abstract=no,bsize=%d' % (host, os.path.join(self.folder, 'memif.sock'), self.slot())

    def slot(self):
        """Bytes of a slot of the ring, which holds the longest frame."""
        return 2048 if self.mtu <= 1500 else 9216

    def device(self, port, interface=None):
        return 'net_memif%d,role=server,%s' % (port, self.link(port))

    def environment(self, host):
        """Of a program on this host."""
        library = os.path.join(self.build, 'apps', 'libweir-dpdk', 'libweir-dpdk.so.0')
        return {'WEIR_TRANSPORT': library if os.path.exists(library) else 'dpdk',
                'WEIR_DPDK': '--no-huge --no-pci -m %d --vdev=net_memif0,role=client,mac=%s,%s' % (
                    MEMORY_MB, self.mac(host), self.link(host)),
                'WEIR_DPDK_MTU': str(self.mtu), 'WEIR_DPDK_IDLE': self.idle}

    def spawn(self, place, argv, name=None, env=None):
        if place != 'sw':
            env = {**self.environment(place), **(env or os.environ)}
        return super().spawn(place, argv, name, env)

    # -- what the driver does without Weir

    def testpmd(self, frame, burst, seconds):
        """dpdk-testpmd as a switch of two ports, and another one as both hosts, which begins with `burst` frames at each
        and sends back what comes. Returns how many frames come to a host per second."""
        for _ in range(3):  # frames are lost that are sent before all ends are connected, as on a busy machine
            if rate := self._testpmd_once(frame, burst, seconds):
                return rate
        raise RackError('testpmd forwards nothing')

    def _testpmd_once(self, frame, burst, seconds):
        cpus = sorted(os.sched_getaffinity(0))
        ends = [os.path.join(self.folder, 'testpmd%d.sock' % port) for port in range(2)]
        runs = []
        for place, role, cpu, more in (('sw', 'server', cpus[0], ['--port-topology=paired', '--disable-link-check']),
                                       (0, 'client', cpus[-1], ['--port-topology=loop', '--tx-first', '--txpkts=%d' % frame])):
            runs.append(Rack.spawn(self, place, [
                'dpdk-testpmd', '--lcores', '0@%d,1@%d' % (cpus[0], cpu), '--no-huge', '--no-pci', '--no-shconf', '--no-telemetry',
                '-m', '128', '--file-prefix', '%s-%s' % (self.name, role),
                *('--vdev=net_memif%d,role=%s,id=0,socket=%s,socket-abstract=no,bsize=%d' % (
                    port, role, end, self.slot()) for port, end in enumerate(ends)),
                '--', '--forward-mode=io', '--nb-cores=1', '--total-num-mbufs=4096', '--mbuf-size=%d' % (self.slot() + 128),
                '--burst=%d' % burst, '--stats-period=1', '--no-lsc-interrupt', *more], 'testpmd'))
            if role == 'server':
                runs[0].wait_line('Port statistics', 30)
        rates, until = [], time.monotonic() + BUSY_SECONDS + seconds
        while len(rates) < seconds + 2:  # the first ones are of the start
            if time.monotonic() > until or runs[1].status is not None:
                raise RackError('testpmd forwards nothing:\n%s' % runs[1].output[-2000:])
            time.sleep(0.1)
            rates = [int(rate) for rate in re.findall(r'statistics for port 0 .*?Rx-pps: +(\d+)', runs[1].output, re.S)]
        for run in reversed(runs):
            run.signal(signal.SIGINT)
            run.end(20)
        for end in ends:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(end)
        return max(rates[2:])  # of a machine that did nothing else
