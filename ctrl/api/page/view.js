// SPDX-License-Identifier: BSD-3-Clause
// The sections of the page, each described from the last answers; a section without data is hidden.
// The switch words what is wrong with jobs: here its sentences are only placed.
import { ceiling, chart, highest } from './chart.js';
import { clean, fill, h } from './dom.js';
import { graph } from './graph.js';
import { age, ago, bits, bytes, latency, list, number, perSecond, percent, plural, record, text, whole }
    from './words.js';

const MARKS = { dead: '✕', late: '!', absent: '?', well: '' };
const SIGNS = { failure: '✕', warning: '!', note: '…' };
const SHOWN = 8; // members told in words while the list is closed

const byId = (id) => document.getElementById(id);
const set = (id, words) => {
    if (byId(id).textContent !== clean(words)) byId(id).textContent = clean(words);
};
const joined = (...words) => words.filter(Boolean).join(' · ');
const last = (series) => series.length ? series[series.length - 1] : null;
const seriesOf = (values) => Array.isArray(values) ? values.slice(-300).map(number) : [];
const byName = (of) => new Map(list(of).map((one) => [text(one.name), one]));
const capital = (words) => words[0].toUpperCase() + words.slice(1);

const open = new Set(); // names of jobs whose members are all shown
let shown; // the state that show() had last
let isDue = false;

function changed() {
    if (!isDue) requestAnimationFrame(() => show(shown));
    isDue = true;
}

// -- parts that several sections have

const meter = (share, full) =>
    h('span', { class: full ? 'meter full' : 'meter', 'aria-hidden': 'true' }, h('span', { class: 'fill', share }));

// Figures: a name, its value in words, and with a share a meter.
const figures = (rows) => rows.filter(Boolean).map(({ name, words, share, full, warn, title }) =>
    h('div', { key: name, class: warn ? 'figure warn' : 'figure', title: title || '' },
        h('dt', '', name), h('dd', '', words), share === undefined ? '' : meter(share, full)));

// A table with columns [class, head, what a row has there]; a row has a key, and a state as its class.
const table = (columns, rows) => h('table', { hidden: rows.length === 0 },
    h('thead', '', h('tr', '', columns.map(([name, head]) => h('th', { class: name, scope: 'col' }, head)))),
    h('tbody', '', rows.map((row) => h('tr', { key: row.key, class: row.how },
        columns.map(([name, , words]) => h('td', name, words(row)))))));

const badge = (state, words) => h('p', { class: 'badge ' + state, hidden: !words }, words);

// Rows of a name, a value, and how much of something is used.
const meters = (title, rows) => rows.length > 0 && [h('h2', '', title), h('ul', '', rows.map((row) =>
    h('li', { key: row.name, class: 'meter-row' }, h('span', '', row.name), h('span', 'value', row.value),
        meter(row.share, row.full), h('span', 'about', row.more || ''))))];

// -- what is wrong

// What the switch says is wrong with jobs: what is stuck, and remarks about other members.
function entriesOf({ data, details }) {
    const stuck = list(record(data.blocks).stuck);
    const sources = (one) => list(one.missing).map((member) => text(one.job) + '/' + member.rank);
    const named = new Set(stuck.flatMap(sources));
    const remarks = [...details.values()].flatMap(({ job }) => list(record(job).remarks));
    return [...stuck, ...remarks.filter((one) => sources(one).some((source) => !named.has(source)))];
}

const isRemark = (one) => ['contested', 'expired', 'silent', 'late'].includes(one.reason);

function jobTrouble(one) {
    const job = text(one.job), who = text(one.who) || 'a host that is not named';
    return { key: JSON.stringify([job, one.reason, who]), level: SIGNS[one.severity] ? one.severity : 'warning',
        says: `Job ${job}: ${text(one.text)}.`, more: one.detail ? text(one.detail) + '.' : '',
        short: isRemark(one) ? `job ${job}: ${who} ${one.reason}` : `job ${job} waits for ${who}` };
}

