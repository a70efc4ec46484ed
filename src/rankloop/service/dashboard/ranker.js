// One ranker: numbers at a glance, charts, items, places, feedback, and the way to a decision.
import { get } from "./api.js";
import { LineChart } from "./chart.js";
import { card, el, fill, say } from "./dom.js";
import { Feedback } from "./feedback.js";
import { count, duration, many, number, percent } from "./format.js";
import { Heat } from "./heat.js";
import { Items } from "./items.js";
import { finder } from "./decision.js";
import { SPANS, toRanker } from "./route.js";
import { AGE, Seldom } from "./seldom.js";
import { clickThrough, exploring, regret } from "./series.js";
import { Tiles } from "./tiles.js";
import { armWords, badge, quarantined, rollout, sentence } from "./words.js";

const [FEW, MANY] = [30, 60]; // points of a chart, on a phone and on a desk
const LABELS = { "1h": "1 h", "24h": "24 h", "7d": "7 d", all: "All" };
const plain = (value, exact = false) => (exact ? number(value) : Number(value.toPrecision(6)).toLocaleString("en"));
const share = (value, exact = false) => (exact ? percent(value) : `${Number((100 * value).toFixed(2))}\u202f%`);

/** The view of one ranker. */
export function rankerView(name, span) {
  const page = new Page(name, span, () => view.again());
  const view = {
    title: name,
    element: page.element,
    ask: (signal) => page.ask(signal),
    show: (answer) => page.show(answer),
    stop: () => page.items.stop(),
    again: () => {},
  };
  return view;
}

class Page {
  #name;
  #span;
  #seldom;
  #position = null;
  #config = null;
  #again;

