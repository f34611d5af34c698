// SPDX-License-Identifier: GPL-2.0
// history.js: the last 15 minutes, from /history, then a point for each step that the snapshots tell of.
import {POINTS, STEP_MS} from "./shared.js";

export const past = {processes: new Map(), gpus: new Map(), servers: new Map(), end_ms: 0, steps: null, fresh: true,
	sampled_at: 0};

export const empty = () => new Array(POINTS).fill(null);

function lastPoints(values) {
	const kept = (values || []).slice(-POINTS);
	return [...new Array(POINTS - kept.length).fill(null), ...kept];
}

export function takeHistory(h) {
	const lines = (p) => ({rate: lastPoints(p.rate), p50_us: lastPoints(p.p50_us), p99_us: lastPoints(p.p99_us)});
	past.processes = new Map((h.processes || []).map((p) => [p.pid, lines(p)]));
	past.gpus = new Map((h.gpus || []).map((g) => [g.gpu_id, {used_bytes: lastPoints(g.used_bytes)}]));
	past.servers = new Map((h.servers || []).map(({pid, ...of}) =>
		[pid, Object.fromEntries(Object.entries(of).map(([name, values]) => [name, lastPoints(values)]))]));
	past.end_ms = h.end_ms || 0;
	past.steps = null;
	past.fresh = true;
}

// Steps that went by since the last snapshot. Without any word of them from the daemon, its clock tells.
function newSteps(s) {
	const told = s.history && s.history.steps;
	if (told == null || past.steps == null) {
		past.steps = told ?? null;
		const n = past.end_ms ? Math.floor((s.last_update_ms - past.end_ms) / STEP_MS) : told == null ? 1 : 0;
		return Math.min(POINTS, Math.max(0, n));
	}
	const n = told - past.steps;
	past.steps = told;
	return n < 0 ? POINTS : Math.min(POINTS, n);
}

function append(store, items, key, point) {
	for (const item of items)
		if (!store.has(item[key]))
			store.set(item[key], Object.fromEntries(Object.keys(point(item)).map((name) => [name, empty()])));
	const now = new Map(items.map((item) => [item[key], point(item)]));
	for (const [id, lines] of store) {
		for (const [name, values] of Object.entries(lines)) {
			values.shift();
			values.push(now.has(id) ? now.get(id)[name] : null);
		}
		if (Object.values(lines).every((values) => values.every((v) => v == null)) && !now.has(id))
			store.delete(id);
	}
}

export function recent(p) {
	const l = p.launch;
	const of = l.recent === undefined ? l : l.recent;
	return of ? {rate: of.rate, p50_us: of.p50_us || null, p99_us: of.p99_us || null} :
		{rate: null, p50_us: null, p99_us: null};
}

export function remember(s) {
	const steps = newSteps(s);
	for (let i = 1; i <= steps; i++) {
		// of steps that were not told of only the last is known
		append(past.processes, i === steps ? s.processes : [], "pid", recent);
		append(past.gpus, i === steps ? s.gpus : [], "gpu_id", (g) => ({used_bytes: g.used_bytes}));
		append(past.servers, i === steps ? s.servers.filter((v) => v.step) : [], "pid", (v) => v.step);
		past.fresh = true;
	}
	if (steps)
		past.end_ms = past.end_ms && !s.history ? past.end_ms + steps * STEP_MS : s.last_update_ms;
}
