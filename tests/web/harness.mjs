// SPDX-License-Identifier: GPL-2.0
// harness.mjs: what the tests of the page share: daemons on free ports, a server that plays a daemon with the snapshots
// it is given, and a headless browser. Whatever a test starts ends with it. Time limits only end a hang.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdirSync, readFileSync, existsSync } from "node:fs";
import { createServer as createListener } from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { WebSocketServer } from "ws";

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
export const ZERNELD = path.join(ROOT, "build/zerneld");
const SHOTS = path.join(ROOT, "build/test/web");
const PATIENCE = 30000;
const CHROMIUM = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find(existsSync);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
	"--disable-sync", "--no-first-run"];

const tests = [];
let cleanup = [];
let browser;

export function test(name, run) {
	tests.push({name, run});
}

export function later(undo) {
	cleanup.push(undo);
}

export class Absent extends Error {}

// The first true value of probe().
export async function until(probe, what) {
	const end = Date.now() + PATIENCE;
	for (;;) {
		const got = await probe();
		if (got)
			return got;
		assert.ok(Date.now() < end, `not within ${PATIENCE / 1000} s: ${what}`);
		await new Promise((done) => setTimeout(done, 50));
	}
}

// ---- processes

export function start(file, args, options = {}) {
	const child = spawn(file, args, options);
	const ended = new Promise((done) => child.on("exit", done));
	child.kill9 = async () => {
		child.kill("SIGKILL");
		await ended;
	};
	later(child.kill9);
	return child;
}

// The port, which is given up again; 0: somebody has it.
const bound = (port) => new Promise((done) => {
	const listener = createListener().on("error", () => done(0));
	listener.listen(port, "127.0.0.1", () => {
		const got = listener.address().port;
		listener.close(() => done(got));
	});
});

// A port on which nobody listens, to be used later: of those that the kernel gives to nobody by itself.
export async function freePort() {
	const [first, last] = readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s+/).map(Number);
	const below = Math.max(0, first - 10000), count = below + 65535 - last;
	for (let tries = 0; tries < 1000 && count; tries++) {
		const n = Math.floor(Math.random() * count), port = await bound(n < below ? 10000 + n : last + 1 + n - below);
		if (port)
			return port;
	}
	return bound(0); // the kernel gives all of them
}

// options may hold ports of their own; without, they are free ones.
export async function daemon(...options) {
	const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ZERNEL_")));
	// what runs on this machine anyway stays alone
	Object.assign(env, {ZERNEL_CONTROL: "none", ZERNEL_REPORT_DIR: "none"});
	const ports = options.includes("--metrics-port") ? [] : ["--metrics-port", "0"];
	const child = start(ZERNELD, [...ports, "--ws-port", "0", ...options], {env, stdio: ["ignore", "ignore", "pipe"]});
	let log = "";
	child.stderr.on("data", (text) => (log += text));
	const ready = await until(() => {
		assert.equal(child.exitCode, null, `the daemon ended: ${log}`);
		return log.match(/metrics on port (\d+)/);
	}, "the daemon being ready");
	child.port = Number(ready[1]);
	child.url = `http://127.0.0.1:${child.port}/`;
	child.json = async (headers) => (await fetch(`${child.url}json`, {headers})).json();
	return child;
}

// The page and its headers, as the daemon serves them.
let served;
async function pageOf() {
	if (served)
		return served;
	const answer = await fetch((await daemon("--simulate")).url);
	const kept = ["content-type", "content-security-policy", "x-content-type-options", "x-frame-options"];
	const headers = Object.fromEntries(kept.map((name) => [name, answer.headers.get(name)]));
	served = {headers, body: Buffer.from(await answer.arrayBuffer())};
	return served;
}

// A snapshot of the right shape, for tests that need certain figures.
let base;
export async function snapshot(change = {}) {
	if (!base) {
		const source = await daemon("--simulate");
		base = await until(async () => {
			const s = await source.json();
			return s.nccl_allreduce_p50_ms && s.processes.every((p) => p.dataloader && p.launch.rate) && s;
		}, "figures of everything");
	}
	return {...structuredClone(base), last_update_ms: Date.now(), ...change};
}

