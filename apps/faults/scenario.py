# SPDX-License-Identifier: BSD-3-Clause
"""What a scenario is: a JSON file, read once, checked whole. A file with a matrix is a family of scenarios.

    scenarios = load('tests/fault/loss.json')
    scenarios = load('tests/fault/loss.json:1-percent-in')

SCENARIO and what it names are the keys; docs/faults.md is their manual, and tests/fault compares it
with them. A file with anything wrong in it is refused with the place and the reason:

    x.json: jobs[0].steps: 0 is not in 1..1000000
"""
import difflib
import fnmatch
import itertools
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'rack'))
import weir_lists  # noqa: E402 (installed, it lies beside this file)

HOSTS_MAX = 32


class ScenarioError(Exception):
    """What is wrong with a scenario, for people."""


class Key:
    """A key of an object: what is allowed there, and what it is when it is left out."""

    def __init__(self, check, default=None, required=False):
        self.check, self.default, self.required = check, default, required


class Wrong(Exception):
    """The value at `path` is wrong."""

    def __init__(self, reason, path=''):
        super().__init__(reason)
        self.reason, self.path = reason, path


def shown(value, most=60):
    """A value in a message: short, whatever was written there."""
    made = json.dumps(value)
    return made if len(made) <= most else made[:most - 3] + '...'


def at(path, check, value):
    """Check a value below `path`."""
    try:
        return check(value)
    except Wrong as wrong:
        raise Wrong(wrong.reason, path + ('.' if wrong.path and wrong.path[0] != '[' else '') +
                    wrong.path) from None


def typed(good, what):
    def check(value):
        if not good(value):
            raise Wrong('%s is not %s' % (shown(value), what))
        return value
    return check


text = typed(lambda value: isinstance(value, str) and value, 'a non-empty string')
yes_or_no = typed(lambda value: isinstance(value, bool), 'true or false')
section = typed(lambda value: isinstance(value, dict), 'an object')  # a switch's: the switch checks what is in it


def number(least, most, kinds=(int, float), what='a number'):
    is_one = typed(lambda value: isinstance(value, kinds) and not isinstance(value, bool), what)

    def check(value):
        if not least <= is_one(value) <= most:
            raise Wrong('%g is not in %g..%g' % (value, least, most) if kinds != int else
                        '%d is not in %d..%d' % (value, least, most))
        return value
    return check


def whole(least, most):
    return number(least, most, int, 'an integer')


def word(*words):
    def check(value):
        if value not in words:
            raise Wrong('%s must be one of %s' % (shown(value), ', '.join(words)))
        return value
    return check


def pattern(value):
    try:
        re.compile(text(value))
    except re.error as error:
        raise Wrong('%s: %s' % (shown(value), error)) from None
    return value


def either(*checks):
    def check(value):
        for one in checks[:-1]:
            try:
                return one(value)
            except Wrong:
                pass
        return checks[-1](value)
    return check


def array(check_one, least=0, most=1000):
    def check(value):
        if not isinstance(value, list):
            raise Wrong('%s is not an array' % shown(value))
        if not least <= len(value) <= most:
            raise Wrong('has %d entries, not %d..%d' % (len(value), least, most))
        return [at('[%d]' % i, check_one, v) for i, v in enumerate(value)]
    return check


def bounds(value):
    """[least, most] of a count; null: none."""
    if not isinstance(value, list) or len(value) != 2:
        raise Wrong('%s is not [least, most]' % shown(value))
    for end in value:
        if end is not None:
            number(0, 1e18)(end)
    if None not in value and value[0] > value[1]:
        raise Wrong('%s: the least is more than the most' % shown(value))
    return value


def mapping(key_pattern, of, check_one):
    """An object whose keys are not known beforehand."""
    def check(value):
        for key in section(value):
            if not re.fullmatch(key_pattern, key):
                raise Wrong('%s is not %s' % (shown(key), of))
        return {k: at(k, check_one, v) for k, v in value.items()}
    return check


def keys(**known):
    def check(value):
        for name in section(value):
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise Wrong('unknown key' + ('; did you mean "%s"?' % near[0] if near else ''), name)
        for name, key in known.items():
            if key.required and name not in value:
                raise Wrong('"%s" is missing' % name)
        return {name: at(name, key.check, value[name]) if name in value else key.default
                for name, key in known.items()}
    check.known = known
    return check


