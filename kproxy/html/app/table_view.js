/* An overview as a table: sorted by any column, with more about one row beside it. */
import { anchor, setAttributes, button, pluralize, el } from "./elements.js";
import { formatCount, formatDuration, formatFullTime, formatSize, formatTime } from "./formats.js";
import { toCsv, saveFile } from "./copies.js";
import { toHash } from "./router.js";

const MAX_ROWS = 500, HAS_LADDER = ["connections", "groups", "transactions", "share-groups", "clients"];
const NUMBERS = ["count", "bytes", "duration", "rate", "time"];
const spark = (counts) => {
  const most = Math.max(1, ...counts), made = setAttributes(el("span", "spark"), { role: "img", "aria-label": `most ${most.toLocaleString("en")}, last ${counts.at(-1)}` });
  for (const each of counts) {
    const bar = el("i", "");
    bar.style.height = `${each ? Math.max(8, 100 * each / most) : 0}%`;
    made.append(bar);
  }
  return made;
};
const findings = ([error, warning, info]) => [[error, "error"], [warning, "warning"], [info, "info"]].filter(([number]) => number)
  .map(([number, level]) => el("span", level, level === "info" ? `${number} info ` : `${pluralize(number, level)} `));
/** A line of time with what lasted on it, each a link to its frame. */
const lane = (spans) => el("span", "lane", ...spans.map(([begin, length, name, ms, row]) => {
  const text = `${name}: ${ms.toLocaleString("en")} ms`, bar = row === null ? el("span", `span ${name}`) : anchor(`span ${name}`, toHash({ view: "frames", row }));
  bar.style.left = `${begin / 10}%`;
  bar.style.width = `${length / 10}%`;
  return setAttributes(bar, { title: text, "aria-label": text });
}));
const SHOWN = {
  count: (value) => value === 0 ? el("span", "dim", "0") : formatCount(value), bytes: (value) => value ? formatSize(value) : "", duration: formatDuration, rate: (value) => value ? value.toFixed(value < 10 ? 1 : 0) : "",
  time: (value) => value ? formatTime(value) : "", findings: (value) => value ? findings(value) : "", spark: (value) => value ? spark(value) : "", spans: (value) => value.length ? lane(value) : "",
  text: (value) => value ?? "",
};
const isBlank = (value) => value === null || value === undefined || value === "" || value.length === 0;
const sortable = (value, kind) => kind === "findings" ? (value ? value[0] * 1e12 + value[1] * 1e6 + value[2] : -1)
  : kind === "spans" ? value.length : kind === "spark" ? (value ? value.reduce((a, b) => a + b, 0) : -1) : kind === "text" ? (value ?? "") : value ?? -1;