// Plays a daemon. set() changes the snapshot and sends it; token: what is asked for.
export async function fake(first, {history = null, token = "", timelines = []} = {}) {
	const {headers, body} = await pageOf();
	const it = {current: first, history, timelines, asked: 0, protocols: []};
	const allowed = (req) => !token || req.headers.authorization === `Bearer ${token}`;
	const http = createServer((req, res) => {
		if (req.url === "/")
			return res.writeHead(200, headers).end(body);
		if (!allowed(req))
			return res.writeHead(401, {"WWW-Authenticate": "Bearer"}).end();
		if (req.url.startsWith("/stacks"))
			return res.writeHead(it.stacks ? 200 : 404, {"Content-Type": "text/plain"}).end(it.stacks &&
			it.stacks(new URL(req.url, it.url)));
		if (req.url.split("?")[0] === "/why")
			return res.writeHead(200, {"Content-Type": "application/json"}).end(JSON.stringify({why: it.timelines || []}));
		it.asked++;
		return res.writeHead(200, {"Content-Type": "application/json"}).end(JSON.stringify(it.history || {
			node: "vm", source: "simulated", step_ms: 5000, end_ms: null, gpus: [], processes: []}));
	});
	const sockets = new WebSocketServer({server: http, path: "/ws", handleProtocols: (offered) => {
		it.protocols = [...offered];
		return "zernel.v1";
	}});
	const send = (client) => client.send(JSON.stringify(it.current));
	sockets.on("connection", send);
	it.set = (change) => {
		it.current = {...it.current, ...change};
		sockets.clients.forEach(send);
	};
	it.every = (ms, change) => {
		const timer = setInterval(() => it.set(change()), ms);
		later(() => clearInterval(timer));
	};
	it.drop = () => sockets.clients.forEach((client) => client.terminate());
	it.close = () => new Promise((done) => {
		it.drop();
		http.closeAllConnections();
		http.close(done);
	});
	await new Promise((done) => http.listen(0, "127.0.0.1", done));
	later(it.close);
	it.url = `http://127.0.0.1:${http.address().port}/`;
	return it;
}

// ---- the browser

// A page at url. Whatever its console says, or the policy forbids, is an error of the test, but for what `expected`
// matches. frames: the snapshots it received, by last_update_ms.
export async function open(url, {width = 1200, height = 900, dark = false, expected = null, shown = true, ...more} =
	{}) {
	const context = await browser.newContext({viewport: {width, height}, colorScheme: dark ? "dark" : "light", ...more});
	later(() => context.close());
	const page = await context.newPage(), said = [];
	page.frames_ = new Map();
	page.requests_ = [];
	page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
	page.on("pageerror", (e) => said.push(`error: ${e.stack}`));
	page.on("request", (r) => page.requests_.push(r.url()));
	page.on("websocket", (socket) => socket.on("framereceived", ({payload}) => {
		const s = JSON.parse(payload);
		page.frames_.set(String(s.last_update_ms), s);
	}));
	later(() => assert.deepEqual(said.filter((line) => !expected || !expected.test(line)), [], "what the console says"));
	await page.goto(url);
	if (shown)
		await page.waitForSelector("main[data-shown]", {timeout: PATIENCE});
	return page;
}

export const text = (page, selector) => page.locator(selector).first().innerText();
export const is = (page, selector, wanted) => until(async () => wanted.test(await text(page, selector)),
	`${selector} ${wanted}`);

export async function shot(page, name, more = {}) {
	mkdirSync(SHOTS, {recursive: true});
	await page.screenshot({path: path.join(SHOTS, `${name}.png`), ...more});
}

const axe = readFileSync(path.join(ROOT, "tests/web/node_modules/axe-core/axe.min.js"), "utf8");
export async function accessible(page, what) {
	await page.evaluate(axe);
	const found = await page.evaluate(() => axe.run(document));
	const bad = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
	const lines = bad.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).join("; ")}`);
	assert.deepEqual(lines, [], `axe-core on ${what}`);
	assert.ok(found.passes.length > 15, `axe-core looked at ${found.passes.length} rules`);
}

// ---- running

async function runOne({name, run}) {
	const begin = Date.now();
	let error = null, absent = null;
	const attempt = async (work) => {
		try {
			await work();
		} catch (e) {
			if (e instanceof Absent)
				absent = e;
			else
				error = error || e;
		}
	};
	await attempt(run);
	for (const undo of cleanup.reverse())
		await attempt(undo);
	cleanup = [];
	if (error)
		console.log(`FAILED ${name}: ${error.stack}`);
	else
		console.log(absent ? `absent: ${name}: ${absent.message}` :
		`ok ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
	return error ? "failed" : absent ? "absent" : "passed";
}

// Those whose name has the pattern; !PATTERN: all others.
function isChosen(name, pattern) {
	return pattern.startsWith("!") ? !name.includes(pattern.slice(1)) : name.includes(pattern);
}

export async function runAll(pattern = "") {
	browser = await chromium.launch({executablePath: CHROMIUM, args: FLAGS});
	const results = [];
	for (const each of tests.filter(({name}) => isChosen(name, pattern)))
		results.push(await runOne(each));
	await browser.close();
	const passed = results.filter((r) => r === "passed").length, failed = results.filter((r) => r === "failed").length;
	console.log(`${passed} passed, ${failed} failed`);
	process.exit(failed || !passed ? 1 : 0);
}
