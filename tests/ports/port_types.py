# SPDX-License-Identifier: BSD-3-Clause
"""Racks for each type of port: how a host is attached, killed, paused and unplugged, and what the type can do.

    with TYPES['memif'](hosts=3, mtu=9000, jobs=[job(1, 2)], kernel=[2]) as rack:
        rack.start_switch()

Hosts that libweir reaches by sockets are hosts of the kernel: they ping, and have raw sockets and counters. A host behind
a device of DPDK is a process that uses libweir's transport `dpdk`, or, for the hosts in `kernel`, a host of the kernel
at the end of a cable (cable.c). A type says by its attributes what a case may expect of it.
"""
import os
import re
import signal

from control import Control
from memif import MemifRack
from rack import Rack, RackError
from tap import Skip


class PortType(Rack):
    """Ports of net_af_packet on links of veth; all hosts are hosts of the kernel.

    What a case may expect: queues: the most queue pairs of a port. fragments: those of a datagram of more than two frames
    pass. jumbo: frames for an MTU of 9000 pass. shortens: a port whose link has a smaller MTU does not send longer frames.
    knows_link: the switch sees a cable that is out. deaf: a host may send and take nothing. own_macs: hosts have
    different MAC addresses.

    What a case asks for: kernel: the hosts that must be hosts of the kernel, for ping and raw frames. queues: pairs of each
    port. mtus: of single hosts' links. chains: long frames come in several buffers, if the device can.
    """

    queues = 1
    fragments = True
    jumbo = True
    shortens = True
    knows_link = True
    deaf = False
    own_macs = True
    hosts_first = False  # the switch starts only when all its hosts are there

    def __init__(self, *shape, kernel=(), queues=1, mtus=None, chains=False, **more):
        super().__init__(*shape, **more)
        self.kernel, self.queue_pairs, self.mtus, self.chains = set(kernel), queues, mtus or {}, chains
        self.there = {}  # host: its processes

    @classmethod
    def check_available(cls):
        """Raises Skip where the kernel or DPDK cannot do this."""

    def _lay_cables(self):
        super()._lay_cables()
        for host, mtu in self.mtus.items():
            self._ip_in('sw', 'link set p%d mtu %d' % (host, mtu))
            self._ip_in(host, 'link set eth0 mtu %d' % mtu)

    # -- the switch

    def ports(self):
        return [{**port, 'rx_queues': self.queue_pairs, 'tx_queues': self.queue_pairs} for port in super().ports()]

    def device(self, port, interface=None):
        return super().device(port, interface) + (',qpairs=%d' % self.queue_pairs if self.queue_pairs > 1 else '')

    def restart_switch(self):
        """The switch dies, and another one starts."""
        self.switch.signal(signal.SIGKILL)
        self.switch.end(60)
        self.start_switch()

    def control(self, **section):
        """The control API, on a Unix socket and on the switch's own address. Before start_switch()."""
        return Control(self, **section)

    def log(self):
        """What the switch has said."""
        return self.switch.output

    # -- hosts

    def is_dpdk(self, host):
        """Is the host behind a device of DPDK?"""
        return False

    def spawn(self, place, argv, name=None, env=None):
        process = super().spawn(place, argv, name, env)
        self.there.setdefault(place, []).append(process)
        return process

    def signal_host(self, host, number):
        for process in self.there.get(host, []):
            process.signal(number)

    def kill(self, host):
        """The host dies: nothing of it is there any more."""
        for process in self.there.get(host, []):
            process.kill()

    def pause(self, host):
        """The host stands still: it takes nothing, and what it holds stays."""
        self.signal_host(host, signal.SIGSTOP)

    def resume(self, host):
        self.signal_host(host, signal.SIGCONT)

    def unplug(self, host):
        """Of a host of the kernel: its cable is out."""
        self._ip_in(host, 'link set eth0 down')

    def plug(self, host):
        self._ip_in(host, 'link set eth0 up')

    def checksum_errors(self, host):
        """Packets that a host of the kernel has refused for their checksums."""
        found = {}
        with self.inside(host), open('/proc/thread-self/net/snmp') as file:
            rows = [line.split() for line in file]
        for keys, values in zip(rows[::2], rows[1::2]):
            found.update((keys[0] + key, int(value)) for key, value in zip(keys[1:], values[1:]))
        return sum(found[key] for key in ('Udp:InCsumErrors', 'Tcp:InCsumErrors', 'Icmp:InCsumErrors'))


