// SPDX-License-Identifier: GPL-2.0
// gpus.js: the GPUs, and which of them a job keeps and does not use.
import {$, bytes, exact, IDLE_S, inside, make, mark, percent, Rows, say, show} from "./shared.js";
import {Chart} from "./charts.js";
import {empty, past} from "./history.js";
import {stateOf} from "./glance.js";
import {now} from "./main.js";

// GPUs that a running job keeps from others and does not use.
export const idleOf = (job) => (job.state === "running" ? job.gpus.filter((g) => g.quiet_s >= IDLE_S) : []);
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

export function gpus(s) {
	show($("gpus").querySelector(".empty"), !s.gpus.length);
	shownGpus.show(s.gpus, (g) => g.gpu_id);
}
