// The summary tiles at the top of a ranker's page.
import { el, say } from "./dom.js";
import { count, large, number, percent } from "./format.js";
import { liftText } from "./text.js";
import { valueText } from "./value.js";

const RATE_WINDOW_POLLS = 5; // polls over which decisions per second are measured
const NAMES = ["Click-through rate", "Lift over control", "Decisions", "Exploration share", "Open decisions"]; // the first follows the objective

/** Five numbers with two lines of explanation each. */
export class Tiles {
  #tiles;
  #polls = [];

  constructor() {
    this.#tiles = NAMES.map((name) => ({
      name: el("dt", {}, name), value: el("dd", { class: "big" }), first: el("dd", { class: "small" }), second: el("dd", { class: "small" }),
    }));
    this.element = el("dl", { class: "tiles" },
      this.#tiles.map(({ name, value, first, second }) => el("div", { class: "tile card" }, name, value, first, second)));
  }

  update(overview) {
    const { treatment, control } = overview.groups;
    const written = valueText(overview);
    const lift = liftText(overview.lift, written);
    const rate = this.#decisionsPerSecond(overview.decisions);
    const contents = [
      [written.level(treatment.value_per_list), treatment.settled ? written.range(treatment.value_low, treatment.value_high) : "no treatment outcomes yet",
        [control.settled ? `control ${written.level(control.value_per_list)}` : null,
          written.isRate || !treatment.settled ? null : `click-through ${percent(treatment.click_through)}`].filter(Boolean).join(" · ")],
      [lift.value, lift.interval, lift.better],
      [large(overview.decisions), control.lists ? `${large(control.lists)} in control` : "all in treatment",
        rate === null ? "" : rate < 0.05 ? "0 per second" : `${number(rate)} per second`],
      [percent(treatment.exploration_share), treatment.exploration_share === null ? "not defined for this policy" : "of the scores",
        treatment.explored ? `changed ${large(treatment.explored)} decisions` : ""],
      [count(overview.open_decisions), overview.late ? `${count(overview.late)} late feedback events` : "no late feedback", ""],
    ];
    say(this.#tiles[0].name, written.name);
    contents.forEach(([value, first, second], i) => {
      say(this.#tiles[i].value, value);
      say(this.#tiles[i].first, first);
      say(this.#tiles[i].second, second);
    });
    this.#tiles[1].value.className = `big ${lift.kind}`;
  }

  #decisionsPerSecond(decisions) {
    const now = performance.now() / 1000;
    this.#polls = [...this.#polls, { now, decisions }].slice(-RATE_WINDOW_POLLS);
    const [first] = this.#polls;
    return now - first.now < 1 || decisions < first.decisions ? null : (decisions - first.decisions) / (now - first.now);
  }
}