def names(value):
    """A name, or several."""
    return array(text, 1, 64)(value) if isinstance(value, list) else [text(value)]


HOST = whole(0, HOSTS_MAX - 1)
SOME_HOST = either(HOST, word('random'))
MS = whole(0, 600000)
SEED = whole(0, (1 << 63) - 1)

COLLECTIVES = [entry[2] for entry in weir_lists.COLLECTIVES if entry[2] != 'barrier']
TYPES = [entry[2] for entry in weir_lists.DTYPES]
OPERATIONS = [entry[2] for entry in weir_lists.OPS]
OF_INTEGERS = OPERATIONS[5:]

TREE = keys(
    leaves=Key(whole(1, 8), required=True),
    spines=Key(whole(1, 8), 1),
    tops=Key(whole(0, 8), 0),
    hosts=Key(whole(1, HOSTS_MAX), required=True),
)
STRAGGLERS = keys(
    hosts=Key(whole(1, HOSTS_MAX), required=True),
    chance_percent=Key(number(0, 100), 100),
    least_ms=Key(MS, required=True),
    most_ms=Key(MS, required=True),
)
PLANT = keys(
    host=Key(HOST, required=True),
    what=Key(word('wrong', 'hang', 'leave'), required=True),
    step=Key(whole(0, 1000000), 0),
)
JOB = keys(
    hosts=Key(array(HOST, 1, HOSTS_MAX)),
    host=Key(array(text, 1, 64)),
    spines=Key(array(whole(0, 7), 1, 8)),
    options=Key(section, {}),
    spine_options=Key(section, {}),
    authenticate=Key(yes_or_no, False),
    steps=Key(whole(1, 1000000), 100),
    endless=Key(yes_or_no, False),
    count=Key(whole(1, 1 << 24), 5000),
    type=Key(word(*TYPES), 'int32'),
    op=Key(word(*OPERATIONS), OPERATIONS[0]),
    collective=Key(word(*COLLECTIVES), COLLECTIVES[0]),
    root=Key(whole(0, 255), 0),
    partial=Key(word('as-is', 'fail'), 'as-is'),
    error_feedback=Key(yes_or_no, False),
    rejoin=Key(whole(0, 1000), 0),
    op_timeout_ms=Key(whole(1, 600000), 10000),
    join_timeout_ms=Key(whole(1, 600000), 10000),
    pause_us=Key(whole(0, 10000000), 0),
    stragglers=Key(STRAGGLERS),
    plant=Key(PLANT),
)
# What "host" may name, as {rank}: what this host is, and those keys of the job. {{ and }} are braces.
PLACEHOLDER = r'\{\{|\}\}|\{([^{}]*)\}|[{}]'
OF_A_HOST = ('switch', 'address', 'addresses', 'job', 'rank', 'size', 'seed', 'key_file')
GIVEN_TO_HOST = ('steps', 'count', 'type', 'op', 'collective', 'root', 'partial', 'rejoin', 'op_timeout_ms', 'join_timeout_ms',
                 'pause_us')
