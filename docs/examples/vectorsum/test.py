#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""vectorsum in a rack: a switch and three hosts in network namespaces of this machine. The switch loads the program while it
runs; the ranks are two processes of ./host and one of ./host.py. Needs root, or a kernel that lets users make namespaces."""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WEIR = os.path.dirname(os.path.dirname(os.path.realpath(shutil.which('weir-switch') or '/usr/bin/weir-switch')))
sys.path.append(os.path.join(WEIR, 'share', 'weir', 'faults'))
from rack import Rack, need_root  # noqa: E402 (the path comes first)

RANKS, ELEMENTS = 3, 10000  # 40 blocks, more than a window
COMMANDS = [[os.path.join(HERE, 'host')], [os.path.join(HERE, 'host')], [sys.executable, os.path.join(HERE, 'host.py')]]


def start(rack, run, rank):
    return rack.spawn(rank, COMMANDS[rank] + [rack.switch_address, str(run), str(rank), str(RANKS), str(ELEMENTS)], 'rank')


def check(process, *lines):
    said = process.wait(60).splitlines()
    if said != list(lines):
        sys.exit('%s: %s, not %s' % (' '.join(process.argv), said, list(lines)))


def main():
    need_root()
    with Rack(WEIR, hosts=RANKS, workers=2) as rack:
        api = 'unix:%s/switch.sock' % rack.folder
        rack.changes = {'program_directory': HERE, 'api': {'listen': [api]}}
        rack.start_switch()

        def weirctl(*words):
            return rack.call('sw', [rack.program(('ctl', 'weirctl')), '--switch', api, 'program', *words])

        weirctl('load', 'vectorsum.so', 'ranks=%d' % RANKS, 'timeout_ms=200')
        whole = '%d elements, 0 wrong' % ELEMENTS
        for process in [start(rack, 1, rank) for rank in range(RANKS)]:
            check(process, whole)
        # Without rank 2, each window of blocks waits for the timeout. When the rank comes, it gets the same sums.
        for process in [start(rack, 2, rank) for rank in range(RANKS - 1)]:
            check(process, 'rank 2 was missing', whole)
        for process in [start(rack, 3, rank) for rank in range(RANKS)]:
            check(process, whole)
        weirctl('unload', 'vectorsum')
        rack.check_packets()
        rack.stop_switch()
    print('vectorsum: ok')


if __name__ == '__main__':
    main()
