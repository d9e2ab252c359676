// SPDX-License-Identifier: BSD-3-Clause
// The card of a job: its rates, its window, and its members.
import { Chart, ceiling, highest } from './chart.js';
import { Figure, attribute, h, reveal, set, sync } from './dom.js';
import { awaits, ranksOf } from './trouble.js';
import { age, bits, enumeration, heard, latency, list, number, perSecond, percent, record, text, whole }
    from './words.js';

const MARKS = { dead: '✕', late: '!', absent: '?', well: '' };
const SHOWN = 8; // members told in words while the list is closed

// "3", or the ranks below a switch: "4..7".
const span = (first, count) => count > 1 ? `${first}..${first + count - 1}` : text(first);

class MemberBar {
    constructor() {
        this.fill = h('span', 'fill');
        this.mark = h('span', 'sign');
        this.rank = h('span', 'rank');
        this.node = h('li', '', h('span', 'pillar', this.fill, this.mark), this.rank);
    }

    update(member) {
        attribute(this.node, 'class', 'member ' + member.state);
        this.fill.style.height = (Math.min(Math.max(member.share, 0), 1) * 100).toFixed(1) + '%';
        set(this.mark, MARKS[member.state]);
        set(this.rank, text(member.rank));
        const who = [member.name, (member.ranks > 1 ? 'ranks ' : 'rank ') + span(member.rank, member.ranks), member.address];
        const words = `${who.filter(Boolean).join(', ')}: ${member.says}, ` +
            `${percent(member.share)} of the waiting, ${heard(member.heard)}`;
        attribute(this.node, 'aria-label', words);
        attribute(this.node, 'title', words);
    }
}

// Columns of the list of members: class, head, and what a member has there.
const COLUMNS = [
    ['rank', 'rank', (member) => span(member.rank, member.ranks)],
    ['address', 'address', (member) => [member.name, member.address].filter(Boolean).join(', ') || '–'],
    ['port', 'port', (member) => member.port || '–'],
    ['how', 'state', (member) => (MARKS[member.state] + ' ' + member.says).trim()],
    ['share', 'waited for', (member) => member.awaited ? 'now' : percent(member.share)],
    ['heard', 'last heard', (member) => member.heard === null ? 'never' : age(member.heard) + ' ago'],
];

// The same of the list of parents.
const PARENT_COLUMNS = [
    ['name', 'parent', (parent) => parent.name],
    ['address', 'address', (parent) => parent.address || '–'],
    ['port', 'port', (parent) => parent.port || '–'],
    ['how', 'state', (parent) => (parent.state === 'silent' ? MARKS.dead + ' ' : '') + parent.state],
    ['generation', 'generation', (parent) => whole(parent.generation)],
    ['heard', 'last heard', (parent) => parent.heard === null ? 'never' : age(parent.heard) + ' ago'],
];

// A row of members or parents, whose state is its class.
class Row {
    constructor(columns) {
        this.columns = columns;
        this.cells = columns.map(([name]) => h('td', name));
        this.node = h('tr', '', ...this.cells);
    }

    update(item) {
        attribute(this.node, 'class', item.state === 'silent' ? 'dead' : item.state);
        this.columns.forEach(([, , words], i) => set(this.cells[i], words(item)));
    }
}

// A table of them, and its body.
function table(columns, body) {
    const heads = columns.map(([name, words]) => h('th', name, words));
    for (const head of heads) head.scope = 'col';
    return h('table', '', h('thead', '', h('tr', '', ...heads)), body);
}

// The members worth showing, by rank; all of them when they are few.
function notable(members, open) {
    if (open || members.length <= SHOWN) return members;
    const weight = { dead: 3, late: 2, absent: 1, well: 0 };
    return members.filter((member) => member.state !== 'well')
        .sort((a, b) => weight[b.state] - weight[a.state] || b.share - a.share)
        .slice(0, SHOWN).sort((a, b) => a.rank - b.rank);
}

function about(job) {
    const words = [
        text(job.id) ? 'job ' + text(job.id) : '',
        [text(job.type), text(job.op)].join(' ').trim(),
        number(job.elements) === null ? '' : whole(job.elements) + ' elements a block',
        text(job.policy) ? 'policy ' + text(job.policy) +
            (number(job.timeout_ms) > 0 ? ' after ' + age(job.timeout_ms / 1000) : '') : '',
        text(job.tenant) ? 'tenant ' + text(job.tenant) : '',
        job.origin === 'api' ? 'made through the API' : '',
        job.tree && number(job.tree.ranks) ? `ranks ${span(number(job.tree.first_rank) ?? 0, number(job.size))} of ` +
            `${whole(job.tree.ranks)}` : '',
    ];
    return words.filter(Boolean).join(' · ');
}

