// SPDX-License-Identifier: BSD-3-Clause
// What this page has seen itself, a value a second: for what the switch keeps no history of, and
// for rates of what it only counts.
import { SECONDS } from './chart.js';
import { number } from './words.js';

export class Series {
    constructor() {
        this.all = new Map(); // name → {values, at: the last value's second}
        this.counters = new Map(); // name → {value, time}
    }

    // A value of now. Seconds that were missed become gaps. `time` in seconds, never going back.
    put(name, value, time) {
        const second = Math.round(time);
        let one = this.all.get(name);
        if (!one) this.all.set(name, one = { values: [], at: second - 1 });
        if (second <= one.at) {
            one.values[one.values.length - 1] = value;
            return;
        }
        // What is asked for each few seconds is no gap: the value stands for the time since the last.
        const missed = Math.min(second - one.at - 1, SECONDS);
        for (let i = 0; i < missed; i++) one.values.push(missed < 6 ? value : null);
        one.values.push(value);
        one.values.splice(0, one.values.length - SECONDS);
        one.at = second;
    }

    // A counter of now: its rate is put. A counter that went back, or is new, has no rate.
    count(name, value, time) {
        const last = this.counters.get(name);
        const counter = number(value);
        if (counter === null) return;
        if (last && time - last.time < 0.2) return;
        this.counters.set(name, { value: counter, time });
        const rate = last && counter >= last.value ? (counter - last.value) / (time - last.time) : null;
        this.put(name, rate, time);
    }

    get(name) {
        return (this.all.get(name) || { values: [] }).values;
    }

    now(name) {
        const values = this.get(name);
        return values.length ? values[values.length - 1] : null;
    }

    // The mean of what one counter sums and the other counts, in the last second; null: none.
    ratio(sum, count) {
        const events = this.now(count), total = this.now(sum);
        return events > 0 && total !== null ? total / events : null;
    }

    // What has not been put for five minutes is forgotten.
    forget(time) {
        for (const [name, one] of this.all) {
            if (time - one.at > SECONDS) {
                this.all.delete(name);
                this.counters.delete(name);
            }
        }
    }
}
