/* An overview as a table, sorted by any column, with details of the selected row beside it. */
import { anchor, button, el, pluralize, setAttributes, sortButton } from "./elements.js";
import { formatCount, formatDuration, formatFullTime, formatSize, formatTime } from "./formats.js";
import { saveFile, toCsv } from "./copies.js";
import { toHash } from "./router.js";

const MAX_ROWS = 500, HAS_LADDER = ["connections", "groups", "transactions", "share-groups", "clients"];
const NUMBERS = ["count", "bytes", "duration", "rate", "time"];
const spark = (counts) => {
  const maxCount = Math.max(1, ...counts), element = setAttributes(el("span", "spark"), { role: "img", "aria-label": `most ${maxCount.toLocaleString("en")}, last ${counts.at(-1)}` });
  for (const value of counts) {
    const bar = el("i", "");
    bar.style.height = `${value ? Math.max(8, 100 * value / maxCount) : 0}%`;
    element.append(bar);
  }
  return element;
};
const findings = ([error, warning, info]) => [[error, "error"], [warning, "warning"], [info, "info"]].filter(([count]) => count)
  .map(([count, level]) => el("span", level, level === "info" ? `${count} info ` : `${pluralize(count, level)} `));
/** A timeline of spans, each a link to its frame. */
const lane = (spans) => el("span", "lane", ...spans.map(([begin, length, name, ms, row]) => {
  const text = `${name}: ${ms.toLocaleString("en")} ms`, bar = row === null ? el("span", `span ${name}`) : anchor(`span ${name}`, toHash({ view: "frames", row }));
  bar.style.left = `${begin / 10}%`;
  bar.style.width = `${length / 10}%`;
  return setAttributes(bar, { title: text, "aria-label": text });
}));
const FORMATS = {
  count: (value) => value === 0 ? el("span", "dim", "0") : formatCount(value), bytes: (value) => value ? formatSize(value) : "", duration: formatDuration, rate: (value) => value ? value.toFixed(value < 10 ? 1 : 0) : "",
  time: (value) => value ? formatTime(value) : "", findings: (value) => value ? findings(value) : "", spark: (value) => value ? spark(value) : "", spans: (value) => value.length ? lane(value) : "",
  text: (value) => value ?? "",
};
const isBlank = (value) => value === null || value === undefined || value === "" || value.length === 0;
const sortKey = (value, kind) => kind === "findings" ? (value ? value[0] * 1e12 + value[1] * 1e6 + value[2] : -1)
  : kind === "spans" ? value.length : kind === "spark" ? (value ? value.reduce((a, b) => a + b, 0) : -1) : kind === "text" ? (value ?? "") : value ?? -1;

