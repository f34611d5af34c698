// SPDX-License-Identifier: GPL-2.0
// latency.js: inference servers: how fast they answered over 15 minutes, and their requests by route.
import {$, count, duration, exact, inside, make, mark, NONE, percent, Rows, say, show} from "./shared.js";
import {Plot} from "./charts.js";
import {empty, past} from "./history.js";
import {partTable} from "./processes.js";

const OPEN_SERVERS = 3; // servers whose charts are shown without being asked for
const ms = (v) => (v == null ? NONE : duration(1000 * v));

// name, lines of the history, how a figure is written
const plots = [
	["Time to the first event", ["first_event_p50_ms", "first_event_p99_ms"], ms],
	["Between two events", ["event_gap_p50_ms", "event_gap_p99_ms"], ms],
	["Whole request", ["duration_p50_ms", "duration_p99_ms"], ms],
	["In flight", ["in_flight"], exact],
	["Requests per second", ["rate", "errors"], (v) => `${count(v)}/s`],
];
const keys = {rate: "all", errors: "5xx", in_flight: ""};
const sum = (s, of) => s.routes.reduce((n, r) => n + of(r), 0);

// The routes of a server, over the last half minute to a minute.
function routeLines(s) {
	const took = (o) => (o && o.count ? `${ms(o.p50_ms)} / ${ms(o.p99_ms)}` : NONE);
	return s.routes.map((r) => {
		const now = r.recent || {}, done = now.requests || {};
		return [r.route, exact(r.in_flight), now.rate == null ? NONE : count(now.rate), took(now.first_event),
			took(now.event_gap),
			took(now.duration), now.error_ratio == null ? NONE : percent(now.error_ratio), exact(done.aborted ?? null) || NONE];
	});
}

const parts = {unread: "unread in the socket", front_runqueue: "front end waits for a CPU",
	engine_cpu: "engine on the CPU", engine_gpu: "engine waits for the GPU", engine_data: "engine waits for data",
	engine_dist: "engine waits for other ranks", engine_io: "engine blocked on files",
	engine_runqueue: "engine waits for a CPU", engine_other: "engine asleep"};

// What a request waits for on average, now and usually; a part that is nothing in both is left out.
function waitLines(s) {
	const first = (s.waits && s.waits.first_event.parts_ms) || {}, gap = (s.waits && s.waits.event_gap.parts_ms) || {};
	const pair = (o) => (o ? `${ms(o.now)} / ${ms(o.usual)}` : NONE);
	const some = (o) => o && (o.now >= 0.05 || o.usual >= 0.05);
	return Object.entries(parts).filter(([key]) => some(first[key]) || some(gap[key]))
		.map(([key, text]) => [text, pair(first[key]), pair(gap[key])]);
}

// What is said of requests that are unusually slow.
const sayings = (s) => ["first_event", "event_gap"].map((of) => s.waits && s.waits[of].says).filter(Boolean);

function slowLines(s) {
	return (s.slowest || []).map((r, i) => [String(i + 1), r.route, r.code, `${Math.round(r.ago_s)} s ago`,
		ms(r.duration_ms), ms(r.first_event_ms), exact(r.events), r.waited || NONE, r.exact ? "alone" : "shared"]);
}

// What stands beside the name of a server: the figures of its newest step.
function brief(s) {
	const read = s.sampled && s.sampled.requests;
	const step = s.step || {}, job = s.job_id && `job ${s.job_id}`, unread = s.unread && s.unread.count ?
		`unread p99 ${ms(s.unread.p99_ms)}` : "";
	return [`process ${s.pid}`, s.service !== s.pid && `service ${s.service}`, s.port ? `port ${s.port}` :
		"no port of TCP", job,
		`${exact(sum(s, (r) => r.in_flight))} in flight`, step.rate != null && `${count(step.rate)}/s`,
		step.errors > 0 && `${count(step.errors)}/s answered by 5xx`, step.first_event_p99_ms != null &&
		`first event p99 ${ms(step.first_event_p99_ms)}`,
		unread, read && `measured in ${percent(read.now)} of the time`].filter(Boolean).join(" · ");
}

let built = 0;

function card() {
	const node = make("li"), box = make("details"), head = make("summary"), name = make("strong"), more = make("span");
	const charts = plots.map(([title, lines, text]) =>
		new Plot(title, lines.map((line) => keys[line] ?? line.match(/p\d+/)[0]), text));
	const routes = partTable("By route, of the last half minute",
		["Route", "In flight", "Requests/s", "First event p50 / p99", "Gap p50 / p99",
		"Whole p50 / p99", "5xx", "Aborted"]);
	const waits = partTable("What a request waits for, now / usually",
		["On average", "Until the first event", "Between events"]);
	const slowest = partTable("The slowest, and what they waited for", ["", "Route", "Ended", "When", "Took",
		"First event", "Events", "Waited", "Engine's work"]), said = make("p", "slow-says");
	let last = null;
	box.open = built++ < OPEN_SERVERS;
	inside(head, name, " ", more);
	slowest.node.classList.add("slowest");
	inside(node, inside(box, head, said, inside(make("div", "plots"), ...charts.map((c) => c.node)), routes.node,
		waits.node, slowest.node));
	const draw = () => {
		const lines = past.servers.get(last.pid);
		plots.forEach(([, names], i) => charts[i].set(names.map((line) => (lines && lines[line]) || empty())));
	};
	box.addEventListener("toggle", () => box.open && last && draw());
	return {node, update(s) {
		const first = last === null;
		last = s;
		say(name, s.comm);
		say(more, brief(s));
		mark(node, "data-pid", String(s.pid));
		if (!box.open)
			return;
		say(said, sayings(s).join(" "));
		show(said, sayings(s).length > 0);
		routes.fill(routeLines(s));
		for (const [table, lines] of [[waits, waitLines(s)], [slowest, slowLines(s)]]) {
			table.fill(lines);
			show(table.node, lines.length > 0);
		}
		if (past.fresh || first)
			draw();
	}};
}

const shownServers = new Rows($("servers").querySelector("ul"), card);

export function servers(s) {
	const busy = [...s.servers].sort((a, b) => sum(b, (r) => r.in_flight > 0 || r.events > 0) - sum(a,
		(r) => r.in_flight > 0 || r.events > 0) ||
		a.service - b.service || a.pid - b.pid);
	show($("servers"), s.servers.length > 0);
	shownServers.show(busy, (v) => v.pid);
}
