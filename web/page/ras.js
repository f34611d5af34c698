// SPDX-License-Identifier: GPL-2.0
// ras.js: what NCCL's RAS service says of a job's ranks on other nodes. The snapshot has the sentence; the ranks that
// stand out are asked for when they are opened, and again when the sentence changes.
import {count, inside, make, NONE, say, show} from "./shared.js";
import {ask} from "./main.js";

const RAS_STATES = {dead: "cannot be reached", silent: "does not answer", behind: "has issued fewer collectives",
	left: "has left the communicator"};
const RAS_COLUMNS = [
	["Rank", (r) => (r.rank === null ? NONE : String(r.rank))],
	["Host", (r) => r.host || NONE],
	["Process", (r) => (r.pid ? String(r.pid) : NONE)],
	["State", (r) => RAS_STATES[r.state] || r.state],
	["Issued", (r) => (r.state === "behind" ? count(r.issued) : NONE)],
	["Fewer", (r) => (r.state === "behind" ? count(r.fewer) : NONE)],
];

const rasRow = (r) => inside(make("tr"), ...RAS_COLUMNS.map(([, text]) => make("td", "", text(r))));

function commTable(c) {
	const head = inside(make("tr"), ...RAS_COLUMNS.map(([name]) => make("th", "", name)));
	const more = c.odd > c.ranks.length ? `, of which the first ${c.ranks.length} are shown` : "";
	const name = `Of ${count(c.size)} ranks ${count(c.heard)} have said what they issued; ${count(
		c.odd)} stand out${more}`;
	return inside(make("table"), make("caption", "", name), inside(make("thead"), head),
		inside(make("tbody"), ...c.ranks.map(rasRow)));
}

async function communicators(job) {
	const answer = await ask(job === null ? "/why" : `/why?job=${encodeURIComponent(job)}`);
	const {why} = answer.ok ? await answer.json() : {why: []};
	return ((why || []).find((w) => w.job_id === job)?.ras || {}).communicators || [];
}

export function otherNodes(job) {
	const node = make("details", "other-nodes"), head = make("summary"), text = make("span"),
		body = make("div", "scroll"), from = make("p", "muted");
	let said = "", filled = "";
	body.tabIndex = 0;
	body.setAttribute("role", "group");
	body.setAttribute("aria-label", "Ranks of other nodes that stand out");
	inside(node, inside(head, make("h4", "", "Other nodes"), text), body, from);
	const load = async () => {
		if (!node.open || filled === said)
			return;
		filled = said;
		try {
			const list = await communicators(job);
			body.replaceChildren(...(list.length ? list.map(commTable) :
				[make("p", "muted", "No rank of this job stands out in its answer.")]));
		} catch {
			filled = "";
		}
	};
	node.addEventListener("toggle", load);
	return {node, fill(ras) {
		show(node, Boolean(ras));
		if (!ras)
			return;
		said = JSON.stringify(ras);
		say(text, ras.outcome === "answered" ? `NCCL's RAS service says: ${ras.says}` : ras.says);
		say(from, `Asked once for each episode${ras.address ? `, at ${ras.address}` :
			""}: ${ras.outcome.replaceAll("_", " ")}, ${count(ras.bytes)} bytes`);
		load();
	}};
}
