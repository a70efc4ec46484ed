// The start page: a card for each ranker.
import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { large, many, percent } from "./format.js";
import { toRanker } from "./route.js";
import { badge, liftText, quarantineText, rollout, sentence } from "./text.js";
import { valueText } from "./value.js";

/** The view of all rankers. */
export function rankersView() {
  const body = el("div", { "aria-busy": "true" }, el("p", { class: "loading" }, "Loading…"));
  const total = el("p", { class: "lead" });
  const element = el("div", {}, el("div", { class: "title" }, el("h1", { tabindex: -1 }, "Rankers"), total), body);
  let shown = "";
  return {
    title: "",
    element,
    request: async (signal) => (await get(["rankers"], {}, signal)).rankers,
    show(rankers) {
      const content = JSON.stringify(rankers);
      if (content === shown) return; // redrawing would move the focus
      const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      shown = content;
      body.removeAttribute("aria-busy");
      total.textContent = rankers.length === 0 ? "" : `${many(rankers.length, "ranker")}, ${many(sum(rankers, "decisions"), "decision")}`;
      fill(body, rankers.length === 0 ? emptyState() : el("ul", { class: "cards" }, rankers.map((one) => el("li", {}, rankerCard(one)))));
      if (focused !== null) [...body.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
    },
  };
}

const QUARANTINED = { label: "Quarantined", kind: "warn", sentence: "An event of its log cannot be applied." };
const NO_RESULTS = { settled: 0, value_per_list: null, value_low: null, value_high: null };
const sum = (rankers, field) => rankers.reduce((all, one) => all + one[field], 0);

function rankerCard(ranker) {
  const { treatment = NO_RESULTS, control = NO_RESULTS } = ranker.groups; // a quarantined ranker may have none
  const { mode = "live", traffic = 1 } = ranker.config;
  const written = valueText(ranker);
  const lift = liftText(ranker.lift, written);
  const state = ranker.quarantine ? QUARANTINED : rollout(mode, traffic, ranker.guardrail_tripped);
  return el("a", { class: "card ranker-card", href: toRanker(ranker.name) },
    el("div", { class: "ranker-card-head" }, el("h2", {}, ranker.name), badge(state)),
    el("p", { class: "policy-id" }, ranker.config.policy),
    ranker.quarantine ? el("p", { class: "quarantine" }, quarantineText(ranker.quarantine)) : null,
    el("dl", { class: "figures" },
      figure(written.name, written.level(treatment.value_per_list), treatment.settled ? written.range(treatment.value_low, treatment.value_high) : "no outcomes yet"),
      figure("Lift", lift.value, control.settled ? `control ${written.level(control.value_per_list)}` : "no control", lift.kind),
      figure("Decisions", large(ranker.decisions), many(ranker.items, "item"))),
    el("p", { class: "hint" }, guardrailText(ranker, written), ranker.open_decisions > 0 ? ` · ${many(ranker.open_decisions, "open decision")}` : ""));
}

function guardrailText({ config: { guardrail = null }, guardrail_tripped: tripped }, written) {
  if (tripped) return sentence(tripped).replace(/\.$/, "");
  if (guardrail === null) return "No guardrail";
  return `Guardrail: trips if the ${written.name.toLowerCase()} is ${percent(guardrail.drop, 0)} below control`;
}

function figure(name, value, detail, kind = "") {
  return el("div", {}, el("dt", {}, name), el("dd", { class: `big ${kind}` }, value), el("dd", { class: "small" }, detail));
}

function emptyState() {
  const command = "curl -X PUT --json '{\"policy\": \"gts\", \"slots\": 3}' localhost:8080/v1/rankers/shop";
  return el("div", { class: "empty card" },
    el("h2", {}, "No rankers yet"),
    el("p", {}, "The service is running. Create your first ranker:"),
    el("pre", { tabindex: 0 }, el("code", {}, command)));
}
