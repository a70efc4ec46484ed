// Which item stood where, how often: a table whose cells have the more colour, the larger they are.
import { el, fill, fresh } from "./dom.js";
import { compact, count, percent } from "./format.js";

const LAST = 10; // places that the service tells apart
const GROUPS = { treatment: "Treatment", control: "Control" };
const total = (counts) => counts.reduce((all, one) => all + one, 0);

/** Items by place, in lists of one group: the policy's, or control's where there are any. */
export class Heat {
  #group = "treatment";
  #told = null;

  constructor() {
    const name = fresh("group");
    const one = (group) => el("label", {},
      el("input", { type: "radio", name, value: group, checked: group === this.#group, onchange: () => this.#choose(group) }),
      el("span", {}, GROUPS[group]));
    this.switch = el("fieldset", { class: "segments", hidden: true }, el("legend", { class: "hidden" }, "Whose lists"), Object.keys(GROUPS).map(one));
    this.element = el("div", { class: "heat" });
  }

  #choose(group) {
    this.#group = group;
    this.#draw();
  }

  /** Show places: [{item, treatment: {shown: [by place], clicked: [by place]}, control: the same}]. */
  update(items, slots) {
    this.#told = { items, slots };
    this.switch.hidden = items.every((one) => total(one.control.shown) === 0);
    this.#draw();
  }

  #draw() {
    const { items, slots } = this.#told;
    const group = this.switch.hidden ? "treatment" : this.#group;
    const rows = items.map((one) => ({ item: one.item, ...one[group], often: total(one[group].shown) }))
      .filter((one) => one.often > 0).sort((a, b) => b.often - a.often);
    const whose = `lists of ${group === "treatment" ? "the policy" : "control"}`;
    if (rows.length === 0) {
      fill(this.element, el("p", { class: "nothing-known" }, `Nothing was shown in ${whose} yet.`));
      return;
    }
    const most = Math.max(...rows.flatMap((one) => one.shown));
    const places = rows[0].shown.map((_, i) => (i === LAST - 1 && slots > LAST ? `${LAST - 1}+` : String(i)));
    fill(this.element, el("table", { class: group },
      el("caption", {}, `In ${whose}`),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Item"), places.map((place) => el("th", { scope: "col" }, place)))),
      el("tbody", {}, rows.map((one) => el("tr", {}, el("th", { scope: "row", title: one.item }, one.item),
        one.shown.map((shown, i) => cell(shown, one.clicked[i], most, places[i])))))));
  }
}

function cell(shown, clicked, most, place) {
  const rate = shown === 0 ? "" : `, clicked ${count(clicked)} (${percent(clicked / shown)})`;
  const made = el("td", { class: shown === 0 ? "zero" : "", title: `Slot ${place}: shown ${count(shown)}${rate}` }, shown === 0 ? "·" : compact(shown));
  made.style.setProperty("--heat", (Math.sqrt(shown / most)).toFixed(3));
  return made;
}
