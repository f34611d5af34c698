// SPDX-License-Identifier: GPL-2.0
// page.test.mjs [PATTERN]: the page in a headless Chromium: against a daemon that simulates, a live one with the fake
// libraries, and one that is played where the figures must be known. Ends with "N passed, N failed".
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import path from "node:path";
import { Absent, ROOT, accessible, daemon, fake, freePort, is, later, open, runAll, shot, snapshot, start, test, text,
	until } from "./harness.mjs";

/* global above, flat, oddRanks -- of the page */
const GIB = 2 ** 30;
const LIBRARY = path.join(ROOT, "build/test/libcuda.so.1");
const NETWORK = /net::ERR_|WebSocket connection to/; // the browser itself says so where a daemon is gone

const at = (more = {}) => ({alert: "gpu_oom_warning", severity: "critical", state: "firing", gpu_id: "3", value: 0.962,
	threshold: 0.95, unit: "ratio", since_ms: Date.now() - 74000, summary: "the memory of a GPU is nearly full", ...more});
const jobGpu = (gpu_id, busy_s, idle_s, quiet_s = 0) =>
	({gpu_id, allocated: true, peak_bytes: 40 * GIB, busy_s, idle_s, quiet_s});
const job = (more = {}) =>
	({job_id: "4711", restart: 0, state: "running", user: "user1000", uid: 1000, account: "lab", partition: "gpu",
	name: "train", nodes: "4", start_ms: 1711800000000, end_ms: null, elapsed_s: 7500.5, processes: 8,
	processes_gone: 1234,
	launches: 123456789, nccl_bytes: 7 * GIB, gpus: [jobGpu("0", 30, 10), jobGpu("1", 20, 20, 59.9)], ...more});
const stalls = (more = {}) =>
	({cpu: 0.25, gpu: 0.125, data: 0.5, dist: 0.125, io: 0, runqueue: 0, other: 0, seconds: {cpu: 1.5},
	says: "rank 3 waits for data 50 % of its time; its 4 loader workers are busy", ...more});
const flow = (more = {}) =>
	({job_id: "4711", mount: "/data", fstype: "nfs4", read_bytes: 123 * GIB, write_bytes: 2048, mapped_bytes: 4096,
	copied_bytes: 0, read_bytes_per_s: 3 * 2 ** 20, write_bytes_per_s: 512, ops: {
		read: {count: 12345, errors: 2, rate: 12.5, p50_us: 8, p99_us: 450},
			write: {count: 9, errors: 1, rate: 2.5, p50_us: 1, p99_us: 25},
		fsync: {count: 4, errors: 0, rate: 0, p50_us: null, p99_us: null}}, ...more});
const rows = (page) => page.locator("tbody.process");
const toggle = (page, pid) => page.locator(`.toggle:text-is("${pid}")`);

test("figures are written for people", async () => {
	const page = await open((await fake(await snapshot())).url);
	const table = [
		["bytes", [0, "0 B"], [1023, "1023 B"], [1536, "1.50 KiB"], [25769803776, "24.0 GiB"], [1048575, "1.00 MiB"],
			[2 ** 53, "8.00 PiB"], [null, "–"]],
		["count", [0, "0"], [7, "7"], [999, "999"], [2052.997, "2.05k"], [999999, "1.00M"], [0.25, "0.25"], [12.34, "12.3"]],
		["duration", [0, "–"], [null, "–"], [0.5, "0.50 µs"], [143.36, "143 µs"], [999.7, "1.00 ms"], [38800, "38.8 ms"],
			[2.5e6, "2.50 s"], [90e6, "1 min 30 s"]],
		["span", [0, "0 s"], [59.9, "59 s"], [60, "1 min"], [3605, "1 h"], [7500, "2 h 5 min"], [100000, "1 d 3 h"]],
		["percent", [0.6, "60.0 %"], [1, "100 %"]],
	];
	for (const [name, ...vectors] of table)
		for (const [value, wanted] of vectors)
			assert.equal(await page.evaluate(([f, v]) => window[f](v), [name, value]), wanted, `${name}(${value})`);
});

test("an axis ends at a number that is easily read", async () => {
	const page = await open((await fake(await snapshot())).url);
	for (const [v, wanted] of [[0, 1], [0.3, 0.5], [1, 1], [1.01, 2], [2.1, 2.5], [2600, 5000], [7, 10], [1e6, 1e6],
		[99, 100]])
		assert.equal(await page.evaluate((x) => above(x), v), wanted, `above(${v})`);
});

test("figures whose names are new are written by the unit in them", async () => {
	const page = await open((await fake(await snapshot())).url);
	assert.deepEqual(await page.evaluate(() => flat({stall_ratio: 0.25, io: {read_bytes: 2048, wait_ms: 1.5}, mount: "/x",
		calls: 12345, ids: ["a"]})), [["stall", "25.0 %"], ["io read", "2.00 KiB"], ["io wait", "1.50 ms"], ["mount", "/x"],
		["calls", "12,345"], ["ids 0", "a"]]);
});

// What a page shows, with the time of the snapshot that it shows, in one go.
function shownBy(page) {
	return page.evaluate(() => {
		const texts = (node, selector) => [...node.querySelectorAll(selector)].map((n) => n.innerText);
		return {
			at: document.querySelector("main").dataset.shown,
			glance: texts(document, "#glance dd"),
			gpus: [...document.querySelectorAll("#gpus li")].map((n) =>
			[...texts(n, "h3, .used"), n.querySelector(".used").title,
				n.querySelector(".meter").getAttribute("aria-label"), n.querySelector(".fill").style.width]),
			processes: Object.fromEntries([...document.querySelectorAll("tbody.process")].map((n) =>
				[n.querySelector(".toggle").innerText, texts(n, "tr.row td:not(.spark)")])),
			memory: [...document.querySelectorAll("tbody.process td.memory")].map((n) => n.title),
			facts: document.querySelector("#facts").innerText,
		};
	});
}

const gib = (v) => `${(v / GIB).toFixed(v >= 99.95 * GIB ? 0 : 1)} GiB`;
const figure = (v, unit) => `${v.toFixed(v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2)}${unit}`;
const micros = (v) => (v >= 999.5 ? figure(v / 1000, " ms") : figure(v, " µs"));

function equalToSnapshot(seen, s) {
	const sum = (of, items) => items.reduce((n, item) => n + of(item), 0);
	const used = sum((g) => g.used_bytes, s.gpus), rate = sum((p) => p.launch.rate, s.processes);
	assert.equal(seen.glance[0], `${gib(used)}\nof 320 GiB, ${(100 * used / (320 * GIB)).toFixed(1)} %`);
	assert.equal(seen.glance[1], "8\non 4 GPUs");
	assert.equal(seen.glance[2].split("\n")[0], figure(rate / 1000, "k"));
	assert.equal(seen.glance[3], `${micros(s.cuda_latency_p50_us)}\np99 ${micros(s.cuda_latency_p99_us)}`);
	assert.equal(seen.glance[4].split("\n")[0], figure(s.nccl_allreduce_p50_ms, " ms"));
	assert.equal(seen.glance[5].split("\n")[0], figure(s.dataloader_wait_p50_ms, " ms"));
	s.gpus.forEach((g, i) => assert.deepEqual(seen.gpus[i], [`GPU ${g.gpu_id}`,
		`${gib(g.used_bytes)} of 80.0 GiB, ${(100 * g.used_bytes / g.total_bytes).toFixed(1)} %`,
		`${g.used_bytes.toLocaleString("en-US")} bytes`,
		`${gib(g.used_bytes)} in use, peak ${gib(g.peak_bytes)}, total 80.0 GiB`,
		`${Number((100 * g.used_bytes / g.total_bytes).toFixed(1))}%`]));
	assert.equal(Object.keys(seen.processes).length, s.processes.length);
	for (const p of s.processes)
		assert.deepEqual(seen.processes[p.pid],
		[String(p.pid), p.comm, p.job_id || "–", p.gpus.map((g) => g.gpu_id).join(", "),
			gib(p.gpus[0].used_bytes), figure(p.launch.rate / 1000, "k"), micros(p.launch.p50_us), micros(p.launch.p99_us)]);
}

test("what is shown of a simulating daemon is its snapshot", async () => {
	const source = await daemon("--simulate"), page = await open(source.url);
	await is(page, "td.rate", /k$/);
	await is(page, "#glance", /Data loader p50\s+\d/);
	for (let round = 0; round < 3; round++) {
		const seen = await shownBy(page);
		equalToSnapshot(seen, page.frames_.get(seen.at));
		await until(async () => (await shownBy(page)).at !== seen.at, "the next snapshot");
	}
	const json = await source.json();
	assert.deepEqual(Object.keys((await shownBy(page)).processes).sort(), json.processes.map((p) => String(p.pid)).sort());
	assert.match(await text(page, "#simulated"), /simulated/i);
	assert.match(await text(page, "#facts"), new RegExp(`^simulated · zerneld ${json.version} · up `));
	assert.equal(await text(page, "#node"), json.node);
	await is(page, "#link", /^live/);
	await shot(page, "simulated", {fullPage: true});
});

test("one request for the page, and nothing from elsewhere", async () => {
	const source = await daemon("--simulate"), page = await open(source.url);
	assert.deepEqual(page.requests_.filter((url) => !url.startsWith("data:")),
		[source.url, `${source.url}history`, `${source.url}why`]);
	const answer = await fetch(source.url);
	assert.ok((await answer.text()).length < 130000, "its size");
	assert.doesNotMatch(answer.headers.get("content-security-policy"), /unsafe/);
	assert.equal(await page.evaluate(() =>
		document.querySelectorAll("[style]:not(.fill, .peak, .cursor, .share), [onclick]").length), 0);
});

const cause = (percent, more = {}) =>
	({cause: "hang", percent, lost_s: percent, says: `${percent} % of the time is lost to a rank that does not come`,
	next: "look at that process", sure: "measured", metric: "zernel_nccl_missing_rank_seconds", ...more});

test("why time is lost is on top, job by job, longest first", async () => {
	const none = {job_id: null, processes: 2, says: "no cause found: 71 % waits for the GPU", causes: []};
	const lost = {job_id: "4711", processes: 4, says: "",
		causes: [cause(75), cause(120, {cause: "idle", sure: "likely"})]};
	const server = await fake(await snapshot({why: []})), page = await open(server.url);
	await is(page, "#glance", /GPU memory/);
	assert.equal(await page.locator("#why").isVisible(), false);
	server.set({why: [lost, none]});
	await is(page, "#why h3 >> nth=0", /^Job 4711$/);
	assert.deepEqual(await page.locator("#why .share").allInnerTexts(), ["75 %", "120 %"]);
	assert.equal(await page.locator("#why .what").first().innerText(), "Is lost to a rank that does not come");
	assert.match(await page.locator("#why ol li").first().innerText(),
		/Next: look at that process\s+zernel_nccl_missing_rank_seconds$/);
	assert.match(await page.locator("#why .what").nth(1).innerText(), /\(another explanation is possible\)$/);
	assert.equal(await page.locator("#why h3").nth(1).innerText(), "Processes of no job");
	assert.match(await page.locator("#why ul > li").nth(1).innerText(), /no cause found: 71 %/);
	assert.ok(await page.evaluate(() =>
		document.querySelector("#why").offsetTop < document.querySelector("#glance").offsetTop));
	server.set({why: [{...lost, job_id: HOSTILE[0],
		causes: [cause(9, {says: HOSTILE[0], next: HOSTILE[1], metric: HOSTILE[0]})]}]});
	await until(async () => (await page.locator("#why h3").allInnerTexts()).length === 1, "one job");
	assert.match(await page.locator("#why").textContent(), /onerror=alert\(1\)>/);
	assert.equal(await page.locator("img").count(), 0);
	server.set({why: []});
	await until(async () => !(await page.locator("#why").isVisible()), "nobody has launched anything");
});

