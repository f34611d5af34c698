// SPDX-License-Identifier: GPL-2.0
// io.js: file I/O, a job on a mount in each row, its operations below.
import {$, bytes, cells, count, duration, exact, FLOWS, inside, make, mark, NONE, Order, Rows, say, show,
	titles} from "./shared.js";
import {partTable} from "./processes.js";

const sumOps = (f, key) => Object.values(f.ops || {}).reduce((n, op) => n + (op[key] || 0), 0);
const rateOf = (f) => f.read_bytes_per_s + f.write_bytes_per_s;
const took = (name, op) =>
	({name: `${name} p99`, number: true, text: (f) => duration(f.ops && f.ops[op] && f.ops[op].p99_us),
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
	{name: "Failed", text: (f) => exact(sumOps(f, "errors")), number: true,
	title: "Calls of all operations that ended in an error"},
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

export function files(s) {
	const busiest = (a, b) => rateOf(b) - rateOf(a) || sumOps(b, "rate") - sumOps(a, "rate");
	show($("io"), s.io.length > 0);
	shownFlows.show(flowOrder.of(s.io, busiest).slice(0, FLOWS), flowKey);
	say($("flows"), s.io.length > FLOWS ? `the ${FLOWS} busiest of ${s.io.length}` : String(s.io.length));
}
