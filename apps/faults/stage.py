# SPDX-License-Identifier: BSD-3-Clause
"""The rack of a scenario: its programs are built or installed, and its counts survive the switch."""
import contextlib
import os
import shutil

from rack import Api, Rack, RackError, job

HERE = os.path.dirname(os.path.abspath(__file__))
# `packets lost`: dropped on purpose, or for lack of room.
LOST = ('fault_drop', 'fault_blackout', 'queue_full', 'crossbar_full', 'no_mbuf', 'policed')
DAMAGE = ('drop', 'blackout', 'corrupt')


class FaultRack(Rack):
    """A rack with the jobs of a scenario, and a control API on a Unix socket."""

    def __init__(self, scenario, build=None):
        self.scenario = scenario
        self.built = build
        jobs = []
        super().__init__(build=build, hosts=scenario['hosts'], jobs=jobs,
                         changes=dict(scenario['switch']))
        self.socket = os.path.join(self.folder, 'run', 'api.sock')
        self.changes['api'] = {'listen': ['unix:' + self.socket]}
        self.counted = None  # by switches that have ended

    def __enter__(self):
        super().__enter__()
        for number, one in enumerate(self.scenario['jobs'], 1):
            made = job(number, len(one['hosts']), **one['options'])
            for source, host in zip(made['sources'], one['hosts']):
                source['address'] = self.address(host)
            if one['authenticate']:
                made['key_file'] = self.key_file(number)
            self.jobs.append(made)
        return self

    def config(self):
        made = super().config()
        for port in made['ports']:
            port.update(self.scenario['port'])
        return made

    def key_file(self, number):
        path = os.path.join(self.folder, 'job%d.key' % number)
        if not os.path.exists(path):
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 'w') as file:
                file.write(os.urandom(32).hex() + '\n')
        return path

    def program(self, name):
        """In a build directory, else where Weir is installed beside these files."""
        path = os.path.join(self.build, 'apps', *name)
        if not self.built and not os.path.exists(path):
            prefix = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
            for folder in ('bin', 'libexec/weir'):
                installed = os.path.join(prefix, folder, name[-1])
                path = installed if os.path.exists(installed) else path
            path = path if os.path.exists(path) else shutil.which(name[-1]) or path
        if not os.path.exists(path):
            raise RackError('%s is not built' % path)
        return path

    def ask(self, method, target, body=None):
        with contextlib.closing(Api(self.socket)) as api:
            return api.ask(method, target, body)

    # -- levels: what has to return to its value

    def levels(self):
        """Free packet memory, buffers and block records. Clears faults."""
        # The first rule allocates the memory for held packets, which stays.
        self.ask('PUT', '/v1/faults', {'rules': [{'direction': 'in', 'action': 'drop',
                                                  'chance_ppm': 0}]})
        self.ask('DELETE', '/v1/faults')
        status = self.ask('GET', '/v1/status')
        found = {'pools.%s' % name: pool['free'] for name, pool in status['pools'].items()}
        found.update(('memory.%s' % key, status['memory'][key])
                     for key in ('free', 'data', 'blocks_reserved', 'blocks_used'))
        for one in self.read_stats()['jobs']:
            found['%s.buffers_used' % one['name']] = one['buffers_used']
        return found

    def renew_jobs(self):
        """Remove and restore the jobs, by reloading: everything that they held must return."""
        jobs, self.jobs = self.jobs, []
        try:
            self.write_config()
            self.ask('POST', '/v1/reload')
        finally:
            self.jobs = jobs
        self.write_config()
        self.ask('POST', '/v1/reload')

    # -- counts, over restarts of the switch

    def count(self):
        """Counters since the last begin_counting, including those of switches that were killed."""
        return add(self.counted, flat(self.read_stats(), self.fault_counts()))

    def begin_counting(self):
        self.counted = {k: -v for k, v in flat(self.stats_at_rest(), {}).items()}

    def keep_counts(self):
        """Keep the counts of a switch that will be killed, or whose faults will be cleared."""
        self.counted = self.count()

    def keep_fault_counts(self):
        self.counted = add(self.counted, self.fault_counts())

    def fault_counts(self):
        """Hits by rule and by action."""
        found = {}
        for i, rule in enumerate(self.ask('GET', '/v1/faults')['rules']):
            for name in ('hits.%d' % i, 'hits.' + rule['action'], 'matched.%d' % i):
                count = rule['matched' if name.startswith('matched') else 'hit']
                found[name] = found.get(name, 0) + count
            if rule['action'] == 'corrupt':
                found['lost'] = found.get('lost', 0) + rule['hit']
        return found


def flat(stats, faults):
    """Counters of a switch's statistics under the names of a scenario's counts."""
    found = {'drops.' + reason: count for reason, count in stats['drops'].items()}
    found['lost'] = sum(stats['drops'][reason] for reason in LOST)
    for one in stats['jobs']:
        for key, count in one.items():
            if isinstance(count, int) and key not in ('id', 'generation', 'blocks_in_flight',
                                                      'buffers_used', 'buffers_reserved'):
                for name in (key, '%s.%s' % (one['name'], key)):
                    found[name] = found.get(name, 0) + count
    return add(found, faults)


def add(one, other):
    made = dict(one)
    for key, count in other.items():
        made[key] = made.get(key, 0) + count
    return made
