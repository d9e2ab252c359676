#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What must be done before weir-switch can use cards: each step that is missing is named, and with all of them
configs/nic.json runs as it is. In guests of QEMU (guest.py), with and without an IOMMU.
"""
import contextlib
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'functional'))

from checks import by_the_way, reduce
from control import Control
from guest import PAGES, Guest, missing
from tap import Skip, case, check, main
from rack import ROOT, job

HUGE = '/sys/kernel/mm/hugepages/hugepages-2048kB/'
guests = {}


def booted(iommu=True):
    if missing():
        raise Skip('needs %s (.ci/install packages.nic, .ci/kernel build-nic/kernel)' % ', '.join(missing()))
    if iommu not in guests:
        made = Guest(['virtio', 'virtio', 'vmxnet3'] if iommu else ['e1000e'], iommu=iommu)
        made.__enter__()
        guests[iommu] = made
    return guests[iommu]


def refused(rack, pattern, hosts=(0,), **changes):
    """weir-switch does not start on these hosts' cards, and says this."""
    rack.use(hosts, [job(1, len(hosts), first=hosts[0])], changes=changes)
    path = os.path.join(rack.folder, 'refused.json')
    rack.put_file(path, json.dumps(rack.config()))
    said = rack.shell('timeout 600 weir-switch -c %s 2>&1; echo status $?' % path)
    check(re.search(pattern, said), '%s: not in: %s', pattern, said)
    check(re.search('^status [12]$', said, re.M), '%s', said)


@contextlib.contextmanager
def started(rack, hosts, path=None, **changes):
    """The switch on these hosts' cards, or with this configuration; it stops in order."""
    if hosts:
        rack.use(hosts, [job(1, len(hosts), first=hosts[0])], changes=changes)
    try:
        rack.start_switch(path)
        yield
        rack.stop_switch()
    finally:
        rack.end_switch()


def set_pages(rack, count):
    rack.shell('echo %d >%snr_hugepages' % (count, HUGE))


def free_pages(rack):
    return int(rack.shell('cat %sfree_hugepages' % HUGE))


@case
def no_iommu():
    refused(booted(iommu=False), r'port p0: this machine has no IOMMU for 0000:01:00.0, and vfio-pci needs one: .*intel_iommu=on')


@case
def module_not_loaded():
    refused(booted(), r'port p0: 0000:01:00.0 has no driver, and DPDK cannot use it: modprobe vfio-pci, then '
            r'dpdk-devbind.py -b vfio-pci 0000:01:00.0 \(package dpdk')


@case
def driver_of_the_kernel():
    rack = booted()
    rack.shell('echo >/sys/bus/pci/devices/%s/driver_override; echo %s >/sys/bus/pci/drivers/virtio-pci/bind; '
               'modprobe vfio-pci' % (rack.slot(0), rack.slot(0)))
    refused(rack, r"port p0: 0000:01:00.0 belongs to the kernel's driver virtio-pci, and DPDK cannot use it: "
            'dpdk-devbind.py -b vfio-pci 0000:01:00.0')
    rack.shell('echo %s >/sys/bus/pci/drivers/virtio-pci/unbind' % rack.slot(0))
    rack.bind()


@case
def no_such_device():
    rack = booted()
    refused(rack, r'port p0: there is no PCI device 0000:0a:00.0: dpdk-devbind.py --status-dev net',
            ports=[{'name': 'p0', 'device': '0000:0a:00.0'}])


@case
def pci_is_off():
    rack = booted()
    rack.bind()
    refused(rack, 'port p0 is the PCI device 0000:01:00.0: remove "--no-pci" from "eal"', eal=['--no-pci'])


@case
def another_process_has_it():
    rack = booted()
    rack.bind()
    with started(rack, [0]):
        refused(rack, 'port p0: another process uses 0000:01:00.0', exception={'interface': 'other0'}, switch={'name': 'other'},
                memory_mb=64)


