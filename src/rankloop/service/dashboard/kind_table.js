// Kinds of feedback, such as clicks and purchases: events, values and values per list of both groups.
import { card, el, fill, tableRegion } from "./dom.js";
import { count, NONE, number, percent } from "./format.js";

const HEAD = ["Kind", "Events", "Value", "Per list, treatment", "Per list, control", "Lift", "Late"];

/** The card "Kinds of feedback" of a ranker's page; it is left out if the ranker takes clicks only. */
export class KindTable {
  #table = tableRegion("Kinds of feedback");
  #shown = null;

  constructor() {
    this.element = el("div", { hidden: true });
    this.card = card("Kinds of feedback", { hint: "Values per list that was shown, with a 95 % interval; feedback of open lists is included." }, this.#table);
  }

  /** Show the kinds of an overview. */
  update({ kinds = [] }) {
    const known = kinds.length > 0;
    if (this.element.hidden === known) fill(this.element, known ? this.card : null);
    this.element.hidden = !known;
    const content = JSON.stringify(kinds);
    if (!known || this.#shown === content) return;
    this.#shown = content;
    fill(this.#table, el("table", {},
      el("thead", {}, el("tr", {}, HEAD.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, kinds.map(row))));
  }
}

function row({ kind, treatment, control, lift, late }) {
  const events = count(treatment.events + control.events);
  return el("tr", {}, el("th", { scope: "row" }, kind), el("td", {}, events), el("td", {}, number(treatment.value + control.value)),
    el("td", {}, perList(treatment)), el("td", {}, perList(control)), el("td", {}, lift?.share == null ? NONE : percent(lift.share)), el("td", {}, count(late)));
}

function perList({ value_per_list: value, low, high }) {
  if (value === null) return NONE;
  return low === null ? number(value) : `${number(value)} (${number(low)} to ${number(high)})`;
}
