/* Latency, errors and throughput over time, as kproxy.browse.pictures.over_time counts them. */
import { isLongPoll } from "./ladder_events.js";
import { API, CLIENT, ERROR, KIND, LATENCY, SERVER, SIZE, STATE, TIME, UNANSWERED, WAITING } from "./rows.js";

const LEVELS = 76, MAX_NAMES = 6;
/** Minimum length of a part in us: rates over less say nothing. */
export const MIN_WIDTH = 1000;
/** The lowest latency of each level, in us; it doubles with every second level. */
const BOUNDS = Array.from({ length: LEVELS }, (_, level) => Math.ceil(2 ** (level / 2)));
const latencyLevel = (us) => { let level = us < 1 ? 0 : Math.floor(2 * Math.log2(us)); while (BOUNDS[level + 1] <= us) level += 1; while (level && BOUNDS[level] > us) level -= 1; return Math.min(level, LEVELS - 1); };
const rankByCount = (counts) => [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : a > b ? 1 : 0));
const increment = (counts, name, count) => counts.set(name, (counts.get(name) || 0) + count);
const isAnswered = (row) => row[LATENCY] !== null && row[STATE] !== WAITING;
/** Returns when an exchange was complete, in us; filters compare this time. */
export const endTime = (row) => row[TIME] + (isAnswered(row) ? row[LATENCY] : 0);

/** Counts rows in equal parts of time; latencies are those of one API, or of all. */
export const overTime = (rows, api, parts) => {
  const frames = rows.filter((row) => !row[KIND]), apis = new Map(), bytes = { client: new Map(), broker: new Map() };
  let from = Infinity, to = -Infinity;
  for (const row of frames) {
    const end = endTime(row);
    from = Math.min(from, end);
    to = Math.max(to, end);
    increment(apis, row[API], 1);
    increment(bytes.client, row[CLIENT], row[SIZE]);
    increment(bytes.broker, row[SERVER], row[SIZE]);
  }
  if (!frames.length) [from, to] = [0, 0];
  const width = Math.max(MIN_WIDTH, Math.ceil((to - from + 1) / parts)), zeros = () => Array(parts).fill(0), series = {};
  for (const role of ["client", "broker"]) series[role] = { names: rankByCount(bytes[role]).slice(0, MAX_NAMES).map(([name]) => name), others: Math.max(0, bytes[role].size - MAX_NAMES), values: [] };
  for (const { names, values } of Object.values(series)) values.push(...names.map(zeros));
  const errors = zeros(), unanswered = zeros(), latencies = Array.from({ length: parts }, () => []), heat = new Map();
  for (const row of frames) {
    const part = Math.floor((endTime(row) - from) / width);
    if (row[ERROR]) errors[part] += 1;
    if (row[STATE] === UNANSWERED || row[STATE] === WAITING) unanswered[part] += 1;
    for (const [role, column] of [["client", CLIENT], ["broker", SERVER]]) {
      const index = series[role].names.indexOf(row[column]);
      if (index >= 0) series[role].values[index][part] += row[SIZE];
    }
    if (isAnswered(row) && (!api || row[API] === api)) {
      latencies[part].push(row[LATENCY]);
      increment(heat, part * LEVELS + latencyLevel(row[LATENCY]), 1);
    }
  }
  const answered = frames.filter((row) => isAnswered(row) && (!api || row[API] === api)).map((row) => [endTime(row), row[LATENCY], row[API]]);
  const highestOf = (rows) => rows.reduce((a, b) => !a || b[1] > a[1] || (b[1] === a[1] && (b[0] < a[0] || (b[0] === a[0] && b[2] < a[2]))) ? b : a, null);
  const highest = [false, true].map((mayWait) => highestOf(answered.filter(([, , name]) => isLongPoll(name) === mayWait)));
  const percentile = (sorted, fraction) => sorted[Math.ceil(fraction * sorted.length) - 1];
  const percentiles = latencies.map((values) => { values.sort((a, b) => a - b); return values.length ? [percentile(values, 0.5), percentile(values, 0.99), values.at(-1)] : null; });
  return { from, width, parts, apis: rankByCount(apis), bounds: BOUNDS, heat: [...heat].sort(([a], [b]) => a - b).map(([key, count]) => [Math.floor(key / LEVELS), key % LEVELS, count]), percentiles, highest, errors, unanswered, series };
};
