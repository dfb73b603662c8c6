/* Timelines of groups and of transactions: spans and moments. */
import { anchor, el, pluralize, setAttributes, shape } from "./elements.js";
import { saveFile, toCsv } from "./copies.js";
import { formatDuration, formatFullTime, formatTime } from "./formats.js";
import { describeMarks, moveMark, redrawMarks } from "./marks.js";
import { toHash } from "./router.js";

const KINDS = { groups: "Groups", transactions: "Transactions" }, NOUNS = { groups: "group", transactions: "transactional id" }, LANE_HEIGHT = 18, LEGEND = {
  groups: [["member", "member"], ["rebalance", "joins, syncs, leaves"], ["stall", "stalled"], ["refused", "error"], ["routine", "routine error"], ["commit", "commit"], ["generation", "new generation"]],
  transactions: [["committed", "committed"], ["aborted", "aborted"], ["fenced", "fenced"], ["open", "open"]],
};
/** Moments are drawn as shapes that differ without colour. */
const symbol = (kind, x) => kind === "routine" ? `M${x - 3} 9h6` : kind === "refused" ? `M${x - 4} 5l8 8m0 -8l-8 8` : kind === "generation" ? `M${x} 1v16m0 -16l6 4l-6 4` : `M${x} 5v8`;

export class TimelinesView {
  constructor(app) {
    this.app = app;
    this.kindSelect = setAttributes(el("select", "", ...Object.entries(KINDS).map(([name, title]) => { const option = el("option", "", title); option.value = name; return option; })), { "aria-label": "Timelines of" });
    this.kindSelect.addEventListener("change", () => this.app.go({ key: this.kindSelect.value }));
    this.legend = el("span", "legend");
    this.charts = el("div", "charts timelines");
    this.scrolling = setAttributes(el("div", "scroll picture", this.charts), { tabindex: 0, role: "region", "aria-label": "Timelines" });
    this.description = el("p", "pointed");
    describeMarks(this.charts, this.description);
    this.box = el("div", "overview", el("div", "tables", el("p", "about dim", this.kindSelect, " ", this.legend), this.scrolling, this.description));
    addEventListener("resize", () => this.redraw());
    addEventListener("beforeprint", () => { if (this.data && this.box.isConnected) this.draw(700); });
    addEventListener("afterprint", () => this.redraw());
  }
  async show(state) {
    const turn = this.turn = (this.turn || 0) + 1, name = Object.hasOwn(KINDS, state.key || "") ? state.key : "groups", data = await this.app.source.timeline(name, state.filter);
    if (turn !== this.turn) return;
    Object.assign(this, { data, name });
    this.kindSelect.value = name;
    this.redraw();
  }
  async changed() {
    if (this.refreshing) return;
    this.refreshing = true;
    await this.show(this.app.state).catch(() => {});
    this.refreshing = false;
  }
  redraw() { if (this.data && this.box.isConnected) redrawMarks(this.charts, () => this.draw(this.scrolling.clientWidth - 24)); }
  draw(pixels) {
    const { from, to, timelines } = this.data, scale = (pixels - 12) / Math.max(1, to - from), x = (us) => 6 + (us - from) * scale;
    this.app.setStatus(pluralize(timelines.length, NOUNS[this.name]), this);
    this.legend.replaceChildren(...LEGEND[this.name].map(([kind, title]) => el("span", "", shape("svg", { width: 26, height: LANE_HEIGHT, "aria-hidden": "true" }, this.mark([6e6, 18e6, kind, title, null], (us) => us / 1e6, 0)), title)));
    if (!timelines.length) { this.charts.replaceChildren(el("p", "none", `No ${KINDS[this.name].toLowerCase()} here${this.app.state.filter ? `: nothing matches ${this.app.state.filter}` : ""}.`)); return; }
    const ticks = Math.max(1, Math.floor(pixels / 160)), height = 16;
    const axis = shape("svg", { width: pixels, height, "aria-hidden": "true" }, Array.from({ length: ticks + 1 }, (_, index) =>
      shape("text", { class: "tick", x: 6 + index / ticks * (pixels - 12), y: 12, "text-anchor": index === 0 ? "start" : index === ticks ? "end" : "middle" }, formatTime(Math.round(from + index / ticks * (to - from)), from))));
    this.charts.replaceChildren(axis, ...timelines.flatMap(({ name, filter, lanes }) => [
      el("h2", "", name, " ", filter ? anchor("small", toHash({ view: "frames", filter }), "its frames") : null, " ", filter ? anchor("small", toHash({ view: "ladder", filter }), "its ladder") : null),
      ...lanes.filter(({ spans }) => spans.length).flatMap(({ label, spans }) => [el("h3", "", label || "(without a name)"), shape("svg", { width: pixels, height: LANE_HEIGHT, role: "group", "aria-label": `${name}, ${label}` },
        shape("line", { class: "grid", x1: 0, x2: pixels, y1: LANE_HEIGHT - 0.5, y2: LANE_HEIGHT - 0.5 }), spans.map((span) => this.mark(span, x, to)))]),
    ]));
  }
  mark([begin, end, kind, text, row], x, to) {
    const label = `${text}, ${end === begin ? "" : end === null ? `since ${formatDuration(to - begin)}, ` : `${formatDuration(end - begin)}, `}${formatFullTime(begin)}`, left = x(begin), width = Math.max(2, x(end ?? to) - left);
    const isMoment = ["generation", "commit", "refused", "routine"].includes(kind);
    const element = isMoment ? shape("path", { d: symbol(kind, left) }, shape("title", {}, label))
      : shape("rect", { x: left, y: kind === "member" ? 7 : 3, width, height: kind === "member" ? 5 : 13 }, shape("title", {}, label));
    const cross = ["aborted", "fenced"].includes(kind) && width > 2 ? shape("path", { class: "crossed", d: `M${left + width - 1} 3v13m-4 -13l8 13` }) : null;
    const className = `span-of ${kind}${end === null ? " lasts" : ""}`;
    return row === null ? shape("g", { class: className }, element, cross) : shape("a", { class: className, href: toHash({ view: "frames", row }), tabindex: -1, "aria-label": label }, element, cross);
  }
  downloads() {
    const rows = this.data.timelines.flatMap(({ name, lanes }) => lanes.flatMap(({ label, spans }) => spans.map((span) => [name, label, ...span])));
    return [["spans as CSV", () => saveFile(`kproxy-timelines-${this.name}.csv`, toCsv(["of", "lane", "begin_us", "end_us", "kind", "what", "row"], rows), "text/csv")]];
  }
  key(event) { return moveMark(event, this.charts); }
}
