// SPDX-License-Identifier: GPL-2.0
// processes.js: the table of processes, and what an opened row shows.
import {$, bytes, cells, count, drop, duration, exact, flat, inside, label, make, mark, NONE, Order, pairsList,
	percent, Rows, say, show, span} from "./shared.js";
import {Chart, Plot} from "./charts.js";
import {empty, past} from "./history.js";
import {heldBy} from "./ranks.js";
import {signals} from "./signals.js";
import {now} from "./main.js";

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

export function matches(p) {
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
export function partTable(title, names) {
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
export const unusual = (p) => Object.entries(p.anomalies || {}).map(([name, v]) =>
	`${label(name)} ${v > 0 ? "+" : ""}${v.toFixed(1)}`);

// The error that a process is given now, what returned it first and when, and how often any came.
const failures = ({cuda_errors: c, rdma_errors: r}) => [
	...(c ? [["CUDA errors", `${c.error}${c.call ? ` in ${c.call}` : ""} ${span(c.age_s)} ago` +
		`${c.context_lost ? "; its context is lost" : ""}; ${exact(c.count)} calls failed in all: ` +
		c.errors.map((e) => `${e.error} ${exact(e.count)}`).join(", ")]] : []),
	...(r ? [["RDMA errors", `${r.call}: ${r.errno} ${span(r.last_age_s)} ago; ${exact(r.count)} in all: ` +
		r.calls.map((e) => `${e.call} ${e.errno} ${exact(e.count)}`).join(", ")]] : []),
];

function waits(p) {
	const quantiles = (o, unit) => `p50 ${duration(o[`p50_${unit}`] * (unit === "ms" ? 1000 : 1))}, ` +
		`p99 ${duration(o[`p99_${unit}`] * (unit === "ms" ? 1000 : 1))}, ${exact(o.count)} times`;
	return [
		["For the GPU", p.sync && p.sync.count ? `${quantiles(p.sync, "us")}, ${duration(p.sync.sum_ms * 1000)} in all` :
		NONE],
		["Data loader", p.dataloader ? quantiles(p.dataloader, "ms") : "not measured"],
		...Object.entries(p.sampled || {}).map(([name, v]) => [`Measured in a part of the time: ${name}`,
			`${percent(v.now)} now, ${percent(v.seen)} since it began; the rest would cost more than its budget`]),
		...(p.blocked ? [["In uninterruptible sleep (state D)", `thread ${p.blocked.tid} for ${span(p.blocked.seconds)}` +
			`${p.blocked.in ? `, in ${p.blocked.in}` : ""}`]] : []),
		...failures(p),
		["Unusual", p.anomalies ? unusual(p).join(", ") || "nothing" : "not known yet"],
	];
}

const causes = {cpu: "runs", gpu: "is in a call that waits for the GPU", data: "waits for a batch",
	dist: "waits for other ranks",
	io: "is blocked on a file", runqueue: "finds no free CPU", other: "sleeps for another reason"};

// One bar of all the causes, a legend, and the sentence that says it.
function stalls() {
	const node = make("div", "stalls"), says = make("p"), bar = make("div", "meter"), legend = make("ul");
	const parts = Object.entries(causes).map(([cause, meaning]) => {
		const part = make("div", cause), item = make("li"), share = make("span"), icon = make("i", cause);
		item.title = `The launching thread ${meaning}`;
		bar.append(part);
		legend.append(inside(item, icon, `${cause} `, share));
		return {cause, part, share, icon};
	});
	bar.setAttribute("role", "img");
	inside(node, make("h3", "", "Where the time of its launching threads goes"), says, bar, legend);
	return {node, update(p) {
		show(bar, p.stalls != null);
		show(legend, p.stalls != null);
		say(says, p.stalls ? p.stalls.says : "Not measured.");
		if (!p.stalls)
			return;
		for (const {cause, part, share, icon} of parts) {
			part.style.width = `${100 * (p.stalls[cause] || 0)}%`;
			for (const node_ of [part, icon])
				mark(node_, "class", (["gpu", "dist"].includes(cause) && heldBy(p.stalls)) || cause);
			say(share, p.stalls[cause] == null ? NONE : percent(p.stalls[cause]));
		}
		mark(bar, "aria-label", parts.map(({cause, share}) => `${cause} ${share.textContent}`).join(", "));
	}};
}

function kinds(p) {
	const l = p.launch;
	return [
		["Launches", `${exact(l.kernel + l.graph + l.cooperative)}, ${exact(l.errors)} failed`],
		...["kernel", "graph", "cooperative"].filter((k) => l[k]).map((k) => [`of them ${k}`, exact(l[k])]),
		...(l.captured ? [["Captured into graphs", exact(l.captured)]] : []),
		...p.gpus.map((g) => [`Memory on GPU ${g.gpu_id}`, `${bytes(g.used_bytes)}, peak ${bytes(g.peak_bytes)}`]),
		["Pinned host memory", bytes(p.pinned_bytes)],
	];
}

// What an opened row shows below itself.
function detail(p) {
	const node = cell("tr", "row", "detail"), box = cell("td", "cell", "");
	const plots = Object.entries(charts).map(([id, make_]) => [id, new Plot(...make_)]);
	const beside = [ncclTable(), textsOf("Waits", waits), textsOf("Launches and memory", kinds)], first = stalls();
	const wide = [textsOf("Kernel signals", (of) => measured(of.signals)), textsOf("Files", (of) => measured(of.io))];
	const parts = [first, ...beside, ...wide];
	box.colSpan = CELLS;
	node.id = `detail-${p.pid}`;
	inside(node, inside(box, inside(make("div", "plots"), ...plots.map(([, plot]) => plot.node)), first.node,
		inside(make("div", "parts"), ...beside.map((part) => part.node)),
		inside(make("div", "wide"), ...wide.map((part) => part.node))));
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
		this.row.addEventListener("click", (e) => {
			// a key, or the button, is never meant to select text
			const selects = e.detail > 0 && e.target !== this.toggle && String(getSelection()) !== "";
			if (!selects)
				this.open(!this.detail);
		});
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

export function processes(s) {
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

export function header() {
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
