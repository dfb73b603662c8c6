/* Pictures over time: latency, errors, throughput by client and by broker; each mark leads to its frames. */
import { anchor, attributes, el } from "./elements.js";
import { bars, heatMap } from "./charts.js";
import { csvOf, save } from "./copies.js";
import { duration, size } from "./formats.js";
import { hashOf } from "./router.js";

const quoted = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
const instant = (us) => `${new Date(Math.floor(us / 1e6) * 1000).toISOString().slice(0, 19)}.${String(us % 1e6).padStart(6, "0")}Z`;
const FIELDS = { client: "client_id", broker: "server" };

export class OverTimeView {
  constructor(app) {
    this.app = app;
    this.about = el("p", "about dim", "Responses by the time when they came. Every mark leads to its frames; drag over the latencies to select some.");
    this.api = attributes(el("select", ""), { "aria-label": "API" });
    this.api.addEventListener("change", () => this.app.go({ key: this.api.value || undefined }));
    this.charts = el("div", "charts");
    this.scrolling = attributes(el("div", "scroll picture", this.charts), { tabindex: 0, role: "region", "aria-label": "Over time" });
    this.box = el("div", "overview", el("div", "tables", this.about, this.scrolling));
    addEventListener("resize", () => this.redraw());
    addEventListener("beforeprint", () => { if (this.data && this.box.isConnected) this.draw(700); });
    addEventListener("afterprint", () => this.redraw());
  }
  async show(state) {
    const turn = this.turn = (this.turn || 0) + 1;
    const data = await this.app.source.overTime({ text: state.filter, only: state.only, api: state.key || "", parts: innerWidth < 620 ? 48 : 96 });
    if (turn !== this.turn) return;
    this.data = data;
    this.redraw();
  }
  async changed() {
    if (this.refreshing) return;
    this.refreshing = true;
    await this.show(this.app.state).catch(() => {});
    this.refreshing = false;
  }
  redraw() { if (this.data && this.box.isConnected) this.draw(this.scrolling.clientWidth - 24); }
  /** The address of the frames in a part of the time, and of what else is given as filters. */
  frames(from, to, ...terms) {
    const { filter, only } = this.app.state, { from: start, width } = this.data;
    const all = [filter ? `(${filter})` : null, ...terms, `ts>=${instant(start + from * width)}`, `ts<${instant(start + to * width)}`];
    return hashOf({ view: "frames", filter: all.filter(Boolean).join(" and "), only });
  }
  draw(pixels) {
    const { data } = this, { apis, errors, unanswered, series, parts } = data, { key } = this.app.state, total = apis.reduce((sum, [, count]) => sum + count, 0);
    this.app.say(`${total.toLocaleString("en")} exchanges${data.busy ? " so far" : ""}`);
    if (!total) { this.charts.replaceChildren(el("p", "none", ...this.app.emptiness({ total: this.app.source.state.rows, busy: data.busy }))); return; }
    const names = apis.map(([name]) => name);
    if (key && !names.includes(key)) names.push(key);
    this.api.replaceChildren(...["", ...names].map((name) => { const option = el("option", "", name || "all APIs"); option.value = name; option.selected = name === (key || ""); return option; }));
    const terms = (low, high) => [key ? `api=${quoted(key)}` : null, low > 0 ? `latency>=${data.bounds[low]}us` : "latency>=0us", `latency<${data.bounds[Math.min(high, data.bounds.length - 1)]}us`];
    const sections = [el("h2", "", "Latency of ", this.api, el("span", "dim", " stronger colour: more responses; lines: median and, dashed, p99"))];
    if (data.heat.length) sections.push(heatMap(data, pixels, (from, to, low, high) => this.frames(from, to, ...terms(low, high)), (href) => { location.hash = href; }), this.figures());
    else sections.push(el("p", "none", "No response with a known latency."));
    const rows = [["Errors", errors, "errors", "error"], ["No response yet, or never", unanswered, "unanswered", "kind=request"]].filter(([, values]) => values.some(Boolean));
    for (const [title, values, name, term] of rows) {
      sections.push(el("h2", "", title, el("span", "dim", ` ${values.reduce((a, b) => a + b, 0).toLocaleString("en")}`)), bars(data, values, { most: Math.max(...values), pixels, name, label: `${title} over time`, hasTimes: true, hrefOf: (part) => this.frames(part, part + 1, term), shown: (value) => value.toLocaleString("en") }));
    }
    if (!errors.some(Boolean)) sections.push(el("h2", "", "Errors", el("span", "dim", " none")));
    for (const [by, { names: named, values, others }] of Object.entries(series)) {
      const most = Math.max(1, ...values.flat()), rate = (bytes) => `${size(Math.round(bytes * 1e6 / data.width))}/s`;
      sections.push(el("h2", "", `Throughput by ${by}`, others ? el("span", "dim", ` the busiest ${named.length}; ${others.toLocaleString("en")} more`) : null));
      named.forEach((name, at) => {
        const term = name ? `${FIELDS[by]}=${quoted(name)}` : `not ${FIELDS[by]}`;
        sections.push(el("h3", "", anchor("", this.frames(0, parts, term), name || "(without a name)")),
          bars(data, values[at], { most, pixels, name: "throughput", label: `Throughput of ${name}`, hasTimes: at === named.length - 1, hrefOf: (part) => this.frames(part, part + 1, term), shown: rate }));
      });
    }
    this.charts.replaceChildren(...sections);
  }
  /** The latencies in words: what a reader without the picture needs, too. */
  figures() {
    const { percentiles, from, width } = this.data, found = percentiles.map((each, part) => each && [part, ...each]).filter(Boolean);
    const [part, , , highest] = found.reduce((a, b) => b[3] > a[3] ? b : a), { key } = this.app.state;
    const href = this.frames(part, part + 1, key ? `api=${quoted(key)}` : null, `latency>=${highest}us`);
    return el("p", "dim", "Highest: ", anchor("", href, duration(highest)), ` at ${instant(from + part * width).slice(11, 23)} UTC.`);
  }
  downloads() {
    const { data } = this, { names, values } = data.series.client;
    const rows = data.errors.map((errors, part) => [instant(data.from + part * data.width), ...(data.percentiles[part] || ["", "", ""]), errors, data.unanswered[part], ...values.map((each) => each[part])]);
    return [["numbers as CSV", () => save("kproxy-over-time.csv", csvOf(["time", "p50_us", "p99_us", "highest_us", "errors", "unanswered", ...names.map((name) => `bytes of ${name}`)], rows), "text/csv")]];
  }
  key() { return false; }
}
