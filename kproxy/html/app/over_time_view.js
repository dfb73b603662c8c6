/* Pictures over time: latency, errors, throughput by client and by broker; each mark leads to its frames. */
import { anchor, el, pluralize, setAttributes } from "./elements.js";
import { bars, heatMap } from "./charts.js";
import { saveFile, toCsv } from "./copies.js";
import { formatDuration, formatSize } from "./formats.js";
import { describeMarks, moveMark, redrawMarks } from "./marks.js";
import { quote, toHash } from "./router.js";

/** Formats a time for a filter; whole milliseconds, as the edges of most parts are, without microseconds. */
const instant = (us) => `${new Date(Math.floor(us / 1e6) * 1000).toISOString().slice(0, 19)}.${String(us % 1e6).padStart(6, "0").replace(/000$/, "")}Z`;
const FIELDS = { client: "client_id", broker: "server" };

export class OverTimeView {
  constructor(app) {
    this.app = app;
    this.about = el("p", "about dim", "An exchange belongs to the time of its response; lists show when its request was sent. Every mark leads to its frames. Drag over the latencies to select a time, with Shift also a range of latencies.");
    this.apiSelect = setAttributes(el("select", ""), { "aria-label": "API" });
    this.apiSelect.addEventListener("change", () => this.app.go({ key: this.apiSelect.value || undefined }));
    this.charts = el("div", "charts");
    this.scrolling = setAttributes(el("div", "scroll picture", this.charts), { tabindex: 0, role: "region", "aria-label": "Over time" });
    this.description = el("p", "pointed");
    describeMarks(this.charts, this.description);
    this.box = el("div", "overview", el("div", "tables", this.about, this.scrolling, this.description));
    addEventListener("resize", () => this.redraw());
    addEventListener("beforeprint", () => { if (this.data && this.box.isConnected) this.draw(700); });
    addEventListener("afterprint", () => this.redraw());
  }
  async show(state) {
    const turn = this.turn = (this.turn || 0) + 1;
    const { source } = this.app, query = { text: state.filter, only: state.only, parts: innerWidth < 620 ? 48 : 96 };
    const data = await source.overTime({ ...query, api: state.key || "" });
    if (turn !== this.turn) return;
    this.data = data;
    this.redraw();
    const topics = await source.topicsOverTime(query);
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
  /** Returns the address of the frames in a range of parts that match further filter terms. */
  frames(from, to, ...terms) { return this.framesOf(this.data, from, to, ...terms); }
  framesOf({ from: start, width }, from, to, ...terms) {
    const { filter, only } = this.app.state;
    const clauses = [filter ? `(${filter})` : null, ...terms, `ts>=${instant(start + from * width)}`, `ts<${instant(start + to * width)}`];
    return toHash({ view: "frames", filter: clauses.filter(Boolean).join(" and "), only });
  }
  draw(pixels) {
    const { data } = this, { apis, errors, unanswered, series, parts } = data, { key } = this.app.state, total = apis.reduce((sum, [, count]) => sum + count, 0);
    this.app.setStatus(`${pluralize(total, "exchange")}${data.busy ? " so far" : ""}`, this);
    if (!total) { this.charts.replaceChildren(el("p", "none", ...this.app.emptyMessage({ total: this.app.source.state.rows, busy: data.busy }))); return; }
    const apiNames = apis.map(([name]) => name);
    if (key && !apiNames.includes(key)) apiNames.push(key);
    this.apiSelect.replaceChildren(...["", ...apiNames].map((name) => { const option = el("option", "", name || "all APIs"); option.value = name; option.selected = name === (key || ""); return option; }));
    const terms = (low, high) => low === undefined ? [key ? `api=${quote(key)}` : null] : [key ? `api=${quote(key)}` : null, low > 0 ? `latency>=${data.bounds[low]}us` : "latency>=0us", `latency<${data.bounds[Math.min(high, data.bounds.length - 1)]}us`];
    const sections = [el("h2", "", "Latency of ", this.apiSelect, el("span", "dim", " stronger colour: more responses; lines: median and, dashed, p99"))];
    if (data.heat.length) sections.push(heatMap(data, pixels, key || "", (from, to, low, high) => this.frames(from, to, ...terms(low, high)), (href) => { location.hash = href; }), ...this.highestLatencies().filter(Boolean));
    else sections.push(el("p", "none", "No response with a known latency."));
    const allApis = key ? " of all APIs" : "";
    const rows = [["Errors", errors, "errors", "error"], ["No response", unanswered, "unanswered", "kind=request"]].filter(([, values]) => values.some(Boolean));
    for (const [title, values, name, term] of rows) {
      sections.push(el("h2", "", title, el("span", "dim", ` ${values.reduce((a, b) => a + b, 0).toLocaleString("en")}${allApis}`)), bars(data, values, { max: Math.max(...values), pixels, className: name, label: `${title} over time`, hasTimes: true, hrefOf: (part) => this.frames(part, part + 1, term), format: (value) => value.toLocaleString("en") }));
    }
    if (!errors.some(Boolean)) sections.push(el("h2", "", "Errors", el("span", "dim", ` none${allApis}`)));
    for (const [role, { names: topNames, values, others }] of Object.entries(series)) {
      const max = Math.max(1, ...values.flat()), rate = (bytes) => `${formatSize(Math.round(bytes * 1e6 / data.width))}/s`;
      sections.push(el("h2", "", `Throughput by ${role}`, el("span", "dim", allApis), others ? el("span", "dim", ` the busiest ${topNames.length}; ${others.toLocaleString("en")} more`) : null));
      topNames.forEach((name, index) => {
        const term = name ? `${FIELDS[role]}=${quote(name)}` : `not ${FIELDS[role]}`;
        sections.push(el("h3", "", anchor("", this.frames(0, parts, term), name || "(without a name)"), el("span", "dim", ` up to ${rate(Math.max(...values[index]))}`)),
          bars(data, values[index], { max, hasScale: !index, pixels, className: "throughput", label: `Throughput of ${name}`, hasTimes: index === topNames.length - 1, hrefOf: (part) => this.frames(part, part + 1, term), format: rate }));
      });
    }
    this.charts.replaceChildren(el("p", "dim", `Each part of the pictures is ${formatDuration(data.width)} long; rates are means over it.`), ...sections, ...this.topicSections(pixels));
  }
  /** Throughput by topic, and lag by partition, which are loaded after the other charts. */
  topicSections(pixels) {
    const { topics } = this, sections = [];
    if (!topics) return [el("p", "dim", "Topics are counted …")];
    const { parts, width, series, lag } = topics, others = (shownNames, count) => count ? el("span", "dim", ` the highest ${shownNames.length}; ${count.toLocaleString("en")} more`) : null;
    const chart = (className, title, values, index, terms, options) => [
      el("h3", "", anchor("", this.framesOf(topics, 0, parts, ...terms), title), el("span", "dim", ` up to ${options.format(Math.max(...values[index]))}`)),
      bars(topics, values[index], { pixels, hasScale: !index, label: `${options.measure} of ${title}`, className, hasTimes: index === values.length - 1, hrefOf: (part) => this.framesOf(topics, part, part + 1, ...terms, ...options.extraTerms(values[index][part])), ...options })];
    for (const [direction, { names, values, others: moreCount }] of Object.entries(series)) {
      const max = Math.max(1, ...values.flat()), measure = direction === "produced" ? "Produced" : "Fetched";
      const apiTerm = direction === "produced" ? "api=Produce" : "(api=Fetch or api=ShareFetch)";
      if (names.length) sections.push(el("h2", "", `${measure} by topic`, others(names, moreCount), el("span", "dim", direction === "produced" ? " bytes of records, also refused ones" : " bytes of records")));
      names.forEach(([field, name], index) => sections.push(...chart("throughput", name, values, index, [`${field}=${quote(name)}`, apiTerm, "bytes>0"], { max, measure, extraTerms: () => [], format: (bytes) => `${formatSize(Math.round(bytes * 1e6 / width))}/s` })));
    }
    const lagging = lag.names.map((name, index) => [name, lag.values[index]]).filter(([, values]) => values.some(Boolean)), values = lagging.map(([, partitionValues]) => partitionValues), max = Math.max(1, ...values.flat());
    sections.push(el("h2", "", "Lag by partition", lagging.length ? others(lag.names, lag.others) : null, el("span", "dim", lagging.length ? " records that a Fetch response leaves to read, the highest" : lag.names.length ? " No Fetch response left records unread. Topics and Groups count the records written since, too." : " no Fetch response shows it")));
    lagging.forEach(([[field, name, partition]], index) => sections.push(...chart("lag", partition < 0 ? `${name}, sum of several partitions` : `${name} [${partition}]`, values, index, [`${field}=${quote(name)}`, partition < 0 ? null : `partition=${partition}`],
      { max, measure: "Lag", extraTerms: (records) => [`lag>=${records}`], format: (records) => pluralize(records, "record"), formatMax: (records) => records < 1e6 ? records.toLocaleString("en") : records.toExponential(1) })));
    return sections;
  }
  /** The highest latencies as text, which screen readers can read: that of APIs that respond at once, and of those that may wait. */
  highestLatencies() {
    const { highest, from, width } = this.data;
    return highest.map((response, index) => {
      if (!response) return null;
      const [end, us, api] = response, part = Math.floor((end - from) / width), href = this.frames(part, part + 1, `api=${quote(api)}`, `latency>=${us}us`);
      return el("p", "dim", index ? "Highest of requests that may wait for data or members: " : "Highest: ", anchor("", href, `${api}, ${formatDuration(us)}`), `, answered at ${instant(end).slice(11, 23)} UTC.`);
    });
  }
  downloads() {
    const { data } = this, { names, values } = data.series.client;
    const rows = data.errors.map((errors, part) => [instant(data.from + part * data.width), ...(data.percentiles[part] || ["", "", ""]), errors, data.unanswered[part], ...values.map((clientValues) => clientValues[part])]);
    return [["numbers as CSV", () => saveFile("kproxy-over-time.csv", toCsv(["time", "p50_us", "p99_us", "highest_us", "errors", "unanswered", ...names.map((name) => `bytes of ${name}`)], rows), "text/csv")]];
  }
  key(event) { return moveMark(event, this.charts); }
}
