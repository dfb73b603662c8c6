/* Records of all frames: key, value and headers, with a link to the frame. */
import { anchor, button, el, pluralize, setAttributes, sortButton } from "./elements.js";
import { saveFile, toCsv } from "./copies.js";
import { drawCell } from "./exchange.js";
import { formatDuration, formatTime, timeTitle } from "./formats.js";
import { toHash } from "./router.js";
import { API, CLIENT, CONNECTION, LATENCY, NUMBER, TIME, shortName } from "./rows.js";

const MAX_RECORDS = 200, PAUSE_MS = 100;
/** The columns: name, title, and the sort key of a record and its row. */
const COLUMNS = [
  ["time", "", (_, { time }) => time], ["topic", "topic", ({ topic, partition }) => [topic ?? "", partition]], ["offset", "offset", ({ offset }) => offset ?? -1], ["key", "key", ({ key }) => key ?? ""],
  ["value", "value", ({ value }) => value ?? ""], ["headers", "headers", ({ headers }) => headers], ["frame", "frame", ({ frame }) => frame],
  ["client", "client", ({ client }) => client], ["delivery", "since Produce", ({ delivery_us: us }) => us ?? -1],
];
const compare = (left, right) => Array.isArray(left) ? compare(left[0], right[0]) || compare(left[1], right[1]) : left < right ? -1 : left > right ? 1 : 0;

export class RecordsView {
  constructor(app) {
    this.app = app;
    this.body = el("tbody", "");
    this.head = el("thead", "");
    this.more = el("p", "more");
    this.scrolling = setAttributes(el("div", "scroll", el("table", "records cards", this.head, this.body), this.more), { tabindex: 0, role: "region", "aria-label": "Records" });
    this.box = el("div", "overview", el("div", "tables", el("p", "about dim", "All records of Produce requests and Fetch responses; since Produce is the time from the request that wrote a record to the response that delivers it. A filter on keys, values or headers, or a text, leaves only those that match. Masked values stay masked."), this.scrolling));
  }
  async show(state, previous) {
    const key = JSON.stringify([state.filter, state.only]);
    this.order = state.sort || "";
    if (key === this.queryKey && previous) { this.drawRows(); return; }
    const turn = this.turn = (this.turn || 0) + 1;
    Object.assign(this, { queryKey: key, rows: [], frames: 0, next: 0, query: null, knownFrames: this.app.source.state.frames });
    this.drawRows();
    this.more.replaceChildren();
    const query = await this.app.source.query({ text: state.filter, only: state.only });
    if (turn !== this.turn) return;
    this.query = query;
    await this.load(turn);
  }
  /** Loads the next records. A response may have few or none, because its time is limited, and rows may still be filtered. */
  async load(turn = this.turn) {
    const maxRows = this.rows.length + MAX_RECORDS;
    this.more.replaceChildren("searching …");
    do {
      const from = this.next, response = await this.app.source.records(this.query, from, MAX_RECORDS);
      if (turn !== this.turn) return;
      this.add(response);
      if (this.next === from) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    } while (turn === this.turn && this.box.isConnected && this.next !== null && this.rows.length < maxRows);
    if (turn !== this.turn) return;
    this.findDeliveries();
    this.drawRows();
    this.more.replaceChildren(this.next !== null ? button("", "more records", () => this.load()) : this.rows.length ? "" : "No record in these frames.");
  }
  add({ exchanges, next }) {
    for (const [row, fields] of exchanges) {
      for (const { topic, partition, rows } of fields) {
        for (const record of rows) this.addRecord(row, topic, partition, record);
      }
    }
    this.frames += exchanges.length;
    this.next = next;
    this.app.setStatus(`${pluralize(this.rows.length, "record")} in ${pluralize(this.frames, "exchange")}${next === null ? "" : " so far"}`, this);
  }
  addRecord(row, topic, partition, [offset, timestamp, key, value, headers]) {
    const time = row[TIME] + (row[API] === "Produce" ? 0 : row[LATENCY] ?? 0); // of the response that has the record
    const headerTexts = headers.flatMap(([name, cell]) => [el("span", "dim", `${name}: `), ["null", "empty"].includes(cell[0]) ? el("span", "dim", cell[0]) : cell[1], el("br", "")]);
    const element = el("tr", "", el("td", "", formatTime(time)), el("td", "topic", topic === null ? "?" : `${topic}[${partition}]`), el("td", "number", offset ?? ""), el("td", "", drawCell(key)),
      el("td", "value", drawCell(value)), el("td", "", ...headerTexts), el("td", "", anchor("", toHash({ view: "frames", row: row[NUMBER] }), `${row[API]} on ${shortName(row[CONNECTION])}`)), el("td", "", row[CLIENT] ?? ""), el("td", "number", ""));
    const record = { time: timestamp || new Date(time / 1000).toISOString(), topic, partition, offset, key: key[1] || key[0], value: value[1] || value[0], headers: headers.map(([name, cell]) => `${name}=${cell[1]}`).join(" "), frame: row[NUMBER], client: row[CLIENT] ?? "", delivery_us: null };
    [...element.children].forEach((cell, index) => { cell.dataset.label = COLUMNS[index][1]; });
    this.rows.push({ record, element, time, api: row[API] });
    this.body.append(element);
  }
  /** Finds, for records that were fetched, the Produce request among the loaded records that wrote them. */
  findDeliveries() {
    const place = ({ topic, partition, offset }) => offset === null || offset === undefined ? null : JSON.stringify([topic, partition, offset]), written = new Map();
    for (const { record, time, api } of this.rows) if (api === "Produce" && place(record)) written.set(place(record), time);
    for (const { record, element, time, api } of this.rows) {
      const requested = api === "Produce" ? undefined : written.get(place(record));
      if (requested === undefined || requested > time) continue;
      record.delivery_us = time - requested;
      element.lastChild.textContent = formatDuration(record.delivery_us);
    }
  }
  /** Draws the column headings and the loaded records, sorted by time or by a column. */
  drawRows() {
    const sortName = this.order.replace(/^-/, ""), isDescending = this.order.startsWith("-");
    const headings = COLUMNS.map(([name, title]) => {
      const order = name !== sortName ? null : isDescending ? "descending" : "ascending";
      return setAttributes(el("th", "", sortButton(title || timeTitle(), order, () => this.sort(name))), { scope: "col", "aria-sort": order });
    });
    this.head.replaceChildren(el("tr", "", ...headings));
    const [, , sortKey] = COLUMNS.find(([name]) => name === (sortName || "time")) || COLUMNS[0], sorted = [...this.rows];
    sorted.sort((a, b) => (isDescending ? -1 : 1) * compare(sortKey(a.record, a), sortKey(b.record, b)));
    this.body.replaceChildren(...sorted.map(({ element }) => element));
  }
  sort(name) {
    this.app.go({ sort: this.order === name ? `-${name}` : this.order === `-${name}` ? undefined : name });
  }
  changed() { if (this.next === null && this.query && this.app.source.state.frames !== this.knownFrames) { this.more.replaceChildren(button("", "load new records", () => { this.queryKey = ""; this.show(this.app.state); })); } }
  downloads() {
    return [
      ["records as JSON lines", () => saveFile("kproxy-records.jsonl", this.rows.map(({ record }) => `${JSON.stringify(record)}\n`).join(""), "application/x-ndjson")],
      ["records as CSV", () => saveFile("kproxy-records.csv", toCsv(Object.keys(this.rows[0]?.record || {}), this.rows.map(({ record }) => Object.values(record))), "text/csv")],
    ];
  }
  key() { return false; }
}
