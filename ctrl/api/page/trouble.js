// SPDX-License-Identifier: BSD-3-Clause
// What is wrong, in words, from what the switch says. No screen here: data in, sentences out.
import { age, enumeration, heard, list, number, percent, plural, record, text } from './words.js';

// Seconds of silence after which a host that others wait for is called dead. A living host repeats
// its contributions many times in this time.
const SILENCE = 3;

// A source: a host by its rank, a switch by its name.
const called = (member) => text(member.name) || 'rank ' + text(member.rank);

export const host = (member) => {
    const address = text(member.address);
    return called(member) + (address ? ' (' + address + ')' : '');
};

// Why jobs do not progress, as the switch says it: [{job, reason, missing, text, detail}].
export const stuckOf = (data) => list(record(data.blocks).stuck);

// One of them, or several: 'rank 2', 'ranks 1, 2 and 3', 'leaf0 and leaf1'.
function several(members, word) {
    if (members.length === 1) return word(members[0]);
    if (members.some((one) => text(one.name))) return enumeration(members.map(word), 4);
    return 'ranks ' + enumeration(members.map((one) => word(one).replace(/^rank /, '')), 4);
}

export const ranksOf = (members) => members.length === 0 ? 'a host that is not named' : several(members, called);

const hosts = (members) => several(members, host);

// What a job waits for, by an entry of stuckOf().
export const awaits = (stuck) => text(stuck.parent) || ranksOf(list(stuck.missing));

function lastHeard(members) {
    const known = members.map((one) => number(one.last_heard));
    if (known.length === 0) return '';
    const least = Math.min(...known.map((s) => s ?? Infinity));
    const most = Math.max(...known.map((s) => s ?? Infinity));
    if (least === Infinity) return ', never heard';
    if (most === Infinity) return ', some never heard';
    return ', ' + (most - least < 1 ? heard(most) :
        'last heard ' + age(least) + ' to ' + age(most) + ' ago');
}

const gone = (member) => member.state === 'left' || member.state === 'expired';
const silent = (member) => (number(member.last_heard) ?? Infinity) > SILENCE;

function stuck(one) {
    const { job, reason, missing, text: says, detail } = one;
    const hosts = list(missing);
    const waits = awaits(one);
    return {
        key: JSON.stringify([job, reason, waits]),
        level: reason === 'join' ? 'note' : hosts.some(silent) ? 'bad' : 'warn',
        says: `Job ${text(job)}: ${text(says)}.`,
        more: detail ? text(detail) + '.' : '',
        short: `job ${text(job)} waits for ${waits}`,
    };
}

// The ranks that blocks of a job wait for.
const awaitedOf = (job, stuck) => new Set(stuck.filter((one) => text(one.job) === text(job.name) &&
    one.reason === 'blocks').flatMap((one) => list(one.missing).map((member) => number(member.rank))));

// How the members of a job do: [{rank, address, port, share, heard, state, says}], by rank. `state`
// is 'dead', 'late', 'absent' or 'well'; `shares` is the history's late_share, or null.
export function membersOf(job, stuck, shares) {
    const awaited = awaitedOf(job, stuck);
    const members = list(job.members);
    const waitedFor = (one) => (number(one.waited) || 0) + (number(one.waiting) || 0);
    const waited = members.reduce((sum, one) => sum + waitedFor(one), 0);
    const share = new Map((Array.isArray(shares) ? shares : []).filter(Array.isArray));
    const threshold = Math.max(0.5, Math.min(0.8, 2 / members.length));
    const someoneSpeaks = members.some((one) => (number(one.last_heard) ?? Infinity) < 2);
    return members.map((one) => {
        const rank = number(one.rank);
        const member = { rank, address: text(one.address), port: text(one.port), name: text(one.name),
            ranks: number(one.ranks) ?? 1, isSwitch: number(one.ranks) !== null,
            heard: number(one.last_heard), joined: number(one.joined),
            share: number(share.get(rank)) ?? (waited > 0 ? waitedFor(one) / waited : 0) };
        const isAwaited = awaited.has(rank) || (job.state === 'running' && one.state === 'joined' &&
            number(job.blocks_in_flight) > 0 && someoneSpeaks && silent(one));
        member.awaited = isAwaited;
        // A job that everybody left has ended: nobody is missed there.
        if ((one.state === 'expired' && job.state !== 'idle') ||
            (isAwaited && (silent(one) || gone(one)))) member.state = 'dead';
        else if (one.state === 'expected' || gone(one)) member.state = 'absent';
        else if (isAwaited || member.share >= threshold) member.state = 'late';
        else member.state = 'well';
        member.says = { dead: gone(one) ? one.state : 'silent', late: 'late',
            absent: gone(one) ? one.state : 'not joined', well: 'well' }[member.state];
        return member;
    }).sort((a, b) => a.rank - b.rank);
}

