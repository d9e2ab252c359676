# SPDX-License-Identifier: BSD-3-Clause
"""A throw-away copy of this machine: its root behind an overlay in memory, in namespaces of its own.

What is installed there is gone with it. Nothing is mounted outside of its mount namespace, and when
the process that holds it dies, all of its processes do.

    with Machine() as machine:
        print(machine.run('dpkg -i /exchange/x.deb'))      # a shell, as root
        print(machine.boot('systemctl start x'))           # the same, under a systemd of its own

/exchange is `machine.folder` here.
"""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile

from tap import Skip, wait_for

MOUNTS = r'''
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$W"
mkdir "$W/up" "$W/work" "$W/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$W/up,workdir=$W/work" "$W/root"
R=$W/root
mkdir -p "$R/exchange" "$R/proc" "$R/sys" "$R/dev" "$R/run" "$R/tmp"
mount --bind "$X" "$R/exchange"
mount -t proc proc "$R/proc"
mount -t sysfs sysfs "$R/sys"
mount -t tmpfs tmpfs "$R/dev"
for n in null zero full random urandom tty net/tun; do
    [ -e "/dev/$n" ] || continue
    mkdir -p "$(dirname "$R/dev/$n")"; touch "$R/dev/$n"; mount --bind "/dev/$n" "$R/dev/$n"
done
mkdir -p "$R/dev/shm" "$R/dev/pts"
mount -t tmpfs tmpfs "$R/run"
mkdir -p "$R/run/netns"
mount -t tmpfs tmpfs "$R/tmp"
# dpkg reads no page of this machine again.
rm -f "$R/var/lib/man-db/auto-update"
'''
CHROOT = 'exec chroot "$R" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive '
UNITS = r'''
mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
# As in any container: its units for sysctls, devices and modules see that these are not theirs.
mount -o remount,bind,ro "$R/sys"
mount --bind "$R/proc/sys" "$R/proc/sys"
mount -o remount,bind,ro "$R/proc/sys"
rm -f "$R/etc/systemd/system.conf"
cat >"$R/etc/systemd/system/weir-test.target" <<'END'
[Unit]
DefaultDependencies=no
Requires=systemd-journald.service weir-test.service
END
cat >"$R/etc/systemd/system/weir-test.service" <<'END'
[Unit]
DefaultDependencies=no
After=systemd-journald.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'sh /exchange/script; echo $? >/exchange/status'
StandardOutput=file:/exchange/output
StandardError=inherit
END
'''


def cgroup2():
    """Where the unified hierarchy is mounted, or None."""
    with open('/proc/self/mounts') as file:
        found = [line.split()[1] for line in file if line.split()[2] == 'cgroup2']
    return found[0] if found else None


class Machine:
    """Needs root, overlayfs and namespaces; Skip says which is missing."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='weir-machine-')
        self.root = tempfile.mkdtemp(prefix='weir-machine-')
        self.groups = []

    def __enter__(self):
        try:
            done = self._call('true', 300)
            if done.returncode != 0:
                raise Skip('no throw-away root: %s' % done.stdout.strip()[-200:])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)
        for group in self.groups:
            self._end_group(group)

    @staticmethod
    def _end_group(group):
        """Kill what is left in a group and remove it with all below."""
        try:
            with open(os.path.join(group, 'cgroup.kill'), 'w') as file:
                file.write('1')
        except OSError:
            pass

        def empty():
            for folder, _names, _files in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            return not os.path.exists(group)
        wait_for(empty, '%s stays', group)

    def _argv(self, script, extra=()):
        return ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--net', '--ipc', '--uts',
                *extra, 'bash', '-c', script]

    def _environment(self):
        return dict(os.environ, W=self.root, X=self.folder)

    def _call(self, command, seconds):
        return subprocess.run(self._argv(MOUNTS + CHROOT + 'sh -c "$C"'), text=True,
                              env=dict(self._environment(), C=command), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                              check=False)

    def run(self, command, seconds=900):
        """Run a shell command in a fresh copy. Returns its output; a failure raises."""
        done = self._call('set -e\n' + command, seconds)
        if done.returncode != 0:
            raise AssertionError('exit status %d\n%s' % (done.returncode, done.stdout))
        return done.stdout

    def boot(self, command, seconds=900):
        """The same as a unit of a systemd that is process 1 of the copy."""
        mount = cgroup2()
        if mount is None or not os.path.exists('/lib/systemd/systemd'):
            raise Skip('needs systemd and the unified cgroup hierarchy')
        group = os.path.join(mount, os.path.basename(self.root))
        os.mkdir(group)
        self.groups.append(group)
        with open(os.path.join(self.folder, 'script'), 'w') as file:
            file.write('set -ex\n' + command)
        status = os.path.join(self.folder, 'status')

        def enter():
            with open(os.path.join(group, 'cgroup.procs'), 'w') as file:
                file.write('0')

        process = subprocess.Popen(
            self._argv(MOUNTS + UNITS + CHROOT + 'container=weir-test /lib/systemd/systemd '
                       '--system --unit=weir-test.target --log-target=null --show-status=no',
                       ['--cgroup']),
            env=self._environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, preexec_fn=enter)
        try:
            wait_for(lambda: os.path.exists(status) or process.poll() is not None, 'it has not ended\n%s',
                     self.output, seconds=seconds)
        finally:
            process.kill()  # and with it, the copy's process 1 and all others
            said = process.communicate(timeout=120)[0]
        if not os.path.exists(status):
            raise Skip('systemd does not run here: %s' % re.sub(r'\s+', ' ', said)[-200:])
        with open(status) as file:
            number = file.read().strip()
        if number != '0':
            raise AssertionError('exit status %s\n%s' % (number, self.output()))
        return self.output()

    def output(self):
        try:
            with open(os.path.join(self.folder, 'output'), errors='replace') as file:
                return file.read()
        except OSError:
            return ''
