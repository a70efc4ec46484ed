// A line chart over time with interval bands, drawn as SVG, with the same data as a table.
import { el, fill, fresh, svg, tableRegion } from "./dom.js";
import { clock, day, moment } from "./format.js";
import { linear, ticks, timeTicks } from "./scale.js";
import { sentence } from "./text.js";

// All in pixels.
const TOP = 10;
const BOTTOM = 24;
const RIGHT = 8;
const EMPTY_HEIGHT = 90;
const LABEL_CHARACTER = 6.6;
const CHANGE_HOVER = 6; // distance from a change marker at which the tooltip names it

/** A chart. Options: title, format, height, floor (a value that the axis must include), empty (text without data). */
export class LineChart {
  #options;
  #data = null;
  #scales = null;
  #svg;
  #tip;
  #plot;
  #table;
  #details;
  #hover = null; // x of the pointer, or null

  constructor(options) {
    this.#options = { height: 220, floor: null, empty: "No data yet.", ...options };
    this.#svg = svg("svg", { class: "chart", role: "img" });
    this.#tip = el("div", { class: "tip", hidden: true });
    const over = el("div", { class: "over", onpointermove: (event) => this.#point(event.offsetX),
      onpointerleave: () => this.#point(null) });
    this.#plot = el("div", { class: "plot" }, this.#svg, over, this.#tip);
    this.#table = tableRegion(`${options.title}, as a table`);
    this.#details = el("details", { class: "numbers", ontoggle: () => this.#list() },
      el("summary", {}, "As a table"), this.#table);
    this.element = el("figure", { class: "figure" }, this.#plot, this.#details);
    new ResizeObserver(() => this.#draw()).observe(this.#plot);
  }

  /**
   * Show series [{name, kind, points: [{x, y, low, high, seconds}]}] with a description for screen readers. Points
   * whose y is null still extend the time axis, so that charts of the same buckets align. Markers [{time, label}]
   * are changes of the ranker, drawn as thin vertical lines.
   */
  update(series, description, markers = []) {
    const all = series.flatMap((one) => one.points);
    const points = all.filter((point) => point.y !== null);
    const from = Math.min(...all.map((point) => point.x - point.seconds / 2));
    const to = Math.max(...all.map((point) => point.x + point.seconds / 2));
    const changes = markers.filter((marker) => marker.time >= from && marker.time <= to);
    this.#data = { series, description: [description, ...changes.map(changeText)].join(" "), points, from, to, changes };
    this.#details.hidden = points.length === 0;
    this.#draw();
    this.#list();
  }

  #draw() {
    const width = Math.floor(this.#plot.clientWidth);
    if (this.#data === null || width === 0) return;
    const { series, description, points, from, to, changes } = this.#data;
    const { format, title } = this.#options;
    const height = points.length === 0 ? EMPTY_HEIGHT : this.#options.height;
    this.#svg.setAttribute("width", width);
    this.#svg.setAttribute("height", height);
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const [name, desc] = [fresh("title"), fresh("desc")];
    this.#svg.setAttribute("aria-labelledby", `${name} ${desc}`);
    const texts = [svg("title", { id: name }, title), svg("desc", { id: desc }, description)];
    if (points.length === 0) {
      this.#scales = null;
      const empty = svg("text", { class: "nothing", x: width / 2, y: height / 2 }, this.#options.empty);
      fill(this.#svg, texts, empty);
      return;
    }
    const marks = ticks(...this.#range(points), height < 180 ? 3 : 4);
    const left = 12 + LABEL_CHARACTER * Math.max(...marks.map((mark) => format(mark).length));
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
      svg("title", {}, changeText(one))));
    fill(this.#svg, texts, clip, this.#grid(marks, y, left, width), this.#times(from, to, x, left, width), lines, drawn, cross);
    this.#point(this.#hover);
  }

  /** The range of the value axis: all lines, and the bands except those of buckets with very few decisions. */
  #range(points) {
    const weights = points.map((point) => point.weight ?? 1).sort((a, b) => a - b);
    const enough = 0.3 * weights[Math.floor(weights.length / 2)];
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
      const centre = Math.min(Math.max(x(time), left + 14), width - RIGHT - 16);
      return svg("text", { x: centre, y: bottom, class: "time" }, days || midnight ? day(time) : clock(time));
    }));
  }

  /** Show the tooltip for the bucket nearest to an x, or hide it (null). */
  #point(at) {
    this.#hover = at;
    if (at === null || this.#scales === null) {
      this.#tip.hidden = true;
      this.#svg.querySelector(".cross")?.setAttribute("visibility", "hidden");
      return;
    }
    const { x, width } = this.#scales;
    const times = [...new Set(this.#data.points.map((point) => point.x))];
    const near = times.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best));
    const cross = this.#svg.querySelector(".cross");
    for (const side of ["x1", "x2"]) cross.setAttribute(side, x(near));
    cross.setAttribute("visibility", "visible");
    const rows = this.#data.series.map((one) => {
      const point = one.points.find((candidate) => candidate.x === near);
      if (point === undefined || point.y === null) return null;
      return el("div", {}, el("span", { class: `dot ${one.kind}` }), `${one.name} `, el("b", {}, this.#options.format(point.y, true)));
    });
    const point = this.#data.points.find((one) => one.x === near);
    const nearby = this.#data.changes.filter((one) => Math.abs(one.time - near) <= point.seconds / 2 || Math.abs(x(one.time) - at) < CHANGE_HOVER);
    fill(this.#tip, el("div", { class: "when" }, bucketText(point)), rows, nearby.map((one) => el("div", { class: "note" }, changeText(one))));
    this.#tip.hidden = false;
    const wide = this.#tip.offsetWidth;
    this.#tip.style.left = `${Math.round(x(near) + 12 + wide > width ? x(near) - 12 - wide : x(near) + 12)}px`;
  }

  /** Fill the table, if it is open. */
  #list() {
    if (!this.#details.open || this.#data === null) return;
    const { series, changes } = this.#data;
    const times = [...new Set(this.#data.points.map((point) => point.x))].sort((a, b) => b - a);
    const cell = (one, time) => {
      const point = one.points.find((candidate) => candidate.x === time);
      if (point === undefined || point.y === null) return el("td", {}, "–");
      const { format } = this.#options;
      const interval = point.low === undefined || point.low === null ? "" : ` (${format(point.low, true)} to ${format(point.high, true)})`;
      return el("td", {}, `${format(point.y, true)}${interval}`);
    };
    const at = (time) => this.#data.points.find((point) => point.x === time);
    fill(this.#table, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Time"), series.map((one) => el("th", { scope: "col" }, one.name)))),
      el("tbody", {}, times.map((time) => el("tr", {}, el("th", { scope: "row" }, bucketText(at(time))), series.map((one) => cell(one, time)))))),
    changes.length === 0 ? null : el("ul", { class: "changes", "aria-label": "Changes" }, changes.map((one) => el("li", {}, changeText(one)))));
  }
}

/** A change of the ranker, as a sentence. */
const changeText = (marker) => sentence(`${moment(marker.time)}: ${marker.label}`);

/** The time bucket of a point. */
function bucketText(point) {
  const start = point.x - point.seconds / 2;
  if (point.seconds >= 86400) return day(start);
  return `${day(start)}, ${clock(start)}${point.seconds > 60 ? `–${clock(start + point.seconds)}` : ""}`;
}

/** Points grouped into runs without gaps. */
function runs(points) {
  const groups = [];
  let before = null;
  for (const point of points) {
    if (point.y === null) continue;
    if (before !== null && point.x - before.x <= 3.5 * point.seconds) groups.at(-1).push(point);
    else groups.push([point]);
    before = point;
  }
  return groups;
}

const path = (points, x, at) => points.map((point, i) => `${i ? "L" : "M"}${x(point.x).toFixed(1)} ${at(point).toFixed(1)}`).join("");

function line(series, x, y) {
  return svg("g", { class: `line ${series.kind}` }, runs(series.points).map((run) => run.length === 1
    ? svg("circle", { cx: x(run[0].x), cy: y(run[0].y), r: 3 })
    : svg("path", { d: path(run, x, (point) => y(point.y)) })));
}

function band(series, x, y) {
  const bounded = series.points.filter((point) => point.low !== undefined && point.low !== null);
  return svg("g", { class: `band ${series.kind}` }, runs(bounded).map((run) => {
    if (run.length === 1) {
      const [one] = run;
      return svg("line", { x1: x(one.x), x2: x(one.x), y1: y(one.low), y2: y(one.high) });
    }
    const forth = path(run, x, (point) => y(point.high));
    const back = path([...run].reverse(), x, (point) => y(point.low)).replace("M", "L");
    return svg("path", { d: `${forth}${back}Z` });
  }));
}
