# SPDX-License-Identifier: BSD-3-Clause
"""How long the switch takes to notice a straggler, over the timeout that it was given.

One host contributes and the other never does: each block ends by the timeout. The switch itself says how
long that took: /metrics has the sums of the blocks' times from the first contribution to the result, and
to the last contribution; the difference is the time since the block's last progress. Between two looks
at it one block has ended at most, mostly, so each block's time is known.
"""
import http.client
import os
import re
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

from rack import SWITCH_ADDRESS, Rack, RackError, job  # noqa: E402 (the path comes first)

TIMEOUTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)  # ms
LOOKS = 1.5e-3  # seconds between two looks
NAME = 'detection'
WINDOW = 512
ELEMENTS = 64
FAR = 1000000000  # us of computing: longer than anything here


class Plan:
    def __init__(self, timeouts=TIMEOUTS, blocks=100, seconds=3):
        self.timeouts = timeouts
        self.blocks = blocks  # of a timeout at most
        self.longest = seconds  # of a timeout, but three rounds at least

    @staticmethod
    def pause(timeout):
        """ms between a block's end and the next one's beginning: more than a look takes."""
        return 5 + timeout * 0.3

    def round(self, timeout):
        return (self.pause(timeout) + 1.1 * timeout) * 1e-3

    def rounds(self, timeout):
        return max(3, min(self.blocks, int(self.longest / self.round(timeout))))

    @staticmethod
    def at_once(timeout):
        """Blocks of a round: long timeouts have few rounds, and scans that meet blocks apart."""
        return 1 if timeout < 100 else 8

    def seconds(self):
        return sum(self.rounds(t) * self.round(t) + 0.6 for t in self.timeouts) + 2


class Api:
    """The control API on the switch's Unix socket, over a connection that stays."""

    def __init__(self, path):
        self.connection = http.client.HTTPConnection('localhost', timeout=10)
        self.connection.sock = socket.socket(socket.AF_UNIX)
        self.connection.sock.settimeout(10)
        self.connection.sock.connect(path)

    def ask(self, method, target, body=None):
        self.connection.request(method, target, body, {'Content-Type': 'application/json'})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        if answer.status >= 300:
            raise RackError('%s %s: %d %s' % (method, target, answer.status, text))
        return text

    def times(self):
        """(blocks, us from last contribution to result of all of them) of the job so far."""
        text = self.ask('GET', '/metrics')
        found = {}
        for key in ('weir_job_block_latency_seconds_count', 'weir_job_block_latency_seconds_sum',
                    'weir_job_contribution_spread_seconds_sum'):
            found[key[9:]] = float(re.search(r'^%s\{job="%s"\} (\S+)$' % (key, NAME), text,
                                             re.M).group(1))
        return (int(found['block_latency_seconds_count']),
                round(1e6 * (found['block_latency_seconds_sum'] -
                             found['contribution_spread_seconds_sum'])))

    def close(self):
        self.connection.close()


def loop(rack, host, **options):
    options = dict({'switch': SWITCH_ADDRESS, 'address': rack.address(host), 'source': host,
                    'warmup': 0}, **options)
    return rack.spawn(host, [rack.program(('stragglers', 'weir-loop'))] + [
        '--%s=%s' % (key.replace('_', '-'), value) for key, value in options.items()], 'detect')


def watch(api, process, blocks, seconds):
    """Look until so many more blocks have ended. Returns [ms since a block's last progress]; of blocks
    that ended between the same looks their mean, as often."""
    before, found = api.times(), []
    until = time.monotonic() + seconds
    while len(found) < blocks:
        if time.monotonic() > until or process.status not in (None, 0):
            raise RackError('%s: %d of %d blocks have timed out' % (process.name, len(found),
                                                                   blocks))
        now = api.times()
        ended = now[0] - before[0]
        if ended > 0:
            found += [(now[1] - before[1]) / ended / 1e3] * ended
            before = now
        time.sleep(LOOKS)
    return found


def quantile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def measure(plan, build=None, tell=lambda row: None):
    """Rows: timeout_ms, blocks, and of the detection times / timeout p50, p99, least, most."""
    rows = []
    with Rack(build=build, hosts=2, jobs=[job(1, 2, name=NAME, policy='partial', window=WINDOW,
                                              elements=ELEMENTS, dead_after_ms=0)]) as rack:
        path = os.path.join(rack.folder, 'api.sock')
        rack.changes['api'] = {'listen': ['unix:' + path]}
        rack.start_switch()
        api = Api(path)
        for timeout in plan.timeouts:
            began = time.monotonic()
            api.ask('PATCH', '/v1/jobs/' + NAME, '{"timeout_ms": %d}' % timeout)
            blocks = plan.rounds(timeout) * plan.at_once(timeout)
            away = loop(rack, 1, compute_us=FAR)
            here = loop(rack, 0, compute_us=round(plan.pause(timeout) * 1e3),
                        iterations=plan.rounds(timeout),
                        elements=plan.at_once(timeout) * ELEMENTS)
            found = sorted(watch(api, here, blocks,
                                 10 + 3 * plan.rounds(timeout) * plan.round(timeout)))
            here.wait(10)
            away.kill()
            times = [f / timeout for f in found]
            rows.append({'timeout_ms': timeout, 'blocks': len(found),
                         'p50': quantile(times, 0.5), 'p99': quantile(times, 0.99),
                         'least': times[0], 'most': times[-1],
                         'took_s': time.monotonic() - began})
            tell(rows[-1])
        api.close()
        rack.check_books()
        rack.stop_switch()
    return rows


def table(rows):
    yield '# %10s %8s %12s %12s %10s %10s %10s %10s' % (
        'timeout', 'blocks', 'p50', 'p99', 'p50', 'p99', 'least', 'most')
    yield '# %10s %8s %12s %12s %10s %10s %10s %10s' % (
        'ms', '', 'ms', 'ms', '/ timeout', '/ timeout', '/ timeout', '/ timeout')
    for r in rows:
        yield '  %10d %8d %12.3f %12.3f %10.3f %10.3f %10.3f %10.3f' % (
            r['timeout_ms'], r['blocks'], r['p50'] * r['timeout_ms'], r['p99'] * r['timeout_ms'],
            r['p50'], r['p99'], r['least'], r['most'])
