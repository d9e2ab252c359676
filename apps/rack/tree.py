# SPDX-License-Identifier: BSD-3-Clause
"""Racks of racks on one machine: a tree of switches, each in a namespace of its own.

    with Tree(leaves=2, hosts=2, spines=2) as tree:
        tree.add_job(1)
        tree.start()
        runs = [tree.perf(host, 1, '-b', '4096', '-e', '4096') for host in range(tree.hosts)]
        for run in runs:
            run.wait(30)
        tree.links['leaf0', 'spine1'].down()
        tree['leaf1'].switch.kill()
        tree.stop()

Every switch is a `Rack` with a configuration, a control API, logs and statistics of its own; a spine is one without
hosts. Leaf r has 10.77.r.254 and its hosts 10.77.r.(i+1); spine s has 10.78.s.254, and a switch above spines
10.79.t.254; all in one subnet, 10.0.0.0/8. A tree numbers its hosts from 0 through all racks. Port `up<i>` of a switch leads to its
parent i, port `down<i>` to its child i. Ordinary frames between the racks take the way over each switch's first parent, so
that there is no loop.
"""
import contextlib
import hmac
import os

from rack import Api, Rack

PORT = 8080  # of the control APIs, on the switches' own addresses


def source_key(key, source):
    """Of a source, from the key of a job's file (docs/protocol.md, "Proved joins"); hexadecimal."""
    return hmac.digest(bytes.fromhex(key), b'weir source' + bytes([source]) + bytes(8), 'sha256').hex()


class Switch(Rack):
    """A switch of a tree with its hosts. name: such as leaf0. level: 0 is a leaf. `parents` and `children` are switches."""

    prefix = 8

    def __init__(self, tree, level, number, hosts, **more):
        self.tree, self.level, self.number, self.limited = tree, level, number, tree.limited
        self.label = '%s%d' % (('leaf', 'spine', 'top')[level], number)
        self.parents, self.children, self.job_keys = [], [], {}
        self.switch_address = '10.%d.%d.254' % (77 + level, number)
        self.switch_mac = '02:%d:00:00:%02x:fe' % (77 + level, number)
        super().__init__(hosts=hosts, **more)
        self.api_path = os.path.join(self.folder, 'run', 'api.sock')
        self.api_url = 'http://%s:%d' % (self.switch_address, PORT)

    @property
    def switch_name(self):
        return '%s-%s' % (super().switch_name, self.label)

    def address(self, host):
        return '10.77.%d.%d' % (self.number, host + 1)

    def mac(self, host):
        return '02:77:00:00:%02x:%02x' % (self.number, host + 1)

    def ports(self):
        ports = [{'name': 'up%d' % i, 'neighbor': parent.switch_name, 'forward': i == 0}
                 for i, parent in enumerate(self.parents)]
        ports += [{'name': 'down%d' % i, 'neighbor': child.switch_name, 'forward': child.parents[0] is self}
                  for i, child in enumerate(self.children)]
        for number, port in enumerate(ports, self.hosts):
            port['device'] = self.device(number, port['name'])
        return super().ports() + ports

    def spawn(self, place, argv, name=None, env=None):
        return super().spawn(place, argv, '%s-%s' % (self.label, name or os.path.basename(argv[0])), env)

    def key(self, number):
        """The key of a job of this switch, made at the first call; hexadecimal."""
        return self.job_keys.setdefault(number, os.urandom(32).hex())

    def key_file(self, number, key):
        path = os.path.join(self.folder, 'key-%d-%s' % (number, key[:8]))
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), 'w') as file:
            file.write(key + '\n')
        return path

    def ask(self, method, target, body=None):
        """A request to its control API. Returns the answer's body."""
        with contextlib.closing(Api(self.api_path)) as api:
            return api.ask(method, target, body)


class Link:
    """A link between two switches."""

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper
        self.ends = [(lower, 'up%d' % lower.parents.index(upper)), (upper, 'down%d' % upper.children.index(lower))]

    def lay(self):
        (lower, up), (upper, down) = self.ends
        lower._ip_in('sw', 'link add %s mtu %d type veth peer name %s netns %s mtu %d' % (
            up, lower.mtu, down, upper.namespace('sw'), upper.mtu))
        for end, interface in self.ends:
            end._ip_in('sw', 'link set %s arp off up' % interface)

    def down(self):
        """Both ends lose the carrier."""
        for end, interface in self.ends:
            end._ip_in('sw', 'link set %s down' % interface)

    def up(self):
        for end, interface in self.ends:
            end._ip_in('sw', 'link set %s up' % interface)

    def limit(self, rate):
        """Mbit/s, each way; in a `limited` tree."""
        for end, interface in self.ends:
            end.limit('sw', interface, rate)

    def bytes(self):
        """Sent so far: upward, downward."""
        return tuple(end.wire('sw', interface)['tx_bytes'] for end, interface in self.ends)


