/* The source of a page in one file: compressed data in the page, which is filtered and sorted here. */
import { mergeLines } from "./filter_match.js";
import { matchingRecords } from "./matching_records.js";
import { overTime } from "./over_time.js";
import { parseQuery } from "./query.js";
import { quote } from "./router.js";
import { API, CLIENT, CONNECTION, LATENCY, LEVEL, NUMBER, SIZE, TIME } from "./rows.js";
import { topicsOverTime } from "./topics_over_time.js";

const LEVELS = ["", "info", "warning", "error"], MAX_UNPACKED = 40;
const TIMELINE_FIELDS = { groups: ["group", "group_id"], transactions: ["transaction", "transactional_id"] };
const SORT_KEYS = {
  time: null, latency: (row) => row[LATENCY] ?? -1, size: (row) => row[SIZE] ?? -1, findings: (row) => LEVELS.indexOf(row[LEVEL]),
  api: (row) => row[API], client: (row) => row[CLIENT], connection: (row) => row[CONNECTION],
};

export const decodeBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
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
    const chunkSize = this.data.each[name], chunk = Math.floor(number / chunkSize), key = `${name} ${chunk}`;
    if (!this.unpacked.has(key)) {
      if (this.unpacked.size > MAX_UNPACKED) this.unpacked.delete(this.unpacked.keys().next().value);
      this.unpacked.set(key, unpack(this.data[name][chunk]));
    }
    return (await this.unpacked.get(key))[number % chunkSize];
  }
  /** Returns one line per row, with the lines of an exchange merged; they are cached. */
  async lines() {
    if (!this.allLines) {
      const allLines = [];
      for (const chunk of this.data.lines) allLines.push(...(await unpack(chunk)).map(({ lines }) => mergeLines(lines)));
      this.allLines = allLines;
    }
    return this.allLines;
  }
  async query({ text, only, sort }) {
    const filter = parseQuery(text || "");
    let numbers = this.rows.map((row) => row[NUMBER]);
    if (only) numbers = numbers.filter((number) => this.rows[number][LEVEL]);
    if (filter) {
      const lines = await this.lines();
      numbers = numbers.filter((number) => filter.test(lines[number]));
    }
    const name = (sort || "time").replace(/^-/, ""), key = SORT_KEYS[name], sign = (sort || "").startsWith("-") ? -1 : 1;
    if (key) {
      const down = typeof key(this.rows[0] || []) === "number" ? -1 : 1;
      // rows without a latency are shown last in both orders
      const last = (number) => name === "latency" && this.rows[number][LATENCY] === null ? 1 : 0;
      numbers.sort((a, b) => {
        if (last(a) !== last(b)) return last(a) - last(b);
        const [left, right] = [key(this.rows[a]), key(this.rows[b])];
        return sign * down * (left < right ? -1 : left > right ? 1 : 0) || a - b;
      });
    } else if (sign < 0) numbers.reverse();
    return new EmbeddedQuery(this.rows, numbers, filter);
  }
  async exchange(number) {
    const row = this.rows[number];
    if (!row) return null;
    const sideIndex = this.data.places[number];
    const [exchangeLines, sides] = await Promise.all([this.value("lines", number), sideIndex >= 0 ? this.value("sides", sideIndex) : null]);
    return { row, ...exchangeLines, sides, missing: sideIndex < 0 ? "its fields and bytes are left out to limit the page's size" : "" };
  }
  /** Returns timelines; with a filter, only those of groups or transactional ids in its rows. */
  async timeline(name, text) {
    const timeline = this.data.timelines[name];
    if (!text) return timeline;
    const [field, column] = TIMELINE_FIELDS[name], lines = await this.lines(), query = await this.query({ text });
    const filters = new Set((await query.all(Infinity)).map((row) => lines[row[NUMBER]][column]).filter((value) => value !== undefined).map((value) => `${field}=${quote(value)}`));
    return { ...timeline, timelines: timeline.timelines.filter(({ filter: timelineFilter }) => filters.has(timelineFilter)) };
  }
  /** Counts the rows of a filter over time, as `kproxy.browse.pictures.over_time`. */
  async overTime({ text, only, api, parts }) { return { ...overTime(await (await this.query({ text, only })).all(Infinity), api, parts), busy: false }; }
  /** Counts the topics of a filter's rows over time, as `kproxy.browse.pictures.topics_over_time`. */
  async topicsOverTime({ text, only, parts }) { return { ...topicsOverTime(await (await this.query({ text, only })).all(Infinity), await this.lines(), parts), busy: false }; }
  async causes() { return this.data.causes; }
  async table(name) { return this.data.tables[name]; }
  /** Returns records that match a query, from the row at a position: `{exchanges: [[row, fields]...], next}`; `next` is null at the end. */
  async records(query, from, maxRecords) {
    const exchanges = [], { filter } = query, lines = filter && filter.readsRecords ? await this.lines() : [];
    let count = 0, position = from;
    for (; position < query.count && count < maxRecords; position++) {
      const row = query.row(position), sideIndex = this.data.places[row[NUMBER]];
      if (sideIndex < 0) continue;
      const fields = matchingRecords(filter, lines[row[NUMBER]], (await this.value("sides", sideIndex)).flatMap((side) => side ? side.records : []));
      count += fields.reduce((sum, field) => sum + field.rows.length, 0);
      if (fields.length) exchanges.push([row, fields]);
    }
    return { exchanges, next: position < query.count ? position : null };
  }
  /** Returns the address of a download; null if the page creates the file itself. */
  download() { return null; }
}

class EmbeddedQuery {
  constructor(rows, numbers, filter) { Object.assign(this, { rows, numbers, filter, total: rows.length, busy: false }); }
  get count() { return this.numbers.length; }
  row(position) { return this.rows[this.numbers[position]]; }
  async rowAt(position) { return this.row(position); }
  async position(number) { return this.numbers.indexOf(number); }
  async refresh() { /* nothing changes */ }
  async all(maxRows) { return this.numbers.slice(0, maxRows).map((number) => this.rows[number]); }
}
