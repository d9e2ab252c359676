#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""AllReduce with weir-perf, which compares every element with sums of its own."""
from control import running
from tap import case, check, main
from perf import finish, reduce, shapes, start
from rack import job

BLOCK = 256  # elements per block, rack.job's default
ODD = [1, 2, 3, 127, BLOCK - 1, BLOCK, BLOCK + 1, 7919, 64 * BLOCK, 64 * BLOCK + 5, 104729]


def run(hosts, *option_lists, jobs=None, **rack_options):
    """A rack, a run per option list one after the other, packet accounting, a clean stop."""
    jobs = jobs or [job(1, hosts)]
    with running(hosts=hosts, jobs=jobs, **rack_options) as rack:
        for options in option_lists:
            options = [shapes(rack, o) if isinstance(o, list) else o for o in options]
            reduce(rack, 1, range(hosts), *options)
        stats = rack.check_packets()
    return stats


def sizes(dtype, *more):
    return ('--shapes', ODD, '-d', dtype, '-n', 2, '-w', 0) + more


@case
def two_hosts_int32_and_fp32():
    run(2, sizes('int32'), sizes('fp32'))


@case
def three_hosts_int32_and_fp32():
    run(3, sizes('int32'), sizes('fp32'))


@case
def four_hosts_int32_and_fp32():
    run(4, sizes('int32'), sizes('fp32'))


@case
def eight_hosts_int32_and_fp32():
    run(8, sizes('int32'), sizes('fp32'))


@case
def one_host_alone():
    run(1, sizes('int32'))


@case
def nothing_and_one_element():
    run(2, ('-b', 0, '-e', 0, '-n', 3, '-d', 'int32'), ('-b', 4, '-e', 4, '-n', 20, '-d', 'int32'))


@case
def barriers():
    for form in ((), ('--base-form',)):
        stats = run(4, ('-C', 'barrier', '-n', 200) + form)
        check(stats['jobs'][0]['blocks_complete'] >= 200, '%s', stats['jobs'][0])


@case
def sizes_as_nccl_tests_ask_for_them():
    run(3, ('-b', 8, '-e', '1M', '-f', 4, '-n', 3, '-w', 1, '-d', 'fp32'))


@case
def base_form_int32():
    run(3, sizes('int32', '--base-form'), jobs=[job(1, 3, type='int32')])


@case
def base_form_fp32():
    run(3, sizes('fp32', '--base-form'), jobs=[job(1, 3, type='fp32')])


@case
def jumbo_frames():
    jumbo = job(1, 4, elements=2048, window=32)
    run(4, sizes('int32'), sizes('fp32'), jobs=[jumbo], mtu=9000)


@case
def block_of_an_odd_length():
    run(2, sizes('int32'), jobs=[job(1, 2, elements=37, window=16)])


@case
def window_of_one_block():
    run(2, ('--shapes', [1, 7919], '-d', 'int32', '-n', 2), jobs=[job(1, 2, window=1)])


@case
def multicast_results():
    many = job(1, 4, results='239.77.0.1')
    run(4, sizes('int32'), sizes('fp32'), jobs=[many])


@case
def two_jobs_at_once():
    jobs = [job(1, 3, type='int32'), job(2, 3, first=1, type='fp32')]
    with running(hosts=4, jobs=jobs) as rack:
        runs = start(rack, 1, [0, 1, 2], '-b', 4, '-e', '2M', '-f', 8, '-n', 4, '-d', 'int32')
        runs += start(rack, 2, [1, 2, 3], '-b', 4, '-e', '2M', '-f', 8, '-n', 4, '-d', 'fp32')
        finish(runs)


def workers(count, threads=20, hosts=4):
    stats = run(hosts, sizes('int32'), sizes('fp32'), workers=count, threads=threads)
    check(len(stats['workers']) == count, '%d workers', len(stats['workers']))


@case
def two_workers():
    workers(2)


@case
def four_workers_that_share_cpus():
    workers(4)


@case
def one_thread_per_worker():
    workers(1, threads=1)


@case
def one_thread_on_each_of_four_workers():
    workers(4, threads=1)


@case
def sixty_four_threads():
    workers(2, threads=64)


@case
def sixteen_workers_share_the_packets():
    # Most workers free what few receive: none may keep more than its share of a pool.
    workers(16, threads=4)


@case
def two_queues_per_port():
    ports = [{'name': 'p%d' % p, 'rx_queues': 2, 'tx_queues': 2,
              'device': 'net_af_packet%d,iface=p%d,framesz=2048,blocksz=4096,framecnt=1024,qpairs=2'
                        % (p, p)} for p in range(4)]
    run(4, sizes('int32'), sizes('fp32'), workers=2, changes={'ports': ports})


def idle(policy):
    # Two workers on one CPU, beside the hosts: the worst that a policy can meet.
    changes = {'workers': {'idle': policy, 'cpus': [0]}}
    run(2, ('--shapes', [1, 7919], '-d', 'int32', '-n', 2, '-w', 1), workers=2, changes=changes)


@case
def workers_that_yield():
    idle('yield')


@case
def workers_that_spin():
    idle('spin')


@case
def a_wrong_result_would_be_seen():
    # The sources of one job disagree in what they reduce: none of them may call that right.
    with running(hosts=2, jobs=[job(1, 2)]) as rack:
        runs = [rack.perf(0, 1, '-b', 4096, '-e', 4096, '-d', 'int32', '--timeout', 3000),
                rack.perf(1, 1, '-b', 4096, '-e', 4096, '-d', 'fp32', '--timeout', 3000)]
        for each in runs:
            check(each.end(30) != 0, '%s: called it right', each.name)


if __name__ == '__main__':
    main()
