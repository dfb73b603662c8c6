/* What a ladder shows of some rows: who takes part, and what happened in which order. */
import { CLIENT, CONNECTION, KIND, LATENCY, NUMBER, ONE_WAY, SERVER, STATE, TIME, UNANSWERED, WAITING, shortName } from "./rows.js";

/** APIs whose response may wait for records, members or a leader: a long wait is no fault. */
const LONG_POLLS = ["Fetch", "ShareFetch", "JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "ShareGroupHeartbeat"];
/** A pause of this many us, and this many times the usual step, is shown. */
const MIN_PAUSE = 100_000, USUAL = 8;

export const isLongPoll = (api) => LONG_POLLS.includes(api);

/**
 * Returns `{clients, servers, ends, events}`; `ends` returns the names of client and broker of a row. An event is `{at, row, kind}`: request, response, event, lost, open. A row without a response has one more
 * event at the end, where nothing came. Events have the pause before them in us, 0 if it is short.
 */
export const buildLadder = (rows, now) => {
  const names = new Map(), brokers = new Map(), clients = [], servers = [], events = [], add = (list, name) => { if (!list.includes(name)) list.push(name); };
  for (const row of rows) {
    if (row[CLIENT]) names.set(row[CONNECTION], row[CLIENT]);
    if (row[SERVER]) brokers.set(row[CONNECTION], row[SERVER]);
  }
  const ends = (row) => [row[CLIENT] || names.get(row[CONNECTION]) || shortName(row[CONNECTION]), row[SERVER] || brokers.get(row[CONNECTION]) || "?"];
  for (const row of rows) {
    const [client, server] = ends(row);
    add(clients, client);
    add(servers, server);
    if (row[KIND]) { events.push({ at: row[TIME], row, kind: "event" }); continue; }
    events.push({ at: row[TIME], row, kind: "request" });
    if (row[STATE] === WAITING || row[STATE] === UNANSWERED) events.push({ at: Math.max(now, row[TIME]), row, kind: row[STATE] === WAITING ? "open" : "lost" });
    else if (row[STATE] !== ONE_WAY && row[LATENCY] !== null) events.push({ at: row[TIME] + row[LATENCY], row, kind: "response" });
  }
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  clients.sort(compare);
  servers.sort(compare);  /* the same order on each page */
  const isLast = ({ kind }) => kind === "open" || kind === "lost";
  events.sort((a, b) => isLast(a) - isLast(b) || a.at - b.at || a.row[NUMBER] - b.row[NUMBER]);
  const steps = events.slice(1).map(({ at }, number) => at - events[number].at).sort((a, b) => a - b), usual = steps[steps.length >> 1] || 0;
  events.forEach((event, number) => {
    const step = number && !isLast(event) ? event.at - events[number - 1].at : 0;
    event.pause = step >= Math.max(MIN_PAUSE, USUAL * usual) ? step : 0;
  });
  return { clients, servers, ends, events };
};
