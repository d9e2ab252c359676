#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Captures, and what replays them: net_pcap in the switch, dpdk-testpmd over shared memory. Each
result is compared with a sum that this file makes from the capture alone."""
import glob
import json
import os
import signal
import stat
import struct
import subprocess

from replay import (CAPTURE, ROOT, SWITCH, Bench, Reference, Testpmd, job, pcap_port,
                    read_pcap)
from tap import case, check, main, seed
from wire import FP32, INT32

TYPES = {'int32': INT32, 'fp32': FP32}


def replayed(bench, capture_options, dtype, sources, elements):
    """A capture goes through a switch; returns what weir-capture tells, the frames, and the switch's statistics."""
    config = bench.configure('testpmd/replay.json', jobs=[job(sources, elements, dtype=dtype)])
    told = bench.capture('-c', config, '-o', bench.path('in.pcap'), '--expect',
                         bench.path('expect'), *capture_options)
    frames = read_pcap(bench.path('in.pcap'))
    check(told['frames'] == len(frames) and told['bytes'] == sum(map(len, frames)), '%s', told)
    bench.start_switch('testpmd/replay.json', jobs=[job(sources, elements, dtype=dtype)],
                       ports=[pcap_port(rx_pcap=bench.path('in.pcap'),
                                        tx_pcap=bench.path('out.pcap'))])
    bench.received(len(frames))
    return told, frames, bench.stop_switch()


def ran(command, status=0, **more):
    """Its output; it has to end so."""
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=800, text=True, check=False, **more)
    check(run.returncode == status, '%s: %d %s', command, run.returncode, run.stdout)
    return run.stdout


