// Time buckets of an overview as chart series.

const middle = (bucket) => bucket.start + bucket.seconds / 2;

/** Values per list of both groups with intervals; control first, so that treatment is drawn on top. */
export function valueSeries(times) {
  const pointsOf = (group) => times.map((bucket) => ({
    x: middle(bucket),
    seconds: bucket.seconds,
    y: bucket[group].value_per_list,
    low: bucket[group].value_low,
    high: bucket[group].value_high,
    weight: bucket[group].settled,
  }));
  const series = [
    { name: "Control", kind: "control", points: pointsOf("control") },
    { name: "Treatment", kind: "treatment", points: pointsOf("treatment") },
  ];
  return series.filter((one) => one.points.some((point) => point.y !== null));
}

/** The exploration share of the treatment group. */
export function explorationSeries(times) {
  const points = times.map((bucket) => ({ x: middle(bucket), seconds: bucket.seconds, y: bucket.treatment.exploration_share }));
  return [{ name: "Exploration share", kind: "treatment", points }];
}

/** Cumulative regret; it starts with the part of the total from before these buckets. */
export function regretSeries(times, total) {
  let sum = total - times.reduce((all, bucket) => all + (bucket.treatment.regret ?? 0), 0);
  const points = times.map((bucket) => {
    sum += bucket.treatment.regret ?? 0;
    return { x: middle(bucket), seconds: bucket.seconds, y: Math.max(0, sum) };
  });
  return [{ name: "Regret", kind: "treatment", points }];
}
