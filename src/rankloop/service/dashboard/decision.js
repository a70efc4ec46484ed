// One decision: the list, the explanation of each slot, and its feedback.
import { get } from "./api.js";
import { card, el, fill, fresh, tableRegion } from "./dom.js";
import { count, duration, many, moment, number, percent } from "./format.js";
import { intervalMark, rangeOf } from "./interval_mark.js";
import { toDecision } from "./route.js";

/** A form that opens a decision by its id. */
export function decisionForm(name, initial = "") {
  const id = fresh("decision");
  const input = el("input", { id, type: "text", autocomplete: "off", spellcheck: "false", required: true, maxlength: 200, value: initial });
  const submit = (event) => {
    event.preventDefault();
    if (input.value.trim() !== "") location.hash = toDecision(name, input.value.trim());
  };
  return el("form", { class: "row", onsubmit: submit },
    el("label", { for: id }, "Decision id"),
    el("div", { class: "field" }, input, el("button", { type: "submit", class: "primary" }, "Explain")));
}

/** The view of one decision; an open decision is requested again until it is settled. */
export function decisionView(name, id) {
  const body = el("div", { class: "stack", "aria-busy": "true" }, el("p", { class: "loading" }, "Loading…"));
  const element = el("div", { class: "stack" },
    el("div", { class: "title" }, el("div", {}, el("h1", { tabindex: -1 }, "Decision"), el("p", { class: "facts mono" }, id))), body);
  let last = null;
  return {
    title: `Decision ${id}`,
    element,
    async request(signal) {
      if (last === null || last.state === "open") last = await get(["rankers", name, "decisions", id], {}, signal);
      return last;
    },
    show(decision) {
      const content = JSON.stringify(decision);
      if (body.dataset.shown === content) return;
      body.dataset.shown = content;
      body.removeAttribute("aria-busy");
      const range = rangeOf(decision.slots.flatMap((slot) => [slot.estimate, slot.score, ...bounds(slot)]));
      fill(body, card("Summary", {}, el("p", { class: "lead" }, decision.summary), facts(decision)),
        card("Slots", { tools: legend(decision) }, el("ol", { class: "slots" }, decision.slots.map((slot) => slotRow(slot, decision, range)))),
        decision.proposed ? card("The policy's list (not shown)", {}, el("ol", { class: "proposed" }, decision.proposed.map((item) => el("li", {}, item)))) : null,
        decision.events.length ? card("Events", {}, eventTable(decision)) : null,
        card("Look up another decision", {}, decisionForm(name)));
    },
  };
}

function legend(decision) {
  if (decision.slots.every((slot) => slot.estimate === null)) return null;
  return el("ul", { class: "legend" }, el("li", {}, el("span", { class: "dot treatment round" }), "estimate with 95 % interval"),
    el("li", {}, el("span", { class: "dot ring round" }), "score"));
}

function facts(decision) {
  const rows = [["State", decision.state], ["Group", decision.group], ["Policy", decision.policy],
    ["Time", moment(decision.time)], ["Number", count(decision.number)], ["Segment", decision.segment || "none"],
    decision.visitor || decision.erased ? ["Visitor", decision.visitor || "erased"] : null,
    decision.candidates ? ["Candidates", many(decision.candidates.length, "item")] : null,
    decision.context ? ["Context", decision.context.map(number).join(", ")] : null,
    ["Version", decision.version], ["Seed", String(decision.seed)], ["Log position", String(decision.position)],
    ["Configuration version", String(decision.config)],
    decision.value === null ? null : ["Value", `${number(decision.value)} (${decision.unit})`],
    decision.propensity ? ["Propensity", propensity(decision.propensity)] : null];
  return el("dl", { class: "counts" }, rows.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function propensity({ kind, list, draws }) {
  return typeof list === "number" ? `${number(list)} (${many(draws, "draw")})` : kind;
}

function slotRow(slot, decision, range) {
  const clicked = decision.events.some((event) => event.outcome?.[slot.slot]);
  const { estimate, uncertainty, score } = slot;
  const [low, high] = bounds(slot);
  return el("li", { class: clicked ? "clicked" : "" },
    el("span", { class: "rank", title: `Slot ${slot.slot}` }, String(slot.slot)),
    el("div", { class: "why" },
      el("h3", {}, slot.item ?? "Empty", clicked ? el("span", { class: "badge live" }, "clicked") : null),
      el("p", {}, slot.reason)),
    estimate === null ? null : el("div", { class: "drawn" }, intervalMark(estimate, low, high, range, score),
      el("p", { class: "small" }, slot.exploration_share === null ? `± ${number(uncertainty)}` : `exploration share ${percent(slot.exploration_share, 0)}`)));
}

/** The 95 % interval of a slot's estimate. */
function bounds({ estimate, uncertainty }) {
  return estimate === null || uncertainty === null ? [null, null] : [estimate - 1.96 * uncertainty, estimate + 1.96 * uncertainty];
}

function eventTable(decision) {
  const row = (event) => el("tr", {}, el("td", {}, moment(event.time)), el("td", {}, duration(event.time - decision.time)),
    el("td", {}, event.of_kind ?? event.kind), el("td", {}, outcomeText(event)), el("td", {}, event.event ?? "–"));
  return tableRegion("Event table", "", el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["Time", "Delay", "Kind", "Outcome", "Event id"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, decision.events.map(row))));
}

function outcomeText(event) {
  if (event.outcome === null) return "–";
  const clicked = event.outcome.map((value, slot) => [value, slot]).filter(([value]) => value !== 0);
  if (clicked.length === 0) return "no click";
  return clicked.map(([value, slot]) => (value === 1 ? `slot ${slot}` : `slot ${slot}: ${number(value)}`)).join(", ");
}
