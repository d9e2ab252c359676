#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""GET /v1/blocks of a real switch: who is missing, whatever ids a job's sources have."""

from control import Control
from rack import Rack, job
from tap import case, check, main, wait_for
from wire import Peer


def blocks(api):
    """The blocks in flight, as soon as there are some."""
    return wait_for(lambda: api.get('/v1/blocks')['blocks'], 'no block')


@case
def missing_are_sources_that_the_job_has():
    ids = {1: 0, 5: 1, 9: 2}  # and the host of each
    sources = [{'id': i, 'address': Rack.address(host)} for i, host in ids.items()]
    with Rack(hosts=3, jobs=[dict(job(1, 3), sources=sources, generation=7,
                                          policy='wait')]) as rack:
        api = Control(rack)
        rack.start_switch()
        with Peer(rack, 1, 1, 5) as peer:
            peer.generation = 7
            peer.send(0, [1, 2])
            found = blocks(api)
            check(len(found) == 1 and found[0]['heard'] == 1 and found[0]['size'] == 3, '%s', found)
            missing = [(one['rank'], one['address']) for one in found[0]['missing']]
            check(missing == [(1, Rack.address(0)), (9, Rack.address(2))], 'missing: %s', missing)
        found = api.get('/v1/jobs/job1')['members']
        check([member['rank'] for member in found] == list(ids), '%s', found)
        rack.stop_switch()


if __name__ == '__main__':
    main()
