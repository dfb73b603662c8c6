/* Records across frames: key, value and headers of each, back to its frame. */
import { anchor, attributes, button, el } from "./elements.js";
import { csvOf, save } from "./copies.js";
import { drawPart } from "./exchange.js";
import { time, timeTitle } from "./formats.js";
import { hashOf } from "./router.js";
import { API, NUMBER, TIME, shortName, CONNECTION } from "./rows.js";

const MAX_RECORDS = 200;

export class RecordsView {
  constructor(app) {
    this.app = app;
    this.body = el("tbody", "");
    this.head = el("thead", "");
    this.more = el("p", "more");
    this.scrolling = attributes(el("div", "scroll", el("table", "records", this.head, this.body), this.more), { tabindex: 0, role: "region", "aria-label": "Records" });
    this.box = el("div", "overview", el("div", "tables", el("p", "about dim", "Records of Produce requests and Fetch responses, in the order of their frames. Masked values stay masked; without --payloads, keys and values are shown as text or hex."), this.scrolling));
  }
  async show(state, before) {
    const key = JSON.stringify([state.filter, state.only]);
    if (key === this.asked && before) return;
    this.asked = key;
    this.rows = [];
    this.next = 0;
    this.head.replaceChildren(el("tr", "", ...[timeTitle(), "topic", "offset", "key", "value", "headers", "frame"].map((name) => attributes(el("th", "", name), { scope: "col" }))));
    this.body.replaceChildren();
    this.query = await this.app.source.query({ text: state.filter, only: state.only });
    await this.load();
  }
  async load() {
    const key = this.asked, { exchanges, next } = await this.app.source.records(this.query, this.next, MAX_RECORDS);
    if (key !== this.asked) return;
    for (const [row, parts] of exchanges) {
      for (const { topic, partition, rows } of parts) {
        for (const record of rows) this.add(row, topic, partition, record);
      }
    }
    this.next = next;
    this.more.replaceChildren(...next === null ? [this.rows.length ? "" : "No record in these frames."] : [button("", "more records", () => this.load())]);
    this.app.say(`${this.rows.length.toLocaleString("en")} records${next === null ? "" : " so far"}`);
  }
  add(row, topic, partition, [offset, at, key, value, headers]) {
    this.rows.push({ time: at || new Date(row[TIME] / 1000).toISOString(), topic, partition, offset, key: key[1] || key[0], value: value[1] || value[0], headers: headers.map(([name, part]) => `${name}=${part[1]}`).join(" "), frame: row[NUMBER] });
    const list = headers.flatMap(([name, part]) => [el("span", "dim", `${name}: `), part[1], el("br", "")]);
    this.body.append(el("tr", "", el("td", "", time(row[TIME])), el("td", "topic", topic === null ? "?" : `${topic}[${partition}]`), el("td", "number", offset), el("td", "", drawPart(key)),
      el("td", "value", drawPart(value)), el("td", "", ...list), el("td", "", anchor("", hashOf({ view: "frames", row: row[NUMBER] }), `${shortName(row[CONNECTION])} ${row[API]}`))));
  }
  changed() { if (this.next === null && this.query) { this.more.replaceChildren(button("", "load new records", () => { this.asked = ""; this.show(this.app.state); })); } }
  downloads() {
    return [
      ["records as JSON lines", () => save("kproxy-records.jsonl", this.rows.map((row) => `${JSON.stringify(row)}\n`).join(""), "application/x-ndjson")],
      ["records as CSV", () => save("kproxy-records.csv", csvOf(Object.keys(this.rows[0] || {}), this.rows.map(Object.values)), "text/csv")],
    ];
  }
  key() { return false; }
}
