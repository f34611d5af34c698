// SPDX-License-Identifier: GPL-2.0
// timeline.js: what the time of a job went to over the last 15 minutes, as stacked bands; from /why once, then a step
// from each snapshot that has a new one.
import {AGES, clock, inside, make, mark, POINTS, say, show, STEP_MS, SVG} from "./shared.js";

// Causes that a person would tell apart by colour, from the ground up.
const BANDS = [
	["gpu", "waits for the GPU", ["gpu"]],
	["host", "host code, launches, copies", ["launch_bound", "host_copies", "host_code"]],
	["runqueue", "too little CPU", ["cpu_shortage", "cpu_throttled"]],
	["io", "files", ["checkpoint", "storage"]],
	["data", "data", ["input_cpu", "input_workers", "input_files", "input_transfer", "input_in_process"]],
	["dist", "other ranks", ["straggler", "network", "communication"]],
	["unsure", "all ranks wait", ["all_wait"]],
	["other", "idle, or another cause", []], // and whatever is new
	["hang", "hang", ["hang"]],
];
const NAMED = new Set(BANDS.flatMap(([, , causes]) => causes));

export const labelMap = (labels) => new Map(labels.map((label) => [label.key, label.value]));
export const labelText = (said) => [...said].filter(([, value]) => value !== "").map(([key, value]) =>
	`${key}=${value}`).join(" ");
const CHANGES = 256; // of what a job said of itself
const JOBS = 256; // whose steps are kept
const MARKED = 12; // a label that changed more often says a number, not a phase

// By job: {steps, list: [{cause: per cent} or null, ...], changes: [{key, value, at_ms}, ...]}, the newest last.
const kept = new Map();

// GET /why: all that the daemon has kept.
export function takeTimelines(answer) {
	kept.clear();
	for (const w of answer.why || []) {
		const lines = Object.entries(w.timeline || {}).filter(([, values]) => Array.isArray(values));
		const count = w.timeline ? w.timeline.steps : 0;
		const at = (i) => Object.fromEntries(lines.map(([cause, values]) => [cause, values[i]]).filter(([, v]) => v));
		const known = (i) => lines.some(([, values]) => values[i] != null);
		kept.set(String(w.job_id), {steps: w.steps || 0, changes: w.label_changes || [],
			list: Array.from({length: count}, (_, i) => (known(i) ? at(i) : null))});
	}
}

// What a job had said of itself by some time. A Map, as a key may be called constructor.
const saidBy = (changes, at_ms) => labelMap(changes.filter((c) => c.at_ms <= at_ms));

// A label that is not there any more has changed as well: to nothing.
function rememberLabels(past, labels, now_ms) {
	const before = labelMap(past.changes), after = labelMap(labels);
	const gone = [...before.keys()].filter((key) => before.get(key) && !after.has(key)).map((key) =>
		({key, value: "", at_ms: now_ms}));
	const more = [...labels.filter((label) => before.get(label.key) !== label.value), ...gone];
	if (more.length)
		past.changes = [...past.changes, ...more].slice(-CHANGES);
}

// A job without a process for a moment, as between two steps, comes back: only where many are kept, one that is not
// there is forgotten, the oldest first.
function forget(there) {
	for (const job of kept.keys())
		if (kept.size > JOBS && !there.has(job))
			kept.delete(job);
}

// The steps that are over since the last snapshot: only the newest of them is known.
export function rememberSteps(s) {
	for (const w of s.why) {
		const job = String(w.job_id), past = kept.get(job);
		if (!past || w.steps < past.steps)
			kept.set(job, {steps: w.steps, list: w.step ? [w.step] : [], changes: []});
		else if (w.steps > past.steps) {
			const missed = Math.min(POINTS, w.steps - past.steps - 1);
			past.list.push(...new Array(missed).fill(null), w.step);
			past.list = past.list.slice(-POINTS);
			past.steps = w.steps;
		}
		rememberLabels(kept.get(job), w.labels || [], s.last_update_ms);
	}
	forget(new Set(s.why.map((w) => String(w.job_id))));
}

// Per cent by band of one step, and no more than all of it; null: it is not known.
function bandsOf(step) {
	let left = 100;
	return step && BANDS.map(([id, , causes]) => {
		const sum = Object.entries(step).reduce((n, [cause, v]) =>
			n + (causes.includes(cause) || (id === "other" && !NAMED.has(cause)) ? v : 0), 0);
		const height = Math.min(left, sum);
		left -= height;
		return height;
	});
}

function shapes(points) {
	const paths = BANDS.map(() => "");
	points.forEach((bands, x) => {
		let top = 100;
		if (bands)
			bands.forEach((height, i) => {
				paths[i] += height ? `M${x} ${top}h1v${-height}h-1z` : "";
				top -= height;
			});
	});
	return paths;
}

function words(step, at_ms, changes) {
	const said = labelText(saidBy(changes, at_ms)), end = said && `; it said ${said}`;
	if (!step)
		return `${clock(at_ms)}: not known${end}`;
	const list = Object.entries(step).sort((a, b) => b[1] - a[1]).map(([cause, v]) =>
		`${cause.replaceAll("_", " ")} ${v} %`);
	return `${clock(at_ms)}: ${list.join(", ") || "nothing lost"}${end}`;
}

