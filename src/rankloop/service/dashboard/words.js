// What the numbers of an overview say, in words that more than one view needs.
import { el } from "./dom.js";
import { chance, count, NONE, percent, points, signed } from "./format.js";

/** How a ranker is rolled out: one word, and a sentence. */
export function rollout(mode, traffic, guarded) {
  if (guarded) return { word: "Fallen back", kind: "warn", sentence: "The guard fell back: everybody sees the caller's own order." };
  if (mode === "shadow") return { word: "Shadow", kind: "calm", sentence: "It only watches: everybody sees the caller's own order." };
  if (traffic < 1) return { word: `Live for ${percent(traffic, traffic * 100 % 1 ? 1 : 0)}`, kind: "live", sentence: `${percent(traffic, 0)} of the visitors see its lists, the others the caller's own order.` };
  return { word: "Live", kind: "live", sentence: "Everybody sees its lists." };
}

/** Why a ranker stands still while all others go on. */
export function quarantined({ position, reason }) {
  return `Quarantined at position ${count(position)}: ${sentence(reason)} All other rankers serve.`;
}

/** A small label of a state. */
export function badge({ word, kind, sentence }) {
  return el("span", { class: `badge ${kind}`, title: sentence }, word);
}

/** The lift over control: the number that matters, and how sure it is. */
export function lifted(lift) {
  if (lift === null) return { value: NONE, sure: "Nothing to compare with", better: "", kind: "" };
  const value = lift.share === null ? `${points(lift.difference)} points` : `${signed(100 * lift.share, 1)}\u202f%`;
  const kind = lift.low > 0 ? "good" : lift.high < 0 ? "bad" : "";
  return {
    value,
    kind,
    sure: `${points(lift.difference)} points (${points(lift.low)} to ${points(lift.high)})`,
    better: `better than control: ${chance(lift.better)}`,
  };
}

/** 40.1–42.3 %: an interval of shares. */
export function between(low, high) {
  return low === null ? NONE : `${(100 * low).toFixed(1)}–${percent(high)}`;
}

/** Both groups, or the one that there is: lists and what became of them. */
export function armWords(groups) {
  const told = (name, group) => `${name} ${percent(group.click_through)} (${between(group.low, group.high)}) of ${count(group.settled)} lists`;
  const found = Object.entries(groups).filter(([, group]) => group.settled > 0).map(([name, group]) => told(name, group));
  return found.length === 0 ? "No outcome yet." : `Click-through: ${found.join("; ")}.`;
}

/** A text as a sentence. */
export const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
