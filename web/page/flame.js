// SPDX-License-Identifier: GPL-2.0
// flame.js: which lines of Python time and GPU memory go to, as a flame graph whose root is on top. It is
// asked for when somebody opens it, and anew on demand.
import {$, bytes, count, duration, exact, inside, make, mark, percent, say, show} from "./shared.js";
import {partTable} from "./processes.js";
import {ask} from "./main.js";

const FRAMES_MAX = 3000; // drawn at once
const NARROW = 0.0008; // of the width: what is narrower is left out
const SPANS = [[60, "the last minute"], [300, "the last 5 minutes"], [900, "the last 15 minutes"],
[0, "since each process began"]];
const SHARED = /^[^/]+\.so(?=$|\.)/; // of an example of a native stack
const PACKAGE = /\/(?:site|dist)-packages\/([^/]+)/;
const amounts = {launch: (v) => `${count(v)} launches`, alloc: bytes};

// drawn: the cause that the picture is of; cause: the one that was chosen last
const flame = {cause: "", drawn: "", root: null, top: null, found: "", asked: 0, shown: [], at: 0};

// ---- what the daemon says, as a tree ----

// "step (/home/x/train.py:212)", "[thread x]"
export function frameOf(text) {
	const m = text.match(/^(.*) \((.*?)(?::(\d+))?\)$/s), file = m ? m[2] : "";
	const library = file.startsWith("<") ? "generated code" : (file.match(PACKAGE) || [])[1] ||
		(file.includes("/lib/python3") ? "Python's library" : "") || (file.match(SHARED) || [""])[0];
	const base = file.slice(file.lastIndexOf("/") + 1);
	return {name: m ? m[1] : text, file, line: m && m[3] ? m[3] : "", library: library.replace(/\.py$/, ""),
		label: m ? `${m[1]} ${base}${m[3] ? `:${m[3]}` : ""}` : text};
}

const branch = (text, up, frame) => ({text, up, frame, all: 0, kids: new Map()});

// Calls within one library become one frame, if that is wished.
function framesOf(path, folds) {
	const all = path.map(frameOf);
	return folds ? all.filter((f, i) => !i || !f.library || f.library !== all[i - 1].library)
		.map((f) => (f.library ? {...f, label: f.library, name: f.library, file: "", line: ""} : f)) : all;
}

export function treeOf(text, folds) {
	const root = branch("all", null, {label: "all", name: "all", file: "", line: "", library: ""});
	for (const line of text.split("\n")) {
		const end = line.lastIndexOf(" "), path = line.slice(0, end).split(";").slice(0, -1),
			value = Number(line.slice(end + 1));
		if (end < 0 || !(value > 0))
			continue;
		let at = root;
		at.all += value;
		for (const f of framesOf(path, folds)) {
			const key = `${f.name}\n${f.file}\n${f.line}`;
			if (!at.kids.has(key))
				at.kids.set(key, branch(key, at, f));
			at = at.kids.get(key);
			at.all += value;
		}
	}
	return root;
}

// ---- the picture ----

const box = $("flame"), view = box.querySelector(".frames"), switches = box.querySelector(".causes");
const kind = (f) => (f.label.startsWith("[") || f.label === "all" || f.label.startsWith("(") ? "plain" : f.library ?
	"library" : "own");
const amount = (v) => (amounts[flame.drawn] || ((ns) => duration(ns / 1000)))(v);
const says = (n) => `${n.frame.name}${n.frame.file ? `, ${n.frame.file}${n.frame.line && `:${n.frame.line}`}` :
	""}: ${amount(n.all)}, ` +
	percent(n.all / (flame.root.all || 1));
const matches_ = (n) => flame.found && [n.frame.name, `${n.frame.file}:${n.frame.line}`, n.frame.library].some((t) =>
	t.toLowerCase().includes(flame.found));

// Frames from the one that is zoomed to, with those above it over the whole width. Depth first, so that the keys can
// follow.
function layout() {
	const placed = [], above = [];
	let left = 0;
	for (let n = flame.top.up; n; n = n.up)
		above.unshift(n);
	above.forEach((n, depth) => placed.push({n, depth, from: 0, width: 1}));
	const put = (n, depth, from) => {
		const width = n.all / flame.top.all;
		if (width < NARROW || placed.length >= FRAMES_MAX) {
			left++;
			return;
		}
		placed.push({n, depth, from, width});
		let at = from;
		for (const kid of [...n.kids.values()].sort((a, b) => b.all - a.all)) {
			put(kid, depth + 1, at);
			at += kid.all / flame.top.all;
		}
	};
	put(flame.top, above.length, 0);
	return {placed, left};
}