// Where a label changed that does so rarely.
function marks(changes, end_ms) {
	const often = (key) => changes.filter((c) => c.key === key).length > MARKED;
	return changes.filter((c) => !often(c.key)).map((c) => POINTS - 1 - Math.floor((end_ms - c.at_ms) / STEP_MS))
		.filter((x) => x >= 0 && x < POINTS).map((x) => `M${x} 0h1v100h-1z`).join("");
}

// A minute as the mean of the steps of it that are known.
function minutes(points) {
	const per = 60000 / STEP_MS;
	return Array.from({length: POINTS / per}, (_, m) => {
		const known = points.slice(POINTS - (m + 1) * per, POINTS - m * per).filter(Boolean);
		return known.length ? BANDS.map((band, i) =>
			Math.round(known.reduce((n, bands) => n + bands[i], 0) / known.length)) : null;
	});
}

function numbersTable() {
	const node = make("details"), table = make("table"), head = make("tr"), body = make("tbody"),
		box = make("div", "scroll");
	box.tabIndex = 0;
	mark(box, "role", "group");
	mark(box, "aria-label", "The last 15 minutes, minute by minute");
	inside(head, make("th", "", "Minutes ago"), ...BANDS.map(([, name]) => make("th", "number", name)));
	inside(node, make("summary", "", "The same as a table"),
		inside(box, inside(table, inside(make("thead"), head), body)));
	return {node, update(points) {
		if (node.open)
			body.replaceChildren(...minutes(points).map((bands, m) =>
			inside(make("tr"), Object.assign(make("th", "", String(m)), {scope: "row"}),
				...BANDS.map((_, i) => make("td", "number", bands ? `${bands[i]} %` : "not known")))));
	}};
}

function picture() {
	const svg = document.createElementNS(SVG, "svg"), add = (tag, className) => {
		const node = document.createElementNS(SVG, tag);
		mark(node, "class", className);
		svg.append(node);
		return node;
	};
	for (const [name, value] of Object.entries({class: "bands", viewBox: `0 0 ${POINTS} 100`, preserveAspectRatio: "none",
		"aria-hidden": "true"}))
		svg.setAttribute(name, value);
	const known = add("path", "known"), paths = BANDS.map(([id]) => add("path", id)), said = add("path", "said"),
		cursor = add("path", "cursor");
	return {node: svg, known, paths, said, cursor};
}

export function timelineOf(job) {
	const node = make("div", "timeline"), frame = make("div", "frame"), read = make("p", "read"),
		axis = make("p", "axis-line");
	const {node: svg, known, paths, said, cursor} = picture(), legend = make("p", "keys"), numbers = numbersTable();
	let list = [], points = [], changes = [], at = null, end_ms = 0;
	const keys = BANDS.map(([id, name]) => inside(make("span"), make("i", id), name));
	legend.append(...keys, inside(make("span"), make("i", "gap"), "not known"));
	inside(axis, ...AGES.map((age) => make("span", "", age)));
	for (const [name, value] of Object.entries({tabindex: "0", role: "slider", "aria-valuemin": "1",
		"aria-valuemax": String(POINTS),
		"aria-label": "The last 15 minutes in steps of 5 seconds"}))
		frame.setAttribute(name, value);
	inside(node, inside(frame, svg), axis, read, legend, numbers.node);

	const tell = () => {
		const i = at === null ? POINTS - 1 : at, text = words(list[i], end_ms - (POINTS - 1 - i) * STEP_MS, changes);
		mark(frame, "aria-valuenow", String(i + 1));
		mark(frame, "aria-valuetext", text);
		say(read, text);
		mark(cursor, "d", at === null ? "" : `M${at} 0h1v100h-1z`);
	};
	const choose = (i) => {
		at = i === null ? null : Math.max(0, Math.min(POINTS - 1, i));
		tell();
	};
	frame.addEventListener("pointermove", (e) => {
		const box = svg.getBoundingClientRect();
		choose(Math.floor((e.clientX - box.left) / box.width * POINTS));
	});
	frame.addEventListener("pointerleave", () => choose(null));
	frame.addEventListener("blur", () => choose(null));
	frame.addEventListener("keydown", (e) => {
		const here = at === null ? POINTS - 1 : at;
		const to = {ArrowLeft: here - 1, ArrowRight: here + 1, PageUp: here - 12, PageDown: here + 12, Home: 0,
			End: POINTS - 1,
			ArrowDown: here - 1, ArrowUp: here + 1}[e.key];
		if (to === undefined)
			return;
		e.preventDefault();
		choose(to);
	});
	numbers.node.addEventListener("toggle", () => numbers.update(points));
	return {node, update(now_ms) {
		const past = kept.get(job) || {list: [], changes: []}, steps = past.list.slice(-POINTS);
		const next = [...new Array(POINTS - steps.length).fill(null), ...steps];
		if (next.every((step, i) => step === list[i]) && list.length && changes === past.changes)
			return;
		end_ms = now_ms;
		changes = past.changes;
		mark(said, "d", marks(changes, end_ms));
		list = next;
		points = list.map(bandsOf);
		mark(known, "d", points.map((bands, x) => (bands ? `M${x} 0h1v100h-1z` : "")).join(""));
		shapes(points).forEach((d, i) => mark(paths[i], "d", d));
		BANDS.forEach((_, i) => show(keys[i], points.some((bands) => bands && bands[i])));
		numbers.update(points);
		tell();
	}};
}
