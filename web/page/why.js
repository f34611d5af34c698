// SPDX-License-Identifier: GPL-2.0
// why.js: what the time of each job was lost to over the last minute, longest first, and what to do about it.
import {$, inside, make, mark, Rows, say, show} from "./shared.js";

const LIKELY = "another explanation is possible";

function causeRow() {
	const node = make("li"), share = make("span", "share"), what = make("span"), next = make("p"), metric = make("code");
	inside(node, share, inside(make("div"), inside(make("p", "what"), what), next, inside(make("p", "muted"), metric)));
	return {node, update(c) {
		mark(node, "data-cause", c.cause);
		say(share, `${c.percent} %`);
		share.style.setProperty("--share", `${Math.min(c.percent, 100)}%`);
		say(what, c.says.replace(/^\d+ % of the time /, "") + (c.sure === "likely" ? ` (${LIKELY})` : ""));
		say(next, `Next: ${c.next}`);
		say(metric, c.metric);
	}};
}

const shownWhy = new Rows($("why").querySelector("ul"), () => {
	const node = make("li"), head = make("h3"), none = make("p", "muted"), list = make("ol");
	const causes = new Rows(list, causeRow);
	inside(node, head, none, list);
	return {node, update(w) {
		say(head, w.job_id === null ? "Processes of no job" : `Job ${w.job_id}`);
		show(none, w.causes.length === 0);
		say(none, w.says);
		causes.show(w.causes, (c) => c.cause);
	}};
});

export function why(s) {
	show($("why"), s.why.length > 0);
	shownWhy.show(s.why, (w) => String(w.job_id));
}
