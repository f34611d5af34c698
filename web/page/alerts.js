// SPDX-License-Identifier: GPL-2.0
// alerts.js: what fires.
import {$, bytes, clock, count, duration, inside, label, make, mark, percent, Rows, say, show, span} from "./shared.js";
import {now} from "./main.js";

const common = ["alert", "severity", "state", "value", "threshold", "unit", "since_ms", "summary", "description"];
const labels = (alert) => Object.entries(alert).filter(([name]) => !common.includes(name)); // what it is about
const units = {ratio: percent, seconds: (v) => duration(v * 1e6), bytes};
const spoken = {gpu_id: "GPU", pid: "process", job_id: "job", what: "kind"};

const shownAlerts = new Rows($("alerts").querySelector("ul"), () => {
	const node = make("li"), head = make("span"), word = make("span", "word"), what = make("span", "what");
	const more = make("span"), about = make("span", "about"), since = make("span", "more");
	inside(node, inside(head, word, " ", what), more, since, about);
	return {node, update(a) {
		const on = labels(a).map(([name, v]) => `${spoken[name] || label(name)} ${v}`);
		const unit = units[a.unit] || count;
		mark(node, "class", `${a.state} ${a.severity}`);
		if (a.state === "firing")
			mark(head, "role", "alert");
		else
			head.removeAttribute("role");
		say(word, a.state);
		say(what, `${a.alert}${on.length ? ` on ${on.join(", ")}` : ""}`);
		say(more, a.threshold == null ? a.summary : `${a.summary}: ${unit(a.value)}, limit ${unit(a.threshold)}`);
		show(about, a.description != null);
		say(about, a.description || "");
		say(since, `since ${clock(a.since_ms)}, ${span((now.last_update_ms - a.since_ms) / 1000)}`);
	}};
});

// The jobs stand before the alerts, which may be many: a line above them says how many there are.
function tellFiring(s) {
	const firing = s.alerts.filter((a) => a.state === "firing"),
		critical = firing.filter((a) => a.severity === "critical").length;
	show($("firing"), firing.length > 0 && s.why.length > 0);
	mark($("firing"), "class", critical ? "critical" : "");
	say($("firing").firstElementChild, `${firing.length} alert${firing.length === 1 ? " fires" : "s fire"}${critical ?
		`, ${critical} of them critical` : ""}`);
}

const weight = (a) => 2 * (a.state === "firing") + (a.severity === "critical");

export function alerts(s) {
	const order = [...s.alerts].sort((a, b) => weight(b) - weight(a));
	tellFiring(s);
	show($("alerts"), order.length > 0);
	shownAlerts.show(order, (a) => JSON.stringify([a.alert, labels(a)]));
}