function switchTroubles({ health, status, ports, history, refused }) {
    const { rules, elapsed_ms: since, hit } = record(record(status).faults);
    return [
        health && text(health.status) !== 'ok' &&
            ['failure', 'a worker of the switch stands still', text(record(health.error).message)],
        number(rules) > 0 && ['warning', 'faults are set on purpose', `${plural(rules, 'rule', 'rules')}, for ` +
            `${age(since / 1000)}. ${plural(hit, 'packet', 'packets')} were hit. weirctl faults lists them.`],
        ...list(record(ports).ports).filter((port) => port.up === false)
            .map((port) => ['warning', `port ${text(port.name)} is down`]),
        ...list(record(history).ports).filter((port) => highest(seriesOf(port.spoofed)) > 0)
            .map((port) => ['warning', `port ${text(port.name)} sends addresses that belong to another port`,
                'These frames are dropped. The log names the addresses.']),
        ...Object.entries(record(record(status).pools))
            .filter(([, pool]) => record(pool).size > 0 && number(pool.free) !== null && pool.free < pool.size / 20)
            .map(([name, { size, free }]) =>
                ['warning', `pool ${name} is nearly used up`, `${percent(free / size)} free.`]),
        ...refused.map((words) => ['warning', words]),
    ].filter(Boolean).map(([level, short, more]) =>
        ({ key: short, level, short, says: capital(short) + '.', more: more || '' }));
}

function verdictPart(state, entries, ports) {
    const { data, denied, token } = state;
    const troubles = [...entries.map(jobTrouble), ...switchTroubles(data)];
    const levels = Object.keys(SIGNS);
    troubles.sort((a, b) => levels.indexOf(a.level) - levels.indexOf(b.level));
    const ill = troubles.filter((one) => one.level !== 'note');
    const unknown = data.blocks ? '' : 'Whether a block is stuck is not known: ' + (!denied.size ?
        'the switch does not tell it.' : token ? 'the token is not accepted.' : 'a token is needed.');
    const rate = (way) => ports.some((port) => port[way].length) &&
        bits(ports.reduce((sum, port) => sum + (last(port[way]) || 0), 0));
    const count = (of, is, ...words) => of && plural(list(of).filter(is).length, ...words);
    const well = [count(record(data.jobs).jobs, (job) => job.state === 'running', 'job runs', 'jobs run'),
        count(record(data.ports).ports, (port) => port.up !== false, 'port up', 'ports up'),
        rate('rx') && rate('rx') + ' in', rate('tx') && rate('tx') + ' out'].filter(Boolean).join(', ');
    const inside = [
        h('p', { id: 'well', hidden: ill.length > 0 || unknown !== '' }, 'No block is stuck.' + (well && ` ${well}.`)),
        h('p', { id: 'unknown', hidden: !unknown }, unknown),
        h('ul', { id: 'troubles' }, troubles.map(({ key, level, says, more }) => h('li',
            { key, class: 'trouble ' + level }, h('span', { class: 'sign', 'aria-hidden': 'true' }, SIGNS[level]),
            h('p', '', h('span', 'unseen', capital(level) + ': '), h('strong', '', says), ' ', more)))),
    ];
    // Spoken when the set of troubles changes, not when their ages do.
    set('spoken', [unknown, ...troubles.map((one) => one.short)].filter(Boolean).join('. '));
    const name = text(record(data.status).name) || 'Weir';
    document.title = clean(ill.length ? `${SIGNS[ill[0].level]} ${ill[0].short} – ${name}` :
        unknown ? '? ' + name : name);
    return inside;
}

// -- jobs

// "3", or the ranks below a switch: "4..7".
const span = (first, count) => count > 1 ? `${first}..${first + count - 1}` : text(first);

const MEMBER_COLUMNS = [
    ['rank', 'rank', (one) => span(one.rank, one.ranks)],
    ['address', 'address', (one) => [one.name, one.address].filter(Boolean).join(', ') || '–'],
    ['port', 'port', (one) => text(one.port) || '–'],
    ['how', 'state', (one) => (MARKS[one.how] + ' ' + one.says).trim()],
    ['right', 'waited for', (one) => one.awaited ? 'now' : percent(one.share)],
    ['right', 'last heard', (one) => ago(one.last_heard)],
];
const PARENT_COLUMNS = [
    ['name', 'parent', (one) => text(one.name)],
    ['address', 'address', (one) => text(one.address) || '–'],
    ['port', 'port', (one) => text(one.port) || '–'],
    ['how', 'state', (one) => (one.how === 'dead' ? MARKS.dead + ' ' : '') + one.says],
    ['generation', 'generation', (one) => whole(one.generation)],
    ['right', 'last heard', (one) => ago(one.silent_ms === null ? null : one.silent_ms / 1000)],
];

