/* The content of a ladder: clients, brokers, and events in order. */
import { CLIENT, CONNECTION, KIND, LATENCY, NUMBER, ONE_WAY, SERVER, STATE, TIME, UNANSWERED, WAITING, shortName } from "./rows.js";

/** APIs whose response may wait for records, members or a leader: a long wait is not a fault. */
const LONG_POLLS = ["Fetch", "ShareFetch", "JoinGroup", "SyncGroup"];
/** A pause of this many us, and this many times the usual step, is shown. */
const MIN_PAUSE = 100_000, PAUSE_FACTOR = 8;

export const isLongPoll = (api) => LONG_POLLS.includes(api);

/**
 * Returns `{clients, servers, endpoints, events}`; `endpoints` returns the names of client and broker of a row. An event is `{time, row, kind, pause}`: request, response, event, lost, open. A row without
 * a response has another event at the end. `pause` is the time since the event before in us, 0 if it is short.
 */
export const buildLadder = (rows, now) => {
  const clientNames = new Map(), brokerNames = new Map(), clients = [], servers = [], events = [], addUnique = (list, name) => { if (!list.includes(name)) list.push(name); };
  for (const row of rows) {
    if (row[CLIENT]) clientNames.set(row[CONNECTION], row[CLIENT]);
    if (row[SERVER]) brokerNames.set(row[CONNECTION], row[SERVER]);
  }
  const endpointsOf = (row) => [row[CLIENT] || clientNames.get(row[CONNECTION]) || shortName(row[CONNECTION]), row[SERVER] || brokerNames.get(row[CONNECTION]) || "?"];
  for (const row of rows) {
    const [client, server] = endpointsOf(row);
    addUnique(clients, client);
    addUnique(servers, server);
    if (row[KIND]) { events.push({ time: row[TIME], row, kind: "event" }); continue; }
    events.push({ time: row[TIME], row, kind: "request" });
    if (row[STATE] === WAITING || row[STATE] === UNANSWERED) events.push({ time: Math.max(now, row[TIME]), row, kind: row[STATE] === WAITING ? "open" : "lost" });
    else if (row[STATE] !== ONE_WAY && row[LATENCY] !== null) events.push({ time: row[TIME] + row[LATENCY], row, kind: "response" });
  }
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  clients.sort(compare);
  servers.sort(compare);  /* the same order on each page */
  const isLast = ({ kind }) => kind === "open" || kind === "lost";
  events.sort((a, b) => isLast(a) - isLast(b) || a.time - b.time || a.row[NUMBER] - b.row[NUMBER]);
  const steps = events.slice(1).map(({ time }, index) => time - events[index].time).sort((a, b) => a - b), usualStep = steps[steps.length >> 1] || 0;
  events.forEach((event, index) => {
    const step = index && !isLast(event) ? event.time - events[index - 1].time : 0;
    event.pause = step >= Math.max(MIN_PAUSE, PAUSE_FACTOR * usualStep) ? step : 0;
  });
  return { clients, servers, endpoints: endpointsOf, events };
};
