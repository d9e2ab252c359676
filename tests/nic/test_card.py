#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""card.py, which verifies cards: on cables of veth here."""
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'functional'))

from tap import case, check, main
from rack import command, ip

CARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'card.py')
RING = 'framesz=9216,blocksz=36864,framecnt=512'


@contextlib.contextmanager
def cables(count):
    """Pairs of interfaces of this machine."""
    names = [('wc%ds%d' % (os.getpid() % 100000, i), 'wc%dh%d' % (os.getpid() % 100000, i)) for i in range(count)]
    try:
        for switch, host in names:
            ip('link add %s type veth peer name %s' % (switch, host), 'link set %s arp off' % switch)
            command(['ethtool', '-K', host, 'tx', 'off'])
        yield names
        for switch, host in names:
            ip('link show %s' % switch, 'link show %s' % host)  # they are back
    finally:
        for switch, _ in names:
            subprocess.run(['ip', 'link', 'del', switch], check=False, stderr=subprocess.DEVNULL, timeout=300)


def run(*arguments, status=0):
    done = subprocess.run([CARD, '--no-huge', *arguments], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=280)
    check(done.returncode == status, 'status %d: %s', done.returncode, done.stdout)
    return done.stdout.splitlines()


@case
def two_ranks_over_one_cable():
    with cables(1) as [(switch, host)]:
        said = run('net_af_packet0,iface=%s,%s=%s' % (switch, RING, host))
    check(said[-1] == 'card: passed', '%s', said)


@case
def two_cables_with_jumbo_frames():
    with cables(2) as names:
        said = run('--mtu', '9000', '--ranks', '1', *['net_af_packet%d,iface=%s,%s=%s' % (i, switch, RING, host)
                                                      for i, (switch, host) in enumerate(names)])
    check('card: blocks of 2048 elements: every sum is right' in said, '%s', said)


@case
def what_fails_is_said():
    with cables(1) as [(switch, host)]:
        said = run('net_af_packet0,iface=%s,framesz=1024,blocksz=4096=%s' % (switch, host), status=1)
    check('card: failed: ' in ' '.join(said), '%s', said)


if __name__ == '__main__':
    main()