ACTION = keys(
    do=Key(word('stop', 'continue', 'kill', 'start', 'link_down', 'link_up', 'faults'), required=True),
    host=Key(SOME_HOST),
    switch=Key(either(yes_or_no, text), False),
    link=Key(text),
    job=Key(whole(1, 8), 1),
    at_step=Key(whole(0, 1000000), 0),
    at_ms=Key(MS, 0),
    after_ms=Key(MS, 0),
    for_ms=Key(MS),
    faults=Key(section),
)
TRAFFIC = keys(
    ping=Key(keys(**{
        'from': Key(HOST, required=True),
        'to': Key(either(HOST, word('switch')), required=True),
        'interval_ms': Key(whole(2, 10000), 20),
    })),
    flood=Key(keys(
        host=Key(HOST, required=True),
        job=Key(whole(1, 8), required=True),
        source=Key(whole(0, 255), required=True),
        packets_per_s=Key(whole(1, 1000000), 5000),
        bytes=Key(whole(16, 1400), 200),
    )),
)
WHO = r'all|random|0|[1-9]\d*'
END = word('done', 'failed', 'killed', 'any')
EXPECT = keys(
    ends=Key(mapping(WHO, 'a host, "random" or "all"', END), {}),
    says=Key(mapping(WHO, 'a host, "random" or "all"', pattern), {}),
    counts=Key(mapping(r'[a-z_0-9]+(\.[a-z_0-9]+){0,2}', 'a count', bounds), {}),
    slowdown_at_most=Key(number(0, 1e6)),
    longest_ms=Key(bounds),
    pings_lost_percent=Key(bounds),
)
SCENARIO = keys(
    about=Key(text, required=True),
    seed=Key(SEED),
    seconds=Key(whole(1, 600), 30),
    hosts=Key(whole(1, HOSTS_MAX)),
    tree=Key(TREE),
    switch=Key(section, {}),
    port=Key(section, {}),
    jobs=Key(array(JOB, 1, 8), required=True),
    faults=Key(section),
    traffic=Key(array(TRAFFIC, 0, 16), []),
    actions=Key(array(ACTION, 0, 100), []),
    expect=Key(EXPECT, EXPECT({})),
)
OF_THE_RUNNER = ('ports', 'jobs', 'faults', 'api')


