#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rack whose switch runs in a guest of QEMU, on network cards that vfio-pci owns.

    with Guest(['e1000e', 'e1000e'], jobs=[job(1, 2)]) as rack:
        rack.start_switch()
        ...

Host i has the interface `eth0` as in any rack; its other end is a card of the guest, 0000:0(i+1):00.0, of
the kind CARDS[kinds[i]]. All that a `Rack` does works: `start_switch` starts weir-switch in the guest,
signals but SIGKILL reach it (`end_switch` does that), its output is in the log of a process here, its sockets are at the
same paths here.
`shell` runs a command in the guest, `plug` pulls a card's cable.

The guest has Debian's kernel for clouds and an initramfs: busybox, weir-switch, its libraries, the
drivers. Its management card forwards connections of 127.0.0.1 in the switch's namespace: to a shell for
each (port SHELL), and to Unix sockets (port RELAY).

    guest.py exec FILE COMMAND...

runs a command in the guest (in the switch's namespace; SIGTERM, SIGINT, SIGHUP and SIGUSR1 are passed on)
and exits with its status. FILE, which the command writes at SIGUSR1 and at its end, is copied here.
"""
import contextlib
import glob
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'apps', 'rack'))

from rack import BUSY_SECONDS, ROOT, Rack, RackError, ip  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SHELL, RELAY = 1, 2
FIRST_SLOT = 0x10
PAGES = 350  # huge pages of 2 MiB
# QEMU's device, with its options.
CARDS = {
    'virtio': 'virtio-net-pci,mq=on,vectors=6,disable-legacy=on,iommu_platform=on,romfile=',
    'e1000e': 'e1000e,romfile=',
    'vmxnet3': 'vmxnet3,romfile=',
    'igb': 'igb,romfile=',
}
KERNEL = os.path.join(ROOT, 'build-nic', 'kernel')
MODULES = ['virtio_pci', 'virtio_net', 'tun', 'vfio-pci', 'vfio_iommu_type1']
DRIVERS = ['bus_pci', 'bus_vdev', 'mempool_ring', 'net_af_packet', 'net_e1000', 'net_tap', 'net_virtio', 'net_vmxnet3']


def missing():
    """What is not installed, by package."""
    there = {'qemu-system-x86': shutil.which('qemu-system-x86_64'), 'busybox-static': os.path.exists('/bin/busybox'),
             'cpio': shutil.which('cpio'), 'linux-image-cloud-amd64': os.path.exists(os.path.join(KERNEL, 'done'))}
    return [package for package, found in there.items() if not found]


def here(kind):
    """Does this QEMU have such a card?"""
    name = CARDS[kind].split(',')[0]
    return not missing() and 'name "%s"' % name in subprocess.run(
        ['qemu-system-x86_64', '-device', 'help'], check=True, text=True, stdout=subprocess.PIPE, timeout=300).stdout


# -- the initramfs


def libraries(programs):
    """The shared libraries of these files, by ldd."""
    done = subprocess.run(['ldd'] + programs, check=True, text=True, stdout=subprocess.PIPE, timeout=300)
    return sorted(set(re.findall(r'(/\S+) \(0x', done.stdout)))


def modules(tree):
    """The files of MODULES and of all that they depend on."""
    there = {os.path.basename(path)[:-len('.ko')].replace('-', '_'): path
             for path in glob.glob(tree + '/kernel/**/*.ko', recursive=True)}
    found, wanted = {}, [name.replace('-', '_') for name in MODULES]
    while wanted:
        name = wanted.pop()
        if name in found or name not in there:
            continue  # built in
        found[name] = there[name]
        with open(there[name], 'rb') as file:
            for depends in re.findall(rb'\0depends=([^\0]*)', file.read()):
                wanted += [d.replace('-', '_') for d in depends.decode().split(',') if d]
    return sorted(found.values())


def put(root, source, target=None):
    """Copy a file to its place below root, and what it points to if it is a link."""
    to = root + (target or source)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if not os.path.lexists(to):
        shutil.copy(source, to, follow_symlinks=False)
        if os.path.islink(source):
            put(root, os.path.join(os.path.dirname(source), os.readlink(source)))


def initramfs(build, kernel, path):
    """Write it; later Linux versions unpack what is not compressed, and so do emulators faster."""
    root = path + '.d'
    shutil.rmtree(root, ignore_errors=True)
    plugins = glob.glob('/usr/lib/*/dpdk/pmds-*')[0]
    drivers = [p for name in DRIVERS for p in glob.glob('%s/librte_%s.so*' % (plugins, name))]
    switch = os.path.join(build, 'apps', 'switch', 'weir-switch')
    agent = os.path.join(build, 'tests', 'nic', 'weir-guest-agent')
    tree = glob.glob(kernel + '/lib/modules/*')[0]
    files = {switch: '/bin/weir-switch', agent: '/bin/agent', os.path.join(HERE, 'init'): '/init',
             '/bin/busybox': '/bin/busybox'}
    files.update((p, p) for p in libraries([switch, agent] + drivers) + drivers + glob.glob('/lib/*/libgcc_s.so.1'))  # glibc loads it
    files.update((p, p[len(kernel):]) for p in modules(tree))
    for place in ('proc', 'sys', 'dev', 'tmp', 'bin', 'run', 'var', 'usr/lib', 'usr/lib64'):
        os.makedirs(os.path.join(root, place))
    for link, place in (('lib', 'usr/lib'), ('lib64', 'usr/lib64'), ('var/run', '/run')):
        os.symlink(place, os.path.join(root, link))
    for source, target in files.items():
        put(root, source, target)
    with open(path, 'wb') as out:
        subprocess.run('find . | cpio --quiet -o -H newc', shell=True, cwd=root, check=True, stdout=out, timeout=300)
    shutil.rmtree(root)


# -- commands in the guest


def connect(port, seconds=300):
    made = socket.create_connection(('127.0.0.1', port), timeout=seconds)
    made.settimeout(None)
    return made


def say(script, seconds=700):
    """Run a script in the guest, from the switch's namespace. Returns its output."""
    with connect(SHELL) as made:
        made.settimeout(seconds)
        made.sendall(script.encode() + b'\n')
        made.shutdown(socket.SHUT_WR)
        with made.makefile('rb') as stream:
            return stream.read()


class Remote:
    """A command in the guest, tied to this process."""

    END = b'\0status '

    def __init__(self, path, argv):
        self.path, self.pid, self.wanted = path, None, []
        self.stream = connect(SHELL)
        self.stream.sendall(('%s </dev/null 2>&1 & p=$!; echo $p; wait $p; printf "\\n\\0status %%d\\n" $?\n' %
                             ' '.join(map(shlex.quote, argv))).encode())
        self.stream.shutdown(socket.SHUT_WR)

    def fetch(self):
        """Copy the file here, whole."""
        with open(self.path + '.part', 'wb') as file:
            file.write(say('cat ' + shlex.quote(self.path)))
        os.rename(self.path + '.part', self.path)

    def take(self, number, _frame):
        threading.Thread(target=self.send, args=(number,), daemon=True).start()

    def send(self, number):
        quoted = shlex.quote(self.path)
        if number != signal.SIGUSR1:
            say('kill -%d %d' % (number, self.pid))
        else:
            say('rm -f %s; kill -%d %d; while [ -d /proc/%d ] && [ ! -f %s ]; do usleep 10000; done' % (
                quoted, number, self.pid, self.pid, quoted))
            self.fetch()

    def run(self):
        """Returns the exit status; 255 if the guest is gone."""
        with self.stream.makefile('rb') as stream:
            self.pid = int(stream.readline())
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
                signal.signal(number, self.take)
            blank = b''  # the newline before the last line is ours
            for line in stream:
                if line.startswith(self.END):
                    self.fetch()
                    status = int(line[len(self.END):])
                    return status if status < 128 else 128 - status
                if line == b'\n' and not blank:
                    blank = line
                    continue
                sys.stdout.buffer.write(blank + line)
                sys.stdout.flush()
                blank = b''
        print('guest.py: the guest is gone')
        return 255


# -- the rack


class Relay:
    """A Unix socket here that is one of the guest."""

    def __init__(self, rack, path):
        self.rack, self.path = rack, path
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.join, args=self.listener.accept()[:1], daemon=True).start()

    def join(self, client):
        with contextlib.suppress(OSError), client, self.rack.inside('sw'), connect(RELAY) as guest:
            guest.sendall(self.path.encode() + b'\n')
            back = threading.Thread(target=self.copy, args=(guest, client), daemon=True)
            back.start()
            self.copy(client, guest)
            back.join()

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