test("the odd rank is the one that is missing, late, or far from most others", async () => {
	const page = await open((await fake(await snapshot())).url);
	const table = [
		["all alike", [{gpu: 0.5}, {gpu: 0.6}, {gpu: 0.55}], {}, []],
		["one is far", [{gpu: 0.9}, {gpu: 0.9}, {gpu: 0.2, data: 0.7}, {gpu: 0.9}], {},
		[[3, "waits for the GPU 20.0 % of its time, the others 90.0 %"]]],
		["of two neither", [{gpu: 0.9}, {dist: 0.9}], {}, []],
		["two kinds", [{gpu: 0.9}, {gpu: 0.9}, {data: 0.9}, {data: 0.9}], {}, []],
		["late", [{gpu: 0.5}, {gpu: 0.5}], {late_pid: 2}, [[2, "comes late, the others wait for it"]]],
		["missing", [{dist: 0.9}, {other: 1}], {missing_pid: 2, late_pid: 2}, [[2, "does not come, the others wait for it"]]],
		["not measured", [null, null, null], {}, []],
	];
	for (const [name, shares, w, wanted] of table) {
		const processes = shares.map((of, i) =>
			({pid: i + 1, stalls: of && stalls({cpu: 0, gpu: 0, data: 0, dist: 0, ...of})}));
		assert.deepEqual(await page.evaluate(([p, of]) => [...oddRanks(p, of)], [processes, w]), wanted, name);
	}
	const many = times(1024, (i) => ({pid: i + 1, stalls: stalls({cpu: 0, dist: 0, data: i === 700 ? 0.8 : 0,
		gpu: i === 700 ? 0.1 : 0.5 + (i % 10) / 50})}));
	const [odd, sorts] = await page.evaluate((p) => {
		const {sort} = Array.prototype;
		let n = 0;
		Array.prototype.sort = function (...by) {
			n++;
			return sort.apply(this, by);
		};
		const found = [...oddRanks(p, {})];
		Array.prototype.sort = sort;
		return [found, n];
	}, many);
	assert.deepEqual(odd, [[701, "waits for data 80.0 % of its time, the others 0 %"]]);
	assert.ok(sorts < 10, `each state is sorted once, and not for each rank: ${sorts}`);
});

test("the bands of a job are as high as the figures of /why, and go on with each step", async () => {
	const s = await snapshot(), lines = {gpu: [50, null, 0, 40], hang: [0, null, 100, 0], input_cpu: [10, null, 0, 30],
		communication: [0, null, 0, 5],
		of_tomorrow: [7, null, 0, 0]};
	const w = {job_id: "4711", processes: 4, says: "43 % of the time is lost", state: "loses", lost_percent: 43,
		progress_age_s: 0.5, missing_pid: null,
		missing_rank: null, late_pid: null, causes: [cause(43)], steps: 4, step: {gpu: 40, input_cpu: 30, communication: 5},
		bands: ""};
	const server = await fake({...s, why: [w]}, {timelines: [{...w, timeline: {step_s: 5, steps: 4, ...lines}}]});
	const page = await open(server.url), frame = page.locator("#why .frame");
	const bands = () => page.evaluate(() =>
		Object.fromEntries([...document.querySelectorAll("#why svg.bands path")].map((n) =>
		[n.getAttribute("class"), [...(n.getAttribute("d") || "").matchAll(/M(\d+) \d+h1v(-?\d+)/g)].map((m) =>
		[Number(m[1]) - 176, Math.abs(m[2])])])));
	await is(page, "#why .job-state", /^loses 43 %$/);
	const {known, gpu, data, dist, hang, other} = await bands();
	assert.deepEqual(known.map(([x]) => x), [0, 2, 3], "a step that is not known is a gap");
	assert.deepEqual({gpu, data, dist, hang, other}, {gpu: [[0, 50], [3, 40]], data: [[0, 10], [3, 30]], dist: [[3, 5]],
		hang: [[2, 100]], other: [[0, 7]]});
	assert.equal(new Set(await page.locator("#why .timeline .keys span:visible i").evaluateAll((all) =>
		all.map((i) => getComputedStyle(i).background))).size, 6, "each in its colour");
	server.set({why: [{...w, steps: 6, step: {idle: 100}}]});
	await until(async () => (await bands()).other.length === 2, "the next step");
	assert.deepEqual((await bands()).known.map(([x]) => x), [-2, 0, 1, 3], "the step between was not told of");
	await frame.focus();
	await page.keyboard.press("End");
	assert.match(await frame.getAttribute("aria-valuetext"), /: idle 100 %$/);
	for (const [key, wanted] of [["ArrowLeft", /: not known$/],
		["ArrowLeft", /: gpu 40 %, input cpu 30 %, communication 5 %$/], ["Home", /: not known$/]]) {
		await page.keyboard.press(key);
		assert.match(await frame.getAttribute("aria-valuetext"), wanted);
	}
	await page.locator("#why .timeline summary").focus();
	await page.keyboard.press("Enter");
	await until(async () => (await page.locator("#why .timeline tbody tr").count()) === 15, "a row for each minute");
	await is(page, "#why .timeline tbody tr", /^0\s+\d+ %/);
	await page.locator("#why .narrower").first().focus();
	await page.keyboard.press("Enter");
	assert.equal(await page.locator("#filter").inputValue(), "job:4711", "the metric leads to its processes");
});

test("a job without a process for a moment keeps its 15 minutes, with a gap", async () => {
	const s = await snapshot(), w = {job_id: "4711", processes: 1, says: "no cause found", state: "runs",
		lost_percent: 0, progress_age_s: null, missing_pid: null, missing_rank: null, late_pid: null, causes: [], steps: 3,
		step: {gpu: 40}, bands: "", labels: []};
	const server = await fake({...s, why: [w]}, {timelines: [{...w, timeline: {step_s: 5, steps: 3, gpu: [50, 60, 70]}}]});
	const page = await open(server.url);
	const known = () => page.evaluate(() => [...(document.querySelector("#why .known")?.getAttribute("d") || "")
		.matchAll(/M(\d+) /g)].map((m) => 179 - m[1]));
	assert.deepEqual(await known(), [2, 1, 0]);
	server.set({why: []});
	await until(async () => !(await page.locator("#why").isVisible()), "no process");
	server.set({why: [{...w, steps: 6}]});
	await until(async () => (await known()).length, "it is back");
	assert.deepEqual(await known(), [5, 4, 3, 0]);
	const others = Array.from({length: 300}, (_, i) => ({...w, job_id: `${i}`, steps: 1}));
	server.set({why: others});
	await until(async () => (await page.locator("#why li[data-state]").count()) === 300, "many others");
	server.set({why: [{...w, steps: 7}]});
	await until(async () => (await page.locator("#why li[data-state]").count()) === 1, "it is alone");
	assert.deepEqual(await known(), [0], "there was no more room for it");
});

test("what a job says of itself stands with it, and at each moment of its 15 minutes", async () => {
	const s = await snapshot(), ms = (ago) => s.last_update_ms - ago * 5000, label = (key, value, ago) =>
		({key, value, pid: 7, at_ms: ms(ago)});
	const w = {job_id: "4711", processes: 4, says: "no cause found", state: "runs", lost_percent: 0, progress_age_s: 0.5,
		missing_pid: null, missing_rank: null,
		late_pid: null, causes: [], steps: 40, step: {gpu: 40}, bands: "",
		labels: [label("phase", "evaluation", 10), label("constructor", HOSTILE[0], 5), label("step", "29", 6)]};
	const steps = Array.from({length: 30}, (_, i) => label("step", String(i), 35 - i));
	const server = await fake({...s, why: [w]},
		{timelines: [{...w, timeline: {step_s: 5, steps: 40, gpu: new Array(40).fill(40)},
		label_changes: [label("phase", "train", 30), ...steps, label("phase", "evaluation", 10),
		label("constructor", HOSTILE[0], 5)]}]});
	const page = await open(server.url), frame = page.locator("#why .frame"), said = page.locator("#why .said").first();
	await is(page, "#why p.said", /^It says of itself: phase=evaluation constructor=/);
	assert.match(await said.textContent(), /onerror=alert\(1\)>/);
	assert.equal(await page.locator("img").count(), 0);
	const marked = () => page.evaluate(() =>
		[...(document.querySelector("#why path.said").getAttribute("d") || "").matchAll(/M(\d+) /g)].map((m) => 179 - m[1]));
	assert.deepEqual(await marked(), [30, 10, 5], "where it changed, but for what changes at each step");
	await frame.focus();
	for (const [key, wanted] of [["End", /: gpu 40 %; it said phase=evaluation step=29 constructor=/],
		["PageUp", /; it said phase=train step=2\d$/],
		["PageUp", /; it said phase=train step=1\d$/], ["Home", /: not known$/]]) {
		await page.keyboard.press(key);
		assert.match(await frame.getAttribute("aria-valuetext"), wanted);
	}
	server.set({why: [{...w, steps: 41, labels: [label("phase", "train", -1)]}], last_update_ms: ms(-1)});
	await is(page, "#why p.said", /^It says of itself: phase=train$/);
	await until(async () => (await marked()).length === 5, "it changed, and one label is gone");
	server.set({why: [{...w, steps: 42, labels: []}], last_update_ms: ms(-2)});
	await until(async () => !(await said.isVisible()), "nothing more is said");
	await accessible(page, "labels");
});

test("the worst jobs are open, the others a line, and each rank has a row", async () => {
	const s = await snapshot(), states = ["runs", "idle", "warned", "hangs", "still", "critical", "loses"];
	s.processes.slice(0, 4).forEach((p, i) =>
		Object.assign(p, {job_id: "hangs", stalls: stalls({gpu: 0, cpu: 0, data: 0, dist: i === 2 ? 0 : 0.9}),
		nccl: {...p.nccl, comms: [{comm: "a", rank: i, nranks: 4, issued: 100 + i, late_s: i}]}}));
	s.why = states.map((state) =>
		({job_id: state, processes: 4, says: `says ${state}`, state, lost_percent: 43, progress_age_s: 70.2,
		missing_pid: null,
		missing_rank: null, late_pid: null, causes: [], steps: 0, step: null, bands: ""}));
	Object.assign(s.why[states.indexOf("hangs")], {missing_pid: s.processes[2].pid, missing_rank: 2});
	Object.assign(s.why[states.indexOf("still")], {missing_pid: 987654, missing_rank: 7});
	const page = await open((await fake(s)).url);
	assert.deepEqual(await page.locator("#why .job-state").allInnerTexts(),
		["hangs", "stands still for 1 min 10 s", "in trouble", "loses 43 %", "runs, with a warning", "idle", "running fine"]);
	assert.deepEqual(await page.locator("#why li > details").evaluateAll((all) => all.map((n) => n.open)),
		[true, true, true, false, false, false, false]);
	const ranks = page.locator("#why li").first().locator(".ranks tbody tr");
	assert.equal(await ranks.count(), 4);
	assert.equal(await page.locator("#why li").first().locator("tr.odd").innerText().then((t) =>
		/Rank 2 · .*Does not come.*102/s.test(t)), true);
	assert.deepEqual(await ranks.first().locator("rect").evaluateAll((all) =>
		all.map((n) => Number(n.getAttribute("width")))), [0, 0, 0, 0, 90, 0, 0, 0, 0, 0]);
	assert.match(await page.locator("#why li").nth(1).locator("tr.odd").innerText(), /Rank 7 · 987654/);
	await page.locator("#why li > details > summary").last().focus();
	await page.keyboard.press("Enter");
	await until(async () => (await page.locator("#why li").last().locator(".timeline").isVisible()), "opened by keyboard");
	await until(async () => (
		await page.locator("#why .brief").allInnerTexts()).join() === ",,,says loses,says warned,says idle,",
		"a sentence beside what is closed");
	assert.equal(await page.locator("#why li").nth(1).locator("svg.shares").isVisible(), false,
		"a process that is gone has no bar");
	await accessible(page, "cards of jobs");
	await shot(page, "cards");
});

