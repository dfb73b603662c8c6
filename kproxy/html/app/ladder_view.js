/* The ladder: who sent what to whom, in order; waits are bars, and faults have texts. */
import { anchor, button, el, pluralize, setAttributes, shape } from "./elements.js";
import { formatDuration, formatFullTime, formatTime } from "./formats.js";
import { buildLadder, isLongPoll } from "./ladder_events.js";
import { toHash } from "./router.js";
import { API, KIND, LATENCY, NUMBER, SERVER, STATE, TIME, UNANSWERED, VERSION, WAITING, WHAT, WRONG } from "./rows.js";

const MAX_ROWS = 120, MAX_SLOWEST = 100, SLOT = 26, PAUSE = 18, CHARACTER = 7.3, BAR = 7;
/** The usual distance of two lanes, and the smallest, with which more lanes may fit into the window. */
const GAP = 160, MIN_GAP = 84;
const faultText = (row) => row[WRONG].map(([text]) => text).join(", ");
/** Whether something is worth a look: routine errors, such as MEMBER_ID_REQUIRED, have no sign. */
const isNotable = (row) => row[WRONG].some(([, style]) => style !== "dim");
const isFault = (row) => row[STATE] === UNANSWERED || row[WRONG].some(([, style]) => style === "error");
const truncate = (text, width) => { const maxLength = Math.max(3, Math.floor(width / CHARACTER)); return text.length > maxLength ? `${text.slice(0, maxLength - 1)}…` : text; };