class Xdp(PortType):
    """net_af_xdp, in the kernel's copy mode."""

    def device(self, port, interface=None):
        return 'net_af_xdp%d,iface=%s,force_copy=1' % (port, interface or 'p%d' % port)

    jumbo = False  # a frame has to fit a page

    def config(self):
        made = super().config()
        made.setdefault('pools', {})['packets'] = 4096 * (self.hosts + 1)  # its rings take packet buffers
        return made

    @classmethod
    def check_available(cls):
        with cls(hosts=2) as rack:
            try:
                rack.start_switch()
            except RackError as error:
                if re.search('librte_net_af_xdp|failed to find driver|Operation not supported|Operation not permitted', str(error)):
                    raise Skip('no driver or kernel for AF_XDP here: ' + str(error)[-200:]) from None
                raise


class Pcap(PortType):
    """net_pcap on links of veth."""

    def device(self, port, interface=None):
        return 'net_pcap%d,iface=%s' % (port, interface or 'p%d' % port)

    def config(self):
        made = super().config()
        made.setdefault('pools', {})['frame_bytes'] = 2048 if self.mtu <= 1500 else 9216  # which the device does not tell
        return made


class Tap(PortType):
    """net_tap: the kernel's end is the host's interface."""

    knows_link = False  # the interface is in another namespace

    def device(self, port, interface=None):
        return 'net_tap%d,iface=p%d' % (port, port)

    def ports(self):
        return [{**port, 'rx_descriptors': 256} for port in super().ports()]  # they take packet buffers

    jumbo = False  # the driver's longest frame has 1522 bytes

    def _lay_cables(self):
        super()._lay_cables()
        for host in range(self.hosts):
            self._ip_in(host, 'link del eth0')

    @staticmethod
    def before_move():
        """A case may wait here."""

    def wait_switch(self, seconds=30):
        super().wait_switch(seconds)
        self.before_move()
        for host in range(self.hosts):
            self._ip_in('sw', 'link set p%d netns %s' % (host, self.namespace(host)))
            self._ip_in(host, 'link set p%d name eth0 address %s mtu %d' % (host, self.mac(host), self.mtus.get(host, self.mtu)),
                        'address add %s/%d dev eth0' % (self.address(host), self.prefix), 'link set eth0 up')


