// One ranker: summary tiles, charts, items, slots, feedback, and the decision form.
import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { decisionForm } from "./decision.js";
import { card, el, fill, say } from "./dom.js";
import { Feedback } from "./feedback.js";
import { KindTable } from "./kind_table.js";
import { duration, many, number, percent } from "./format.js";
import { ItemTable } from "./item_table.js";
import { LazyPoll, MAX_AGE_SECONDS } from "./lazy_poll.js";
import { SPAN_HOURS, toRanker } from "./route.js";
import { SlotHeatmap } from "./slot_heatmap.js";
import { SlotWorths, trustText } from "./slot_worths.js";
import { badge, groupsText, quarantineText, rollout, sentence } from "./text.js";
import { Tiles } from "./tiles.js";
import { explorationSeries, regretSeries, valueSeries } from "./time_series.js";
import { valueText } from "./value.js";

const [PHONE_POINTS, DESKTOP_POINTS] = [30, 60]; // time buckets of a chart
const PHONE_WIDTH = 600; // pixels
const HEATMAP_ITEMS = 20;
const SPAN_LABELS = { "1h": "1 h", "24h": "24 h", "7d": "7 d", all: "All" };
const plain = (value, exact = false) => (exact ? number(value) : Number(value.toPrecision(6)).toLocaleString("en"));
const share = (value, exact = false) => (exact ? percent(value) : `${Number((100 * value).toFixed(2))}\u202f%`);

/** The view of one ranker. */
export function rankerView(name, span) {
  const page = new Page(name, span, () => view.refresh());
  const view = {
    title: name,
    element: page.element,
    request: (signal) => page.request(signal),
    show: (answer) => page.show(answer),
    stop: () => page.items.stop(),
    refresh: () => {},
  };
  return view;
}

class Page {
  #name;
  #span;
  #lazy;
  #decisions = null;
  #objective = null;
  #config = null;
  #refresh;

