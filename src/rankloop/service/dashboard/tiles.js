// The numbers at the top of a ranker's page.
import { el, say } from "./dom.js";
import { count, large, NONE, number, percent } from "./format.js";
import { between, lifted } from "./words.js";

const RECENT = 5; // polls over which a pace is measured

/** Five numbers, each with what it means. */
export class Tiles {
  #tiles;
  #seen = [];

  constructor() {
    const names = ["Click-through", "Lift over control", "Lists", "Exploring", "Waiting for feedback"];
    this.#tiles = names.map((name) => ({
      name, value: el("dd", { class: "big" }), more: el("dd", { class: "small" }), last: el("dd", { class: "small" }),
    }));
    this.element = el("dl", { class: "tiles" },
      this.#tiles.map(({ name, value, more, last }) => el("div", { class: "tile card" }, el("dt", {}, name), value, more, last)));
  }

  update(overview) {
    const { treatment, control } = overview.groups;
    const lift = lifted(overview.lift);
    const pace = this.#pace(overview.decisions);
    const told = [
      [percent(treatment.click_through), treatment.settled ? between(treatment.low, treatment.high) : control.settled ? "the policy shows nothing" : "no outcome yet",
        control.settled ? `control ${percent(control.click_through)}` : ""],
      [lift.value, lift.sure, lift.better],
      [large(overview.decisions), control.lists ? `${large(control.lists)} by control` : "all by the policy",
        pace === null ? "" : pace < 0.05 ? "none just now" : `${number(pace)} a second`],
      [percent(treatment.exploration_share), treatment.exploration_share === null ? "not a matter of this policy" : "of the scores",
        treatment.explored ? `changed ${large(treatment.explored)} lists` : ""],
      [count(overview.open_decisions), overview.late ? `${count(overview.late)} came too late` : "none came too late", ""],
    ];
    told.forEach(([value, more, last], i) => {
      say(this.#tiles[i].value, value);
      say(this.#tiles[i].more, more);
      say(this.#tiles[i].last, last);
    });
    this.#tiles[1].value.className = `big ${lift.kind}`;
    if (overview.lift === null) say(this.#tiles[1].value, NONE);
  }

  /** Lists a second over the last polls. */
  #pace(decisions) {
    const now = performance.now() / 1000;
    this.#seen = [...this.#seen, { now, decisions }].slice(-RECENT);
    const [first] = this.#seen;
    return now - first.now < 1 || decisions < first.decisions ? null : (decisions - first.decisions) / (now - first.now);
  }
}