class Places:
    """The switches of a scenario and the links of hosts and switches, by name."""

    def __init__(self, scenario):
        tree = scenario['tree'] or {'leaves': 1, 'spines': 0, 'tops': 0, 'hosts': scenario['hosts']}
        self.per_leaf = tree['hosts']
        self.leaves = ['leaf%d' % i for i in range(tree['leaves'])]
        self.spines = ['spine%d' % i for i in range(tree['spines'])]
        self.tops = ['top%d' % i for i in range(tree['tops'])]
        self.hosts = self.per_leaf * tree['leaves']
        # name: (lower end, upper end)
        self.links = {'host%d-%s' % (h, self.leaf(h)): (h, self.leaf(h)) for h in range(self.hosts)}
        self.links.update(('%s-%s' % (lower, upper), (lower, upper))
                          for lower in self.switches for upper in self.parents(lower))

    @property
    def switches(self):
        return self.leaves + self.spines + self.tops

    def parents(self, switch):
        """Below tops a leaf has one spine, as ranks reach a switch on one way only."""
        if switch in self.leaves and self.tops:
            return [self.spines[self.leaves.index(switch) * len(self.spines) // len(self.leaves)]]
        return self.spines if switch in self.leaves else self.tops if switch in self.spines else []

    def passed(self, job):
        """How many switches of each level a block of a job passes."""
        leaves = {self.leaf(host) for host in job['hosts']}
        spines = [len({self.parents(leaf)[0] for leaf in leaves})] if self.tops else []
        return [len(leaves)] + spines + [1] * bool(self.spines)

    def leaf(self, host):
        return self.leaves[host // self.per_leaf]

    def among(self, what):
        """The links of that name, or of that kind, such as `leaf-spine`."""
        return [name for name in self.links if what in (name, re.sub(r'\d+', '', name))]


def rules(scenario, faults, port):
    """The section `faults` of each switch, and for each of its rules the number of the scenario's. port: a function that names
    the port of a switch to a link."""
    places, made = Places(scenario), {'switch': []} if faults and scenario['tree'] is None else {}
    for number, rule in enumerate(faults.get('rules', [])):
        if scenario['tree'] is None:
            for direction in [rule['direction']] if 'direction' in rule else ['in', 'out']:
                made['switch'].append((number, dict(rule, direction=direction)))
            continue
        where = names(rule['link']) if 'link' in rule else places.links
        for link in dict.fromkeys(l for w in where for l in places.among(w)):
            switch = places.links[link][1]  # its upper end
            for way in [rule['way']] if 'way' in rule else ['up', 'down']:
                one = {k: v for k, v in rule.items() if k not in ('link', 'way')}
                one.update(port=port(switch, link), direction='in' if way == 'up' else 'out')
                made.setdefault(switch, []).append((number, one))
    more = {k: v for k, v in faults.items() if k != 'rules'}
    return {switch: (dict(more, rules=[r for _, r in found]), [n for n, _ in found])
            for switch, found in made.items()}


def check_hosts(scenario):
    """What the parts must agree in."""
    if (scenario['hosts'] is None) == (scenario['tree'] is None):
        raise Wrong('needs either "hosts" or "tree"')
    places = Places(scenario)
    hosts = scenario['hosts'] = places.hosts
    if hosts > HOSTS_MAX:
        raise Wrong('%d hosts are not in 1..%d' % (hosts, HOSTS_MAX), 'tree')

    def known(path, host):
        if isinstance(host, int) and host >= hosts:
            raise Wrong('%d is not in 0..%d' % (host, hosts - 1), path)

    def runs(path, host):
        if not any(host in job['hosts'] for job in scenario['jobs']):
            raise Wrong('host %d is in no job' % host, path)

    for j, job in enumerate(scenario['jobs']):
        path = 'jobs[%d]' % j
        job['hosts'] = list(range(hosts)) if job['hosts'] is None else job['hosts']
        for i, host in enumerate(job['hosts']):
            known('%s.hosts[%d]' % (path, i), host)
        if len(set(job['hosts'])) != len(job['hosts']):
            raise Wrong('a host is there twice', path + '.hosts')
        racks = racks_of(places, job)
        if job['stragglers'] and job['stragglers']['hosts'] > min(map(len, racks.values())):
            raise Wrong('%s has %d hosts' % ('a rack of the job' if scenario['tree'] else 'the job',
                                             min(map(len, racks.values()))), path + '.stragglers.hosts')
        check_tree(scenario, places, job, path)
        if job['stragglers'] and job['stragglers']['least_ms'] > job['stragglers']['most_ms']:
            raise Wrong('is more than most_ms', path + '.stragglers.least_ms')
        if job['plant'] and job['plant']['host'] not in job['hosts']:
            raise Wrong('the job has no such host', path + '.plant.host')
        if job['root'] >= len(job['hosts']):
            raise Wrong('the job has %d hosts' % len(job['hosts']), path + '.root')
        if job['host']:
            check_program(job, path)
        if job['error_feedback'] and job['collective'] != 'allreduce':
            raise Wrong('goes with "allreduce" only', path + '.error_feedback')
        if job['error_feedback'] and (job['type'], job['op']) != ('int32', 'sum'):
            raise Wrong('goes with sums of type "int32" only: those of fp32 depend on their order',
                        path + '.error_feedback')
        if job['op'] in OF_INTEGERS and job['type'][0] not in 'iu':
            raise Wrong('"%s" is for integers' % job['op'], path + '.op')
        for name in ('id', 'name', 'sources', 'key_file', 'generation'):
            for key in ('options', 'spine_options'):
                if name in job[key]:
                    raise Wrong('is weir-faults\' to set', '%s.%s.%s' % (path, key, name))
    if all(job['endless'] for job in scenario['jobs']):
        raise Wrong('true in all jobs: it would not end', 'jobs[0].endless')
    for key in OF_THE_RUNNER:
        if key in scenario['switch']:
            raise Wrong('is weir-faults\' to set', 'switch.' + key)
    for i, action in enumerate(scenario['actions']):
        check_action(scenario, places, action, 'actions[%d]' % i)
        known('actions[%d].host' % i, action['host'])
        if action['host'] is not None and not action['do'].startswith('link'):
            for host in range(hosts) if action['host'] == 'random' else [action['host']]:
                runs('actions[%d].host' % i, host)
    check_rules(scenario, places, scenario['faults'], 'faults')
    for i, traffic in enumerate(scenario['traffic']):
        path = 'traffic[%d]' % i
        if (traffic['ping'] is None) == (traffic['flood'] is None):
            raise Wrong('is either "ping" or "flood"', path)
        if traffic['ping']:
            known(path + '.ping.from', traffic['ping']['from'])
            known(path + '.ping.to', traffic['ping']['to'])
        else:
            known(path + '.flood.host', traffic['flood']['host'])
    for name in ('ends', 'says'):
        for host in scenario['expect'].get(name, {}):
            if host.isdigit():
                known('expect.%s.%s' % (name, host), int(host))
                runs('expect.%s.%s' % (name, host), int(host))


def check_program(job, path):
    """A user's program in the place of weir-faults-host: what the job says reaches it, or is refused."""
    used = set()
    for i, word in enumerate(job['host']):
        for found in re.finditer(PLACEHOLDER, word):
            name = found[1]
            if len(found[0]) == 1:
                raise Wrong('a single %s in %s: write %s' % (found[0], shown(word), 2 * found[0]), '%s.host[%d]' % (path, i))
            if name is not None and name not in OF_A_HOST + GIVEN_TO_HOST:
                near = difflib.get_close_matches(name, OF_A_HOST + GIVEN_TO_HOST, 1)
                raise Wrong('there is no {%s}; %s' % (name, 'did you mean {%s}?' % near[0] if near else '{{ and }} are braces'),
                            '%s.host[%d]' % (path, i))
            used.add(name)
    if 'key_file' in used and not job['authenticate']:
        raise Wrong('{key_file} goes with "authenticate"', path + '.host')
    for key in ('error_feedback', 'stragglers', 'plant'):
        if job[key]:
            raise Wrong('does not go with "host"', '%s.%s' % (path, key))
    for key in GIVEN_TO_HOST:
        if key not in used and job[key] != JOB.known[key].default:
            raise Wrong('has no effect: "host" has no {%s}' % key, '%s.%s' % (path, key))
    if 'steps' not in used:
        job['steps'] = 0


def filled(job, values):
    """The words of "host" for one of the job's hosts. values: those of OF_A_HOST."""
    values = {**job, **values}
    return [re.sub(PLACEHOLDER, lambda found: found[0][0] if found[1] is None else str(values[found[1]]), word) for word in job['host']]


def racks_of(places, job):
    """The hosts of a job by leaf."""
    made = {}
    for host in job['hosts']:
        made.setdefault(places.leaf(host), []).append(host)
    return made


def check_tree(scenario, places, job, path):
    if scenario['tree'] is None:
        for key in ('spines', 'spine_options'):
            if job[key]:
                raise Wrong('goes with "tree" only', '%s.%s' % (path, key))
        return
    order = [host for rack in racks_of(places, job).values() for host in rack]
    if order != job['hosts']:
        raise Wrong('the hosts of a leaf must follow each other', path + '.hosts')
    if job['spines'] and places.tops:
        raise Wrong('a job below tops has all spines', path + '.spines')
    job['spines'] = list(range(len(places.spines))) if job['spines'] is None else job['spines']
    for spine in job['spines']:
        if spine >= len(places.spines):
            raise Wrong('%d is not in 0..%d' % (spine, len(places.spines) - 1), path + '.spines')
    if len(set(job['spines'])) != len(job['spines']):
        raise Wrong('a spine is there twice', path + '.spines')


def check_rules(scenario, places, faults, path):
    """The switch checks a rule but for its place."""
    for i, rule in enumerate(at(path + '.rules', array(section), (faults or {}).get('rules', []))):
        where = '%s.rules[%d]' % (path, i)
        for key in ('port', 'direction') if scenario['tree'] else ('link', 'way'):
            if key in rule:
                raise Wrong('a tree has "link" and "way"' if scenario['tree'] else 'goes with "tree" only',
                            '%s.%s' % (where, key))
        for link in at(where + '.link', names, rule['link']) if 'link' in rule else []:
            if not places.among(link):
                raise Wrong('there is no link %s' % shown(link), where + '.link')
        if 'way' in rule:
            at(where + '.way', word('up', 'down'), rule['way'])


def check_action(scenario, places, action, path):
    do, tree = action['do'], scenario['tree'] is not None
    if action['job'] > len(scenario['jobs']):
        raise Wrong('there are %d jobs' % len(scenario['jobs']), path + '.job')
    if (do == 'faults') != (action['faults'] is not None):
        raise Wrong('"faults" goes with "do": "faults", and with nothing else', path)
    check_rules(scenario, places, action['faults'], path + '.faults')
    targets = [key for key in ('host', 'switch', 'link') if action[key] is not None and action[key] is not False]
    if do == 'faults':
        if targets:
            raise Wrong('faults are the switch\'s', path)
    elif len(targets) != 1:
        raise Wrong('needs either "host" or "switch"' + (' or "link"' if tree else ''), path)
    elif do.startswith('link') and action['switch']:
        raise Wrong('links are hosts\'', path + '.switch')
    elif action['link'] is not None and not do.startswith('link'):
        raise Wrong('goes with "link_down" and "link_up"', path + '.link')
    elif action['link'] is not None and action['link'] not in places.links:
        raise Wrong('there is no link %s' % shown(action['link']), path + '.link')
    elif action['switch'] and (action['switch'] not in places.switches if tree else action['switch'] is not True):
        raise Wrong('is one of %s' % ', '.join(places.switches) if tree else 'there is one switch: true', path + '.switch')
    if action['for_ms'] is not None and do not in ('stop', 'link_down', 'kill', 'faults'):
        raise Wrong('nothing undoes "%s"' % do, path + '.for_ms')


def no_key_twice(pairs):
    made = {}
    for key, value in pairs:
        if key in made:
            raise Wrong('is there twice', key)
        made[key] = value
    return made


MATRIX = array(mapping(r'[a-z0-9.]+(-[a-z0-9.]+)*', 'words of a name', section), 1, 8)


def patched(made, patch):
    """A JSON merge patch (RFC 7396), but that an object changes each entry of an array."""
    if not isinstance(patch, dict):
        return patch
    if isinstance(made, list):
        return [patched(one, patch) for one in made]
    both = dict(made) if isinstance(made, dict) else {}
    for key, value in patch.items():
        both[key] = patched(both.get(key), value)
    return {key: value for key, value in both.items() if value is not None}


def family(made):
    """What a file stands for, by the words of the matrix: {'': itself} without one."""
    if not isinstance(made, dict) or 'matrix' not in made:
        return {'': made}
    made = dict(made)
    axes, found = at('matrix', MATRIX, made.pop('matrix')), {}
    for picked in itertools.product(*(axis.items() for axis in axes)):
        one, about = made, [made.get('about')] + [patch.get('about') for _, patch in picked]
        for _, patch in picked:
            one = patched(one, patch)
        if all(isinstance(text, (str, type(None))) for text in about):
            one = dict(one, about='; '.join(filter(None, about)))
        words = '-'.join(words for words, _ in picked)
        if words in found:
            raise Wrong('two scenarios have the name %s' % words, 'matrix')
        found[words] = one
    return found


def parse(content, name):
    """The scenarios of a text. name: for messages. A scenario's `source` is its own text as JSON has it."""
    found, file = [], name
    try:
        for words, source in family(json.loads(content, object_pairs_hook=no_key_twice)).items():
            file = name + (words and ':' + words)
            made = SCENARIO(source)
            check_hosts(made)
            made['name'] = '-'.join(filter(None, (re.sub(r'\.json$', '', os.path.basename(name)), words)))
            found.append(dict(made, file=file, source=source))
    except json.JSONDecodeError as error:
        raise ScenarioError('%s:%d:%d: %s' % (name, error.lineno, error.colno, error.msg)) from None
    except Wrong as wrong:
        raise ScenarioError('%s: %s' % (file, ': '.join(filter(None, (wrong.path, wrong.reason))))) from None
    except ValueError:  # of int()
        raise ScenarioError('%s: a number has too many digits' % name) from None
    except RecursionError:
        raise ScenarioError('%s: arrays or objects are nested too deeply' % name) from None
    return found


def load(path):
    """Read the scenarios of FILE.json, or of FILE.json:WORDS those alone. Raises ScenarioError."""
    file, colon, words = path.partition('.json:')
    file += '.json' if colon else ''
    try:
        with open(file) as content:
            found = parse(content.read(), file)
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError('%s: %s' % (file, getattr(error, 'strerror', None) or error)) from None
    picked = [one for one in found if not colon or fnmatch.fnmatchcase(one['file'], path)]
    if not picked:
        raise ScenarioError('%s: there is none in %s; it has %s' % (
            path, file, ', '.join(one['file'][len(file) + 1:] for one in found) or 'no matrix'))
    return picked