export class LadderView {
  constructor(app) {
    this.app = app;
    this.about = el("p", "about dim");
    this.heads = el("div", "heads");
    this.drawing = el("div", "drawing");
    this.scrolling = setAttributes(el("div", "scroll picture ladder", this.heads, this.drawing), { tabindex: 0, role: "region", "aria-label": "Ladder" });
    this.box = el("div", "overview", el("div", "tables", this.about, this.scrolling));
    addEventListener("resize", () => this.redraw());
    addEventListener("beforeprint", () => this.draw(700));
    addEventListener("afterprint", () => this.redraw());
  }
  async show(state, previous) {
    const { source } = this.app, queryKey = JSON.stringify([state.filter, state.only]), turn = this.turn = (this.turn || 0) + 1;
    if (queryKey !== this.queryKey) {
      const query = await source.query({ text: state.filter, only: state.only, sort: "time" });
      if (turn !== this.turn) return;
      [this.query, this.queryKey, this.longest, this.isLongestKnown] = [query, queryKey, [], false];
    }
    let start = Number(state.start);
    if (!(start >= 0)) start = state.row === undefined ? 0 : Math.max(0, await this.query.position(state.row) - 20);
    await this.load(start, turn);
    if (turn !== this.turn) return;
    this.app.showCount(this.query, this);
    if (!this.isLongestKnown) this.findLongest(state, turn);
    if (!previous || previous.filter !== state.filter || previous.start !== state.start) this.scrolling.scrollTop = 0;
    this.drawing.querySelector(".chosen")?.scrollIntoView({ block: "center" });
  }
  /** Finds the longest wait in all rows, not only in those shown: of all requests, and of those other than long polls. */
  async findLongest({ filter, only }, turn) {
    const query = await this.app.source.query({ text: filter, only, sort: "latency" }), rows = [];
    for (let position = 0; position < Math.min(MAX_SLOWEST, query.count); position++) rows.push(await query.rowAt(position));
    if (turn !== this.turn) return;
    this.isLongestKnown = !query.busy;
    const waits = rows.filter((row) => row && !row[KIND] && row[LATENCY] !== null);
    this.longest = [waits.find((row) => !isLongPoll(row[API])), waits[0]].filter((row, index, list) => row && list.indexOf(row) === index);
    this.describe();
  }
  async load(start, turn = this.turn) {
    const rows = [];
    for (let position = start; position < Math.min(start + MAX_ROWS, this.query.count); position++) rows.push(await this.query.rowAt(position));
    if (turn !== this.turn) return;
    [this.start, this.rows] = [start, rows.filter(Boolean)];
    this.redraw();
  }
  async changed() {
    if (!this.query || this.refreshing) return;
    this.refreshing = true;
    try {
      await this.query.refresh(this.start);
      this.app.showCount(this.query, this);
      if (!this.isLongestKnown) await this.findLongest(this.app.state, this.turn);
      if (this.rows.length < MAX_ROWS || this.rows.some((row) => row[STATE] === WAITING)) await this.load(this.start); else this.describe();
    } catch { /* the header says that the server is gone */ } finally { this.refreshing = false; }
  }
  redraw() { if (this.rows && this.box.isConnected) this.draw(this.scrolling.clientWidth); }
  describe() {
    const { filter } = this.app.state, { count } = this.query, end = this.start + this.rows.length, goTo = (start) => () => this.app.go({ start: start || undefined, row: undefined });
    const parts = [`Who sent what to whom. ${count ? `Rows ${(this.start + 1).toLocaleString("en")} to ${end.toLocaleString("en")} of ${count.toLocaleString("en")}.` : ""} `];
    if (this.start > 0) parts.push(button("page", "‹ earlier", goTo(Math.max(0, this.start - MAX_ROWS))), " ");
    if (end < count) parts.push(button("page", "later ›", goTo(this.start + MAX_ROWS)), " ");
    const longest = this.longest.flatMap((row, index) => [index ? "; " : this.isLongestKnown ? "Longest wait: " : "Longest wait so far: ", anchor("longest", toHash({ view: "ladder", filter, only: this.app.state.only, row: row[NUMBER] }), `${row[API]}, ${formatDuration(row[LATENCY])}${isLongPoll(row[API]) ? ", which may wait" : ""}`)]);
    if (longest.length) parts.push(...longest, ". ");
    if (!filter) parts.push("Of one ", ...["connections", "clients", "groups"].flatMap((view, index) => [index ? ", " : "", anchor("", toHash({ view }), view.slice(0, -1))]), ": choose it there, then “its ladder”.");
    parts.push(" A dashed bar is a wait by design, such as that of a Fetch for records.");
    this.about.replaceChildren(...parts);
  }
  draw(availableWidth) {
    this.describe();
    if (!this.rows.length) {
      this.heads.replaceChildren();
      this.drawing.replaceChildren(el("p", "none", ...this.app.emptyMessage(this.query)));
      return;
    }
    const { clients, servers, endpoints: endpointsOf, events } = buildLadder(this.rows, this.app.source.state.last), lanes = clients.length + servers.length;
    const isNarrow = availableWidth < 620, gutter = isNarrow ? 62 : 108, side = isNarrow ? 26 : 90;
    const widthWith = (laneGap) => gutter + 2 * side + (lanes - 1) * laneGap, minGap = isNarrow ? 150 : widthWith(GAP) > availableWidth && widthWith(MIN_GAP) <= availableWidth ? MIN_GAP : GAP;
    const width = Math.max(availableWidth - 4, widthWith(minGap)), gap = (width - gutter - 2 * side) / Math.max(1, lanes - 1);
    // Brokers are to the right of clients. If not all lanes fit, they come first, beside the clients of the first rows.
    const brokersFirst = width > availableWidth;
    if (brokersFirst) clients.splice(0, clients.length, ...new Set(events.map(({ row }) => endpointsOf(row)[0])));
    const lane = (index) => gutter + side + index * gap, clientX = (name) => lane(clients.indexOf(name) + (brokersFirst ? servers.length : 0));
    const serverX = (name) => lane(servers.indexOf(name) + (brokersFirst ? 0 : clients.length));
    const laneEnds = (row) => { const [client, server] = endpointsOf(row); return [clientX(client), serverX(server)]; };
    let y = 14;
    const pauses = [];
    for (const event of events) {
      if (event.pause) { pauses.push([y - 4, event.pause]); y += PAUSE; }
      event.y = y;
      y += SLOT;
    }
    const height = y + 6, first = events[0].time, spans = this.bars(events);
    const clock = (us) => isNarrow ? `+${((us - first) / 1e6).toFixed(3)}` : formatTime(us, first);
    const heads = [...clients.map((name) => [name, clientX(name), "client"]), ...servers.map((name) => [name, serverX(name), "broker"])].sort(([, left], [, right]) => left - right);
    this.heads.replaceChildren(this.laneHeads(width, heads, gap, side));
    this.drawing.replaceChildren(shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Ladder of ${pluralize(this.rows.length, "row")}` },
      shape("g", { class: "lanes" }, heads.map(([, x]) => shape("line", { x1: x, x2: x, y1: 0, y2: height }))),
      events.filter(({ row }) => row[NUMBER] === this.app.state.row).map((event) => shape("rect", { class: "band", x: 0, y: event.y - SLOT / 2, width, height: SLOT })),
      pauses.map(([top, pause]) => shape("g", { class: "pause" }, shape("line", { x1: gutter, x2: width, y1: top + 5, y2: top + 5 }), shape("text", { x: 4, y: top + 9 }, `⋮ ${formatDuration(pause)}`))),
      spans.map((span) => this.bar(span, laneEnds(span.row)[1], brokersFirst ? -1 : 1)),
      events.map((event) => this.mark(event, laneEnds(event.row), clock(event.time), width))));
  }
  laneHeads(width, lanes, gap, side) {
    return shape("svg", { width, height: 36, "aria-hidden": "true" }, lanes.flatMap(([name, x, role], index) => {
      const textAnchor = index === 0 && side < 60 ? "start" : index === lanes.length - 1 && side < 60 ? "end" : "middle", shift = { start: -side, end: side, middle: 0 }[textAnchor];
      return [shape("text", { x: x + shift, y: 14, "text-anchor": textAnchor, class: "lane-name" }, truncate(name || "?", (lanes.length > 2 ? 1 : 0.6) * gap - 14), shape("title", {}, name)),
        shape("text", { x: x + shift, y: 29, "text-anchor": textAnchor, class: "lane-role" }, role)];
    }));
  }
  /** Returns bars for the time that requests waited at the broker; those that overlap are side by side. */
  bars(events) {
    const spans = new Map(), usedDepths = new Map();
    for (const { row, kind, y } of events) {
      if (kind === "request") {
        const depths = usedDepths.get(row[SERVER]) || usedDepths.set(row[SERVER], new Set()).get(row[SERVER]);
        let depth = 0;
        while (depths.has(depth)) depth += 1;
        depths.add(depth);
        spans.set(row[NUMBER], { row, from: y, to: null, depth, kind });
      } else if (spans.has(row[NUMBER])) {
        const span = spans.get(row[NUMBER]);
        [span.to, span.kind] = [y, kind];
        usedDepths.get(row[SERVER]).delete(span.depth);
      }
    }
    return [...spans.values()].filter(({ to }) => to !== null);
  }
  /** @param direction 1 if bars are to the right of their broker's lane, -1 if they are to the left */
  bar({ row, from, to, depth, kind }, x, direction) {
    const name = kind === "lost" ? "lost" : kind === "open" ? "open" : isFault(row) ? "fault" : isLongPoll(row[API]) ? "poll" : "busy";
    return this.link(row, "bar-link", shape("rect", { class: `bar ${name}`, x: x + direction * depth * (BAR + 2) - (direction < 0 ? BAR : 0), y: from, width: BAR, height: Math.max(2, to - from) }, shape("title", {}, this.sentence(row))));
  }
  sentence(row) {
    const wait = row[STATE] === WAITING ? `waits for ${formatDuration(row[LATENCY])}` : row[STATE] === UNANSWERED ? "no response" : row[LATENCY] === null ? "" : `${formatDuration(row[LATENCY])}${isLongPoll(row[API]) ? " (may wait)" : ""}`;
    return [`${row[API] || row[KIND]} ${row[VERSION]}`.trim(), row[WHAT], wait, faultText(row), formatFullTime(row[TIME])].filter(Boolean).join(", ");
  }
  link(row, className, ...children) {
    const { filter, only } = this.app.state;
    return shape("a", { href: toHash({ view: "frames", filter, only, row: row[NUMBER] }), class: className, tabindex: -1 }, ...children);
  }
  mark({ row, kind, y }, [clientX, serverX], clock, width) {
    const chosen = row[NUMBER] === this.app.state.row ? " chosen" : "", stamp = shape("text", { class: "stamp", x: 4, y: y + 4 }, clock);
    const left = Math.min(clientX, serverX), right = Math.max(clientX, serverX);
    if (kind === "event") {
      const style = row[WRONG].length || ["finding", "stall"].includes(row[KIND]) ? ` is-${row[WRONG][0]?.[1] || "warning"}` : "", text = `${row[KIND]}: ${row[WHAT]} ${faultText(row)}`.trim();
      return setAttributes(this.link(row, `message note${style}${chosen}`, stamp, shape("line", { x1: left, x2: right, y1: y + 5, y2: y + 5 }),
        shape("text", { x: left + 8, y: y + 1 }, truncate(text, right - left - 12), shape("title", {}, text))), { tabindex: 0, "aria-description": formatFullTime(row[TIME]) });
    }
    const isRequest = kind === "request", fault = kind === "response" || kind === "lost" ? faultText(row) : "", from = isRequest ? clientX : serverX, to = isRequest ? serverX : clientX, inner = right - left;
    if (kind === "lost" || kind === "open") {
      const text = kind === "lost" ? `✕ ${row[API]}: no answer` : `… ${row[API]} waits for ${formatDuration(row[LATENCY])}`;
      return this.link(row, `message ${kind}${chosen}`, shape("text", { x: right - 8, y: y + 4, "text-anchor": "end" }, truncate(text, inner - 10), shape("title", {}, this.sentence(row))));
    }
    const isError = isFault(row) && !isRequest, text = isRequest ? `${row[API] || "?"} ${row[VERSION]} ${row[WHAT]}`.trim() : `${isError ? "✕ " : isNotable(row) ? "! " : ""}${row[API] || "?"} ${formatDuration(row[LATENCY])}${fault ? ` ${fault}` : ""}`;
    const startsLeft = from < to, label = shape("text", { x: startsLeft ? left + 8 : right - 8, y: y + 1, "text-anchor": startsLeft ? "start" : "end" }, truncate(text, inner - 16), shape("title", {}, this.sentence(row)));
    const arrow = to - from > 0 ? -7 : 7;
    const element = this.link(row, `message ${kind}${isError ? " is-error" : fault && isNotable(row) ? " is-warning" : ""}${chosen}`, stamp,
      shape("line", { x1: from, x2: to, y1: y + 5, y2: y + 5 }), shape("path", { class: "head", d: `M${to} ${y + 5}l${arrow} -4v8z` }), label);
    return isRequest ? setAttributes(element, { tabindex: 0, "aria-description": this.sentence(row) }) : setAttributes(element, { "aria-hidden": "true" });
  }
  downloads() { return this.app.view("frames").downloads(this.query); }
  key(event) {
    const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.closest("button")) return false;
    const marks = [...this.drawing.querySelectorAll("a[tabindex='0']")], index = marks.indexOf(document.activeElement), next = marks[Math.max(0, Math.min(index + step, marks.length - 1))];
    if (!next) return false;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    return true;
  }
}