export class TableView {
  constructor(app, name) {
    Object.assign(this, { app, name, most: MAX_ROWS });
    this.table = el("table", "cards");
    this.about = el("p", "about dim");
    this.side = setAttributes(el("aside", "facts"), { "aria-label": "About the chosen row" });
    this.scrolling = setAttributes(el("div", "scroll", this.table), { tabindex: 0, role: "region" });
    this.box = el("div", "overview", el("div", "tables", this.about, this.scrolling), this.side);
  }
  async show(state) {
    const turn = this.turn = (this.turn || 0) + 1;
    const found = await this.app.source.table(this.name, state.filter);
    if (turn !== this.turn) return;
    this.data = found;
    this.draw(state);
  }
  async changed() {
    if (this.refreshing) return;
    this.refreshing = true;
    await this.show(this.app.state).catch(() => {});
    this.refreshing = false;
  }
  get sorted() {
    const { columns, rows, sort } = this.data, by = this.app.state.sort ?? sort, title = by.replace(/^-/, "");
    const at = columns.findIndex(([name]) => name === title);
    if (at < 0) return [rows, -1, false];
    const down = by.startsWith("-"), kind = columns[at][1];
    const key = (row) => sortable(row.values[at], kind);
    return [[...rows].sort((a, b) => {
      const [one, other] = [key(a), key(b)];
      return (down ? -1 : 1) * (one < other ? -1 : one > other ? 1 : 0);
    }), at, down];
  }
  draw(state) {
    const { title, about, columns, more } = this.data, [rows, by, down] = this.sorted;
    this.scrolling.setAttribute("aria-label", title);
    const filtered = state.filter && this.app.source.isLive ? `  Only of rows that match ${state.filter}.` : state.filter ? "  Of all rows: the filter applies to frames." : "";
    this.about.replaceChildren(about + filtered + (more ? `  ${more}.` : ""));
    const filled = columns.map((_, at) => !at || !rows.length || rows.some((row) => !isBlank(row.values[at])));
    const heads = columns.map(([name, kind], at) => filled[at] && setAttributes(el("th", NUMBERS.includes(kind) ? "number" : "",
      button("", [name, at === by ? el("span", "arrow", down ? " ▼" : " ▲") : null], () => this.sort(name, kind))),
    { scope: "col", "aria-sort": at === by ? (down ? "descending" : "ascending") : null })).filter(Boolean);
    const body = el("tbody", "", ...rows.slice(0, this.most).map((row) => this.row(row, columns, filled, state)));
    this.table.replaceChildren(setAttributes(el("caption", "hidden", title), {}), el("thead", "", el("tr", "", ...heads)), body);
    if (!rows.length) body.append(el("tr", "", setAttributes(el("td", "none", `no ${title.toLowerCase()} here${state.filter ? `: nothing matches ${state.filter}` : ""}`), { colspan: columns.length })));
    if (rows.length > this.most) {
      body.append(el("tr", "", setAttributes(el("td", "", button("more", `show ${(rows.length - this.most).toLocaleString("en")} more`, () => { this.most += 2000; this.draw(this.app.state); })), { colspan: columns.length })));
    }
    this.app.say(`${pluralize(rows.length, "row")}${this.data.busy ? " so far" : ""}`, this);
    this.drawFacts(rows.find((row) => row.key === state.key));
  }
  row(row, columns, filled, state) {
    const made = el("tr", row.key === state.key ? "chosen" : "", ...columns.map(([title, kind, style], at) => {
      if (!filled[at]) return null;
      const value = row.values[at], shown = SHOWN[kind](value);
      const inside = at === columns.findIndex(([, , other]) => other === "name" || other === "topic") ? anchor("", toHash({ ...state, key: row.key }), shown) : shown;
      const cell = el("td", `${NUMBERS.includes(kind) ? "number " : ""}${value ? style : ""}`, inside);
      cell.dataset.label = title; // a narrow screen shows it beside the value
      if (kind === "text" && value && value.length > 24) cell.title = value;
      return cell;
    }));
    made.addEventListener("click", (event) => { if (getSelection().isCollapsed && !event.target.closest("a")) this.app.go({ key: row.key }); });
    return made;
  }
  drawFacts(row) {
    this.side.hidden = !row;
    this.box.classList.toggle("open", Boolean(row));
    if (!row) return;
    const frames = row.filter ? anchor("primary", toHash({ view: "frames", filter: row.filter }), "its frames") : row.row !== null ? anchor("primary", toHash({ view: "frames", row: row.row }), "its frame") : null;
    const records = row.filter ? anchor("", toHash({ view: "records", filter: row.filter }), "its records") : null;
    const ladder = row.filter && HAS_LADDER.includes(this.name) ? anchor("", toHash({ view: "ladder", filter: row.filter }), "its ladder") : null;
    const marks = row.marks.map(([label, to]) => el("li", "", anchor("", toHash({ view: "frames", row: to }), label)));
    const values = this.data.columns.map(([title, kind], at) => [title, kind === "time" && row.values[at] ? formatFullTime(row.values[at]) : SHOWN[kind](row.values[at])])
      .filter(([title, shown], at) => shown && shown.length !== 0 && row.values[at] !== 0 && !row.facts.some(([label]) => label === title));
    this.side.replaceChildren(el("div", "head", el("h2", "", row.key), button("close", "close", () => this.app.go({ key: undefined }))), el("p", "links", frames, "  ", records, "  ", ladder),
      el("dl", "", ...row.facts.flatMap(([label, text]) => [el("dt", "", label), el("dd", "", text)]), ...values.flatMap(([label, shown]) => [el("dt", "", label), el("dd", "", shown)])),
      marks.length ? el("h3", "", "frames") : null, el("ul", "", ...marks));
  }
  sort(name, kind) {
    const now = this.app.state.sort ?? this.data.sort, first = NUMBERS.includes(kind) || ["findings", "spark", "spans"].includes(kind) ? `-${name}` : name;
    const other = first.startsWith("-") ? name : `-${name}`;
    this.app.go({ sort: now === first ? other : first });
  }
  downloads() {
    const { columns, rows } = this.data;
    const plain = (value) => Array.isArray(value) ? value.map((each) => Array.isArray(each) ? `${each[2]} ${each[3]} ms` : each).join(" ") : value;
    return [
      ["rows as CSV", () => saveFile(`kproxy-${this.name}.csv`, toCsv(columns.map(([title, kind]) => `${title}${kind === "duration" || kind === "time" ? " (us)" : ""}`), rows.map((row) => row.values.map(plain))), "text/csv")],
      ["rows as JSON lines", () => saveFile(`kproxy-${this.name}.jsonl`, rows.map((row) => `${JSON.stringify(Object.fromEntries(columns.map(([title], at) => [title, row.values[at]])))}\n`).join(""), "application/x-ndjson")],
    ];
  }
  key(event) {
    if (event.target.closest("input, button") && event.key !== "Escape") return false;
    const rows = this.data ? this.sorted[0].slice(0, this.most) : [], at = rows.findIndex((row) => row.key === this.app.state.key);
    const go = (to) => { this.app.go({ key: rows[Math.max(0, Math.min(to, rows.length - 1))]?.key }, { replace: at >= 0 }); this.table.querySelector(".chosen")?.scrollIntoView({ block: "nearest" }); };
    const acts = {
      j: () => go(at + 1), k: () => go(at - 1), ArrowDown: () => go(at + 1), ArrowUp: () => go(at - 1), g: () => go(0), G: () => go(rows.length - 1),
      Escape: () => this.app.go({ key: undefined }), Enter: () => { if (at >= 0 && rows[at].filter) this.app.go({ view: "frames", filter: rows[at].filter, key: undefined, sort: undefined }); },
    };
    if (!acts[event.key] || !rows.length || (event.key === "Enter" && event.target.closest("a"))) return false;
    acts[event.key]();
    return true;
  }
}
