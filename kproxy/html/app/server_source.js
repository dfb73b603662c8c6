/* The source of a live session or a trace of `kproxy web`: the server filters, sorts and pages. */
import { parseQuery } from "./query.js";

const CHUNK_SIZE = 200, MAX_CHUNKS = 60;
const urlFor = (path, params = {}) => {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== "" && value !== false));
  return `/api/${path}${[...query].length ? `?${query}` : ""}`;
};
const fetchJson = async (path, params) => {
  const response = await fetch(urlFor(path, params));
  if (!response.ok) throw new Error((await response.text()).trim() || `the server returns ${response.status}`);
  return response.json();
};

export class ServerSource {
  constructor() { this.isLive = true; }
  async open() {
    [this.info, this.state] = await Promise.all([fetchJson("info"), fetchJson("state")]);
  }
  /** Calls `onChanged` when there are more rows or results, and `onLost` when the connection to the server is lost or restored. */
  onChange(onChanged, onLost) {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/events`);
    socket.addEventListener("message", ({ data }) => {
      this.state = JSON.parse(data);
      onLost(false);
      onChanged();
    });
    socket.addEventListener("close", () => {
      onLost(true);
      setTimeout(() => this.onChange(onChanged, onLost), 2000);
    });
  }
  async query({ text, only, sort }) {
    parseQuery(text || "");  /* an error is shown without a request */
    const query = new ServerQuery({ filter: text, only: only ? 1 : "", sort });
    await query.refresh(0);
    return query;
  }
  async exchange(number) { return fetchJson(`exchanges/${number}`); }
  async causes(text) { return fetchJson("causes", { filter: text }); }
  async table(name, text) { return fetchJson(`tables/${name}`, { filter: text }); }
  async records(query, from, maxRecords) { return fetchJson("records", { ...query.params, from, most: maxRecords }); }
  async timeline(name, text) { return fetchJson(`timelines/${name}`, { filter: text }); }
  async overTime({ text, only, api, parts }) { return fetchJson("over-time", { filter: text, only: only ? 1 : "", api, parts }); }
  async topicsOverTime({ text, only, parts }) { return fetchJson("topics-over-time", { filter: text, only: only ? 1 : "", parts }); }
  /** Returns a file with the rows of a query, or with one exchange. */
  async file(format, query, number) {
    const response = await fetch(urlFor(`rows.${format}`, number === undefined ? query.params : { row: number }));
    if (!response.ok) throw new Error((await response.text()).trim());
    return response.blob();
  }
  download(format, query) { return urlFor(`rows.${format}`, query.params); }
}

class ServerQuery {
  constructor(params) { Object.assign(this, { params, count: 0, total: 0, busy: true, chunks: new Map(), pending: new Map(), onLoad: () => {}, turn: 0 }); }
  /** Fetches the rows around a position again; others are fetched when they are shown. */
  async refresh(position = 0) {
    const chunk = Math.floor(position / CHUNK_SIZE), turn = ++this.turn;
    const entries = await Promise.all([...new Set([chunk, Math.floor((position + 80) / CHUNK_SIZE)])].map((index) => this.fetch(index)));
    if (turn !== this.turn) return;
    this.chunks = new Map(entries);
  }
  async fetch(chunk) {
    const { rows, count, total, busy } = await fetchJson("rows", { ...this.params, offset: chunk * CHUNK_SIZE, limit: CHUNK_SIZE });
    Object.assign(this, { count, total, busy });
    return [chunk, rows];
  }
  /** Returns a row, or null while it is fetched; `onLoad` is called afterwards. The rows that scrolling reaches next are fetched, too. */
  row(position) {
    const chunk = Math.floor(position / CHUNK_SIZE), rows = this.chunks.get(chunk), next = position % CHUNK_SIZE < CHUNK_SIZE / 2 ? chunk - 1 : chunk + 1;
    if (next >= 0 && next * CHUNK_SIZE < this.count && !this.chunks.has(next)) this.load(next);
    if (rows) return rows[position % CHUNK_SIZE] || null;
    this.load(chunk);
    return null;
  }
  async rowAt(position) {
    const chunk = Math.floor(position / CHUNK_SIZE);
    if (!this.chunks.has(chunk)) await this.load(chunk);
    return this.chunks.get(chunk)?.[position % CHUNK_SIZE] || null;
  }
  load(chunk) {
    if (!this.pending.has(chunk)) {
      this.pending.set(chunk, this.fetch(chunk).then((entry) => {
        if (this.chunks.size > MAX_CHUNKS) this.chunks.delete(this.chunks.keys().next().value);
        this.chunks.set(...entry);
        this.onLoad();
      }, () => { /* the header says that the server is gone */ }).finally(() => this.pending.delete(chunk)));
    }
    return this.pending.get(chunk);
  }
  async position(number) { return (await fetchJson("position", { ...this.params, row: number })).position; }
}
