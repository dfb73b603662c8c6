/* The list of frames, and one exchange below it. */
import { anchor, announce, button, el, loadSetting, pluralize, saveSetting, setAttributes, sortButton } from "./elements.js";
import { copyTexts, saveFile, toCsv, toJson } from "./copies.js";
import { drawSide } from "./exchange.js";
import { formatDuration, formatFullTime, formatSize, formatTime, timeTitle, timeWidth } from "./formats.js";
import { menu } from "./menu.js";
import { quote, toHash } from "./router.js";
import { API, CLIENT, CONNECTION, KIND, LATENCY, LEVEL, NUMBER, ONE_WAY, SIZE, STATE, TIME, UNANSWERED, VERSION, WAITING, WHAT, WRONG, shortName } from "./rows.js";
import { Scroller } from "./scroller.js";

/** The columns: name, title, width, sort key, and the minimum width of the window that shows it in a table. */
const COLUMNS = [
  ["time", "time", "var(--time)", "time", 0], ["conn", "conn", "46px", "connection", 1000],
  ["client", "client", "minmax(70px, 1fr)", "client", 1000], ["api", "API", "minmax(min(200px, 24vw), 1.2fr)", "api", 0],
  ["what", "what", "minmax(120px, 3fr)", "", 0], ["size", "size", "68px", "size", 1000],
  ["latency", "latency", "78px", "latency", 0], ["wrong", "error / finding", "minmax(120px, 2.4fr)", "findings", 0],
];
/** The columns of a narrow window, which shows a frame on several lines (`page.css`). */
const PHONE_WIDTH = 620, PHONE_COLUMNS = ["time", "client", "api", "what", "latency", "wrong"];
/** The note about a copied link to a server on loopback; the link has no token. */
const ONLY_HERE = "It works in this browser, while this server runs. For others, use Markdown, or download the frame.";
/** Columns whose first order is ascending; that of others is descending. */
const RISING = ["time", "api", "client", "connection"];
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 24;
const latencyOf = (row) => {
  if (row[STATE] === ONE_WAY) return "no answer";
  if (row[STATE] === UNANSWERED) return "never";
  const text = formatDuration(row[LATENCY]);
  return row[STATE] === WAITING && !row[KIND] ? `> ${text}` : text;
};

