// Which item stood where, how often: a table whose cells have the more colour, the larger they are.
import { el, fill } from "./dom.js";
import { compact, count, percent } from "./format.js";

const LAST = 10; // places that the service tells apart

/** Items by place. */
export class Heat {
  element = el("div", { class: "heat" });

  /** Show places: [{item, shown: [by place], clicked: [by place]}]. */
  update(items, slots) {
    if (items.length === 0) {
      fill(this.element, el("p", { class: "nothing-known" }, "Nothing was shown yet."));
      return;
    }
    const most = Math.max(...items.flatMap((one) => one.shown));
    const places = items[0].shown.map((_, i) => (i === LAST - 1 && slots > LAST ? `${LAST}+` : String(i + 1)));
    fill(this.element, el("table", {},
      el("caption", { class: "hidden" }, "How often each item was shown in each place"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Item"), places.map((place) => el("th", { scope: "col" }, place)))),
      el("tbody", {}, items.map((one) => el("tr", {}, el("th", { scope: "row", title: one.item }, one.item),
        one.shown.map((shown, i) => cell(shown, one.clicked[i], most, places[i])))))));
  }
}

function cell(shown, clicked, most, place) {
  const rate = shown === 0 ? "" : `, clicked ${count(clicked)} (${percent(clicked / shown)})`;
  const made = el("td", { class: shown === 0 ? "zero" : "", title: `Place ${place}: shown ${count(shown)}${rate}` }, shown === 0 ? "·" : compact(shown));
  made.style.setProperty("--heat", (Math.sqrt(shown / most)).toFixed(3));
  return made;
}
