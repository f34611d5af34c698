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

const told = (v, text) => (v == null ? "" : text(v));
const joined = (...parts) => parts.filter(Boolean).join(" · ");

// What the GPU itself does now, as far as a source tells it.
const stateLine = (d) => (d.lost ? "lost: it has fallen off the bus, or must be reset" : d.suspended ? "asleep" :
	joined(told(d.utilization, (v) => `${percent(v)} busy`), told(d.sm_active, (v) => `SM ${percent(v)}`),
	told(d.power_watts, (v) => `${Math.round(v)}${told(d.power_limit_watts, (most) => ` of ${Math.round(most)}`)} W`),
	told(d.temperature_celsius, (v) => `${Math.round(v)} °C`), told(d.clock_hertz, (v) => `${Math.round(v / 1e6)} MHz`)) ||
	"use, power, temperature: no source");

const pcieErrors = (d) => (d.pcie_fatal || 0) + (d.pcie_nonfatal || 0);

const deviceLine = (d) => joined(d.throttled_by?.length ? `throttled: ${d.throttled_by.join(", ")}` : "",
	told(d.link_width, (v) => `PCIe x${v}${d.link_width_ratio < 1 ? ` of x${d.link_width_max}` :
	""}${told(d.link_speed, (g) => `, ${g} GT/s`)}`),
	told(d.numa_node, (v) => `NUMA ${v}`), d.ecc_uncorrected ? `${exact(d.ecc_uncorrected)} ECC errors` : "",
	pcieErrors(d) ? `${exact(pcieErrors(d))} PCIe errors` : "");

const shownGpus = new Rows($("gpus").querySelector("ul"), (g) => {
	const node = make("li"), name = make("h3"), users = make("span"), used = make("p", "used");
	const amount = document.createTextNode(""), of = make("small"), unused = make("p", "wrong");
	const meter = make("div", "meter"), fill = make("div", "fill"), peak = make("div", "peak"), highest = make("span");
	const chart = new Chart(`Memory in use on GPU ${g.gpu_id}`, [""], bytes);
	const state = make("p", "state"), device = make("p", "state");
	inside(node, inside(make("div", "head"), name, users), inside(used, amount, of), inside(meter, fill, peak), state,
		device, chart.node,
		inside(make("div", "foot"), highest, make("span", "", "15 min")), unused);
	mark(meter, "role", "img");
	return {node, update(gpu) {
		const all = gpu.total_bytes || gpu.peak_bytes || 1;
		say(name, `GPU ${gpu.gpu_id}`);
		mark(name, "title", [gpu.uuid, gpu.pci].filter(Boolean).join(" "));
		const known = gpu.used_bytes != null, size = gpu.total_bytes ? `of ${bytes(gpu.total_bytes)}` : "total not known";
		say(users, known ? `${gpu.processes} process${gpu.processes === 1 ? "" : "es"}` :
			gpu.memory_complete == null ? "its processes are not counted" : "used before the daemon came");
		if (amount.data !== `${bytes(gpu.used_bytes)} `)
			amount.data = `${bytes(gpu.used_bytes)} `;
		const counted = told(gpu.device.vram_used_bytes, (v) => `; the driver counts ${bytes(v)}`);
		say(of, !known ? `${size}, use not known${counted}` : gpu.total_bytes ? `${size}, ${percent(gpu.used_bytes / all)}` : size);
		mark(used, "title", known ? `${exact(gpu.used_bytes)} bytes` :
			"A process used this GPU before the daemon came: what it holds is not known.");
		say(highest, `peak ${bytes(gpu.peak_bytes)}`);
		fill.style.width = percent(Math.min(1, gpu.used_bytes / all)).replace(" ", "");
		peak.style.left = percent(Math.min(1, gpu.peak_bytes / all)).replace(" ", "");
		mark(meter, "aria-label", `${known ? `${bytes(gpu.used_bytes)} in use, peak ${bytes(gpu.peak_bytes)}` :
			"use not known"}, total ` +
			(gpu.total_bytes ? bytes(gpu.total_bytes) : "not known"));
		say(state, stateLine(gpu.device));
		mark(state, "title", gpu.device.power_watts == null ?
			"No source tells its use, power and temperature: see docs/HARDWARE.md" : "");
		say(device, deviceLine(gpu.device));
		mark(state, "class", gpu.device.lost ? "state wrong" : "state");
		mark(device, "class", gpu.device.throttled_by?.length || gpu.device.link_width_ratio < 1 ? "state wrong" : "state");
		mark(node, "class", stateOf(now, "gpu_id", gpu.gpu_id));
		const holders = idleOn(now, gpu.gpu_id);
		say(unused, holders.length ? `Not used by its job: ${holders.join(", ")}` : "");
		show(unused, holders.length > 0);
		if (past.fresh)
			chart.set([(past.gpus.get(gpu.gpu_id) || {used_bytes: empty()}).used_bytes], gpu.total_bytes);
	}};
});

const total = (o) => Object.values(o).reduce((n, v) => n + v, 0);

// A port of InfiniBand or RoCE: errors are told by kind, where there are any.
const shownPorts = new Rows($("fabric").querySelector("ul"), () => {
	const node = make("li"), name = make("b"), text = make("span");
	inside(node, name, document.createTextNode(" "), text);
	return {node, update(p) {
		const found = Object.entries(p.errors).filter(([, n]) => n > 0).map(([kind, n]) => `${exact(n)} ${kind.replaceAll("_", " ")}`);
		say(name, `${p.device} port ${p.port}`);
		say(text, joined(p.link, p.active ? "active" : "down", told(p.rate_mbit, (v) => `${v / 1000} Gb/s`), told(p.bytes.sent, (v) => `${bytes(v)} sent`),
			told(p.bytes.received, (v) => `${bytes(v)} received`), found.length ? `errors: ${found.join(", ")}` : "",
			total(p.congestion) ? `${exact(total(p.congestion))} notices of congestion` : ""));
		mark(text, "class", !p.active || found.length ? "wrong" : "");
	}};
});

export function gpus(s) {
	show($("fabric"), s.ports.length > 0);
	shownPorts.show(s.ports, (p) => `${p.device}/${p.port}`);
	show($("gpus").querySelector(".empty"), !s.gpus.length);
	shownGpus.show(s.gpus, (g) => g.gpu_id);
}
