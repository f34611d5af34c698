// SPDX-License-Identifier: GPL-2.0
// why.js: a card for each job that runs here: its state, what its time was lost to over the last minute and what to do
// about it, the last 15 minutes, and its ranks beside each other. The worst are open, the others are a line each.
import {$, inside, make, mark, Order, Rows, say, show, span} from "./shared.js";
import {ranksOf} from "./ranks.js";
import {otherNodes} from "./ras.js";
import {labelMap, labelText, timelineOf} from "./timeline.js";
import {now} from "./main.js";

const LIKELY = "another explanation is possible";
const OPEN = 3; // cards

// Most trouble first.
const states = [
	["hangs", () => "hangs"],
	["stopped", () => "is stopped"],
	["still", (w) => `stands still for ${span(w.progress_age_s)}`],
	["critical", () => "in trouble"],
	["waits", () => "all its ranks wait"],
	["loses", (w) => `loses ${w.lost_percent} %`],
	["warned", () => "runs, with a warning"],
	["idle", () => "idle"],
	["unknown", () => "where its time goes is not known"],
	["starting", () => "starting"],
	["runs", () => "running fine"],
];
const trouble = (w) => {
	const at = states.findIndex(([name]) => name === w.state);
	return (at < 0 ? states.length : at) - (w.lost_percent || 0) / 1000;
};
const stateText = (w) => (states.find(([name]) => name === w.state) || ["", () => ""])[1](w);
const of = (s, w) => s.processes.filter((p) => (w.job_id === null ? !p.job_id : p.job_id === w.job_id));

// Where on this page the figures of a metric are.
const places = [[/^zernel_(io|mount)_/, "io"], [/^zernel_job_/, "jobs"],
	[/^zernel_(tcp|sched|runqueue|syscall|gpu_ioctl)/, "signals"],
	[/^zernel_(lost|probe)/, "lost"], [/^zernel_gpu_/, "gpus"]];

function lead(metric, job) {
	const [, id] = places.find(([name]) => name.test(metric)) || [null, "processes"];
	const there = $($(id).hidden ? "processes" : id);
	if (there.id === "processes") {
		$("filter").value = job === null ? "" : `job:${job}`;
		$("filter").dispatchEvent(new Event("input"));
	}
	there.tabIndex = -1;
	there.focus();
	there.scrollIntoView();
}

function causeRow(job) {
	const node = make("li"), share = make("span", "share"), what = make("span"), next = make("p"),
		metric = make("button", "narrower");
	metric.type = "button";
	metric.addEventListener("click", () => lead(metric.textContent, job));
	inside(node, share, inside(make("div"), inside(make("p", "what"), what), next, inside(make("p", "muted"), metric)));
	return {node, update(c) {
		mark(node, "data-cause", c.cause);
		say(share, c.percent === null ? "!" : `${c.percent} %`);
		mark(share, "title", c.percent === null ? "How much time it costs cannot be told" : "of the time of the last minute");
		share.style.setProperty("--share", `${Math.min(c.percent || 0, 100)}%`);
		say(what, c.says.replace(/^\d+ % of the time /, "") + (c.sure === "likely" ? ` (${LIKELY})` : ""));
		say(next, `Next: ${c.next}`);
		say(metric, c.metric);
		mark(metric, "aria-label", `${c.metric}, go to where it is shown`);
	}};
}

const shownWhy = new Rows($("why").querySelector("ul"), (first) => {
	const node = make("li"), card = make("details"), head = make("summary"), name = make("h3"),
		state = make("span", "job-state");
	const brief = make("span", "brief"), said = make("p", "said"), none = make("p", "muted"), list = make("ol");
	const causes = new Rows(list, () => causeRow(first.job_id)), bands = timelineOf(String(first.job_id)),
		ranks = ranksOf(), nodes = otherNodes(first.job_id);
	let shown = first;
	inside(head, name, state, brief);
	inside(node, inside(card, head, said, none, list, nodes.node, bands.node, ranks.node));
	const fill = () => {
		say(brief, card.open ? "" : shown.says);
		if (!card.open)
			return;
		show(said, (shown.labels || []).length > 0);
		say(said, `It says of itself: ${labelText(labelMap(shown.labels || []))}`);
		show(none, shown.causes.length === 0);
		say(none, shown.says);
		causes.show(shown.causes, (c) => c.cause);
		nodes.fill(shown.ras);
		bands.update(now.last_update_ms);
		ranks.fill(of(now, shown), shown);
	};
	card.open = [...now.why].sort((a, b) => trouble(a) - trouble(b)).indexOf(first) < OPEN;
	card.addEventListener("toggle", fill);
	return {node, update(w) {
		shown = w;
		mark(node, "data-state", w.state || "");
		say(name, w.job_id === null ? "Processes of no job" : `Job ${w.job_id}`);
		say(state, stateText(w));
		fill();
	}};
});

const order = new Order("#why li", (w) => String(w.job_id));

export function why(s) {
	show($("why"), s.why.length > 0);
	shownWhy.show(order.of(s.why, (a, b) => trouble(a) - trouble(b)), (w) => String(w.job_id));
}