// How the members of a job do, by rank. entries: what is wrong with it; shares: of the waiting, by rank.
function membersOf(job, entries, shares) {
    const ranksOf = (...reasons) => new Set(entries.filter((one) => reasons.includes(one.reason))
        .flatMap((one) => list(one.missing).map((member) => number(member.rank))));
    const missed = ranksOf('expired', 'silent'), stuck = ranksOf('blocks'), late = ranksOf('late');
    const share = new Map((Array.isArray(shares) ? shares : []).filter(Array.isArray));
    return list(job.members).map((one) => {
        const rank = number(one.rank), isGone = ['left', 'expired'].includes(one.state);
        const awaited = stuck.has(rank) || missed.has(rank);
        const how = missed.has(rank) || (awaited && (one.silent || isGone)) ? 'dead' :
            isGone || one.state === 'expected' ? 'absent' : awaited || late.has(rank) ? 'late' : 'well';
        const says = isGone ? one.state : { dead: 'silent', absent: 'not joined' }[how] || how;
        return { ...one, key: rank, rank, awaited, how, says, share: number(share.get(rank)) || 0 };
    }).sort((a, b) => a.rank - b.rank);
}

// The parents of a job in a tree.
const parentsOf = (job, entries) => list(record(job.tree).parents).map((one) => {
    const isDead = entries.some((entry) => entry.severity === 'failure' && entry.parent === one.name);
    return { ...one, key: text(one.name), how: isDead ? 'dead' : '', says: isDead ? 'silent' :
        one.joining ? 'joining' : one.serves !== false ? 'serves' : job.generation > 0 ? 'not used' : 'not joined' };
});

// The members worth showing, by rank; all of them when they are few.
function notable(members, all) {
    if (all || members.length <= SHOWN) return members;
    const hows = Object.keys(MARKS);
    return members.filter((one) => one.how !== 'well')
        .sort((a, b) => hows.indexOf(a.how) - hows.indexOf(b.how) || b.share - a.share)
        .slice(0, SHOWN).sort((a, b) => a.rank - b.rank);
}

function memberBar(one) {
    const ranks = (one.ranks > 1 ? 'ranks ' : 'rank ') + span(one.rank, one.ranks);
    const words = `${[one.name, ranks, one.address].filter(Boolean).join(', ')}: ${one.says}, ` +
        `${percent(one.share)} of the waiting, last heard: ${ago(one.last_heard)}`;
    return h('li', { key: one.rank, class: 'member ' + one.how, title: words, 'aria-label': words },
        h('span', 'pillar', h('span', { class: 'fill', share: one.share }), h('span', 'sign', MARKS[one.how])),
        h('span', '', text(one.rank)));
}

// Who is waited for: a pillar a member, and those to look at in words.
function membersPart(name, members) {
    const total = members.length, sources = members.some((one) => number(one.ranks)) ? 'switches' : 'hosts';
    const isOpen = open.has(name);
    const counts = Object.keys(MARKS).map((how) => members.filter((one) => one.how === how));
    const well = counts.pop().length;
    const other = counts.filter((some) => some.length)
        .map((some) => `${whole(some.length)} ${some[0].says}`).join(', ');
    return h('div', { class: 'who-waits', hidden: total === 0 }, h('h4', '', 'Who is waited for'),
        h('ol', 'members' + (total <= 16 ? ' few' : total > 64 ? ' many' : ''), members.map(memberBar)),
        h('p', 'summary', well === total ? `All ${whole(total)} ${sources} keep pace.` :
            `${other}; ${whole(well)} of ${whole(total)} ${sources} keep pace.`),
        table(MEMBER_COLUMNS, notable(members, isOpen)),
        h('button', { class: 'more', type: 'button', hidden: total <= SHOWN, 'aria-expanded': String(isOpen),
            click: () => {
                if (!open.delete(name)) open.add(name);
                changed();
            } }, isOpen ? 'Only those to look at' : `All ${whole(total)} members`));
}

