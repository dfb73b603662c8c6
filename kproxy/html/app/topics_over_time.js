/* Topics over time: bytes produced and fetched, and lag, as kproxy.browse.pictures.topics_over_time counts them. */
import { MIN_WIDTH, endTime } from "./over_time.js";
import { API, KIND, NUMBER } from "./rows.js";

const DIRECTIONS = { Produce: "produced", Fetch: "fetched", ShareFetch: "fetched" }, MAX_TOPICS = 6, MAX_PARTITIONS = 8;
const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
/** Returns the series with the highest totals; `counts` maps names as JSON to values by part. */
const seriesOf = (counts, measure, maxNames, parts, missingValue) => {
  const names = [...counts.keys()].map((key) => JSON.parse(key)), countsOf = (name) => counts.get(JSON.stringify(name));
  const totals = new Map(names.map((name) => [name, measure([...countsOf(name).values()])]));
  names.sort((a, b) => totals.get(b) - totals.get(a) || compare(a[0], b[0]) || compare(a[1], b[1]) || compare(a[2], b[2]));
  const chosen = names.slice(0, maxNames);
  return { names: chosen, values: chosen.map((name) => Array.from({ length: parts }, (_, part) => countsOf(name).get(part) ?? missingValue)), others: names.length - chosen.length };
};

/** Counts rows in equal parts of time; `lines` are the lines of all rows. */
export const topicsOverTime = (rows, lines, parts) => {
  const frames = rows.filter((row) => !row[KIND]), ends = frames.map(endTime);
  const from = ends.reduce((a, b) => Math.min(a, b), ends[0] || 0), to = ends.reduce((a, b) => Math.max(a, b), ends[0] || 0);
  const width = Math.max(MIN_WIDTH, Math.ceil((to - from + 1) / parts)), sizes = { produced: new Map(), fetched: new Map() }, lags = new Map();
  const countsAt = (counts, key) => counts.get(JSON.stringify(key)) || counts.set(JSON.stringify(key), new Map()).get(JSON.stringify(key));
  frames.forEach((row, index) => {
    const direction = DIRECTIONS[row[API]], part = Math.floor((ends[index] - from) / width);
    if (!direction) return;
    for (const { topic, topic_id: id = "", bytes, lag, partitions = [] } of lines[row[NUMBER]].topics || []) {
      const key = topic === undefined ? ["topic_id", id] : ["topic", topic];
      if (bytes) { const counts = countsAt(sizes[direction], key); counts.set(part, (counts.get(part) || 0) + bytes); }
      if (lag !== undefined) { const counts = countsAt(lags, [...key, partitions.length === 1 ? partitions[0] : -1]); counts.set(part, Math.max(counts.get(part) || 0, lag)); }
    }
  });
  const sum = (values) => values.reduce((a, b) => a + b, 0), highest = (values) => values.reduce((a, b) => Math.max(a, b), 0);
  return { from, width, parts, series: { produced: seriesOf(sizes.produced, sum, MAX_TOPICS, parts, 0), fetched: seriesOf(sizes.fetched, sum, MAX_TOPICS, parts, 0) }, lag: seriesOf(lags, highest, MAX_PARTITIONS, parts, null) };
};
