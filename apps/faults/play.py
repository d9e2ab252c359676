# SPDX-License-Identifier: BSD-3-Clause
"""Runs a scenario: hosts, faults, and actions at their times. Every wait has a bound."""
import json
import os
import random
import re
import signal
import subprocess
import time

from rack import RackError, tail
from scenario import filled, racks_of
from tree import PORT

POLL_S = 0.01
GRACE_S = 5  # for a process to end


class Host:
    """One run of weir-faults-host, or of a user's program: job (number, from 1), source, host of the rack."""

    def __init__(self, play, number, source, newcomer=False):
        job = play.scenario['jobs'][number - 1]
        self.job, self.source, self.host = number, source, job['hosts'][source]
        self.endless, self.is_program = job['endless'], job['host'] is not None
        self.killed = self.hung = False
        self.output = None  # all of it, after its end
        stage = play.stage
        self.results = os.path.join(stage.folder, '%s-results-%d-%d' % (play.name, number, source))
        argv = self.program(play, job) if self.is_program else [stage.program(('faults', 'weir-faults-host'))] + [
            '--%s=%s' % (key.replace('_', '-'), value) for key, value in self.options(play, job, newcomer).items()]
        self.process = stage.spawn(self.host, argv, '%s-job%d' % (play.name, number))

    def program(self, play, job):
        """The user's, in the working directory, with the variables that libweir reads."""
        stage = play.stage
        here = {'switch': stage.switch_address(self.host), 'address': stage.address(self.host),
                'addresses': ','.join(map(stage.address, job['hosts'])), 'job': self.job, 'rank': self.source,
                'size': len(job['hosts']), 'seed': play.seed}
        if job['authenticate']:
            here['key_file'] = stage.key_file(self.job)
        return ['env', 'WEIR_SWITCH=http://%s:%d' % (here['switch'], PORT), 'WEIR_JOB=job%d' % self.job,
                'WEIR_RANK=%d' % here['rank'], 'WEIR_SIZE=%d' % here['size'], *filled(job, here)]

    def options(self, play, job, newcomer):
        made = {
            'switch': play.stage.switch_address(self.host), 'address': play.stage.address(self.host),
            'source': self.source, 'job': self.job, 'seed': play.seed, 'results': self.results,
            'steps': 0 if job['endless'] else job['steps'], 'count': job['count'],
            'collective': job['collective'], 'root': job['root'],
            'type': job['type'], 'op': job['op'], 'partial': job['partial'], 'error_feedback': int(job['error_feedback']),
            'timeout_ms': job['op_timeout_ms'], 'join_ms': job['join_timeout_ms'],
            'again': job['rejoin'], 'newcomer': int(newcomer), 'pause_us': job['pause_us'],
        }
        if job['options'].get('narrow'):
            passed = play.stage.places.passed(job)
            made.update(levels=len(passed), switches=sum(passed))
        if job['authenticate']:
            made['key'] = play.stage.key_file(self.job)
        slow = job['stragglers']
        if slow and play.faulty and self.source in play.stragglers[self.job]:
            made.update(slow_ppm=round(slow['chance_percent'] * 10000),
                        slow_least_us=slow['least_ms'] * 1000, slow_most_us=slow['most_ms'] * 1000)
        plant = job['plant']
        if plant and play.faulty and plant['host'] == self.host:
            made.update(plant=plant['what'], plant_step=plant['step'])
        return made

    @property
    def step(self):
        """The operations that it has done."""
        found = re.findall(r'^at (\d+)$', tail_text(self.process.log), re.M)
        return int(found[-1]) if found else 0

    @property
    def report(self):
        """Its last line; None if it was killed or crashed, and of a user's program."""
        found = not self.is_program and re.search(r'^end: (\{.*\})$', self.output, re.M)
        return json.loads(found.group(1)) if found else None

    @property
    def name(self):
        return 'host %d (job %d, source %d)' % (self.host, self.job, self.source)


class Beside:
    """A process beside the jobs."""

    def __init__(self, process):
        self.process, self.output = process, None


def tail_text(path, size=4096):
    with open(path, 'rb') as file:
        file.seek(max(0, os.path.getsize(path) - size))
        return file.read().decode(errors='replace')


