#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is not a collective goes through the same switch: ping, TCP, what is for the switch itself."""
from control import running
from tap import case, check, main, shared
from perf import finish, start
from rack import SWITCH_ADDRESS, job


def exact(rack, sender, receiver, size):
    sent, received = rack.transfer(sender, receiver, size)
    check(sent == received, 'TCP from host %d to %d: %s became %s', sender, receiver, sent,
          received)


@shared
def four():
    with running(hosts=4, jobs=[job(1, 4)], workers=2) as rack:
        yield rack


@case
def ping_between_all_hosts_and_to_the_switch():
    for run in [four().ping(a, b, background=True) for a in range(4)
                for b in [SWITCH_ADDRESS] + [four().address(h) for h in range(4) if h != a]]:
        run.wait(30)


@case
def tcp_through_the_switch():
    exact(four(), 0, 1, 20_000_000)
    exact(four(), 1, 0, 1_000_003)


@case
def unicast_reaches_its_host_alone():
    rack = four()
    rack.ping(0, rack.address(1), count=1)
    rack.ping(2, SWITCH_ADDRESS, count=1)
    before = rack.wire(2)['rx_packets']
    rack.ping(0, rack.address(1), count=20, interval=0.02)
    # ARP may refresh meanwhile; the twenty pings must not be flooded.
    seen = rack.wire(2)['rx_packets'] - before
    check(seen < 15, 'host 2 saw %d frames of others', seen)


@case
def everything_at_once():
    rack = four()
    runs = start(rack, 1, range(4), '-b', '64K', '-e', '256K', '-f', 2, '-n', 8, '-d', 'fp32')
    pings = [rack.ping(0, rack.address(3), count=10, background=True),
             rack.ping(2, SWITCH_ADDRESS, count=10, background=True)]
    exact(rack, 1, 2, 5_000_000)
    for ping in pings:
        ping.wait(60)
    finish(runs)


@case
def jumbo_frames():
    with running(hosts=2, mtu=9000, workers=2) as rack:
        rack.call(0, ['ping', '-n', '-c', '3', '-i', '0.2', '-W', '60', '-M', 'do', '-s', '8972', rack.address(1)])
        exact(rack, 0, 1, 40_000_000)


if __name__ == '__main__':
    main()
