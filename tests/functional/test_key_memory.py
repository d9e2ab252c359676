#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A host's key is in its memory where packets are signed, and nowhere as it came over HTTP."""
import base64
import os
import re
import socket
import subprocess

from fake_api import FakeApi
from tap import case, check, main, seed

PERF = os.path.join(os.environ['WEIR_BUILD'], 'apps', 'perf', 'weir-perf')
ANSWER = {'job': 1, 'name': 'ring', 'source': 0, 'size': 2, 'generation': 0, 'window': 64,
          'elements': 256, 'type': 'fp32', 'op': 'sum', 'timeout_ms': 1000}


def memory(pid):
    """What the process may write to, a range at a time."""
    with open('/proc/%d/maps' % pid) as maps, open('/proc/%d/mem' % pid, 'rb', 0) as mem:
        for line in maps:
            found = re.match(r'([0-9a-f]+)-([0-9a-f]+) rw', line)
            if found and '[v' not in line:
                begin, end = (int(n, 16) for n in found.groups())
                if end - begin > 1 << 28:  # a sanitizer's own
                    continue
                mem.seek(begin)
                try:
                    yield line.split()[-1], mem.read(end - begin)
                except OSError:  # a guard
                    continue


def host(address):
    """One that joins, and then waits."""
    known = dict(os.environ, WEIR_SWITCH=address, WEIR_JOB='ring', WEIR_RANK='0', WEIR_SIZE='2')
    return subprocess.Popen([PERF, '-b', '4K', '-e', '4K', '--join-timeout', '60000'], env=known,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


@case
def the_answer_leaves_no_key_behind():
    key = seed().getrandbits(8 * 32).to_bytes(32, 'big')
    digits = base64.b64encode(key)
    with FakeApi(tcp=True) as api:
        api.routes['/v1/status'] = {'address': '127.0.0.1'}
        # A text behind it, too: what was parsed before is written over by nothing.
        for answer in (dict(ANSWER, key=digits.decode()),
                       dict(key=digits.decode(), more='m' * 20000, **ANSWER)):
            # A switch that takes members and answers no join: the host repeats it, with its key.
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.bind(('127.0.0.1', 0))
            udp.settimeout(60)
            answer['switch'] = {'address': '127.0.0.1', 'udp_port': 9, 'udp_port_ext': udp.getsockname()[1]}
            api.routes['/v1/jobs/ring/members'] = answer
            process = host(api.address)
            try:
                udp.recv(2048)  # it has read the answer
                text = [where for where, data in memory(process.pid) if digits[:24] in data]
                used = [where for where, data in memory(process.pid) if b'/members' in data]
            finally:
                udp.close()
                process.kill()
                process.communicate()
            check(used, 'nothing of its memory was seen')
            check(not text, 'the key is in %s', text)


if __name__ == '__main__':
    main()
