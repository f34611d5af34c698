// SPDX-License-Identifier: GPL-2.0
// page.js: the node in a browser, from the same snapshots that every WebSocket client gets. What comes from the daemon
// holds names that users chose: it gets into the page as text only, never as markup.
"use strict";

const POINTS = 180; // of a chart; the daemon keeps as many
const STEP_MS = 5000;
const FLOWS = 100; // rows of file I/O
const IDLE_S = 60; // a job's GPU that it has not used for so long is marked
const RETRY_MAX_S = 10;
const ANSWER_MS = 10000; // for /history, and for the WebSocket to open
const SVG = "http://www.w3.org/2000/svg";
const NONE = "–";

const $ = (id) => document.getElementById(id);

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

function bytes(v) {
	return v == null ? NONE : scaled(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
}

function count(v) {
	return v == null ? NONE : scaled(v, 1000, ["", "k", "M", "G", "T"]);
}

function duration(us) {
	if (!us)
		return NONE;
	return us >= 60e6 ? span(us / 1e6) : scaled(us, 1000, [" µs", " ms", " s"]);
}

function span(s) {
	const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
	const whole = Math.max(0, Math.floor(s));
	const first = Math.max(0, units.findIndex(([size]) => whole >= size));
	const at = whole ? first : 3;
	const part = (i, of) => `${Math.floor(of / units[i][0])} ${units[i][1]}`;
	const rest = whole % units[at][0];
	return part(at, whole) + (at < 3 && rest >= units[at + 1][0] ? ` ${part(at + 1, rest)}` : "");
}

function percent(ratio) {
	return `${digits(100 * ratio)} %`;
}

function clock(ms) {
	return new Date(ms).toLocaleTimeString("en-GB");
}

const exact = (v) => (v == null ? "" : v.toLocaleString("en-US"));

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

function label(name) {
	return name.replace(/_(bytes|ratio|ns|us|ms|s|seconds)$/, "").replaceAll("_", " ");
}

// Pairs of label and figure of whatever an object holds.
function flat(of, before = "") {
	return Object.entries(of).flatMap(([name, v]) =>
		v && typeof v === "object" ? flat(v, `${before}${label(name)} `) : [[before + label(name), figure(name, v)]]);
}

// ---- the document ----

function make(tag, className = "", text = "") {
	const node = document.createElement(tag);
	if (className)
		node.className = className;
	if (text)
		node.textContent = text;
	return node;
}

function inside(parent, ...children) {
	parent.append(...children);
	return parent;
}

// What has not changed is not touched, or a screen reader would say it again.
function say(node, text) {
	if (node.textContent !== text)
		node.textContent = text;
}

function mark(node, name, value) {
	if (node.getAttribute(name) !== value)
		node.setAttribute(name, value);
}

function show(node, on) {
	if (node.hidden === on)
		node.hidden = !on;
}

// One row of nodes for each item, kept as long as its key is there. build() returns {node, update(item)}.
class Rows {
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
class Order {
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
function cells(columns, node) {
	const all = columns.map((c) => make("td", c.number ? "number" : ""));
	inside(node, ...all);
	return (item) => columns.forEach((c, i) => c.text && say(all[i], c.text(item)));
}

function titles(table, columns) {
	table.tHead.rows[0].append(...columns.map((c) => {
		const node = make("th", c.number ? "number" : "", c.name);
		node.title = c.title || "";
		return node;
	}));
}

// A list of terms and what they are.
function pairsList(parent) {
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

// ---- charts: lines over the last 15 minutes ----

const watcher = new IntersectionObserver((entries) => {
	for (const entry of entries) {
		entry.target.chart.visible = entry.isIntersecting;
		entry.target.chart.draw();
	}
}, {rootMargin: "200px"});

// Takes a node out, and its charts from what is watched.
function drop(node) {
	for (const svg of node.querySelectorAll("svg.chart"))
		watcher.unobserve(svg);
	node.remove();
}

function shape(tag, className, parent) {
	const node = document.createElementNS(SVG, tag);
	node.setAttribute("class", className);
	parent.append(node);
	return node;
}

// The runs of points that follow each other: [[index, value], ...] each.
function runs(values) {
	const all = [];
	let run = null;
	values.forEach((v, i) => {
		if (v == null) {
			run = null;
			return;
		}
		if (!run)
			all.push(run = []);
		run.push([i, v]);
	});
	return all;
}

function outline(values, top) {
	const y = (v) => (100 - 100 * Math.min(v / top, 1)).toFixed(1);
	const all = runs(values);
	const lines = all.map((run) => "M" + run.map(([i, v]) => `${i} ${y(v)}`).join("L") + "h0");
	const areas = all.map((run) => `M${run[0][0]} 100L${run.map(([i, v]) => `${i} ${y(v)}`).join("L")}V100Z`);
	return {line: lines.join(""), area: areas.join("")};
}

// The next of 1, 2, 2.5, 5, 10, ... so that an axis ends with a number that is easily read.
function above(v) {
	const size = 10 ** Math.floor(Math.log10(v || 1));
	return size * [1, 2, 2.5, 5, 10].find((n) => n * size >= v * 0.9999);
}

function largest(series) {
	return series.reduce((most, values) => values.reduce((m, v) => Math.max(m, v || 0), most), 0);
}

class Chart {
	// lines: their names, for those who do not see them; text: how a figure is written
	constructor(name, lines, text) {
		Object.assign(this, {name, lines, text, visible: false, drawn: true, series: lines.map(() => [])});
		this.node = document.createElementNS(SVG, "svg");
		this.node.chart = this;
		for (const [key, value] of Object.entries({class: "chart", role: "img", viewBox: `-1 -4 ${POINTS + 1} 106`,
			preserveAspectRatio: "none"}))
			this.node.setAttribute(key, value);
		this.area = lines.length === 1 ? shape("path", "area", this.node) : null;
		this.paths = lines.map((_, i) => shape("path", i ? "second" : "first", this.node));
		this.describe();
		watcher.observe(this.node);
	}

	// top: the upper end of the scale; 0: what the points need
	set(series, top) {
		this.series = series;
		this.top = top || above(largest(series));
		this.drawn = false;
		this.draw();
	}

	draw() {
		if (this.drawn || !this.visible || document.hidden)
			return;
		this.drawn = true;
		this.series.forEach((values, i) => {
			const {line, area} = outline(values, this.top);
			this.paths[i].setAttribute("d", line);
			if (this.area)
				this.area.setAttribute("d", area);
		});
		this.describe();
	}

	describe() {
		const parts = this.series.map((values, i) => {
			const known = values.filter((v) => v != null);
			const range = known.length ? `latest ${this.text(known[known.length - 1])}, lowest ` +
				`${this.text(Math.min(...known))}, highest ${this.text(Math.max(...known))}` : "nothing yet";
			return this.lines[i] ? `${this.lines[i]}: ${range}` : range;
		});
		mark(this.node, "aria-label", `${this.name}, last 15 minutes: ${parts.join("; ")}`);
	}
}

// A chart with axes, and with the figures under the pointer.
class Plot {
	constructor(name, lines, text) {
		this.chart = new Chart(name, lines, text);
		this.text = text;
		this.node = make("figure");
		const caption = inside(make("figcaption"), make("span", "", name));
		lines.forEach((line, i) => line && caption.append(make("span", `key ${i ? "second" : "first"}`, line)));
		this.read = make("span", "read");
		caption.append(this.read);
		this.y = inside(make("div", "axis y"), make("span"), make("span"), make("span", "", "0"));
		const x = inside(make("div", "axis x"), ...["15 min ago", "10 min", "5 min", "now"].map((t) => make("span", "", t)));
		mark(this.y, "aria-hidden", "true");
		mark(x, "aria-hidden", "true");
		inside(this.node, caption, inside(make("div", "plot"), this.y, this.chart.node, x));
		this.lines();
		this.point();
	}

	lines() {
		const line = (className, x1, x2, y1, y2) => {
			const node = shape("line", className, this.chart.node);
			Object.entries({x1, x2, y1, y2}).forEach(([key, v]) => node.setAttribute(key, v));
			return node;
		};
		for (const y of [0, 50])
			this.chart.node.prepend(line("grid", 0, POINTS - 1, y, y));
		this.cursor = line("cursor", 0, 0, 0, 100);
	}

	point() {
		const svg = this.chart.node;
		svg.addEventListener("pointermove", (e) => {
			const box = svg.getBoundingClientRect();
			const i = Math.round((e.clientX - box.left) / box.width * (POINTS + 1) - 1);
			const at = Math.min(POINTS - 1, Math.max(0, i));
			const ago = (POINTS - 1 - at) * STEP_MS / 1000;
			const values = this.chart.series.map((s) => s[at] == null ? NONE : this.text(s[at])).join("  ");
			say(this.read, `${ago ? `${span(ago)} ago` : "now"}: ${values}`);
			for (const x of ["x1", "x2"])
				this.cursor.setAttribute(x, at);
			this.cursor.style.visibility = "visible";
		});
		svg.addEventListener("pointerleave", () => {
			this.rest();
			this.cursor.style.visibility = "hidden";
		});
	}

	rest() {
		say(this.read, this.empty ? "no point yet" : "");
	}

	set(series) {
		const before = this.empty;
		this.empty = !series.some((values) => values.some((v) => v != null));
		this.chart.set(series, 0);
		say(this.y.children[0], this.empty ? "" : this.text(this.chart.top));
		say(this.y.children[1], this.empty ? "" : this.text(this.chart.top / 2));
		if (before !== this.empty)
			this.rest();
	}
}

// ---- the last 15 minutes: from /history, then a point for each step that the snapshots tell of ----

const past = {processes: new Map(), gpus: new Map(), end_ms: 0, steps: null, fresh: true, sampled_at: 0};

const empty = () => new Array(POINTS).fill(null);

function lastPoints(values) {
	const kept = (values || []).slice(-POINTS);
	return [...new Array(POINTS - kept.length).fill(null), ...kept];
}

function takeHistory(h) {
	const lines = (p) => ({rate: lastPoints(p.rate), p50_us: lastPoints(p.p50_us), p99_us: lastPoints(p.p99_us)});
	past.processes = new Map((h.processes || []).map((p) => [p.pid, lines(p)]));
	past.gpus = new Map((h.gpus || []).map((g) => [g.gpu_id, {used_bytes: lastPoints(g.used_bytes)}]));
	past.end_ms = h.end_ms || 0;
	past.steps = null;
	past.fresh = true;
}

// Steps that went by since the last snapshot. Without any word of them from the daemon, its clock tells.
function newSteps(s) {
	const told = s.history && s.history.steps;
	if (told == null || past.steps == null) {
		past.steps = told ?? null;
		const n = past.end_ms ? Math.floor((s.last_update_ms - past.end_ms) / STEP_MS) : told == null ? 1 : 0;
		return Math.min(POINTS, Math.max(0, n));
	}
	const n = told - past.steps;
	past.steps = told;
	return n < 0 ? POINTS : Math.min(POINTS, n);
}

function append(store, items, key, point) {
	for (const item of items)
		if (!store.has(item[key]))
			store.set(item[key], Object.fromEntries(Object.keys(point(item)).map((name) => [name, empty()])));
	const now = new Map(items.map((item) => [item[key], point(item)]));
	for (const [id, lines] of store) {
		for (const [name, values] of Object.entries(lines)) {
			values.shift();
			values.push(now.has(id) ? now.get(id)[name] : null);
		}
		if (Object.values(lines).every((values) => values.every((v) => v == null)) && !now.has(id))
			store.delete(id);
	}
}

function recent(p) {
	const l = p.launch;
	const of = l.recent === undefined ? l : l.recent;
	return of ? {rate: of.rate, p50_us: of.p50_us || null, p99_us: of.p99_us || null} :
		{rate: null, p50_us: null, p99_us: null};
}

function remember(s) {
	const steps = newSteps(s);
	for (let i = 1; i <= steps; i++) {
		// of steps that were not told of only the last is known
		append(past.processes, i === steps ? s.processes : [], "pid", recent);
		append(past.gpus, i === steps ? s.gpus : [], "gpu_id", (g) => ({used_bytes: g.used_bytes}));
		past.fresh = true;
	}
	if (steps)
		past.end_ms = past.end_ms && !s.history ? past.end_ms + steps * STEP_MS : s.last_update_ms;
}

// ---- sections ----

const common = ["alert", "severity", "state", "value", "threshold", "since_ms", "summary"];
const labels = (alert) => Object.entries(alert).filter(([name]) => !common.includes(name)); // what it is about
const spoken = {gpu_id: "GPU", pid: "process", job_id: "job", what: "kind"};

const shownAlerts = new Rows($("alerts").querySelector("ul"), () => {
	const node = make("li"), head = make("span"), word = make("span", "word"), what = make("span", "what");
	const more = make("span"), since = make("span", "more");
	inside(node, inside(head, word, " ", what), more, since);
	return {node, update(a) {
		const on = labels(a).map(([name, v]) => `${spoken[name] || label(name)} ${v}`);
		const unit = a.threshold > 0 && a.threshold < 1 ? percent : count;
		mark(node, "class", `${a.state} ${a.severity}`);
		if (a.state === "firing")
			mark(head, "role", "alert");
		else
			head.removeAttribute("role");
		say(word, a.state);
		say(what, `${a.alert}${on.length ? ` on ${on.join(", ")}` : ""}`);
		say(more, `${a.summary}: ${unit(a.value)}, limit ${unit(a.threshold)}`);
		say(since, `since ${clock(a.since_ms)}, ${span((now.last_update_ms - a.since_ms) / 1000)}`);
	}};
});

function alerts(s) {
	const order = [...s.alerts].sort((a, b) => (b.state === "firing") - (a.state === "firing"));
	show($("alerts"), order.length > 0);
	shownAlerts.show(order, (a) => JSON.stringify([a.alert, labels(a)]));
}

const stateOf = (s, name, value) => (s.alerts.find((a) => a[name] === value) || {state: ""}).state;

const shownGlance = new Rows($("glance"), ([name, , , title]) => {
	const node = make("div"), value = make("dd"), text = document.createTextNode(""), small = make("small");
	inside(node, make("dt", "", name), inside(value, text, small));
	node.title = title;
	return {node, update([, figure_, more]) {
		if (text.data !== figure_)
			text.data = figure_;
		say(small, more);
	}};
});

function glance(s) {
	const sum = (items, of) => items.reduce((n, item) => n + (of(item) || 0), 0);
	const used = sum(s.gpus, (g) => g.used_bytes), total = sum(s.gpus, (g) => g.total_bytes);
	const ms = (v) => duration(v * 1000);
	const unseen = s.gpus.filter((g) => g.used_bytes == null).length;
	const of = total ? `of ${bytes(total)}` : "total not known";
	shownGlance.show([
		["GPU memory", unseen ? NONE : bytes(used), unseen ? `${of}, not known on ${unseen}` : total ? `${of}, ${percent(used / total)}` : of,
			"What all processes have reserved on all GPUs"],
		["Processes", String(s.processes.length), `on ${s.gpus.length} GPU${s.gpus.length === 1 ? "" : "s"}`,
			"Processes that use the hooked libraries"],
		["Launches/s", count(sum(s.processes, (p) => p.launch.rate)), "all processes",
			"CUDA kernels and graphs handed to the GPUs"],
		["Launch p50", duration(s.cuda_latency_p50_us), `p99 ${duration(s.cuda_latency_p99_us)}`,
			"Half, and 99 %, of all launch calls took at most this long"],
		["All-reduce p50", ms(s.nccl_allreduce_p50_ms), `p99 ${ms(s.nccl_allreduce_p99_ms)}`,
			"Host time in ncclAllReduce, all processes"],
		["Data loader p50", ms(s.dataloader_wait_p50_ms), "wait for a batch", "Half of the waits took at most this long"],
	], ([name]) => name);
}

// GPUs that a running job keeps from others and does not use.
const idleOf = (job) => (job.state === "running" ? job.gpus.filter((g) => g.quiet_s >= IDLE_S) : []);
const idleOn = (s, id) => s.jobs.filter((job) => idleOf(job).some((g) => g.gpu_id === id)).map((job) => job.job_id);

const shownGpus = new Rows($("gpus").querySelector("ul"), (g) => {
	const node = make("li"), name = make("h3"), users = make("span"), used = make("p", "used");
	const amount = document.createTextNode(""), of = make("small"), unused = make("p", "wrong");
	const meter = make("div", "meter"), fill = make("div", "fill"), peak = make("div", "peak"), highest = make("span");
	const chart = new Chart(`Memory in use on GPU ${g.gpu_id}`, [""], bytes);
	inside(node, inside(make("div", "head"), name, users), inside(used, amount, of), inside(meter, fill, peak), chart.node,
		inside(make("div", "foot"), highest, make("span", "", "15 min")), unused);
	mark(meter, "role", "img");
	return {node, update(gpu) {
		const all = gpu.total_bytes || gpu.peak_bytes || 1;
		say(name, `GPU ${gpu.gpu_id}`);
		mark(name, "title", [gpu.uuid, gpu.pci].filter(Boolean).join(" "));
		const known = gpu.used_bytes != null, size = gpu.total_bytes ? `of ${bytes(gpu.total_bytes)}` : "total not known";
		say(users, known ? `${gpu.processes} process${gpu.processes === 1 ? "" : "es"}` : "used before the daemon came");
		if (amount.data !== `${bytes(gpu.used_bytes)} `)
			amount.data = `${bytes(gpu.used_bytes)} `;
		say(of, !known ? `${size}, use not known` : gpu.total_bytes ? `${size}, ${percent(gpu.used_bytes / all)}` : size);
		mark(used, "title", known ? `${exact(gpu.used_bytes)} bytes` : "A process used this GPU before the daemon came: what it holds is not known.");
		say(highest, `peak ${bytes(gpu.peak_bytes)}`);
		fill.style.width = percent(Math.min(1, gpu.used_bytes / all)).replace(" ", "");
		peak.style.left = percent(Math.min(1, gpu.peak_bytes / all)).replace(" ", "");
		mark(meter, "aria-label", `${known ? `${bytes(gpu.used_bytes)} in use, peak ${bytes(gpu.peak_bytes)}` : "use not known"}, total ` +
			(gpu.total_bytes ? bytes(gpu.total_bytes) : "not known"));
		mark(node, "class", stateOf(now, "gpu_id", gpu.gpu_id));
		const holders = idleOn(now, gpu.gpu_id);
		say(unused, holders.length ? `Not used by its job: ${holders.join(", ")}` : "");
		show(unused, holders.length > 0);
		if (past.fresh)
			chart.set([(past.gpus.get(gpu.gpu_id) || {used_bytes: empty()}).used_bytes], gpu.total_bytes);
	}};
});

function gpus(s) {
	show($("gpus").querySelector(".empty"), !s.gpus.length);
	shownGpus.show(s.gpus, (g) => g.gpu_id);
}

// ---- processes ----

// null: it is not known
const memory = (p) => (p.memory_complete === false ? null : p.gpus.reduce((n, g) => n + g.used_bytes, 0));
const gpuList = (p) => p.gpus.map((g) => g.gpu_id).join(", ") || NONE;

// of: what is sorted by; a chart stands after its column, with the lines of the history that it shows
const columns = [
	{id: "pid", name: "PID", of: (p) => p.pid, text: String, title: "Process"},
	{id: "comm", name: "Command", of: (p) => p.comm, text: String, title: "Its name, as the kernel has it"},
	{id: "job", name: "Job", of: (p) => p.job_id, text: (v) => v || NONE, title: "Job that it belongs to"},
	{id: "gpus", name: "GPU", of: gpuList, text: String, title: "GPUs on which it holds memory"},
	{id: "memory", name: "Memory", of: memory, text: bytes, number: true, title: "GPU memory reserved now"},
	{id: "rate", name: "Launches/s", of: (p) => p.launch.rate || 0, text: count, number: true,
		title: "CUDA launches per second over the last interval", chart: ["rate"]},
	{id: "p50", name: "p50", of: (p) => p.launch.p50_us, text: duration, number: true,
		title: "Half of its launch calls took at most this long"},
	{id: "p99", name: "p99", of: (p) => p.launch.p99_us, text: duration, number: true,
		title: "99 % of its launch calls took at most this long", chart: ["p50_us", "p99_us"]},
];
const charts = {
	rate: ["Launches per second", [""], (v) => `${count(v)}/s`],
	p99: ["Launch latency", ["p50", "p99"], duration],
};
const CELLS = columns.length + 2;

const sort = {column: columns[4], down: true, filter: "", order: new Order("tbody.process", (p) => p.pid)};

function byColumn(a, b) {
	const x = sort.column.of(a), y = sort.column.of(b);
	const way = typeof x !== "string" ? x - y : x.localeCompare(y, undefined, {numeric: true});
	return (sort.down ? -way : way) || a.pid - b.pid;
}

function matches(p) {
	if (sort.filter.startsWith("job:"))
		return p.job_id.toLowerCase() === sort.filter.slice(4);
	return [p.comm, String(p.pid), p.job_id].some((text) => text.toLowerCase().includes(sort.filter));
}

function cell(tag, role, className) {
	const node = make(tag, className);
	node.setAttribute("role", role);
	return node;
}

// A table among details. fill() takes the texts of each row, of which the first one is its key.
function partTable(title, names) {
	const part = make("div"), table = make("table"), body = make("tbody"), head = make("tr");
	names.forEach((name, i) => head.append(make("th", i ? "number" : "", name)));
	part.tabIndex = 0; // it may be wider than its place
	inside(part, make("h3", "", title), inside(table, inside(make("thead"), head), body));
	const rows = new Rows(body, () => {
		const node = make("tr");
		return {node, update: cells(names.map((_, i) => ({text: (texts) => texts[i], number: i > 0})), node)};
	});
	return {node: part, fill(lines) {
		rows.show(lines, ([key]) => key);
		show(table, lines.length > 0);
	}};
}

function ncclTable() {
	const part = partTable("NCCL", ["Operation", "Calls", "Bytes", "Errors", "p50", "p99"]), none = make("p", "muted");
	part.node.append(none);
	return {node: part.node, update(p) {
		const ops = (p.nccl && p.nccl.ops) || [];
		part.fill(ops.map((o) => [o.op.replaceAll("_", "-"), exact(o.calls), bytes(o.bytes), exact(o.errors),
			duration(o.p50_ms * 1000), duration(o.p99_ms * 1000)]));
		const ranks = ((p.nccl && p.nccl.comms) || []).map((c) => `rank ${c.rank} of ${c.nranks} in ${c.comm}`);
		say(none, [ops.length ? "" : "No operation yet.", ...ranks].filter(Boolean).join(" "));
	}};
}

function textsOf(title, pairs) {
	const node = make("div"), list = make("dl", "pairs");
	const fill = pairsList(list);
	inside(node, make("h3", "", title), list);
	return {node, update: (p) => fill(pairs(p))};
}

const measured = (v) => (v == null ? [["", "Not measured."]] : flat(v));

// Standard deviations from what was usual, as "launch p99 +12.3".
const unusual = (p) => Object.entries(p.anomalies || {}).map(([name, v]) => `${label(name)} ${v > 0 ? "+" : ""}${v.toFixed(1)}`);

function waits(p) {
	const quantiles = (o, unit) => `p50 ${duration(o[`p50_${unit}`] * (unit === "ms" ? 1000 : 1))}, ` +
		`p99 ${duration(o[`p99_${unit}`] * (unit === "ms" ? 1000 : 1))}, ${exact(o.count)} times`;
	return [
		["For the GPU", p.sync && p.sync.count ? `${quantiles(p.sync, "us")}, ${duration(p.sync.sum_ms * 1000)} in all` : NONE],
		["Data loader", p.dataloader ? quantiles(p.dataloader, "ms") : "not measured"],
		["Unusual", p.anomalies ? unusual(p).join(", ") || "nothing" : "not known yet"],
	];
}

const causes = {cpu: "runs", gpu: "waits for the GPU", data: "waits for a batch", dist: "waits for other ranks",
	io: "is blocked on a file", runqueue: "finds no free CPU", other: "sleeps for another reason"};

// One bar of all the causes, a legend, and the sentence that says it.
function stalls() {
	const node = make("div", "stalls"), says = make("p"), bar = make("div", "meter"), legend = make("ul");
	const parts = Object.entries(causes).map(([cause, meaning]) => {
		const part = make("div", cause), item = make("li"), share = make("span");
		item.title = `The launching thread ${meaning}`;
		bar.append(part);
		legend.append(inside(item, make("i", cause), `${cause} `, share));
		return {cause, part, share};
	});
	bar.setAttribute("role", "img");
	inside(node, make("h3", "", "Where the time of its launching threads goes"), says, bar, legend);
	return {node, update(p) {
		show(bar, p.stalls != null);
		show(legend, p.stalls != null);
		say(says, p.stalls ? p.stalls.says : "Not measured.");
		if (!p.stalls)
			return;
		for (const {cause, part, share} of parts) {
			part.style.width = `${100 * (p.stalls[cause] || 0)}%`;
			say(share, p.stalls[cause] == null ? NONE : percent(p.stalls[cause]));
		}
		mark(bar, "aria-label", parts.map(({cause, share}) => `${cause} ${share.textContent}`).join(", "));
	}};
}

function kinds(p) {
	const l = p.launch;
	return [
		["Launches", `${exact(l.count)}, ${exact(l.errors)} failed`],
		...["kernel", "graph", "cooperative", "captured"].filter((k) => l[k]).map((k) => [`of them ${k}`, exact(l[k])]),
		...p.gpus.map((g) => [`Memory on GPU ${g.gpu_id}`, `${bytes(g.used_bytes)}, peak ${bytes(g.peak_bytes)}`]),
		["Pinned host memory", bytes(p.pinned_bytes)],
	];
}

// What an opened row shows below itself.
function detail(p) {
	const node = cell("tr", "row", "detail"), box = cell("td", "cell", "");
	const plots = Object.entries(charts).map(([id, make_]) => [id, new Plot(...make_)]);
	const beside = [ncclTable(), textsOf("Waits", waits), textsOf("Launches and memory", kinds)], first = stalls();
	const wide = [textsOf("Kernel signals", (p) => measured(p.signals)), textsOf("Files", (p) => measured(p.io))];
	const parts = [first, ...beside, ...wide];
	box.colSpan = CELLS;
	node.id = `detail-${p.pid}`;
	inside(node, inside(box, inside(make("div", "plots"), ...plots.map(([, plot]) => plot.node)), first.node,
		inside(make("div", "parts"), ...beside.map((part) => part.node)), inside(make("div", "wide"), ...wide.map((part) => part.node))));
	return {node, update(process, fresh) {
		if (fresh)
			for (const [id, plot] of plots)
				plot.set(linesOf(process, id));
		for (const part of parts)
			part.update(process);
	}};
}

function linesOf(p, id) {
	const lines = past.processes.get(p.pid);
	return columns.find((c) => c.id === id).chart.map((name) => (lines ? lines[name] : empty()));
}

class ProcessRow {
	constructor(p) {
		this.node = cell("tbody", "rowgroup", "process");
		this.row = cell("tr", "row", "row");
		this.toggle = make("button", "toggle");
		this.toggle.type = "button";
		mark(this.toggle, "aria-expanded", "false");
		this.cells = columns.map((c) => {
			const node = cell("td", "cell", `${c.id}${c.number ? " number" : ""}`);
			node.dataset.label = c.name;
			return node;
		});
		this.cells[0].append(this.toggle);
		this.charts = Object.entries(charts).map(([id, [name, ...rest]]) => [id, new Chart(`${name} of ${p.pid}`, ...rest)]);
		this.place();
		this.row.addEventListener("click", () => String(getSelection()) || this.open(!this.detail));
	}

	place() {
		columns.forEach((c, i) => {
			this.row.append(this.cells[i]);
			if (c.chart)
				this.row.append(inside(cell("td", "cell", "spark"), this.charts.find(([id]) => id === c.id)[1].node));
		});
		this.node.append(this.row);
	}

	open(on) {
		mark(this.toggle, "aria-expanded", String(on));
		this.node.classList.toggle("open", on);
		if (!on) {
			drop(this.detail.node);
			this.toggle.removeAttribute("aria-controls");
			this.detail = null;
			return;
		}
		this.detail = detail(this.process);
		this.node.append(this.detail.node);
		this.toggle.setAttribute("aria-controls", this.detail.node.id);
		this.detail.update(this.process, true);
	}

	update(p) {
		this.process = p;
		columns.forEach((c, i) => {
			const v = c.of(p);
			say(i ? this.cells[i] : this.toggle, c.text(v));
			if (c.number)
				mark(this.cells[i], "title", exact(v));
		});
		mark(this.toggle, "aria-label", `${p.pid}, details of ${p.comm}`);
		mark(this.cells[1], "title", p.comm);
		if (past.fresh)
			for (const [id, chart] of this.charts)
				chart.set(linesOf(p, id), 0);
		if (this.detail)
			this.detail.update(p, past.fresh);
		show(this.node, matches(p));
	}
}

const processTable = $("processes").querySelector("table");
const shownProcesses = new Rows(processTable, (p) => new ProcessRow(p));
shownProcesses.first = processTable.tHead;

function nothingYet(s) {
	const waiting = s.probes.filter((p) => p.state !== "attached" && p.why).map((p) => p.why);
	return "No process uses a GPU library yet." + (waiting.length ? ` Now: ${[...new Set(waiting)].join("; ")}.` : "");
}

function processes(s) {
	const hidden = s.processes.filter((p) => !matches(p)).length;
	const order = sort.order.of(s.processes, byColumn);
	shownProcesses.show(order, (p) => p.pid);
	signals(s, order);
	say($("shown"), hidden ? `${s.processes.length - hidden} of ${s.processes.length}` : String(s.processes.length));
	const none = $("processes").querySelector(".empty");
	show(processTable.parentNode, s.processes.length > hidden);
	show(none, s.processes.length === hidden);
	say(none, hidden ? "No process has this in its command, PID or job." : nothingYet(s));
}

function sortBy(column, down) {
	Object.assign(sort, {column, down});
	sort.order.at = 0;
	columns.forEach((c) => {
		if (c === column)
			mark(c.head, "aria-sort", down ? "descending" : "ascending");
		else
			c.head.removeAttribute("aria-sort");
	});
	$("sort").value = column.id;
	if (now)
		processes(now);
}

function chartHead(id) {
	const node = cell("th", "columnheader", "spark"), [name, lines] = charts[id];
	lines.forEach((line, i) => node.append(make("span", line && `key ${i ? "second" : "first"}`, line || "15 min")));
	node.title = `${name}, last 15 minutes`;
	return node;
}

function header() {
	const row = processTable.tHead.rows[0];
	for (const c of columns) {
		const button = make("button", "", c.name);
		button.type = "button";
		button.addEventListener("click", () => sortBy(c, sort.column === c ? !sort.down : Boolean(c.number)));
		c.head = cell("th", "columnheader", c.number ? "number" : "");
		c.head.scope = "col";
		c.head.title = c.title;
		row.append(inside(c.head, button));
		if (c.chart)
			row.append(chartHead(c.id));
		const option = make("option", "", c.name);
		option.value = c.id;
		$("sort").append(option);
	}
	$("sort").addEventListener("change", (e) => {
		const c = columns.find((column) => column.id === e.target.value);
		sortBy(c, Boolean(c.number));
	});
	$("filter").addEventListener("input", (e) => {
		sort.filter = e.target.value.trim().toLowerCase();
		if (now)
			processes(now);
	});
	sortBy(sort.column, sort.down);
}

// ---- what the kernel saw of the launching processes, in the same order ----

const member = (p, path) => path.split(".").reduce((of, key) => of && of[key], p);
const signal = (name, path, text, title) => ({name, title, number: true, text(p) {
	const v = member(p, `signals.${path}`);
	return v == null ? NONE : text(v);
}});
const signalColumns = [
	{name: "PID", text: (p) => String(p.pid)},
	{name: "Command", text: (p) => p.comm},
	{name: "Launches/s", text: (p) => count(recent(p).rate ?? p.launch.rate), number: true, title: "Over the last five seconds"},
	{name: "p99", text: (p) => duration(recent(p).p99_us), number: true, title: "Of its launch calls of the last five seconds"},
	signal("Calls/launch", "syscalls.per_launch", count, "System calls, over the last interval"),
	signal("Driver p99", "ioctl.p99_us", duration, "Time in a call of the GPU's driver, since the process began"),
	signal("Switches/launch", "sched.switches_per_launch", count, "Context switches, over the last interval"),
	signal("Migrations/s", "sched.migration_rate", count, "Threads that were moved to another CPU"),
	signal("CPU wait p99", "sched.runqueue.p99_us", duration, "Time a thread was ready and had no CPU, since the process began"),
	signal("Churn", "syscalls.mmap_churn", percent, "How much of what was mapped was unmapped again, over the last interval"),
	signal("Sent/s", "tcp.sent_rate", bytes, "By TCP"),
	signal("Received/s", "tcp.received_rate", bytes, "By TCP"),
	signal("Resent", "tcp.retransmits", exact, "TCP segments, since the process began"),
	{name: "Unusual", text: (p) => unusual(p).join(", ") || NONE, title: "Signals far from what is usual for it, in standard deviations"},
];

const signalTable = $("signals").querySelector("table");
const shownSignals = new Rows(signalTable.tBodies[0], () => {
	const node = make("tr"), fill = cells(signalColumns, node);
	return {node, update(p) {
		fill(p);
		mark(node.lastChild, "class", unusual(p).length ? "wrong" : "");
		show(node, matches(p));
	}};
});
titles(signalTable, signalColumns);

function contention(g) {
	if (!g)
		return "";
	if (g.contention == null)
		return "Nobody was in the GPU's driver in the last interval.";
	return `Two processes or more were in the GPU's driver at once for ${percent(g.contention)} of the time that it was in use.`;
}

function signals(s, order) {
	const known = (p) => Object.values(p.signals || {}).some(Boolean);
	show($("signals"), s.processes.some((p) => matches(p) && known(p)));
	shownSignals.show(order, (p) => p.pid);
	signalTable.classList.toggle("usual", !order.some((p) => unusual(p).length));
	say($("contention"), contention(s.gpu_ioctl));
}

// ---- jobs ----

function narrow(job) {
	$("filter").value = `job:${job.job_id}`;
	$("filter").dispatchEvent(new Event("input"));
	$("processes").scrollIntoView();
}

function gpuOfJob(g, idle) {
	const all = g.busy_s + g.idle_s;
	if (idle)
		return `GPU ${g.gpu_id} idle ${g.busy_s ? `for ${span(g.quiet_s)}` : "since it began"}`;
	return `GPU ${g.gpu_id} ${all ? `${percent(g.busy_s / all)} busy, ` : ""}peak ${bytes(g.peak_bytes)}`;
}

const times = (job) => `${clock(job.start_ms)} to ${job.end_ms ? clock(job.end_ms) : "now"}`;

const jobColumns = [
	{name: "Job"}, // a button
	{name: "State", text: (job) => job.state + (job.restart ? `, restart ${job.restart}` : "")},
	{name: "User", text: (job) => job.user || (job.uid ?? NONE)},
	{name: "Account", text: (job) => job.account},
	{name: "Partition", text: (job) => job.partition},
	{name: "Name", text: (job) => job.name},
	{name: "Nodes", text: (job) => job.nodes, number: true},
	{name: "Time", text: (job) => span(job.elapsed_s), number: true, title: times},
	{name: "Processes", text: (job) => exact(job.processes), number: true,
		title: (job) => `and ${exact(job.processes_gone)} that have gone`},
	{name: "Launches", text: (job) => count(job.launches), number: true, title: (job) => exact(job.launches)},
	{name: "NCCL", text: (job) => bytes(job.nccl_bytes), number: true, title: (job) => exact(job.nccl_bytes)},
];

// A line of the job's GPUs, below its own.
function gpusOfJob() {
	const node = make("tr"), box = make("td"), list = make("ul");
	const rows = new Rows(list, () => {
		const item = make("li");
		return {node: item, update([g, idle]) {
			mark(item, "class", idle ? "idle" : "");
			say(item, gpuOfJob(g, idle));
		}};
	});
	box.colSpan = jobColumns.length;
	inside(node, inside(box, list));
	return {node, update(job) {
		const idle = idleOf(job);
		show(node, job.gpus.length > 0);
		rows.show(job.gpus.map((g) => [g, idle.includes(g)]), ([g]) => g.gpu_id);
	}};
}

const jobTable = $("jobs").querySelector("table");
const shownJobs = new Rows(jobTable, () => {
	const node = make("tbody"), line = make("tr"), button = make("button", "narrower"), gpuLine = gpusOfJob();
	const cells = jobColumns.map((c) => make("td", c.number ? "number" : ""));
	let shown = null;
	button.type = "button";
	button.addEventListener("click", () => narrow(shown));
	cells[0].append(button);
	inside(node, inside(line, ...cells), gpuLine.node);
	return {node, update(job) {
		shown = job;
		say(button, job.job_id);
		mark(button, "aria-label", `${job.job_id}, show only its processes`);
		mark(node, "class", job.state);
		jobColumns.forEach((c, i) => {
			if (c.text)
				say(cells[i], String(c.text(job) || NONE));
			if (c.title)
				mark(cells[i], "title", c.title(job));
		});
		gpuLine.update(job);
	}};
});
shownJobs.first = jobTable.tHead;

function jobs(s) {
	const idle = s.jobs.reduce((n, job) => n + idleOf(job).length, 0);
	show($("jobs"), s.jobs.length > 0);
	shownJobs.show(s.jobs, (job) => [job.job_id, job.restart, job.start_ms].join());
	say($("idle"), !idle ? "" : idle === 1 ? "1 GPU is not used by the job that has it." :
		`${idle} GPUs are not used by the jobs that have them.`);
}

jobTable.tHead.rows[0].append(...jobColumns.map((c) => make("th", c.number ? "number" : "", c.name)));

// ---- file I/O: a job on a mount in each row, its operations below ----

const sumOps = (f, key) => Object.values(f.ops || {}).reduce((n, op) => n + (op[key] || 0), 0);
const rateOf = (f) => f.read_bytes_per_s + f.write_bytes_per_s;
const took = (name, op) => ({name: `${name} p99`, number: true, text: (f) => duration(f.ops && f.ops[op] && f.ops[op].p99_us),
	title: "Since the mount was first used"});
const flowKey = (f) => JSON.stringify([f.job_id, f.mount, f.fstype]);

const flowColumns = [
	{name: "Mount"}, // a button
	{name: "Job", text: (f) => f.job_id || NONE},
	{name: "Type", text: (f) => f.fstype},
	{name: "Read/s", text: (f) => bytes(f.read_bytes_per_s), number: true},
	{name: "Written/s", text: (f) => bytes(f.write_bytes_per_s), number: true},
	{name: "Calls/s", text: (f) => count(sumOps(f, "rate")), number: true, title: "Of all operations"},
	took("Read", "read"), took("Write", "write"), took("fsync", "fsync"),
	{name: "Failed", text: (f) => exact(sumOps(f, "errors")), number: true, title: "Calls of all operations that ended in an error"},
];

function flowDetail() {
	const node = make("tr", "detail"), box = make("td"), sums = make("p");
	const part = partTable("Operations", ["Operation", "Calls", "Calls/s", "Failed", "p50", "p99"]);
	box.colSpan = flowColumns.length;
	inside(node, inside(box, sums, inside(make("div", "parts"), part.node)));
	return {node, update(f) {
		say(sums, ["read", "write", "mapped", "copied"].map((way) => `${way === "write" ? "written" : way} ` +
			`${bytes(f[`${way}_bytes`])}`).join(", "));
		part.fill(Object.entries(f.ops || {}).map(([op, o]) =>
			[op, exact(o.count), count(o.rate), exact(o.errors), duration(o.p50_us), duration(o.p99_us)]));
	}};
}

const flowTable = $("io").querySelector("table");
const shownFlows = new Rows(flowTable, () => {
	const node = make("tbody", "flow"), line = make("tr", "row"), toggle = make("button", "toggle");
	const fill = cells(flowColumns, line), detail_ = flowDetail();
	let shown = null;
	toggle.type = "button";
	line.firstChild.append(toggle);
	inside(node, line, detail_.node);
	const open = (on) => {
		mark(toggle, "aria-expanded", String(on));
		node.classList.toggle("open", on);
		show(detail_.node, on);
		if (on)
			detail_.update(shown);
	};
	toggle.addEventListener("click", () => open(detail_.node.hidden));
	open(false);
	return {node, update(f) {
		say(toggle, f.mount);
		mark(toggle, "aria-label", `${f.mount}, details of job ${f.job_id || "none"}`);
		fill(f);
		shown = f;
		if (!detail_.node.hidden)
			detail_.update(f);
	}};
});
shownFlows.first = flowTable.tHead;
titles(flowTable, flowColumns);

const flowOrder = new Order("tbody.flow", flowKey);

function files(s) {
	const busiest = (a, b) => rateOf(b) - rateOf(a) || sumOps(b, "rate") - sumOps(a, "rate");
	show($("io"), s.io.length > 0);
	shownFlows.show(flowOrder.of(s.io, busiest).slice(0, FLOWS), flowKey);
	say($("flows"), s.io.length > FLOWS ? `the ${FLOWS} busiest of ${s.io.length}` : String(s.io.length));
}

// ---- probes and losses ----

const families = {gpu_mem: "GPU memory", cuda_trace: "CUDA launches and waits", nccl: "NCCL"};

function library(lib) {
	if (lib.why)
		return `not hooked: ${lib.why}`;
	return `${lib.attached} of ${lib.symbols} functions hooked`;
}

const shownProbes = new Rows($("probes").querySelector("ul"), () => {
	const node = make("li"), name = make("span", "name"), chip = make("span"), why = make("span", "muted");
	const list = make("ul", "libraries");
	inside(node, inside(make("p", "head"), name, chip, why), list);
	const rows = new Rows(list, () => {
		const line = make("li"), path = make("span", "path"), text = make("span");
		inside(line, path, " ", text);
		return {node: line, update(lib) {
			say(path, lib.path);
			say(text, library(lib));
			mark(text, "class", lib.why || lib.attached < lib.symbols ? "wrong" : "muted");
		}};
	});
	return {node, update(p) {
		say(name, families[p.family] || label(p.family));
		say(chip, p.state);
		mark(chip, "class", `chip ${p.state}`);
		say(why, p.why);
		show(list, p.libraries.length > 0);
		rows.show(p.libraries, (lib) => lib.path);
	}};
});

const shownLosses = new Rows($("lost").querySelector("ul"), () => {
	const node = make("li", "wrong");
	return {node, update([name, n]) {
		say(node, `${exact(n)} ${label(name)}`);
	}};
});
const allLosses = pairsList($("lost").querySelector("dl"));

function losses(s) {
	const all = Object.entries(s.lost), some = all.filter(([, n]) => n);
	say($("lost-sum"), some.length ? "Something was lost, so it is missing from the figures:" : "Nothing was lost.");
	$("lost").classList.toggle("some", some.length > 0);
	shownLosses.show(some, ([name]) => name);
	allLosses(all.map(([name, n]) => [label(name), exact(n)]));
}

// ---- the whole ----

let now = null; // the newest snapshot
let version = ""; // of the daemon that this page came from

function heading(s) {
	const firing = s.alerts.filter((a) => a.state === "firing").length;
	say($("node"), s.node);
	say($("facts"), `${s.source} · zerneld ${s.version} · up ${span(s.uptime_s)}`);
	const title = `${firing ? `(${firing} firing) ` : ""}${s.node} · zerneld`;
	if (document.title !== title)
		document.title = title;
	show($("simulated"), s.source === "simulated");
	show($("truncated"), Boolean(s.truncated));
	version = version || s.version;
	show($("updated"), version !== s.version);
}

function draw() {
	const s = now;
	if (!s || document.hidden)
		return;
	show($("main"), true);
	heading(s);
	alerts(s);
	glance(s);
	gpus(s);
	processes(s);
	jobs(s);
	files(s);
	shownProbes.show(s.probes, (p) => p.family);
	losses(s);
	past.fresh = false;
	mark($("main"), "data-shown", String(s.last_update_ms)); // which snapshot this is
}

function take(text) {
	const s = JSON.parse(text);
	const empty_ = {gpus: [], processes: [], jobs: [], io: [], alerts: [], probes: [], lost: {}};
	now = {...empty_, ...s};
	remember(now);
	draw();
}

// ---- the connection ----

const link = {socket: null, tries: 0, heard_at: 0, retry_at: 0, busy: false};

function headers() {
	const token = sessionStorage.getItem("token");
	return token ? {Authorization: `Bearer ${token}`} : {};
}

function protocols() {
	const token = sessionStorage.getItem("token") || "";
	const hex = [...new TextEncoder().encode(token)].map((b) => b.toString(16).padStart(2, "0")).join("");
	return hex ? ["zernel.v1", `zernel.token.${hex}`] : ["zernel.v1"];
}

function retry() {
	if (link.socket) {
		link.socket.onopen = link.socket.onmessage = link.socket.onclose = null;
		link.socket.close();
	}
	link.socket = null;
	link.retry_at = performance.now() + 1000 * Math.min(RETRY_MAX_S, 2 ** link.tries);
	link.tries++;
	status();
}

function listen() {
	const socket = new WebSocket(`${location.protocol.replace("http", "ws")}//${location.host}/ws`, protocols());
	link.socket = socket;
	link.opened_at = performance.now();
	socket.onmessage = (e) => {
		link.tries = 0;
		link.heard_at = performance.now();
		take(e.data);
		status();
	};
	socket.onclose = retry;
}

function askForToken() {
	say($("refused"), sessionStorage.getItem("token") ? "This token was refused." : "");
	sessionStorage.removeItem("token");
	show($("login"), true);
	link.waits = true;
	$("token").focus();
	status();
}

// What a WebSocket is refused for a page never learns, so /history is asked first.
async function connect() {
	link.busy = true;
	link.retry_at = 0;
	status();
	try {
		const answer = await fetch("/history", {headers: headers(), cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS)});
		if (answer.status === 401)
			askForToken();
		else {
			if (answer.ok)
				takeHistory(await answer.json());
			show($("login"), false);
			listen();
		}
	} catch {
		retry();
	}
	link.busy = false;
}

function late(ms) {
	const interval = (now && now.interval_ms) || 1000;
	return ms > Math.max(3 * interval, 2000);
}

// What the connection is, in a word, and more of it.
function condition(at) {
	const silent = at - link.heard_at, ago = span(silent / 1000);
	if (link.waits)
		return ["off", "token needed", ""];
	if (link.socket && link.heard_at && link.heard_at >= link.opened_at)
		return late(silent) ? ["stale", "stale", `for ${ago}`] : ["live", "live", `· ${clock(now.last_update_ms)}`];
	if (!link.tries)
		return ["off", "connecting", ""];
	const left = Math.ceil((link.retry_at - at) / 1000);
	return ["down", "reconnecting", left > 0 ? `in ${left} s` : ""];
}

function status() {
	const at = performance.now(), [kind, word, more] = condition(at);
	const silent = link.heard_at ? `The figures below are ${span((at - link.heard_at) / 1000)} old.` : "";
	mark($("link"), "class", kind);
	say($("state"), word);
	say($("state-more"), more);
	show($("dead"), kind === "stale" || kind === "down");
	document.body.classList.toggle("old", kind !== "live");
	if (kind === "stale")
		say($("dead-what"), "The daemon says nothing any more.");
	else if (kind === "down")
		say($("dead-what"), "The daemon cannot be reached.");
	say($("dead-more"), [silent, kind === "down" ? `Trying again ${more || "now"}.` : ""].filter(Boolean).join(" "));
}

// A connection that is open and silent may be gone without a word: it is given up and made anew.
function watch() {
	const at = performance.now(), patience = Math.max(ANSWER_MS, 5 * ((now && now.interval_ms) || 1000));
	if (link.socket && at - Math.max(link.heard_at, link.opened_at) > patience)
		retry();
	else if (link.retry_at && at >= link.retry_at && !link.busy)
		connect();
	status();
}

function token(e) {
	e.preventDefault();
	const text = $("token").value.trim();
	$("token").value = "";
	if (!/^[\w.~+/-]+=*$/.test(text)) { // RFC 6750; of some others fetch() would make an error, as if nobody were there
		say($("refused"), "This is no token.");
		return;
	}
	sessionStorage.setItem("token", text);
	link.waits = false;
	connect();
}

header();
$("login").addEventListener("submit", token);
document.addEventListener("visibilitychange", () => {
	for (const node of document.querySelectorAll("svg.chart"))
		node.chart.draw();
	draw();
});
setInterval(watch, 500);
connect();
