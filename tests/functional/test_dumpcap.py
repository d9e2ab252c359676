#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""dpdk-dumpcap on a running switch: with "capture" and huge pages, all that enters and leaves a
port; every packet is accounted for, whatever becomes of it."""
import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile

from perf import reduce
from rack import PREFIX, Rack, RackError, job
from tap import Skip, case, check, main, wait_for
from tshark import fields, number as number_of

NR_HUGEPAGES = '/proc/sys/vm/nr_hugepages'
PAGES = 64  # of 2 MiB: the switch's 96 MiB, and dpdk-dumpcap's ring and packets
SWITCH_MB = 96


def pages(name='HugePages_Free'):
    with open('/proc/meminfo') as file:
        found = dict(line.split(':') for line in file)
    return int(found.get(name, '0').split()[0])


def reserve(count):
    with open(NR_HUGEPAGES, 'w') as file:
        file.write('%d\n' % count)


@contextlib.contextmanager
def huge_pages():
    """A mount of hugetlbfs of its own, with pages enough; both are taken back."""
    if shutil.which('dpdk-dumpcap') is None:
        raise Skip('dpdk-dumpcap is not installed (package dpdk-dev)')
    if not os.path.exists(NR_HUGEPAGES) or pages('Hugepagesize') != 2048:
        raise Skip('no huge pages of 2 MiB in this kernel')
    with alone(), reserved_and_mounted() as folder:
        yield folder


@contextlib.contextmanager
def alone():
    """The machine has huge pages once, for all tests that run on it."""
    with open('/run/lock/weir-huge-pages', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def reserved_and_mounted():
    before, folder = pages('HugePages_Total'), tempfile.mkdtemp(prefix='weir-huge-')
    missing = PAGES - pages()
    mounted = False
    try:
        if missing > 0:
            with contextlib.suppress(OSError):
                reserve(before + missing)
        if pages() < PAGES:
            raise Skip('%d huge pages are free, %d wanted' % (pages(), PAGES))
        done = subprocess.run(['mount', '-t', 'hugetlbfs', '-o', 'pagesize=2M', 'none', folder],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=800, check=False)
        if done.returncode != 0:
            raise Skip('hugetlbfs: %s' % done.stdout.strip())
        mounted = True
        yield folder
    finally:
        if mounted:
            subprocess.run(['umount', '-l', folder], timeout=800, check=False)
        os.rmdir(folder)
        if missing > 0:
            with contextlib.suppress(OSError):
                reserve(before)


def configuration(folder, **changes):
    return dict({'capture': True, 'memory_mb': SWITCH_MB,
                 'eal': ['--no-pci', '--no-telemetry', '--huge-dir=' + folder]}, **changes)


class Dumpcap:
    """dpdk-dumpcap on a port, capturing by the time this returns."""

    def __init__(self, rack, port, name):
        self.path = os.path.join(rack.folder, name)
        self.process = rack.spawn('sw', ['dpdk-dumpcap', '--file-prefix=%s-%s' % (
            PREFIX, rack.config()['switch']['name']), '-i', port, '-w', self.path])
        # The file's header is written once the callbacks are in place.
        wait_for(lambda: os.path.exists(self.path) and os.path.getsize(self.path) > 0,
                 'dpdk-dumpcap: %s', lambda: self.process.output)

    def wait_packets(self, count):
        """It counts on its terminal what it has captured."""
        def captured():
            # Each number with backspaces over the one before.
            said = self.process.output.partition('Packets captured: ')[2]
            return int((re.findall(r'\d+', said) or [0])[-1])
        wait_for(lambda: captured() >= count, '%d packets: %s', count, lambda: self.process.output)

    def stop(self):
        self.process.signal(signal.SIGINT)
        return self.process.wait(10)


def kinds(path, home):
    """How many packets of each kind the dissector finds."""
    found = {}
    for row in fields(path, ['weir.kind', 'weir.expert.impossible'], home=home):
        check(row['weir.expert.impossible'] == [], '%s', row)
        kind = number_of(row, 'weir.kind')
        found[kind] = found.get(kind, 0) + 1
    return found


@case
def all_that_enters_and_leaves_a_port():
    with huge_pages() as folder, Rack(hosts=2, jobs=[job(1, 2)],
                                      changes=configuration(folder)) as rack:
        rack.start_switch()
        capture = Dumpcap(rack, 'net_af_packet0', 'p0.pcapng')
        reduce(rack, 1, range(2), '-b', 4096, '-e', 4096, '-n', 2, '-w', 0)
        ports = {p['name']: p for p in rack.check_packets()['ports']}
        wanted = ports['p0']['rx_packets'] + sum(ports['p0']['tx_packets'].values())
        capture.wait_packets(wanted)
        said = capture.stop()
        found = kinds(capture.path, rack.folder)
        check(sum(found.values()) == wanted, '%s of %d packets: %s', found, wanted, said)
        # A busy machine repeats contributions and results.
        check(found[1] >= 8 and found[3] >= 8, '%s', found)
        # Once more, after the first one has gone in order; the switch outlives it when it is killed.
        capture = Dumpcap(rack, 'net_af_packet1', 'p1.pcapng')
        reduce(rack, 1, range(2), '-b', 4096, '-e', 4096, '-n', 2, '-w', 0)
        capture.wait_packets(16)
        capture.process.kill()
        # More packets than its ring holds.
        reduce(rack, 1, range(2), '-b', '256K', '-e', '256K', '-n', 50, '-w', 0)
        rack.check_packets()
        rack.stop_switch()


@case
def without_huge_pages_it_is_refused():
    changes = {'capture': True, 'eal': ['--no-pci', '--no-telemetry']}
    with alone(), Rack(hosts=1, jobs=[job(1, 1)], changes=changes) as rack:
        if pages('HugePages_Total') > 0:
            raise Skip('there are huge pages on this machine')
        try:
            rack.start_switch()
        except RackError as why:
            check('"capture" needs' in str(why), '%s', why)
        else:
            check(False, 'it started')


if __name__ == '__main__':
    main()
