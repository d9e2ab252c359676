#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-bench ports, latency and rfc2544: rows and records with tiny parameters over both kinds of
ports; wrong results, devices that end or hang, and interrupts are survived and leave nothing."""
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from tap import Skip, case, check, main, wait_for

BENCH = os.path.join(os.environ.get('WEIR_BUILD', 'build'), 'apps', 'bench', 'weir-bench')
TINY = ['--huge', 'no', '--sources', '4', '--window', '8', '--idle', 'yield']
SHORT = TINY + ['--repeat', '1', '--phase-ms', '2']


def processes(pid):
    """Processes whose command line names the files or sockets of bench `pid`."""
    found = []
    for path in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            with open(path, 'rb') as file:
                line = file.read().replace(b'\0', b' ').decode()
        except OSError:
            continue
        if 'weir-bench-%d-' % pid in line or 'weir_testpmd_%d' % pid in line:
            found.append(line)
    return found


class Bench:
    """A run of weir-bench; nothing of it is left afterwards."""

    def __init__(self, *options):
        if shutil.which('dpdk-testpmd') is None:
            raise Skip('dpdk-testpmd is not installed')
        self.run = subprocess.Popen([BENCH] + list(options), stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)

    def end(self, status=0, seconds=800):
        try:
            self.out, self.err = self.run.communicate(timeout=seconds)
        finally:
            self.run.kill()
        check(self.run.returncode in (status if isinstance(status, tuple) else (status,)),
              'exit status %d, not %s\n%s', self.run.returncode, status, self.err)
        left = glob.glob('/tmp/weir-bench-%d-*' % self.run.pid)
        check(not left, 'left behind: %s', left)
        wait_for(lambda: not processes(self.run.pid), 'its processes do not end')
        return self


def parsed(bench):
    """The rows of its table, and its records."""
    rows = [line.split() for line in bench.err.splitlines() if line[:1] == ' ']
    check(rows, 'no rows:\n%s', bench.err)
    return rows, json.loads(bench.out)


def records(*options):
    return parsed(Bench(*options, '--json', '-').end())


def ports(over):
    rows, found = records('ports', *SHORT, '--over', over, '--elements', '300,1', '--frames',
                          '64,1518')
    check([r[:3] for r in rows[:4]] == [['300', '1254', 'unicast'], ['300', '1254', 'multicast'],
                                        ['1', '58', 'unicast'], ['1', '58', 'multicast']],
          'rows %s', rows)
    check([r[0] for r in rows[4:]] == ['64', '1518'], 'rows %s', rows)
    check([r['bench'] for r in found] == ['ports'] * 6, '%s', found)
    for r in found:
        check(r['rate'] > 0 and r['rate_testpmd'] > 0 and r['wire'] > 0, 'nothing measured: %s', r)
    for side in ('', '_testpmd'):
        check(abs(found[0]['wire' + side] * 1e9 / 8 / found[0]['rate' + side] - 1278) < 0.1, '%s', found[0])


@case
def ports_over_memif():
    ports('memif')


@case
def ports_over_veth_pairs_in_a_namespace_of_their_own():
    ports('af_packet')


@case
def latencies_are_in_order():
    rows, found = records('latency', *SHORT, '--elements', '16', '--loads', '0,10')
    check([r[2:4] for r in rows] == [[w, l] for w in ('reduce', 'forward') for l in ('0', '10')],
          'rows %s', rows)
    for what, load in ((w, l) for w in ('reduce', 'forward') for l in (0, 10)):
        values = [r for r in found if (r['what'], r['load_percent']) == (what, load)][0]
        if values['p50'] is None:  # the machine left the switch no capacity to load it with
            check(values['disturbed'], '%s', values)
            continue
        check(0 < values['p50'] <= values['p99'] <= values['max'], 'quantiles %s', values)
        check(values['rate'] > 0 and values['p50_testpmd'] is None or values['p50_testpmd'] > 0, '%s', values)
        # Some hundred samples.
        check(values['p99.9'] is None, '%s', values)
    check(all(r[11] == '-' for r in rows), 'p99.9 %s', rows)


@case
def lossless_rates():
    bench = Bench('rfc2544', *TINY, '--frames', '64,512', '--trial-ms', '2', '--resolution', '50', '--json',
                  '-').end((0, 1))
    rows, found = parsed(bench)
    # A busy machine passes no trial, and then that is said.
    missing = [cell for row in rows for cell in row[3:5]].count('-')
    lines = [line for line in bench.err.splitlines() if 'no rate from' in line]
    check(len(lines) == missing < 8, '%d values are missing: %s', missing, bench.err)
    check(bench.run.returncode == any('disturbed' not in line for line in lines), '%s', bench.err)
    check([r[:3] for r in rows] == [['64', 'forward', '0'], ['512', 'forward', '0'],
                                    ['62', 'reduce', '1'], ['510', 'reduce', '113']],
          'rows %s', rows)
    check([r[key] for r in found for key in ('rate', 'rate_testpmd')].count(None) == missing, '%s', found)


@case
def what_is_lost_is_told():
    rows, found = records('ports', *TINY, '--repeat', '1', '--phase-ms', '20', '--elements', '16',
                          '--frames', '64', '--lose', '10')
    check([r.get('results') for r in found] == ['unicast', 'multicast', None], '%s', found)
    for r in found:
        check(r['lost'] > 0 and r['lost_testpmd'] > 0, '%s', r)
    check(all('!' in row for row in rows), 'rows %s', rows)


@case
def lost_frames_are_latencies_of_the_longest_kind():
    rows, found = records('latency', *TINY, '--repeat', '1', '--phase-ms', '20', '--elements', '16',
                          '--loads', '0', '--lose', '10')
    # A trial waits 20 ms for what is missing, contributions 50 ms until they are repeated.
    forward = [r for r in found if r['what'] == 'forward'][0]
    check(forward['max'] > 20e3 and forward['max_testpmd'] > 20e3, '%s', forward)
    check(all(r['lost'] > 0 for r in found), '%s', found)
    check(all('!' in row for row in rows), 'rows %s', rows)


@case
def no_rate_without_loss():
    bench = Bench('rfc2544', *TINY, '--frames', '64', '--trial-ms', '20', '--lose', '2')
    # On a machine that leaves the devices no CPU a trial decides nothing.
    bench.end((0, 1))
    lines = [line for line in bench.err.splitlines() if 'no rate from' in line]
    check(bench.run.returncode == any('disturbed' not in line for line in lines), '%s', bench.err)
    for what in ('forward', 'reduce'):
        check('(%s): no rate from 1000 per second on' % what in bench.err, 'it says:\n%s', bench.err)


@case
def a_wrong_result_is_noticed():
    bench = Bench('ports', *SHORT, '--elements', '16', '--spoil').end(1)
    check('is not the sum' in bench.err, 'it says:\n%s', bench.err)


@case
def a_switch_that_ends_at_once_is_named():
    bench = Bench('ports', *SHORT, '--switch', '/bin/false').end(1)
    check('weir-switch: does not forward; the process has ended' in bench.err, 'it says:\n%s',
          bench.err)


@case
def a_switch_that_hangs_is_named():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'hangs')
        with open(path, 'w') as file:
            file.write('#!/bin/sh\nexec sleep 60 # "$@"\n')
        os.chmod(path, 0o755)
        bench = Bench('ports', *SHORT, '--switch', path).end(1)
    check('weir-switch: does not forward; the process lives' in bench.err, 'it says:\n%s',
          bench.err)


@case
def an_interrupt_ends_all():
    for number in (signal.SIGINT, signal.SIGTERM):
        bench = Bench('ports', *TINY, '--repeat', '99', '--phase-ms', '50')
        wait_for(lambda: len(processes(bench.run.pid)) >= 2, 'the devices do not start')
        time.sleep(0.3)  # somewhere in a phase, of which nothing tells
        bench.run.send_signal(number)
        bench.end(1)


@case
def a_killed_bench_leaves_no_process():
    bench = Bench('ports', *TINY, '--repeat', '99', '--phase-ms', '50')
    wait_for(lambda: len(processes(bench.run.pid)) >= 2, 'the devices do not start')
    bench.run.kill()
    bench.run.communicate(timeout=800)
    wait_for(lambda: not processes(bench.run.pid), 'its processes do not end')
    for folder in glob.glob('/tmp/weir-bench-%d-*' % bench.run.pid):
        shutil.rmtree(folder)


@case
def bad_options_are_refused():
    for options in (['--window', '7'], ['--slots', '100'], ['--sources', '65'], ['--over', 'udp']):
        Bench('ports', '--huge', 'no', *options).end(2)
    for resolution in ('-1', '0', 'nan', '1e9'):
        bench = Bench('rfc2544', '--huge', 'no', '--resolution', resolution).end(2)
        check('in 0.1..50' in bench.err, 'it says:\n%s', bench.err)


if __name__ == '__main__':
    main()
