// SPDX-License-Identifier: GPL-2.0
// glance.js: the node at a glance.
import {$, bytes, count, duration, inside, make, NONE, percent, Rows, say} from "./shared.js";

// Of several alerts, one that fires is told.
export function stateOf(s, name, value) {
	const all = s.alerts.filter((a) => a[name] === value);
	return (all.find((a) => a.state === "firing") || all[0] || {state: ""}).state;
}

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

export function glance(s) {
	const sum = (items, of) => items.reduce((n, item) => n + (of(item) || 0), 0);
	const used = sum(s.gpus, (g) => g.used_bytes), total = sum(s.gpus, (g) => g.total_bytes);
	const ms = (v) => duration(v * 1000);
	const unseen = s.gpus.filter((g) => g.used_bytes == null).length;
	const sized = s.gpus.filter((g) => g.total_bytes).length, all = sized === s.gpus.length;
	const of = !total ? "total not known" : `of ${bytes(total)}${all ? "" : ` on ${sized} of ${s.gpus.length}`}`;
	shownGlance.show([
		["GPU memory", unseen ? NONE : bytes(used), unseen ? `${of}, not known on ${unseen}` : total && all ?
		`${of}, ${percent(used / total)}` : of,
			"What all processes have reserved on all GPUs; how much a GPU has is known once a process has asked it"],
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
