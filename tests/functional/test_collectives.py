#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every collective, type and operation that is allowed, by libweir.so in a process per rank, against
reference.py: counts of 0, 1, about the ranks and about a block, and of several windows; roots at random; in place and
not; blocking, and up to six in flight, waited for in every way. All of them with 3 ranks, a sixth of them with 1, 2,
5 and 8 ranks, and a twelfth where something is in the way: 2 % loss each way, two jobs on the same hosts, keys, results by
multicast, several workers, jumbo frames.

Blocks are small (64 elements, a window of 8), so that a few hundred elements are several windows; with 8
ranks an AlltoAll of 8-byte types has no block for all its slices, and is scattered rank by rank.
"""
import os

from control import running
from tap import case, check, main, seed, table
from perf import key_file
from rack import Rack, job
from ranks import Run, everything

LOSS = {'rules': [{'direction': way, 'action': 'drop', 'chance_ppm': 20000} for way in ('in', 'out')]}


def run(ranks, ids=None, hosts=None, part=1, block=64, window=8, lossy=False, keyed=False, workers=1, mtu=1500, **options):
    draw = seed()
    plan = everything(draw, ranks, block, part)
    key = os.urandom(32).hex()
    with key_file(key) as path:
        made = job(1, ranks, elements=block, window=window, **options, **({'key_file': path} if keyed else {}))
        for rank, number in enumerate(ids or []):
            made['sources'][rank]['id'] = number
        hosts = hosts or range(ranks)
        for source, host in zip(made['sources'], hosts):
            source['address'] = Rack.address(host)
        with running(hosts=max(hosts) + 1, jobs=[made], workers=workers, mtu=mtu,
                     changes={'faults': dict(LOSS, seed=plan.seed)} if lossy else None) as rack:
            Run(rack, 1, plan, hosts, ids, **({'key': key} if keyed else {})).finish(80)
            drops = rack.check_packets()['drops']
    check(drops['forged'] == 0 and (drops['fault_drop'] > 0) == lossy, '%s', drops)


table(run,
      one_rank={'ranks': 1, 'part': 6},
      two_ranks={'ranks': 2, 'part': 6},
      three_ranks_with_ids_of_their_own={'ranks': 3, 'ids': [2, 5, 250]},
      five_ranks={'ranks': 5, 'part': 6},
      eight_ranks={'ranks': 8, 'part': 6},
      # With one address, and a UDP port each.
      ranks_that_share_hosts={'ranks': 5, 'part': 12, 'hosts': [0, 0, 0, 1, 1]},
      three_ranks_whose_alltoall_has_full_blocks={'ranks': 3, 'part': 12, 'alltoall': 'full'},
      eight_ranks_whose_alltoall_has_full_blocks={'ranks': 8, 'part': 12, 'alltoall': 'full'},
      two_ranks_under_loss={'ranks': 2, 'part': 12, 'lossy': True},
      eight_ranks_under_loss={'ranks': 8, 'part': 12, 'lossy': True},
      results_by_multicast={'ranks': 3, 'part': 12, 'results': '239.77.0.1'},
      three_workers={'ranks': 3, 'part': 12, 'workers': 3},
      jumbo_frames={'ranks': 3, 'block': 2048, 'window': 4, 'mtu': 9000, 'part': 18},
      authenticated_under_loss={'ranks': 3, 'part': 12, 'keyed': True, 'lossy': True},
      authenticated_by_multicast={'ranks': 3, 'part': 12, 'keyed': True, 'results': '239.77.0.1'})


@case
def two_jobs_under_loss():
    # On the same hosts, and apart by a rank, so that no job has the other's numbers.
    draw = seed()
    plans = [everything(draw, 4, 64, 12), everything(draw, 3, 256, 12)]
    jobs = [job(1, 4, elements=64, window=8), job(2, 3, first=1, type='int8', op='max', elements=256, window=4)]
    with running(hosts=4, jobs=jobs, changes={'faults': dict(LOSS, seed=plans[0].seed)}) as rack:
        for each in [Run(rack, 1, plans[0], range(4)), Run(rack, 2, plans[1], range(1, 4))]:
            each.finish(80)


if __name__ == '__main__':
    main()
