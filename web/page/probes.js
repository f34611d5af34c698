// SPDX-License-Identifier: GPL-2.0
// probes.js: what is hooked, and what was lost.
import {$, exact, inside, label, make, mark, pairsList, Rows, say, show} from "./shared.js";

const families = {gpu_mem: "GPU memory", cuda_trace: "CUDA launches and waits", nccl: "NCCL"};

function library(lib) {
	if (lib.why)
		return `not hooked: ${lib.why}`;
	return `${lib.attached} of ${lib.symbols} functions hooked`;
}

export const shownProbes = new Rows($("probes").querySelector("ul"), () => {
	const node = make("li"), name = make("span", "name"), chip = make("span"), why = make("span", "muted");
	const list = make("ul", "libraries");
	inside(node, inside(make("p", "head"), name, chip, why), list);
	const rows = new Rows(list, () => {
		const line = make("li"), path = make("span", "path"), text = make("span");
		inside(line, path, " ", text);
		return {node: line, update(lib) {
			say(path, lib.path);
			say(text, library(lib));
			mark(text, "class", lib.why || lib.attached < lib.symbols ? "wrong" : "muted");
		}};
	});
	return {node, update(p) {
		say(name, families[p.family] || label(p.family));
		say(chip, p.state);
		mark(chip, "class", `chip ${p.state}`);
		say(why, p.why);
		show(list, p.libraries.length > 0);
		rows.show(p.libraries, (lib) => lib.path);
	}};
});

const shownLosses = new Rows($("lost").querySelector("ul"), () => {
	const node = make("li", "wrong");
	return {node, update([name, n]) {
		say(node, `${exact(n)} ${label(name)}`);
	}};
});
const allLosses = pairsList($("lost").querySelector("dl"));

export function losses(s) {
	const all = Object.entries(s.lost), some = all.filter(([, n]) => n);
	say($("lost-sum"), some.length ? "Something was lost, so it is missing from the figures:" : "Nothing was lost.");
	$("lost").classList.toggle("some", some.length > 0);
	shownLosses.show(some, ([name]) => name);
	allLosses(all.map(([name, n]) => [label(name), exact(n)]));
}