// The parents of a job in a tree, with how they do: 'silent', 'joining', 'not joined', 'not used' or 'serves'.
export const parentsOf = (job) => list(record(job.tree).parents).map((one) => {
    const heard = number(one.silent_ms) === null ? null : one.silent_ms / 1000;
    const asked = job.state === 'running' && number(job.blocks_in_flight) > 0;
    return { name: text(one.name), address: text(one.address), port: text(one.port), heard,
        generation: number(one.generation),
        state: one.joining === true ? 'joining' :
            one.serves === false ? (number(job.generation) > 0 ? 'not used' : 'not joined') :
                asked && heard > SILENCE ? 'silent' : 'serves' };
});

function parentsTrouble(job) {
    return parentsOf(job).filter((one) => one.state === 'silent').map((one) => {
        const says = `ob ${text(job.name)}: parent ${one.name} is silent`;
        return { key: `parent ${one.name} ${text(job.name)}`, level: 'bad', short: 'j' + says, more: '',
            says: `J${says}, ${heard(one.heard)}.` };
    });
}

function membersTrouble(job, members, stuck) {
    const named = awaitedOf(job, stuck);
    const found = [];
    for (const how of ['silent', 'expired', 'left']) {
        const dead = members.filter((member) =>
            member.state === 'dead' && member.says === how && !named.has(member.rank));
        if (dead.length === 0) continue;
        const says = `ob ${text(job.name)}: ${hosts(dead)} ${how === 'left' ? '' : dead.length === 1 ? 'is ' : 'are '}${how}`;
        found.push({
            key: `${how} ${text(job.name)}`,
            level: 'bad',
            says: `J${says}${lastHeard(dead.map((member) => ({ last_heard: member.heard })))}.`,
            more: '',
            short: 'j' + says,
        });
    }
    const slow = members.filter((member) => member.state === 'late' && !member.awaited);
    if (slow.length) found.push({
        key: `late ${text(job.name)}`,
        level: 'note',
        says: `Job ${text(job.name)}: ${hosts(slow)} ${slow.length === 1 ? 'is' : 'are'} late.`,
        more: `${percent(slow.reduce((sum, member) => sum + member.share, 0))} of the waiting is for ` +
            (slow.length === 1 ? 'it.' : 'them.'),
        short: `job ${text(job.name)}: ${hosts(slow)} late`,
    });
    return found;
}

function switchTrouble(data) {
    const found = [];
    const say = (level, says, more) => found.push({ key: says, level, says, more: more || '', short: says });
    if (data.health && text(data.health.status) !== 'ok')
        say('bad', 'A worker of the switch stands still.', text(record(data.health.error).message));
    const faults = record(record(data.status).faults), rules = number(faults.rules);
    if (rules > 0) {
        const hit = number(faults.hit), since = number(faults.elapsed_ms);
        found.push({
            key: 'faults',
            level: 'warn',
            says: `Faults are set on purpose: ${plural(rules, 'rule', 'rules')}` +
                `${since === null ? '' : ', for ' + age(since / 1000)}.`,
            more: (hit === null ? '' : `${plural(hit, 'packet', 'packets')} were hit. `) + 'weirctl faults lists them.',
            short: 'faults are set on purpose',
        });
    }
    for (const port of list(record(data.ports).ports)) {
        if (port.up === false) say('warn', `Port ${text(port.name)} is down.`);
    }
    for (const port of list(record(data.history).ports)) {
        if (Array.isArray(port.spoofed) && port.spoofed.some((rate) => number(rate) > 0))
            say('warn', `Port ${text(port.name)} sends addresses that belong to another port.`,
                'These frames are dropped. The log names the addresses.');
    }
    for (const [name, pool] of Object.entries(record(record(data.status).pools))) {
        const size = number(record(pool).size), free = number(record(pool).free);
        if (size > 0 && free !== null && free < size / 20)
            say('warn', `Pool ${name} is nearly used up: ${percent(free / size)} free.`);
    }
    return found;
}

// All troubles, the worst first. `membersByJob` maps a job's name to its members; treeJobs: jobs as they are in
// detail.
export function troubles(data, membersByJob, treeJobs) {
    const found = stuckOf(data);
    const jobs = list(record(data.jobs).jobs);
    const all = [
        ...found.map(stuck),
        ...jobs.flatMap((job) => membersTrouble(job, membersByJob.get(text(job.name)) || [], found)),
        ...treeJobs.flatMap(parentsTrouble),
        ...switchTrouble(data),
        ...data.refused.map((path) => ({ key: path, level: 'warn', says: path, more: '', short: path })),
    ];
    const order = { bad: 0, warn: 1, note: 2 };
    return all.sort((a, b) => order[a.level] - order[b.level]);
}
