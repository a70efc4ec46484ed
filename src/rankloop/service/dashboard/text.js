// Texts about a ranker that several views share.
import { el } from "./dom.js";
import { count, NONE, percent, probability, signed } from "./format.js";

/** The rollout state of a ranker: a badge label, its style, and a sentence for the tooltip. */
export function rollout(mode, traffic, tripped) {
  if (tripped) return { label: "Guardrail tripped", kind: "warn", sentence: "The guardrail tripped: all visitors see the control ranking." };
  if (mode === "shadow") return { label: "Shadow", kind: "calm", sentence: "Shadow mode: all visitors see the control ranking; the policy only learns." };
  if (traffic < 1) {
    const share = percent(traffic, traffic * 100 % 1 ? 1 : 0);
    return { label: `Live, ${share} of traffic`, kind: "live", sentence: `A/B test: ${share} of visitors are in the treatment group, the others in control.` };
  }
  return { label: "Live", kind: "live", sentence: "All visitors are in the treatment group." };
}

/** Where and why a ranker was quarantined. */
export function quarantineText({ position, reason }) {
  return `Quarantined at log position ${count(position)}: ${sentence(reason)} Other rankers are not affected.`;
}

/** A small label for a state. */
export function badge({ label, kind, sentence }) {
  return el("span", { class: `badge ${kind}`, title: sentence }, label);
}

/** The lift over control: relative value, absolute difference with its interval, probability of improvement. */
export function liftText(lift, written) {
  if (lift === null) return { value: NONE, interval: "No control outcomes", better: "", kind: "" };
  const value = lift.share === null ? written.change(lift.difference) : `${signed(100 * lift.share, 1)}\u202f%`;
  const kind = lift.low > 0 ? "good" : lift.high < 0 ? "bad" : "";
  return {
    value,
    kind,
    interval: `${written.change(lift.difference)} (${written.changes(lift.low, lift.high)})`,
    better: `P(better): ${probability(lift.better)}`,
  };
}

/** The values per list of the groups that have outcomes, for screen readers. */
export function groupsText(groups, written) {
  const describe = (name, group) => `${name} ${written.level(group.value_per_list)} (${written.range(group.value_low, group.value_high)}) of ${count(group.settled)} decisions`;
  const known = Object.entries(groups).filter(([, group]) => group.settled > 0).map(([name, group]) => describe(name, group));
  return known.length === 0 ? "No feedback yet." : `${written.name}: ${known.join("; ")}.`;
}

/** A text with a capital letter and a full stop. */
export const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