function matched(n) {
	return matches_(n) ? n.all : [...n.kids.values()].reduce((sum, kid) => sum + matched(kid), 0);
}

function drawFrame({n, depth, from, width}, i) {
	const node = make("div", `frame_ ${kind(n.frame)}${matches_(n) ? " found" : ""}`, n.frame.label);
	for (const [name, value] of [["role", "treeitem"], ["tabindex", i === flame.at ? "0" : "-1"],
		["aria-level", String(depth + 1)],
		["aria-label", `${n.frame.label}, ${amount(n.all)}, ${percent(n.all / flame.root.all)}`], ["title", says(n)],
		["aria-selected", String(n === flame.top)]])
		node.setAttribute(name, value);
	Object.assign(node.style, {left: `${100 * from}%`, width: `${100 * width}%`, top: `${1.4 * depth}rem`});
	node.classList.toggle("narrow_", width < 0.02);
	node.place = i;
	return node;
}

function drawFlame() {
	const {placed, left} = layout(), deep = placed.reduce((most, p) => Math.max(most, p.depth), 0);
	flame.shown = placed;
	flame.at = Math.max(0, placed.findIndex((p) => p.n === flame.top));
	view.replaceChildren(...placed.map(drawFrame));
	view.style.height = `${1.4 * (deep + 1)}rem`;
	const hits = flame.found ? `${percent(matched(flame.root) / (flame.root.all || 1))} is in what was searched for. ` :
		"";
	say(box.querySelector(".found_"), hits + (left ? `${exact(left)} frames are too narrow to be drawn.` : ""));
	show(box.querySelector(".out"), flame.top !== flame.root);
	say(box.querySelector(".read"), says(flame.top));
}

function zoom(n) {
	flame.top = n;
	drawFlame();
	view.children[flame.at].focus({preventScroll: true});
}

function focusFrame(i) {
	if (i < 0 || i >= view.children.length)
		return;
	view.children[flame.at].tabIndex = -1;
	flame.at = i;
	view.children[i].tabIndex = 0;
	view.children[i].focus();
	say(box.querySelector(".read"), says(flame.shown[i].n));
}

// Where a key leads to: up and down the stack, to what stands beside a frame.
function neighbour(key) {
	const {n, depth} = flame.shown[flame.at], at = (test) => flame.shown.findIndex(test),
		beside = flame.shown.filter((p) => p.n.up === n.up && p.depth === depth);
	const i = beside.findIndex((p) => p.n === n), to = {ArrowLeft: beside[i - 1], ArrowRight: beside[i + 1]}[key];
	if (key === "ArrowUp")
		return at((p) => p.n === n.up);
	if (key === "ArrowDown")
		return at((p) => p.n.up === n);
	return key === "Home" ? 0 : key === "End" ? flame.shown.length - 1 : to ? at((p) => p === to) : -1;
}

view.addEventListener("keydown", (e) => {
	if (e.key === "Enter" || e.key === " ")
		zoom(flame.shown[flame.at].n);
	else if ((e.key === "Escape" || e.key === "Backspace") && flame.top.up)
		zoom(e.key === "Escape" ? flame.root : flame.top.up);
	else if (/^Arrow|^Home$|^End$/.test(e.key))
		focusFrame(neighbour(e.key));
	else
		return;
	e.preventDefault();
});
view.addEventListener("click", (e) => e.target.place !== undefined && zoom(flame.shown[e.target.place].n));
view.addEventListener("pointerover", (e) => e.target.place !== undefined &&
	say(box.querySelector(".read"), says(flame.shown[e.target.place].n)));

// ---- what is asked for ----

const lines = partTable("Lines of the program", ["Line", "Share", "Amount", "Calls"]);
box.querySelector(".lines_").append(lines.node);

const control = (name) => box.querySelector(`[name=${name}]`);
const query = (more) => new URLSearchParams(Object.entries({...more,
	...(control("of").value ? JSON.parse(control("of").value) : {}),
	...(Number(control("seconds").value) ? {seconds: control("seconds").value} : {})}).filter(([, v]) => v)).toString();

