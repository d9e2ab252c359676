# SPDX-License-Identifier: BSD-3-Clause
"""The switches of a scenario: one, or a tree. Programs are built or installed, and counts survive the switches."""
import contextlib
import hmac
import os
import re
import shutil
import subprocess

from rack import Api, Rack, RackError, job
from scenario import Places, ScenarioError, rules
from tree import PORT, Switch, Tree

HERE = os.path.dirname(os.path.abspath(__file__))
# `packets lost`: dropped on purpose, or for lack of room.
LOST = ('fault_drop', 'fault_blackout', 'queue_full', 'crossbar_full', 'no_mbuf', 'policed')
DAMAGE = ('drop', 'blackout', 'corrupt')


class FaultSwitch:
    """What a scenario asks of a switch. Mixed into a Rack, and it comes first."""

    built = None
    counted = None  # by switches that have ended
    rule_numbers = ()  # of its faults' rules in the scenario
    port_keys = {}

    def config(self):
        made = super().config()
        for port in made['ports']:
            port.update(self.port_keys)
        return made

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

    def check_config(self, name, file):
        """Raises ScenarioError with the switch's reason, if weir-switch refuses the configuration."""
        path = self.write_config()
        run = subprocess.run([self.program(('switch', 'weir-switch')), '-c', path, '--check'], text=True, timeout=60,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if run.returncode != 0:
            raise ScenarioError('%s: %s refuses its configuration: %s' % (
                file, name, re.sub(re.escape(path) + r'[:\d]*: ', '', run.stderr.strip())))

    def ask(self, method, target, body=None):
        with contextlib.closing(Api(self.socket)) as api:
            return api.ask(method, target, body)

    def set_faults(self, faults, numbers):
        """In the running switch, and for one that starts again. numbers: of its rules in the scenario."""
        self.rule_numbers = numbers
        if faults:
            self.changes['faults'] = faults
            self.ask('PUT', '/v1/faults', faults)
        else:
            self.changes.pop('faults', None)
            self.ask('DELETE', '/v1/faults')

    def levels(self):
        """What has to return to its value: free packet memory, buffers and block records. Clears faults."""
        # The first rule allocates the memory for held packets, which stays.
        self.ask('PUT', '/v1/faults', {'rules': [{'direction': 'in', 'action': 'drop', 'chance_ppm': 0}]})
        self.ask('DELETE', '/v1/faults')
        status = self.ask('GET', '/v1/status')
        found = {'pools.%s' % name: pool['free'] for name, pool in status['pools'].items()}
        found.update(('memory.%s' % key, status['memory'][key])
                     for key in ('free', 'data', 'blocks_reserved', 'blocks_used'))
        for one in self.read_stats()['jobs']:
            found['%s.buffers_used' % one['name']] = one['buffers_used']
        return found

    # -- counts, over restarts of the switch

    def begin_counting(self):
        self.counted = {k: -v for k, v in flat(self.stats_at_rest(), {}).items()}

    def keep_counts(self):
        """Keep the counts of a switch that will be killed, or whose faults will be cleared."""
        self.counted = add(self.counted, flat(self.read_stats(), self.fault_counts()))

    def keep_fault_counts(self):
        self.counted = add(self.counted, self.fault_counts())

    def fault_counts(self):
        """Hits by rule and by action."""
        found = {}
        for number, rule in zip(self.rule_numbers, self.ask('GET', '/v1/faults')['rules']):
            for name in ('hits.%d' % number, 'hits.' + rule['action'], 'matched.%d' % number):
                count = rule['matched' if name.startswith('matched') else 'hit']
                found[name] = found.get(name, 0) + count
            if rule['action'] == 'corrupt':
                found['lost'] = found.get('lost', 0) + rule['hit']
        return found


class OneSwitch(FaultSwitch, Rack):
    """A scenario's only switch, with a control API on a Unix socket."""

    label = None

    def __init__(self, **more):
        super().__init__(**more)
        self.socket = os.path.join(self.folder, 'run', 'api.sock')
        self.changes['api'] = {'listen': ['unix:' + self.socket]}


class TreeSwitch(FaultSwitch, Switch):
    """A switch of a scenario's tree."""

    @property
    def socket(self):
        return self.api_path


class FaultTree(Tree):
    make = TreeSwitch


class Stage(contextlib.ExitStack):
    """The switches of a scenario, by name in a tree, with its jobs. A context manager."""

    def __init__(self, scenario, build=None):
        super().__init__()
        self.scenario, self.places = scenario, Places(scenario)
        more = {'build': build, 'changes': dict(scenario['switch'])}
        if scenario['tree'] is None:
            self.tree = None
            self.switches = {'switch': OneSwitch(hosts=scenario['hosts'], **more)}
            self.roots = list(self.switches.values())
        else:
            above = {switch: self.places.parents(switch) for switch in self.places.switches}
            self.tree = FaultTree(**scenario['tree'], above=above, **more)
            self.switches = self.tree.switches
            self.roots = [switch for switch in self.tree if not switch.parents]
        for switch in self.switches.values():
            switch.built, switch.port_keys = build, scenario['port']
        if self.tree is None and any(one['host'] for one in scenario['jobs']):
            self.switches['switch'].changes['api']['listen'].append('tcp:SWITCH:%d' % PORT)

    def __enter__(self):
        try:
            self.enter_context(self.tree or self.switches['switch'])
            self.add_jobs()
        except BaseException:
            self.close()
            raise
        return self

    def check(self):
        """Instead of entering: raises ScenarioError for what a switch would refuse, at the start or of later faults, and for
        programs that are not there."""
        for number, one in enumerate(self.scenario['jobs']):
            if one['host'] and not shutil.which(one['host'][0]):
                raise ScenarioError('%s: jobs[%d].host[0]: there is no program %s in %s' % (
                    self.scenario['file'], number, one['host'][0], os.getcwd() if '/' in one['host'][0] else 'PATH'))
        with contextlib.ExitStack() as folders:
            for switch in self.switches.values():
                os.mkdir(switch.folder)
                folders.callback(shutil.rmtree, switch.folder, ignore_errors=True)
            self.add_jobs()
            made = [self.sections(faults, 0) for faults in
                    [self.scenario['faults']] + [action['faults'] for action in self.scenario['actions']]]
            for name, switch in self.switches.items():
                sections = [one.get(name, (None, []))[0] for one in made]
                for i, section in enumerate(sections):
                    if section not in sections[:i]:
                        switch.changes.pop('faults', None)
                        switch.changes.update({'faults': section} if section else {})
                        switch.check_config('the switch' if self.tree is None else name, self.scenario['file'])

    @property
    def folder(self):
        return self.roots[0].folder

    def at(self, host):
        """The switch of a host and the host's number there."""
        return self.tree.at(host) if self.tree else (self.switches['switch'], host)

    def place(self, name, link):
        """The namespace and the interface of a switch's end of a link, which is its port's name, too."""
        lower, upper = self.places.links[link]
        if isinstance(lower, int):
            switch, host = self.at(lower)
            return switch.namespace('sw'), 'p%d' % host
        lower, upper = self.tree[lower], self.tree[upper]
        if name == lower.label:
            return lower.namespace('sw'), 'up%d' % lower.parents.index(upper)
        return upper.namespace('sw'), 'down%d' % upper.children.index(lower)

    # -- jobs

    def add_jobs(self):
        for number, one in enumerate(self.scenario['jobs'], 1):
            self.add_job(number, one)

    def add_job(self, number, one):
        if self.tree:
            above = [self.places.spines[spine] for spine in one['spines']] + self.places.tops
            made = self.tree.add_job(number, one['hosts'], above=above, **one['options'])
            for name in set(above) & set(made):
                made[name].update(one['spine_options'])
        else:
            made = {'switch': job(number, len(one['hosts']), **one['options'])}
            for source, host in zip(made['switch']['sources'], one['hosts']):
                source['address'] = self.address(host)
            self.switches['switch'].jobs.append(made['switch'])
        if one['authenticate']:
            for settings in made.values():
                settings['key_file'] = self.key_file(number)
                for parent in settings.get('tree', {}).get('parents', []):
                    parent['key_file'] = self.key_file(number, settings['tree']['first_rank'])

    def key_file(self, number, source=None):
        """The key of a job, or of one of its sources."""
        name = 'job%d.key' % number if source is None else 'job%d-source%d.key' % (number, source)
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            key = os.urandom(32)
            if source is not None:
                with open(self.key_file(number)) as file:
                    key = hmac.digest(bytes.fromhex(file.read()), b'weir source' + bytes([source]) + bytes(8), 'sha256')
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 'w') as file:
                file.write(key.hex() + '\n')
        return path

    # -- the hosts

    def address(self, host):
        switch, own = self.at(host)
        return switch.address(own)

    def switch_address(self, host):
        return self.at(host)[0].switch_address

    def spawn(self, host, argv, name):
        switch, own = self.at(host)
        return switch.spawn(own, argv, name)

    def program(self, name):
        return self.roots[0].program(name)

    # -- all switches

    def each(self, function):
        """The dicts that this gives for every switch as one; in a tree with the switch's name in front of the keys."""
        return {'%s.%s' % (switch.label, key) if self.tree else key: value
                for switch in self.switches.values() for key, value in function(switch).items()}

    def start(self):
        for switch in self.switches.values():
            switch.start_switch(wait=False)
        for switch in self.switches.values():
            switch.wait_switch()

    def stop(self):
        """Stop all, which must return everything."""
        for switch in self.switches.values():
            switch.stop_switch()

    def levels(self):
        return self.each(lambda switch: switch.levels())

    def check_packets(self):
        for switch in self.switches.values():
            switch.check_packets()

    def renew_jobs(self):
        """Remove and restore the jobs, by reloading: everything that they held must return."""
        jobs = [(switch, switch.jobs) for switch in self.switches.values()]
        for those in ([], None):
            for switch, own in jobs:
                switch.jobs = own if those is None else those
                switch.write_config()
            for switch, _ in jobs:
                switch.ask('POST', '/v1/reload')

    def sections(self, faults, seed):
        """The section `faults` of the switches that have one, and the numbers of its rules in the scenario."""
        made = rules(self.scenario, faults or {}, lambda name, link: self.place(name, link)[1])
        return {name: (dict(section, seed=seed), numbers) for name, (section, numbers) in made.items()}

    def set_faults(self, faults, seed):
        made = self.sections(faults, seed)
        for name, switch in self.switches.items():
            switch.set_faults(*made.get(name, (None, [])))

    def counts(self):
        """Of all switches, and in a tree also of each."""
        found = self.each(lambda switch: switch.counted) if self.tree else {}
        for switch in self.switches.values():
            found = add(found, switch.counted)
        for name in ('complete', 'partial', 'error'):
            found[name] = sum(switch.counted.get('blocks_' + name, 0) for switch in self.roots)
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