const about = (job) => joined(
    text(job.id) && 'job ' + text(job.id),
    `${text(job.type)} ${text(job.op)}`.trim(),
    number(job.elements) !== null && whole(job.elements) + ' elements a block',
    text(job.policy) && `policy ${text(job.policy)}` +
        (job.timeout_ms > 0 ? ' after ' + age(job.timeout_ms / 1000) : ''),
    text(job.tenant) && 'tenant ' + text(job.tenant),
    job.origin === 'api' && 'made through the API',
    number(record(job.tree).ranks) &&
        `ranks ${span(number(job.tree.first_rank) ?? 0, number(job.size))} of ${whole(job.tree.ranks)}`);

// waits: blocks wait for a member. Busy hosts fill the window: a full one is marked only then.
function jobFigures(job, rates, history, waits) {
    const counters = record(job.counters), buffers = record(job.buffers), key = 'job/' + text(job.name);
    const now = last(seriesOf(history.contributions)), degraded = rates.of(key + '/degraded');
    const ended = (number(counters.blocks_partial) || 0) + (number(counters.blocks_error) || 0);
    const level = (name, used, most) => number(used) !== null && { name, share: used / most,
        full: waits && used >= most, words: number(most) > 0 ? `${whole(used)} of ${whole(most)}` : whole(used) };
    return figures([
        { name: 'payload added', title: 'Contributions as blocks of full size',
            words: bits(now === null ? null : now * number(job.elements) * (number(job.element_bytes) || NaN) * 8) },
        record(job.latency).blocks !== undefined &&
            { name: 'block latency', words: latency(rates.ratio(key + '/seconds', key + '/latencies')) },
        { name: 'contributions', words: perSecond(now) },
        { name: 'blocks done', words: perSecond(last(seriesOf(history.blocks))) },
        { name: 'degraded', warn: degraded > 0,
            words: degraded > 0 ? perSecond(degraded) : ended ? whole(ended) + ' in all' : 'none' },
        level('blocks in flight', job.blocks_in_flight, job.window),
        level('buffers', buffers.used, buffers.reserved),
    ]);
}

function jobCard({ details, rates }, brief, entries, history) {
    const name = text(brief.name), detail = record(record(details.get(name)).job);
    const job = { ...brief, tree: detail.tree, members: detail.members };
    const members = membersOf(job, entries, history.late_share), parents = parentsOf(job, entries);
    const worst = ['dead', 'late'].find((how) => members.some((one) => one.how === how && one.awaited));
    const stuck = entries.find((one) => ['blocks', 'parent', 'expired', 'silent'].includes(one.reason));
    const series = seriesOf(history.contributions);
    return h('article', { key: name, class: 'card job ' + (worst || '') },
        h('header', '', h('div', '', h('h3', '', name), h('p', 'about', about(job))),
            stuck ? badge(stuck.severity, `stuck: waits for ${text(stuck.who)}`) : badge(text(job.state),
                text(job.state) + (number(job.generation) > 0 ? ', generation ' + job.generation : ''))),
        h('dl', 'figures', jobFigures(job, rates, history, Boolean(worst))),
        h('div', 'over-time', h('h4', '', 'Contributions per second, last five minutes'), series.length > 0 &&
            chart('Contributions to job ' + name, { contributions: series }, perSecond, ceiling(highest(series)), changed)),
        h('div', { class: 'parents', hidden: parents.length === 0 }, h('h4', '', 'Parents in the tree'),
            table(PARENT_COLUMNS, parents)),
        membersPart(name, members));
}

function jobsPart(state, entries) {
    const jobs = list(record(state.data.jobs).jobs), history = byName(record(state.data.history).jobs);
    const of = (job) => entries.filter((one) => text(one.job) === text(job.name));
    return state.data.jobs && [
        h('h2', '', 'Jobs ', h('span', 'count', jobs.length > 1 ? whole(jobs.length) : '')),
        h('div', { class: jobs.length > 3 ? 'job-cards many' : 'job-cards' },
            jobs.map((job) => jobCard(state, job, of(job), record(history.get(text(job.name)))))),
        h('p', { class: 'none', hidden: jobs.length > 0 }, 'No job is there yet.')];
}

// -- ports, and what else the switch counts

const LOST = { queue_full: ' dropped at a full queue', stalled: ' dropped because the port took nothing',
    too_long: ' longer than the port can send', missed: ' missed by the card',
    spoofed: ' with an address that belongs elsewhere', policed: ' beyond the port\u2019s limits' };

