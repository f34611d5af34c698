// SPDX-License-Identifier: GPL-2.0
// signals.js: what the kernel saw of the launching processes, in the same order.
import {$, bytes, cells, count, duration, exact, make, mark, NONE, percent, Rows, say, show, titles} from "./shared.js";
import {recent} from "./history.js";
import {matches, unusual} from "./processes.js";

const member = (p, path) => path.split(".").reduce((of, key) => of && of[key], p);
const signal = (name, path, text, title) => ({name, title, number: true, text(p) {
	const v = member(p, `signals.${path}`);
	return v == null ? NONE : text(v);
}});
const signalColumns = [
	{name: "PID", text: (p) => String(p.pid)},
	{name: "Command", text: (p) => p.comm},
	{name: "Launches/s", text: (p) => count(recent(p).rate ?? p.launch.rate), number: true,
	title: "Over the last five seconds"},
	{name: "p99", text: (p) => duration(recent(p).p99_us), number: true,
	title: "Of its launch calls of the last five seconds"},
	signal("Calls/launch", "syscalls.per_launch", count, "System calls, over the last interval"),
	signal("Driver p99", "ioctl.p99_us", duration, "Time in a call of the GPU's driver, since the process began"),
	signal("Switches/launch", "sched.switches_per_launch", count, "Context switches, over the last interval"),
	signal("Migrations/s", "sched.migration_rate", count, "Threads that were moved to another CPU"),
	signal("CPU wait p99", "sched.runqueue.p99_us", duration,
	"Time a thread was ready and had no CPU, since the process began"),
	signal("Churn", "syscalls.mmap_churn", percent,
	"How much of what was mapped was unmapped again, over the last interval"),
	signal("Sent/s", "tcp.sent_rate", bytes, "By TCP"),
	signal("Received/s", "tcp.received_rate", bytes, "By TCP"),
	signal("Resent", "tcp.retransmits", exact, "TCP segments, since the process began"),
	{name: "Unusual", text: (p) => unusual(p).join(", ") || NONE,
	title: "Signals far from what is usual for it, in standard deviations"},
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
	return `Two processes or more were in the GPU's driver at once for ${percent(
		g.contention)} of the time that it was in use.`;
}

export function signals(s, order) {
	const known = (p) => Object.values(p.signals || {}).some(Boolean);
	show($("signals"), s.processes.some((p) => matches(p) && known(p)));
	shownSignals.show(order, (p) => p.pid);
	signalTable.classList.toggle("usual", !order.some((p) => unusual(p).length));
	say($("contention"), contention(s.gpu_ioctl));
}
