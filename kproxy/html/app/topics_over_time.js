/* Topics over time: bytes produced and fetched, and lag, as kproxy.browse.pictures.topics_over_time counts them. */
import { endTime } from "./over_time.js";
import { API, KIND, NUMBER } from "./rows.js";

const DIRECTIONS = { Produce: "produced", Fetch: "fetched", ShareFetch: "fetched" }, MAX_TOPICS = 6, MAX_PARTITIONS = 8;
const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
/** The highest of a map from JSON keys to values in parts of the time. */
const seriesOf = (counts, measure, most, parts, otherwise) => {
  const names = [...counts.keys()].map((key) => JSON.parse(key)), valueOf = (name) => counts.get(JSON.stringify(name));
  const size = new Map(names.map((name) => [name, measure([...valueOf(name).values()])]));
  names.sort((a, b) => size.get(b) - size.get(a) || order(a[0], b[0]) || order(a[1], b[1]) || order(a[2], b[2]));
  const chosen = names.slice(0, most);
  return { names: chosen, values: chosen.map((name) => Array.from({ length: parts }, (_, part) => valueOf(name).get(part) ?? otherwise)), others: names.length - chosen.length };
};

/** Counts rows in equal parts of their time; `lines` are those of all rows. */
export const topicsOverTime = (rows, lines, parts) => {
  const frames = rows.filter((row) => !row[KIND]), ends = frames.map(endTime);
  const from = ends.reduce((a, b) => Math.min(a, b), ends[0] || 0), to = ends.reduce((a, b) => Math.max(a, b), ends[0] || 0);
  const width = Math.max(1, Math.ceil((to - from + 1) / parts)), sizes = { produced: new Map(), fetched: new Map() }, lags = new Map();
  const at = (counts, key) => counts.get(JSON.stringify(key)) || counts.set(JSON.stringify(key), new Map()).get(JSON.stringify(key));
  frames.forEach((row, number) => {
    const direction = DIRECTIONS[row[API]], part = Math.floor((ends[number] - from) / width);
    if (!direction) return;
    for (const { topic, topic_id: id = "", bytes, lag, partitions = [] } of lines[row[NUMBER]].topics || []) {
      const key = topic === undefined ? ["topic_id", id] : ["topic", topic];
      if (bytes) { const counts = at(sizes[direction], key); counts.set(part, (counts.get(part) || 0) + bytes); }
      if (lag !== undefined) { const counts = at(lags, [...key, partitions.length === 1 ? partitions[0] : -1]); counts.set(part, Math.max(counts.get(part) || 0, lag)); }
    }
  });
  const sum = (values) => values.reduce((a, b) => a + b, 0), highest = (values) => values.reduce((a, b) => Math.max(a, b), 0);
  return { from, width, parts, series: { produced: seriesOf(sizes.produced, sum, MAX_TOPICS, parts, 0), fetched: seriesOf(sizes.fetched, sum, MAX_TOPICS, parts, 0) }, lag: seriesOf(lags, highest, MAX_PARTITIONS, parts, null) };
};
