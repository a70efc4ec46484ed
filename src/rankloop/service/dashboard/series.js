// Spans of time as lines.

const middle = (bucket) => bucket.start + bucket.seconds / 2;

/** Click-through of both groups, with its interval; control first, so that the policy is drawn over it. */
export function clickThrough(times) {
  const of = (group) => times.map((bucket) => ({
    x: middle(bucket),
    seconds: bucket.seconds,
    y: bucket[group].click_through,
    low: bucket[group].low,
    high: bucket[group].high,
    weight: bucket[group].settled,
  }));
  const lines = [
    { name: "Control", kind: "control", points: of("control") },
    { name: "Policy", kind: "policy", points: of("treatment") },
  ];
  return lines.filter((line) => line.points.some((point) => point.y !== null));
}

/** How much of the policy's scores is exploring. */
export function exploring(times) {
  const points = times.map((bucket) => ({ x: middle(bucket), seconds: bucket.seconds, y: bucket.treatment.exploration_share }));
  return [{ name: "Exploring", kind: "policy", points }];
}

/** Regret so far; before these spans there was what they do not explain of the total. */
export function regret(times, total) {
  let sum = total - times.reduce((all, bucket) => all + (bucket.treatment.regret ?? 0), 0);
  const points = times.map((bucket) => {
    sum += bucket.treatment.regret ?? 0;
    return { x: middle(bucket), seconds: bucket.seconds, y: Math.max(0, sum) };
  });
  return [{ name: "Regret", kind: "policy", points }];
}