@case
def too_few_packets_for_two_rings():
    rack = booted()
    rack.bind()
    refused(rack, r'pools.packets: 1400 packets are too few: a vmxnet3 has two receive rings for each queue, and 1856 packets',
            hosts=[2], pools={'packets': 1400})
    with started(rack, [2], pools={'packets': 1856}):
        pass


@case
def no_driver_package():
    rack = booted()
    rack.bind()
    rack.shell('mkdir /tmp/away; mv /usr/lib/*/dpdk/pmds-*/librte_net_vmxnet3* /tmp/away')
    try:
        refused(rack, r'no driver of DPDK has taken the PCI device 0000:03:00.0: .*package.*librte-net-', hosts=[2])
    finally:
        rack.shell('mv /tmp/away/* $(dirname $(ls /usr/lib/*/dpdk/pmds-*/librte_net_tap.so))')


@case
def no_huge_pages():
    rack = booted()
    rack.bind()
    set_pages(rack, 0)
    try:
        refused(rack, 'there are no huge pages, and "memory_mb" needs 256 MiB: echo 128 > %snr_hugepages' % HUGE)
        refused(rack, '"capture" needs 256 MiB: echo 128 > ', capture=True, eal=[])
        set_pages(rack, 100)
        refused(rack, '200 MiB of huge pages are free, and "memory_mb" asks for 256: echo 128 > .* or set "memory_mb" to no '
                'less than [0-9]+, which this configuration needs')
    finally:
        set_pages(rack, PAGES)


@case
def pages_return_and_need_no_mount():
    rack = booted()
    rack.bind()
    rack.shell('umount /dev/hugepages')
    refused(rack, 'huge pages as files need a mounted hugetlbfs: .*mount -t hugetlbfs none /dev/hugepages', capture=True,
            eal=[])
    with started(rack, [0, 1]):
        check(free_pages(rack) == PAGES - 128, '%d pages are free', free_pages(rack))
    rack.shell('mount -t hugetlbfs none /dev/hugepages')
    check(free_pages(rack) == PAGES, '%d pages are free', free_pages(rack))


@case
def a_killed_switch_leaves_its_cards_and_pages():
    rack = booted()
    rack.bind()
    rack.use([0, 1], [job(1, 2)])
    rack.start_switch()
    rack.end_switch()
    check(free_pages(rack) == PAGES, '%d pages are free', free_pages(rack))
    with started(rack, [0, 1]):
        rack.ping(0, rack.switch_address)


@case
def pages_of_a_capture_return():
    rack = booted()
    rack.bind()
    with started(rack, [0, 1], capture=True, eal=[]):
        check(rack.shell('ls /dev/hugepages'), 'no files')
    left = rack.shell('ls /dev/hugepages; ls -d /run/dpdk/weir-* 2>/dev/null')
    check(left == '' and free_pages(rack) == PAGES, '%s left, %d pages are free', left, free_pages(rack))


@case
def the_configuration_of_the_page():
    """configs/nic.json as it is: the least memory, exception, control API, sums."""
    rack = booted()
    rack.bind()
    with open(os.path.join(ROOT, 'configs', 'nic.json')) as file:
        text = file.read()
    rack.use([0, 1], json.loads(text)['jobs'], mtu=9000)
    path = rack.write_config(text, 'nic.json')
    with started(rack, None, path):
        rack.call(0, ['ip', 'neigh', 'flush', 'all'])  # earlier switches have had another MAC address
        rack.ping(0, rack.switch_address)
        status = Control(rack)
        status.path = '/run/weir/rack7.sock'
        check([p['name'] for p in status.get('/v1/ports')['ports']][:2] == ['p0', 'p1'], '%s', status.get('/v1/ports'))
        reduce(rack, 1, [0, 1], 2048)
        by_the_way(rack, [0, 1])


if __name__ == '__main__':
    main()