export class FramesView {
  constructor(app) {
    this.app = app;
    this.query = null;
    this.selected = -1;  /* the number of the selected row */
    this.position = -1;  /* its position in the query */
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
  print(isPrinting) {
    if (!this.query) return;
    this.scroller.print(isPrinting);
    this.panes.forEach((pane) => pane.print(isPrinting));
  }
  get visibleColumns() {
    return COLUMNS.filter(([name, , , , minWidth]) => !this.hidden.has(name) && (innerWidth > PHONE_WIDTH ? innerWidth >= minWidth : PHONE_COLUMNS.includes(name)));
  }
  layout() {
    this.list.style.setProperty("--time", `${timeWidth()}px`);
    this.list.style.setProperty("--grid", this.visibleColumns.map(([, , width]) => width).join(" "));
    const [sortName, isDescending] = [(this.app.state.sort || "time").replace(/^-/, ""), (this.app.state.sort || "").startsWith("-")];
    this.head.replaceChildren(...this.visibleColumns.map(([name, title, , sort]) => {
      const text = name === "time" ? timeTitle() : title, isSorted = sort === sortName, isAscending = RISING.includes(sort) !== isDescending;
      const order = isSorted ? (isAscending ? "ascending" : "descending") : null;
      return setAttributes(el("span", name, sort ? sortButton(text, order, () => this.sort(sort)) : text), { role: "columnheader", "aria-sort": order ?? (sort ? "none" : null) });
    }));
  }
  sort(name) {
    const current = this.app.state.sort || "time", initial = name === "time" ? undefined : name;
    this.app.go({ sort: current === name ? `-${name}` : current === `-${name}` ? undefined : initial });
  }
  columnItems() {
    return COLUMNS.filter(([name]) => innerWidth > PHONE_WIDTH || PHONE_COLUMNS.includes(name)).map(([name, title]) => {
      const checkbox = setAttributes(el("input", ""), { type: "checkbox" });
      checkbox.checked = !this.hidden.has(name);
      checkbox.addEventListener("change", () => {
        if (checkbox.checked) this.hidden.delete(name); else this.hidden.add(name);
        saveSetting("hidden", [...this.hidden].join(" "));
        this.redraw();
      });
      return el("label", "", checkbox, ` ${title}`);
    });
  }
  redraw() {
    this.layout();
    this.scroller.redraw();
  }
  draw(position) {
    const row = this.query.row(position);
    if (!row) return el("div", "row loading", el("span", "dim", "…"));
    const rowAbove = position ? this.query.row(position - 1) : undefined;
    const cells = {
      time: () => [formatTime(row[TIME], rowAbove ? rowAbove[TIME] : undefined), formatFullTime(row[TIME])],
      conn: () => [shortName(row[CONNECTION]), row[CONNECTION]],
      client: () => [row[CLIENT], row[CLIENT]],
      api: () => [[el("b", "", row[API] || row[KIND]), el("span", "version", ` ${row[VERSION]}`)]],
      what: () => [row[WHAT], row[WHAT]],
      size: () => [formatSize(row[SIZE])],
      latency: () => [latencyOf(row)],
      wrong: () => [row[WRONG].map(([text, style]) => el("span", style, `${text} `)), row[WRONG].map(([text]) => text).join(" ")],
    };
    const element = el("div", `row${row[LEVEL] ? ` is-${row[LEVEL]}` : ""}${row[KIND] ? " event" : ""}`, ...this.visibleColumns.map(([name]) => {
      const [content, title] = cells[name](), cell = setAttributes(el("span", name, content), { role: "gridcell" });
      if (title) cell.title = title;
      return cell;
    }));
    if (row[STATE] === UNANSWERED) element.querySelector(".latency")?.classList.add("error");
    setAttributes(element, { role: "row", "aria-rowindex": position + 2, "aria-selected": row[NUMBER] === this.selected });
    element.id = `row-${row[NUMBER]}`;
    if (row[NUMBER] === this.selected) element.classList.add("chosen");
    element.addEventListener("click", () => { if (getSelection().isCollapsed) this.openAt(position); });
    return element;
  }
  /** Shows a state: queries again if filter or order changed, and opens or closes an exchange. */
  async show(state, previous) {
    const queryKey = JSON.stringify([state.filter, state.only, state.sort]);
    if (queryKey !== this.queryKey) {
      this.queryKey = queryKey;
      let query;
      try {
        query = await this.app.source.query({ text: state.filter, only: state.only, sort: state.sort });
      } catch (error) {
        this.queryKey = "";
        if (this.query) { this.app.showCount(this.query, this); return; }
        query = await this.app.source.query({ text: "", only: state.only, sort: state.sort });
        if (error.name !== "Error") announce(String(error.message));
      }
      if (queryKey !== this.queryKey && this.queryKey !== "") return;
      this.query = query;
      this.position = this.selected < 0 ? -1 : await query.position(this.selected);
      if (queryKey !== this.queryKey && this.queryKey !== "") return;
      this.query.onLoad = () => { if (this.scroller.inner.querySelector(".loading")) this.scroller.redraw(); };
      this.layout();
      this.fill();
      if (previous && previous.view === "frames") this.list.scrollTop = 0;
    } else if (!previous || previous.view !== "frames") this.redraw();
    this.app.showCount(this.query, this);
    if (state.row === undefined) this.close();
    else if (state.row !== this.opened || !previous || previous.view !== "frames") await this.open(state.row, state.at);
    else if (state.at && state.at !== this.fieldPath) this.selectField(state.at);
  }
  fill() {
    this.scroller.set(this.query.count);
    setAttributes(this.list, { "aria-rowcount": this.query.count + 1 });
    if (!this.query.count) this.scroller.inner.append(el("p", "none", ...this.app.emptyMessage(this.query)));
  }
  /** Called when the source has more rows. */
  async changed() {
    if (!this.query || this.refreshing) { this.isOutdated = Boolean(this.query); return; }
    this.refreshing = true;
    try {
      const follows = this.app.source.state.live && !this.app.state.sort && this.scroller.isAtEnd;
      await this.query.refresh(this.scroller.range()[0]);
      const top = this.list.scrollTop;
      this.fill();
      this.list.scrollTop = follows ? this.scroller.inner.offsetHeight : top;
      this.app.showCount(this.query, this);
    } catch { /* the server is gone, which the header says */ } finally { this.refreshing = false; }
    if (this.isOutdated) { this.isOutdated = false; this.changed(); }
  }
  /** Selects the row at a position; returns it when it is loaded. */
  async selectAt(position) {
    if (!this.query || !this.query.count) return null;
    const target = Math.max(0, Math.min(position, this.query.count - 1));
    this.scroller.show(target);
    const loadedRow = this.query.row(target);
    this.select(loadedRow ? loadedRow[NUMBER] : -1, target);
    if (loadedRow) return loadedRow;
    const row = await this.query.rowAt(target);
    if (this.position === target && row) this.select(row[NUMBER], target);
    return row;
  }
  select(number, position) {
    const previousElement = document.getElementById(`row-${this.selected}`);
    if (previousElement) { previousElement.classList.remove("chosen"); setAttributes(previousElement, { "aria-selected": false }); }
    [this.selected, this.position] = [number, position];
    const selectedElement = document.getElementById(`row-${number}`);
    if (selectedElement) { selectedElement.classList.add("chosen"); setAttributes(selectedElement, { "aria-selected": true }); }
    setAttributes(this.list, { "aria-activedescendant": number < 0 ? null : `row-${number}` });
  }
  async openAt(position) {
    const row = await this.selectAt(position);
    if (row) this.app.go({ row: row[NUMBER], at: undefined }, { replace: this.opened !== undefined });
  }
  /** Moves the selection by pages; starts at the visible rows if the selected row is not visible. */
  movePage(pages) {
    const [first, end] = this.scroller.range(), page = Math.max(1, Math.floor(this.scroller.viewportHeight / rowHeight()) - 1);
    if (this.position < first || this.position >= end) this.position = pages > 0 ? first : end - 1;
    this.move(pages * page);
  }
  move(steps) {
    const start = this.position < 0 ? (steps > 0 ? -1 : this.query.count) : this.position;
    if (this.opened !== undefined) this.openAt(start + steps); else this.selectAt(start + steps);
  }
  close() {
    if (this.opened === undefined) return;
    this.opened = undefined;
    this.panes = [];
    this.detail.hidden = true;
    this.box.classList.remove("open");
    document.body.classList.remove("reading");
    this.scroller.paint();
    if (this.position >= 0) this.scroller.show(this.position);
    this.list.focus({ preventScroll: true });
  }
  async open(number, fieldPath) {
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
      columns.append(drawSide(line, exchange.findings[index], side, exchange.missing, findings, this.panes, (path) => this.onFieldSelected(path)));
    });
    this.detail.replaceChildren(this.header(exchange), columns);
    this.detail.hidden = false;
    this.box.classList.add("open");
    document.body.classList.add("reading");
    this.panes.forEach((pane) => pane.start());
    this.layout();
    this.scroller.paint();
    if (position >= 0) this.scroller.show(position);
    this.select(number, position);
    this.fieldPath = undefined;
    if (fieldPath) this.selectField(fieldPath);
    document.documentElement.dataset.opened = String(number);
  }
  header(exchange) {
    const { isLive } = this.app.source, { row, lines } = exchange, [line] = lines, framesHash = (text) => toHash({ view: "frames", filter: text });
    const facts = el("span", "grow", formatFullTime(row[TIME]), "  ·  ",
      line.connection_id ? anchor("", framesHash(`connection=${quote(line.connection_id)}`), line.connection_id) : null,
      line.connection_id ? [" (", anchor("", toHash({ view: "ladder", filter: `connection=${quote(line.connection_id)}`, row: row[NUMBER] }), "ladder"), ")"] : null,
      line.client ? `  ·  ${line.client} → ${line.server}` : null, line.client_id ? "  ·  client " : null,
      line.client_id ? anchor("", framesHash(`client_id=${quote(line.client_id)}`), line.client_id) : null,
      latencyOf(row) ? `  ·  ${latencyOf(row)}` : null);
    const close = () => this.app.go({ row: undefined, at: undefined });
    const copy = (text, name) => navigator.clipboard ? navigator.clipboard.writeText(text).then(() => announce(`copied: ${name}`), () => announce("the browser does not allow copying"))
      : announce("the browser allows copying only on localhost or over https");
    const titledButton = (className, title, children, onClick) => setAttributes(button(className, children, onClick), { title, "aria-label": title });
    return el("div", "head", el("h2", "", `${`${row[API] || row[KIND]} ${row[VERSION]}`.trim()} on ${shortName(row[CONNECTION])}`), facts,
      menu("copy or save ▾", "Copy or save this exchange", () => [[isLive ? "copy link (for this browser)" : "copy link", () => copy(location.href, isLive ? `link. ${ONLY_HERE}` : "link"), isLive ? ONLY_HERE : undefined], ...copyTexts(exchange).map(([name, text]) => [`copy ${name}`, () => copy(text, name)]),
        ["download as JSON", () => saveFile(`frame-${row[NUMBER]}.json`, toJson(exchange), "application/json")], ...this.fileItems(this.query, row[NUMBER])]),
      titledButton("previous", "previous (k)", "‹", () => this.move(-1)), titledButton("next", "next (j)", "›", () => this.move(1)), button("close", "close", close));
  }
  onFieldSelected(path) {
    this.fieldPath = path;
    this.app.go({ at: path }, { replace: true });
  }
  selectField(fieldId) {
    const [kind, path] = fieldId.split(/:(.*)/s);
    this.fieldPath = fieldId;
    this.panes.find((pane) => pane.kind === kind)?.selectPath(path || "");
  }
  /** Returns the menu items that save the rows of a query, or one exchange, as a capture and as a page that opens without a server; only a server can make them. */
  fileItems(query, number) {
    const { source } = this.app, isSingle = number !== undefined, name = isSingle ? `frame-${number}` : "kproxy-rows", subject = isSingle ? "download" : pluralize(query.count, "row");
    const download = (format) => () => { announce("preparing the file …"); source.file(format, query, number).then((blob) => { announce(`saved: ${name}.${format}`); saveFile(`${name}.${format}`, blob, blob.type); }, (error) => announce(error.message)); };
    return source.file ? [[`${subject} as capture (pcapng)`, download("pcapng")], [`${subject} as page (HTML), for anybody`, download("html")]] : [];
  }
  /** Returns the items of the download menu. */
  downloads(query = this.query) {
    const { source } = this.app, name = "kproxy-rows";
    const downloadUrl = (format) => source.download(format, query);
    const link = (format, title) => downloadUrl(format) ? setAttributes(anchor("", downloadUrl(format), title), { download: "", role: "menuitem" }) : null;
    const csv = async () => saveFile(`${name}.csv`, toCsv(["time", "connection", "client", "API", "version", "what", "bytes", "latency_us", "error / finding"],
      (await query.all(Infinity)).map((row) => [new Date(row[TIME] / 1000).toISOString(), row[CONNECTION], row[CLIENT], row[API] || row[KIND], row[VERSION], row[WHAT], row[SIZE], row[LATENCY], row[WRONG].map(([text]) => text).join(" ")])), "text/csv");
    const lines = async () => {
      const rows = await query.all(Infinity), parts = [];
      for (const row of rows) parts.push(...(await source.exchange(row[NUMBER])).lines.map((line) => JSON.stringify(line)));
      saveFile(`${name}.jsonl`, `${parts.join("\n")}\n`, "application/x-ndjson");
    };
    const [asLines, asCsv] = [`${pluralize(query.count, "row")} as JSON lines`, `${pluralize(query.count, "row")} as CSV`];
    return [...this.fileItems(query), link("jsonl", asLines) || [asLines, lines], link("csv", asCsv) || [asCsv, csv]];
  }
  key(event) {
    const pane = this.panes.find(({ tree }) => tree === event.target);
    if (pane && pane.key(event)) return true;
    const last = this.query ? this.query.count - 1 : 0;
    const actions = {
      j: () => this.move(1), k: () => this.move(-1), ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1),
      PageDown: () => this.movePage(1), PageUp: () => this.movePage(-1), g: () => this.selectAt(0), G: () => this.selectAt(last),
      Home: () => this.selectAt(0), End: () => this.selectAt(last),
      Escape: () => this.opened !== undefined && this.app.go({ row: undefined, at: undefined }),
      Enter: () => this.openAt(Math.max(0, this.position)),
    };
    const control = event.target.closest("button, a, summary, .hex, .list-of-records, .text-of-line, input");
    if (!actions[event.key] || (control && event.key !== "Escape" && event.key !== "j" && event.key !== "k")) return false;
    actions[event.key]();
    return true;
  }
}
