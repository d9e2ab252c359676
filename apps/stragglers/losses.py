#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What lost packets cost, and how many packets are repeated without need.

    losses.py [BUILD] [--only PART...] [--rounds N] [--json[=FILE]]

Parts, a few seconds each; docs/benchmarks.md explains them:

    rate      8 hosts, operations of 1 MiB, 1 % of all packets lost each way
    window2   3 hosts, a window of 2 blocks, 10 % lost each way
    last      4 hosts, operations of one block; every third contribution of host 0 is lost (repetitions and
              probes count, too), or every third result
    needless  4 and 8 hosts, no faults

`needless` in the table are contributions that the switch had already, in percent of all. Each part alternates between
without and with faults, and the median of --rounds rounds (3) counts.
"""
import argparse
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'rack'))

from command_line import Parser, write_json  # noqa: E402 (the path comes first)
from experiment import machine, play, table  # noqa: E402
from rack import Api, Rack, job  # noqa: E402
from stragglers import reports  # noqa: E402

CHANCE = [{'direction': way, 'action': 'drop', 'chance_ppm': 0} for way in ('in', 'out')]
NTH = {'port': 'p0', 'action': 'drop', 'choice': 'every', 'nth': 3}


def lossy(ppm):
    return [dict(rule, chance_ppm=ppm) for rule in CHANCE]


PARTS = {  # hosts, options of the job, options of weir-perf, (name, rules) of each run
    'rate': (8, {}, ['-b', '1M', '-e', '1M', '-n', '100'], [('none', []), ('1 % each way', lossy(10000))]),
    'window2': (3, {'window': 2}, ['-b', '64K', '-e', '64K', '-n', '30'],
                [('none', []), ('10 % each way', lossy(100000))]),
    'last': (4, {}, ['-b', '1K', '-e', '1K', '-n', '500', '--latency'],
             [('none', []), ('contribution', [dict(NTH, direction='in', what='contribution')]),
              ('result', [dict(NTH, direction='out', what='result')])]),
    'needless': (8, {}, ['-b', '1M', '-e', '1M', '-n', '150'], [('8 hosts', []), ('4 hosts', [])]),
}


def run(rack, number, hosts, options, rules):
    """One run of weir-perf on so many hosts."""
    def ask(method, target, body=None):
        api = Api(os.path.join(rack.folder, 'api'))
        try:
            return api.ask(method, target, body)
        finally:
            api.close()

    def counted():
        now = rack.stats_at_rest()
        return next(j for j in now['jobs'] if j['id'] == number)

    before = counted()
    ask('PUT', '/v1/faults', {'seed': 1, 'rules': rules})
    found = reports([rack.perf(h, number, '-w', '2', '-c', '0', *options) for h in range(hosts)], 120)
    ask('DELETE', '/v1/faults')
    after = counted()
    timing = found[0]['rows'][0]['in_place'] or found[0]['rows'][0]['out_of_place']
    gone = {key: after[key] - before[key] for key in after if isinstance(after[key], int)}
    sent = sum(r['stats']['packets_sent'] for r in found)
    return {'us': timing.get('time_us', timing.get('median_us')), 'p99_us': timing.get('p99_us'), 'sent': sent,
            'repeated': sum(r['stats']['retransmissions'] for r in found),
            'probes': sum(r['stats'].get('probes', 0) for r in found),
            'needless': 100 * (gone['duplicates']) / sent}


def measure(build, parts, rounds, path):
    here, rows, all_found = machine(), [], {}
    for part in parts:
        hosts, job_options, options, runs = PARTS[part]
        found = [[] for _ in runs]
        with Rack(build=build, hosts=hosts, jobs=[job(1, hosts, **job_options), job(2, 4)], changes={
                'api': {'listen': []}}) as rack:
            rack.changes['api']['listen'] = ['unix:' + os.path.join(rack.folder, 'api')]
            rack.start_switch()
            for _ in range(rounds):
                for which, (name, rules) in zip(found, runs):
                    small = name == '4 hosts'
                    which.append(run(rack, 2 if small else 1, 4 if small else hosts, options, rules))
            rack.check_packets()
            rack.stop_switch()
        first = statistics.median(r['us'] for r in found[0])
        for (name, _), several in zip(runs, found):
            us, p99, needless = (statistics.median(r[key] or 0 for r in several) for key in ('us', 'p99_us', 'needless'))
            rows.append((part, name, '%.0f' % us, '%.2f' % (us / first), '%.0f' % p99 if p99 else '-', *(
                '%.2f' % (100 * statistics.median(r[key] / r['sent'] for r in several))
                for key in ('repeated', 'probes')), '%.3f' % needless))
        all_found[part] = {name: several for (name, _), several in zip(runs, found)}
    heads = (('part', 'lost', 'time', 'x none', '99 %', 'repeated', 'probes', 'needless'),
             ('', '', 'us', '', 'us', '%', '%', '%'))
    print('# %s, %d CPUs, load %.1f' % (here['cpu'], here['cpus'], here['load_before']))
    print('\n'.join(table(heads, [(None, rows)], left=(0, 1))), flush=True)
    if path:
        write_json(path, {'machine': here, 'parts': all_found})
    return 0


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build', nargs='?')
    parser.add_argument('--only', nargs='*', choices=PARTS, default=list(PARTS), metavar='PART')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_json()
    args = parser.parse_args()
    return play('losses', lambda: measure(args.build, args.only or list(PARTS), args.rounds, args.json))


if __name__ == '__main__':
    sys.exit(main())
