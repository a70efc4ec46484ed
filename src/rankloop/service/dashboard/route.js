// The fragment of the address (after #) selects the view.
export const SPAN_HOURS = { "1h": 1, "24h": 24, "7d": 168, all: 2160 };

/** The view that a fragment selects: all rankers, one ranker, or one decision. */
export function parseRoute(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split("?");
  const steps = path.split("/").filter(Boolean).map(decode);
  const wanted = new URLSearchParams(query).get("span");
  const span = Object.hasOwn(SPAN_HOURS, wanted ?? "") ? wanted : "1h";
  if (steps.length === 0) return { view: "rankers" };
  if (steps[0] === "ranker" && steps.length === 2) return { view: "ranker", name: steps[1], span };
  if (steps[0] === "ranker" && steps[2] === "decision" && steps.length === 4) {
    return { view: "decision", name: steps[1], decision: steps[3] };
  }
  return { view: "unknown" };
}

function decode(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // a literal % that encodes nothing
  }
}

/** The fragment of a ranker. */
export const toRanker = (name, span = "1h") => `#/ranker/${encodeURIComponent(name)}${span === "1h" ? "" : `?span=${span}`}`;

/** The fragment of a decision. */
export const toDecision = (name, id) => `#/ranker/${encodeURIComponent(name)}/decision/${encodeURIComponent(id)}`;
