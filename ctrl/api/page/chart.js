// SPDX-License-Identifier: BSD-3-Clause
// Line charts of the last five minutes: one SVG each, all with the same time axis and one cursor.
// A series is an array with a value a second, the newest last; null where nothing is known.
import { h } from './dom.js';
import { age } from './words.js';

const SECONDS = 300;
const HEIGHT = 100;
const STEPS = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30, Home: SECONDS, End: -SECONDS };
let cursor = null; // seconds ago, or null: one for all charts, so that moments can be compared

// The smallest of 1, 2, 5, 10, ... that `value` fits under: axes that don't twitch each second.
export function ceiling(value) {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

export const highest = (series) => series.reduce((most, value) => Math.max(most, value || 0), 0);

// The path of a series; `closed` down to the ground line, for an area.
function path(series, top, closed) {
    let d = '', open = -1;
    const end = (last) => closed && open >= 0 ? `L${last} ${HEIGHT}L${open} ${HEIGHT}Z` : '';
    series.forEach((value, i) => {
        const x = SECONDS - series.length + i;
        if (value === null) {
            d += end(x - 1);
            open = -1;
            return;
        }
        const y = HEIGHT - Math.min(value / top, 1) * (HEIGHT - 2);
        d += (open < 0 ? 'M' : 'L') + x + ' ' + y.toFixed(1);
        if (open < 0) open = x;
    });
    return d + end(SECONDS - 1);
}

// `what` names the chart for screen readers; `lines` are {name: series}, of which the first is drawn
// as an area: colour alone does not tell them apart. `unit` puts a value into words, `top` is the
// value at the upper edge, and `changed` is called when the cursor moves.
export function chart(what, lines, unit, top, changed, kind = '') {
    const names = Object.keys(lines), all = Object.values(lines);
    const at = (ago) => names.map((name, i) => `${name} ${unit(all[i][all[i].length - 1 - ago] ?? null)}`);
    const point = (to) => {
        cursor = to === null ? null : Math.min(Math.max(Math.round(to), 0), SECONDS - 1);
        changed();
    };
    const follow = (event) => {
        const box = event.currentTarget.querySelector('svg').getBoundingClientRect();
        point((1 - (event.clientX - box.left) / box.width) * (SECONDS - 1));
    };
    const step = (event) => {
        if (event.key !== 'Escape' && !STEPS[event.key]) return;
        point(event.key === 'Escape' ? null : (cursor || 0) + STEPS[event.key]);
        event.preventDefault();
    };
    return h('div', { class: ('chart ' + kind).trim(), role: 'img', tabindex: kind ? -1 : 0,
        pointermove: follow, pointerdown: follow, pointerleave: () => point(null), keydown: step,
        blur: () => point(null), 'aria-label': `${what}, last five minutes: ` +
            at(0).map((now, i) => `${now}, highest ${unit(highest(all[i]))}`).join('; ') },
        h('span', 'top', unit(top)), h('span', 'zero', '0'),
        [5, 3, 1, 0].map((minute) => h('span', { class: 'time', share: 1 - minute / 5 }, minute ? `−${minute}\u00a0min` : 'now')),
        h('span', 'reading', cursor === null ? '' : age(cursor) + ' ago: ' + at(cursor).join(', ')),
        h('svg', { viewBox: `0 0 ${SECONDS - 1} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
            h('path', { class: 'grid', d: [1, 2, 3, 4].map((m) => `M${SECONDS - 1 - 60 * m} 0V${HEIGHT}`).join('') }),
            h('path', { class: 'ground', d: `M0 ${HEIGHT}H${SECONDS}` }),
            all.map((one, i) => h('path', { class: (i ? 'line' : 'area') + ' line-' + i, d: path(one, top, !i) })),
            h('path', { class: 'cursor', d: cursor === null ? '' : `M${SECONDS - 1 - cursor} 0V${HEIGHT}` })));
}
