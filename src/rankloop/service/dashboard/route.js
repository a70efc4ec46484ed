// The part of the address behind #, which says what is shown.
export const SPANS = { "1h": 1, "24h": 24, "7d": 168, all: 2160 };

/** What an address asks for: all rankers, one of them, or one of its decisions. */
export function read(hash) {
  const [path, query] = hash.replace(/^#?\/?/, "").split("?");
  const steps = path.split("/").filter(Boolean).map(plain);
  const asked = new URLSearchParams(query).get("span");
  const span = Object.hasOwn(SPANS, asked ?? "") ? asked : "1h";
  if (steps.length === 0) return { view: "rankers" };
  if (steps[0] === "ranker" && steps.length === 2) return { view: "ranker", name: steps[1], span };
  if (steps[0] === "ranker" && steps[2] === "decision" && steps.length === 4) {
    return { view: "decision", name: steps[1], decision: steps[3] };
  }
  return { view: "nowhere" };
}

function plain(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // a lonely %: somebody typed it
  }
}

/** The address of a ranker. */
export const toRanker = (name, span = "1h") => `#/ranker/${encodeURIComponent(name)}${span === "1h" ? "" : `?span=${span}`}`;

/** The address of a decision. */
export const toDecision = (name, id) => `#/ranker/${encodeURIComponent(name)}/decision/${encodeURIComponent(id)}`;
