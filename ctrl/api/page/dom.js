// SPDX-License-Identifier: BSD-3-Clause
// Nodes of the page, described, and brought onto the screen. Text goes in as text only: there is no
// way here to write markup.

// Control characters and those that turn the direction of writing would change how the words beside
// a name are read; they are shown as a sign of their own.
export const clean = (words) => words.replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, '\ufffd');

// A node as it should be. set: its class, or its attributes; of these a function handles an event,
// `share` in [0, 1] is for the style sheet, and `key` tells the node from others in a list, which has
// a parent of its own. inside: nodes and texts; a place that is empty stays a place.
export const h = (tag, set, ...inside) =>
    ({ tag, set: typeof set === 'string' ? { class: set } : set, inside: inside.flat() });

const SVG = 'http://www.w3.org/2000/svg';
const kept = new WeakMap(); // node → Map of key → child

function dress(node, set) {
    for (const [name, value] of Object.entries(set)) {
        const words = value === true ? '' : clean(String(value));
        if (name === 'key') continue;
        if (typeof value === 'function') node['on' + name] = value;
        else if (name === 'share')
            node.style.setProperty('--share', Math.min(Math.max(value || 0, 0), 1).toFixed(3));
        else if (value === '' || value === false) node.removeAttribute(name);
        else if (node.getAttribute(name) !== words) node.setAttribute(name, words);
    }
}

// Make the children of a node these. What is as it should be is not touched, so focus and selections
// stay.
export function fill(parent, inside) {
    const old = kept.get(parent) || new Map(), now = new Map();
    inside.forEach((one, i) => {
        const key = one && ((one.set && one.set.key) ?? i + (one.tag || ''));
        if (one && !now.has(key)) now.set(key, one);
    });
    for (const [key, node] of old) {
        if (!now.has(key)) node.remove();
    }
    let place = parent.firstChild;
    for (const [key, one] of now) {
        const { tag, set } = one;
        const node = old.get(key) || (!tag ? document.createTextNode('') :
            /^(svg|path|g|rect|text|title)$/.test(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag));
        if (node === place) place = place.nextSibling;
        else parent.insertBefore(node, place);
        if (tag) {
            dress(node, set);
            fill(node, one.inside);
        } else if (node.data !== clean(one)) node.data = clean(one);
        now.set(key, node);
    }
    kept.set(parent, now);
}
