// The table of items: sorted, searched and paged by the service, which may have ten thousand of them.
import { get } from "./api.js";
import { el, fill, fresh, say } from "./dom.js";
import { count, NONE, number, percent } from "./format.js";
import { AGE } from "./seldom.js";
import { rangeOf, whisker } from "./whisker.js";

const ROWS = 25;
const TYPING = 250; // a pause after which somebody is thought to have typed all
const COLUMNS = [
  { sort: "item", name: "Item", first: "ascending" },
  { sort: "estimate", name: "Estimate", first: "descending", class: "estimate" },
  { sort: "shown", name: "Shown", first: "descending", class: "number", title: "In lists of the policy" },
  { sort: "clicked", name: "Clicked", first: "descending", class: "number less", title: "In lists of the policy" },
  { sort: "click_through", name: "Rate", first: "descending", class: "number", title: "Clicked of shown, in lists of the policy" },
];

/** A page of items, and what can be asked of it. */
export class Items {
  #name;
  #asked = { sort: "estimate", order: "descending", search: "", segment: "", offset: 0 };
  #segments = 0;
  #loading = null;
  #typing = null;
  #control = false;
  #shown = "";

  constructor(name) {
    this.#name = name;
    this.body = el("tbody");
    this.heads = COLUMNS.map((column) => this.#head(column));
    this.controlHead = el("th", { scope: "col", class: "number less", hidden: true }, "In control");
    this.axis = el("span", { class: "axis" });
    this.heads[1].append(this.axis);
    this.problem = el("p", { class: "wrong", role: "alert", hidden: true });
    this.where = el("span", { role: "status" });
    this.earlier = el("button", { type: "button", class: "quiet", onclick: () => this.#turn(-1) }, "Previous");
    this.later = el("button", { type: "button", class: "quiet", onclick: () => this.#turn(1) }, "Next");
    this.element = el("div", { class: "items" }, this.problem,
      el("table", {}, el("caption", { class: "hidden" }, "Items and what is believed of them"),
        el("thead", {}, el("tr", {}, this.heads, this.controlHead)), this.body),
      el("div", { class: "pager" }, this.where, el("div", {}, this.earlier, " ", this.later)));
    this.tools = el("div", { class: "filters" }, this.#segmentField(), this.#searchField());
    this.#mark();
  }

  #searchField() {
    const id = fresh("search");
    const typed = () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#change({ offset: 0 }), TYPING);
    };
    this.search = el("input", { id, type: "search", placeholder: "Search items", autocomplete: "off", maxlength: 200, oninput: typed });
    return el("div", {}, el("label", { for: id, class: "hidden" }, "Search items"), this.search);
  }

  #segmentField() {
    const id = fresh("segment");
    this.select = el("select", { id, onchange: (event) => this.#change({ segment: event.target.value, offset: 0 }) });
    this.segmentField = el("div", { hidden: true }, el("label", { for: id, class: "hidden" }, "Segment"), this.select);
    return this.segmentField;
  }

  #head(column) {
    const flip = { ascending: "descending", descending: "ascending" };
    const choose = () => this.#change({ sort: column.sort, offset: 0,
      order: this.#asked.sort === column.sort ? flip[this.#asked.order] : column.first });
    const head = el("th", { scope: "col", class: column.class ?? "" }, el("button", { type: "button", title: column.title, onclick: choose }, column.name));
    head.dataset.sort = column.sort;
    return head;
  }

  /** A page from the service, as now asked for. */
  async ask(signal) {
    const asked = JSON.stringify(this.#asked);
    return { asked, told: await get(["rankers", this.#name, "report"], { ...this.#asked, hours: 0, limit: ROWS, age: AGE }, signal) };
  }

  #mark() {
    for (const head of this.heads) {
      if (head.dataset.sort === this.#asked.sort) head.setAttribute("aria-sort", this.#asked.order);
      else head.removeAttribute("aria-sort");
    }
  }

  #turn(pages) {
    this.#change({ offset: Math.max(0, this.#asked.offset + pages * ROWS) });
  }

  async #change(asked) {
    const search = this.search.value.trim(); // also what was typed a moment ago
    if (search !== this.#asked.search) asked.offset = 0;
    Object.assign(this.#asked, asked, { search });
    this.#mark();
    this.stop();
    const loading = new AbortController();
    this.#loading = loading;
    this.element.setAttribute("aria-busy", "true");
    try {
      this.show(await this.ask(loading.signal));
    } catch (error) {
      if (loading.signal.aborted) return;
      this.problem.hidden = false;
      say(this.problem, error.message);
    } finally {
      if (this.#loading === loading) this.element.removeAttribute("aria-busy");
    }
  }

  /** Nobody looks any more. */
  stop() {
    clearTimeout(this.#typing);
    this.#loading?.abort();
  }

  /** Show a page, unless it answers what is no longer asked. */
  show({ asked, told: { items, total, overview } }) {
    if (asked !== JSON.stringify(this.#asked)) return;
    this.problem.hidden = true;
    const control = overview.groups.control.lists > 0;
    const now = JSON.stringify([items, total, control]);
    if (now === this.#shown) return;
    this.#shown = now;
    this.#control = control;
    this.controlHead.hidden = !control;
    const { offset, search } = this.#asked;
    const range = rangeOf(items.flatMap((item) => [item.estimate, item.low, item.high]));
    say(this.axis, range === null ? "" : `${number(range.low)} to ${number(range.high)}`);
    fill(this.body, items.length === 0
      ? el("tr", {}, el("td", { colspan: COLUMNS.length + 1, class: "nothing-known" }, search === "" ? "No items." : `No item has “${search}” in its id.`))
      : items.map((item) => this.#row(item, range)));
    say(this.where, total === 0 ? "0 items" : `${count(offset + 1)}–${count(offset + items.length)} of ${count(total)} items`);
    this.earlier.disabled = offset === 0;
    this.later.disabled = offset + items.length >= total;
  }

  #row(item, range) {
    const off = item.enabled ? null : el("span", { class: "badge calm" }, "off");
    return el("tr", {},
      el("th", { scope: "row", title: item.item }, el("span", { class: "name" }, item.item), off),
      el("td", { class: "estimate" }, item.estimate === null ? NONE : el("div", { class: "interval" },
        el("span", { class: "middle" }, number(item.estimate)), whisker(item.estimate, item.low, item.high, range))),
      el("td", { class: "number" }, count(item.shown)),
      el("td", { class: "number less" }, count(item.clicked)),
      el("td", { class: "number" }, percent(item.click_through)),
      this.#control ? el("td", { class: "number less" }, inControl(item)) : null);
  }

  /** More segments than before: ask which. */
  async follow(overview) {
    if (overview.segments === this.#segments) return;
    this.#segments = overview.segments;
    try {
      const { segments } = await get(["rankers", this.#name, "segments"]);
      const names = segments.includes("") ? segments : ["", ...segments];
      fill(this.select, names.map((name) => el("option", { value: name, selected: name === this.#asked.segment }, name === "" ? "No segment" : name)));
      this.segmentField.hidden = names.length < 2;
    } catch {
      this.#segments = 0; // the next poll tries again
    }
  }
}

/** Clicked of shown in lists of control, and the rate that follows. */
function inControl(item) {
  if (item.control_shown === 0) return NONE;
  return `${count(item.control_clicked)} of ${count(item.control_shown)} (${percent(item.control_click_through)})`;
}
