// Feedback: a histogram of feedback delays, and counts.
import { el, fill, fresh, say, svg, tableRegion } from "./dom.js";
import { compact, count, duration, many, NONE, percent } from "./format.js";

// All in pixels.
const HEIGHT = 132;
const BOTTOM = 22;
const TOP = 18;
const COUNTS = ["Mean delay", "Open decisions", "Closed windows", "Late feedback", "Withdrawn", "Log position"];

/** The feedback card of a ranker's page. */
export class Feedback {
  #chart = svg("svg", { class: "chart bars", role: "img", height: HEIGHT });
  #plot = el("div", { class: "plot" }, this.#chart);
  #table = tableRegion("Feedback delay, as a table");
  #cells = Object.fromEntries(COUNTS.map((name) => [name, el("dd", {})]));
  #shown = null;

  constructor() {
    this.element = el("div", {},
      el("figure", { class: "figure" }, this.#plot, el("details", { class: "numbers" }, el("summary", {}, "As a table"), this.#table)),
      el("dl", { class: "counts" }, COUNTS.map((name) => el("div", {}, el("dt", {}, name), this.#cells[name]))));
    new ResizeObserver(() => this.#draw()).observe(this.#plot);
  }

  update(overview) {
    const delays = overview.feedback_delays;
    const total = delays.reduce((all, one) => all + one.lists, 0);
    const values = {
      "Mean delay": total === 0 ? NONE : duration(overview.feedback_delay_seconds / total),
      "Open decisions": count(overview.open_decisions),
      "Closed windows": count(overview.closed),
      "Late feedback": count(overview.late),
      Withdrawn: count(overview.withdrawn),
      "Log position": count(overview.position),
    };
    for (const [name, value] of Object.entries(values)) say(this.#cells[name], value);
    const content = JSON.stringify(delays);
    if (this.#shown?.content === content) return;
    this.#shown = { content, delays, total };
    this.#draw();
    this.#list();
  }

  #draw() {
    const width = Math.floor(this.#plot.clientWidth);
    if (this.#shown === null || width === 0) return;
    const { delays, total } = this.#shown;
    this.#chart.setAttribute("width", width);
    this.#chart.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const [title, desc] = [fresh("title"), fresh("desc")];
    this.#chart.setAttribute("aria-labelledby", `${title} ${desc}`);
    const most = Math.max(1, ...delays.map((one) => one.lists));
    const step = width / delays.length;
    const bars = delays.map((one, i) => {
      const height = one.lists === 0 ? 1 : Math.max(2, ((HEIGHT - BOTTOM - TOP) * one.lists) / most);
      const middle = (i + 0.5) * step;
      return [
        svg("rect", { class: one.lists === 0 ? "none" : "bar-fill", x: i * step + 3, width: Math.max(1, step - 6), y: HEIGHT - BOTTOM - height, height, rx: 2 }),
        one.lists === 0 ? null : svg("text", { class: "top", x: middle, y: HEIGHT - BOTTOM - height - 5 }, width < 420 ? compact(one.lists) : percent(one.lists / total, 0)),
        svg("text", { class: "bin", x: middle, y: HEIGHT - 6 }, binLabel(one)),
      ];
    });
    fill(this.#chart, svg("title", { id: title }, "Feedback delay"), svg("desc", { id: desc }, description(delays, total)), bars);
  }

  #list() {
    const { delays, total } = this.#shown;
    fill(this.#table, el("table", {},
      el("thead", {}, el("tr", {}, ["Feedback delay", "Decisions", "Share"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, delays.map((one, i) => el("tr", {}, el("th", { scope: "row" }, range(delays, i)), el("td", {}, count(one.lists)),
        el("td", {}, total === 0 ? NONE : percent(one.lists / total)))))));
  }
}

const binLabel = (one) => (one.within === null ? "more" : `≤${duration(one.within)}`.replace("\u202f", "").replace("100ms", "0.1s").replace("min", "m"));

/** The bounds of a bin: "1 s to 10 s". */
function range(delays, i) {
  const from = i === 0 ? null : duration(delays[i - 1].within);
  if (delays[i].within === null) return `more than ${from}`;
  return from === null ? `up to ${duration(delays[i].within)}` : `${from} to ${duration(delays[i].within)}`;
}

function description(delays, total) {
  if (total === 0) return "No feedback yet.";
  const most = delays.reduce((best, one, i) => (one.lists > delays[best].lists ? i : best), 0);
  return `First feedback of ${many(total, "decision")}; most frequent delay: ${range(delays, most)} (${percent(delays[most].lists / total)}).`;
}
