// How often each item was shown in each slot, as a table with coloured cells.
import { el, fill, fresh, tableRegion } from "./dom.js";
import { compact, count, percent } from "./format.js";

const MAX_TRACKED_SLOTS = 10; // the service counts all later slots with the last of these
const GROUPS = { treatment: "Treatment", control: "Control" };
const total = (counts) => counts.reduce((sum, one) => sum + one, 0);

/** Item-by-slot counts of one group; a switch between the groups appears if there are control decisions. */
export class SlotHeatmap {
  #group = "treatment";
  #data = null;

  constructor() {
    const name = fresh("group");
    const option = (group) => el("label", {},
      el("input", { type: "radio", name, value: group, checked: group === this.#group, onchange: () => this.#choose(group) }),
      el("span", {}, GROUPS[group]));
    this.switch = el("fieldset", { class: "segments", hidden: true }, el("legend", { class: "hidden" }, "Group"), Object.keys(GROUPS).map(option));
    this.element = tableRegion("Items by slot", "heat");
  }

  #choose(group) {
    this.#group = group;
    this.#draw();
  }

  /** Show [{item, treatment: {shown: [by slot], clicked: [by slot]}, control: {...}}]. */
  update(items, slots) {
    this.#data = { items, slots };
    this.switch.hidden = items.every((one) => total(one.control.shown) === 0);
    this.#draw();
  }

  #draw() {
    const { items, slots } = this.#data;
    const group = this.switch.hidden ? "treatment" : this.#group;
    const rows = items.map((one) => ({ item: one.item, ...one[group], total: total(one[group].shown) }))
      .filter((one) => one.total > 0).sort((a, b) => b.total - a.total);
    if (rows.length === 0) {
      fill(this.element, el("p", { class: "nothing-known" }, `No ${group} decisions yet.`));
      return;
    }
    const most = Math.max(...rows.flatMap((one) => one.shown));
    const labels = rows[0].shown.map((_, i) => (i === MAX_TRACKED_SLOTS - 1 && slots > MAX_TRACKED_SLOTS ? `${i}+` : String(i)));
    fill(this.element, el("table", { class: group },
      el("caption", {}, `${GROUPS[group]} group: times shown by slot`),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Item"), labels.map((label) => el("th", { scope: "col" }, label)))),
      el("tbody", {}, rows.map((one) => el("tr", {}, el("th", { scope: "row" }, one.item),
        one.shown.map((shown, i) => cell(shown, one.clicked[i], most, labels[i])))))));
  }
}

function cell(shown, clicked, most, label) {
  const rate = shown === 0 ? "" : `, clicked ${count(clicked)} (${percent(clicked / shown)})`;
  const node = el("td", { class: shown === 0 ? "zero" : "", title: `Slot ${label}: shown ${count(shown)}${rate}` }, shown === 0 ? "·" : compact(shown));
  node.style.setProperty("--heat", Math.sqrt(shown / most).toFixed(3));
  return node;
}