class DpdkHosts(PortType):
    """Hosts behind a device of DPDK."""

    deaf = True
    shortens = False

    def is_dpdk(self, host):
        return True

    @property
    def cabled(self):
        """Hosts of the kernel behind a device of DPDK."""
        return sorted(host for host in self.kernel if self.is_dpdk(host))

    def host_arguments(self, host):
        """Of EAL, for the host's device."""
        raise NotImplementedError

    def environment(self, host):
        """Of a program that uses libweir's transport `dpdk`."""
        return {'WEIR_TRANSPORT': self.program(('libweir-dpdk', 'libweir-dpdk.so.0')),
                'WEIR_DPDK': '--no-huge --no-pci -m 64 ' + self.host_arguments(host),
                'WEIR_DPDK_MTU': str(self.mtu), 'WEIR_DPDK_IDLE': 'sleep'}

    def spawn(self, place, argv, name=None, env=None):
        if place != 'sw' and place not in self.kernel and self.is_dpdk(place):
            env = {**(env or os.environ), **self.environment(place)}
        return super().spawn(place, argv, name, env)

    def slot(self):
        """Bytes of a slot of memif, which holds the longest frame, unless chains are wanted."""
        return 2048 if self.mtu <= 1500 or self.chains else 9216

    def _lay_cables(self):
        super()._lay_cables()
        for host in filter(self.is_dpdk, range(self.hosts)):
            self._ip_in(host, 'link del eth0')

    def start_switch(self, path=None, seconds=30, wait=True):
        for host in range(self.hosts) if self.hosts_first else ():
            self.lay(host)
        return super().start_switch(path, seconds, wait)

    def wait_switch(self, seconds=30):
        super().wait_switch(seconds)
        for host in set(range(self.hosts) if self.hosts_first else ()) - set(self.cabled):
            self.unplug(host)  # a program comes in its place
        for host in self.cabled:
            self.plug(host)

    def restart_switch(self):
        for host in self.cabled:
            self.unplug(host)
        super().restart_switch()

    def lay(self, host):
        """Start a host's cable."""
        return self.spawn(host, [
            os.path.join(self.build, 'tests', 'ports', 'weir-cable'), 'eth0', '--no-telemetry', '--no-shconf', '--no-huge',
            '--no-pci', '-m', '48', '--log-level=warning', '--log-level=pmd.net.memif:error',
            '--file-prefix=weir_cable_%d-%s-h%d' % (os.getpid(), self.switch_name, host),
            '--lcores', '0@%d' % min(os.sched_getaffinity(0)), self.host_arguments(host)], 'cable')

    def cable(self, host):
        return next((process for process in self.there.get(host, [])
                     if process.name.startswith('cable') and process.status is None), None)

    def plug(self, host):
        if not self.is_dpdk(host):
            super().plug(host)
            return
        cable = self.cable(host) or self.lay(host)
        cable.wait_line('cable: ready', 30)
        self._ip_in(host, 'link set eth0 address %s mtu %d' % (self.mac(host), self.mtu),
                    'address replace %s/%d dev eth0' % (self.address(host), self.prefix), 'link set eth0 up')

    def unplug(self, host):
        if self.is_dpdk(host):
            self.cable(host).kill()
        else:
            super().unplug(host)

    def stop_reading(self, host):
        """From now on a host takes nothing, and goes on to send."""
        self.cable(host).signal(signal.SIGUSR1)


class Memif(DpdkHosts):
    """net_memif, both ends."""

    link = MemifRack.link

    def device(self, port, interface=None):
        return 'net_memif%d,role=server,%s' % (port, self.link(port))

    def host_arguments(self, host):
        return '--vdev=net_memif0,role=client,mac=%s,%s' % (self.mac(host), self.link(host))


class VirtioUser(DpdkHosts):
    """net_virtio_user, which waits for its host at the start; the host has net_vhost."""

    hosts_first = True
    own_macs = False  # net_vhost has none but 56:48:4f:53:54:00

    def path(self, host):
        return os.path.join(self.folder, 'h%d.sock' % host)

    def device(self, port, interface=None):
        return 'net_virtio_user%d,path=%s,server=1' % (port, self.path(port))

    def host_arguments(self, host):
        return '--vdev=net_vhost0,iface=%s,client=1' % self.path(host)


class Vhost(VirtioUser):
    """net_vhost; the host has net_virtio_user."""

    hosts_first = False
    own_macs = True

    def device(self, port, interface=None):
        return 'net_vhost%d,iface=%s' % (port, self.path(port))

    def host_arguments(self, host):
        return '--vdev=net_virtio_user0,path=%s,mac=%s' % (self.path(host), self.mac(host))


class AfPacket(PortType):
    """net_af_packet on links of veth."""

    queues = 2
    fragments = False  # the kernel puts them together, and loses what no frame holds


class Mixed(Memif, Vhost, AfPacket):
    """Ports of three types in turn."""

    kinds = (AfPacket, Memif, Vhost)
    queues, deaf, fragments, shortens = 1, False, False, False

    def kind(self, host):
        return self.kinds[host % len(self.kinds)]

    def is_dpdk(self, host):
        return self.kind(host) != AfPacket

    def device(self, port, interface=None):
        return self.kind(port).device(self, port)

    def host_arguments(self, host):
        return self.kind(host).host_arguments(self, host)


TYPES = {'af_packet': AfPacket, 'memif': Memif, 'tap': Tap, 'virtio_user': VirtioUser, 'vhost': Vhost, 'af_xdp': Xdp,
         'pcap': Pcap, 'mixed': Mixed}
