/* The list of frames, and one exchange below it. */
import { $, anchor, announce, setAttributes, button, pluralize, el, saveSetting, loadSetting } from "./elements.js";
import { copyTexts, toCsv, toJson, saveFile } from "./copies.js";
import { drawSide } from "./exchange.js";
import { formatDuration, formatFullTime, formatSize, formatTime, timeTitle, timeWidth } from "./formats.js";
import { menu } from "./menu.js";
import { toHash, quote } from "./router.js";
import { API, CLIENT, CONNECTION, KIND, LATENCY, LEVEL, NUMBER, ONE_WAY, SIZE, STATE, TIME, UNANSWERED, VERSION, WAITING, WHAT, WRONG, shortName } from "./rows.js";
import { Scroller } from "./scroller.js";

/** The columns: name, title, width, what to sort by, and the least width of the window that shows it in a table. */
const COLUMNS = [
  ["time", "time", "var(--time)", "time", 0], ["conn", "conn", "46px", "connection", 1000],
  ["client", "client", "minmax(70px, 1fr)", "client", 1000], ["api", "API", "minmax(min(200px, 24vw), 1.2fr)", "api", 0],
  ["what", "what", "minmax(120px, 3fr)", "", 0], ["size", "size", "68px", "size", 1000],
  ["latency", "latency", "78px", "latency", 0], ["wrong", "error / finding", "minmax(120px, 2.4fr)", "findings", 0],
];
/** The columns of a narrow window, which has several lines for a frame: `page.css`. */
const PHONE_WIDTH = 620, PHONE_COLUMNS = ["time", "client", "api", "what", "latency", "wrong"];
/** About a link to a server on loopback, without its token. */
const ONLY_HERE = "It works in this browser, while this server runs. For others, use Markdown, or download the frame.";
/** Orders that begin with the least; the others begin with the highest. */
const RISING = ["time", "api", "client", "connection"];
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 24;
const latencyOf = (row) => {
  if (row[STATE] === ONE_WAY) return "no answer";
  if (row[STATE] === UNANSWERED) return "never";
  const waited = formatDuration(row[LATENCY]);
  return row[STATE] === WAITING && !row[KIND] ? `> ${waited}` : waited;
};