class Play:
    """One run of a scenario on a stage whose switches are up. faulty: with faults, actions and endless jobs; without them
    for comparison."""

    def __init__(self, stage, scenario, seed, faulty):
        self.stage, self.scenario, self.seed, self.faulty = stage, scenario, seed, faulty
        self.name = 'faulty' if faulty else 'free'
        draw = random.Random(seed)
        self.random_host = draw.randrange(scenario['hosts'])
        self.stragglers = {n: [job['hosts'].index(host) for rack in racks_of(stage.places, job).values()
                               for host in draw.sample(rack, job['stragglers']['hosts'])]
                           for n, job in enumerate(scenario['jobs'], 1) if job['stragglers']}
        self.faults = scenario['faults'] if faulty else None  # that are set now
        self.hosts, self.beside, self.hung = [], [], []
        self.dead = []  # switches that were killed
        self.missed = []  # actions whose time never came, or that found no process
        self.undo = []  # (when, action), of actions with for_ms
        self.began = self.last = self.seconds = None

    def run(self):
        for switch in self.stage.switches.values():
            switch.begin_counting()
        self.set_faults(self.faults)
        self.began = self.last = time.monotonic()
        for number, job in enumerate(self.scenario['jobs'], 1):
            if self.faulty or not job['endless']:
                self.hosts += [Host(self, number, s) for s in range(len(job['hosts']))]
        for traffic in self.scenario['traffic'] if self.faulty else []:
            self.beside.append(self.start_traffic(traffic))
        actions = list(self.scenario['actions']) if self.faulty else []
        bound = self.began + self.scenario['seconds']
        while time.monotonic() < bound and not self.over(actions):
            self.turn(actions)
            time.sleep(POLL_S)
        self.seconds = time.monotonic() - self.began
        self.missed += actions
        self.finish()
        return self

    def turn(self, actions):
        now = time.monotonic()
        for item in [i for i in self.undo if i[0] <= now]:
            self.undo.remove(item)
            self.do(item[1], undoing=True)
        while actions and self.due(actions[0], now):
            self.do(actions.pop(0))

    def due(self, action, now):
        if now < self.began + action['at_ms'] / 1000 or now < self.last + action['after_ms'] / 1000:
            return False
        return not action['at_step'] or any(
            h.step >= action['at_step'] for h in self.hosts if h.job == action['job'])

    def over(self, actions):
        """All jobs with an end have ended. Remaining actions still happen, unless they wait for a step."""
        if any(h.process.status is None for h in self.hosts if not h.endless):
            return False
        return not self.undo and (not actions or bool(actions[0]['at_step']))

    # -- actions

    def set_faults(self, faults):
        self.faults = faults
        self.stage.set_faults(faults, self.seed)

    def do(self, action, undoing=False):
        """Some take long, as the start of a switch. after_ms and for_ms count from when they are done."""
        what, after = action['do'], action['for_ms']
        if what == 'faults':
            for switch in self.stage.switches.values():
                switch.keep_fault_counts()
            before = self.faults
            self.set_faults(action['faults'] if action['faults'].get('rules') else None)
            undo = dict(action, faults=before or {}, for_ms=None)
        elif action['switch']:
            self.to_switch(what, 'switch' if action['switch'] is True else action['switch'])
            undo = dict(action, do={'kill': 'start', 'stop': 'continue'}.get(what), for_ms=None)
        elif action['link']:
            self.to_link(what, action['link'])
            undo = dict(action, do='link_up', for_ms=None)
        else:
            host = self.random_host if action['host'] == 'random' else action['host']
            if not self.to_host(what, host) and not undoing:
                self.missed.append(action)
            undo = dict(action, for_ms=None, do={'kill': 'start', 'stop': 'continue',
                                                 'link_down': 'link_up'}.get(what))
        done = time.monotonic()
        if not undoing:
            self.last = done
        if after is not None:
            self.undo.append((done + after / 1000, undo))

    def to_switch(self, what, name):
        switch = self.stage.switches[name]
        if what == 'kill':
            switch.keep_counts()
            switch.switch.kill()
            self.dead.append(name)
        elif what == 'start':
            switch.write_config()
            switch.start_switch(os.path.join(switch.folder, 'switch.json'))
            self.dead.remove(name)
        else:
            switch.switch.signal(signal.SIGSTOP if what == 'stop' else signal.SIGCONT)

    def to_link(self, what, link):
        """The upper end: below the interface keeps its address, and sees no carrier."""
        namespace, interface = self.stage.place(self.stage.places.links[link][1], link)
        subprocess.run(['ip', '-n', namespace, 'link', 'set', interface, what[len('link_'):]], check=True, timeout=60)

    def to_host(self, what, host):
        """Returns whether it found a process."""
        living = [h for h in self.hosts if h.host == host and h.process.status is None]
        if what in ('link_down', 'link_up'):
            self.to_link(what, 'host%d-%s' % (host, self.stage.places.leaf(host)))
            return True
        if what == 'start':
            gone = {(h.job, h.source) for h in self.hosts if h.host == host and h.killed}
            gone -= {(h.job, h.source) for h in living}
            self.hosts += [Host(self, *which, newcomer=True) for which in sorted(gone)]
            return bool(gone)
        for one in living:
            if what == 'kill':
                one.process.kill()
                one.killed = True
            elif what in ('stop', 'continue'):
                one.process.signal(signal.SIGSTOP if what == 'stop' else signal.SIGCONT)
        return bool(living)

    def start_traffic(self, traffic):
        if traffic['ping']:
            ping = traffic['ping']
            to = self.stage.switch_address(ping['from']) if ping['to'] == 'switch' else self.stage.address(ping['to'])
            return Beside(self.stage.spawn(ping['from'], ['ping', '-n', '-i', str(ping['interval_ms'] / 1000),
                                                         '-W', '2', to], 'ping'))
        flood = traffic['flood']
        return Beside(self.stage.spawn(flood['host'], [
            self.stage.program(('faults', 'weir-faults-host')), '--switch', self.stage.switch_address(flood['host']),
            '--address', self.stage.address(flood['host'])] + [
                '--%s=%d' % (key, flood[key]) for key in ('job', 'source', 'bytes')] + [
                    '--flood=%d' % flood['packets_per_s']], 'flood'))

    # -- the end

    def finish(self):
        """Undo actions, end the endless processes and those that hang, after noting where they hang."""
        for _, action in self.undo:
            self.do(action, undoing=True)
        self.undo = []
        for host in self.hosts:
            if host.process.status is None and not host.endless:
                self.tell_hung(host)
        for host in self.hosts:
            if host.process.status is None:
                host.killed = True
                host.process.kill()
        for one in self.beside:
            one.process.signal(signal.SIGINT)  # ping prints its counts
        for one in self.beside:
            try:
                # ping exits with 1 if nothing was answered; the expectations judge that.
                if one.process.end(GRACE_S) not in (0, 1):
                    raise RackError('%s: status %d\n%s' % (one.process.name, one.process.status,
                                                           tail(one.process.log)))
            finally:
                one.process.kill()
        for name in list(self.dead):
            self.to_switch('start', name)
        for switch in self.stage.switches.values():
            if switch.switch.status is not None:
                raise RackError('%s: ended with status %d\n%s' % (
                    switch.switch.name, switch.switch.status, tail(switch.switch.log)))
        for one in self.hosts + self.beside:
            one.output = one.process.output
        for switch in self.stage.switches.values():
            switch.keep_counts()
        self.set_faults(None)  # held packets are sent

    def tell_hung(self, host):
        """Note the operation of a host that hangs, and the blocks that wait."""
        host.hung = True
        text = '%s: still at operation %d after %g s' % (host.name, host.step,
                                                        time.monotonic() - self.began)
        last = [line for line in host.process.output.splitlines() if host.is_program or line.startswith('failed')]
        self.hung.append('\n'.join([text] + last[-1:]))
        if len(self.hung) == 1:
            for name, switch in self.stage.switches.items():
                try:
                    # In its namespace, from where the other switches of a tree can be reached.
                    stuck = switch.call('sw', [switch.program(('ctl', 'weirctl')), '-s', 'unix:' + switch.socket,
                                               'blocks', '--stuck'], 10)
                    self.hung[0] += '\n%s: %s' % (name, stuck.strip())
                except (subprocess.TimeoutExpired, RackError) as error:
                    self.hung[0] += '\n%s: %s' % (name, error)

    def ping_loss(self):
        """Sent, received, of all pings."""
        found = [re.search(r'(\d+) packets transmitted, (\d+) received', p.output)
                 for p in self.beside if p.process.name.startswith('ping')]
        return [sum(int(f.group(i)) for f in found if f) for i in (1, 2)] if found else None
