// SPDX-License-Identifier: GPL-2.0
// main.js: the whole page, and the connection that it lives on.
import {$, ANSWER_MS, clock, mark, RETRY_MAX_S, say, show, span} from "./shared.js";
import {past, remember, takeHistory} from "./history.js";
import {alerts} from "./alerts.js";
import {rememberSteps, takeTimelines} from "./timeline.js";
import {why} from "./why.js";
import {glance} from "./glance.js";
import {gpus} from "./gpus.js";
import {header, processes} from "./processes.js";
import {servers} from "./latency.js";
import {jobs} from "./jobs.js";
import {files} from "./io.js";
import {losses, shownProbes} from "./probes.js";

export let now = null; // the newest snapshot
let version = ""; // of the daemon that this page came from

function heading(s) {
	const firing = s.alerts.filter((a) => a.state === "firing").length;
	say($("node"), s.node);
	say($("facts"), `${s.source} · zerneld ${s.version} · up ${span(s.uptime_s)}`);
	const title = `${firing ? `(${firing} firing) ` : ""}${s.node} · zerneld`;
	if (document.title !== title)
		document.title = title;
	show($("simulated"), s.source === "simulated");
	show($("truncated"), Boolean(s.truncated));
	version = version || s.version;
	show($("updated"), version !== s.version);
}

function draw() {
	const s = now;
	if (!s || document.hidden)
		return;
	show($("main"), true);
	heading(s);
	alerts(s);
	why(s);
	glance(s);
	gpus(s);
	processes(s);
	servers(s);
	jobs(s);
	files(s);
	shownProbes.show(s.probes, (p) => p.family);
	losses(s);
	past.fresh = false;
	mark($("main"), "data-shown", String(s.last_update_ms)); // which snapshot this is
}

function take(text) {
	const s = JSON.parse(text);
	const empty_ = {gpus: [], ports: [], processes: [], servers: [], jobs: [], io: [], alerts: [], why: [], probes: [],
		lost: {}};
	now = {...empty_, ...s};
	remember(now);
	rememberSteps(now);
	draw();
}

// ---- the connection ----

const link = {socket: null, tries: 0, heard_at: 0, retry_at: 0, busy: false};

function headers() {
	const known = sessionStorage.getItem("token");
	return known ? {Authorization: `Bearer ${known}`} : {};
}

function protocols() {
	const known = sessionStorage.getItem("token") || "";
	const hex = [...new TextEncoder().encode(known)].map((b) => b.toString(16).padStart(2, "0")).join("");
	return hex ? ["zernel.v1", `zernel.token.${hex}`] : ["zernel.v1"];
}

function retry() {
	if (link.socket) {
		link.socket.onopen = link.socket.onmessage = link.socket.onclose = null;
		link.socket.close();
	}
	link.socket = null;
	link.retry_at = performance.now() + 1000 * Math.min(RETRY_MAX_S, 2 ** link.tries);
	link.tries++;
	status();
}

function listen() {
	const socket = new WebSocket(`${location.protocol.replace("http", "ws")}//${location.host}/ws`, protocols());
	link.socket = socket;
	link.opened_at = performance.now();
	socket.onmessage = (e) => {
		link.tries = 0;
		link.heard_at = performance.now();
		take(e.data);
		status();
	};
	socket.onclose = retry;
}

function askForToken() {
	say($("refused"), sessionStorage.getItem("token") ? "This token was refused." : "");
	sessionStorage.removeItem("token");
	show($("login"), true);
	link.waits = true;
	$("token").focus();
	status();
}

export const ask = (path) =>
	fetch(path, {headers: headers(), cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS)});

// What a WebSocket is refused for a page never learns, so /history is asked first.
async function connect() {
	link.busy = true;
	link.retry_at = 0;
	status();
	try {
		const answer = await ask("/history");
		if (answer.status === 401)
			askForToken();
		else {
			const answered = answer.ok && await ask("/why");
			if (answer.ok)
				takeHistory(await answer.json());
			if (answered && answered.ok)
				takeTimelines(await answered.json());
			show($("login"), false);
			listen();
		}
	} catch {
		retry();
	}
	link.busy = false;
}

function late(ms) {
	const interval = (now && now.interval_ms) || 1000;
	return ms > Math.max(3 * interval, 2000);
}

// What the connection is, in a word, and more of it.
function condition(at) {
	const silent = at - link.heard_at, ago = span(silent / 1000);
	if (link.waits)
		return ["off", "token needed", ""];
	if (link.socket && link.heard_at && link.heard_at >= link.opened_at)
		return late(silent) ? ["stale", "stale", `for ${ago}`] : ["live", "live", `· ${clock(now.last_update_ms)}`];
	if (!link.tries)
		return ["off", "connecting", ""];
	const left = Math.ceil((link.retry_at - at) / 1000);
	return ["down", "reconnecting", left > 0 ? `in ${left} s` : ""];
}

function status() {
	const at = performance.now(), [kind, word, more] = condition(at);
	const silent = link.heard_at ? `The figures below are ${span((at - link.heard_at) / 1000)} old.` : "";
	mark($("link"), "class", kind);
	say($("state"), word);
	say($("state-more"), more);
	show($("dead"), kind === "stale" || kind === "down");
	document.body.classList.toggle("old", kind !== "live");
	if (kind === "stale")
		say($("dead-what"), "The daemon says nothing any more.");
	else if (kind === "down")
		say($("dead-what"), "The daemon cannot be reached.");
	say($("dead-more"), [silent, kind === "down" ? `Trying again ${more || "now"}.` : ""].filter(Boolean).join(" "));
}

// A connection that is open and silent may be gone without a word: it is given up and made anew.
function watch() {
	const at = performance.now(), patience = Math.max(ANSWER_MS, 5 * ((now && now.interval_ms) || 1000));
	if (link.socket && at - Math.max(link.heard_at, link.opened_at) > patience)
		retry();
	else if (link.retry_at && at >= link.retry_at && !link.busy)
		connect();
	status();
}

function token(e) {
	e.preventDefault();
	const text = $("token").value.trim();
	$("token").value = "";
	if (!/^[\w.~+/-]+=*$/.test(text)) { // RFC 6750; of some others fetch() would make an error, as if nobody were there
		say($("refused"), "This is no token.");
		return;
	}
	sessionStorage.setItem("token", text);
	link.waits = false;
	connect();
}

header();
$("login").addEventListener("submit", token);
document.addEventListener("visibilitychange", () => {
	for (const node of document.querySelectorAll("svg.chart"))
		node.chart.draw();
	draw();
});
setInterval(watch, 500);
connect();
