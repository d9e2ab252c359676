// SPDX-License-Identifier: BSD-3-Clause
// Line charts of the last five minutes: one SVG each, all with the same time axis and one cursor.
// A series is an array with a value a second, the newest last; null where nothing is known.
import { attribute, h, set } from './dom.js';
import { age } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';
const SECONDS = 300;
const HEIGHT = 100;

const charts = new Set();
let cursor = null; // seconds ago, or null: one for all charts, so that moments can be compared

function point(to) {
    cursor = to === null ? null : Math.min(Math.max(Math.round(to), 0), SECONDS - 1);
    for (const chart of charts) chart.mark();
}

// The smallest of 1, 2, 5, 10, ... that `value` fits under: axes that don't twitch each second.
export function ceiling(value) {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

export const highest = (series) => series.reduce((most, value) => Math.max(most, value || 0), 0);

// The path of a series; `closed` down to the ground line, for an area.
function path(series, top, closed) {
    const from = SECONDS - series.length;
    let d = '', open = -1;
    const end = (last) => closed && open >= 0 ? `L${last} ${HEIGHT}L${open} ${HEIGHT}Z` : '';
    for (let i = 0; i < series.length; i++) {
        const x = from + i;
        if (series[i] === null || series[i] === undefined) {
            d += end(x - 1);
            open = -1;
            continue;
        }
        const y = HEIGHT - Math.min(series[i] / top, 1) * (HEIGHT - 2);
        d += (open < 0 ? 'M' : 'L') + x + ' ' + y.toFixed(1);
        if (open < 0) open = x;
    }
    return d + end(SECONDS - 1);
}

export class Chart {
    // `what` names the chart for screen readers; `lines` are [{name, area}], drawn as areas or as
    // lines: colour alone does not tell them apart. `unit` puts a value into words.
    constructor(what, lines, unit) {
        this.what = what;
        this.lines = lines;
        this.unit = unit;
        this.series = lines.map(() => []);
        this.node = h('div', 'chart');
        this.node.tabIndex = 0;
        this.node.setAttribute('role', 'img');
        this.top = this.add('span', 'top');
        set(this.add('span', 'zero'), '0');
        for (const minute of [5, 3, 1, 0])
            set(this.add('span', 'time time-' + minute), minute ? `−${minute}\u00a0min` : 'now');
        this.reading = this.add('span', 'reading');
        this.draw = this.drawing();
        this.node.addEventListener('pointermove', (event) => this.follow(event));
        this.node.addEventListener('pointerdown', (event) => this.follow(event));
        this.node.addEventListener('pointerleave', () => point(null));
        this.node.addEventListener('keydown', (event) => this.step(event));
        this.node.addEventListener('blur', () => point(null));
        charts.add(this);
    }

    add(tag, name) {
        const child = h(tag, name);
        this.node.append(child);
        return child;
    }

    drawing() {
        const svg = document.createElementNS(SVG, 'svg');
        svg.setAttribute('viewBox', `0 0 ${SECONDS - 1} ${HEIGHT}`);
        svg.setAttribute('preserveAspectRatio', 'none');
        svg.setAttribute('aria-hidden', 'true');
        const part = (tag, name, attributes) => {
            const child = document.createElementNS(SVG, tag);
            child.setAttribute('class', name);
            for (const [key, value] of Object.entries(attributes || {})) child.setAttribute(key, value);
            svg.append(child);
            return child;
        };
        for (let minute = 1; minute < 5; minute++) {
            const x = SECONDS - 1 - 60 * minute;
            part('path', 'grid', { d: `M${x} 0V${HEIGHT}` });
        }
        part('path', 'ground', { d: `M0 ${HEIGHT}H${SECONDS}` });
        this.paths = this.lines.map((line, i) =>
            part('path', (line.area ? 'area' : 'line') + ' line-' + i));
        this.cursor = part('path', 'cursor');
        this.node.append(svg);
        return svg;
    }

    // Show these series, with `top` the value at the upper edge.
    show(series, top) {
        this.series = series.map((one) => one.slice(-SECONDS));
        this.top.textContent = this.unit(top);
        this.series.forEach((one, i) =>
            this.paths[i].setAttribute('d', path(one, top, this.lines[i].area)));
        this.mark();
        const words = this.lines.map((line, i) =>
            `${line.name} ${this.unit(this.at(i, 0))}, highest ${this.unit(highest(this.series[i]))}`);
        attribute(this.node, 'aria-label', `${this.what}, last five minutes: ${words.join('; ')}`);
    }

    at(line, ago) {
        const value = this.series[line][this.series[line].length - 1 - ago];
        return value === undefined ? null : value;
    }

    mark() {
        this.cursor.setAttribute('d', cursor === null ? '' : `M${SECONDS - 1 - cursor} 0V${HEIGHT}`);
        this.reading.textContent = cursor === null ? '' : age(cursor) + ' ago: ' +
            this.lines.map((line, i) => line.name + ' ' + this.unit(this.at(i, cursor))).join(', ');
    }

    follow(event) {
        const box = this.draw.getBoundingClientRect();
        point((1 - (event.clientX - box.left) / box.width) * (SECONDS - 1));
    }

    step(event) {
        const steps = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30 };
        if (event.key === 'Escape') point(null);
        else if (event.key === 'Home') point(SECONDS - 1);
        else if (event.key === 'End') point(0);
        else if (steps[event.key]) point((cursor || 0) + steps[event.key]);
        else return;
        event.preventDefault();
    }

    remove() {
        charts.delete(this);
        this.node.remove();
    }
}