// Jobs and processes whose stacks are known. An answer about one of them does not know the others.
function choices(answer) {
	const select = control("of"), jobs = [...new Set(answer.processes.map((p) => p.job_id).filter(Boolean))];
	if (select.value)
		return;
	const all = [["", "all processes"], ...jobs.map((job) => [JSON.stringify({job}), `job ${job}`]),
		...answer.processes.filter((p) => !p.pid_reused).map((p) =>
			[JSON.stringify({pid: p.pid}), `${p.comm} ${p.pid}${p.ended ? ", ended" : ""}`])];
	select.replaceChildren(...all.map(([value, text]) => Object.assign(make("option", "", text), {value})));
}

function drawCauses(answer) {
	const known = answer.causes.map((c) => c.cause), focused = switches.contains(document.activeElement);
	if (!known.includes(flame.cause))
		flame.cause = known.includes("gpu") ? "gpu" : known[0] || "";
	switches.replaceChildren(...answer.causes.map((c) => {
		const label = make("label"),
			radio = Object.assign(make("input"),
			{type: "radio", name: "cause", value: c.cause, checked: c.cause === flame.cause});
		radio.addEventListener("change", () => {
			flame.cause = c.cause;
			loadFlame();
		});
		return inside(label, radio, make("span", "", `${c.says}${c.estimated ? " (estimated)" : ""}`));
	}));
	if (focused)
		switches.querySelector(":checked")?.focus();
}

function drawLines(answer) {
	const cause = answer.causes.find((c) => c.cause === flame.cause), base = (f) =>
		f.file.slice(f.file.lastIndexOf("/") + 1);
	const where = (l) => `${base(l)}${l.line ? `:${l.line}` : ""} in ${l.function}`;
	lines.fill(cause ? cause.lines.map((l) => [where(l) + (l.through ? `, through ${where(l.through)}` : "") +
		(l.thread ? `, for ${l.thread}` : ""), `${l.percent} %`,
		cause.unit === "bytes" ? bytes(l.value) : duration(1e6 * l.value), exact(l.count)]) : []);
}

// What the picture lacks, and why.
function remarks(answer) {
	const unknown = (answer.unknown || []).map((u) => `Process ${u.pid}: ${u.why}.`);
	const none = answer.state !== "attached" ? `No stacks are read: ${answer.why || "switched off"}.` :
		!answer.causes.length ? "No Python function has called a GPU library in this time." : "";
	return [none, ...unknown.slice(0, 8), unknown.length > 8 ? `And ${unknown.length - 8} more processes.` :
		""].filter(Boolean).join(" ");
}

async function loadFlame() {
	const mine = ++flame.asked, status = box.querySelector(".state_");
	say(status, "asking …");
	try {
		const first = await ask(`/stacks?${query({})}`), answer = first.ok &&
			{processes: [], causes: [], ...await first.json()};
		if (!answer || mine !== flame.asked)
			throw new Error(answer ? "" : `the daemon answers ${first.status}`);
		choices(answer);
		drawCauses(answer);
		const second = flame.cause && await ask(`/stacks/folded?${query({cause: flame.cause})}`);
		if (second && !second.ok)
			throw new Error(`the daemon answers ${second.status}`);
		const folded = second ? await second.text() : "";
		if (mine !== flame.asked)
			return;
		flame.text = folded;
		flame.drawn = flame.cause;
		drawLines(answer);
		say(status, remarks(answer));
		again();
	} catch (e) {
		if (mine === flame.asked)
			say(status, `Not to be had: ${e.message}.`);
	}
}

// The same answer, anew.
function again() {
	flame.root = flame.top = treeOf(flame.text || "", control("folds").checked);
	flame.at = 0;
	for (const part of [view.parentNode, box.querySelector(".lines_")])
		show(part, flame.root.all > 0);
	if (flame.root.all)
		drawFlame();
}

SPANS.forEach(([s, text], i) =>
	control("seconds").append(Object.assign(make("option", "", text), {value: String(s), selected: i === 0})));
for (const name of ["of", "seconds"])
	control(name).addEventListener("change", loadFlame);
control("folds").addEventListener("change", again);
control("search").addEventListener("input", (e) => {
	flame.found = e.target.value.trim().toLowerCase();
	if (flame.root && flame.root.all)
		drawFlame();
});
box.querySelector(".again").addEventListener("click", loadFlame);
box.querySelector(".out").addEventListener("click", () => zoom(flame.root));
box.addEventListener("toggle", () => box.open && !flame.asked && loadFlame());
mark(view, "aria-label", "Functions by who called them");