export class TableView {
  constructor(app, name) {
    Object.assign(this, { app, name, maxRows: MAX_ROWS });
    this.table = el("table", "cards");
    this.about = el("p", "about dim");
    this.side = setAttributes(el("aside", "facts"), { "aria-label": "About the chosen row" });
    this.scrolling = setAttributes(el("div", "scroll", this.table), { tabindex: 0, role: "region" });
    this.box = el("div", "overview", el("div", "tables", this.about, this.scrolling), this.side);
  }
  async show(state) {
    const turn = this.turn = (this.turn || 0) + 1;
    const table = await this.app.source.table(this.name, state.filter);
    if (turn !== this.turn) return;
    this.data = table;
    this.draw(state);
  }
  async changed() {
    if (this.refreshing) return;
    this.refreshing = true;
    await this.show(this.app.state).catch(() => {});
    this.refreshing = false;
  }
  get sorted() {
    const { columns, rows, sort } = this.data, sortName = this.app.state.sort ?? sort, title = sortName.replace(/^-/, "");
    const index = columns.findIndex(([name]) => name === title);
    if (index < 0) return [rows, -1, false];
    const isDescending = sortName.startsWith("-"), kind = columns[index][1];
    const key = (row) => sortKey(row.values[index], kind);
    return [[...rows].sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      return (isDescending ? -1 : 1) * (left < right ? -1 : left > right ? 1 : 0);
    }), index, isDescending];
  }
  draw(state) {
    const { title, about, columns, more } = this.data, [rows, sortIndex, isDescending] = this.sorted;
    this.scrolling.setAttribute("aria-label", title);
    const filterNote = state.filter && this.app.source.isLive ? `  Only of rows that match ${state.filter}.` : state.filter ? "  Of all rows: the filter applies to frames." : "";
    this.about.replaceChildren(about + filterNote + (more ? `  ${more}.` : ""));
    const isFilled = columns.map((_, index) => !index || !rows.length || rows.some((row) => !isBlank(row.values[index])));
    const headers = columns.map(([name, kind], index) => {
      if (!isFilled[index]) return null;
      const order = index !== sortIndex ? null : isDescending ? "descending" : "ascending";
      return setAttributes(el("th", NUMBERS.includes(kind) ? "number" : "", sortButton(name, order, () => this.sort(name, kind))), { scope: "col", "aria-sort": order });
    });
    const body = el("tbody", "", ...rows.slice(0, this.maxRows).map((row) => this.row(row, columns, isFilled, state)));
    this.table.replaceChildren(setAttributes(el("caption", "hidden", title), {}), el("thead", "", el("tr", "", ...headers)), body);
    if (!rows.length) body.append(el("tr", "", setAttributes(el("td", "none", `no ${title.toLowerCase()} here${state.filter ? `: nothing matches ${state.filter}` : ""}`), { colspan: columns.length })));
    if (rows.length > this.maxRows) {
      body.append(el("tr", "", setAttributes(el("td", "", button("more", `show ${(rows.length - this.maxRows).toLocaleString("en")} more`, () => { this.maxRows += 2000; this.draw(this.app.state); })), { colspan: columns.length })));
    }
    this.app.setStatus(`${pluralize(rows.length, "row")}${this.data.busy ? " so far" : ""}`, this);
    this.drawFacts(rows.find((row) => row.key === state.key));
  }
  row(row, columns, isFilled, state) {
    const element = el("tr", row.key === state.key ? "chosen" : "", ...columns.map(([title, kind, style], index) => {
      if (!isFilled[index]) return null;
      const value = row.values[index], content = FORMATS[kind](value);
      const children = index === columns.findIndex(([, , columnStyle]) => columnStyle === "name" || columnStyle === "topic") ? anchor("", toHash({ ...state, key: row.key }), content) : content;
      const cell = el("td", `${NUMBERS.includes(kind) ? "number " : ""}${value ? row.styles[title] ?? style : ""}`, children);
      cell.dataset.label = title; // a narrow screen shows it beside the value
      if (kind === "text" && value && value.length > 24) cell.title = value;
      return cell;
    }));
    element.addEventListener("click", (event) => { if (getSelection().isCollapsed && !event.target.closest("a")) this.app.go({ key: row.key }); });
    return element;
  }
  drawFacts(row) {
    this.side.hidden = !row;
    this.box.classList.toggle("open", Boolean(row));
    if (!row) return;
    const frames = row.filter ? anchor("primary", toHash({ view: "frames", filter: row.filter }), "its frames") : row.row !== null ? anchor("primary", toHash({ view: "frames", row: row.row }), "its frame") : null;
    const reads = row.reads_filter ? anchor("", toHash({ view: "frames", filter: row.reads_filter }), "its Fetch requests") : null;
    const records = row.filter ? anchor("", toHash({ view: "records", filter: row.reads_filter ?? row.filter }), "its records") : null;
    const errorsIndex = this.data.columns.findIndex(([title]) => title === "errors"), hasErrors = row.filter && errorsIndex >= 0 && row.values[errorsIndex];
    const errors = hasErrors ? anchor("", toHash({ view: "frames", filter: `${row.filter} and error!=0` }), "its errors") : null;
    const ladder = row.filter && HAS_LADDER.includes(this.name) ? anchor("", toHash({ view: "ladder", filter: row.filter }), "its ladder") : null;
    const ladderAt = (number) => ladder ? [" (", anchor("", toHash({ view: "ladder", filter: row.filter, row: number }), "ladder"), ")"] : null;
    const marks = row.marks.map(([label, number]) => el("li", "", anchor("", toHash({ view: "frames", row: number }), label), ladderAt(number)));
    const values = this.data.columns.map(([title, kind], index) => [title, kind === "time" && row.values[index] ? formatFullTime(row.values[index]) : FORMATS[kind](row.values[index])])
      .filter(([title, content], index) => content && content.length !== 0 && row.values[index] !== 0 && !row.facts.some(([label]) => label === title));
    this.side.replaceChildren(el("div", "head", el("h2", "", row.key), button("close", "close", () => this.app.go({ key: undefined }))), el("p", "links", frames, "  ", reads, reads ? "  " : null, records, "  ", errors, "  ", ladder),
      el("dl", "", ...[...values, ...row.facts].flatMap(([label, content]) => [el("dt", "", label), el("dd", "", content)])),
      marks.length ? el("h3", "", "frames") : null, el("ul", "", ...marks));
  }
  sort(name, kind) {
    const current = this.app.state.sort ?? this.data.sort, initial = NUMBERS.includes(kind) || ["findings", "spark", "spans"].includes(kind) ? `-${name}` : name;
    const reversed = initial.startsWith("-") ? name : `-${name}`;
    this.app.go({ sort: current === initial ? reversed : initial });
  }
  downloads() {
    const { columns, rows } = this.data;
    const plainValue = (value) => Array.isArray(value) ? value.map((item) => Array.isArray(item) ? `${item[2]} ${item[3]} ms` : item).join(" ") : value;
    return [
      ["rows as CSV", () => saveFile(`kproxy-${this.name}.csv`, toCsv(columns.map(([title, kind]) => `${title}${kind === "duration" || kind === "time" ? " (us)" : ""}`), rows.map((row) => row.values.map(plainValue))), "text/csv")],
      ["rows as JSON lines", () => saveFile(`kproxy-${this.name}.jsonl`, rows.map((row) => `${JSON.stringify(Object.fromEntries(columns.map(([title], index) => [title, row.values[index]])))}\n`).join(""), "application/x-ndjson")],
    ];
  }
  key(event) {
    if (event.target.closest("input, button") && event.key !== "Escape") return false;
    const rows = this.data ? this.sorted[0].slice(0, this.maxRows) : [], index = rows.findIndex((row) => row.key === this.app.state.key);
    const selectAt = (target) => { this.app.go({ key: rows[Math.max(0, Math.min(target, rows.length - 1))]?.key }, { replace: index >= 0 }); this.table.querySelector(".chosen")?.scrollIntoView({ block: "nearest" }); };
    const actions = {
      j: () => selectAt(index + 1), k: () => selectAt(index - 1), ArrowDown: () => selectAt(index + 1), ArrowUp: () => selectAt(index - 1), g: () => selectAt(0), G: () => selectAt(rows.length - 1),
      Escape: () => this.app.go({ key: undefined }), Enter: () => { if (index >= 0 && rows[index].filter) this.app.go({ view: "frames", filter: rows[index].filter, key: undefined, sort: undefined }); },
    };
    if (!actions[event.key] || !rows.length || (event.key === "Enter" && event.target.closest("a"))) return false;
    actions[event.key]();
    return true;
  }
}
