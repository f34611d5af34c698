// SPDX-License-Identifier: GPL-2.0
// jobs.js: jobs, and a line for each of their GPUs.
import {$, bytes, clock, count, exact, inside, make, mark, NONE, percent, Rows, say, show, span} from "./shared.js";
import {idleOf} from "./gpus.js";

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

// CPU and memory efficiency, in the words of seff.
const share = (of) => of && of.efficiency != null ? percent(of.efficiency) : "";
const known = (value, text) => value == null ? NONE : text(value);

function cpuTitle({cpu}) {
	if (!cpu)
		return "";
	return `${known(cpu.seconds, span)} of CPU time, on ${known(cpu.cpus, String)} CPUs` +
		(cpu.throttled_seconds ? `, held back by a quota for ${span(cpu.throttled_seconds)}` : "");
}

function memoryTitle({memory: m}) {
	if (!m)
		return "";
	return `${known(m.needed_peak_bytes, bytes)} needed at most of a limit of ${known(m.limit_bytes, bytes)}, ` +
		`${known(m.peak_bytes, bytes)} with cache of files`;
}

// An estimate, in watt-hours: of the node as metered, or else of the parts that something counts.
function energy({energy_joules: e}) {
	const parts = e ? [e.gpu, e.cpu, e.dram].filter((v) => v != null) : [];
	const sum = e && e.node != null ? e.node : parts.reduce((a, b) => a + b, 0);
	return parts.length || (e && e.node != null) ? `${count(sum / 3600)} Wh` : "";
}
const energyTitle = ({energy_joules: e}) => (e ? Object.entries(e).map(([part, v]) =>
	`${part} ${known(v, (j) => `${count(j / 3600)} Wh`)}`).join(", ") + "; estimated" : "");

const jobColumns = [
	{name: "Job"}, // a button
	{name: "State", text: (job) => job.state + (job.restart ? `, restart ${job.restart}` : "")},
	{name: "User", text: (job) => job.user || (job.uid ?? NONE)},
	{name: "Account", text: (job) => job.account},
	{name: "Partition", text: (job) => job.partition},
	{name: "Name", text: (job) => job.name},
	{name: "Nodes", text: (job) => job.nodes, number: true},
	{name: "Time", text: (job) => span(job.elapsed_s), number: true, title: times},
	{name: "CPU", text: (job) => share(job.cpu), number: true, title: cpuTitle},
	{name: "Memory", text: (job) => share(job.memory), number: true, title: memoryTitle},
	{name: "GPU use", text: (job) => (job.gpu_utilization == null ? "" : percent(job.gpu_utilization)), number: true,
		title: () => "the mean over its GPUs now, as their driver samples it"},
	{name: "Energy", text: energy, number: true, title: energyTitle},
	{name: "Processes", text: (job) => exact(job.processes), number: true,
		title: (job) => `and ${exact(job.processes_gone)} that have gone`},
	{name: "Launches", text: (job) => count(job.launches), number: true, title: (job) => exact(job.launches)},
	{name: "NCCL", text: (job) => bytes(job.nccl_bytes), number: true, title: (job) => exact(job.nccl_bytes)},
];

// A line below the job's own, of items {key, text, bad}.
function lineOfJob(items) {
	const node = make("tr"), box = make("td"), list = make("ul");
	const rows = new Rows(list, () => {
		const item = make("li");
		return {node: item, update({text, bad}) {
			mark(item, "class", bad ? "idle" : "");
			say(item, text);
		}};
	});
	box.colSpan = jobColumns.length;
	inside(node, inside(box, list));
	return {node, update(job) {
		const all = items(job);
		show(node, all.length > 0);
		rows.show(all, (i) => i.key);
	}};
}

function gpuItems(job) {
	const idle = idleOf(job);
	return job.gpus.map((g) => ({key: g.gpu_id, text: gpuOfJob(g, idle.includes(g)), bad: idle.includes(g)}));
}

const stepItems = (job) => (job.steps || []).map((s, i) => ({key: `${s.name} ${i}`, text: `step ${s.name}${s.running ?
	"" : " (ended)"} ${known(s.cpu_seconds, span)} of CPU time, ${known(s.memory_peak_bytes, bytes)} at most`}));

const jobTable = $("jobs").querySelector("table");
const shownJobs = new Rows(jobTable, () => {
	const node = make("tbody"), line = make("tr"), button = make("button", "narrower"),
		below = [lineOfJob(gpuItems), lineOfJob(stepItems)];
	const cells = jobColumns.map((c) => make("td", c.number ? "number" : ""));
	let shown = null;
	button.type = "button";
	button.addEventListener("click", () => narrow(shown));
	cells[0].append(button);
	inside(node, inside(line, ...cells), ...below.map((b) => b.node));
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
		below.forEach((b) => b.update(job));
	}};
});
shownJobs.first = jobTable.tHead;

export function jobs(s) {
	const idle = s.jobs.reduce((n, job) => n + idleOf(job).length, 0);
	show($("jobs"), s.jobs.length > 0);
	shownJobs.show(s.jobs, (job) => [job.job_id, job.restart, job.start_ms].join());
	say($("idle"), !idle ? "" : idle === 1 ? "1 GPU is not used by the job that has it." :
		`${idle} GPUs are not used by the jobs that have them.`);
}

jobTable.tHead.rows[0].append(...jobColumns.map((c) => make("th", c.number ? "number" : "", c.name)));