// What a rank of a job in trouble waits for: its bar in words, and the words of the legend that are shown.
const barOf = (page, i) => page.locator("#why svg.shares").nth(i).getAttribute("aria-label");
const legendOf = (page) => page.locator("#why .ranks .keys span:visible").allInnerTexts();
const troubled = async (state, stallsOf, more = {}) => {
	const s = await snapshot(), mine = s.processes.slice(0, 4);
	mine.forEach((p, i) => Object.assign(p,
		{job_id: "4711", stalls: stalls({cpu: 0, data: 0, dist: 0, gpu: 0.9, stopped: null, waits_for_pid: null,
		all_wait: false,
		...stallsOf(p, i, mine)}), nccl: {...p.nccl, comms: [{comm: "a", rank: i, nranks: 4, issued: 100, late_s: 0}]}}));
	s.why = [{job_id: "4711", processes: 4, says: "", state, lost_percent: 75, progress_age_s: 20, missing_pid: null,
		missing_rank: null, late_pid: null,
		causes: [cause(75)], steps: 0, step: null, bands: "", ras: null, ...more(mine)}];
	return {...s, processes: mine, jobs: []};
};

test("a wait for a rank is shown as that, and never as a wait for the GPU", async () => {
	const hangs = await troubled("hangs", (p, i, all) => (i === 2 ? {gpu: 0, other: 1} : {waits_for_pid: all[2].pid}),
		(all) => ({missing_pid: all[2].pid, missing_rank: 2}));
	const page = await open((await fake(hangs)).url);
	assert.match(await barOf(page, 0), /^waits for a rank that does not come 90\.0 %, gpu 0 %, dist 0 %/);
	assert.match(await barOf(page, 2), /^gpu 0 %.*other 100 %$/);
	assert.equal((await legendOf(page))[0], "waits for a rank that does not come");
	assert.match(await page.locator("#why tr.odd").innerText(), /Rank 2 .*Does not come, the others wait for it/s);
	await toggle(page, hangs.processes[0].pid).click();
	assert.deepEqual(await page.locator(".stalls .meter div").evaluateAll((all) =>
		all.filter((n) => parseFloat(n.style.width)).map((n) => n.className)), ["hang"]);
	await accessible(page, "a hang");
	const wait = await open((await fake(await troubled("waits", () => ({all_wait: true}), () => ({})))).url);
	await is(wait, "#why .job-state", /^all its ranks wait$/);
	assert.match(await barOf(wait, 3), /^waits with all others, for the GPU or another node 90\.0 %, gpu 0 %/);
	const fine = await open((await fake(await troubled("loses", () => ({}), () => ({})))).url);
	assert.match(await barOf(fine, 0), /^gpu 90\.0 %, dist 0 %/);
	assert.equal((await legendOf(fine))[0], "waits for the GPU");
});

test("a process that cannot go on is marked, and why", async () => {
	const kinds = ["signal", "frozen", "uninterruptible", "of tomorrow"];
	const page = await open((await fake(await troubled("stopped", (p, i) => ({stopped: kinds[i]}), () => ({})))).url);
	await is(page, "#why .job-state", /^is stopped$/);
	assert.deepEqual(await page.locator("#why .odd-why:visible").allInnerTexts(),
		["Is stopped by a signal or a debugger", "Is in a frozen control group",
		"Is in uninterruptible sleep (state D)"]);
	assert.match(await barOf(page, 0), /^cannot go on 90\.0 %, gpu 0 %/);
	assert.match(await barOf(page, 2), /^gpu 90\.0 %/);
	await accessible(page, "a job that is stopped");
});

test("what NCCL's RAS service says has its place, with the ranks that stand out", async () => {
	const ras = {outcome: "answered", address: "127.0.0.1:28028", says: HOSTILE[0], bytes: 4711};
	const odd = [{rank: 9, host: "10.0.0.7", pid: 4711, state: "behind", issued: 4, fewer: 3},
		{rank: null, host: HOSTILE[1], pid: 0, state: "of tomorrow", issued: 0, fewer: 0}];
	const s = await troubled("hangs", () => ({}), () => ({ras})), [w] = s.why;
	const server = await fake(s,
		{timelines: [{...w, ras: {...ras,
		communicators: [{hash: "1", size: 16, heard: 15, odd: 12, most: 7, ranks: odd}]}}]});
	const page = await open(server.url), panel = page.locator("#why .other-nodes");
	assert.match(await panel.innerText(), /Other nodes\s*NCCL's RAS service says: <img/);
	await panel.locator("summary").focus();
	await page.keyboard.press("Enter");
	await is(page, "#why .other-nodes caption",
		/^Of 16 ranks 15 have said what they issued; 12 stand out, of which the first 2 are shown$/);
	assert.deepEqual(await panel.locator("tbody tr").evaluateAll((all) =>
		all.map((n) => [...n.cells].map((c) => c.textContent))),
		[["9", "10.0.0.7", "4711", "has issued fewer collectives", "4", "3"],
		["–", HOSTILE[1], "–", "of tomorrow", "–", "–"]]);
	await is(page, "#why .other-nodes > p",
		/^Asked once for each episode, at 127\.0\.0\.1:28028: answered, 4\.71k bytes$/);
	assert.equal(await page.locator("img").count(), 0);
	await accessible(page, "what RAS says");
	server.timelines = [{...w, ras: {...ras, communicators: []}}];
	server.set({why: [{...w, ras: {...ras, outcome: "no_answer",
		says: "NCCL's RAS service at 127.0.0.1:28028: it does not answer"}}]});
	await is(page, "#why .other-nodes summary", /Other nodes\s*NCCL's RAS service at .*it does not answer$/);
	await is(page, "#why .other-nodes .scroll", /No rank of this job stands out/);
	server.set({why: [{...w, ras: null}]});
	await until(async () => !(await panel.isVisible()), "nothing is suspected");
});

test("the jobs stand before the alerts, and a line says how many fire", async () => {
	const s = await troubled("hangs", () => ({}), () => ({}));
	s.alerts = [at({severity: "warning", pid: "1"}), at({pid: "2"}), at({state: "pending", pid: "3"})];
	const server = await fake(s), page = await open(server.url);
	await is(page, "#firing", /^2 alerts fire, 1 of them critical$/);
	assert.ok(await page.evaluate(() =>
		document.querySelector("#why").offsetTop < document.querySelector("#alerts").offsetTop));
	assert.deepEqual(await page.locator("#alerts .what").allInnerTexts(),
		["gpu_oom_warning on GPU 3, process 2", "gpu_oom_warning on GPU 3, process 1",
		"gpu_oom_warning on GPU 3, process 3"]);
	await page.locator("#firing a").focus();
	await page.keyboard.press("Enter");
	await until(() => page.evaluate(() => document.activeElement.id === "alerts"), "it leads there");
	server.set({alerts: [at({severity: "warning"})]});
	await is(page, "#firing", /^1 alert fires$/);
	server.set({alerts: []});
	await until(async () => !(await page.locator("#firing").isVisible()), "none fires");
});

test("an alert that fires is loud, one that is pending is calm, none is not there", async () => {
	const server = await fake(await snapshot()), page = await open(server.url);
	assert.equal(await page.locator("#alerts").isVisible(), false);
	server.set({alerts: [at({state: "pending"})]});
	await is(page, "#alerts li", /pending.*gpu_oom_warning on GPU 3/is);
	assert.equal(await page.locator("#alerts [role=alert]").count(), 0);
	const calm = await page.locator("#alerts li").evaluate((n) => getComputedStyle(n).backgroundColor);
	server.set({alerts: [at({since_ms: server.current.last_update_ms - 74000})]});
	await is(page, "#alerts [role=alert]", /firing.*gpu_oom_warning on GPU 3/is);
	assert.match(await text(page, "#alerts li"),
		/nearly full: 96\.2 %, limit 95\.0 %\s+since \d\d:\d\d:\d\d, 1 min 14 s/);
	assert.notEqual(await page.locator("#alerts li").evaluate((n) => getComputedStyle(n).backgroundColor), calm);
	assert.match(await page.title(), /^\(1 firing\) /);
	assert.equal(await page.locator("#gpus li.firing h3").innerText(), "GPU 3");
	server.set({alerts: [at({alert: "gpu_idle", state: "pending"}), at()]});
	await is(page, "#alerts li:nth-child(2)", /pending/i);
	assert.equal(await page.locator("#gpus li.firing h3").innerText(), "GPU 3", "whichever is told first");
	assert.ok(await page.evaluate(() =>
		document.querySelector("#alerts").offsetTop < document.querySelector("#gpus").offsetTop));
	server.set({alerts: []});
	await until(async () => !(await page.locator("#alerts").isVisible()), "no alert");
	assert.doesNotMatch(await page.title(), /firing/);
});

test("what an alert measures is written as its rule writes it, and its description is no label", async () => {
	const server = await fake(await snapshot()), page = await open(server.url);
	server.set({alerts: [at({alert: "requests_unread", pid: "7", gpu_id: undefined, value: 0.25, threshold: 0.1,
		unit: "seconds", summary: "requests lie unread", description: "Call the storage team."})]});
	await is(page, "#alerts li", /requests_unread on process 7\s+requests lie unread: 250 ms, limit 100 ms\s+since [^]*Call the storage/);
	const row = await page.locator("#alerts li").elementHandle();
	server.set({alerts: [at({alert: "requests_unread", pid: "7", gpu_id: undefined, value: 3, threshold: 0.5,
		unit: undefined, summary: "of no unit", description: "Call the network team."})]});
	await is(page, "#alerts li", /of no unit: 3, limit 0\.50\s+since [^]*Call the network team\./);
	server.set({alerts: [at({alert: "requests_unread", pid: "7", gpu_id: undefined, value: 3, threshold: null,
		summary: "of no limit", description: "Call nobody."})]});
	await is(page, "#alerts li", /\s+of no limit\s+since [^]*Call nobody\./);
	assert.ok(await row.evaluate((node) => node.isConnected), "a description that changes makes no other alert");
});

test("launches that were captured are none", async () => {
	const s = await snapshot(), [p] = s.processes;
	const launch = {...p.launch, count: 1200, errors: 1, kernel: 1000, graph: 500, cooperative: 0, captured: 3000};
	const page = await open((await fake({...s, processes: [{...p, launch}]})).url);
	await toggle(page, p.pid).click();
	await is(page, "tr.detail", /Launches\s+1,500, 1 failed\s+of them kernel\s+1,000\s+of them graph\s+500\s/);
	await is(page, "tr.detail", /Captured into graphs\s+3,000/);
});

test("the memory of GPUs whose size is not known is no share of the others", async () => {
	const s = await snapshot();
	const page = await open((await fake({...s, gpus: s.gpus.map((g, i) =>
		({...g, used_bytes: i ? 0 : 70 * GIB, total_bytes: i ? null : 80 * GIB}))})).url);
	await is(page, "#glance", /GPU memory\s+70\.0 GiB\s*of 80\.0 GiB on 1 of \d+\s/);
});

test("a daemon that stops is stale, one that is killed is gone, one that comes back is live", async () => {
	const port = String(await freePort()); // to which it comes back
	let source = await daemon("--simulate", "--metrics-port", port);
	const page = await open(source.url, {expected: NETWORK});
	const banner = page.locator("#dead");
	await is(page, "#link", /^live/);
	assert.equal(await banner.isVisible(), false);
	source.kill("SIGSTOP");
	await is(page, "#link", /^stale for \d+ s/);
	assert.match(await banner.innerText(), /says nothing any more\. The figures below are \d+ s old/);
	assert.ok(await page.evaluate(() => getComputedStyle(document.querySelector("main")).filter.includes("grayscale")));
	source.kill("SIGCONT");
	await is(page, "#link", /^live/);
	assert.equal(await banner.isVisible(), false);
	await source.kill9();
	await is(page, "#link", /^reconnecting/);
	assert.match(await banner.innerText(), /cannot be reached\. The figures below are .* old/);
	assert.equal(await page.locator("#dead [role=alert]").count(), 1);
	await shot(page, "dead");
	source = await daemon("--simulate", "--metrics-port", port);
	await is(page, "#link", /^live/);
	assert.equal(await banner.isVisible(), false);
});

test("a connection that is cut is made anew, and the history read again", async () => {
	const server = await fake(await snapshot()), page = await open(server.url, {expected: NETWORK});
	server.every(500, () => ({last_update_ms: Date.now()}));
	await page.evaluate(() => { // it says so for a second, in which nobody may look
		const state = document.querySelector("#state");
		window.statesSeen = [state.textContent];
		new MutationObserver(() => window.statesSeen.push(state.textContent)).observe(state, {childList: true});
	});
	for (let n = 1; n < 3; n++) {
		assert.equal(server.asked, n);
		server.drop();
		await until(() => page.evaluate((wanted) => window.statesSeen.at(-1) === "live" &&
			window.statesSeen.filter((word) => word === "reconnecting").length === wanted, n), `reconnecting, and live, ${n}`);
	}
});

const times = (n, of) => Array.from({length: n}, (_, i) => of(i));

test("charts begin with the history and go on with each new step", async () => {
	const s = await snapshot({alerts: []}), pid = s.processes[0].pid, end = Date.now();
	const step = (steps, rate) => ({last_update_ms: end + 1000 + 5000 * (steps - 7), history: {step_ms: 5000, steps},
		processes: s.processes.map((p) =>
		({...p, launch: {...p.launch, recent: rate && {rate, p50_us: 100, p99_us: 400}}}))});
	const history = {node: "vm", source: "simulated", step_ms: 5000, end_ms: end, gpus: [], processes: [{pid, comm: "x",
		rate: times(50, (i) => 100 + i), p50_us: times(50, () => 90), p99_us: times(50, (i) => (i < 10 ? null : 300))}]};
	const server = await fake({...s, ...step(7, 149)}, {history}), page = await open(server.url, {height: 3000});
	const chart = page.locator("tbody.process", {has: toggle(page, pid)}).locator("svg").first();
	const says = (wanted) => until(async () => wanted.test(await chart.getAttribute("aria-label")), `chart ${wanted}`);
	const points = async () =>
		(await chart.locator("path.first").getAttribute("d")).match(/[ML]\S+ \S+?(?=[LMh])/g).length;
	await says(/of 1000, last 15 minutes: latest 149\/s, lowest 100\/s, highest 149\/s/);
	assert.equal(await points(), 50);
	server.set(step(7, 149));
	server.set(step(8, 700));
	await says(/latest 700\/s, lowest 100\/s, highest 700\/s/);
	assert.equal(await points(), 51);
	server.set(step(10, 50));
	await says(/latest 50\/s, lowest 50\/s, highest 700\/s/);
	assert.equal(await points(), 52, "the step that was not told of is a gap");
	await until(async () => (await page.locator("path.first").first().getAttribute("d")).includes("M"), "lines");
});

test("without a history the charts begin with what is live", async () => {
	const s = await snapshot();
	delete s.history;
	s.processes.forEach((p) => delete p.launch.recent);
	const server = await fake(s), page = await open(server.url, {height: 3000});
	const chart = rows(page).first().locator("svg").first();
	await until(async () => /latest \d/.test(await chart.getAttribute("aria-label")), "a first point");
});

test("a row opens by keyboard, stays open and keeps the focus while figures change", async () => {
	const s = await snapshot(), server = await fake(s);
	const page = await open(server.url), pid = s.processes[2].pid, button = toggle(page, pid);
	server.every(250, () => ({last_update_ms: Date.now()}));
	await button.focus();
	await page.keyboard.press("Enter");
	assert.equal(await button.getAttribute("aria-expanded"), "true");
	const box = page.locator(`#${await button.getAttribute("aria-controls")}`);
	assert.match(await box.innerText(), /all-reduce\s+\d+\s+\d.*GiB\s+0\s+\d.* ms/);
	assert.match(await box.innerText(), /rank 2 of 4 in [0-9a-f]{16}/);
	assert.match(await box.innerText(), /Pinned host memory\s+512 MiB/);
	assert.match(await box.innerText(), /Where the time of its launching threads goes\s+rank 2 .* % of its time/);
	assert.equal(await box.locator("svg").count(), 2);
	const now = await page.getAttribute("main", "data-shown");
	await until(async () => Number(await page.getAttribute("main", "data-shown")) > Number(now) + 500, "more snapshots");
	assert.equal(await page.evaluate(() => document.activeElement.innerText), String(pid));
	await box.locator("svg").first().hover();
	assert.match(await box.locator(".read").first().innerText(), / ago: /);
	await page.keyboard.press("Space");
	assert.equal(await button.getAttribute("aria-expanded"), "false");
	assert.equal(await box.count(), 0);
});

test("text that is selected keeps no row from its keys, and a row stays as it is while its text is selected", async () => {
	const s = await snapshot(), page = await open((await fake(s)).url), pid = s.processes[2].pid;
	const button = toggle(page, pid), name = page.locator("tbody.process", {has: button}).locator("td.comm");
	await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("#facts")));
	await button.focus();
	for (const [key, wanted] of [["Enter", "true"], ["Space", "false"]]) {
		assert.notEqual(await page.evaluate(() => String(getSelection())), "");
		await page.keyboard.press(key);
		assert.equal(await button.getAttribute("aria-expanded"), wanted, key);
	}
	await name.dblclick();
	assert.notEqual(await page.evaluate(() => String(getSelection())), "", "a word is selected");
	const opened = await button.getAttribute("aria-expanded");
	const box = await name.boundingBox();
	await page.mouse.move(box.x + 12, box.y + box.height / 2);
	await page.mouse.down();
	await page.mouse.move(box.x + 60, box.y + box.height / 2, {steps: 4});
	await page.mouse.up();
	assert.equal(await button.getAttribute("aria-expanded"), opened, "whoever selects opens nothing");
});

