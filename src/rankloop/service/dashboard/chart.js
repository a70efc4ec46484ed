// Lines over time with a band around them, drawn as SVG, with a table for those who would rather read.
import { el, fill, fresh, svg } from "./dom.js";
import { clock, day, moment } from "./format.js";
import { linear, ticks, timeTicks } from "./scale.js";
import { sentence } from "./words.js";

const TOP = 10;
const BOTTOM = 24;
const RIGHT = 8;
const LOW = 90; // without data
const CHARACTER = 6.6; // of a label, in pixels
const NEAR = 6; // pixels from a change within which the pointer is at it

/** A chart. Options: title, format, height, floor (the least that the axis shows), empty (what is said without data). */
export class LineChart {
  #options;
  #data = null;
  #scales = null;
  #svg;
  #tip;
  #plot;
  #table;
  #details;
  #hover = null; // where the pointer is, if it is here

  constructor(options) {
    this.#options = { height: 220, floor: null, empty: "Nothing to show yet.", ...options };
    this.#svg = svg("svg", { class: "chart", role: "img" });
    this.#tip = el("div", { class: "tip", hidden: true });
    const over = el("div", { class: "over", onpointermove: (event) => this.#point(event.offsetX),
      onpointerleave: () => this.#point(null) });
    this.#plot = el("div", { class: "plot" }, this.#svg, over, this.#tip);
    this.#table = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${options.title}, as a table` });
    this.#details = el("details", { class: "numbers", ontoggle: () => this.#list() },
      el("summary", {}, "As a table"), this.#table);
    this.element = el("figure", { class: "figure" }, this.#plot, this.#details);
    new ResizeObserver(() => this.#draw()).observe(this.#plot);
  }

  /**
   * Show series: [{name, kind, points: [{x, y, low, high, seconds}]}], and a sentence that says the same. Points
   * without y take part in the axis of time, so that charts of the same times stand below each other. Marks
   * [{time, label}] are changes of the ranker: thin vertical lines.
   */
  update(series, words, marks = []) {
    const all = series.flatMap((one) => one.points);
    const points = all.filter((point) => point.y !== null);
    const from = Math.min(...all.map((point) => point.x - point.seconds / 2));
    const to = Math.max(...all.map((point) => point.x + point.seconds / 2));
    const changes = marks.filter((mark) => mark.time >= from && mark.time <= to);
    this.#data = { series, words: [words, ...changes.map(changed)].join(" "), points, from, to, changes };
    this.#details.hidden = points.length === 0;
    this.#draw();
    this.#list();
  }

  #draw() {
    const width = Math.floor(this.#plot.clientWidth);
    if (this.#data === null || width === 0) return;
    const { series, words, points, from, to, changes } = this.#data;
    const { format, title } = this.#options;
    const height = points.length === 0 ? LOW : this.#options.height;
    this.#svg.setAttribute("width", width);
    this.#svg.setAttribute("height", height);
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const [name, desc] = [fresh("title"), fresh("desc")];
    this.#svg.setAttribute("aria-labelledby", `${name} ${desc}`);
    const told = [svg("title", { id: name }, title), svg("desc", { id: desc }, words)];
    if (points.length === 0) {
      this.#scales = null;
      const empty = svg("text", { class: "nothing", x: width / 2, y: height / 2 }, this.#options.empty);
      fill(this.#svg, told, empty);
      return;
    }
    const marks = ticks(...this.#range(points), height < 180 ? 3 : 4);
    const left = 12 + CHARACTER * Math.max(...marks.map((mark) => format(mark).length));
    const x = linear([from, to], [left, width - RIGHT]);
    const y = linear([marks[0], marks.at(-1)], [height - BOTTOM, TOP]);
    this.#scales = { x, y, left, width };
    const inside = fresh("inside");
    const clip = svg("clipPath", { id: inside },
      svg("rect", { x: left, y: TOP - 4, width: Math.max(0, width - left), height: height - TOP - BOTTOM + 8 }));
    const drawn = svg("g", { "clip-path": `url(#${inside})` },
      series.map((one) => band(one, x, y)), series.map((one) => line(one, x, y)));
    const cross = svg("line", { class: "cross", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    const lines = changes.map((one) => svg("line", { class: "change", x1: x(one.time), x2: x(one.time), y1: TOP, y2: height - BOTTOM },
      svg("title", {}, changed(one))));
    fill(this.#svg, told, clip, this.#grid(marks, y, left, width), this.#times(from, to, x, left, width), lines, drawn, cross);
    this.#point(this.#hover);
  }

  /** What the axis must show: all lines, and bands but for those of the few that hardly anybody was part of. */
  #range(points) {
    const heavy = points.map((point) => point.weight ?? 1).sort((a, b) => a - b);
    const enough = 0.3 * heavy[Math.floor(heavy.length / 2)];
    const banded = points.filter((point) => (point.weight ?? 1) >= enough && point.low !== undefined && point.low !== null);
    const values = [...points.map((point) => point.y), ...banded.flatMap((point) => [point.low, point.high])];
    const floor = this.#options.floor;
    const low = Math.min(...values, ...(floor === null ? [] : [floor]));
    const high = Math.max(...values);
    return high > low ? [low, high] : [low - (floor === null ? 0.5 * Math.abs(low) || 0.5 : 0), high + 0.5 * Math.abs(high) || 1];
  }

  #grid(marks, y, left, width) {
    return svg("g", { class: "grid", "aria-hidden": "true" }, marks.map((mark) => [
      svg("line", { x1: left, x2: width - RIGHT, y1: y(mark), y2: y(mark) }),
      svg("text", { x: left - 8, y: y(mark) + 4, class: "value" }, this.#options.format(mark)),
    ]));
  }

  #times(from, to, x, left, width) {
    const { at, days } = timeTicks(from, to, Math.max(2, Math.floor((width - left) / 76)));
    const bottom = this.#options.height - 6;
    return svg("g", { class: "grid", "aria-hidden": "true" }, at.map((time) => {
      const midnight = clock(time) === "00:00";
      const place = Math.min(Math.max(x(time), left + 14), width - RIGHT - 16);
      return svg("text", { x: place, y: bottom, class: "time" }, days || midnight ? day(time) : clock(time));
    }));
  }

  /** Show the numbers at a place, or none. */
  #point(at) {
    this.#hover = at;
    if (at === null || this.#scales === null) {
      this.#tip.hidden = true;
      this.#svg.querySelector(".cross")?.setAttribute("visibility", "hidden");
      return;
    }
    const { x, width } = this.#scales;
    const places = [...new Set(this.#data.points.map((point) => point.x))];
    const near = places.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best));
    const cross = this.#svg.querySelector(".cross");
    for (const side of ["x1", "x2"]) cross.setAttribute(side, x(near));
    cross.setAttribute("visibility", "visible");
    const rows = this.#data.series.map((one) => {
      const point = one.points.find((candidate) => candidate.x === near);
      if (point === undefined || point.y === null) return null;
      return el("div", {}, el("span", { class: `dot ${one.kind}` }), `${one.name} `, el("b", {}, this.#options.format(point.y, true)));
    });
    const point = this.#data.points.find((one) => one.x === near);
    const nearby = this.#data.changes.filter((one) => Math.abs(one.time - near) <= point.seconds / 2 || Math.abs(x(one.time) - at) < NEAR);
    fill(this.#tip, el("div", { class: "when" }, when(point)), rows, nearby.map((one) => el("div", { class: "note" }, changed(one))));
    this.#tip.hidden = false;
    const wide = this.#tip.offsetWidth;
    this.#tip.style.left = `${Math.round(x(near) + 12 + wide > width ? x(near) - 12 - wide : x(near) + 12)}px`;
  }

  /** The same as a table, while somebody looks at it. */
  #list() {
    if (!this.#details.open || this.#data === null) return;
    const { series, changes } = this.#data;
    const places = [...new Set(this.#data.points.map((point) => point.x))].sort((a, b) => b - a);
    const cell = (one, place) => {
      const point = one.points.find((candidate) => candidate.x === place);
      if (point === undefined || point.y === null) return el("td", {}, "–");
      const { format } = this.#options;
      const sure = point.low === undefined || point.low === null ? "" : ` (${format(point.low, true)} to ${format(point.high, true)})`;
      return el("td", {}, `${format(point.y, true)}${sure}`);
    };
    const at = (place) => this.#data.points.find((point) => point.x === place);
    fill(this.#table, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Time"), series.map((one) => el("th", { scope: "col" }, one.name)))),
      el("tbody", {}, places.map((place) => el("tr", {}, el("th", { scope: "row" }, when(at(place))), series.map((one) => cell(one, place)))))),
    changes.length === 0 ? null : el("ul", { class: "changes", "aria-label": "Changes" }, changes.map((one) => el("li", {}, changed(one)))));
  }
}

/** A change of the ranker, as a sentence. */
const changed = (mark) => sentence(`${moment(mark.time)}: ${mark.label}`);

/** The span of time that a point stands for. */
function when(point) {
  const start = point.x - point.seconds / 2;
  if (point.seconds >= 86400) return day(start);
  return `${day(start)}, ${clock(start)}${point.seconds > 60 ? `–${clock(start + point.seconds)}` : ""}`;
}

/** Points without a hole between them. */
function runs(points) {
  const found = [];
  let before = null;
  for (const point of points) {
    if (point.y === null) continue;
    if (before !== null && point.x - before.x <= 3.5 * point.seconds) found.at(-1).push(point);
    else found.push([point]);
    before = point;
  }
  return found;
}

const path = (points, x, at) => points.map((point, i) => `${i ? "L" : "M"}${x(point.x).toFixed(1)} ${at(point).toFixed(1)}`).join("");

function line(series, x, y) {
  return svg("g", { class: `line ${series.kind}` }, runs(series.points).map((run) => run.length === 1
    ? svg("circle", { cx: x(run[0].x), cy: y(run[0].y), r: 3 })
    : svg("path", { d: path(run, x, (point) => y(point.y)) })));
}

function band(series, x, y) {
  const sure = series.points.filter((point) => point.low !== undefined && point.low !== null);
  return svg("g", { class: `band ${series.kind}` }, runs(sure).map((run) => {
    if (run.length === 1) {
      const [one] = run;
      return svg("line", { x1: x(one.x), x2: x(one.x), y1: y(one.low), y2: y(one.high) });
    }
    const there = path(run, x, (point) => y(point.high));
    const back = path([...run].reverse(), x, (point) => y(point.low)).replace("M", "L");
    return svg("path", { d: `${there}${back}Z` });
  }));
}
