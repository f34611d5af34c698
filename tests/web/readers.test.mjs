// SPDX-License-Identifier: GPL-2.0
// readers.test.mjs: what others make of the stacks of a simulating daemon: speedscope, as a whole application in a
// browser, reads all three forms; its schema takes the one that is its own; pprof-format unpacks the profile. They must
// agree with /stacks.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import Ajv from "ajv";
import { Profile } from "pprof-format";
import { Absent, ROOT, daemon, later, open, runAll, shot, test, until } from "./harness.mjs";

const APP = path.join(ROOT, "tests/web/node_modules/speedscope/dist/release");
const TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"};
const FORMS = {speedscope: "stacks/speedscope", folded: "stacks/folded?cause=gpu", pprof: "debug/pprof/profile"};

// Stacks of a moment, in all forms: a simulated rank adds to them once a second, so what differs is asked for again.
async function forms(source) {
	const get = async (what) => Buffer.from(await (await fetch(source.url + what)).arrayBuffer());
	return until(async () => {
		const before = JSON.parse(await get("stacks")), all = {};
		for (const [name, what] of Object.entries(FORMS))
			all[name] = await get(what);
		return before.causes.length &&
			JSON.stringify(JSON.parse(await get("stacks")).causes) === JSON.stringify(before.causes) && {...all, stacks: before};
	}, "an answer between two steps");
}

const sums = (stacks) => Object.fromEntries(stacks.causes.map((c) =>
	[c.cause, c.cause === "launch" ? c.count : c.unit === "bytes" ? c.value : Math.round(c.value * 1e9)]));

// What was read, and the application, from one place.
async function serve(files) {
	const http = createServer((req, res) => {
		const name = decodeURIComponent(req.url.split("?")[0].slice(1)) || "index.html",
			file = path.join(APP, path.basename(name));
		if (files[name])
			return res.writeHead(200, {"Content-Type": "application/octet-stream"}).end(files[name]);
		return existsSync(file) ?
			res.writeHead(200, {"Content-Type": TYPES[path.extname(file)] ||
			"application/octet-stream"}).end(readFileSync(file)) :
			res.writeHead(404).end();
	});
	await new Promise((done) => http.listen(0, "127.0.0.1", done));
	later(() => new Promise((done) => {
		http.closeAllConnections();
		http.close(done);
	}));
	return `http://127.0.0.1:${http.address().port}/`;
}

test("speedscope's schema takes its form, and the sums are those of /stacks", async () => {
	const all = await forms(await daemon("--simulate")), file = JSON.parse(all.speedscope);
	const schema = JSON.parse(readFileSync(path.join(APP, "file-format-schema.json"), "utf8"));
	const ajv = new Ajv({meta: true, schemaId: "auto", unknownFormats: "ignore", logger: false});
	assert.ok(ajv.validate({...schema, $schema: "http://json-schema.org/draft-07/schema#"}, file),
		JSON.stringify(ajv.errors));
	assert.deepEqual(Object.fromEntries(file.profiles.map((p) => [p.name, p.endValue])), sums(all.stacks));
	for (const p of file.profiles) {
		assert.equal(p.weights.reduce((a, b) => a + b, 0), p.endValue, p.name);
		assert.equal(p.samples.length, p.weights.length);
	}
	const seen = file.shared.frames.map((f) => JSON.stringify(f));
	assert.equal(new Set(seen).size, seen.length, "each frame once");
	const heaviest = all.stacks.causes.find((c) => c.cause === "gpu").lines[0];
	const gpu = file.profiles.find((p) => p.name === "gpu"), has = (stack) =>
		stack.some((i) => file.shared.frames[i].line === heaviest.line && file.shared.frames[i].name === heaviest.function);
	assert.equal(gpu.samples.reduce((n, stack, i) => n + (has(stack) ? gpu.weights[i] : 0), 0),
		Math.round(heaviest.value * 1e9));
});

test("pprof-format unpacks the profile, and go tool pprof agrees with it", async () => {
	const all = await forms(await daemon("--simulate")), profile = Profile.decode(gunzipSync(all.pprof)), text = (i) =>
		profile.stringTable.strings[Number(i)];
	const types = profile.sampleType.map((t) => text(t.type)), wanted = sums(all.stacks);
	for (const [cause, sum] of Object.entries(wanted)) {
		const at = types.indexOf(cause === "launch" ? "launch_calls" : cause);
		assert.equal(profile.sample.reduce((n, s) => n + Number(s.value[at]), 0), sum, cause);
	}
	assert.equal(text(profile.defaultSampleType), "gpu");
	const folder = mkdtempSync(path.join(tmpdir(), "zn-pprof-"));
	later(() => rmSync(folder, {recursive: true}));
	writeFileSync(path.join(folder, "profile.pb.gz"), all.pprof);
	const go = spawnSync("go", ["tool", "pprof", "-top", "-unit=ns", "-sample_index=gpu",
		path.join(folder, "profile.pb.gz")], {encoding: "utf8"});
	if (go.error)
		throw new Absent("there is no go");
	assert.equal(go.status, 0, go.stderr);
	assert.equal(Number(go.stdout.match(/of (\d+)ns total/)[1]), wanted.gpu);
});

test("speedscope shows all three forms", async () => {
	const all = await forms(await daemon("--simulate")),
		site = await serve({"a.json": all.speedscope, "a.txt": all.folded, "a.pb": gunzipSync(all.pprof)});
	for (const name of ["a.json", "a.txt", "a.pb"]) {
		const page = await open(`${site}index.html#profileURL=${encodeURIComponent(`${site}${name}`)}&title=${name}`,
			{shown: false, expected: /^log: |^timeEnd: |GPU stall|WebGL/});
		await until(async () => /a\.(json|txt|pb)|\bgpu\b|launch/.test(await page.title()) &&
			!(await page.locator("text=/something went wrong|couldn't/i").count()), `${name} is shown`);
		await page.getByText("Sandwich", {exact: false}).first().click();
		await until(async () => /clip_grad_norm_|step/.test(await page.locator("body").innerText()), `functions of ${name}`);
		await shot(page, `speedscope-${name.split(".")[1]}`);
	}
});

runAll(process.argv[2]);
