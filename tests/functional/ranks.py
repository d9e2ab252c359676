# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on a rack that do the same plan, and the comparison of what they have with the reference.

    plan = Plan(ranks=3, seed=draw.getrandbits(32))
    plan.group('any', [operation('allgather', 'int8', count=17), operation('reduce', 'fp32', 'sum', 5, root=2)])
    finish(start(rack, 1, plan, hosts=[0, 1, 2]))
"""
import json
import os
import sys

from elements import TYPE, TYPES, data
from libweir import environment
from reference import COLLECTIVES, REDUCING, ROOTED, collective, send_count, sends_data
from tap import check

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'rank.py')
HOWS = ['blocking', 'wait', 'any', 'all', 'test']


def operation(name, kind='int32', op=None, count=0, root=0, in_place=False, idle_buffers=False):
    """One operation of a plan. idle_buffers: who receives nothing has a buffer nevertheless."""
    return {'name': name, 'type': kind, 'op': op, 'count': count, 'root': root,
            'in_place': in_place, 'idle_buffers': idle_buffers}


def allowed():
    """Every (collective, type, operation) that the switch serves; no operation where none is."""
    for name in COLLECTIVES:
        for kind in TYPES if name != 'barrier' else TYPES[4:5]:
            for op in kind.operations if name in REDUCING else [None]:
                yield name, kind.name, op


class Plan:
    """What all ranks do, with the data of each."""

    def __init__(self, ranks, seed):
        self.ranks, self.seed, self.groups = ranks, seed, []

    def group(self, how, steps, rejoin=False, pause=0):
        """Steps that are begun one after the other and, unless blocking, are in flight together."""
        for number, step in enumerate(steps, self.steps()):
            step['number'] = number
        self.groups.append({'how': how, 'steps': steps, 'rejoin': rejoin, 'pause': pause})
        return self

    def steps(self):
        return sum(len(g['steps']) for g in self.groups)

    def sent(self, step, rank):
        if not sends_data(step['name'], rank, step['root']):
            return b''
        return data('%d %d %d' % (self.seed, step['number'], rank), TYPE[step['type']], step['op'],
                    send_count(step['name'], self.ranks, step['count']))

    def of_rank(self, rank, config):
        """The plan and the input of a rank."""
        made, groups = [], []
        for group in self.groups:
            steps = []
            for step in group['steps']:
                made.append(self.sent(step, rank))
                steps.append(dict(step, bytes=len(made[-1])))
            groups.append(dict(group, steps=steps))
        return {'rank': rank, 'ranks': self.ranks, 'seed': self.seed + rank, 'config': config,
                'groups': groups}, b''.join(made)


class Run:
    """A plan under way on a rack or tree: a process of each rank."""

    def __init__(self, rack, number, plan, hosts, ids=None, plans=None, **config):
        """plans: another plan of some ranks, {rank: Plan}. ids: the sources' ids, if not 0, 1, ..."""
        self.plan, self.processes, self.paths = plan, [], []
        for rank, host in enumerate(hosts):
            path = os.path.join(rack.folder, 'rank-%d-%d-%d' % (number, rank, len(rack.processes)))
            settings = dict(switch_address=rack.at(host)[0].switch_address, address=rack.address(host), job=number,
                            source=ids[rank] if ids else rank, **{'join_timeout_ms': 120000, 'op_timeout_ms': 120000, **config})
            own, sent = (plans or {}).get(rank, plan).of_rank(rank, settings)
            with open(path + '.plan', 'w') as file:
                json.dump(own, file)
            with open(path + '.in', 'wb') as file:
                file.write(sent)
            self.paths.append(path)
            self.processes.append(rack.spawn(host, [
                sys.executable, RANK, rack.build, path + '.plan', path + '.in', path + '.out'], 'rank',
                environment(rack.build)))

    def told(self, seconds=60):
        """Wait. Returns of each rank a list with an entry per step: code, text, data, degraded."""
        everything = []
        for process, path in zip(self.processes, self.paths):
            process.wait(seconds)
            with open(path + '.out.json') as told, open(path + '.out', 'rb') as out:
                entries = json.load(told)
                for entry in entries:
                    entry['data'] = out.read(entry.pop('bytes'))
            everything.append(entries)
        return everything

    def finish(self, seconds=60):
        """Wait, and compare every result of every rank."""
        told = self.told(seconds)
        steps = [dict(s, how=g['how']) for g in self.plan.groups for s in g['steps']]
        wrong = []
        for i, step in enumerate(steps):
            sends = [self.plan.sent(step, r) for r in range(self.plan.ranks)]
            wanted = collective(step['name'], TYPE[step['type']], step['op'], step['root'], sends,
                                step['count'])
            for rank, entries in enumerate(told):
                wrong += ['rank %d: %s: %s' % (rank, described(step), text)
                          for text in amiss(entries[i], wanted[rank])]
            if step['name'] == 'allreduce' and len({t[i]['data'] for t in told}) != 1:
                wrong.append('%s: ranks have different results' % described(step))
        check(not wrong, '%d wrong, among them\n%s', len(wrong), '\n'.join(wrong[:20]))
        return told


def amiss(entry, wanted):
    found = list(entry['harm'])
    if entry['code'] != 0:
        found.append('code %d: %s' % (entry['code'], entry['text']))
    elif wanted is not None:
        text = wanted.differs(entry['data'])
        found += [text] if text else []
    return found


def described(step):
    return ' '.join([step['name'], step['type'], step['op'] or '-', 'count %d' % step['count']] +
                    (['root %d' % step['root']] if step['name'] in ROOTED else []) +
                    (['in place'] if step['in_place'] else []) + [step.get('how', '')])


def counts(draw, name, ranks, block):
    """A count that is worth trying: nothing, one, about the ranks, about a block, several windows."""
    slices = name not in ('allreduce', 'reduce', 'broadcast')
    per_block = max(block // ranks, 1) if slices else block
    count = draw.choice([0, 1, 1, ranks - 1, ranks, ranks + 1, per_block - 1, per_block,
                        per_block + 1, draw.randint(2, 6 * per_block),
                        draw.randint(1, (60 if draw.randrange(4) == 0 else 12) * per_block)])
    return min(count, max(5000, 2 * per_block + 1))  # Python checks each element


def everything(draw, ranks, block, part=1):
    """A plan with every allowed operation once, or one in `part` of them, in random order, with random counts and roots."""
    plan = Plan(ranks, draw.getrandbits(32))
    table = list(allowed())
    draw.shuffle(table)
    del table[-(-len(table) // part):]
    while table:
        taken = [table.pop() for _ in range(min(draw.randint(1, 6), len(table)))]
        plan.group(draw.choice(HOWS), [
            operation(name, kind, op, counts(draw, name, ranks, block),
                      draw.randrange(ranks) if name in ROOTED else 0, draw.random() < 0.4,
                      draw.random() < 0.5) for name, kind, op in taken])
    return plan
