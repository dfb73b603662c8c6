/* Records across frames: key, value and headers of each, back to its frame. */
import { anchor, setAttributes, button, pluralize, el } from "./elements.js";
import { toCsv, saveFile } from "./copies.js";
import { drawCell } from "./exchange.js";
import { formatTime, timeTitle } from "./formats.js";
import { toHash } from "./router.js";
import { API, NUMBER, TIME, shortName, CONNECTION } from "./rows.js";

const MAX_RECORDS = 200, PAUSE_MS = 100;
/** The columns: name, title, and the value that orders records. */
const COLUMNS = [
  ["time", "", ({ frame }) => frame], ["topic", "topic", ({ topic, partition }) => [topic ?? "", partition]], ["offset", "offset", ({ offset }) => offset ?? -1], ["key", "key", ({ key }) => key ?? ""],
  ["value", "value", ({ value }) => value ?? ""], ["headers", "headers", ({ headers }) => headers], ["frame", "frame", ({ frame }) => frame],
];
const compared = (one, other) => Array.isArray(one) ? compared(one[0], other[0]) || compared(one[1], other[1]) : one < other ? -1 : one > other ? 1 : 0;

export class RecordsView {
  constructor(app) {
    this.app = app;
    this.body = el("tbody", "");
    this.head = el("thead", "");
    this.more = el("p", "more");
    this.scrolling = setAttributes(el("div", "scroll", el("table", "records", this.head, this.body), this.more), { tabindex: 0, role: "region", "aria-label": "Records" });
    this.box = el("div", "overview", el("div", "tables", el("p", "about dim", "Records of Produce requests and Fetch responses; with a filter of keys, values or headers, or a text, those that match. Masked values stay masked; without --payloads, keys and values are shown as text or hex."), this.scrolling));
  }
  async show(state, before) {
    const key = JSON.stringify([state.filter, state.only]);
    this.order = state.sort || "";
    if (key === this.asked && before) { this.drawRows(); return; }
    const turn = this.turn = (this.turn || 0) + 1;
    Object.assign(this, { asked: key, rows: [], frames: 0, next: 0, query: null, seen: this.app.source.state.frames });
    this.drawRows();
    this.more.replaceChildren();
    const query = await this.app.source.query({ text: state.filter, only: state.only });
    if (turn !== this.turn) return;
    this.query = query;
    await this.load(turn);
  }
  /** Adds the next records. An answer may have few or none: it is limited in time, and rows may still be filtered. */
  async load(turn = this.turn) {
    const most = this.rows.length + MAX_RECORDS;
    this.more.replaceChildren("searching …");
    do {
      const from = this.next, found = await this.app.source.records(this.query, from, MAX_RECORDS);
      if (turn !== this.turn) return;
      this.add(found);
      if (this.next === from) await new Promise((waited) => setTimeout(waited, PAUSE_MS));
    } while (turn === this.turn && this.box.isConnected && this.next !== null && this.rows.length < most);
    if (turn !== this.turn) return;
    if (this.order) this.drawRows();
    this.more.replaceChildren(this.next !== null ? button("", "more records", () => this.load()) : this.rows.length ? "" : "No record in these frames.");
  }
  add({ exchanges, next }) {
    for (const [row, parts] of exchanges) {
      for (const { topic, partition, rows } of parts) {
        for (const record of rows) this.addRecord(row, topic, partition, record);
      }
    }
    this.frames += exchanges.length;
    this.next = next;
    this.app.say(`${pluralize(this.rows.length, "record")} in ${pluralize(this.frames, "exchange")}${next === null ? "" : " so far"}`, this);
  }
  addRecord(row, topic, partition, [offset, at, key, value, headers]) {
    const list = headers.flatMap(([name, part]) => [el("span", "dim", `${name}: `), part[1], el("br", "")]);
    const drawn = el("tr", "", el("td", "", formatTime(row[TIME])), el("td", "topic", topic === null ? "?" : `${topic}[${partition}]`), el("td", "number", offset ?? ""), el("td", "", drawCell(key)),
      el("td", "value", drawCell(value)), el("td", "", ...list), el("td", "", anchor("", toHash({ view: "frames", row: row[NUMBER] }), `${shortName(row[CONNECTION])} ${row[API]}`)));
    const record = { time: at || new Date(row[TIME] / 1000).toISOString(), topic, partition, offset, key: key[1] || key[0], value: value[1] || value[0], headers: headers.map(([name, part]) => `${name}=${part[1]}`).join(" "), frame: row[NUMBER] };
    this.rows.push({ record, drawn });
    this.body.append(drawn);
  }
  /** Draws the titles and the loaded records in the order of the address: that of their frames, or of a column. */
  drawRows() {
    const by = this.order.replace(/^-/, ""), down = this.order.startsWith("-");
    const titles = COLUMNS.map(([name, title]) => setAttributes(el("th", "", button("", [title || timeTitle(), name === by ? el("span", "arrow", down ? " ▼" : " ▲") : null], () => this.sort(name))),
      { scope: "col", "aria-sort": name === by ? (down ? "descending" : "ascending") : null }));
    this.head.replaceChildren(el("tr", "", ...titles));
    const read = COLUMNS.find(([name]) => name === by)?.[2], sorted = [...this.rows];
    if (read) sorted.sort((a, b) => (down ? -1 : 1) * compared(read(a.record), read(b.record)));
    this.body.replaceChildren(...sorted.map(({ drawn }) => drawn));
  }
  sort(name) {
    this.app.go({ sort: this.order === name ? `-${name}` : this.order === `-${name}` ? undefined : name });
  }
  changed() { if (this.next === null && this.query && this.app.source.state.frames !== this.seen) { this.more.replaceChildren(button("", "load new records", () => { this.asked = ""; this.show(this.app.state); })); } }
  downloads() {
    return [
      ["records as JSON lines", () => saveFile("kproxy-records.jsonl", this.rows.map(({ record }) => `${JSON.stringify(record)}\n`).join(""), "application/x-ndjson")],
      ["records as CSV", () => saveFile("kproxy-records.csv", toCsv(Object.keys(this.rows[0]?.record || {}), this.rows.map(({ record }) => Object.values(record))), "text/csv")],
    ];
  }
  key() { return false; }
}
