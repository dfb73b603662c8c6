/* Pictures over time: latency, errors, throughput by client and by broker; each mark leads to its frames. */
import { anchor, setAttributes, pluralize, el } from "./elements.js";
import { bars, heatMap } from "./charts.js";
import { toCsv, saveFile } from "./copies.js";
import { formatDuration, formatSize } from "./formats.js";
import { describeMarks, moveMark, redrawMarks } from "./marks.js";
import { toHash, quote } from "./router.js";

const instant = (us) => `${new Date(Math.floor(us / 1e6) * 1000).toISOString().slice(0, 19)}.${String(us % 1e6).padStart(6, "0")}Z`;
const FIELDS = { client: "client_id", broker: "server" };

export class OverTimeView {
  constructor(app) {
    this.app = app;
    this.about = el("p", "about dim", "An exchange belongs to the time of its response; lists show when its request was sent. Every mark leads to its frames; drag over the latencies to select some.");
    this.api = setAttributes(el("select", ""), { "aria-label": "API" });
    this.api.addEventListener("change", () => this.app.go({ key: this.api.value || undefined }));
    this.charts = el("div", "charts");
    this.scrolling = setAttributes(el("div", "scroll picture", this.charts), { tabindex: 0, role: "region", "aria-label": "Over time" });
    this.pointed = el("p", "pointed");
    describeMarks(this.charts, this.pointed);
    this.box = el("div", "overview", el("div", "tables", this.about, this.scrolling, this.pointed));
    addEventListener("resize", () => this.redraw());
    addEventListener("beforeprint", () => { if (this.data && this.box.isConnected) this.draw(700); });
    addEventListener("afterprint", () => this.redraw());
  }
  async show(state) {
    const turn = this.turn = (this.turn || 0) + 1;
    const { source } = this.app, asked = { text: state.filter, only: state.only, parts: innerWidth < 620 ? 48 : 96 };
    const data = await source.overTime({ ...asked, api: state.key || "" });
    if (turn !== this.turn) return;
    this.data = data;
    this.redraw();
    const topics = await source.topicsOverTime(asked);
    if (turn !== this.turn) return;
    this.topics = topics;
    this.redraw();
  }
  async changed() {
    if (this.refreshing) return;
    this.refreshing = true;
    await this.show(this.app.state).catch(() => {});
    this.refreshing = false;
  }
  redraw() { if (this.data && this.box.isConnected) redrawMarks(this.charts, () => this.draw(this.scrolling.clientWidth - 24)); }
  /** The address of the frames in a part of the time, and of what else is given as filters. */
  frames(from, to, ...terms) { return this.framesOf(this.data, from, to, ...terms); }
  framesOf({ from: start, width }, from, to, ...terms) {
    const { filter, only } = this.app.state;
    const all = [filter ? `(${filter})` : null, ...terms, `ts>=${instant(start + from * width)}`, `ts<${instant(start + to * width)}`];
    return toHash({ view: "frames", filter: all.filter(Boolean).join(" and "), only });
  }
  draw(pixels) {
    const { data } = this, { apis, errors, unanswered, series, parts } = data, { key } = this.app.state, total = apis.reduce((sum, [, count]) => sum + count, 0);
    this.app.say(`${total.toLocaleString("en")} exchanges${data.busy ? " so far" : ""}`, this);
    if (!total) { this.charts.replaceChildren(el("p", "none", ...this.app.emptiness({ total: this.app.source.state.rows, busy: data.busy }))); return; }
    const names = apis.map(([name]) => name);
    if (key && !names.includes(key)) names.push(key);
    this.api.replaceChildren(...["", ...names].map((name) => { const option = el("option", "", name || "all APIs"); option.value = name; option.selected = name === (key || ""); return option; }));
    const terms = (low, high) => [key ? `api=${quote(key)}` : null, low > 0 ? `latency>=${data.bounds[low]}us` : "latency>=0us", `latency<${data.bounds[Math.min(high, data.bounds.length - 1)]}us`];
    const sections = [el("h2", "", "Latency of ", this.api, el("span", "dim", " stronger colour: more responses; lines: median and, dashed, p99"))];
    if (data.heat.length) sections.push(heatMap(data, pixels, key || "", (from, to, low, high) => this.frames(from, to, ...terms(low, high)), (href) => { location.hash = href; }), this.figures());
    else sections.push(el("p", "none", "No response with a known latency."));
    const rows = [["Errors", errors, "errors", "error"], ["No response yet, or never", unanswered, "unanswered", "kind=request"]].filter(([, values]) => values.some(Boolean));
    for (const [title, values, name, term] of rows) {
      sections.push(el("h2", "", title, el("span", "dim", ` ${values.reduce((a, b) => a + b, 0).toLocaleString("en")}`)), bars(data, values, { most: Math.max(...values), pixels, name, label: `${title} over time`, hasTimes: true, hrefOf: (part) => this.frames(part, part + 1, term), shown: (value) => value.toLocaleString("en") }));
    }
    if (!errors.some(Boolean)) sections.push(el("h2", "", "Errors", el("span", "dim", " none")));
    for (const [by, { names: named, values, others }] of Object.entries(series)) {
      const most = Math.max(1, ...values.flat()), rate = (bytes) => `${formatSize(Math.round(bytes * 1e6 / data.width))}/s`;
      sections.push(el("h2", "", `Throughput by ${by}`, others ? el("span", "dim", ` the busiest ${named.length}; ${others.toLocaleString("en")} more`) : null));
      named.forEach((name, at) => {
        const term = name ? `${FIELDS[by]}=${quote(name)}` : `not ${FIELDS[by]}`;
        sections.push(el("h3", "", anchor("", this.frames(0, parts, term), name || "(without a name)"), el("span", "dim", ` up to ${rate(Math.max(...values[at]))}`)),
          bars(data, values[at], { most, hasScale: !at, pixels, name: "throughput", label: `Throughput of ${name}`, hasTimes: at === named.length - 1, hrefOf: (part) => this.frames(part, part + 1, term), shown: rate }));
      });
    }
    this.charts.replaceChildren(...sections, ...this.topicSections(pixels));
  }
  /** Throughput by topic, and lag by partition; they need more of each frame, and come a moment later. */
  topicSections(pixels) {
    const { topics } = this, sections = [];
    if (!topics) return [el("p", "dim", "Topics are counted …")];
    const { parts, width, series, lag } = topics, others = (named, count) => count ? el("span", "dim", ` the highest ${named.length}; ${count.toLocaleString("en")} more`) : null;
    const chart = (name, title, values, at, terms, options) => [
      el("h3", "", anchor("", this.framesOf(topics, 0, parts, ...terms), title), el("span", "dim", ` up to ${options.shown(Math.max(...values[at]))}`)),
      bars(topics, values[at], { pixels, hasScale: !at, label: `${options.what} of ${title}`, name, hasTimes: at === values.length - 1, hrefOf: (part) => this.framesOf(topics, part, part + 1, ...terms, ...options.more(values[at][part])), ...options })];
    for (const [direction, { names, values, others: more }] of Object.entries(series)) {
      const most = Math.max(1, ...values.flat()), what = direction === "produced" ? "Produced" : "Fetched";
      const side = direction === "produced" ? "api=Produce" : "(api=Fetch or api=ShareFetch)";
      if (names.length) sections.push(el("h2", "", `${what} by topic`, others(names, more), el("span", "dim", direction === "produced" ? " bytes of records, also refused ones" : " bytes of records")));
      names.forEach(([field, name], at) => sections.push(...chart("throughput", name, values, at, [`${field}=${quote(name)}`, side, "bytes>0"], { most, what, more: () => [], shown: (bytes) => `${formatSize(Math.round(bytes * 1e6 / width))}/s` })));
    }
    const behind = lag.names.map((name, at) => [name, lag.values[at]]).filter(([, values]) => values.some(Boolean)), values = behind.map(([, each]) => each), most = Math.max(1, ...values.flat());
    sections.push(el("h2", "", "Lag by partition", behind.length ? others(lag.names, lag.others) : null, el("span", "dim", behind.length ? " records that a Fetch response leaves to read, the highest" : lag.names.length ? " none: every Fetch response reaches the end" : " no Fetch response shows it")));
    behind.forEach(([[field, name, partition]], at) => sections.push(...chart("lag", partition < 0 ? `${name}, sum of several partitions` : `${name} [${partition}]`, values, at, [`${field}=${quote(name)}`, partition < 0 ? null : `partition=${partition}`],
      { most, what: "Lag", more: (records) => [`lag>=${records}`], shown: (records) => pluralize(records, "record"), scale: (records) => records < 1e6 ? records.toLocaleString("en") : records.toExponential(1) })));
    return sections;
  }
  /** The latencies in words: what a reader without the picture needs, too. */
  figures() {
    const { highest: [end, us, api], from, width } = this.data, part = Math.floor((end - from) / width), href = this.frames(part, part + 1, `api=${quote(api)}`, `latency>=${us}us`);
    return el("p", "dim", "Highest: ", anchor("", href, `${api}, ${formatDuration(us)}`), `, answered at ${instant(end).slice(11, 23)} UTC.`);
  }
  downloads() {
    const { data } = this, { names, values } = data.series.client;
    const rows = data.errors.map((errors, part) => [instant(data.from + part * data.width), ...(data.percentiles[part] || ["", "", ""]), errors, data.unanswered[part], ...values.map((each) => each[part])]);
    return [["numbers as CSV", () => saveFile("kproxy-over-time.csv", toCsv(["time", "p50_us", "p99_us", "highest_us", "errors", "unanswered", ...names.map((name) => `bytes of ${name}`)], rows), "text/csv")]];
  }
  key(event) { return moveMark(event, this.charts); }
}