test("columns sort and the filter filters", async () => {
	const s = await snapshot();
	s.processes.forEach((p, i) => Object.assign(p, {comm: i === 3 ? "trainer" : "python3", job_id: i < 2 ? "48213" : ""}));
	const page = await open((await fake(s)).url), pids = () =>
		page.locator("tbody.process:visible .toggle").allInnerTexts();
	const byPid = s.processes.map((p) => String(p.pid));
	await page.getByRole("button", {name: "PID", exact: true}).click();
	assert.deepEqual(await pids(), byPid);
	await page.getByRole("button", {name: "PID", exact: true}).focus();
	await page.keyboard.press("Enter");
	assert.deepEqual(await pids(), [...byPid].reverse());
	assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "PID");
	await page.getByRole("button", {name: "Launches/s"}).click();
	const rates = [...s.processes].sort((a, b) => b.launch.rate - a.launch.rate).map((p) => String(p.pid));
	assert.deepEqual(await pids(), rates);
	for (const [wanted, found] of [["trainer", 1], ["48213", 2], [byPid[5], 1], ["", 8]]) {
		await page.fill("#filter", wanted);
		assert.equal((await pids()).length, found, `filter ${wanted}`);
	}
	await page.fill("#filter", "nothing like it");
	assert.match(await text(page, "#processes .empty"), /No process has this/);
});

test("jobs are shown with their GPUs, and those that nobody uses are marked", async () => {
	const unused = [jobGpu("0", 100, 800, 725.3), jobGpu("1", 300, 100, 3), jobGpu("2", 0, 900, 900), jobGpu("3", 0, 0)];
	const steps = [{name: "batch", running: true, cpu_seconds: 95, memory_peak_bytes: 3 * 2 ** 30},
		{name: "0", running: false, cpu_seconds: null, memory_peak_bytes: null}];
	const jobs_ = [job({steps, gpu_utilization: 0.87}), job({job_id: "4712", user: "", gpus: unused}),
		job({job_id: "4713", state: "ending", gpus: unused}),
		job({job_id: "4700", state: "ended", restart: 2, user: "", uid: null, account: "", partition: "", name: "", nodes: "",
			end_ms: 1711800100000, elapsed_s: 100, gpus: []})];
	const server = await fake(await snapshot({jobs: []})), page = await open(server.url), line_ = (i) =>
		page.locator("#jobs tbody").nth(i);
	const texts = async (i) => (await line_(i).locator("td").allInnerTexts()).map((t) => t.replace(/\s+/g, " ").trim());
	assert.equal(await page.locator("#jobs").isVisible(), false);
	server.set({jobs: jobs_});
	await is(page, "#idle", /^2 GPUs are not used by the jobs that have them\.$/);
	assert.deepEqual(await texts(0), ["4711", "running", "user1000", "lab", "gpu", "train", "4", "2 h 5 min", "–", "–",
		"87.0 %", "–", "8", "123M", "7.00 GiB",
		"GPU 0 75.0 % busy, peak 40.0 GiB GPU 1 50.0 % busy, peak 40.0 GiB",
		"step batch 1 min 35 s of CPU time, 3.00 GiB at most step 0 (ended) – of CPU time, – at most"]);
	assert.deepEqual((await texts(1)).slice(2), ["1000", "lab", "gpu", "train", "4", "2 h 5 min", "–", "–", "–", "–",
		"8", "123M", "7.00 GiB",
		"GPU 0 idle for 12 min 5 s GPU 1 75.0 % busy, peak 40.0 GiB GPU 2 idle since it began GPU 3 peak 40.0 GiB", ""]);
	assert.deepEqual(await page.locator("#jobs li.idle").allInnerTexts(),
		["GPU 0 idle for 12 min 5 s", "GPU 2 idle since it began"]);
	assert.deepEqual(await texts(3), ["4700", "ended, restart 2", "–", "–", "–", "–", "–", "1 min 40 s", "–", "–", "–", "–",
		"8", "123M", "7.00 GiB", "", ""]);
	assert.match(await line_(3).locator("td").nth(7).getAttribute("title"), /^\d\d:\d\d:\d\d to \d\d:\d\d:\d\d$/);
	assert.equal(await line_(0).locator("td").nth(12).getAttribute("title"), "and 1,234 that have gone");
	assert.deepEqual(await page.locator("#gpus .cards > li").evaluateAll((all) =>
		all.map((n) => n.querySelector(".wrong").innerText)),
		["Not used by its job: 4712", "", "Not used by its job: 4712", ""]);
	server.set({jobs: [job({gpus: [jobGpu("0", 0, 60, 60)]})]});
	await is(page, "#idle", /^1 GPU is not used by the job that has it\.$/);
	server.set({jobs: [job()]});
	await until(async () => (await page.locator("#idle").innerText()) === "", "nothing idle");
	server.set({jobs: []});
	await until(async () => !(await page.locator("#jobs").isVisible()), "no job");
});

test("the number of a job leads to its processes, and to no others", async () => {
	const s = await snapshot({jobs: [job({job_id: "4711"}), job({job_id: "47"})]});
	s.processes.forEach((p, i) => Object.assign(p, {job_id: i < 3 ? "4711" : i < 5 ? "47" : ""}));
	const page = await open((await fake(s)).url), pids = () => page.locator("tbody.process:visible .toggle").count();
	await page.getByRole("button", {name: "47, show only its processes", exact: true}).click();
	assert.equal(await page.inputValue("#filter"), "job:47");
	assert.equal(await pids(), 2);
	await page.getByRole("button", {name: "4711, show only its processes"}).focus();
	await page.keyboard.press("Enter");
	assert.equal(await pids(), 3);
	await page.fill("#filter", "47");
	assert.equal(await pids(), 5, "what is typed is looked for anywhere");
	await page.fill("#filter", "");
	assert.equal(await pids(), 8);
});

const HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "\"quoted\" & 'so'",
	"a\nb\u202e\u0007", "\ufffd\ufffd",
	")( 1 2 3", "__proto__", "{{7*7}}"];

const text_ = (locator) => locator.textContent();
const lineOf = (locator) => locator.evaluate((n) => [...n.cells].map((c) => c.textContent));

test("file I/O is by job and mount, the busiest first, with its operations below", async () => {
	const quiet = flow({job_id: "", mount: "/quiet", read_bytes_per_s: 0, write_bytes_per_s: 0, ops: {}});
	const page = await open((await fake(await snapshot({io: [quiet, flow(),
		flow({mount: "/fast", write_bytes_per_s: 5 * GIB}),
		flow({fstype: "ext4", read_bytes_per_s: 1})]}))).url), line = (i) => lineOf(page.locator("#io tr.row").nth(i));
	assert.equal(await text(page, "#flows"), "4");
	assert.deepEqual(await page.locator("#io .scroll > table > thead th").allTextContents(),
		["Mount", "Job", "Type", "Read/s", "Written/s", "Calls/s",
		"Read p99", "Write p99", "fsync p99", "Failed"]);
	assert.deepEqual(await line(0), ["/fast", "4711", "nfs4", "3.00 MiB", "5.00 GiB", "15", "450 µs", "25 µs", "–", "3"]);
	assert.deepEqual(await line(1), ["/data", "4711", "nfs4", "3.00 MiB", "512 B", "15", "450 µs", "25 µs", "–", "3"]);
	assert.deepEqual(await line(2), ["/data", "4711", "ext4", "1 B", "512 B", "15", "450 µs", "25 µs", "–", "3"]);
	assert.deepEqual(await line(3), ["/quiet", "–", "nfs4", "0 B", "0 B", "0", "–", "–", "–", "0"]);
	assert.equal(await page.locator("#io tr.detail:visible").count(), 0);
	const button = page.getByRole("button", {name: "/data, details of job 4711"}).first();
	await button.focus();
	await page.keyboard.press("Enter");
	assert.equal(await button.getAttribute("aria-expanded"), "true");
	const detail = page.locator("#io tr.detail:visible");
	assert.match(await detail.innerText(), /read 123 GiB, written 2\.00 KiB, mapped 4\.00 KiB, copied 0 B/);
	assert.deepEqual(await detail.locator("tbody tr").evaluateAll((all) =>
		all.map((n) => [...n.cells].map((c) => c.textContent))),
		[["read", "12,345", "12.5", "2", "8 µs", "450 µs"], ["write", "9", "2.50", "1", "1 µs", "25 µs"],
		["fsync", "4", "0", "0", "–", "–"]]);
	await button.click();
	assert.equal(await detail.count(), 0);
});

test("rows of file I/O stay while somebody reads them, and no more are shown than can be", async () => {
	const s = await snapshot({io: [flow({mount: "/a"}), flow({mount: "/b", read_bytes_per_s: 1})]});
	const server = await fake(s), page = await open(server.url), mounts = () =>
		page.locator("#io .toggle").allTextContents();
	await page.locator("#io .toggle").nth(1).click();
	const long = Date.now() + 7000;
	server.every(500, () => ({last_update_ms: Date.now(),
		io: [flow({mount: "/a"}), flow({mount: "/b", read_bytes_per_s: 5 * GIB})]}));
	await until(() => Date.now() > long, "more than five seconds");
	assert.deepEqual(await mounts(), ["/a", "/b"]);
	assert.equal(await page.locator("#io tr.detail:visible").count(), 1);
	await page.locator("#filter").focus();
	await until(async () => (await mounts()).join() === "/b,/a", "the order of now");
	const crowd_ = await open(
		(await fake(await snapshot({io: times(230, (i) => flow({mount: `/m${i}`, read_bytes_per_s: i}))}))).url);
	assert.equal(await text(crowd_, "#flows"), "the 100 busiest of 230");
	assert.equal(await crowd_.locator("#io tr.row").count(), 100);
	assert.equal(await text(crowd_, "#io .toggle"), "/m229");
});

