#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several ranks on one host, with one address: each has a UDP port of its own, and every collective works, as
configured and as members by the control API."""
import json
import os

from control import Control, running
from join_hosts import LAUNCHERS, SHORT, environment
from tap import case, check, main, seed
from rack import Rack, job
from ranks import Plan, Run, operation

WHERE = [0, 0, 0, 1, 1]  # the host of each rank


@case
def every_collective():
    draw = seed()
    plan = Plan(ranks=5, seed=draw.getrandbits(32))
    steps = [operation('allreduce', 'fp32', 'sum', 300), operation('reduce', 'int64', 'max', 90, root=1),
             operation('reducescatter', 'int16', 'sum', 40, in_place=True),
             operation('broadcast', 'int8', None, 500, root=4), operation('scatter', 'fp16', None, 33, root=2),
             operation('gather', 'uint8', None, 70, root=0), operation('allgather', 'fp64', None, 21),
             operation('alltoall', 'int32', None, 19), operation('barrier')]
    plan.group('blocking', steps)
    made = job(1, 5, elements=64, window=8)
    for rank, host in enumerate(WHERE):
        made['sources'][rank]['address'] = '10.77.0.%d' % (host + 1)
    with running(hosts=2, jobs=[made]) as rack:
        Run(rack, 1, plan, WHERE).finish(60)


@case
def members_as_launchers_start_them():
    for launcher in range(len(LAUNCHERS)):
        with Rack(hosts=2) as rack:
            api = Control(rack)
            rack.start_switch()
            runs = []
            for rank, host in enumerate(WHERE):
                known = environment(rank=rank, size=len(WHERE), launcher=launcher, WEIR_JOB='ring',
                                    WEIR_SWITCH='unix:' + api.path)
                path = os.path.join(rack.folder, 'report-%d.json' % rank)
                runs.append((path, rack.spawn(host, [rack.program(('perf', 'weir-perf')), *SHORT, '--create',
                                                     '--json', path], 'perf', known)))
            for path, run in runs:
                run.wait(50)
                with open(path) as file:
                    rows = json.load(file)['rows']
                check(rows and all(row['wrong'] == 0 for row in rows), '%s: %s', run.name, rows)
            rack.stop_switch()


if __name__ == '__main__':
    main()
