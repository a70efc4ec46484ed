// What the policy has learned besides items: the worth of each slot as a bar chart, and the trust in the caller's scores.
import { card, el, fill, fresh, say, svg, tableRegion } from "./dom.js";
import { number, percent } from "./format.js";
import { linear } from "./scale.js";

// All in pixels.
const HEIGHT = 190;
const TOP = 22;
const BOTTOM = 24;
const MAX_BAR = 46;

/** The card "What are your slots worth?" of a ranker's page; it is left out if the policy learns no position bias. */
export class SlotWorths {
  #chart = svg("svg", { class: "chart bars worths", role: "img", height: HEIGHT });
  #plot = el("div", { class: "plot" }, this.#chart);
  #table = tableRegion("Worth of the slots, as a table");
  #sentence = el("p", {});
  #shown = null;

  constructor() {
    this.element = el("div", { hidden: true });
    this.card = card("What are your slots worth?", { hint: "Learned position bias: what a place in each slot is worth, relative to slot 0." },
      this.#sentence,
      el("figure", { class: "figure" }, this.#plot, el("details", { class: "numbers" }, el("summary", {}, "As a table"), this.#table)));
    new ResizeObserver(() => this.#draw()).observe(this.#plot);
  }

  /** Show [{slot, effect, low, high}]. */
  update(slots) {
    const known = slots.length > 1;
    if (this.element.hidden === known) fill(this.element, known ? this.card : null);
    this.element.hidden = !known;
    const content = JSON.stringify(slots);
    if (!known || this.#shown?.content === content) return;
    this.#shown = { content, slots };
    say(this.#sentence, summary(slots));
    fill(this.#table, el("table", {},
      el("thead", {}, el("tr", {}, ["Slot", "Worth", "95 % interval"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, slots.map((one) => el("tr", {}, el("th", { scope: "row" }, String(one.slot)), el("td", {}, percent(one.effect, 0)), el("td", {}, interval(one)))))));
    this.#draw();
  }

  #draw() {
    const width = Math.floor(this.#plot.clientWidth);
    if (this.#shown === null || width === 0) return;
    const { slots } = this.#shown;
    this.#chart.setAttribute("width", width);
    this.#chart.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const [title, desc] = [fresh("title"), fresh("desc")];
    this.#chart.setAttribute("aria-labelledby", `${title} ${desc}`);
    const top = Math.max(1, ...slots.map((one) => Math.min(2, one.high ?? one.effect)), ...slots.map((one) => one.effect));
    const y = linear([0, top], [HEIGHT - BOTTOM, TOP]);
    const step = width / slots.length;
    const bars = slots.map((one, i) => {
      const [middle, wide] = [(i + 0.5) * step, Math.min(MAX_BAR, Math.max(1, step - 6))];
      const above = one.high === null ? one.effect : Math.min(top, one.high);
      return [
        svg("rect", { class: one.low === null ? "none" : "bar-fill", x: middle - wide / 2, width: wide, y: y(one.effect), height: Math.max(1, y(0) - y(one.effect)), rx: 2 }),
        one.low === null || one.low === one.high ? null : svg("line", { class: "whisker", x1: middle, x2: middle, y1: y(one.low), y2: y(above) }),
        svg("text", { class: "top", x: middle, y: y(above) - 6 }, percent(one.effect, 0)),
        svg("text", { class: "bin", x: middle, y: HEIGHT - 6 }, String(one.slot)),
      ];
    });
    fill(this.#chart, svg("title", { id: title }, "Worth of the slots"), svg("desc", { id: desc }, summary(slots)), bars);
  }
}

function interval({ slot, low, high }) {
  if (slot === 0) return "by definition";
  return low === null ? "unknown" : `${percent(low, 0)} to ${percent(high, 0)}`;
}

/** What the last slot with an interval is worth, as a sentence. */
function summary(slots) {
  const last = slots.slice(1).filter((one) => one.low !== null).at(-1);
  if (last === undefined) return "Too early to tell: items have not been clicked in enough slots to compare them.";
  return `A place in slot ${last.slot} is worth ${percent(last.effect, 0)} of one in slot 0 (95 % interval ${interval(last)}).`;
}

/** How far the caller's scores are trusted, as a sentence; empty if the policy does not weigh them. */
export function trustText(trust) {
  if (!trust) return "";
  const amount = `${number(trust.mean)} (95 % interval ${number(trust.low)} to ${number(trust.high)})`;
  const scale = "1 means as given, 0 not at all.";
  return trust.misleading ? `Your scores mislead: they are trusted at ${amount}. ${scale}` : `Your scores are trusted at ${amount}. ${scale}`;
}