// The figures of a job; `waits`: blocks wait for a member.
function figures(job, rates, waits) {
    const counters = record(job.counters), buffers = record(job.buffers);
    const size = number(job.elements) * (number(job.element_bytes) || NaN);
    const degraded = (number(counters.blocks_partial) || 0) + (number(counters.blocks_error) || 0);
    // Busy hosts fill the window: a full one is marked only while blocks wait for a member.
    const level = (name, used, most) => number(used) !== null && { name, meter: true,
        words: number(most) > 0 ? `${whole(used)} of ${whole(most)}` : whole(used),
        share: used / most, full: waits && used >= most };
    return [
        { name: 'payload added', title: 'Contributions as blocks of full size',
            words: bits(rates.contributionsNow === null ? null : rates.contributionsNow * size * 8) },
        record(job.latency).blocks !== undefined &&
            { name: 'block latency', words: latency(rates.latencyNow) },
        { name: 'contributions', words: perSecond(rates.contributionsNow) },
        { name: 'blocks done', words: perSecond(rates.blocksNow) },
        { name: 'degraded', warn: rates.degradedNow > 0, words: rates.degradedNow > 0 ?
            perSecond(rates.degradedNow) : degraded ? whole(degraded) + ' in all' : 'none' },
        level('blocks in flight', job.blocks_in_flight, job.window),
        level('buffers', buffers.used, buffers.reserved),
    ].filter(Boolean);
}

export class JobCard {
    constructor(item) {
        const name = text(item.job.name);
        this.name = h('h3', '', name);
        this.about = h('p', 'about');
        this.state = h('p', 'badge');
        this.figures = h('dl', 'figures');
        this.chart = new Chart('Contributions to job ' + name, [{ name: 'contributions', area: true }],
            perSecond);
        this.bars = h('ol', 'members');
        this.summary = h('p', 'summary');
        this.rows = h('tbody');
        this.more = h('button', 'more');
        this.more.type = 'button';
        this.open = false;
        this.more.addEventListener('click', () => {
            this.open = !this.open;
            this.showMembers();
        });
        this.node = h('article', 'card job',
            h('header', '', h('div', '', this.name, this.about), this.state),
            this.figures,
            h('div', 'over-time', h('h4', '', 'Contributions per second, last five minutes'), this.chart.node),
            this.parentsPart(), this.membersPart());
    }

    parentsPart() {
        this.parentRows = h('tbody');
        this.parents = h('div', 'parents', h('h4', '', 'Parents in the tree'), table(PARENT_COLUMNS, this.parentRows));
        return this.parents;
    }

    membersPart() {
        this.table = table(COLUMNS, this.rows);
        this.who = h('div', 'who-waits', h('h4', '', 'Who is waited for'), this.bars, this.summary,
            this.table, this.more);
        return this.who;
    }

    // The badge of a job that is stuck: {level, words}, or null.
    trouble(members, stuck) {
        const missing = members.filter((member) => member.state === 'dead' || member.awaited);
        if (!stuck && missing.length === 0) return null;
        const dead = members.some((member) => member.state === 'dead');
        return { level: dead ? 'bad' : 'warn',
            words: 'stuck: waits for ' + (stuck ? awaits(stuck) : ranksOf(missing)) };
    }

    update({ job, members, parents, stuck, rates }) {
        this.of = members;
        const trouble = this.trouble(members, stuck);
        const worst = ['dead', 'late'].find((state) =>
            members.some((member) => member.state === state && (member.awaited || state === 'dead')));
        attribute(this.node, 'data-worst', worst || 'none');
        set(this.about, about(job));
        set(this.state, trouble ? trouble.words : text(job.state) +
            (number(job.generation) > 0 ? ', generation ' + job.generation : ''));
        attribute(this.state, 'data-state', trouble ? trouble.level : text(job.state));
        sync(this.figures, figures(job, rates, Boolean(worst)), (figure) => figure.name,
            (figure) => new Figure(figure));
        this.chart.show([rates.contributions], ceiling(highest(rates.contributions)));
        reveal(this.chart.node, rates.contributions.length > 0);
        reveal(this.parents, parents.length > 0);
        sync(this.parentRows, parents, (parent) => parent.name, () => new Row(PARENT_COLUMNS));
        this.showMembers();
    }

    showMembers() {
        const sources = this.of.some((member) => member.isSwitch) ? 'switches' : 'hosts';
        const shown = notable(this.of, this.open);
        reveal(this.who, this.of.length > 0);
        this.bars.classList.toggle('few', this.of.length <= 16);
        this.bars.classList.toggle('many', this.of.length > 64);
        sync(this.bars, this.of, (member) => member.rank, () => new MemberBar());
        sync(this.rows, shown, (member) => member.rank, () => new Row(COLUMNS));
        reveal(this.table, shown.length > 0);
        const total = this.of.length;
        const well = this.of.filter((member) => member.state === 'well').length;
        const other = ['dead', 'late', 'absent']
            .map((state) => this.of.filter((member) => member.state === state))
            .filter((some) => some.length > 0).map((some) => `${whole(some.length)} ${some[0].says}`);
        reveal(this.summary, well < total || this.of.some((member) => member.heard !== null));
        set(this.summary, well === total ? `All ${whole(total)} ${sources} keep pace.` :
            `${enumeration(other, 4)}; ${whole(well)} of ${whole(total)} ${sources} keep pace.`);
        reveal(this.more, total > SHOWN);
        set(this.more, this.open ? 'Only those to look at' : `All ${whole(total)} members`);
        attribute(this.more, 'aria-expanded', String(this.open));
    }
}
