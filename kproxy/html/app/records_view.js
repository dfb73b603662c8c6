/* Records across frames: key, value and headers of each, back to its frame. */
import { anchor, attributes, button, counted, el } from "./elements.js";
import { csvOf, save } from "./copies.js";
import { drawPart } from "./exchange.js";
import { time, timeTitle } from "./formats.js";
import { hashOf } from "./router.js";
import { API, NUMBER, TIME, shortName, CONNECTION } from "./rows.js";

const MAX_RECORDS = 200, PAUSE_MS = 100;

export class RecordsView {
  constructor(app) {
    this.app = app;
    this.body = el("tbody", "");
    this.head = el("thead", "");
    this.more = el("p", "more");
    this.scrolling = attributes(el("div", "scroll", el("table", "records", this.head, this.body), this.more), { tabindex: 0, role: "region", "aria-label": "Records" });
    this.box = el("div", "overview", el("div", "tables", el("p", "about dim", "Records of Produce requests and Fetch responses, in the order of their frames; with a filter of keys, values or headers, or a text, those that match. Masked values stay masked; without --payloads, keys and values are shown as text or hex."), this.scrolling));
  }
  async show(state, before) {
    const key = JSON.stringify([state.filter, state.only]);
    if (key === this.asked && before) return;
    const turn = this.turn = (this.turn || 0) + 1;
    Object.assign(this, { asked: key, rows: [], frames: 0, next: 0, query: null, seen: this.app.source.state.frames });
    this.head.replaceChildren(el("tr", "", ...[timeTitle(), "topic", "offset", "key", "value", "headers", "frame"].map((name) => attributes(el("th", "", name), { scope: "col" }))));
    this.body.replaceChildren();
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
    if (turn === this.turn) this.more.replaceChildren(this.next !== null ? button("", "more records", () => this.load()) : this.rows.length ? "" : "No record in these frames.");
  }
  add({ exchanges, next }) {
    for (const [row, parts] of exchanges) {
      for (const { topic, partition, rows } of parts) {
        for (const record of rows) this.addRecord(row, topic, partition, record);
      }
    }
    this.frames += exchanges.length;
    this.next = next;
    this.app.say(`${counted(this.rows.length, "record")} in ${counted(this.frames, "exchange")}${next === null ? "" : " so far"}`, this);
  }
  addRecord(row, topic, partition, [offset, at, key, value, headers]) {
    this.rows.push({ time: at || new Date(row[TIME] / 1000).toISOString(), topic, partition, offset, key: key[1] || key[0], value: value[1] || value[0], headers: headers.map(([name, part]) => `${name}=${part[1]}`).join(" "), frame: row[NUMBER] });
    const list = headers.flatMap(([name, part]) => [el("span", "dim", `${name}: `), part[1], el("br", "")]);
    this.body.append(el("tr", "", el("td", "", time(row[TIME])), el("td", "topic", topic === null ? "?" : `${topic}[${partition}]`), el("td", "number", offset ?? ""), el("td", "", drawPart(key)),
      el("td", "value", drawPart(value)), el("td", "", ...list), el("td", "", anchor("", hashOf({ view: "frames", row: row[NUMBER] }), `${shortName(row[CONNECTION])} ${row[API]}`))));
  }
  changed() { if (this.next === null && this.query && this.app.source.state.frames !== this.seen) { this.more.replaceChildren(button("", "load new records", () => { this.asked = ""; this.show(this.app.state); })); } }
  downloads() {
    return [
      ["records as JSON lines", () => save("kproxy-records.jsonl", this.rows.map((row) => `${JSON.stringify(row)}\n`).join(""), "application/x-ndjson")],
      ["records as CSV", () => save("kproxy-records.csv", csvOf(Object.keys(this.rows[0] || {}), this.rows.map(Object.values)), "text/csv")],
    ];
  }
  key() { return false; }
}