test("signals stand beside the launches, and what is not measured is a dash", async () => {
	const s = await snapshot({gpu_ioctl: {busy_s: 2, contended_s: 1, contention: 0.4}});
	s.processes = s.processes.slice(0, 3);
	s.processes[0].signals = {syscalls: {per_launch: 3.75, mmap_churn: 0.5}, ioctl: {count: 9, p99_us: 541}, tcp: null,
		sched: {switches_per_launch: null, migration_rate: 0, runqueue: {count: 0, p99_us: 0}}};
	s.processes[1].signals = {syscalls: null, ioctl: null, sched: null,
		tcp: {sent_rate: 2048, received_rate: 0, retransmits: 1234}};
	for (const p of s.processes)
		Object.assign(p.launch, {rate: 9, recent: p === s.processes[1] ? null : {rate: 100, p50_us: 7, p99_us: 250}});
	s.processes[2].anomalies = {launch_p99: 12.25, syscalls: -8};
	const server = await fake(s), page = await open(server.url);
	const line = (p) => lineOf(page.locator("#signals tbody tr", {has: page.locator(`td:text-is("${p.pid}")`)}));
	const [a, b, c] = s.processes;
	assert.deepEqual((await line(a)).slice(2), ["100", "250 µs", "3.75", "541 µs", "–", "0", "–", "50.0 %", "–", "–", "–",
		"–"]);
	assert.deepEqual((await line(b)).slice(2), ["9", "–", "–", "–", "–", "–", "–", "–", "2.00 KiB", "0 B", "1,234", "–"]);
	assert.equal((await line(c)).at(-1), "launch p99 +12.3, syscalls -8.0");
	assert.match(await text(page, "#contention"), /at once for 40\.0 % of the time/);
	assert.deepEqual(await page.locator("#signals tbody td:first-child").allTextContents(),
		await page.locator("#processes .toggle").allTextContents());
	await page.fill("#filter", String(c.pid));
	assert.equal(await page.locator("#signals tbody tr:visible").count(), 1);
	server.set({gpu_ioctl: {busy_s: 2, contended_s: 1, contention: null}});
	await is(page, "#contention", /^Nobody was in the GPU's driver/);
	await page.fill("#filter", "");
	server.set({gpu_ioctl: null,
		processes: s.processes.map((p) =>
		({...p, anomalies: null, signals: {syscalls: null, ioctl: null, sched: null, tcp: null}}))});
	await until(async () => !(await page.locator("#signals").isVisible()), "no signal is known");
});

test("names that users chose are text", async () => {
	const s = await snapshot({alerts: [at({gpu_id: HOSTILE[0], summary: HOSTILE[1]})], node: HOSTILE[0],
		jobs: HOSTILE.map((name, i) =>
		job({job_id: name, user: name, name, account: HOSTILE[0], state: i ? "running" : HOSTILE[0],
			gpus: [jobGpu(name, 0, 99, 99)]})), lost: {[HOSTILE[0]]: 3},
		probes: [{family: HOSTILE[0], state: HOSTILE[0], why: HOSTILE[1],
			libraries: [{path: HOSTILE[0], attached: 0, symbols: 0, why: HOSTILE[1]}]}],
		io: HOSTILE.map((name) =>
		flow({mount: name, job_id: name, fstype: name, read_bytes_per_s: 7,
		ops: {...flow().ops, [name]: flow().ops.read}}))});
	s.processes.forEach((p, i) =>
		Object.assign(p, {comm: HOSTILE[i], job_id: HOSTILE[(i + 1) % 8], anomalies: {[HOSTILE[i]]: 9}}));
	s.processes[0].gpus[0].gpu_id = s.gpus[0].gpu_id = "__proto__";
	const page = await open((await fake(s)).url);
	for (const p of s.processes)
		assert.equal(await page.locator("tbody.process", {has: toggle(page, p.pid)}).locator("td.comm").textContent(),
		p.comm);
	for (const button of await page.locator(".toggle").all())
		await button.click();
	assert.deepEqual(await page.locator("#io .toggle").evaluateAll((all) => all.map((n) => n.textContent)), HOSTILE);
	assert.match(await page.locator("#io tr.detail").first().textContent(), /onerror=alert\(1\)>/);
	assert.equal(await page.locator("#signals tbody td:nth-child(2)").first().textContent(),
		await text_(rows(page).first().locator("td.comm")));
	assert.equal(await page.locator("img").count(), 0);
	assert.equal(await page.locator("script").count(), 1);
	assert.equal(await page.locator("#node").textContent(), HOSTILE[0]);
	assert.match(await page.locator("#probes").textContent(), /onerror=alert\(1\)>/);
	assert.deepEqual(await page.locator("#jobs .narrower").evaluateAll((all) => all.map((n) => n.textContent)), HOSTILE);
	for (const button of await page.locator("#jobs .narrower").all())
		await button.click();
});

test("a name that turns the direction of text turns no figure beside it", async () => {
	const turned = "\u202egnp.train", s = await snapshot({servers: [inference({comm: turned})]});
	const page = await open((await fake(s)).url);
	await is(page, "#servers summary span", /process \d+/);
	assert.equal(await page.locator("#servers strong").textContent(), turned);
	assert.ok(await page.evaluate(() => {
		const range = document.createRange(), node = document.querySelector("#servers summary span").firstChild;
		const left = (i) => {
			range.setStart(node, i);
			range.setEnd(node, i + 1);
			return range.getBoundingClientRect().left;
		};
		return left(0) < left(4);
	}), "from left to right");
});

test("what is not measured, and what was lost, is said", async () => {
	const s = await snapshot(), page_of = await fake({...s, truncated: true, probes: [
		{family: "gpu_mem", state: "attached", why: "",
		libraries: [{path: "/lib/libcuda.so.1", attached: 24, symbols: 24, why: ""},
			{path: "/old/libcuda.so.1", attached: 0, symbols: 0, why: "it is no ELF file"}]},
		{family: "nccl", state: "unavailable", why: "Operation not permitted; needs CAP_BPF", libraries: []}]});
	const page = await open(page_of.url);
	assert.match(await text(page, "#probes"), /libcuda\.so\.1 24 of 24 functions hooked/);
	assert.match(await text(page, "#probes"), /\/old\/libcuda\.so\.1 not hooked: it is no ELF file/);
	assert.match(await text(page, "#probes"), /NCCL\s+unavailable\s+Operation not permitted; needs CAP_BPF/);
	assert.match(await text(page, "#lost"), /Nothing was lost\./);
	assert.match(await text(page, "#truncated"), /Cut short/);
	page_of.set({lost: {...s.lost, alloc: 12345}, truncated: undefined, version: "another"});
	await is(page, "#updated", /load it again/);
	await is(page, "#lost li", /^12,345 alloc$/);
	assert.equal(await page.locator("#truncated").isVisible(), false);
	await page.locator("#lost summary").click();
	assert.equal(await page.locator("#lost dt").count(), Object.keys(s.lost).length);
	page_of.set({processes: [], gpus: []});
	await is(page, "#processes", /No process uses a GPU library yet\. Now: .*CAP_BPF/);
	assert.equal(await page.locator("tbody.process").count(), 0);
});

test("a port of InfiniBand says what it carried, and which errors it had", async () => {
	const port = (more) => ({device: "mlx5_0", port: 1, link: "InfiniBand", active: true, rate_mbit: 400000,
		bytes: {sent: 3 * GIB}, packets: {}, errors: {symbol: 0, out_of_sequence: 0}, congestion: {}, ...more});
	const server = await fake(await snapshot()), page = await open(server.url);
	server.set({ports: [port(), port({port: 2, active: false, rate_mbit: null, bytes: {},
		errors: {symbol: 0, out_of_sequence: 7}, congestion: {cnp_sent: 2, ecn_marked: 3}})]});
	await is(page, "#fabric li:nth-child(1)", /^mlx5_0 port 1 InfiniBand · active · 400 Gb\/s · 3\.00 GiB sent$/);
	await is(page, "#fabric li:nth-child(2)", /^mlx5_0 port 2 InfiniBand · down · errors: 7 out of sequence · 5 notices of congestion$/);
	assert.equal(await page.locator("#fabric .wrong").count(), 1);
	server.set({ports: undefined});
	await until(async () => !(await page.locator("#fabric").isVisible()), "no port");
});

// Of a source that tells one figure alone, 0 of it: what is shown, of what the GPU does and of its device.
const NONE = "use, power, temperature: no source";
const ALONE = [[{}, NONE, ""], [{utilization: 0}, "0 % busy", ""], [{sm_active: 0}, "SM 0 %", ""],
	[{power_watts: 0}, "0 W", ""], [{power_limit_watts: 0}, NONE, ""], [{temperature_celsius: 0}, "0 °C", ""],
	[{clock_hertz: 0}, "0 MHz", ""], [{lost: 0}, NONE, ""], [{suspended: 0}, NONE, ""], [{link_width: 0}, NONE, "PCIe x0"],
	[{link_width_max: 0}, NONE, ""], [{link_speed: 0}, NONE, ""], [{numa_node: 0}, NONE, "NUMA 0"],
	[{ecc_uncorrected: 0}, NONE, ""], [{pcie_fatal: 0}, NONE, ""], [{pcie_nonfatal: 0}, NONE, ""],
	[{throttled_s: {}, throttled_by: []}, NONE, ""], [{vram_used_bytes: 0}, NONE, ""],
	[{pcie_fatal: 2}, NONE, "2 PCIe errors"], [{pcie_nonfatal: 3000}, NONE, "3,000 PCIe errors"],
	[{lost: 1}, "lost: it has fallen off the bus, or must be reset", ""], [{suspended: 1}, "asleep", ""]];

test("what one source tells of a GPU stands alone, and of what none tells nothing is said", async () => {
	const s = await snapshot(), server = await fake(s), page = await open(server.url);
	for (const [device, state, more] of ALONE) {
		server.set({gpus: [{...s.gpus[0], device}]});
		await until(async () => {
			const lines = await page.locator("#gpus li:first-child p.state").allTextContents();
			return lines.length === 2 && lines[0] === state && lines[1] === more;
		}, `${JSON.stringify(device)} is shown as ${state} and ${more}`);
	}
});

// 0 would be wrong: a process holds memory on GPU 0 since before the daemon came.
test("memory that is not known is a dash, of the process, its GPU and the node", async () => {
	const s = await snapshot(), [first, ...others] = s.gpus, [old, young] = structuredClone(s.processes);
	const gpu = {...first, used_bytes: null, peak_bytes: null, processes: null, memory_complete: false};
	Object.assign(old, {memory_complete: false, pinned_bytes: null,
		gpus: [{gpu_id: "0", used_bytes: null, peak_bytes: null}]});
	const server = await fake({...s, gpus: [gpu, ...others], processes: [old, young]}), page = await open(server.url);
	await is(page, "#gpus li", /^GPU 0\s+used before the daemon came\s+– of 80\.0 GiB, use not known; the driver counts [\d.]+ GiB/);
	const seen = await shownBy(page);
	assert.match(seen.glance[0], /^–\nof 320 GiB, not known on 1$/);
	assert.deepEqual(seen.gpus[0].slice(2), ["A process used this GPU before the daemon came: what it holds is not known.",
		"use not known, total 80.0 GiB", "0%"]);
	assert.match(seen.gpus[1][1], /GiB of 80\.0 GiB, /);
	assert.deepEqual([seen.processes[old.pid][4], seen.processes[young.pid][4]], ["–", gib(young.gpus[0].used_bytes)]);
	for (let click = 0; click < 2; click++) {
		await page.locator('#processes th:has-text("Memory")').first().locator("button").click();
		await until(async () => (await rows(page).count()) === 2, "both are there, whatever is sorted by");
	}
	await toggle(page, old.pid).click();
	await is(page, "tr.detail", /Memory on GPU 0\s+–, peak –/);
	await is(page, "tr.detail", /Pinned host memory\s+–/);
});

function crowd(s, n) {
	return Array.from({length: n}, (_, i) => ({...structuredClone(s.processes[i % 8]), pid: 2000 + i}));
}

// A server as the snapshot has it.
const took = (count, p50_ms, p99_ms) => ({count, p50_ms, p99_ms});
const route = (name, in_flight, recent) =>
	({route: name, in_flight, events: 9, requests: {}, in_flight_s: 1, duration: null, first_event: null,
	event_gap: null, recent});
const inference = (more = {}) =>
	({pid: 900, comm: "vllm", role: "front", service: 900, port: 8000, job_id: "", connections: {}, held: {},
	unread: took(9, 3, 812), rtt: null, step: {duration_p50_ms: 1100, duration_p99_ms: 1200, first_event_p50_ms: 180,
	first_event_p99_ms: 2390,
		event_gap_p50_ms: 23.5, event_gap_p99_ms: null, rate: 9.5, errors: 0.25, in_flight: 7},
	routes: [route("/v1/chat/completions", 12, {seconds: 40, rate: 6.25, requests: {aborted: 3}, error_ratio: 0.04,
	events: 9000,
		duration: took(250, 1107, 1210), first_event: took(250, 180, 2390), event_gap: took(0, null, null)}),
		route("other", 1, null)], ...more});

test("an inference server has its latencies of 15 minutes, and its requests by route", async () => {
	const s = await snapshot(), history = {node: "vm", source: "simulated", step_ms: 5000, end_ms: s.last_update_ms,
		gpus: [], processes: [],
		servers: [{pid: 900, first_event_p50_ms: [100, null, 150], first_event_p99_ms: [200, null, 300],
		in_flight: [1, 0, 2]}]};
	const server = await fake({...s, servers: [], history: {step_ms: 5000, steps: 7}}, {history}),
		page = await open(server.url);
	assert.equal(await page.locator("#servers").isVisible(), false);
	server.set({servers: [inference(),
		inference({pid: 901, service: 900, comm: HOSTILE[0], port: 0, step: null, routes: []})]});
	await is(page, "#servers summary",
		/^vllm process 900 · port 8000 · 13 in flight · 9\.50\/s · 0\.25\/s answered by 5xx · first event p99 2\.39 s · unread p99 812 ms$/);
	assert.equal(await page.locator("#servers summary").nth(1).innerText(),
		`${HOSTILE[0]} process 901 · service 900 · no port of TCP · 0 in flight · unread p99 812 ms`);
	assert.deepEqual(await page.locator("#servers table").first().locator("tbody tr").evaluateAll((all) =>
		all.map((n) => [...n.cells].map((c) => c.textContent))), [
		["/v1/chat/completions", "12", "6.25", "180 ms / 2.39 s", "–", "1.11 s / 1.21 s", "4.00 %", "3"],
		["other", "1", "–", "–", "–", "–", "–", "–"]]);
	await page.locator("#servers").scrollIntoViewIfNeeded();
	const chart = (i) => page.locator("#servers svg.chart").nth(i).getAttribute("aria-label");
	await until(async () => /p50: latest 150 ms, lowest 100 ms, highest 150 ms; p99: latest 300 ms/.test(await chart(0)),
		"the history");
	assert.match(await chart(1), /nothing yet/);
	server.set({history: {step_ms: 5000, steps: 8}});
	await until(async () => /p50: latest 180 ms, lowest 100 ms, highest 180 ms; p99: latest 2\.39 s/.test(await chart(0)),
		"the next step");
	assert.match(await chart(3), /^In flight, last 15 minutes: latest 7, lowest 0, highest 7$/);
	assert.equal(await page.locator("img").count(), 0);
	server.set({servers: []});
	await until(async () => !(await page.locator("#servers").isVisible()), "they have gone");
});

test("what a server's requests wait for, and the slowest of them, stand in its card", async () => {
	const pair = (now, usual) => ({now, usual}), slow = (more) => ({route: "/v1/chat/completions", code: "2xx",
		duration_ms: 1500, first_event_ms: 700, events: 40, ago_s: 3.4, waited: "unread 823ms", exact: false, ...more});
	const waits = {first_event: {unusual: true, says: `requests ${HOSTILE[0]} lie unread`,
		parts_ms: {unread: pair(814, 3), engine_gpu: pair(200, null), engine_data: pair(0, 0)}},
	event_gap: {unusual: false, says: "", parts_ms: {engine_gpu: pair(20, 21)}}};
	const server = await fake({...await snapshot(), servers: [inference({waits, slowest: [slow(),
		slow({route: HOSTILE[1], first_event_ms: null, waited: "", exact: true})]})]});
	const page = await open(server.url), texts = (i) => page.locator("#servers table").nth(i).locator("tbody tr")
		.evaluateAll((all) => all.map((n) => [...n.cells].map((c) => c.textContent)));
	await is(page, "#servers .slow-says", new RegExp("lie unread$"));
	assert.deepEqual(await texts(1), [["unread in the socket", "814 ms / 3.00 ms", "–"],
		["engine waits for the GPU", "200 ms / –", "20.0 ms / 21.0 ms"]]);
	assert.deepEqual(await texts(2), [
		["1", "/v1/chat/completions", "2xx", "3 s ago", "1.50 s", "700 ms", "40", "unread 823ms", "shared"],
		["2", HOSTILE[1], "2xx", "3 s ago", "1.50 s", "–", "40", "–", "alone"]]);
	server.set({servers: [inference({waits: null, slowest: []})]});
	await until(async () => !(await page.locator("#servers .slowest").isVisible()) &&
		!(await page.locator("#servers .slow-says").isVisible()), "nothing is slow");
});

test("a simulated inference server is seen, in light, in dark and on a phone", async () => {
	const source = await daemon("--simulate", "--simulate-scenario", "server", "--simulate-cycle-s", "20"),
		page = await open(source.url);
	await page.locator("#servers").scrollIntoViewIfNeeded();
	await until(async () => /highest [\d.]+ m?s; p99: latest [\d.]+ m?s/.test(
		await page.locator("#servers svg.chart").first().getAttribute("aria-label")), "two steps");
	assert.deepEqual(await page.locator("#servers summary strong").allInnerTexts(), ["vllm", "llama-server"]);
	assert.equal(await page.locator("#servers svg.chart").count(), 10);
	await accessible(page, "inference servers");
	for (const [name, options] of [["servers", {}], ["servers-dark", {dark: true}],
		["servers-phone", {width: 390, height: 844}]]) {
		const view = await open(source.url, options);
		await is(view, "#servers summary", /in flight/);
		assert.ok(await view.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
			`${name}: nothing is wider than the screen`);
		await view.locator("#servers").scrollIntoViewIfNeeded();
		await view.waitForTimeout(300);
		await view.locator("#servers").screenshot({path: path.join(ROOT, `build/test/web/${name}.png`)});
	}
});

const FOLDED = {
	gpu: ["main (/p/a.py:9);step (/p/a.py:5);f (/x/lib/python3.12/site-packages/torch/m.py:1);g (/x/site-packages/torch/n.py:2);leaf (/p/b.py:3);[gpu] 600000000",
		`main (/p/a.py:9);step (/p/a.py:5);${HOSTILE[0]} (/p/${HOSTILE[2]}:7);[gpu] 300000000`,
		"main (/p/a.py:9);f (/usr/lib/python3/x.py:1);[gpu] 100000000", "junk", ""].join("\n"),
	alloc: "main (/p/a.py:9);big (/p/a.py:6);[alloc] 3221225472\n"};
const stacksOf = (of, unit, value) =>
	({cause: of, says: `says ${of}`, unit, count: 3, value, estimated: of === "gpu",
	lines: [{file: "/p/a.py", line: 5, function: "step",
	count: 3, value, percent: 90, through: {file: "/x/site-packages/torch/n.py", line: 2, function: "g"},
	thread: HOSTILE[0]}]});
const STACKS = {state: "attached", why: "", processes: [{pid: 7, job_id: "4711", comm: HOSTILE[1], ended: false}],
	unknown: [{pid: 8, why: HOSTILE[0]}],
	causes: [stacksOf("gpu", "seconds", 0.9), stacksOf("alloc", "bytes", 3 * GIB)]};

// Frames as [text, left and width in per cent, depth].
const framesOf = (page) =>
	page.locator("#flame .frame_").evaluateAll((all) =>
	all.map((n) => [n.textContent, Math.round(parseFloat(n.style.left)),
	Math.round(parseFloat(n.style.width)), Math.round(parseFloat(n.style.top) / 1.4)]));
const flameOf = async (asked, answer = STACKS, more = {}) => {
	const server = await fake(await snapshot());
	server.stacks = (url) => {
		asked.push(url.pathname + url.search);
		return url.pathname === "/stacks" ? JSON.stringify(answer) : FOLDED[url.searchParams.get("cause")];
	};
	return open(server.url, more);
};

test("a flame graph is asked for when it is opened, and is as wide as its figures", async () => {
	const asked = [], page = await flameOf(asked);
	assert.deepEqual(asked, []);
	await page.locator("#flame > summary").click();
	await until(async () => (await framesOf(page)).length, "frames");
	assert.deepEqual(asked, ["/stacks?seconds=60", "/stacks/folded?cause=gpu&seconds=60"]);
	const wanted = [["all", 0, 100, 0], ["main a.py:9", 0, 100, 1], ["step a.py:5", 0, 90, 2], ["torch", 0, 60, 3],
		["leaf b.py:3", 0, 60, 4],
		[`${HOSTILE[0]} ${HOSTILE[2].split("/").pop()}:7`, 60, 30, 3], ["Python's library", 90, 10, 2]];
	assert.deepEqual(await framesOf(page), wanted);
	assert.deepEqual(await page.locator("#flame .frame_").evaluateAll((all) => all.map((n) => n.className.split(" ")[1])),
		["plain", "own", "own", "library", "own", "own", "library"]);
	await page.locator("#flame [name=folds]").uncheck();
	assert.deepEqual((await framesOf(page)).map(([name]) => name).slice(3, 6), ["f m.py:1", "g n.py:2", "leaf b.py:3"]);
	await page.locator("#flame [name=folds]").check();
	assert.equal(await page.locator("#flame .lines_ tbody td").first().innerText(),
		`a.py:5 in step, through n.py:2 in g, for ${HOSTILE[0]}`);
	assert.match(await text(page, "#flame .state_"), /^Process 8: <img/);
	await page.locator("#flame .causes label").nth(1).click();
	await until(async () => (await framesOf(page)).length === 3, "another cause");
	assert.match(await page.locator("#flame .frame_").nth(2).getAttribute("aria-label"),
		/^big a\.py:6, 3\.00 GiB, 100 %$/);
	await page.locator("#flame [name=of]").selectOption({label: "job 4711"});
	await page.locator("#flame [name=seconds]").selectOption("0");
	await until(() => asked.includes("/stacks/folded?cause=alloc&job=4711"), "what is asked for");
	const before = asked.length;
	await page.locator("#flame .again").click();
	await until(() => asked.length === before + 2, "it is asked for anew");
	assert.equal(await page.locator("img").count(), 0);
	await accessible(page, "a flame graph");
});

test("one job or process after another is chosen for the flame graph", async () => {
	const processes = [7, 8, 9].map((pid) =>
		({pid, job_id: pid < 9 ? "4711" : null, comm: `train${pid}`, ended: pid === 8}));
	processes.unshift({...processes[2], comm: "before", ended: true, pid_reused: true});
	const server = await fake(await snapshot()), asked = [];
	server.stacks = (url) => {
		const pid = url.searchParams.get("pid"), id = url.searchParams.get("job");
		asked.push(url.pathname + url.search);
		return url.pathname === "/stacks" ? JSON.stringify({...STACKS,
			processes: processes.filter((p) => (!pid || p.pid === Number(pid)) && (!id || p.job_id === id))}) : FOLDED.gpu;
	};
	const page = await open(server.url), of = page.locator("#flame [name=of]");
	const all = ["all processes", "job 4711", "train7 7", "train8 8, ended", "train9 9"];
	await page.locator("#flame > summary").click();
	await page.locator("#flame [name=seconds]").selectOption("0");
	for (const [label, more] of [["job 4711", "&job=4711"], ["train9 9", "&pid=9"], ["train8 8, ended", "&pid=8"]]) {
		await of.selectOption({label});
		await until(() => asked.includes(`/stacks/folded?cause=gpu${more}`), label);
		assert.deepEqual(await of.locator("option").allInnerTexts(), all, label);
		assert.equal(await of.evaluate((select) => select.selectedOptions[0].innerText), label);
	}
	processes.pop();
	await of.selectOption("");
	await until(async () => (await of.locator("option").count()) === 4, "what there is by now");
});

test("a flame graph is of what was asked for last, whichever answer comes late", async () => {
	const page = await flameOf([]);
	let release;
	const held = new Promise((done) => (release = done));
	await page.route(/folded\?cause=gpu/, async (request) => {
		await held;
		await request.continue();
	});
	await page.locator("#flame > summary").click();
	await page.locator("#flame .causes label").nth(1).click();
	await until(async () => (await framesOf(page)).length === 3, "the second cause");
	const [late] = await Promise.all([page.waitForResponse(/folded\?cause=gpu/), release()]);
	await late.finished();
	await page.waitForTimeout(200);
	await page.locator("#flame [name=folds]").uncheck();
	assert.deepEqual((await framesOf(page)).map(([name]) => name), ["all", "main a.py:9", "big a.py:6"]);
});

test("a flame graph keeps the unit of what it is of where another cause is not to be had", async () => {
	const page = await flameOf([], STACKS, {expected: /503/});
	await page.route(/folded\?cause=alloc/, (request) => request.fulfill({status: 503, body: "busy"}));
	await page.locator("#flame > summary").click();
	await until(async () => (await framesOf(page)).length, "frames");
	const read = () => text(page, "#flame .read"), before = await read();
	await page.locator("#flame .causes label").nth(1).click();
	await is(page, "#flame .state_", /^Not to be had: the daemon answers 503\.$/);
	await page.locator("#flame [name=search]").fill("nothing has this name");
	assert.match(before, /^all: 1\.00 s/);
	assert.equal(await read(), before);
	assert.equal(await page.locator("#flame .lines_ tbody tr").count(), 1);
	assert.doesNotMatch(await page.locator("#flame .lines_").innerText(), /GiB/);
});

test("a flame graph is zoomed, searched, and led through by keys", async () => {
	const page = await flameOf([]), focused = () => page.evaluate(() => document.activeElement.textContent);
	await page.locator("#flame > summary").click();
	await until(async () => (await framesOf(page)).length, "frames");
	await page.locator("#flame .frame_").nth(3).click();
	assert.deepEqual(await framesOf(page), [["all", 0, 100, 0], ["main a.py:9", 0, 100, 1], ["step a.py:5", 0, 100, 2],
		["torch", 0, 100, 3], ["leaf b.py:3", 0, 100, 4]]);
	assert.equal(await text(page, "#flame .read"), "torch: 600 ms, 60.0 %");
	await page.keyboard.press("Backspace");
	assert.equal((await framesOf(page)).length, 6, "what the caller has called");
	await page.keyboard.press("Escape");
	assert.equal((await framesOf(page)).length, 7);
	for (const [key, wanted] of [["ArrowDown", /^main/], ["ArrowDown", /^step/], ["ArrowRight", /^Python's/],
		["ArrowRight", /^Python's/], ["ArrowLeft", /^step/],
		["ArrowDown", /^torch/], ["ArrowRight", /^<img/], ["ArrowUp", /^step/], ["End", /^Python's/], ["Home", /^all/]]) {
		await page.keyboard.press(key);
		assert.match(await focused(), wanted, key);
	}
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("Enter");
	assert.equal((await framesOf(page)).length, 6);
	assert.equal(await page.locator("#flame .out").isVisible(), true);
	await page.locator("#flame .out").click();
	await page.locator("#frame-search").fill("TORCH");
	await is(page, "#flame .found_", /^60\.0 % is in what was searched for\.\s*$/);
	assert.deepEqual(await page.locator("#flame .found").allInnerTexts(), ["torch"]);
	const tabbable = await page.locator("#flame .frame_[tabindex='0']").count();
	assert.equal(tabbable, 1, "one stop for the tab key");
});

test("where there are no stacks, the flame graph says why", async () => {
	const page = await flameOf([], {state: "absent", why: "Linux 5.17 is needed", processes: [], causes: []});
	await page.locator("#flame > summary").click();
	await is(page, "#flame .state_", /^No stacks are read: Linux 5\.17 is needed\.$/);
	assert.equal(await page.locator("#flame .graph").isVisible(), false);
	const gone = await open((await fake(await snapshot())).url, {expected: /404/});
	await gone.locator("#flame > summary").click();
	await is(gone, "#flame .state_", /^Not to be had: the daemon answers 404\.$/);
});

test("the flame graph of a simulated job, in light, in dark and on a phone", async () => {
	const source = await daemon("--simulate");
	await until(async () => (await (await fetch(`${source.url}stacks`)).json()).causes.length, "stacks");
	for (const [name, options] of [["flame", {}], ["flame-dark", {dark: true}],
		["flame-phone", {width: 390, height: 844}]]) {
		const page = await open(source.url, options);
		await page.locator("#flame > summary").click();
		await until(async () => (await framesOf(page)).length > 3, "frames");
		await page.locator("#flame .causes label").first().click();
		await until(async () => (await framesOf(page)).some(([t]) => t.startsWith("MLP.forward")), "launches");
		await page.locator("#frame-search").fill("block");
		await is(page, "#flame .found_", /^4\d\.\d % is in/);
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
			`${name}: nothing is wider than the screen`);
		await accessible(page, name);
		await page.locator("#flame").screenshot({path: path.join(ROOT, `build/test/web/${name}.png`)});
	}
});

test("it stays smooth with 64 processes four times a second", async () => {
	const s = await snapshot(), pids = times(64, (i) => 2000 + i);
	const history = {step_ms: 5000, end_ms: Date.now(), gpus: [], processes: pids.map((pid) => ({pid, comm: "x",
		rate: times(180, (i) => 1000 + (i * pid) % 97), p50_us: times(180, () => 140),
		p99_us: times(180, (i) => 500 + (i * pid) % 89)}))};
	let steps = 7;
	const server = await fake({...s, interval_ms: 250, processes: crowd(s, 64)}, {history}), page = await open(server.url);
	await page.evaluate(() => {
		window.long = [];
		new PerformanceObserver((list) =>
			window.long.push(...list.getEntries().map((e) => e.duration))).observe({type: "longtask"});
		document.querySelectorAll("tbody.process").forEach((n) => (n.kept = true));
	});
	const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
	server.every(250, () => ({last_update_ms: Date.now(), history: {step_ms: 5000, steps: steps++},
		processes: server.current.processes.map((p) =>
		({...p, launch: {...p.launch, count: p.launch.count + 1, rate: p.launch.rate + 1,
		recent: {rate: p.launch.rate, p50_us: 140, p99_us: 700}}}))}));
	const from = steps;
	await until(() => steps > from + 20, "20 snapshots");
	await page.mouse.wheel(0, 1500);
	await until(() => steps > from + 30, "10 more");
	const last = server.current.last_update_ms;
	await until(() => page.evaluate((ms) => Number(document.querySelector("main").dataset.shown) >= ms, last),
		"the page having shown them");
	const long = await page.evaluate(() => window.long);
	console.log(`   long tasks of 30 snapshots: ${long.length}, the longest ${Math.max(0, ...long)} ms`);
	// at each snapshot, if the page is slow; a few, if others keep it from the processor
	assert.ok(long.filter((ms) => ms >= 1000).length < 15, `tasks of a second: ${long}`);
	assert.equal(await page.evaluate(() => [...document.querySelectorAll("tbody.process")].filter((n) => n.kept).length),
		64);
	assert.equal(await page.evaluate(() => document.querySelectorAll("*").length), nodes, "nodes are used again");
});

test("processes that come and go leave nothing behind", async () => {
	const s = await snapshot(), server = await fake({...s, processes: crowd(s, 8)}), page = await open(server.url);
	const cdp = await page.context().newCDPSession(page);
	let first = 2000, sent = s.last_update_ms;
	const generations = async (n) => {
		for (; n; n--) {
			server.set({last_update_ms: ++sent, processes: crowd(s, 8).map((p) => ({...p, pid: p.pid + first}))});
			await page.waitForSelector(`main[data-shown="${sent}"]`);
			await page.locator(".toggle").first().click();
			first += 8;
		}
		server.set({last_update_ms: ++sent, processes: []});
		await page.waitForSelector(`main[data-shown="${sent}"]`);
		await cdp.send("HeapProfiler.collectGarbage");
		return (await cdp.send("Memory.getDOMCounters")).nodes;
	};
	const before = await generations(5), after = await generations(40);
	console.log(`   nodes after 40 processes: ${before}, after 320 more: ${after}`);
	assert.ok(after < 1.5 * before, "nodes");
});

const full = async () => {
	const s = await snapshot({alerts: [at(),
		at({alert: "probe_overhead", severity: "warning", state: "pending", gpu_id: undefined, pid: "1002"})],
		jobs: [job({job_id: "48213",
		gpus: Array.from({length: 8}, (_, i) => jobGpu(String(i), i * 100, 900 - i * 100, i ? i : 900))}),
			job({job_id: "48210", state: "ended", restart: 1, end_ms: 1711800100000})],
		io: [flow({job_id: "48213"}), flow({mount: `/${"long/".repeat(50)}`}), flow({job_id: "", mount: "/"})]});
	s.why = [{job_id: "48213", processes: 4, says: "", state: "hangs", missing_pid: s.processes[1].pid, missing_rank: 1,
		late_pid: null, ras: {outcome: "answered",
		says: "rank 9 on host 10.0.0.7, process 4711, has issued 3 collectives fewer than the others",
		address: "127.0.0.1:28028", bytes: 4711},
		causes: [cause(75), cause(12, {cause: "storage", says: "12 % of the time is blocked on files or page faults"})]},
		{job_id: null, processes: 1, says: "no cause found: 71 % waits for the GPU", causes: []}];
	s.processes[0].anomalies = {launch_p99: 12.25, syscalls: -8};
	s.lost.alloc = 3;
	s.processes[1].stalls = stalls();
	s.processes.slice(0, 4).forEach((p, i) =>
		Object.assign(p, {job_id: "48213", stalls: stalls(i === 1 ? {} : {gpu: 1, waits_for_pid: s.processes[1].pid})}));
	return s;
};

test("where a launching thread's time goes is a bar, a legend and a sentence", async () => {
	const s = await snapshot(), first = s.processes[0].pid;
	s.processes[0].stalls = stalls();
	const server = await fake(s), page = await open(server.url), bar = page.locator(".stalls .meter");
	await toggle(page, first).click();
	await is(page, ".stalls p", /^rank 3 waits for data 50 %/);
	const widths = () => bar.evaluate((b) =>
		[...b.children].map((c) =>
		[c.className, Math.round(1000 * c.getBoundingClientRect().width / b.getBoundingClientRect().width) / 1000]));
	const wanted = JSON.stringify([["cpu", 0.25], ["gpu", 0.125], ["data", 0.5], ["dist", 0.125], ["io", 0],
		["runqueue", 0], ["other", 0]]);
	await until(async () => JSON.stringify(await widths()) === wanted, `widths ${wanted}`);
	assert.match(await bar.getAttribute("aria-label"), /^cpu 25\.0 %, gpu 12\.5 %, data 50\.0 %, dist 12\.5 %, io 0/);
	assert.equal(new Set(await page.locator(".stalls i").evaluateAll((all) =>
		all.map((i) => getComputedStyle(i).backgroundColor))).size, 7);
	server.set({last_update_ms: Date.now(), processes: [{...s.processes[0], stalls: stalls({data: null, other: 0.5})}]});
	await until(async () => /data –.*other 50/.test(await bar.getAttribute("aria-label")), "a share that is not known");
	server.set({last_update_ms: Date.now() + 1, processes: [{...s.processes[0], stalls: null}]});
	await is(page, ".stalls p", /^Not measured\.$/);
	assert.ok(!await bar.isVisible());
});

test("axe-core finds nothing serious, in light and in dark", async () => {
	const server = await fake(await full());
	for (const dark of [false, true]) {
		const page = await open(server.url, {dark});
		await toggle(page, 1001).click();
		await page.locator("#io .toggle").first().click();
		await page.locator("#legend summary").click();
		await accessible(page, dark ? "the dark page" : "the light page");
		await shot(page, dark ? "dark" : "light", {fullPage: true});
	}
	const narrow = await open(server.url, {width: 390, height: 844});
	await toggle(narrow, 1001).click();
	await accessible(narrow, "the page on a phone");
	await shot(narrow, "phone", {fullPage: true});
});

test("axe-core finds nothing serious while the daemon is dead", async () => {
	const server = await fake(await full()), page = await open(server.url, {expected: NETWORK});
	await server.close();
	await is(page, "#link", /^reconnecting/);
	await accessible(page, "the page of a dead daemon");
	await shot(page, "dead");
});

test("on a phone nothing is wider than the screen", async () => {
	const server = await fake(await full());
	for (const width of [320, 390, 740, 1000]) {
		const page = await open(server.url, {width, height: 800});
		await page.locator("#why .other-nodes summary").first().click();
		await toggle(page, 1001).click();
		await page.locator("#lost summary").click();
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `at ${width} pixels`);
		assert.equal(await page.locator("#sort").isVisible(), width < 736);
	}
});

test("who wants no motion gets none", async () => {
	const page = await open((await fake(await snapshot())).url, {reducedMotion: "reduce"});
	assert.equal(await page.locator(".dot").evaluate((n) => getComputedStyle(n).animationName), "none");
});

async function loginAt(url, good) {
	const page = await open(url, {shown: false, expected: /401/});
	await page.waitForSelector("#login:visible");
	await accessible(page, "the form for the token");
	assert.equal(await page.locator("main").isVisible(), false);
	await page.fill("#token", "wrong\u2026"); // no header may hold this
	await page.keyboard.press("Enter");
	await is(page, "#refused", /no token/);
	await page.fill("#token", "wrong");
	await page.keyboard.press("Enter");
	await is(page, "#refused", /refused/);
	await page.fill("#token", good);
	await page.getByRole("button", {name: "Connect"}).click();
	await page.waitForSelector("main[data-shown]");
	assert.equal(await page.locator("#login").isVisible(), false);
	await is(page, "#link", /^live/);
	assert.doesNotMatch(page.url(), /token|wrong/);
	return page;
}

test("a token is asked for, and sent both ways", async () => {
	const server = await fake(await snapshot(), {token: "s3cret-ü"});
	const refused = await fetch(`${server.url}history`);
	assert.equal(refused.status, 401);
	server.every(500, () => ({last_update_ms: Date.now()}));
	const good = await fake(await snapshot(), {token: "s3cret~"});
	good.every(500, () => ({last_update_ms: Date.now()}));
	const page = await loginAt(good.url, "s3cret~");
	assert.deepEqual(good.protocols, ["zernel.v1", "zernel.token.7333637265747e"]);
	await page.reload();
	await page.waitForSelector("main[data-shown]");
	assert.equal(await page.locator("#login").isVisible(), false, "it is kept while the tab is open");
});

test("a daemon with a token file is opened with a token of it", async () => {
	const folder = mkdtempSync("/tmp/zernel-web-");
	later(() => rmSync(folder, {recursive: true}));
	const file = path.join(folder, "tokens"), token = "0123456789abcdef0123456789abcdef";
	writeFileSync(file, `${token}\n`, {mode: 0o600});
	await loginAt((await daemon("--simulate", "--token-file", file)).url, token);
});

// ---- a live daemon, and real calls of the fake library

// The actor of the end-to-end tests: a Python that runs what it is told.
async function actor(env) {
	const child = start("/usr/bin/python3", [path.join(ROOT, "tests/e2e/actor.py")],
		{env: {...process.env, ...env}, stdio: ["pipe", "pipe", "inherit"]});
	const answers = createInterface({input: child.stdout})[Symbol.asyncIterator]();
	const answer = async () => {
		const got = JSON.parse((await answers.next()).value);
		assert.equal(got.error, undefined, "the actor");
		return got.answer;
	};
	await answer();
	child.do = (code) => {
		child.stdin.write(`${JSON.stringify(code)}\n`);
		return answer();
	};
	return child;
}

test("what is shown of a live daemon is what a process did, and its alert", async () => {
	if (process.getuid() || !existsSync("/sys/kernel/btf/vmlinux"))
		throw new Absent("it needs root and a kernel with BTF");
	const source = await daemon("--push-interval-ms", "250", "--overhead-budget", "0%"), page = await open(source.url);
	await page.evaluate(() => { // an alert is pending for ten seconds, in which nobody may look
		const alerts = document.querySelector("#alerts");
		window.alertsSeen = "";
		new MutationObserver(() => window.alertsSeen += `${alerts.textContent}\n`).observe(alerts,
			{childList: true, subtree: true, characterData: true});
	});
	await is(page, "#processes .empty", /No process uses a GPU library yet\. Now: no process maps/);
	assert.equal(await page.locator("#simulated").isVisible(), false);
	const process_ = await actor({FAKE_CUDA_TOTAL_MB: "1000"}), name = "<img src=x>\\\"";
	await process_.do(`cuda = CDLL(${JSON.stringify(LIBRARY)})`);
	await until(async () => (await source.json()).probes.some((p) =>
		p.libraries.some((l) => l.path === LIBRARY && l.attached)), "probes");
	await process_.do(`ok(CDLL(None).prctl(15, ${JSON.stringify(name)}.encode())); ready(cuda)`);
	await process_.do("ok(cuda.cuDeviceTotalMem_v2(byref(c_size_t()), 0)); launch(cuda, 1009); most = alloc(cuda, 970 << 20)");
	const row = page.locator("tbody.process", {has: toggle(page, process_.pid)});
	await until(async () => (await row.count()) === 1 && (await row.locator("td.memory").innerText()) === "970 MiB",
		"its row");
	assert.equal(await row.locator("td.comm").textContent(), name);
	await toggle(page, process_.pid).click();
	await is(page, "tr.detail", /Launches\s+1,009, 0 failed/);
	await is(page, "#gpus .used", /970 MiB of 1000 MiB, 97\.0 %/);
	await is(page, "#probes", /libcuda\.so\.1 \d+ of \d+ functions hooked/);
	await is(page, "#alerts [role=alert]", /firing.*gpu_oom_warning on GPU 0/is);
	assert.match(await page.evaluate(() => window.alertsSeen.split("firing")[0]), /pending.*gpu_oom_warning on GPU 0/is);
	await shot(page, "live", {fullPage: true});
	await process_.do("ok(cuda.cuMemFree_v2(most))");
	await until(async () => !(await page.locator("#alerts").isVisible()), "it is resolved");
	process_.stdin.end();
	await until(async () => !(await row.count()), "the row goes when the process has ended");
});

runAll(process.argv[2]);
