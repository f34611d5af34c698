// SPDX-License-Identifier: GPL-2.0
// charts.js: lines over the last 15 minutes, small ones and those with axes.
import {AGES, inside, make, mark, NONE, POINTS, say, span, STEP_MS, SVG, watcher} from "./shared.js";

function shape(tag, className, parent) {
	const node = document.createElementNS(SVG, tag);
	node.setAttribute("class", className);
	parent.append(node);
	return node;
}

// The runs of points that follow each other: [[index, value], ...] each.
function runs(values) {
	const all = [];
	let run = null;
	values.forEach((v, i) => {
		if (v == null) {
			run = null;
			return;
		}
		if (!run)
			all.push(run = []);
		run.push([i, v]);
	});
	return all;
}

function outline(values, top) {
	const y = (v) => (100 - 100 * Math.min(v / top, 1)).toFixed(1);
	const all = runs(values);
	const lines = all.map((run) => "M" + run.map(([i, v]) => `${i} ${y(v)}`).join("L") + "h0");
	const areas = all.map((run) => `M${run[0][0]} 100L${run.map(([i, v]) => `${i} ${y(v)}`).join("L")}V100Z`);
	return {line: lines.join(""), area: areas.join("")};
}

// The next of 1, 2, 2.5, 5, 10, ... so that an axis ends with a number that is easily read.
function above(v) {
	const size = 10 ** Math.floor(Math.log10(v || 1));
	return size * [1, 2, 2.5, 5, 10].find((n) => n * size >= v * 0.9999);
}

function largest(series) {
	return series.reduce((most, values) => values.reduce((m, v) => Math.max(m, v || 0), most), 0);
}

export class Chart {
	// lines: their names, for those who do not see them; text: how a figure is written
	constructor(name, lines, text) {
		Object.assign(this, {name, lines, text, visible: false, drawn: true, series: lines.map(() => [])});
		this.node = document.createElementNS(SVG, "svg");
		this.node.chart = this;
		for (const [key, value] of Object.entries({class: "chart", role: "img", viewBox: `-1 -4 ${POINTS + 1} 106`,
			preserveAspectRatio: "none"}))
			this.node.setAttribute(key, value);
		this.area = lines.length === 1 ? shape("path", "area", this.node) : null;
		this.paths = lines.map((_, i) => shape("path", i ? "second" : "first", this.node));
		this.describe();
		watcher.observe(this.node);
	}

	// top: the upper end of the scale; 0: what the points need
	set(series, top) {
		this.series = series;
		this.top = top || above(largest(series));
		this.drawn = false;
		this.draw();
	}

	draw() {
		if (this.drawn || !this.visible || document.hidden)
			return;
		this.drawn = true;
		this.series.forEach((values, i) => {
			const {line, area} = outline(values, this.top);
			this.paths[i].setAttribute("d", line);
			if (this.area)
				this.area.setAttribute("d", area);
		});
		this.describe();
	}

	describe() {
		const parts = this.series.map((values, i) => {
			const known = values.filter((v) => v != null);
			const range = known.length ? `latest ${this.text(known[known.length - 1])}, lowest ` +
				`${this.text(Math.min(...known))}, highest ${this.text(Math.max(...known))}` : "nothing yet";
			return this.lines[i] ? `${this.lines[i]}: ${range}` : range;
		});
		mark(this.node, "aria-label", `${this.name}, last 15 minutes: ${parts.join("; ")}`);
	}
}

// A chart with axes, and with the figures under the pointer.
export class Plot {
	constructor(name, lines, text) {
		this.chart = new Chart(name, lines, text);
		this.text = text;
		this.node = make("figure");
		const caption = inside(make("figcaption"), make("span", "", name));
		lines.forEach((line, i) => line && caption.append(make("span", `key ${i ? "second" : "first"}`, line)));
		this.read = make("span", "read");
		caption.append(this.read);
		this.y = inside(make("div", "axis y"), make("span"), make("span"), make("span", "", "0"));
		const x = inside(make("div", "axis x"), ...AGES.map((age) => make("span", "", age)));
		mark(this.y, "aria-hidden", "true");
		mark(x, "aria-hidden", "true");
		inside(this.node, caption, inside(make("div", "plot"), this.y, this.chart.node, x));
		this.lines();
		this.point();
	}

	lines() {
		const line = (className, x1, x2, y1, y2) => {
			const node = shape("line", className, this.chart.node);
			Object.entries({x1, x2, y1, y2}).forEach(([key, v]) => node.setAttribute(key, v));
			return node;
		};
		for (const y of [0, 50])
			this.chart.node.prepend(line("grid", 0, POINTS - 1, y, y));
		this.cursor = line("cursor", 0, 0, 0, 100);
	}

	point() {
		const svg = this.chart.node;
		svg.addEventListener("pointermove", (e) => {
			const box = svg.getBoundingClientRect();
			const i = Math.round((e.clientX - box.left) / box.width * (POINTS + 1) - 1);
			const at = Math.min(POINTS - 1, Math.max(0, i));
			const ago = (POINTS - 1 - at) * STEP_MS / 1000;
			const values = this.chart.series.map((s) => s[at] == null ? NONE : this.text(s[at])).join("  ");
			say(this.read, `${ago ? `${span(ago)} ago` : "now"}: ${values}`);
			for (const x of ["x1", "x2"])
				this.cursor.setAttribute(x, at);
			this.cursor.style.visibility = "visible";
		});
		svg.addEventListener("pointerleave", () => {
			this.rest();
			this.cursor.style.visibility = "hidden";
		});
	}

	rest() {
		say(this.read, this.empty ? "no point yet" : "");
	}

	set(series) {
		const before = this.empty;
		this.empty = !series.some((values) => values.some((v) => v != null));
		this.chart.set(series, 0);
		say(this.y.children[0], this.empty ? "" : this.text(this.chart.top));
		say(this.y.children[1], this.empty ? "" : this.text(this.chart.top / 2));
		if (before !== this.empty)
			this.rest();
	}
}
