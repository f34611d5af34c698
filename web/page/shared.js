// SPDX-License-Identifier: GPL-2.0
// shared.js: what all panels use: figures for people, nodes of the document, tables whose rows stay. What comes from
// the daemon holds names that users chose: it gets into the page as text only, never as markup.

export const POINTS = 180; // of a chart; the daemon keeps as many
export const STEP_MS = 5000;
export const AGES = ["15 min", "10", "5", "now"]; // below a chart, at its thirds
export const FLOWS = 100; // rows of file I/O
export const IDLE_S = 60; // a job's GPU that it has not used for so long is marked
export const RETRY_MAX_S = 10;
export const ANSWER_MS = 10000; // for /history, and for the WebSocket to open
export const SVG = "http://www.w3.org/2000/svg";
export const NONE = "–";

export const $ = (id) => document.getElementById(id);

// ---- figures for people ----

function digits(v) {
	return v.toFixed(v >= 99.95 || v === 0 ? 0 : v >= 9.995 ? 1 : 2);
}

function scaled(v, base, units) {
	let i = 0;
	for (; i < units.length - 1 && v >= base - 0.5; i++)
		v /= base;
	return (i === 0 && Number.isInteger(v) ? String(v) : digits(v)) + units[i];
}

export function bytes(v) {
	return v == null ? NONE : scaled(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
}

export function count(v) {
	return v == null ? NONE : scaled(v, 1000, ["", "k", "M", "G", "T"]);
}

export function duration(us) {
	if (!us)
		return NONE;
	return us >= 60e6 ? span(us / 1e6) : scaled(us, 1000, [" µs", " ms", " s"]);
}

export function span(s) {
	const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
	const whole = Math.max(0, Math.floor(s));
	const first = Math.max(0, units.findIndex(([size]) => whole >= size));
	const at = whole ? first : 3;
	const part = (i, of) => `${Math.floor(of / units[i][0])} ${units[i][1]}`;
	const rest = whole % units[at][0];
	return part(at, whole) + (at < 3 && rest >= units[at + 1][0] ? ` ${part(at + 1, rest)}` : "");
}

export function percent(ratio) {
	return `${digits(100 * ratio)} %`;
}

export function clock(ms) {
	return new Date(ms).toLocaleTimeString("en-GB");
}

export const exact = (v) => (v == null ? "" : v.toLocaleString("en-US"));

// The unit of a figure that this page knows nothing else about is the end of its name.
const byName = [
	[/_?bytes$/, bytes],
	[/_?ratio$/, percent],
	[/_ns$/, (v) => duration(v / 1e3)],
	[/_us$/, duration],
	[/(start_time|since|end)_ms$/, clock],
	[/_ms$/, (v) => duration(v * 1e3)],
	[/_(s|seconds)$/, (v) => duration(v * 1e6)],
	[/rate$/, (v) => `${count(v)}/s`],
];

function figure(name, v) {
	if (v == null || v === "")
		return NONE;
	if (typeof v !== "number")
		return String(v);
	const known = byName.find(([end]) => end.test(name));
	return known ? known[1](v) : Number.isInteger(v) ? exact(v) : count(v);
}

export function label(name) {
	return name.replace(/_(bytes|ratio|ns|us|ms|s|seconds)$/, "").replaceAll("_", " ");
}

// Pairs of label and figure of whatever an object holds.
export function flat(of, before = "") {
	return Object.entries(of).flatMap(([name, v]) =>
		v && typeof v === "object" ? flat(v, `${before}${label(name)} `) : [[before + label(name), figure(name, v)]]);
}

// ---- the document ----

export function make(tag, className = "", text = "") {
	const node = document.createElement(tag);
	if (className)
		node.className = className;
	if (text)
		node.textContent = text;
	return node;
}

export function inside(parent, ...children) {
	parent.append(...children);
	return parent;
}

// What has not changed is not touched, or a screen reader would say it again.
export function say(node, text) {
	if (node.textContent !== text)
		node.textContent = text;
}

export function mark(node, name, value) {
	if (node.getAttribute(name) !== value)
		node.setAttribute(name, value);
}

export function show(node, on) {
	if (node.hidden === on)
		node.hidden = !on;
}

// One row of nodes for each item, kept as long as its key is there. build() returns {node, update(item)}.
export class Rows {
	constructor(parent, build) {
		this.parent = parent;
		this.build = build;
		this.rows = new Map();
	}

	show(items, keyOf) {
		const before = this.rows;
		this.rows = new Map();
		for (const item of items) {
			let key = keyOf(item);
			for (let n = 2; this.rows.has(key); n++)
				key = `${keyOf(item)}/${n}`;
			this.rows.set(key, before.get(key) || this.build(item));
			before.delete(key);
		}
		for (const row of before.values())
			drop(row.node);
		this.place(items);
	}

	place(items) {
		const first = this.first || null; // what stands before the rows
		let at = first ? first.nextElementSibling : this.parent.firstElementChild;
		let i = 0;
		for (const row of this.rows.values()) {
			if (row.node === at)
				at = at.nextElementSibling;
			else
				this.parent.insertBefore(row.node, at);
			row.update(items[i++]);
		}
	}
}

// Rows change places every five seconds at most, and not while somebody is in them: else nobody could read them.
export class Order {
	constructor(row, keyOf) { // row: a selector
		Object.assign(this, {row, keyOf, at: 0, places: new Map()});
	}

	of(items, compare) {
		const busy = document.activeElement && document.activeElement.closest(this.row);
		if (!this.at || (!busy && performance.now() - this.at > STEP_MS)) {
			this.at = performance.now();
			this.places = new Map([...items].sort(compare).map((item, i) => [this.keyOf(item), i]));
		}
		const place = (item) => this.places.get(this.keyOf(item)) ?? this.places.size;
		return [...items].sort((a, b) => place(a) - place(b));
	}
}

// Columns of a table: {name, text(item), number, title}. The cells of one row, and what fills them.
export function cells(columns, node) {
	const all = columns.map((c) => make("td", c.number ? "number" : ""));
	inside(node, ...all);
	return (item) => columns.forEach((c, i) => c.text && say(all[i], c.text(item)));
}

export function titles(table, columns) {
	table.tHead.rows[0].append(...columns.map((c) => {
		const node = make("th", c.number ? "number" : "", c.name);
		node.title = c.title || "";
		return node;
	}));
}

// A list of terms and what they are.
export function pairsList(parent) {
	let shown = [];
	return (pairs) => {
		if (shown.length !== pairs.length)
			parent.replaceChildren(...pairs.flatMap(() => [make("dt"), make("dd")]));
		pairs.forEach(([term, text], i) => {
			say(parent.children[2 * i], term);
			say(parent.children[2 * i + 1], text);
		});
		shown = pairs;
	};
}


export const watcher = new IntersectionObserver((entries) => {
	for (const entry of entries) {
		entry.target.chart.visible = entry.isIntersecting;
		entry.target.chart.draw();
	}
}, {rootMargin: "200px"});

// Takes a node out, and its charts from what is watched.
export function drop(node) {
	for (const svg of node.querySelectorAll("svg.chart"))
		watcher.unobserve(svg);
	node.remove();
}
