#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""AllReduce with weir-perf, which compares every element with sums of its own."""
from control import running
from tap import case, check, main, shared, table
from perf import finish, reduce, shapes, start
from rack import job

BLOCK = 256  # elements per block, rack.job's default
ODD = [1, 2, 3, 127, BLOCK - 1, BLOCK, BLOCK + 1, 7919, 64 * BLOCK, 64 * BLOCK + 5, 104729]


def run(rack, number, hosts, *option_lists):
    """A run per option list one after the other."""
    for options in option_lists:
        options = [shapes(rack, o) if isinstance(o, list) else o for o in options]
        reduce(rack, number, range(hosts), *options)


def sizes(dtype, *more):
    return ('--shapes', ODD, '-d', dtype, '-n', 2, '-w', 0) + more


BOTH = [sizes('int32'), sizes('fp32')]
# Of each name: its hosts, what they do, and settings of the job.
JOBS = {
    'two_hosts': (2, BOTH, {}),
    'three_hosts_and_sizes_as_nccl_tests_ask_for_them':
        (3, BOTH + [('-b', 8, '-e', '1M', '-f', 4, '-n', 3, '-w', 1, '-d', 'fp32')], {}),
    'eight_hosts': (8, BOTH, {}),
    'one_host_alone': (1, [sizes('int32')], {}),
    'nothing_and_one_element': (2, [('-b', 0, '-e', 0, '-n', 3, '-d', 'int32'), ('-b', 4, '-e', 4, '-n', 20, '-d', 'int32')], {}),
    'barriers_in_both_forms': (4, [('-C', 'barrier', '-n', 200), ('-C', 'barrier', '-n', 200, '--base-form')], {}),
    'base_form_int32': (3, [sizes('int32', '--base-form')], {'type': 'int32'}),
    'base_form_fp32': (3, [sizes('fp32', '--base-form')], {'type': 'fp32'}),
    'block_of_an_odd_length': (2, [sizes('int32')], {'elements': 37, 'window': 16}),
    'window_of_one_block': (2, [('--shapes', [1, 7919], '-d', 'int32', '-n', 2)], {'window': 1}),
    'multicast_results': (4, BOTH, {'results': '239.77.0.1'}),
}


@shared
def eight():
    jobs = [job(number, hosts, **options) for number, (hosts, _, options) in enumerate(JOBS.values(), 1)]
    with running(hosts=8, jobs=jobs) as rack:
        yield rack


table(lambda number, row: run(eight(), number, *row[:1], *row[1]),
      **{name: {'number': number, 'row': row} for number, (name, row) in enumerate(JOBS.items(), 1)})


@case
def two_jobs_at_once():
    hosts = list(JOBS)
    runs = []
    for name, dtype in (('base_form_int32', 'int32'), ('base_form_fp32', 'fp32')):
        runs += start(eight(), hosts.index(name) + 1, [0, 1, 2], '-b', 4, '-e', '256K', '-f', 8, '-n', 4, '-d', dtype)
    finish(runs)


@case
def a_wrong_result_would_be_seen():
    # The sources of one job disagree in what they reduce: none of them may call that right.
    runs = [eight().perf(host, 1, '-b', 4096, '-e', 4096, '-d', dtype, '--timeout', 3000)
            for host, dtype in enumerate(('int32', 'fp32'))]
    for each in runs:
        check(each.end(30) != 0, '%s: called it right', each.name)


# -- switches of another shape

def shaped(workers, hosts=4, what=BOTH, options=None, **more):
    with running(hosts=hosts, jobs=[job(1, hosts, **(options or {}))], workers=workers, **more) as rack:
        run(rack, 1, hosts, *what)
        check(len(rack.check_packets()['workers']) == workers, 'workers')


QUEUES = [{'name': 'p%d' % p, 'rx_queues': 2, 'tx_queues': 2,
           'device': 'net_af_packet%d,iface=p%d,framesz=2048,blocksz=4096,framecnt=1024,qpairs=2' % (p, p)} for p in range(4)]
FEW = [('--shapes', [1, 7919], '-d', 'int32', '-n', 2, '-w', 1)]

table(shaped,
      jumbo_frames={'workers': 1, 'mtu': 9000, 'options': {'elements': 2048, 'window': 32}},
      one_thread_per_worker={'workers': 1, 'threads': 1},
      one_thread_on_each_of_four_workers={'workers': 4, 'threads': 1},
      sixty_four_threads={'workers': 2, 'threads': 64},
      # Most workers free what few receive: none may keep more than its share of a pool.
      sixteen_workers_share_the_packets={'workers': 16, 'threads': 4},
      two_queues_per_port={'workers': 2, 'changes': {'ports': QUEUES}},
      # Two workers on one CPU, beside the hosts: the worst that a policy can meet.
      **{'workers_that_' + idle: {'workers': 2, 'hosts': 2, 'what': FEW, 'changes': {'workers': {'idle': idle, 'cpus': [0]}}}
         for idle in ('yield', 'spin')})


if __name__ == '__main__':
    main()