class Tree(contextlib.ExitStack):
    """Switches and their links; a context manager.

    leaves, spines: how many; every leaf has a link to every spine. hosts: on each leaf. tops: how many switches above spines.
    above: with tops, all links: {name: [names of its parents]}. limited: links may have a rate. changes: to the configuration of
    every switch. more: of `Rack`.
    """

    make = Switch  # what its switches are

    def __init__(self, leaves=2, hosts=2, spines=1, tops=0, above=None, limited=False, changes=None, **more):
        super().__init__()
        self.limited, self.ranks = limited, {}  # ranks: {job: [host of rank 0, ...]}
        levels = [leaves, spines, tops]
        self.switches = {}
        for level, count in enumerate(levels):
            for number in range(count):
                switch = self.make(self, level, number, hosts if level == 0 else 0, **more)
                switch.first_cpu = len(self.switches)  # together they take all CPUs
                switch.changes = {'api': {'listen': ['unix:' + switch.api_path, 'tcp:SWITCH:%d' % PORT]},
                                  **(changes or {})}
                self.switches[switch.label] = switch
        if above is None:
            above = {switch.label: [s.label for s in self if s.level == switch.level + 1] for switch in self}
        for name, parents in above.items():
            for parent in parents:
                self[name].parents.append(self[parent])
                self[parent].children.append(self[name])
        self.links = {(lower.label, upper.label): Link(lower, upper) for lower in self for upper in lower.parents}
        self.leaves = [switch for switch in self if switch.level == 0]
        self.folder, self.build = self.leaves[0].folder, self.leaves[0].build  # of what concerns all
        self.hosts = leaves * hosts

    def __iter__(self):
        return iter(self.switches.values())

    def __getitem__(self, name):
        return self.switches[name]

    def __enter__(self):
        try:
            for switch in self:
                self.enter_context(switch)
            for link in self.links.values():
                link.lay()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def processes(self):
        return [process for switch in self for process in switch.processes]

    # -- the hosts, numbered through all racks

    transfer = Rack.transfer

    def at(self, host):
        """The leaf of a host and its number there."""
        return self.leaves[host // self.leaves[0].hosts], host % self.leaves[0].hosts

    def address(self, host):
        leaf, number = self.at(host)
        return leaf.address(number)

    def namespace(self, host):
        leaf, number = self.at(host)
        return leaf.namespace(number)

    def spawn(self, host, argv, name=None, env=None):
        leaf, number = self.at(host)
        return leaf.spawn(number, argv, name, env)

    def call(self, host, argv, seconds=120):
        leaf, number = self.at(host)
        return leaf.call(number, argv, seconds)

    def inside(self, host):
        leaf, number = self.at(host)
        return leaf.inside(number)

    def ping(self, host, address, **options):
        leaf, number = self.at(host)
        return leaf.ping(number, address, **options)

    def wire(self, host):
        leaf, number = self.at(host)
        return leaf.wire(number)

    def perf(self, host, number, *options):
        """Start weir-perf on a host, with its rank in the job; that is its number if add_job() did not make the job."""
        leaf, own = self.at(host)
        if number in leaf.job_keys:
            options += ('--key-file', leaf.key_file(number, leaf.key(number)))
        return leaf.perf(own, number, *options, source=self.ranks.get(number, range(self.hosts)).index(host))

    # -- jobs

    def add_job(self, number, hosts=None, above=None, authenticate=False, **options):
        """Add a job to the configurations of all switches that it concerns. Returns {switch's name: its job}.

        hosts: those that take part, in the order of their ranks and each leaf's one after the other; all by default. above:
        the names of the switches above leaves that take part; all by default. options: settings. The timeouts are the leaves',
        and double per level. authenticate: each switch has a key file of its own.
        """
        hosts = list(range(self.hosts)) if hosts is None else list(hosts)
        above = list(self.switches) if above is None else above
        made, first, count = {}, {}, {}
        for switch in self:
            if switch.level == 0:
                sources = [{'id': rank, 'address': self.address(host)} for rank, host in enumerate(hosts)
                           if self.at(host)[0] is switch]
            elif switch.label in above:
                sources = [{'id': first[child], 'address': child.switch_address, 'ranks': count[child],
                            'name': child.label, 'api': child.api_url} for child in switch.children if child in count]
            else:
                sources = []
            if not sources:
                continue
            first[switch] = min(source['id'] for source in sources)
            count[switch] = sum(source.get('ranks', 1) for source in sources)
            times = {'timeout_ms': 1000, 'dead_after_ms': 10000}
            times.update((key, options[key]) for key in times if key in options)
            made[switch] = {'id': number, 'name': 'job%d' % number, 'sources': sources, 'window': 64, 'elements': 256,
                            'rejoin': 'revoke', **options, **{key: ms << switch.level for key, ms in times.items()}}
            if switch.parents:
                made[switch]['tree'] = {'ranks': len(hosts), 'first_rank': first[switch], 'parents': [{
                    'name': parent.label, 'address': parent.switch_address, 'mac': parent.switch_mac, 'port': 'up%d' % i,
                    'job': number, 'api': parent.api_url} for i, parent in enumerate(switch.parents) if parent.label in above]}
            if authenticate:
                made[switch]['key_file'] = switch.key_file(number, switch.key(number))
                for parent in made[switch].get('tree', {}).get('parents', ()):
                    key = source_key(self[parent['name']].key(number), first[switch])
                    parent['key_file'] = switch.key_file(number, key)
            switch.jobs.append(made[switch])
        self.ranks[number] = hosts
        return {switch.label: job for switch, job in made.items()}

    # -- the switches

    def start(self, *names):
        """Start these switches, by default all, and wait until they are up."""
        for name in names or self.switches:
            self[name].start_switch(wait=False)
        for name in names or self.switches:
            self[name].wait_switch()

    def stop(self):
        """Stop all switches that run: each must return everything. Returns {name: its last statistics}."""
        return {switch.label: switch.stop_switch() for switch in self if switch.switch is not None}

    def kill(self, name):
        """Kill a switch, as a crash does; `start` restarts it."""
        self[name].switch.kill()
        self[name].switch = None

    def stats(self, name):
        return self[name].read_stats()

    def carried(self):
        """{(lower, upper): (bytes upward, bytes downward)} of all links so far."""
        return {names: link.bytes() for names, link in self.links.items()}
