// How feedback comes: a histogram of feedback_delays, and counts.
import { el, fill, fresh, say, svg } from "./dom.js";
import { compact, count, duration, NONE, percent } from "./format.js";

const HEIGHT = 132;
const FLOOR = 22;
const TOP = 18;

/** Lags, windows, what came late, and how far the log is. */
export class Feedback {
  #chart = svg("svg", { class: "chart bars", role: "img", height: HEIGHT });
  #plot = el("div", { class: "plot" }, this.#chart);
  #table = el("div", { class: "scroll" });
  #counts = el("dl", { class: "counts" });
  #feedback_delays = null;

  constructor() {
    this.element = el("div", {}, el("figure", { class: "figure" }, this.#plot,
      el("details", { class: "numbers" }, el("summary", {}, "As a table"), this.#table)), this.#counts);
    this.cells = {};
    for (const name of ["Mean lag", "Waiting", "Windows closed", "Too late", "Withdrawn", "Position in the log"]) {
      this.cells[name] = el("dd", {});
      this.#counts.append(el("div", {}, el("dt", {}, name), this.cells[name]));
    }
    new ResizeObserver(() => this.#draw()).observe(this.#plot);
  }

  update(overview) {
    const told = overview.feedback_delays.reduce((all, lag) => all + lag.lists, 0);
    const values = {
      "Mean lag": told === 0 ? NONE : duration(overview.feedback_delay_seconds / told),
      Waiting: count(overview.open_decisions),
      "Windows closed": count(overview.closed),
      "Too late": count(overview.late),
      Withdrawn: count(overview.withdrawn),
      "Position in the log": count(overview.position),
    };
    for (const [name, value] of Object.entries(values)) say(this.cells[name], value);
    const now = JSON.stringify(overview.feedback_delays);
    if (this.#feedback_delays?.text === now) return;
    this.#feedback_delays = { text: now, feedback_delays: overview.feedback_delays, told };
    this.#draw();
    this.#list();
  }

  #draw() {
    const width = Math.floor(this.#plot.clientWidth);
    if (this.#feedback_delays === null || width === 0) return;
    const { feedback_delays, told } = this.#feedback_delays;
    this.#chart.setAttribute("width", width);
    this.#chart.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const [title, desc] = [fresh("title"), fresh("desc")];
    this.#chart.setAttribute("aria-labelledby", `${title} ${desc}`);
    const most = Math.max(1, ...feedback_delays.map((lag) => lag.lists));
    const step = width / feedback_delays.length;
    const bars = feedback_delays.map((lag, i) => {
      const height = lag.lists === 0 ? 1 : Math.max(2, ((HEIGHT - FLOOR - TOP) * lag.lists) / most);
      const middle = (i + 0.5) * step;
      return [
        svg("rect", { class: lag.lists === 0 ? "none" : "bar-fill", x: i * step + 3, width: Math.max(1, step - 6), y: HEIGHT - FLOOR - height, height, rx: 2 }),
        lag.lists === 0 ? null : svg("text", { class: "top", x: middle, y: HEIGHT - FLOOR - height - 5 }, width < 420 ? compact(lag.lists) : percent(lag.lists / told, 0)),
        svg("text", { class: "bin", x: middle, y: HEIGHT - 6 }, bin(lag)),
      ];
    });
    fill(this.#chart, svg("title", { id: title }, "Feedback lag"), svg("desc", { id: desc }, words(feedback_delays, told)), bars);
  }

  #list() {
    const { feedback_delays, told } = this.#feedback_delays;
    fill(this.#table, el("table", {},
      el("thead", {}, el("tr", {}, ["Feedback came", "Lists", "Share"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, feedback_delays.map((lag) => el("tr", {}, el("th", { scope: "row" }, span(lag)), el("td", {}, count(lag.lists)),
        el("td", {}, told === 0 ? NONE : percent(lag.lists / told)))))));
  }
}

const bin = (lag) => (lag.within === null ? "later" : duration(lag.within).replace("\u202f", "").replace("100ms", "0.1s").replace("min", "m"));
const span = (lag) => (lag.within === null ? "later" : `within ${duration(lag.within)}`);

function words(feedback_delays, told) {
  if (told === 0) return "No feedback yet.";
  const most = feedback_delays.reduce((best, lag) => (lag.lists > best.lists ? lag : best));
  return `Of ${count(told)} lists with feedback most got it ${span(most)}: ${percent(most.lists / told)}.`;
}
