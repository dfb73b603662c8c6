/* The source of a page in one file: packed data in the page, filtered and sorted here. */
import { mergeLines } from "./filter_match.js";
import { matchingRecords } from "./matching_records.js";
import { overTime } from "./over_time.js";
import { parseQuery } from "./query.js";
import { quote } from "./router.js";
import { API, CLIENT, CONNECTION, LATENCY, LEVEL, NUMBER, SIZE, TIME } from "./rows.js";
import { topicsOverTime } from "./topics_over_time.js";

const LEVELS = ["", "info", "warning", "error"], MAX_UNPACKED = 40;
const TIMELINE_FIELDS = { groups: ["group", "group_id"], transactions: ["transaction", "transactional_id"] };
const KEYS = {
  time: null, latency: (row) => row[LATENCY] ?? -1, size: (row) => row[SIZE] ?? -1, findings: (row) => LEVELS.indexOf(row[LEVEL]),
  api: (row) => row[API], client: (row) => row[CLIENT], connection: (row) => row[CONNECTION],
};

export const decodeBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const unpack = async (text) => {
  const stream = new Blob([decodeBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};

export class EmbeddedSource {
  constructor(data) {
    this.data = data;
    this.unpacked = new Map();
    this.isLive = false;
    this.info = {
      version: data.version, names: data.files, notes: data.notes, filter: "", fields: data.fields, units: data.units,
    };
    this.state = {
      rows: data.exchanges, connections: data.connections, exchanges: data.exchanges, frames: data.frames, bytes: data.bytes,
      refused: data.refused, unanswered: data.unanswered, only: data.filter, live: false, busy: false, sentence: "",
    };
  }
  async open() {
    this.rows = (await Promise.all(this.data.rows.map(unpack))).flat();
    const times = this.rows.map((row) => row[TIME]);
    this.state.first = times.reduce((a, b) => Math.min(a, b), times[0] || 0);
    this.state.last = times.reduce((a, b) => Math.max(a, b), 0);
  }
  onChange() { /* nothing changes here */ }
  async value(name, number) {
    const each = this.data.each[name], chunk = Math.floor(number / each), key = `${name} ${chunk}`;
    if (!this.unpacked.has(key)) {
      if (this.unpacked.size > MAX_UNPACKED) this.unpacked.delete(this.unpacked.keys().next().value);
      this.unpacked.set(key, unpack(this.data[name][chunk]));
    }
    return (await this.unpacked.get(key))[number % each];
  }
  /** The lines of all rows, an exchange as one line; kept once they are needed. */
  async lines() {
    if (!this.joined) {
      const found = [];
      for (const chunk of this.data.lines) found.push(...(await unpack(chunk)).map(({ lines }) => mergeLines(lines)));
      this.joined = found;
    }
    return this.joined;
  }
  async query({ text, only, sort }) {
    const wanted = parseQuery(text || "");
    let numbers = this.rows.map((row) => row[NUMBER]);
    if (only) numbers = numbers.filter((number) => this.rows[number][LEVEL]);
    if (wanted) {
      const lines = await this.lines();
      numbers = numbers.filter((number) => wanted.test(lines[number]));
    }
    const name = (sort || "time").replace(/^-/, ""), key = KEYS[name], sign = (sort || "").startsWith("-") ? -1 : 1;
    if (key) {
      const down = typeof key(this.rows[0] || []) === "number" ? -1 : 1;
      numbers.sort((a, b) => {
        const [one, other] = [key(this.rows[a]), key(this.rows[b])];
        return sign * down * (one < other ? -1 : one > other ? 1 : 0) || a - b;
      });
    } else if (sign < 0) numbers.reverse();
    return new EmbeddedQuery(this.rows, numbers, wanted);
  }
  async exchange(number) {
    const row = this.rows[number];
    if (!row) return null;
    const place = this.data.places[number];
    const [told, sides] = await Promise.all([this.value("lines", number), place >= 0 ? this.value("sides", place) : null]);
    return { row, ...told, sides, missing: place < 0 ? "its fields and bytes are left out to limit the page's size" : "" };
  }
  /** Timelines, with a filter those of groups or transactional ids in its rows. */
  async timeline(name, text) {
    const whole = this.data.timelines[name];
    if (!text) return whole;
    const [field, column] = TIMELINE_FIELDS[name], lines = await this.lines(), query = await this.query({ text });
    const named = new Set((await query.all(Infinity)).map((row) => lines[row[NUMBER]][column]).filter((value) => value !== undefined).map((value) => `${field}=${quote(value)}`));
    return { ...whole, timelines: whole.timelines.filter(({ filter }) => named.has(filter)) };
  }
  /** Numbers over time of the rows of a filter: `kproxy.browse.pictures.over_time`. */
  async overTime({ text, only, api, parts }) { return { ...overTime(await (await this.query({ text, only })).all(Infinity), api, parts), busy: false }; }
  /** Topics over time of the rows of a filter: `kproxy.browse.pictures.topics_over_time`. */
  async topicsOverTime({ text, only, parts }) { return { ...topicsOverTime(await (await this.query({ text, only })).all(Infinity), await this.lines(), parts), busy: false }; }
  async causes() { return this.data.causes; }
  async table(name) { return this.data.tables[name]; }
  /** Records of the rows of a query from a position on, those that match its filter: `{exchanges: [[row, sides]...], next}`; null at the end. */
  async records(query, from, most) {
    const exchanges = [], { wanted } = query, lines = wanted && wanted.readsRecords ? await this.lines() : [];
    let count = 0, at = from;
    for (; at < query.count && count < most; at++) {
      const row = query.row(at), place = this.data.places[row[NUMBER]];
      if (place < 0) continue;
      const records = matchingRecords(wanted, lines[row[NUMBER]], (await this.value("sides", place)).flatMap((side) => side ? side.records : []));
      count += records.reduce((sum, each) => sum + each.rows.length, 0);
      if (records.length) exchanges.push([row, records]);
    }
    return { exchanges, next: at < query.count ? at : null };
  }
  /** The address of a download; null if the page makes the file itself. */
  download() { return null; }
}

class EmbeddedQuery {
  constructor(rows, numbers, wanted) { Object.assign(this, { rows, numbers, wanted, total: rows.length, busy: false }); }
  get count() { return this.numbers.length; }
  row(position) { return this.rows[this.numbers[position]]; }
  async rowAt(position) { return this.row(position); }
  async position(number) { return this.numbers.indexOf(number); }
  async refresh() { /* nothing changes */ }
  async all(most) { return this.numbers.slice(0, most).map((number) => this.rows[number]); }
}
