// SPDX-License-Identifier: BSD-3-Clause
// The sections of the page, each filled from the last answers; a section without data is hidden.
import { Chart, ceiling, highest } from './chart.js';
import { Figure, Meter, attribute, byId, clean, h, reveal, set, sync } from './dom.js';
import { JobCard } from './job.js';
import { membersOf, parentsOf, stuckOf, troubles } from './trouble.js';
import { age, bits, bytes, list, number, perSecond, percent, plural, record, text, whole }
    from './words.js';

const last = (series) => series.length ? series[series.length - 1] : null;
const historyOf = (data, kind) =>
    new Map(list(record(data.history)[kind]).map((one) => [text(one.name), one]));
const seriesOf = (values) => Array.isArray(values) ? values.map(number) : [];

function showHead(data) {
    const status = record(data.status);
    if (!data.status) return;
    set(byId('name'), text(status.name) || 'Weir');
    set(byId('about'), [text(status.address), text(status.version) && 'Weir ' + text(status.version),
        number(status.uptime) === null ? '' : 'up ' + age(status.uptime)].filter(Boolean).join(' · '));
}

// A job with what only its own answer has, as far as that is known.
const detailed = ({ members }, job) => ({ ...job, tree: record(record(members.get(text(job.name))).job).tree });

class Trouble {
    constructor() {
        this.sign = h('span', 'sign');
        this.sign.setAttribute('aria-hidden', 'true');
        this.level = h('span', 'unseen');
        this.says = h('strong');
        this.more = h('span', 'more-words');
        this.node = h('li', '', this.sign, h('p', '', this.level, this.says, ' ', this.more));
    }

    update(trouble) {
        attribute(this.node, 'class', 'trouble ' + trouble.level);
        set(this.sign, { bad: '✕', warn: '!', note: '…' }[trouble.level]);
        set(this.level, { bad: 'Failure: ', warn: 'Warning: ', note: 'Note: ' }[trouble.level]);
        set(this.says, trouble.says);
        set(this.more, trouble.more);
    }
}

function wellWords(data, rates) {
    const jobs = list(record(data.jobs).jobs);
    const ports = list(record(data.ports).ports);
    const words = [
        data.jobs ? plural(jobs.filter((job) => job.state === 'running').length, 'job runs', 'jobs run') : '',
        data.ports ? plural(ports.filter((port) => port.up !== false).length, 'port up', 'ports up') : '',
        rates.length ? bits(rates.reduce((sum, rate) => sum + (last(rate.rx) || 0), 0)) + ' in' : '',
        rates.length ? bits(rates.reduce((sum, rate) => sum + (last(rate.tx) || 0), 0)) + ' out' : '',
    ];
    const told = words.filter(Boolean).join(', ');
    return 'No block is stuck.' + (told && ` ${told}.`);
}

// Why it is not known whether blocks are stuck; '' when it is.
function unknownWords({ data, denied, token }) {
    if (data.blocks) return '';
    return 'Whether a block is stuck is not known: ' + (!denied.size ? 'the switch does not tell it.' :
        token ? 'the token is not accepted.' : 'a token is needed.');
}

function showVerdict(state, membersByJob, rates) {
    const { data } = state;
    const unknown = unknownWords(state);
    const found = troubles(data, membersByJob, list(record(data.jobs).jobs).map((job) => detailed(state, job)));
    const ill = found.filter((trouble) => trouble.level !== 'note');
    reveal(byId('verdict'), true);
    const well = ill.length === 0 && !unknown;
    reveal(byId('well'), well);
    if (well) set(byId('well'), wellWords(data, rates));
    reveal(byId('unknown'), Boolean(unknown));
    set(byId('unknown'), unknown);
    sync(byId('troubles'), found, (trouble) => trouble.key, () => new Trouble());
    // Spoken when the set of troubles changes, not when their ages do.
    set(byId('spoken'), [unknown, ...found.map((trouble) => trouble.short)].filter(Boolean).join('. '));
    const name = text(record(data.status).name) || 'Weir';
    const title = ill.length ? `${ill[0].level === 'bad' ? '✕' : '!'} ${ill[0].short} – ${name}` :
        unknown ? '? ' + name : name;
    if (document.title !== clean(title)) document.title = clean(title);
}

class PortCard {
    constructor(rates) {
        this.name = h('h3', '', rates.name);
        this.badge = h('p', 'badge');
        this.about = h('p', 'about');
        this.chart = new Chart('Port ' + rates.name,
            [{ name: 'rx', area: true }, { name: 'tx', area: false }], bits);
        this.rx = h('span', 'value');
        this.tx = h('span', 'value');
        this.lost = h('p', 'lost');
        this.node = h('article', 'card port', h('header', '', this.name, this.badge),
            h('p', 'rates', h('span', 'key line-0', 'rx'), this.rx, h('span', 'key line-1', 'tx'), this.tx),
            this.chart.node, this.about, this.lost);
    }