  constructor(name, span, again) {
    this.#name = name;
    this.#span = span;
    this.#again = again;
    this.items = new Items(name);
    this.heat = new Heat();
    this.feedback = new Feedback();
    this.#seldom = { items: new Seldom(this.items.element, again), places: new Seldom(this.heat.element, again) };
    this.tiles = new Tiles();
    this.facts = el("p", { class: "facts" });
    this.guard = el("div", { class: "guard", hidden: true });
    this.quarantine = el("div", { class: "quarantine", role: "status", hidden: true });
    this.clicks = new LineChart({ title: "Click-through over time", format: share, height: 260, empty: "No outcome yet." });
    this.explored = new LineChart({ title: "Exploration share over time", format: share, height: 190, floor: 0, empty: "This policy has no share of exploring." });
    this.lost = new LineChart({ title: "Cumulative regret", format: plain, height: 190, floor: 0 });
    this.regretCard = card("Cumulative regret", { hint: "What its lists lost against the best ones." });
    this.head = el("div", { class: "title" },
      el("div", {}, el("h1", { tabindex: -1 }, name), this.facts), this.#spans());
    this.body = el("div", { class: "stack", "aria-busy": "true" }, el("p", { class: "loading" }, "Loading…"));
    this.element = el("div", { class: "stack" }, this.head, this.quarantine, this.guard, this.body);
  }

  #spans() {
    const choose = (event) => {
      this.#span = event.target.value;
      history.replaceState(null, "", toRanker(this.#name, this.#span));
      this.#again();
    };
    const one = (span) => el("label", {},
      el("input", { type: "radio", name: "span", value: span, checked: span === this.#span, onchange: choose }),
      el("span", {}, LABELS[span]));
    return el("fieldset", { class: "segments" }, el("legend", { class: "hidden" }, "Time shown"), Object.keys(SPANS).map(one));
  }

  /** One question in most polls; items and places come along now and then, the settings once. */
  async ask(signal) {
    const at = ["rankers", this.#name];
    const points = window.innerWidth < 600 ? FEW : MANY;
    const { items, places } = this.#seldom;
    // Whether it is quarantined is asked as seldom as its items are.
    const asked = this.#config === null || items.due ? get(at, {}, signal) : null;
    try {
      const [told, shown, listed, ranker] = await Promise.all([
        get([...at, "overview"], { hours: SPANS[this.#span], points }, signal),
        places.due ? get([...at, "slots"], { limit: 20, age: AGE }, signal) : null,
        items.due ? this.items.ask(signal) : null,
        asked,
      ]);
      return { overview: told.overview, places: shown?.items, items: listed, ranker };
    } catch (error) {
      const ranker = await asked?.catch(() => null);
      if (!ranker?.quarantine) throw error;
      return { overview: null, ranker }; // a quarantined ranker may have nothing else to say
    }
  }

  show({ overview, places, items, ranker }) {
    if (ranker) {
      this.#config = ranker.config;
      this.quarantine.hidden = !ranker.quarantine;
      if (ranker.quarantine) fill(this.quarantine, el("h2", {}, "Quarantined"), el("p", {}, quarantined(ranker.quarantine)));
    }
    if (overview === null) {
      this.#config = null; // ask again
      this.#position = null;
      this.body.removeAttribute("aria-busy");
      fill(this.body);
      return;
    }
    if (this.#config.policy !== overview.policy) this.#config = null; // it was replaced a moment ago
    if (places) {
      this.heat.update(places, this.#config?.slots ?? 1);
      this.#seldom.places.done();
    }
    if (items) {
      this.items.show(items);
      this.#seldom.items.done();
    }
    if (this.#position === null || (this.#position === 0) !== (overview.decisions === 0)) this.#lay(overview);
    this.#position = overview.decisions;
    this.#told(overview);
    this.tiles.update(overview);
    this.items.follow(overview);
    this.feedback.update(overview, this.#config?.window ?? null);
    this.#draw(overview);
  }

  /** What the page is made of, with and without lists. */
  #lay(overview) {
    this.body.removeAttribute("aria-busy");
    const items = card("Items", { class: "wide", tools: this.items.tools, hint: "What it believes of each item in the first place, with a 95 % interval; how often its lists showed the item, and clicks on it there." }, this.items.element);
    if (overview.decisions === 0) {
      fill(this.body, empty(this.#name, overview.items), overview.items > 0 ? items : null);
      return;
    }
    const legend = el("ul", { class: "legend" },
      el("li", {}, el("span", { class: "dot policy" }), "Policy"), el("li", {}, el("span", { class: "dot control" }), "Control"),
      el("li", {}, el("span", { class: "dot between" }), "95 % interval"));
    fill(this.body, this.tiles.element,
      card("Click-through", { tools: legend }, this.clicks.element),
      el("div", { class: "pair" },
        card("Exploring", { hint: "How much of the scores of its lists is curiosity rather than belief." }, this.explored.element),
        this.regretCard),
      items,
      el("div", { class: "pair" },
        card("Places", { tools: this.heat.switch, hint: "How often the items shown most stood where; the stronger the colour, the more often." }, this.heat.element),
        el("div", { class: "stack" },
          card("Feedback", { hint: "How long after a list its first feedback came." }, this.feedback.element),
          card("Look up a decision", { hint: "Why a list was as it was, and what became of it." }, finder(this.#name)))));
  }

  #told(overview) {
    const config = this.#config;
    const facts = [overview.policy, config && many(config.slots, "slot"), many(overview.items, "item"),
      overview.segments > 1 ? many(overview.segments, "segment") : null, config && `waits ${duration(config.window)} for feedback`];
    const line = facts.filter(Boolean).join(" · ");
    if (this.facts.dataset.line !== `${line}${overview.mode}${overview.traffic}${overview.guardrail_tripped}`) {
      this.facts.dataset.line = `${line}${overview.mode}${overview.traffic}${overview.guardrail_tripped}`;
      fill(this.facts, badge(rollout(overview.mode, overview.traffic, overview.guardrail_tripped)), " ", line);
    }
    this.guard.hidden = overview.guardrail_tripped === null;
    if (overview.guardrail_tripped !== null && this.guard.dataset.why !== overview.guardrail_tripped) {
      this.guard.dataset.why = overview.guardrail_tripped;
      fill(this.guard, el("h2", {}, "The guard fell back to the control order"), el("p", {}, sentence(overview.guardrail_tripped)));
    }
  }

  #draw(overview) {
    const changes = overview.changes ?? [];
    this.clicks.update(clickThrough(overview.times), armWords(overview.groups), changes);
    const group = overview.groups.treatment;
    this.explored.update(exploring(overview.times), `Exploration share: ${percent(group.exploration_share)} over all lists.`, changes);
    const known = group.regret !== null;
    if (this.regretCard.dataset.known !== String(known)) {
      this.regretCard.dataset.known = String(known);
      const [head, hint] = this.regretCard.children;
      fill(this.regretCard, head, hint, known ? this.lost.element : el("p", { class: "nothing-known" },
        "Nobody can tell: the best list is known only to simulated visitors, whose feedback says what a list lost."));
    }
    if (known) {
      const per = group.regret / group.regret_lists;
      const words = `${number(group.regret)} over ${many(group.regret_lists, "list")}, ${number(per)} a list.`;
      say(this.regretCard.children[1], `What its lists lost against the best ones: ${words}`);
      this.lost.update(regret(overview.times, group.regret), `Cumulative regret: ${words}`, changes);
    }
  }
}

function empty(name, items) {
  const path = `localhost:8080/v1/rankers/${name}`;
  const put = `curl -X PUT --json '{"items": [{"id": "tea"}, {"id": "coffee"}]}' ${path}/items`;
  const rank = `curl --json '{}' ${path}/rank`;
  return el("div", { class: "empty card" },
    el("h2", {}, "No lists yet"),
    el("p", {}, items === 0 ? "It has no items. Give it some, and ask for a list:" : `${count(items)} items wait to be ranked. Ask for a list:`),
    el("pre", { tabindex: 0 }, el("code", {}, items === 0 ? `${put}\n${rank}` : rank)),
    el("p", { class: "hint" }, "This page shows it as soon as it is there."));
}
