// SPDX-License-Identifier: BSD-3-Clause
// The live page's main loop: asks the switch each second, stores the answers, shows them.
import { age, list, number, record, text } from './words.js';
import { show, showLink } from './view.js';

const INTERVAL = 1; // s between the begins of two rounds
const PATIENCE = 2.5; // seconds without any answer until the page says so
const KEYS = ['health', 'status', 'jobs', 'ports', 'counters', 'history', 'blocks', 'programs', 'graph'];
const pathOf = (key) => '/v1/' + key + (key === 'blocks' ? '?stuck=1' : '');
const MEMBERS_A_ROUND = 8; // jobs whose members are asked for in one round
const STUCK_A_ROUND = 6; // of them, those with stuck blocks: the others age, too
const LARGE = 100000; // characters; a larger answer is asked for each 5 s only

// Rates of counters that the switch keeps no history of.
class Rates {
    counters = new Map(); // name → {value, time, rate}

    // A counter at a time, in seconds. A counter that went back, or is new, has no rate.
    count(name, counter, time) {
        const last = this.counters.get(name), value = number(counter);
        if (value === null || (last && time - last.time < 0.2)) return;
        const rate = last && value >= last.value ? (value - last.value) / (time - last.time) : null;
        this.counters.set(name, { value, time, rate });
    }

    of(name) {
        return this.counters.get(name)?.rate ?? null;
    }

    // The mean of what one counter sums and the other counts, in the last second; null: none.
    ratio(sum, count) {
        const events = this.of(count), total = this.of(sum);
        return events > 0 && total !== null ? total / events : null;
    }

}

const state = {
    data: { refused: [] }, // one of KEYS → body, or null; and what can't be used, in words
    times: {}, // one of KEYS → when that body came, in seconds
    details: new Map(), // name of a job → {at, job}: the job with its members, and when it was asked for
    programs: new Map(), // name of a loaded program → the program with its tables
    rates: new Rates(),
    answered: null, // when the last answer came, in seconds
    began: performance.now() / 1000, // when the page was opened, or shown again
    failing: false, // the last round had no answer at all
    token: sessionStorage.getItem('token'),
    denied: new Set(), // paths that ask for a token
};
const rest = new Map(); // path → second before which it is not asked again
const refused = new Map(); // path → what it answered that can't be used
const now = () => performance.now() / 1000;

// The body of an answer, null when it has nothing to show, undefined when it was not time to ask;
// throws when there is no answer.
async function ask(path) {
    if (now() < (rest.get(path) || 0)) return undefined;
    const headers = state.token ? { Authorization: 'Bearer ' + state.token } : {};
    const answer = await fetch(path, { headers, cache: 'no-store', signal: AbortSignal.timeout(4000) });
    const content = await answer.text();
    state.answered = now();
    state.failing = false;
    refused.delete(path);
    state.denied.delete(path);
    if (answer.status === 401) state.denied.add(path);
    // Missing or forbidden: ask again, but not each second.
    if ([401, 403, 404].includes(answer.status)) {
        rest.set(path, now() + 10);
        return null;
    }
    if (content.length > LARGE) rest.set(path, now() + 4.5);
    if (path === pathOf('graph')) rest.set(path, now() + 20); // it changes with the programs alone
    try {
        if (!answer.ok && path !== pathOf('health')) throw new SyntaxError('status');
        return record(JSON.parse(content));
    } catch {
        refused.set(path, answer.ok ? `The answer to ${path} is not JSON` :
            `The switch answers ${answer.status} to ${path}`);
        return null;
    }
}

