// SPDX-License-Identifier: BSD-3-Clause
// Values in words. A missing or absurd value from the switch becomes null here and a dash on the
// screen, never an exception.

export const number = (value) =>
    typeof value === 'number' && Number.isFinite(value) ? value : null;
export const text = (value) => value === null || value === undefined ? '' : String(value);
export const list = (value) => Array.isArray(value) ?
    value.filter((one) => one !== null && typeof one === 'object') : [];
export const record = (value) =>
    value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};

const NONE = '–';
const SPACE = '\u00a0';

// Three digits that count, and the prefix that goes with them: 12345678, 'bit/s' → "12.3 Mbit/s".
export function scaled(value, unit, base = 1000, prefixes = ['', 'k', 'M', 'G', 'T', 'P']) {
    if (number(value) === null) return NONE;
    let size = Math.abs(value), at = 0;
    while (size >= base - 0.5 && at < prefixes.length - 1) {
        size /= base;
        at++;
    }
    const digits = at === 0 && Number.isInteger(size) ? 0 : size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    const tail = prefixes[at] + unit; // "12 k/s", but "12/s"
    return (value < 0 ? '−' : '') + size.toFixed(digits) + (/^[a-zA-Z]/.test(tail) ? SPACE : '') + tail;
}

export const bits = (value) => scaled(value, 'bit/s');
export const perSecond = (value) => scaled(value, '/s');
export const bytes = (value) => scaled(value, 'B', 1024, ['', 'Ki', 'Mi', 'Gi', 'Ti']);

// 1234567 → "1 234 567": whole numbers to compare digit by digit.
export function whole(value) {
    if (number(value) === null) return NONE;
    return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

// A duration in at most two units: 50 ms, 1.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h.
export function age(seconds) {
    const value = number(seconds);
    if (value === null) return NONE;
    if (Number.isInteger(value) && value >= 0 && value < 60) return value + SPACE + 's';
    if (value < 0.9995) return Math.round(Math.max(value, 0) * 1000) + SPACE + 'ms';
    if (value < 9.95) return value.toFixed(1) + SPACE + 's';
    const s = Math.round(value);
    const [size, unit, part, partUnit] = [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's'],
        [0, 's']].find(([least]) => s >= least);
    const parts = size ? Math.floor(s % size / part) : 0;
    return Math.floor(s / (size || 1)) + SPACE + unit + (parts ? ' ' + parts + SPACE + partUnit : '');
}

// A short time in three digits: 412 µs, 1.23 ms, 2.5 s.
export const latency = (seconds) => number(seconds) === null ? NONE :
    seconds < 1e-3 ? scaled(Math.round(seconds * 1e6), 'µs').replace(/(\d)µ/, '$1' + SPACE + 'µ') :
        seconds < 1 ? (seconds * 1e3).toPrecision(3) + SPACE + 'ms' : age(seconds);

export const ago = (seconds) => number(seconds) === null ? 'never' : age(seconds) + ' ago';

export const percent = (share) =>
    number(share) === null ? NONE : Math.round(share * 100) + SPACE + '%';

export const plural = (count, one, many) => whole(count) + SPACE + (count === 1 ? one : many);