    update({ port, rx, tx, top }) {
        set(this.badge, port.up === true ? 'up' : port.up === false ? 'down' : '');
        attribute(this.badge, 'data-state', text(port.up));
        reveal(this.badge, typeof port.up === 'boolean');
        set(this.rx, bits(last(rx)));
        set(this.tx, bits(last(tx)));
        this.chart.show([rx, tx], top);
        set(this.about, [text(port.device), text(port.mac), number(port.mtu) ? 'MTU\u00a0' + port.mtu : '']
            .filter(Boolean).join(' · '));
        const full = record(port.queue_full);
        const queue = (number(full.results) || 0) + (number(full.bulk) || 0);
        const lost = [queue ? whole(queue) + ' dropped at a full queue' : '',
            number(port.stalled) ? whole(port.stalled) + ' dropped because the port took nothing' : '',
            number(port.too_long) ? whole(port.too_long) + ' longer than the port can send' : '',
            number(port.missed) ? whole(port.missed) + ' missed by the card' : '',
            number(port.spoofed) ? whole(port.spoofed) + ' with an address that belongs elsewhere' : '',
            number(port.policed) ? whole(port.policed) + ' beyond the port\u2019s limits' : ''].filter(Boolean);
        set(this.lost, lost.join(', '));
        reveal(this.lost, lost.length > 0);
    }
}

function portRates(data) {
    const history = historyOf(data, 'ports');
    const ports = new Map(list(record(data.ports).ports).map((port) => [text(port.name), port]));
    return [...new Set([...ports.keys(), ...history.keys()])].map((name) => ({
        name,
        port: ports.get(name) || {},
        rx: seriesOf(record(history.get(name)).rx_bps),
        tx: seriesOf(record(history.get(name)).tx_bps),
    }));
}

function showPorts(rates) {
    // One scale for all, so that the charts can be compared.
    const top = ceiling(Math.max(...rates.map((rate) => Math.max(highest(rate.rx), highest(rate.tx))), 0));
    reveal(byId('ports'), rates.length > 0);
    set(byId('ports-scale'), `last five minutes, all on one scale: 0 to ${bits(top)}`);
    sync(byId('port-cards'), rates.map((rate) => ({ ...rate, top })), (rate) => rate.name,
        (rate) => new PortCard(rate));
}

function showJobs(state, membersByJob) {
    const { data, rates } = state;
    const history = historyOf(data, 'jobs');
    const jobs = list(record(data.jobs).jobs);
    const stuck = new Map(stuckOf(data).filter((one) => ['blocks', 'parent'].includes(one.reason))
        .map((one) => [text(one.job), one]));
    const items = jobs.map((job) => {
        const name = text(job.name);
        const of = record(history.get(name));
        const contributions = seriesOf(of.contributions);
        const known = detailed(state, job);
        return { job: known, members: membersByJob.get(name) || [], parents: parentsOf(known),
            stuck: stuck.get(name), rates: {
            latencyNow: rates.ratio(`job/${name}/seconds`, `job/${name}/latencies`),
            contributions,
            contributionsNow: last(contributions),
            blocksNow: last(seriesOf(of.blocks)),
            degradedNow: rates.get(`job/${name}/degraded`),
        } };
    });
    reveal(byId('jobs'), Boolean(data.jobs));
    reveal(byId('jobs-none'), jobs.length === 0);
    set(byId('jobs-count'), jobs.length > 1 ? whole(jobs.length) : '');
    byId('job-cards').classList.toggle('many', jobs.length > 3);
    sync(byId('job-cards'), items, (item) => text(item.job.name), (item) => new JobCard(item));
}

// name of a job → its members; a job whose members are not known has none.
function membersByJobOf({ data, members }) {
    const stuck = stuckOf(data);
    const history = historyOf(data, 'jobs');
    const membersByJob = new Map();
    for (const job of list(record(data.jobs).jobs)) {
        const name = text(job.name);
        const detail = record(record(members.get(name)).job);
        membersByJob.set(name, membersOf({ ...job, members: detail.members }, stuck,
            record(history.get(name)).late_share));
    }
    return membersByJob;
}

class DropRow {
    constructor({ reason }) {
        this.chart = new Chart('Drops, ' + reason, [{ name: reason, area: true }], perSecond);
        this.chart.node.classList.add('small');
        this.chart.node.tabIndex = -1;
        this.rate = h('td', 'right');
        this.total = h('td', 'right');
        const head = h('th', 'code', reason);
        head.scope = 'row';
        this.node = h('tr', '', head, h('td', 'wide', this.chart.node), this.rate, this.total);
    }

    update({ rates, total }) {
        this.chart.show([rates], ceiling(highest(rates)));
        set(this.rate, perSecond(last(rates)));
        set(this.total, whole(total));
        this.node.classList.toggle('now', last(rates) > 0);
    }
}

