/* The source of a live session or a trace behind `kproxy web`, which pages, filters and sorts. */
import { parseQuery } from "./query.js";

const EACH = 200, MAX_CHUNKS = 60;
const address = (path, given = {}) => {
  const query = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== undefined && value !== "" && value !== false));
  return `/api/${path}${[...query].length ? `?${query}` : ""}`;
};
const get = async (path, given) => {
  const response = await fetch(address(path, given));
  if (!response.ok) throw new Error((await response.text()).trim() || `the server returns ${response.status}`);
  return response.json();
};

export class ServerSource {
  constructor() { this.isLive = true; }
  async open() {
    [this.info, this.state] = await Promise.all([get("info"), get("state")]);
  }
  /** Calls `changed` when rows or results grew, and `lost` when the server is gone or is there again. */
  onChange(changed, lost) {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/events`);
    socket.addEventListener("message", ({ data }) => {
      this.state = JSON.parse(data);
      lost(false);
      changed();
    });
    socket.addEventListener("close", () => {
      lost(true);
      setTimeout(() => this.onChange(changed, lost), 2000);
    });
  }
  async query({ text, only, sort }) {
    parseQuery(text || "");  /* an error is shown without a request */
    const made = new ServerQuery({ filter: text, only: only ? 1 : "", sort });
    await made.refresh(0);
    return made;
  }
  async exchange(number) { return get(`exchanges/${number}`); }
  async causes(text) { return get("causes", { filter: text }); }
  async table(name, text) { return get(`tables/${name}`, { filter: text }); }
  async records(query, from, most) { return get("records", { ...query.given, from, most }); }
  async timeline(name, text) { return get(`timelines/${name}`, { filter: text }); }
  async overTime({ text, only, api, parts }) { return get("over-time", { filter: text, only: only ? 1 : "", api, parts }); }
  async topicsOverTime({ text, only, parts }) { return get("topics-over-time", { filter: text, only: only ? 1 : "", parts }); }
  /** A capture of the rows of a query, or of one exchange. */
  async capture(query, number) {
    const response = await fetch(address("rows.pcapng", number === undefined ? query.given : { row: number }));
    if (!response.ok) throw new Error((await response.text()).trim());
    return response.blob();
  }
  download(format, query) { return address(`rows.${format}`, query.given); }
}

class ServerQuery {
  constructor(given) { Object.assign(this, { given, count: 0, total: 0, busy: true, chunks: new Map(), asked: new Map(), loaded: () => {}, turn: 0 }); }
  /** Fetches the rows around a position anew; others are fetched when they are shown. */
  async refresh(position = 0) {
    const chunk = Math.floor(position / EACH), turn = ++this.turn;
    const found = await Promise.all([...new Set([chunk, Math.floor((position + 80) / EACH)])].map((each) => this.fetch(each)));
    if (turn !== this.turn) return;
    this.chunks = new Map(found);
  }
  async fetch(chunk) {
    const { rows, count, total, busy } = await get("rows", { ...this.given, offset: chunk * EACH, limit: EACH });
    Object.assign(this, { count, total, busy });
    return [chunk, rows];
  }
  /** A row, or null while it is fetched; then `loaded` is called. The rows that scrolling reaches next are fetched, too. */
  row(position) {
    const chunk = Math.floor(position / EACH), rows = this.chunks.get(chunk), next = position % EACH < EACH / 2 ? chunk - 1 : chunk + 1;
    if (next >= 0 && next * EACH < this.count && !this.chunks.has(next)) this.load(next);
    if (rows) return rows[position % EACH] || null;
    this.load(chunk);
    return null;
  }
  async rowAt(position) {
    const chunk = Math.floor(position / EACH);
    if (!this.chunks.has(chunk)) await this.load(chunk);
    return this.chunks.get(chunk)?.[position % EACH] || null;
  }
  load(chunk) {
    if (!this.asked.has(chunk)) {
      this.asked.set(chunk, this.fetch(chunk).then((found) => {
        if (this.chunks.size > MAX_CHUNKS) this.chunks.delete(this.chunks.keys().next().value);
        this.chunks.set(...found);
        this.loaded();
      }, () => { /* the header says that the server is gone */ }).finally(() => this.asked.delete(chunk)));
    }
    return this.asked.get(chunk);
  }
  async position(number) { return (await get("position", { ...this.given, row: number })).position; }
}