// Each counter is counted at the time of its own answer: one that is asked for less often has its
// true rate, too.
function count() {
    const { rates, data, times } = state;
    for (const worker of list(record(data.status).workers))
        rates.count(`worker/${text(worker.id)}/hops`, worker.hops_in, times.status);
    for (const [name, value] of Object.entries(record(record(data.status).packets)))
        rates.count('packets/' + name, value, times.status);
    for (const job of list(record(data.jobs).jobs)) {
        const name = 'job/' + text(job.name), counters = record(job.counters);
        rates.count(name + '/latencies', record(job.latency).blocks, times.jobs);
        rates.count(name + '/seconds', record(job.latency).seconds, times.jobs);
        rates.count(name + '/degraded',
            (number(counters.blocks_partial) || 0) + (number(counters.blocks_error) || 0), times.jobs);
    }
    for (const [name, counter] of rates.counters)
        if (now() - counter.time > 60) rates.counters.delete(name);
}

// Jobs with stuck blocks first, and of both kinds those whose members have not been asked for longest.
async function askMembers() {
    const names = list(record(state.data.jobs).jobs).map((job) => text(job.name)).filter(Boolean);
    const stuck = new Set(list(record(state.data.blocks).stuck).map((one) => text(one.job)));
    for (const name of [...state.details.keys()].filter((one) => !names.includes(one))) state.details.delete(name);
    const asked = (name) => (state.details.get(name) || { at: 0 }).at;
    names.sort((a, b) => asked(a) - asked(b));
    const turns = new Set([...names.filter((name) => stuck.has(name)).slice(0, STUCK_A_ROUND), ...names]);
    await Promise.all([...turns].slice(0, MEMBERS_A_ROUND).map(async (name) => {
        const job = await ask('/v1/jobs/' + encodeURIComponent(name));
        if (job !== undefined) state.details.set(name, { at: now(), job });
    }));
}

async function askPrograms() {
    const loaded = list(record(state.data.programs).programs).filter((one) => one.file !== null).map((one) => text(one.name));
    for (const name of [...state.programs.keys()].filter((one) => !loaded.includes(one))) state.programs.delete(name);
    await Promise.all(loaded.filter(Boolean).map(async (name) => {
        const program = await ask('/v1/programs/' + encodeURIComponent(name));
        if (program !== undefined) state.programs.set(name, program);
    }));
}

async function round() {
    const before = state.answered, silent = [];
    await Promise.all(KEYS.map(async (key) => {
        const body = await ask(pathOf(key)).catch(() => void silent.push(key));
        if (body === undefined) return;
        state.data[key] = body;
        state.times[key] = now();
    }));
    state.failing = state.answered === before;
    if (state.failing) return;
    // The switch answers other questions: show the rest.
    for (const key of silent) {
        refused.set(pathOf(key), `No answer to ${pathOf(key)}`);
        rest.set(pathOf(key), now() + 10);
        state.data[key] = null;
    }
    await Promise.all([askMembers(), askPrograms()].map((asked) => asked.catch(() => {})));
    state.data.refused = [...refused.values()];
    count();
    show(state);
}

// How long the switch has been silent, in words, or '' while it answers.
function silence() {
    const since = now() - Math.max(state.answered ?? 0, state.began);
    if (!state.failing && since < PATIENCE) return '';
    return (state.answered === null ? 'no answer yet, for ' : 'no answer since ') +
        age(Math.max(1, Math.round(since)));
}

// A hidden page asks nothing, so its silence means nothing: when it is shown again, the first round
// tells whether the switch answers.
let isBusy = false, isAway = false, due = 0;

async function turn() {
    if (isAway && !document.hidden) Object.assign(state, { began: now(), failing: false });
    isAway = document.hidden;
    if (isAway) return;
    showLink(silence(), state);
    if (isBusy || now() < due) return;
    isBusy = true;
    due = now() + INTERVAL - 0.05;
    await round().catch((error) => console.error(error));
    isBusy = false;
    if (!document.hidden) showLink(silence(), state);
}

document.getElementById('token').addEventListener('submit', (event) => {
    event.preventDefault();
    const field = document.getElementById('token-value');
    state.token = field.value.trim();
    sessionStorage.setItem('token', state.token);
    field.value = '';
    rest.clear();
});
setInterval(turn, 250);
document.addEventListener('visibilitychange', turn);
turn();