class Guest(Rack):
    """kinds: of each host's card. mtu: of the hosts' interfaces. iommu: whether the guest has one."""

    nap_us = 200  # which takes several times as long in the guest

    def __init__(self, kinds, build=None, mtu=1500, iommu=True, **more):
        super().__init__(build, hosts=len(kinds), mtu=mtu, **more)
        self.kinds, self.iommu, self.relays = kinds, iommu, []
        self.used, self.queues = list(range(len(kinds))), 1
        self.guest = None

    def use(self, hosts, jobs, mtu=1500, workers=1, queues=1, changes=None):
        """What the next switch has: the cards of these hosts, and these jobs."""
        self.used, self.jobs, self.mtu, self.workers, self.queues = list(hosts), jobs, mtu, workers, queues
        self.changes = changes or {}
        for host in self.used:
            self._ip_in(host, 'link set eth0 mtu %d' % mtu)

    def ports(self):
        return [{'name': 'p%d' % host, 'device': self.slot(host), 'rx_queues': self.queues, 'tx_queues': self.queues,
                 **({'mtu': self.mtu} if self.mtu > 1500 else {})} for host in self.used]

    def end_switch(self):
        """If it still runs: at once."""
        if self.switch is not None and self.switch.status is None and self.guest.status is None:
            self.shell('killall -9 weir-switch')
            self.switch.end(BUSY_SECONDS)
        self.switch = None

    @staticmethod
    def slot(host):
        return '0000:%02x:00.0' % (host + 1)

    def device(self, port, interface=None):
        return self.slot(port)

    def config(self):
        made = super().config()
        if 'eal' not in self.changes:
            made['eal'] = [a for a in made['eal'] if a not in ('--no-huge', '--no-pci')]
        made['workers']['cpus'] = [0, 1]
        return made

    def qemu(self):
        made = ['qemu-system-x86_64', '-accel', 'tcg,thread=multi', '-machine', 'q35', '-cpu', 'max', '-smp', '2', '-m', '1280',
                '-nodefaults', '-display', 'none', '-no-reboot', '-serial', 'stdio',
                '-qmp', 'unix:%s,server=on,wait=off' % os.path.join(self.folder, 'qmp'),
                '-kernel', glob.glob(KERNEL + '/boot/vmlinuz-*')[0],
                '-initrd', os.path.join(self.folder, 'initramfs'),
                '-append', 'console=ttyS0 quiet panic=-1 mitigations=off intel_iommu=on hugepages=%d' % PAGES,
                '-netdev', 'user,id=control,restrict=on,' + ','.join(
                    'hostfwd=tcp:127.0.0.1:%d-10.0.2.15:%d' % (p, p) for p in (SHELL, RELAY)),
                '-device', 'virtio-net-pci,netdev=control,addr=3,romfile=']
        if self.iommu:
            made += ['-device', 'intel-iommu,intremap=on']
        for host, kind in enumerate(self.kinds):
            queues = ',queues=2' if kind == 'virtio' else ''
            made += ['-netdev', 'tap,id=n%d,ifname=tap%d,script=no,downscript=no,vhost=off%s' % (host, host, queues),
                     '-device', 'pcie-root-port,id=r%d,chassis=%d,addr=0x%x' % (host, host + 1, FIRST_SLOT + host),
                     '-device', '%s,id=c%d,netdev=n%d,bus=r%d' % (CARDS[kind], host, host, host)]
        return made

    def _lay_cables(self):
        initramfs(self.build, KERNEL, os.path.join(self.folder, 'initramfs'))
        ip(*['netns add %s' % self.namespace(p) for p in self.places()])
        for place in self.places():
            self._ip_in(place, 'link set lo up')
        self.guest = self.spawn('sw', self.qemu(), 'qemu')
        self.until(lambda: len(self.taps()) == self.hosts, 'no taps')
        for host in range(self.hosts):
            self._ip_in('sw', 'link set tap%d netns %s name eth0' % (host, self.namespace(host)))
            self._ip_in(host, 'link set eth0 mtu %d address %s' % (self.mtu, self.mac(host)),
                        'address add %s/%d dev eth0' % (self.address(host), self.prefix), 'link set eth0 up')
            self.call(host, ['ethtool', '-K', 'eth0', 'tx', 'off'])
        self.guest.wait_line('guest: ready', 120)

    def taps(self):
        return [link for link in json.loads(self.call('sw', ['ip', '-j', 'link', 'show'])) if link['ifname'].startswith('tap')]

    def until(self, holds, message):
        end = time.monotonic() + BUSY_SECONDS
        while not holds():
            if self.guest.status is not None or time.monotonic() > end:
                raise RackError('%s\n%s' % (message, self.guest.output))
            time.sleep(0.02)

    def shell(self, script, seconds=700):
        with self.inside('sw'):
            return say(script, seconds).decode()

    def put_file(self, path, text):
        self.shell('mkdir -p %s; cat >%s <<\\END\n%s\nEND' % (os.path.dirname(path), path, text))

    def bind(self):
        """Give the cards to vfio-pci, as dpdk-devbind.py does."""
        self.shell('modprobe vfio_iommu_type1; modprobe vfio-pci; for h in %s; do d=/sys/bus/pci/devices/$h; echo vfio-pci >$d/driver_override; '
                   'echo $h >/sys/bus/pci/drivers_probe; done' % ' '.join(map(self.slot, range(self.hosts))))

    def spawn(self, place, argv, name=None, env=None):
        if name != 'switch':
            return super().spawn(place, argv, name, env)
        argv = ['/bin/weir-switch' if a.endswith('/weir-switch') else a for a in argv]
        path = argv[argv.index('-c') + 1]
        with open(path) as file:
            text = file.read()
        self.put_file(path, text)
        for listener in json.loads(text).get('api', {}).get('listen', []):
            if listener.startswith('unix:') and listener[5:] not in [r.path for r in self.relays]:
                self.relays.append(Relay(self, listener[5:]))
        return super().spawn(place, [os.path.abspath(__file__), 'exec', self.stats_file] + argv, name, env)

    def qmp(self, command, **arguments):
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(300)
            made.connect(os.path.join(self.folder, 'qmp'))
            with made.makefile('rw') as stream:
                stream.readline()
                for line in ({'execute': 'qmp_capabilities'}, {'execute': command, 'arguments': arguments}):
                    stream.write(json.dumps(line) + '\n')
                    stream.flush()
                    answer = {}
                    while 'return' not in answer and 'error' not in answer:
                        answer = json.loads(stream.readline())
        if 'error' in answer:
            raise RackError('%s: %s' % (command, answer['error']))

    def plug(self, host, is_in):
        """A host's cable."""
        self.qmp('set_link', name='c%d' % host, up=is_in)

    def close(self):
        for relay in self.relays:
            relay.close()
        super().close()


def main():
    if len(sys.argv) < 4 or sys.argv[1] != 'exec':
        sys.exit(__doc__)
    status = Remote(sys.argv[2], sys.argv[3:]).run()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == '__main__':
    main()