def check_expected(bench, reference):
    """What weir-capture foretells is what the reference has added up."""
    kind = 'f' if reference.dtype == FP32 else 'i'
    with open(bench.path('expect')) as file:
        lines = [json.loads(line) for line in file]
    check(sorted(line['block'] for line in lines) == sorted(reference.sums), 'other blocks')
    for line in lines:
        values = bytes.fromhex(line['payload'])
        check(struct.unpack('<%d%s' % (len(values) // 4, kind), values) ==
              reference.sums[line['block']], 'block %d is foretold wrong', line['block'])


@case
def each_configuration_and_script_is_accepted():
    """The scripts call what Pktgen has, as it has it, and print their tables; Pktgen is played."""
    found = [path for folder in ('pktgen', 'testpmd') for path in glob.glob(os.path.join(ROOT, 'configs', folder, '*.json'))]
    check(len(found) >= 5, 'only %s', found)
    for path in found:
        with open(path) as file:
            names = [j['name'] for j in json.load(file)['jobs']]
        for command in [[SWITCH, '--check', '-c', path]] + [[CAPTURE, '-c', path, '--job', name, '-o', '/dev/null'] for name in names]:
            ran(command)
    played = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'pktgen_played.lua')
    for name, rows in {'contributions': 1, 'rates': 3, 'frames': 2}.items():
        with Bench() as bench:
            said = ran(['lua5.4', played, os.path.join(ROOT, 'configs', 'pktgen', name + '.lua')], env=dict(
                os.environ, WEIR_SECONDS='2', WEIR_RATES='1 50 100', WEIR_SIZES='64 1518', WEIR_TABLE=bench.path('table')))
            with open(bench.path('table')) as file:
                lines = file.read().splitlines()
        check(len(lines) == 1 + rows, '%s:\n%s', name, said)
        check('loss %' in lines[0] and lines[-1].split()[-1] == '10.0000', '%s', lines)


@case
def a_capture_goes_through_the_switch():
    """Orders, forms and types: one result for each contribution, and each is the sum; repeats change none."""
    dice = seed()
    for order, form, dtype, repeats in (('blocks', [], 'fp32', 0), ('sources', ['--extended'], 'int32', 0),
                                        ('random', [], 'int32', 25)):
        sources, elements = dice.randint(2, 5), dice.randint(2, 60)
        with Bench() as bench:
            told, frames, stats = replayed(bench, ['--order', order, '--duplicates', repeats, '--seed', dice.getrandbits(63)] + form,
                                           dtype, sources, elements)
            reference = Reference(frames, TYPES[dtype], told['window'])
            check(len(reference.sums) == told['blocks'] == 256, '%s', told)
            check(told['frames'] == 256 * sources + told['duplicates'] and (told['duplicates'] > 50) == (repeats > 0), '%s', told)
            check_expected(bench, reference)
            results = [reference.result(f) for f in read_pcap(bench.path('out.pcap'))]
            check(None not in results, '%d replies without a result', results.count(None))
            check(set(results) == {(s, b) for s in range(sources) for b in range(256)}, 'results: %s', results[:9])
            check(repeats or len(results) == 256 * sources, '%d results', len(results))
            check(stats['drops']['duplicate'] + stats['drops']['late'] == told['duplicates'] == stats['dropped'], '%s', stats['drops'])
            check(stats['jobs'][0]['contributions'] == 256 * sources, '%s', stats['jobs'])


@case
def standard_output_and_signals():
    with Bench() as bench:
        config = bench.configure('testpmd/replay.json')
        whole = subprocess.run([CAPTURE, '-c', config, '-o', '-', '--blocks', '3', '--gap', '999999500'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=800)
        with open(bench.path('out'), 'wb') as file:
            file.write(whole.stdout)
        times = [struct.unpack('=II', whole.stdout[at:at + 8]) for at in
                 range(24, len(whole.stdout), (len(whole.stdout) - 24) // 6)]
        check(times == [(0, 0), (0, 999999), (1, 999999), (2, 999998), (3, 999998), (4, 999997)], '%s', times)
        check(len(read_pcap(bench.path('out'))) == 6 and b'6 frames' in whole.stderr, '%s',
              whole.stderr)
        run = bench.spawn(CAPTURE, '-c', config, '-e', '-o', bench.path('long.pcap'), '--elements', '0')
        bench.wait(lambda: os.path.exists(bench.path('long.pcap')) and
                   os.stat(bench.path('long.pcap')).st_size > 100000, 'a capture', run)
        run.send_signal(signal.SIGINT)
        check(run.wait(300) == 0, '%s', bench.output(run))
        size = os.stat(bench.path('long.pcap')).st_size
        check(len(read_pcap(bench.path('long.pcap'))) == (size - 24) / 76, 'a frame is cut')
        with subprocess.Popen([CAPTURE, '-c', config, '-o', '-', '--endless'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as run:
            check(len(run.stdout.read(9000000)) == 9000000, 'not endless')
            run.stdout.close()
            check((run.wait(300), run.stderr.read()) == (0, b''), 'who reads is gone: status %d', run.returncode)
        for options, status, says in ((['-o', 'x', '--blocks', '0'], 2, '--blocks 0: must be in 1..'),
                                      ([], 2, '-o FILE is missing'),
                                      (['-o', 'x'], 2, '-c FILE is missing'),
                                      (['-o', 'x', '--order', 'y'], 2, 'must be one of blocks'),
                                      (['-o', 'x', '-c', '/none'], 2, '/none'),
                                      (['-c', config, '-o', '/none/x'], 1, '/none/x: No such file'),
                                      (['-c', config, '-o', '/dev/null', '-x', '/none/x'], 1, '/none/x: No such file'),
                                      (['-c', config, '-o', '/dev/null', '-x', '/dev/full'], 1, '/dev/full: No space left'),
                                      (['-c', config, '-o', '/dev/full'], 1, '/dev/full: No space left')):
            check(says in ran([CAPTURE] + options, status), '%s: not "%s"', options, says)


@case
def testpmd_replays_over_shared_memory():
    with Bench() as bench:
        socket, jobs = bench.path('memif'), [job(2, 64, dtype='fp32')]
        ports = [{'name': 'p0', 'device': 'net_memif0,role=server,id=0,socket=%s,socket-abstract=no' % socket}]
        config = bench.configure('testpmd/memif.json', jobs=jobs)
        bench.capture('-c', config, '-o', bench.path('in.pcap'))
        frames = read_pcap(bench.path('in.pcap'))
        bench.start_switch('testpmd/memif.json', jobs=jobs, ports=ports)
        check(stat.S_ISSOCK(os.stat(socket).st_mode), 'no socket')
        pmd = Testpmd(bench, socket, 'rx_pcap=' + bench.path('in.pcap'), 'tx_pcap=' + bench.path('out.pcap'))
        bench.received(len(frames))
        bench.wait(lambda: pmd.written() >= bench.stats()['sent'], 'the results', pmd.process)
        pmd.stop()
        stats = bench.stop_switch()
        check(stats['dropped'] == 0, '%s', stats['drops'])
        reference = Reference(frames, FP32, 64)
        results = [reference.result(f) for f in read_pcap(bench.path('out.pcap'))]
        check(sorted(results) == [(s, b) for s in range(2) for b in range(256)], '%d results', len(results))


if __name__ == '__main__':
    main()
