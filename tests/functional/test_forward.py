#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is not a collective goes through the same switch: ping, TCP, what is for the switch itself."""
from control import running
from tap import case, check, main
from perf import finish, start
from rack import SWITCH_ADDRESS, job


def exact(rack, sender, receiver, size):
    sent, received = rack.transfer(sender, receiver, size)
    check(sent == received, 'TCP from host %d to %d: %s became %s', sender, receiver, sent,
          received)


@case
def ping_between_all_hosts():
    with running(hosts=4) as rack:
        runs = [rack.ping(a, rack.address(b), background=True)
                for a in range(4) for b in range(4) if a != b]
        for run in runs:
            run.wait(30)


@case
def ping_the_switch_itself():
    with running(hosts=3) as rack:
        for host in range(3):
            rack.ping(host, SWITCH_ADDRESS, count=5, interval=0.05)


@case
def pings_as_large_as_a_jumbo_frame():
    with running(hosts=2, mtu=9000) as rack:
        rack.call(0, ['ping', '-n', '-c', '3', '-i', '0.2', '-W', '2', '-M', 'do', '-s', '8972',
                      rack.address(1)])


@case
def tcp_through_the_switch():
    with running(hosts=2) as rack:
        exact(rack, 0, 1, 20_000_000)
        exact(rack, 1, 0, 1_000_003)


@case
def tcp_with_jumbo_frames_and_two_workers():
    with running(hosts=2, mtu=9000, workers=2) as rack:
        exact(rack, 0, 1, 40_000_000)


@case
def unicast_reaches_its_host_alone():
    with running(hosts=3) as rack:
        rack.ping(0, rack.address(1), count=1)
        rack.ping(2, SWITCH_ADDRESS, count=1)
        before = rack.wire(2)['rx_packets']
        rack.ping(0, rack.address(1), count=20, interval=0.02)
        # ARP may refresh meanwhile; the twenty pings must not be flooded.
        check(rack.wire(2)['rx_packets'] - before < 5, 'host 2 saw %d frames of others',
              rack.wire(2)['rx_packets'] - before)


@case
def everything_at_once():
    for workers in (1, 2):
        with running(hosts=4, jobs=[job(1, 4)], workers=workers) as rack:
            runs = start(rack, 1, range(4), '-b', '1M', '-e', '4M', '-f', 2, '-n', 8, '-d', 'fp32')
            pings = [rack.ping(0, rack.address(3), count=10, background=True),
                     rack.ping(2, SWITCH_ADDRESS, count=10, background=True)]
            exact(rack, 1, 2, 5_000_000)
            for ping in pings:
                ping.wait(60)
            finish(runs)


if __name__ == '__main__':
    main()
