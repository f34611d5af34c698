// SPDX-License-Identifier: GPL-2.0
// ranks.js: the processes of a job beside each other, and which of them is not like the others.
import {bytes, count, duration, inside, make, mark, NONE, percent, Rows, say, show, SVG} from "./shared.js";

const STATES = ["gpu", "dist", "data", "io", "cpu", "runqueue", "other"];
const HELD = ["hang", "unsure", "halted"]; // what its waits are where they are not what they look like
const BARS = [...HELD, ...STATES];
const WORDS = {hang: "waits for a rank that does not come",
	unsure: "waits with all others, for the GPU or another node", halted: "cannot go on", gpu: "waits for the GPU",
	dist: "waits for other ranks", data: "waits for data", io: "blocked on files", cpu: "runs",
	runqueue: "finds no free CPU", other: "sleeps"};
const STOPPED = {signal: "is stopped by a signal or a debugger", frozen: "is in a frozen control group",
	uninterruptible: "is in uninterruptible sleep (state D)"};
const FAR = 0.25; // of its time: so far from the others' median is far
const SHOWN = 16; // ranks of a job at first; what stands out is shown in any case

// The median of values that are sorted, without one of them. Jobs may have a thousand ranks, each second.
function medianWithout(value, sorted) {
	const out = sorted.indexOf(value), n = sorted.length - 1, half = n >> 1, at = (i) => sorted[i < out ? i : i + 1];
	return n % 2 ? at(half) : (at(half - 1) + at(half)) / 2;
}

const shareOf = (p, state) => p.stalls[state] || 0;

// Inside a call that waits for the GPU, a process may wait for a rank.
export const heldBy = (shares) => (shares.waits_for_pid ? "hang" : shares.all_wait ? "unsure" :
	["signal", "frozen"].includes(shares.stopped) ? "halted" : null);

// Its shares as they are to be shown: a wait for a rank is no wait for the GPU.
function shown(shares) {
	const held = heldBy(shares);
	return held ? {...shares, [held]: (shares.gpu || 0) + (shares.dist || 0), gpu: 0, dist: 0} : shares;
}

// In which state a process is for a time that is far from the median of the others: {state, here, others}, or null.
// sorted: by state, the shares of all.
function farthest(sorted, p) {
	const gaps = STATES.map((state, i) => ({state, here: shareOf(p, state),
		others: medianWithout(shareOf(p, state), sorted[i])}));
	const worst = gaps.reduce((a, b) => (Math.abs(b.here - b.others) > Math.abs(a.here - a.others) ? b : a));
	return Math.abs(worst.here - worst.others) > FAR ? worst : null;
}

// Why a process stands out, by PID: the others wait for it, it comes late, or its time is spent otherwise than theirs.
// Of two, neither is the odd one, and where half of them are far from the others there are two kinds and no odd one.
function oddRanks(processes, w) {
	const odd = new Map(), known = processes.filter((p) => p.stalls && !heldBy(p.stalls));
	const sorted = STATES.map((state) => known.map((p) => shareOf(p, state)).sort((a, b) => a - b));
	const far = known.length < 3 ? [] : known.map((p) => [p, farthest(sorted, p)]).filter(([, gap]) => gap);
	if (2 * far.length < known.length)
		for (const [p, gap] of far)
			odd.set(p.pid, `${WORDS[gap.state]} ${percent(gap.here)} of its time, the others ${percent(gap.others)}`);
	for (const p of processes.filter(({stalls}) => stalls && STOPPED[stalls.stopped]))
		odd.set(p.pid, STOPPED[p.stalls.stopped]);
	if (w.late_pid)
		odd.set(w.late_pid, "comes late, the others wait for it");
	if (w.missing_pid)
		odd.set(w.missing_pid, odd.has(w.missing_pid) && odd.get(w.missing_pid).startsWith("is ") ?
			`${odd.get(w.missing_pid)}, the others wait for it` : "does not come, the others wait for it");
	return odd;
}

const commOf = (p) => (p.nccl && p.nccl.comms.length ? p.nccl.comms.reduce((a, b) => (b.nranks > a.nranks ? b : a)) :
	null);
const rankOf = (p) => (commOf(p) ? commOf(p).rank : Infinity);

