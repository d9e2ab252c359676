// SPDX-License-Identifier: BSD-3-Clause
// A program's segments as boxes, in layers by their distance from the first one, and lines to where they lead: dashed for hops.
// The packet's ends are words in the boxes; the reasons for drops are in the boxes' titles.
import { h } from './dom.js';
import { list, plural, text } from './words.js';

const BOX = { width: 170, height: 36 }, STEP = { x: 208, y: 46 };

// A segment: its name, the segments that it leads to, and its packet's ends.
function segmentOf(one) {
    const words = Array.isArray(one.leads_to) ? one.leads_to.map(text) : [];
    const drops = words.filter((word) => word.startsWith('drop:'));
    const rest = words.filter((word) => !word.startsWith('drop:'));
    return { name: text(one.name), to: rest.map((word) => ({ name: word.replace(/^hop:/, ''), hop: word.startsWith('hop:') })),
        rest, drops: drops.map((word) => word.slice(5)) };
}

// Give each segment its place: [layer, row]. What nothing leads to, such as a timer's segment, begins at the left.
function place(segments) {
    const byName = new Map(segments.map((one) => [one.name, one])), rows = [];
    for (const start of segments) {
        for (let layer = [start], x = 0; layer.length; x++) {
            layer = layer.filter((one) => !one.at);
            for (const one of layer) one.at = [x, rows[x] = (rows[x] ?? -1) + 1];
            layer = layer.flatMap((one) => one.to.map(({ name }) => byName.get(name)).filter(Boolean));
        }
    }
    return byName;
}

const corner = ([x, y]) => [x * STEP.x + 1, y * STEP.y + 1];

function line(from, to, hop) {
    const [x1, y1] = corner(from.at), [x2, y2] = corner(to.at);
    const a = [x1 + BOX.width, y1 + BOX.height / 2], b = [x2, y2 + BOX.height / 2];
    const bend = b[0] > a[0] ? (b[0] - a[0]) / 2 : 30;
    return h('path', { key: `${from.name}>${to.name}`, class: hop ? 'edge hop' : 'edge',
        d: `M${a}C${a[0] + bend} ${a[1]} ${b[0] - bend} ${b[1]} ${b}` });
}

function box(one, byName) {
    const [x, y] = corner(one.at);
    const ends = [...one.rest.filter((word) => !byName.has(word.replace(/^hop:/, ''))),
        one.drops.length > 0 && plural(one.drops.length, 'drop', 'drops')].filter(Boolean).join(', ');
    return h('g', { key: one.name, class: 'segment' }, h('title', '', one.drops.length ? 'drops: ' + one.drops.join(', ') : one.name),
        h('rect', { x, y, width: BOX.width, height: BOX.height, rx: 6 }),
        h('text', { x: x + 8, y: y + 15 }, one.name), h('text', { class: 'ends', x: x + 8, y: y + 29 }, ends));
}

export function graph(program) {
    const segments = list(program.segments).map(segmentOf), byName = place(segments);
    const size = (i) => Math.max(0, ...segments.map((one) => one.at[i]));
    const width = size(0) * STEP.x + BOX.width + 2, height = size(1) * STEP.y + BOX.height + 2;
    return h('svg', { class: 'graph', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
        'aria-label': `${segments.length} segments of ${text(program.name)}` },
        ...segments.flatMap((one) => one.to.filter(({ name }) => byName.has(name) && name !== one.name)
            .map(({ name, hop }) => line(one, byName.get(name), hop))),
        ...segments.map((one) => box(one, byName)));
}