export class FramesView {
  constructor(app) {
    this.app = app;
    this.query = null;
    this.chosen = -1;  /* a row's number */
    this.at = -1;  /* its position */
    this.panes = [];
    this.hidden = new Set(loadSetting("hidden", "").split(" ").filter(Boolean));
    this.head = el("div", "row");
    this.list = setAttributes(el("div", "", this.head), { role: "grid", "aria-label": "Frames", tabindex: 0, id: "list" });
    setAttributes(this.head, { id: "columns", role: "row" });
    this.detail = setAttributes(el("section", ""), { id: "detail", "aria-label": "Exchange" });
    this.detail.hidden = true;
    this.box = el("div", "frames", this.list, this.detail);
    this.scroller = new Scroller(this.list, rowHeight, (position) => this.draw(position), this.head);
    setAttributes(this.scroller.inner, { id: "rows", role: "rowgroup" });
    addEventListener("resize", () => { this.layout(); this.scroller.set(this.query ? this.query.count : 0); this.panes.forEach((pane) => pane.start()); });
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }
  print(all) {
    if (!this.query) return;
    this.scroller.print(all);
    this.panes.forEach((pane) => pane.print(all));
  }
  get visibleColumns() {
    return COLUMNS.filter(([name, , , , least]) => !this.hidden.has(name) && (innerWidth > PHONE_WIDTH ? innerWidth >= least : PHONE_COLUMNS.includes(name)));
  }
  layout() {
    this.list.style.setProperty("--time", `${timeWidth()}px`);
    this.list.style.setProperty("--grid", this.visibleColumns.map(([, , width]) => width).join(" "));
    const [by, down] = [(this.app.state.sort || "time").replace(/^-/, ""), (this.app.state.sort || "").startsWith("-")];
    this.head.replaceChildren(...this.visibleColumns.map(([name, title, , sort]) => {
      const text = name === "time" ? timeTitle() : title, sorted = sort === by, rises = RISING.includes(sort) !== down;
      const inside = sort ? button("", [text, sorted ? el("span", "arrow", rises ? " ▲" : " ▼") : null], () => this.sort(sort)) : text;
      return setAttributes(el("span", name, inside), { role: "columnheader", "aria-sort": sorted ? (rises ? "ascending" : "descending") : sort ? "none" : null });
    }));
  }
  sort(name) {
    const now = this.app.state.sort || "time", first = name === "time" ? undefined : name;
    this.app.go({ sort: now === name ? `-${name}` : now === `-${name}` ? undefined : first });
  }
  columnItems() {
    return COLUMNS.map(([name, title]) => {
      const check = setAttributes(el("input", ""), { type: "checkbox" });
      check.checked = !this.hidden.has(name);
      check.addEventListener("change", () => {
        if (check.checked) this.hidden.delete(name); else this.hidden.add(name);
        saveSetting("hidden", [...this.hidden].join(" "));
        this.redraw();
      });
      return el("label", "", check, ` ${title}`);
    });
  }
  redraw() {
    this.layout();
    this.scroller.redraw();
  }
  draw(position) {
    const row = this.query.row(position);
    if (!row) return el("div", "row loading", el("span", "dim", "…"));
    const before = position ? this.query.row(position - 1) : undefined;
    const cells = {
      time: () => [formatTime(row[TIME], before ? before[TIME] : undefined), formatFullTime(row[TIME])],
      conn: () => [shortName(row[CONNECTION]), row[CONNECTION]],
      client: () => [row[CLIENT], row[CLIENT]],
      api: () => [[el("b", "", row[API] || row[KIND]), el("span", "version", ` ${row[VERSION]}`)]],
      what: () => [row[WHAT], row[WHAT]],
      size: () => [formatSize(row[SIZE])],
      latency: () => [latencyOf(row)],
      wrong: () => [row[WRONG].map(([text, style]) => el("span", style, `${text} `)), row[WRONG].map(([text]) => text).join(" ")],
    };
    const made = el("div", `row${row[LEVEL] ? ` is-${row[LEVEL]}` : ""}${row[KIND] ? " event" : ""}`, ...this.visibleColumns.map(([name]) => {
      const [inside, title] = cells[name](), cell = setAttributes(el("span", name, inside), { role: "gridcell" });
      if (title) cell.title = title;
      return cell;
    }));
    if (row[STATE] === UNANSWERED) made.querySelector(".latency")?.classList.add("error");
    setAttributes(made, { role: "row", "aria-rowindex": position + 2, "aria-selected": row[NUMBER] === this.chosen });
    made.id = `row-${row[NUMBER]}`;
    if (row[NUMBER] === this.chosen) made.classList.add("chosen");
    made.addEventListener("click", () => { if (getSelection().isCollapsed) this.openAt(position); });
    return made;
  }
  /** Shows what a state says: asks again if filter or order are others, opens or closes an exchange. */
  async show(state, before) {
    const key = JSON.stringify([state.filter, state.only, state.sort]);
    if (key !== this.asked) {
      this.asked = key;
      let query;
      try {
        query = await this.app.source.query({ text: state.filter, only: state.only, sort: state.sort });
      } catch (error) {
        this.asked = "";
        if (this.query) { this.app.count(this.query, this); return; }
        query = await this.app.source.query({ text: "", only: state.only, sort: state.sort });
        if (error.name !== "Error") announce(String(error.message));
      }
      if (key !== this.asked && this.asked !== "") return;
      this.query = query;
      this.query.onLoad = () => { if (this.scroller.inner.querySelector(".loading")) this.scroller.redraw(); };
      this.layout();
      this.fill();
      if (before && before.view === "frames") this.list.scrollTop = 0;
    } else if (!before || before.view !== "frames") this.redraw();
    this.app.count(this.query, this);
    if (state.row === undefined) this.close();
    else if (state.row !== this.opened || !before || before.view !== "frames") await this.open(state.row, state.at);
    else if (state.at && state.at !== this.pointed) this.point(state.at);
  }
  fill() {
    this.scroller.set(this.query.count);
    setAttributes(this.list, { "aria-rowcount": this.query.count + 1 });
    if (!this.query.count) this.scroller.inner.append(el("p", "none", ...this.app.emptiness(this.query)));
  }
  /** The source has grown. */
  async changed() {
    if (!this.query || this.refreshing) { this.again = Boolean(this.query); return; }
    this.refreshing = true;
    try {
      const follows = this.app.source.state.live && !this.app.state.sort && this.scroller.isAtEnd;
      await this.query.refresh(this.scroller.range()[0]);
      const top = this.list.scrollTop;
      this.fill();
      this.list.scrollTop = follows ? this.scroller.inner.offsetHeight : top;
      this.app.count(this.query, this);
    } catch { /* the server is gone, which the header says */ } finally { this.refreshing = false; }
    if (this.again) { this.again = false; this.changed(); }
  }
  /** Moves the cursor to a position; returns the row there, once it is known. */
  async choose(position) {
    if (!this.query || !this.query.count) return null;
    const at = Math.max(0, Math.min(position, this.query.count - 1));
    this.scroller.show(at);
    const known = this.query.row(at);
    this.mark(known ? known[NUMBER] : -1, at);
    if (known) return known;
    const row = await this.query.rowAt(at);
    if (this.at === at && row) this.mark(row[NUMBER], at);
    return row;
  }
  mark(number, at) {
    const before = document.getElementById(`row-${this.chosen}`);
    if (before) { before.classList.remove("chosen"); setAttributes(before, { "aria-selected": false }); }
    [this.chosen, this.at] = [number, at];
    const now = document.getElementById(`row-${number}`);
    if (now) { now.classList.add("chosen"); setAttributes(now, { "aria-selected": true }); }
    setAttributes(this.list, { "aria-activedescendant": number < 0 ? null : `row-${number}` });
  }
  async openAt(position) {
    const row = await this.choose(position);
    if (row) this.app.go({ row: row[NUMBER], at: undefined }, { replace: this.opened !== undefined });
  }
  /** Moves the cursor by a page, from where the list was scrolled to if the cursor is out of sight. */
  movePage(pages) {
    const [first, end] = this.scroller.range(), page = Math.max(1, Math.floor(this.scroller.viewportHeight / rowHeight()) - 1);
    if (this.at < first || this.at >= end) this.at = pages > 0 ? first : end - 1;
    this.move(pages * page);
  }
  move(by) {
    const from = this.at < 0 ? (by > 0 ? -1 : this.query.count) : this.at;
    if (this.opened !== undefined) this.openAt(from + by); else this.choose(from + by);
  }
  close() {
    if (this.opened === undefined) return;
    this.opened = undefined;
    this.panes = [];
    this.detail.hidden = true;
    this.box.classList.remove("open");
    document.body.classList.remove("reading");
    this.scroller.paint();
    if (this.at >= 0) this.scroller.show(this.at);
    this.list.focus({ preventScroll: true });
  }
  async open(number, at) {
    this.opened = number;
    const exchange = await this.app.source.exchange(number).catch((error) => { announce(error.message); return null; });
    if (this.opened !== number) return;
    if (!exchange) { this.app.go({ row: undefined, at: undefined }, { replace: true }); return; }
    const position = await this.query.position(number);
    if (this.opened !== number) return;
    this.panes = [];
    const findings = el("div", "findings"), columns = el("div", "sides", findings);
    exchange.lines.forEach((line, index) => {
      const side = exchange.sides && exchange.sides[line.kind === "response" ? 1 : 0];
      columns.append(drawSide(line, exchange.findings[index], side, exchange.missing, findings, this.panes, (path) => this.selected(path)));
    });
    this.detail.replaceChildren(this.header(exchange), columns);
    this.detail.hidden = false;
    this.box.classList.add("open");
    document.body.classList.add("reading");
    this.panes.forEach((pane) => pane.start());
    this.layout();
    this.scroller.paint();
    if (position >= 0) this.scroller.show(position);
    this.mark(number, position);
    this.pointed = undefined;
    if (at) this.point(at);
    document.documentElement.dataset.opened = String(number);
  }
  header(exchange) {
    const { isLive } = this.app.source, { row, lines } = exchange, [line] = lines, narrow = (text) => toHash({ view: "frames", filter: text });
    const facts = el("span", "grow", formatFullTime(row[TIME]), "  ·  ",
      line.connection_id ? anchor("", narrow(`connection=${quote(line.connection_id)}`), line.connection_id) : null,
      line.connection_id ? [" (", anchor("", toHash({ view: "ladder", filter: `connection=${quote(line.connection_id)}`, row: row[NUMBER] }), "ladder"), ")"] : null,
      line.client ? `  ·  ${line.client} → ${line.server}` : null, line.client_id ? "  ·  client " : null,
      line.client_id ? anchor("", narrow(`client_id=${quote(line.client_id)}`), line.client_id) : null,
      latencyOf(row) ? `  ·  ${latencyOf(row)}` : null);
    const close = () => this.app.go({ row: undefined, at: undefined });
    const copy = (text, name) => navigator.clipboard ? navigator.clipboard.writeText(text).then(() => announce(`copied: ${name}`), () => announce("the browser does not allow copying"))
      : announce("the browser allows copying only on localhost or over https");
    const named = (name, title, inside, act) => setAttributes(button(name, inside, act), { title, "aria-label": title });
    return el("div", "head", el("h2", "", `${shortName(row[CONNECTION])} ${row[API] || row[KIND]} ${row[VERSION]}`.trim()), facts,
      menu("copy ▾", "Copy this exchange", () => [["link", () => copy(location.href, isLive ? `link. ${ONLY_HERE}` : "link"), isLive ? ONLY_HERE : undefined], ...copyTexts(exchange).map(([name, text]) => [name, () => copy(text, name)]),
        ["download as JSON", () => saveFile(`frame-${row[NUMBER]}.json`, toJson(exchange), "application/json")], ...this.captures(row[NUMBER])]),
      named("previous", "previous (k)", "‹", () => this.move(-1)), named("next", "next (j)", "›", () => this.move(1)), button("close", "close", close));
  }
  selected(path) {
    this.pointed = path;
    this.app.go({ at: path }, { replace: true });
  }
  point(at) {
    const [kind, path] = at.split(/:(.*)/s);
    this.pointed = at;
    this.panes.find((pane) => pane.kind === kind)?.selectPath(path || "");
  }
  /** The item of a menu that saves the rows, or one exchange, as a capture; none without a server that makes it. */
  captures(number) {
    const { source } = this.app, one = number !== undefined, name = one ? `frame-${number}` : "kproxy-rows";
    const make = () => source.capture(this.query, number).then((made) => saveFile(`${name}.pcapng`, made, "application/x-pcapng"), (error) => announce(error.message));
    return source.capture ? [[one ? "download as capture (pcapng)" : "rows as capture (pcapng)", make]] : [];
  }
  /** Actions of the menu of downloads. */
  downloads(query = this.query) {
    const { source } = this.app, name = "kproxy-rows";
    const here = (format) => source.download(format, query);
    const link = (format, title) => here(format) ? setAttributes(anchor("", here(format), title), { download: "", role: "menuitem" }) : null;
    const csv = async () => saveFile(`${name}.csv`, toCsv(["time", "connection", "client", "API", "version", "what", "bytes", "latency_us", "error / finding"],
      (await query.all(Infinity)).map((row) => [new Date(row[TIME] / 1000).toISOString(), row[CONNECTION], row[CLIENT], row[API] || row[KIND], row[VERSION], row[WHAT], row[SIZE], row[LATENCY], row[WRONG].map(([text]) => text).join(" ")])), "text/csv");
    const lines = async () => {
      const all = await query.all(Infinity), parts = [];
      for (const row of all) parts.push(...(await source.exchange(row[NUMBER])).lines.map((line) => JSON.stringify(line)));
      saveFile(`${name}.jsonl`, `${parts.join("\n")}\n`, "application/x-ndjson");
    };
    return [...this.captures(), link("jsonl", "rows as JSON lines") || ["rows as JSON lines", lines], link("csv", "rows as CSV") || ["rows as CSV", csv]];
  }
  key(event) {
    const pane = this.panes.find(({ tree }) => tree === event.target);
    if (pane && pane.key(event)) return true;
    const last = this.query ? this.query.count - 1 : 0;
    const acts = {
      j: () => this.move(1), k: () => this.move(-1), ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1),
      PageDown: () => this.movePage(1), PageUp: () => this.movePage(-1), g: () => this.choose(0), G: () => this.choose(last),
      Home: () => this.choose(0), End: () => this.choose(last),
      Escape: () => this.opened !== undefined && this.app.go({ row: undefined, at: undefined }),
      Enter: () => this.openAt(Math.max(0, this.at)),
    };
    const other = event.target.closest("button, a, summary, .hex, .list-of-records, .text-of-line, input");
    if (!acts[event.key] || (other && event.key !== "Escape" && event.key !== "j" && event.key !== "k")) return false;
    acts[event.key]();
    return true;
  }
  status() { return this.query ? (this.query.count === this.query.total ? pluralize(this.query.total, "row") : `${this.query.count.toLocaleString("en")} of ${pluralize(this.query.total, "row")}`) : ""; }
}
