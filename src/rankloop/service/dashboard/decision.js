// One decision: what was shown and why, and what happened.
import { get } from "./api.js";
import { card, el, fill, fresh } from "./dom.js";
import { count, duration, many, moment, number, percent } from "./format.js";
import { toDecision } from "./route.js";
import { rangeOf, whisker } from "./whisker.js";

/** A field that leads to a decision. */
export function finder(name, given = "") {
  const id = fresh("decision");
  const input = el("input", { id, type: "text", autocomplete: "off", spellcheck: "false", required: true, maxlength: 200, value: given });
  const go = (event) => {
    event.preventDefault();
    if (input.value.trim() !== "") location.hash = toDecision(name, input.value.trim());
  };
  return el("form", { class: "row", onsubmit: go },
    el("label", { for: id }, "Id of a decision"),
    el("div", { class: "field" }, input, el("button", { type: "submit", class: "primary" }, "Explain")));
}

/** The view of one decision; an open one is looked at again until it is settled. */
export function decisionView(name, id) {
  const body = el("div", { class: "stack", "aria-busy": "true" }, el("p", { class: "loading" }, "Loading…"));
  const element = el("div", { class: "stack" },
    el("div", { class: "title" }, el("div", {}, el("h1", { tabindex: -1 }, "Decision"), el("p", { class: "facts mono" }, id))), body);
  let last = null;
  return {
    title: `Decision ${id}`,
    element,
    async ask(signal) {
      if (last === null || last.state === "open") last = await get(["rankers", name, "decisions", id], {}, signal);
      return last;
    },
    show(told) {
      const now = JSON.stringify(told);
      if (body.dataset.shown === now) return;
      body.dataset.shown = now;
      body.removeAttribute("aria-busy");
      const range = rangeOf(told.slots.flatMap((slot) => [slot.estimate, slot.score, ...ends(slot)]));
      fill(body, card("What happened", {}, el("p", { class: "lead" }, told.words), facts(told)),
        card("Why it was like this", { tools: legend(told) }, el("ol", { class: "slots" }, told.slots.map((slot) => place(slot, told, range)))),
        told.proposed ? card("What the policy would have shown", {}, el("ol", { class: "proposed" }, told.proposed.map((item) => el("li", {}, item)))) : null,
        told.events.length ? card("Events", {}, events(told)) : null,
        card("Look up another", {}, finder(name)));
    },
  };
}

function legend(told) {
  if (told.slots.every((slot) => slot.estimate === null)) return null;
  return el("ul", { class: "legend" }, el("li", {}, el("span", { class: "dot policy round" }), "estimate, 95 % interval"),
    el("li", {}, el("span", { class: "dot ring round" }), "score"));
}

function facts(told) {
  const rows = [["State", told.state], ["Shown by", told.group === "control" ? "the caller's own order" : told.policy],
    ["Time", moment(told.time)], ["Number", count(told.number)], ["Segment", told.segment || "none"],
    told.visitor ? ["Visitor", told.visitor] : null,
    told.candidates ? ["Chosen from", many(told.candidates.length, "item")] : null,
    told.context ? ["Context", told.context.map(number).join(", ")] : null,
    ["Version", told.version], ["Seed", String(told.seed)], ["From log position", String(told.position)],
    ["Configuration", String(told.config)],
    told.propensity ? ["Propensity", propensity(told.propensity)] : null];
  return el("dl", { class: "counts" }, rows.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function propensity({ kind, list, draws }) {
  return typeof list === "number" ? `${number(list)} in ${many(draws, "draw")}` : kind;
}

function place(slot, told, range) {
  const clicked = told.events.some((event) => event.outcome?.[slot.slot]);
  const { estimate, uncertainty, score } = slot;
  const [low, high] = ends(slot);
  return el("li", { class: clicked ? "clicked" : "" },
    el("span", { class: "rank", "aria-hidden": "true" }, String(slot.slot + 1)),
    el("div", { class: "why" },
      el("h3", {}, slot.item ?? "Empty", clicked ? el("span", { class: "badge live" }, "clicked") : null),
      el("p", {}, slot.words)),
    estimate === null ? null : el("div", { class: "drawn" }, whisker(estimate, low, high, range, score),
      el("p", { class: "small" }, slot.exploration_share === null ? `± ${number(uncertainty)}` : `exploring ${percent(slot.exploration_share, 0)}`)));
}

/** Where what is believed of a slot's item ends, with a probability of 95 %. */
function ends({ estimate, uncertainty }) {
  return estimate === null || uncertainty === null ? [null, null] : [estimate - 1.96 * uncertainty, estimate + 1.96 * uncertainty];
}

function events(told) {
  const row = (event) => el("tr", {}, el("td", {}, moment(event.time)), el("td", {}, `${duration(event.time - told.time)} later`),
    el("td", {}, event.kind), el("td", {}, outcome(event)), el("td", {}, event.event ?? "–"));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Events" }, el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ["Time", "After", "Kind", "Outcome", "Event"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, told.events.map(row))));
}

function outcome(event) {
  if (event.outcome === null) return "–";
  const places = event.outcome.map((value, i) => [value, i]).filter(([value]) => value !== 0);
  if (places.length === 0) return "nothing";
  return places.map(([value, at]) => (value === 1 ? `slot ${at}` : `slot ${at}: ${number(value)}`)).join(", ");
}