function portsOf({ ports, history }) {
    const now = byName(record(ports).ports), past = byName(record(history).ports);
    return [...new Set([...now.keys(), ...past.keys()])].map((name) => {
        const { rx_bps: rx, tx_bps: tx } = record(past.get(name));
        return { ...now.get(name), name, rx: seriesOf(rx), tx: seriesOf(tx) };
    });
}

function portCard(port, top) {
    const { name, rx, tx } = port, { results, bulk } = record(port.queue_full);
    const counts = { ...port, queue_full: (number(results) || 0) + (number(bulk) || 0) };
    const lost = Object.keys(LOST).filter((key) => number(counts[key])).map((key) => whole(counts[key]) + LOST[key]);
    return h('article', { key: name, class: 'card port' },
        h('header', '', h('h3', '', name),
            port.up === true ? badge('up', 'up') : port.up === false ? badge('down', 'down') : ''),
        h('p', 'rates', h('span', 'key line-0', 'rx'), h('span', 'value', bits(last(rx))),
            h('span', 'key line-1', 'tx'), h('span', 'value', bits(last(tx)))),
        chart('Port ' + name, { rx, tx }, bits, top, changed),
        h('p', 'about', joined(text(port.device), text(port.mac), number(port.mtu) && 'MTU\u00a0' + port.mtu)),
        h('p', 'lost', lost.join(', ')));
}

function portsPart(ports) {
    // One scale for all, so that the charts can be compared.
    const top = ceiling(Math.max(0, ...ports.map((port) => Math.max(highest(port.rx), highest(port.tx)))));
    return ports.length > 0 && [
        h('h2', '', 'Ports ', h('span', 'count', `last five minutes, all on one scale: 0 to ${bits(top)}`)),
        h('div', 'port-cards', ports.map((port) => portCard(port, top)))];
}

// -- loaded programs: their counters and tables, as they describe themselves

const cell = (value) => number(value) === null ? text(value) || '–' : whole(value);

function programTable(of) {
    const columns = list(of.columns).map(({ key, help, kind }) =>
        [kind === 'number' ? 'right' : '', text(key).replaceAll('_', ' '), (row) => cell(row[text(key)]), text(help)]);
    const rows = list(of.rows).map((row, i) => ({ ...row, key: i }));
    return h('div', { key: text(of.name), class: 'program-table' }, h('h4', '', joined(text(of.name), text(of.help))),
        table(columns, rows), h('p', { class: 'none', hidden: rows.length > 0 }, 'Empty.'));
}

function programCard([name, program]) {
    const { phase, help, matches, counters, tables, waits_for: waits } = record(program);
    const words = Array.isArray(matches) ? matches.map(text) : [];
    return h('article', { key: name, class: 'card program' },
        h('header', '', h('div', '', h('h3', '', name), h('p', 'about', joined(text(help), ...words))),
            badge(text(phase), text(phase) + (waits ? ', waits for ' + text(waits) : ''))),
        h('dl', 'figures', figures(Object.entries(record(counters)).map(([key, value]) =>
            ({ name: key.replaceAll('_', ' '), words: cell(value) })))),
        ...list(tables).map(programTable));
}

const programsPart = ({ programs }) => programs.size > 0 &&
    [h('h2', '', 'Programs'), h('div', 'job-cards', [...programs].map(programCard))];

const graphPart = ({ graph: of }) => list(record(of).programs).length > 0 && [h('h2', '', 'Segments'),
    ...list(of.programs).map((program) => h('details', { key: text(program.name), class: 'card' },
        h('summary', '', joined(text(program.name), ...(Array.isArray(program.matches) ? program.matches.map(text) : []))),
        h('div', 'graph-frame', graph(program))))];

const DROP_COLUMNS = [
    ['code', 'reason', (row) => row.key],
    ['wide', 'five minutes', ({ key, rates }) =>
        chart('Drops, ' + key, { [key]: rates }, perSecond, ceiling(highest(rates)), changed, 'small')],
    ['right', 'now', (row) => perSecond(last(row.rates))],
    ['right', 'in all', (row) => whole(row.total)],
];

