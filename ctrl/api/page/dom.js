// SPDX-License-Identifier: BSD-3-Clause
// Nodes of the page. Text goes in as text only: there is no way here to write markup.

export const byId = (id) => document.getElementById(id);

// Control characters and those that turn the direction of writing would change how the words beside
// a name are read; they are shown as a sign of their own.
export const clean = (words) => words.replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, '\ufffd');

// A new node with a class and children: nodes, or what is shown as text.
export function h(tag, name, ...children) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.append(...children.map((one) => typeof one === 'string' ? clean(one) : one));
    return node;
}

// Written only when it changes, so that a selection in it stays.
export function set(node, words) {
    const content = clean(words);
    if (node.textContent !== content) node.textContent = content;
}

export function attribute(node, name, value) {
    const content = clean(value);
    if (node.getAttribute(name) !== content) node.setAttribute(name, content);
}

export function reveal(node, visible) {
    if (node.hidden === visible) node.hidden = !visible;
}

const kept = new WeakMap(); // parent → Map of key → view

// Make the children of `parent` those of `items`, in that order. A view is made once for each key,
// and kept while the key is there: focus and open details survive. make(item) returns a view with
// `node`, update(item) and perhaps a `chart`.
export function sync(parent, items, keyOf, make) {
    const old = kept.get(parent) || new Map();
    const views = new Map();
    let place = parent.firstChild;
    for (const item of items) {
        const key = keyOf(item);
        if (views.has(key)) continue;
        const view = old.get(key) || make(item);
        views.set(key, view);
        old.delete(key);
        if (view.node === place) place = place.nextSibling;
        else parent.insertBefore(view.node, place);
        view.update(item);
    }
    for (const view of old.values()) {
        if (view.chart) view.chart.remove();
        view.node.remove();
    }
    kept.set(parent, views);
}

// A bar that is filled by a share, in [0, 1].
export class Meter {
    constructor() {
        this.fill = h('span', 'fill');
        this.node = h('span', 'meter', this.fill);
        this.node.setAttribute('aria-hidden', 'true'); // its number stands beside it
    }

    update(share, full) {
        const width = Math.min(Math.max(share || 0, 0), 1) * 100;
        this.fill.style.width = width.toFixed(1) + '%';
        this.node.classList.toggle('full', Boolean(full));
    }
}

// A name and its value in words, for a <dl>; perhaps with a meter.
export class Figure {
    constructor({ name, meter, title }) {
        this.value = h('dd');
        this.meter = meter ? new Meter() : null;
        this.node = h('div', 'figure', h('dt', '', name), this.value);
        if (meter) this.node.append(this.meter.node);
        if (title) this.node.title = title;
    }

    update({ words, share, full, warn }) {
        set(this.value, words);
        this.node.classList.toggle('warn', Boolean(warn));
        if (this.meter) this.meter.update(share, full);
    }
}
