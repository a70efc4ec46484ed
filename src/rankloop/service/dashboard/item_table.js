// The table of items. The service sorts, searches and pages it, because there may be ten thousand of them.
import { get } from "./api.js";
import { el, fill, fresh, say, tableRegion } from "./dom.js";
import { count, NONE, number, percent } from "./format.js";
import { intervalMark, rangeOf } from "./interval_mark.js";
import { MAX_AGE_SECONDS } from "./lazy_poll.js";

const PAGE_ROWS = 25;
const TYPING_PAUSE_MS = 250; // search when the user has not typed for this long
const COLUMNS = [
  { sort: "item", name: "Item", first: "ascending" },
  { sort: "estimate", name: "Estimate", first: "descending", class: "estimate", title: "Estimated value in slot 0, with a 95 % interval" },
  { sort: "shown", name: "Shown", first: "descending", class: "number", title: "Treatment decisions that showed the item" },
  { sort: "clicked", name: "Clicked", first: "descending", class: "number", title: "Clicks in the treatment group" },
  { sort: "click_through", name: "CTR", first: "descending", class: "number", title: "Click-through rate in the treatment group: clicked / shown" },
];

/** One page of items with sorting, search and paging. */
export class ItemTable {
  #name;
  #query = { sort: "estimate", order: "descending", search: "", segment: "", offset: 0 };
  #segments = 0;
  #loading = null;
  #typing = null;
  #control = false;
  #shown = "";

  constructor(name) {
    this.#name = name;
    this.body = el("tbody");
    this.heads = COLUMNS.map((column) => this.#head(column));
    this.controlHead = el("th", { scope: "col", class: "number", title: "Clicked / shown in the control group", hidden: true }, "Control");
    this.axis = el("span", { class: "axis" });
    this.heads[1].append(this.axis);
    this.problem = el("p", { class: "wrong", role: "alert", hidden: true });
    this.position = el("span", { role: "status" });
    this.previous = el("button", { type: "button", class: "quiet", onclick: () => this.#turn(-1) }, "Previous");
    this.next = el("button", { type: "button", class: "quiet", onclick: () => this.#turn(1) }, "Next");
    this.element = el("div", { class: "items" }, this.problem,
      tableRegion("Item table", "", el("table", {}, el("caption", { class: "hidden" }, "Items with estimates, showings and clicks"),
        el("thead", {}, el("tr", {}, this.heads, this.controlHead)), this.body)),
      el("div", { class: "pager" }, this.position, el("div", {}, this.previous, " ", this.next)));
    this.tools = el("div", { class: "filters" }, this.#segmentField(), this.#searchField());
    this.#markSorted();
  }

  #searchField() {
    const id = fresh("search");
    const typed = () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#change({ offset: 0 }), TYPING_PAUSE_MS);
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
      order: this.#query.sort === column.sort ? flip[this.#query.order] : column.first });
    const head = el("th", { scope: "col", class: column.class ?? "" }, el("button", { type: "button", title: column.title, onclick: choose }, column.name));
    head.dataset.sort = column.sort;
    return head;
  }

  /** Request the page that the current query selects. */
  async request(signal) {
    const query = JSON.stringify(this.#query);
    const parameters = { ...this.#query, hours: 0, limit: PAGE_ROWS, age: MAX_AGE_SECONDS };
    return { query, answer: await get(["rankers", this.#name, "report"], parameters, signal) };
  }

  #markSorted() {
    for (const head of this.heads) {
      if (head.dataset.sort === this.#query.sort) head.setAttribute("aria-sort", this.#query.order);
      else head.removeAttribute("aria-sort");
    }
  }

  #turn(pages) {
    this.#change({ offset: Math.max(0, this.#query.offset + pages * PAGE_ROWS) });
  }

  async #change(change) {
    const search = this.search.value.trim(); // includes input that the typing timer still holds back
    if (search !== this.#query.search) change.offset = 0;
    Object.assign(this.#query, change, { search });
    this.#markSorted();
    this.stop();
    const loading = new AbortController();
    this.#loading = loading;
    this.element.setAttribute("aria-busy", "true");
    try {
      this.show(await this.request(loading.signal));
    } catch (error) {
      if (loading.signal.aborted) return;
      this.problem.hidden = false;
      say(this.problem, error.message);
    } finally {
      if (this.#loading === loading) this.element.removeAttribute("aria-busy");
    }
  }

  /** Cancel pending requests, because the view is left. */
  stop() {
    clearTimeout(this.#typing);
    this.#loading?.abort();
  }

  /** Show a page, unless the query has changed since it was requested. */
  show({ query, answer: { items, total, overview } }) {
    if (query !== JSON.stringify(this.#query)) return;
    this.problem.hidden = true;
    const control = overview.groups.control.lists > 0;
    const content = JSON.stringify([items, total, control]);
    if (content === this.#shown) return;
    this.#shown = content;
    this.#control = control;
    this.controlHead.hidden = !control;
    const { offset, search } = this.#query;
    const range = rangeOf(items.flatMap((item) => [item.estimate, item.low, item.high]));
    say(this.axis, range === null ? "" : `${number(range.low)} to ${number(range.high)}`);
    fill(this.body, items.length === 0
      ? el("tr", {}, el("td", { colspan: COLUMNS.length + 1, class: "nothing-known" }, search === "" ? "No items." : `No item id contains “${search}”.`))
      : items.map((item) => this.#row(item, range)));
    say(this.position, total === 0 ? "0 items" : `${count(offset + 1)}–${count(offset + items.length)} of ${count(total)} items`);
    this.previous.disabled = offset === 0;
    this.next.disabled = offset + items.length >= total;
  }

  #row(item, range) {
    const disabled = item.enabled ? null : el("span", { class: "badge calm" }, "disabled");
    return el("tr", {},
      el("th", { scope: "row" }, el("span", { class: "name" }, item.item), disabled),
      el("td", { class: "estimate" }, item.estimate === null ? NONE : el("div", { class: "interval" },
        el("span", { class: "middle" }, number(item.estimate)), intervalMark(item.estimate, item.low, item.high, range))),
      el("td", { class: "number" }, count(item.shown)),
      el("td", { class: "number" }, count(item.clicked)),
      el("td", { class: "number" }, percent(item.click_through)),
      this.#control ? el("td", { class: "number" }, controlText(item)) : null);
  }

  /** Request the names of the segments when their number has changed. */
  async updateSegments(overview) {
    if (overview.segments === this.#segments) return;
    this.#segments = overview.segments;
    try {
      const { segments } = await get(["rankers", this.#name, "segments"]);
      const names = segments.includes("") ? segments : ["", ...segments];
      fill(this.select, names.map((name) => el("option", { value: name, selected: name === this.#query.segment }, name === "" ? "No segment" : name)));
      this.segmentField.hidden = names.length < 2;
    } catch {
      this.#segments = 0; // the next poll tries again
    }
  }
}

/** Clicks and showings of an item in the control group, with the click-through rate. */
function controlText(item) {
  if (item.control_shown === 0) return NONE;
  return `${count(item.control_clicked)} / ${count(item.control_shown)} (${percent(item.control_click_through)})`;
}