function line() {
	const svg = document.createElementNS(SVG, "svg");
	for (const [name, value] of Object.entries({class: "shares", viewBox: "0 0 100 1", preserveAspectRatio: "none",
		role: "img"}))
		svg.setAttribute(name, value);
	const parts = BARS.map((state) => {
		const part = document.createElementNS(SVG, "rect");
		mark(part, "class", state);
		mark(part, "height", "1");
		svg.append(part);
		return part;
	});
	return {node: svg, update(of) {
		const shares = of && shown(of);
		let at = 0;
		BARS.forEach((state, i) => {
			const width = shares ? Math.max(0, Math.min(100 - at, 100 * (shares[state] || 0))) : 0;
			mark(parts[i], "x", at.toFixed(1));
			mark(parts[i], "width", width.toFixed(1));
			at += width;
		});
		mark(svg, "aria-label", shares ? BARS.filter((state) => !HELD.includes(state) || shares[state]).map((state) =>
			`${HELD.includes(state) ? WORDS[state] : state} ${percent(shares[state] || 0)}`).join(", ") : "not measured");
	}};
}

const memoryOf = (p) => (p.memory_complete === false ? null : p.gpus.reduce((n, g) => n + g.used_bytes, 0));
const figures = [
	["Launches/s", (p) => count(p.launch.rate)],
	["Memory", (p) => bytes(memoryOf(p))],
	["Issued", (p, comm) => (comm && comm.issued !== undefined ? count(comm.issued) : NONE),
	"Collectives that it has issued, in its largest communicator"],
	["Late", (p, comm) => (comm && comm.late_s !== undefined ? duration(comm.late_s * 1e6) : NONE),
	"How long after the first rank it issued them, in all"],
];

function rankRow() {
	const node = make("tr"), name = make("th"), box = make("td", "bar-cell"), bar = line(), why = make("p", "odd-why");
	const cells = figures.map(() => make("td", "number"));
	name.scope = "row";
	inside(node, name, inside(box, bar.node, why), ...cells);
	return {node, update({p, odd, gone}) {
		const comm = p && commOf(p);
		mark(node, "class", odd ? "odd" : "");
		say(name, p ? `${comm ? `Rank ${comm.rank} · ` : ""}${p.pid}` : gone);
		mark(name, "title", p ? p.comm : "");
		bar.update(p && p.stalls);
		bar.node.toggleAttribute("hidden", !p); // of SVG, hidden is no property
		say(why, odd ? `${odd[0].toUpperCase()}${odd.slice(1)}` : "");
		show(why, Boolean(odd));
		figures.forEach(([, text], i) => say(cells[i], p ? text(p, comm) : NONE));
	}};
}

// The table of the ranks of one job.
export function ranksOf() {
	const node = make("div", "ranks"), table = make("table"), body = make("tbody"), head = make("tr"),
		more = make("button", "narrower");
	const legend = make("p", "keys"), rows = new Rows(body, rankRow);
	let all = false, last = null;
	const title = make("th", "", "Rank"), bar = make("th", "", "Where its time goes");
	inside(head, title, bar, ...figures.map(([name, , hint]) =>
		Object.assign(make("th", "number", name), {title: hint || ""})));
	const keys = BARS.map((state) => inside(make("span"), make("i", state), WORDS[state]));
	legend.append(...keys);
	more.type = "button";
	node.tabIndex = 0; // it may be wider than its place
	mark(node, "role", "group");
	mark(node, "aria-label", "Its processes beside each other");
	inside(node, inside(table, inside(make("thead"), head), body), more, legend);
	const fill = (processes, w) => {
		last = [processes, w];
		const odd = oddRanks(processes, w);
		const items = [...processes].sort((a, b) =>
			(rankOf(a) === rankOf(b) ? a.pid - b.pid : rankOf(a) - rankOf(b))).map((p) =>
			({key: String(p.pid), p, odd: odd.get(p.pid)}));
		if (w.missing_pid && !processes.some((p) => p.pid === w.missing_pid))
			items.unshift({key: String(w.missing_pid), odd: odd.get(w.missing_pid),
				gone: `${w.missing_rank === null ? "" : `Rank ${w.missing_rank} · `}${w.missing_pid}`});
		BARS.forEach((state, i) =>
			show(keys[i], !HELD.includes(state) || processes.some((p) => p.stalls && heldBy(p.stalls) === state)));
		const seen = items.filter((item, i) => all || i < SHOWN || item.odd);
		rows.show(seen, (item) => item.key);
		show(node, items.length > 0);
		show(more, items.length > SHOWN);
		say(more, all ? `Show the first ${SHOWN}` : `Show all ${items.length}`);
	};
	more.addEventListener("click", () => {
		all = !all;
		fill(...last);
	});
	return {node, fill};
}