  constructor(name, span, refresh) {
    this.#name = name;
    this.#span = span;
    this.#refresh = refresh;
    this.items = new ItemTable(name);
    this.heatmap = new SlotHeatmap();
    this.feedback = new Feedback();
    this.kinds = new KindTable();
    this.#lazy = { items: new LazyPoll(this.items.element, refresh), slots: new LazyPoll(this.heatmap.element, refresh) };
    this.tiles = new Tiles();
    this.slotWorths = new SlotWorths();
    this.trust = el("p", { class: "trust", hidden: true });
    this.facts = el("p", { class: "facts" });
    this.guardrail = el("div", { class: "guardrail", role: "status", hidden: true });
    this.quarantine = el("div", { class: "quarantine", role: "status", hidden: true });
    this.exploration = new LineChart({ title: "Exploration share over time", format: share, height: 190, floor: 0, empty: "This policy does not report an exploration share." });
    this.regret = new LineChart({ title: "Cumulative regret", format: plain, height: 190, floor: 0 });
    this.regretCard = card("Cumulative regret", { hint: "Value lost compared with the best list." });
    this.head = el("div", { class: "title" },
      el("div", {}, el("h1", { tabindex: -1 }, name), this.facts), this.#spanField());
    this.body = el("div", { class: "stack", "aria-busy": "true" }, el("p", { class: "loading" }, "Loading…"));
    this.element = el("div", { class: "stack" }, this.head, this.quarantine, this.guardrail, this.body);
  }

  #spanField() {
    const choose = (event) => {
      this.#span = event.target.value;
      history.replaceState(null, "", toRanker(this.#name, this.#span));
      this.#refresh();
    };
    const option = (span) => el("label", {},
      el("input", { type: "radio", name: "span", value: span, checked: span === this.#span, onchange: choose }),
      el("span", {}, SPAN_LABELS[span]));
    return el("fieldset", { class: "segments" }, el("legend", { class: "hidden" }, "Time range"), Object.keys(SPAN_HOURS).map(option));
  }

  /** Most polls request the overview only; items and slots are requested rarely, the settings once. */
  async request(signal) {
    const path = ["rankers", this.#name];
    const points = window.innerWidth < PHONE_WIDTH ? PHONE_POINTS : DESKTOP_POINTS;
    const { items, slots } = this.#lazy;
    // The quarantine state comes with the settings and is refreshed as rarely as the items.
    const settings = this.#config === null || items.due ? get(path, {}, signal) : null;
    try {
      const [summary, slotCounts, itemPage, ranker] = await Promise.all([
        get([...path, "overview"], { hours: SPAN_HOURS[this.#span], points }, signal),
        slots.due ? get([...path, "slots"], { limit: HEATMAP_ITEMS, age: MAX_AGE_SECONDS }, signal) : null,
        items.due ? this.items.request(signal) : null,
        settings,
      ]);
      return { overview: summary.overview, slots: slotCounts?.items, items: itemPage, ranker };
    } catch (error) {
      const ranker = await settings?.catch(() => null);
      if (!ranker?.quarantine) throw error;
      return { overview: null, ranker }; // a quarantined ranker may have no overview
    }
  }

  show({ overview, slots, items, ranker }) {
    if (ranker) {
      this.#config = ranker.config;
      this.quarantine.hidden = !ranker.quarantine;
      if (ranker.quarantine) fill(this.quarantine, el("h2", {}, "Quarantined"), el("p", {}, quarantineText(ranker.quarantine)));
    }
    if (overview === null) {
      this.#config = null; // request the settings again
      this.#decisions = null;
      this.body.removeAttribute("aria-busy");
      fill(this.body);
      return;
    }
    if (this.#config.policy !== overview.policy) this.#config = null; // a challenger has just been promoted
    if (slots) {
      this.heatmap.update(slots, this.#config?.slots ?? 1);
      this.#lazy.slots.done();
    }
    if (items) {
      this.items.show(items);
      this.slotWorths.update(items.answer.slot_worths ?? []);
      const trust = items.answer.score_trust ?? null;
      this.trust.hidden = trust === null;
      this.trust.classList.toggle("bad", trust?.misleading ?? false);
      say(this.trust, trustText(trust));
      this.#lazy.items.done();
    }
    const started = this.#decisions === null || (this.#decisions === 0) !== (overview.decisions === 0);
    if (started || this.#objective !== overview.objective) this.#layout(overview);
    this.#decisions = overview.decisions;
    this.#objective = overview.objective;
    this.#showState(overview);
    this.tiles.update(overview);
    this.items.updateSegments(overview);
    this.feedback.update(overview);
    this.kinds.update(overview);
    this.#draw(overview);
  }

  /** Build the page, with or without decisions. */
  #layout(overview) {
    this.body.removeAttribute("aria-busy");
    const hint = "Estimated value in slot 0 with a 95 % interval, and how often the treatment group saw and clicked the item.";
    const items = card("Items", { class: "wide", tools: this.items.tools, hint }, this.trust, this.items.element);
    if (overview.decisions === 0) {
      fill(this.body, emptyState(this.#name, overview.items), overview.items > 0 ? items : null);
      return;
    }
    const legend = el("ul", { class: "legend" },
      el("li", {}, el("span", { class: "dot treatment" }), "Treatment"), el("li", {}, el("span", { class: "dot control" }), "Control"),
      el("li", {}, el("span", { class: "dot between" }), "95 % interval"));
    const written = valueText(overview);
    const format = (value, exact = false) => (exact ? written.level(value) : written.tick(value));
    this.values = new LineChart({ title: `${written.name} over time`, format, height: 260, empty: "No feedback yet." });
    fill(this.body, this.tiles.element,
      card(written.name, { tools: legend, hint: written.isRate ? null : valueHint(overview) }, this.values.element),
      el("div", { class: "pair" },
        card("Exploration", { hint: "Share of the scores that comes from exploration." }, this.exploration.element),
        this.regretCard),
      this.kinds.element,
      items,
      this.slotWorths.element,
      el("div", { class: "pair" },
        card("Slots", { tools: this.heatmap.switch, hint: "How often the most shown items appeared in each slot. Slot 0 is the top." }, this.heatmap.element),
        el("div", { class: "stack" },
          card("Feedback", { hint: "Time from a decision to its first feedback." }, this.feedback.element),
          card("Look up a decision", { hint: "Shows why each item was ranked where it was, and the feedback." }, decisionForm(this.#name)))));
  }

  #showState(overview) {
    const config = this.#config;
    const facts = [overview.policy, config && many(config.slots, "slot"), many(overview.items, "item"),
      overview.segments > 1 ? many(overview.segments, "segment") : null, config && `feedback window ${duration(config.window)}`];
    const line = facts.filter(Boolean).join(" · ");
    const content = `${line}${overview.mode}${overview.traffic}${overview.guardrail_tripped}`;
    if (this.facts.dataset.content !== content) {
      this.facts.dataset.content = content;
      fill(this.facts, badge(rollout(overview.mode, overview.traffic, overview.guardrail_tripped)), " ", line);
    }
    this.guardrail.hidden = overview.guardrail_tripped === null;
    if (overview.guardrail_tripped !== null && this.guardrail.dataset.reason !== overview.guardrail_tripped) {
      this.guardrail.dataset.reason = overview.guardrail_tripped;
      fill(this.guardrail, el("h2", {}, "Guardrail tripped: all visitors see the control ranking"), el("p", {}, sentence(overview.guardrail_tripped)));
    }
  }

  #draw(overview) {
    const changes = overview.changes ?? [];
    this.values?.update(valueSeries(overview.times), groupsText(overview.groups, valueText(overview)), changes);
    const group = overview.groups.treatment;
    this.exploration.update(explorationSeries(overview.times), `Exploration share: ${percent(group.exploration_share)} over all decisions.`, changes);
    const known = group.regret !== null;
    if (this.regretCard.dataset.known !== String(known)) {
      this.regretCard.dataset.known = String(known);
      const [head, hint] = this.regretCard.children;
      fill(this.regretCard, head, hint, known ? this.regret.element : el("p", { class: "nothing-known" },
        "Regret is not known. Only simulated visitors know the best list and report regret with their feedback."));
    }
    if (known) {
      const mean = group.regret / group.regret_lists;
      const text = `${number(group.regret)} over ${many(group.regret_lists, "decision")}, ${number(mean)} per decision.`;
      say(this.regretCard.children[1], `Value lost compared with the best list: ${text}`);
      this.regret.update(regretSeries(overview.times, group.regret), `Cumulative regret: ${text}`, changes);
    }
  }
}

const valueHint = ({ objective, unit }) => `The objective is ${objective}: a list is worth its ${unit}.`;

function emptyState(name, items) {
  const path = `localhost:8080/v1/rankers/${name}`;
  const put = `curl -X PUT --json '{"items": [{"id": "tea"}, {"id": "coffee"}]}' ${path}/items`;
  const rank = `curl --json '{}' ${path}/rank`;
  return el("div", { class: "empty card" },
    el("h2", {}, "No decisions yet"),
    el("p", {}, items === 0 ? "This ranker has no items. Add items and request a ranking:" : `This ranker has ${many(items, "item")}. Request a ranking:`),
    el("pre", { tabindex: 0 }, el("code", {}, items === 0 ? `${put}\n${rank}` : rank)),
    el("p", { class: "hint" }, "This page updates when the first decision is made."));
}