function showDrops(data) {
    const totals = record(record(data.counters).drops);
    const history = record(record(data.history).drops);
    const rows = [...new Set([...Object.keys(totals), ...Object.keys(history)])].map((reason) => ({
        reason,
        total: number(totals[reason]),
        rates: seriesOf(history[reason]),
    })).filter((row) => row.total > 0 || highest(row.rates) > 0);
    rows.sort((a, b) => (last(b.rates) || 0) - (last(a.rates) || 0) || b.total - a.total ||
        (a.reason < b.reason ? -1 : 1));
    reveal(byId('drops'), Boolean(data.counters || record(data.history).drops));
    reveal(byId('drops-table'), rows.length > 0);
    reveal(byId('drops-none'), rows.length === 0);
    sync(byId('drop-rows'), rows, (row) => row.reason, (row) => new DropRow(row));
}

class MeterRow {
    constructor() {
        this.name = h('span', 'label');
        this.meter = new Meter();
        this.value = h('span', 'value');
        this.more = h('span', 'about');
        this.node = h('li', 'meter-row', this.name, this.value, this.meter.node, this.more);
    }

    update({ name, value, share, full, more }) {
        set(this.name, name);
        set(this.value, value);
        set(this.more, more || '');
        this.meter.update(share, full);
    }
}

// The rows of a section, which is hidden without rows.
function showMeters(section, rows) {
    reveal(byId(section), rows.length > 0);
    sync(byId(section + '-rows'), rows, (row) => row.name, () => new MeterRow());
}

function showWorkers({ data, rates }) {
    showMeters('workers', list(record(data.status).workers).map((worker) => ({
        name: 'lcore ' + text(worker.lcore ?? worker.id),
        value: percent(number(worker.busy)) + ' busy',
        share: number(worker.busy),
        full: worker.busy > 0.95,
        more: [number(worker.cpu) === null ? '' : 'CPU ' + worker.cpu,
            number(worker.threads_live) === null ? '' :
                plural(worker.threads_live, 'thread live', 'threads live'),
            rates.get(`worker/${text(worker.id)}/hops`) > 0 ?
                perSecond(rates.get(`worker/${text(worker.id)}/hops`)) + ' hops in' : '',
        ].filter(Boolean).join(' · '),
    })));
}

function memoryRows(status) {
    const memory = record(status.memory);
    const rows = [];
    const row = (name, used, size, unit, more, most = 0.95) => {
        if (number(used) !== null && size > 0)
            rows.push({ name, value: `${unit(used)} of ${unit(size)}`, share: used / size,
                full: used / size > most, more });
    };
    row('data memory', memory.total - memory.free, memory.total, bytes);
    row('blocks reserved', memory.blocks_reserved, memory.blocks_capacity, whole,
        number(memory.blocks_used) === null ? '' : whole(memory.blocks_used) + ' used now',
        1); // as many as the jobs of the file need: full by design
    for (const [name, pool] of Object.entries(record(status.pools)))
        row(name, record(pool).size - record(pool).free, record(pool).size, whole);
    return rows;
}

function showPackets({ data, rates }) {
    const packets = record(record(data.status).packets);
    const names = ['received', 'created', 'sent', 'consumed', 'dropped', 'in_flight']
        .filter((name) => number(packets[name]) !== null);
    reveal(byId('packets'), names.length > 0);
    const rows = names.map((name) => ({ name: name.replace('_', ' '), words: name === 'in_flight' ?
        whole(packets[name]) : perSecond(rates.get('packets/' + name)) }));
    sync(byId('packets-rows'), rows, (row) => row.name, (row) => new Figure(row));
}

// A part that fails (on an absurd answer) leaves the others alone.
function each(...parts) {
    for (const part of parts) {
        try {
            part();
        } catch (error) {
            console.error(error);
        }
    }
}

export function show(state) {
    const { data } = state;
    let membersByJob = new Map(), ports = [];
    each(
        () => { membersByJob = membersByJobOf(state); },
        () => { ports = portRates(data); },
        () => showHead(data),
        () => showVerdict(state, membersByJob, ports),
        () => showJobs(state, membersByJob),
        () => showPorts(ports),
        () => showDrops(data),
        () => showWorkers(state),
        () => showMeters('memory', memoryRows(record(data.status))),
        () => showPackets(state),
    );
}

// Whether the switch answers; `silence` is '' or says how long it does not.
export function showLink(silence, state) {
    const waits = state.answered === null && !silence;
    byId('link').className = silence ? 'bad' : waits ? '' : 'well';
    set(byId('link-words'), silence || (waits ? 'connecting' : 'live'));
    reveal(byId('lost'), Boolean(silence));
    set(byId('lost'), silence && state.answered !== null ?
        'The switch does not answer. The values below are its last ones.' :
        silence ? 'The switch does not answer.' : '');
    byId('main').classList.toggle('old', Boolean(silence));
    if (silence) document.title = '✕ no answer – ' + text(byId('name').textContent);
    reveal(byId('token'), state.denied.size > 0);
}
