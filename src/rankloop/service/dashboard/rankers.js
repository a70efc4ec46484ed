// All rankers at a glance.
import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { count, large, many, percent } from "./format.js";
import { toRanker } from "./route.js";
import { badge, between, lifted, quarantined, rollout, sentence } from "./words.js";

/** The first view: a card for each ranker. */
export function rankersView() {
  const body = el("div", { "aria-busy": "true" }, el("p", { class: "loading" }, "Loading…"));
  const total = el("p", { class: "lead" });
  const element = el("div", {}, el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Rankers"), total), body);
  let before = "";
  return {
    title: "",
    element,
    ask: async (signal) => (await get(["rankers"], {}, signal)).rankers,
    show(rankers) {
      const now = JSON.stringify(rankers);
      if (now === before) return; // a focus stays where it is
      const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      before = now;
      body.removeAttribute("aria-busy");
      total.textContent = rankers.length === 0 ? "" : `${many(rankers.length, "ranker")}, ${many(sum(rankers, "decisions"), "list")} so far`;
      fill(body, rankers.length === 0 ? nobody() : el("ul", { class: "cards" }, rankers.map((one) => el("li", {}, glance(one)))));
      if (focused !== null) [...body.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
    },
  };
}

const STOPPED = { word: "Quarantined", kind: "warn", sentence: "An entry of its log cannot be applied." };
const sum = (rankers, field) => rankers.reduce((all, one) => all + one[field], 0);

function glance(ranker) {
  const { treatment, control } = ranker.groups;
  const { mode = "live", traffic = 1, guard = null } = ranker.config;
  const lift = lifted(ranker.lift);
  return el("a", { class: "card glance", href: toRanker(ranker.name) },
    el("div", { class: "glance-head" }, el("h2", {}, ranker.name), badge(ranker.quarantine ? STOPPED : rollout(mode, traffic, ranker.guardrail_tripped))),
    el("p", { class: "policy-id" }, ranker.config.policy),
    ranker.quarantine ? el("p", { class: "quarantine" }, quarantined(ranker.quarantine)) : null,
    el("dl", { class: "figures" },
      figure("Click-through", percent(treatment.click_through), treatment.settled ? between(treatment.low, treatment.high) : control.settled ? "not shown" : "no outcome yet"),
      figure("Lift", lift.value, control.settled ? `control ${percent(control.click_through)}` : "no control", lift.kind),
      figure("Lists", large(ranker.decisions), many(ranker.items, "item"))),
    el("p", { class: "hint" }, guard === null ? "No guard" : ranker.guardrail_tripped ? sentence(ranker.guardrail_tripped) : `Guarded: may lose ${percent(guard.drop, 0)} of control's click-through`,
      ranker.open_decisions > 0 ? ` · ${count(ranker.open_decisions)} waiting for feedback` : ""));
}

function figure(name, value, more, kind = "") {
  return el("div", {}, el("dt", {}, name), el("dd", { class: `big ${kind}` }, value), el("dd", { class: "small" }, more));
}

function nobody() {
  const command = "curl -X PUT --json '{\"policy\": \"gts\", \"slots\": 3}' localhost:8080/v1/rankers/shop";
  return el("div", { class: "empty card" },
    el("h2", {}, "No rankers yet"),
    el("p", {}, "The service is up, and nobody has told it what to rank. A first one:"),
    el("pre", { tabindex: 0 }, el("code", {}, command)));
}