function dropsPart({ counters, history }) {
    const totals = record(record(counters).drops), past = record(record(history).drops);
    const rows = [...new Set([...Object.keys(totals), ...Object.keys(past)])].map((key) => {
        const rates = seriesOf(past[key]);
        return { key, rates, total: number(totals[key]), how: last(rates) > 0 ? 'now' : '' };
    }).filter((row) => row.total > 0 || highest(row.rates) > 0);
    rows.sort((a, b) => (last(b.rates) || 0) - (last(a.rates) || 0) || b.total - a.total || (a.key < b.key ? -1 : 1));
    return (counters || record(history).drops) && [h('h2', '', 'Drops'), table(DROP_COLUMNS, rows),
        h('p', { class: 'none', hidden: rows.length > 0 }, 'Nothing has been dropped.')];
}

const workersPart = ({ data, rates }) => meters('Lcores', list(record(data.status).workers).map((worker) => {
    const hops = rates.of(`worker/${text(worker.id)}/hops`), busy = number(worker.busy);
    return { name: 'lcore ' + text(worker.lcore ?? worker.id), value: percent(busy) + ' busy', share: busy,
        full: busy > 0.95, more: joined(number(worker.cpu) !== null && 'CPU ' + worker.cpu,
            number(worker.threads_live) !== null && plural(worker.threads_live, 'thread live', 'threads live'),
            hops > 0 && perSecond(hops) + ' hops in') };
}));

function memoryPart(status) {
    const memory = record(status.memory), used = number(memory.blocks_used);
    const row = (name, used, size, unit, more, most = 0.95) => number(used) !== null && size > 0 && { name, more,
        value: `${unit(used)} of ${unit(size)}`, share: used / size, full: used / size > most };
    return meters('Memory', [
        row('data memory', memory.total - memory.free, memory.total, bytes),
        row('blocks reserved', memory.blocks_reserved, memory.blocks_capacity, whole,
            used === null ? '' : whole(used) + ' used now', 1), // the jobs of the file fill it by design
        ...Object.entries(record(status.pools)).map(([name, pool]) =>
            row(name, record(pool).size - record(pool).free, record(pool).size, whole)),
    ].filter(Boolean));
}

function packetsPart({ data, rates }) {
    const packets = record(record(data.status).packets);
    const names = ['received', 'created', 'sent', 'consumed', 'dropped', 'in_flight']
        .filter((name) => number(packets[name]) !== null);
    return names.length > 0 && [h('h2', '', 'Packets'), h('dl', '', figures(names.map((name) =>
        ({ name: name.replace('_', ' '), words: name === 'in_flight' ? whole(packets[name]) :
            perSecond(rates.of('packets/' + name)) }))))];
}

function showHead({ status }) {
    const { name, address, version, uptime } = record(status);
    if (!status) return;
    set('name', text(name) || 'Weir');
    set('about', joined(text(address), text(version) && 'Weir ' + text(version),
        number(uptime) !== null && 'up ' + age(uptime)));
}

export function show(state) {
    const { data } = state, ports = portsOf(data), entries = entriesOf(state);
    const parts = {
        verdict: () => verdictPart(state, entries, ports),
        programs: () => programsPart(state), graph: () => graphPart(data),
        jobs: () => jobsPart(state, entries), ports: () => portsPart(ports), drops: () => dropsPart(data),
        workers: () => workersPart(state), memory: () => memoryPart(record(data.status)), packets: () => packetsPart(state),
    };
    shown = state;
    isDue = false;
    showHead(data);
    for (const [id, part] of Object.entries(parts)) {
        try {
            const inside = part();
            byId(id).hidden = !inside;
            fill(byId(id), inside || []);
        } catch (error) { // on an absurd answer; the other parts are shown
            console.error(error);
        }
    }
}

// Whether the switch answers; `silence` is '' or says how long it does not.
export function showLink(silence, { answered, denied }) {
    const waits = answered === null && !silence;
    byId('link').className = silence ? 'bad' : waits ? '' : 'well';
    set('link-words', silence || (waits ? 'connecting' : 'live'));
    byId('lost').hidden = !silence;
    set('lost', 'The switch does not answer.' + (answered !== null ? ' The values below are its last ones.' : ''));
    byId('main').classList.toggle('old', Boolean(silence));
    if (silence) document.title = '✕ no answer – ' + byId('name').textContent;
    byId('token').hidden = denied.size === 0;
}
