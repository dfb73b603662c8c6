/* The application: one source, one state in the address, the views, keys and settings. */
import { $, anchor, announce, button, el, loadSetting, pluralize, saveSetting, setAttributes } from "./elements.js";
import { CausesView } from "./causes_view.js";
import { FilterBox } from "./filter_box.js";
import { setFields } from "./filter_text.js";
import { TIMES, setTimeMode, setTimeRange, timeMode, timeZone } from "./formats.js";
import { FramesView } from "./frames_view.js";
import { LadderView } from "./ladder_view.js";
import { menu } from "./menu.js";
import { OverTimeView } from "./over_time_view.js";
import { RecordsView } from "./records_view.js";
import { Router, parseHash, toHash } from "./router.js";
import { TableView } from "./table_view.js";
import { TimelinesView } from "./timelines_view.js";

const VIEWS = [
  ["wrong", "What is wrong"], ["frames", "Frames"], ["connections", "Connections"], ["apis", "APIs"], ["topics", "Topics"], ["groups", "Groups"],
  ["transactions", "Transactions"], ["share-groups", "Share groups"], ["clients", "Clients"], ["brokers", "Brokers"], ["records", "Records"], ["ladder", "Ladder"], ["over-time", "Over time"], ["timelines", "Timelines"],
];
const THEMES = { auto: "as the system", light: "light", dark: "dark" };

class App {
  constructor(source) {
    this.source = source;
    this.views = new Map();
    this.router = new Router((state, previous) => this.show(state, previous));
    this.filter = new FilterBox((text, replace) => this.go({ filter: text || undefined, key: undefined }, { replace }));
  }
  get state() { return this.router.state; }
  go(changes, options) { this.router.go(changes, options); }
  /** Sets the text of the status, unless another view is shown now. */
  setStatus(text, view) { if (!view || view.box.isConnected) $("count").textContent = text; }
  showCount(query, view) {
    this.setStatus(query.count === query.total ? pluralize(query.total, "row") : `${query.count.toLocaleString("en")} of ${pluralize(query.total, "row")}${query.busy ? " so far" : ""}${/\bts\b/.test(this.state.filter) ? ", times are those of requests" : ""}`, view);
  }
  view(name) {
    if (!this.views.has(name)) {
      const View = { wrong: CausesView, frames: FramesView, records: RecordsView, ladder: LadderView, "over-time": OverTimeView, timelines: TimelinesView }[name];
      this.views.set(name, View ? new View(this) : new TableView(this, name));
    }
    return this.views.get(name);
  }
  async show(state, previous) {
    if (!VIEWS.some(([name]) => name === state.view)) { this.go({ view: this.firstView }, { replace: true }); return; }
    const view = this.view(state.view), isNewView = state.view !== (previous && previous.view) || !$("view").children.length;
    for (const link of $("views").querySelectorAll("a")) {
      const [name] = [link.dataset.view];
      link.href = toHash({ view: name, filter: state.filter, only: name === "frames" ? state.only : undefined });
      setAttributes(link, { "aria-current": name === state.view ? "page" : null });
      if (name === state.view) link.scrollIntoView({ block: "nearest", inline: "center" });
    }
    this.filter.set(document.activeElement === $("filter") ? $("filter").value : state.filter || "");
    $("only").checked = state.only;
    $("only-label").hidden = !["frames", "records", "ladder", "over-time"].includes(state.view);
    if (isNewView) {
      $("view").replaceChildren(view.box);
      this.setStatus("loading …");
      document.body.dataset.view = state.view;
      document.title = `${VIEWS.find(([name]) => name === state.view)[1]} – kproxy ${this.source.info.names.slice(0, 2).join(", ")}`;
    }
    await view.show(state, isNewView ? null : previous).catch((error) => { this.setStatus(""); announce(error.message); });
    if (state.view === "frames" && isNewView && document.activeElement === document.body) view.list.focus({ preventScroll: true });
  }
  emptyMessage(query) {
    const { filter, only } = this.state, { state } = this.source;
    if (query.busy) return ["searching …"];
    if (!query.total) return [state.sentence || "Nothing to show."];
    const subject = only ? "no row with a finding" : "nothing";
    const clear = button("clear", filter ? "clear it" : "show all rows", () => this.go({ filter: undefined, only: false }));
    return [filter ? `${subject} matches ${filter}; ` : "no row has a finding; ", clear];
  }
  /** Starts with the view of causes if there are any, else with the frames. */
  async start() {
    await this.source.open();
    const { info, state } = this.source;
    setFields(info);
    setTimeRange(state.first, state.last);
    this.theme(loadSetting("theme", "auto"));
    $("views").append(...VIEWS.map(([name, title]) => { const link = anchor("", `#/${name}`, title); link.dataset.view = name; return link; }));
    $("tools").append(
      menu("time ▾", "How to show times", () => Object.entries(TIMES).map(([name, title]) => [`${name === timeMode() ? "● " : "○ "}${title}${name === "local" ? ` (${timeZone()})` : ""}`, () => { setTimeMode(name); this.redraw(); }])),
      menu("columns ▾", "Choose the columns of the list of frames", () => this.view("frames").columnItems()),
      menu("download ▾", "Download what is shown", () => this.view(this.state.view).downloads()),
      menu("theme ▾", "Light or dark", () => Object.entries(THEMES).map(([name, title]) => [`${name === loadSetting("theme", "auto") ? "● " : "○ "}${title}`, () => this.theme(name)])));
    $("only").addEventListener("change", () => this.go({ only: $("only").checked }));
    document.addEventListener("keydown", (event) => this.key(event));
    this.summarize();
    this.source.onChange(() => this.changed(), (isLost) => { $("lost").hidden = !isLost; });
    let causes = await this.source.causes();
    /* A capture has no rows until the process that reads it has started. */
    for (let tries = 0; !causes.length && this.source.state.reading && (tries < 5 || (!this.source.state.rows && tries < 60)); tries++) {
      if (!tries) $("view").replaceChildren(el("p", "none", "reading …"));
      await new Promise((resolve) => setTimeout(resolve, 150));
      causes = await this.source.causes();
    }
    this.firstView = causes.length ? "wrong" : "frames";
    const initialState = parseHash(location.hash);
    if (!initialState.view) { this.go({ view: this.firstView, filter: info.filter || undefined, only: false }, { replace: true }); } else this.router.setState(initialState);
    document.documentElement.dataset.ready = "true";
  }
  redraw() {
    this.summarize();
    const view = this.view(this.state.view);
    if (view.redraw) view.redraw(); else view.show(this.state, null);
  }
  theme(name) {
    saveSetting("theme", name);
    if (name === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  }
  changed() {
    const { first, last } = this.source.state;
    setTimeRange(first, last);
    this.summarize();
    const view = this.views.get(this.state.view), now = performance.now();
    clearTimeout(this.timer);
    if (now - (this.changedAt || 0) > 500) { this.changedAt = now; view?.changed?.(); }
    else this.timer = setTimeout(() => { this.changedAt = performance.now(); view?.changed?.(); }, 500);
  }
  summarize() {
    const { info, state } = this.source, otherCount = info.names.length - 3, fileNames = info.names.slice(0, 3).join(", ");
    $("files").textContent = otherCount > 0 ? `${fileNames} and ${pluralize(otherCount, "other file")}` : state.name || fileNames;
    $("files").title = info.names.join("\n");
    const formatInstant = (us) => new Date(us / 1000).toISOString().replace("T", " ").slice(0, 23), [from, to] = [state.first && formatInstant(state.first), state.last && formatInstant(state.last)];
    const refused = state.refused ? anchor("", toHash({ view: "frames", filter: "error!=0" }), `${state.refused.toLocaleString("en")} with an error`) : null;
    const parts = [from && `${from} to ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to} UTC`, pluralize(state.connections, "connection"), pluralize(state.exchanges, "exchange"),
      `${pluralize(state.frames, "frame")}, ${state.bytes}`, refused, state.unanswered ? `${state.unanswered.toLocaleString("en")} unanswered` : null,
      state.waiting ? `${state.waiting.toLocaleString("en")} waiting` : null, state.only ? `only ${state.only}` : null, state.reading ? (state.percent ? `${state.percent} % read` : "reading …") : null, state.live ? "live" : null, state.sentence || null, `kproxy ${info.version}`];
    $("facts").replaceChildren(...parts.filter(Boolean).flatMap((part, index) => index ? ["  ·  ", part] : [part]));
    $("notes").replaceChildren(...info.notes.map((note) => el("li", "", note)), ...(state.messages || []).slice(-4).map((note) => el("li", "dim", note)));
  }
  /** Returns the view that a digit opens, or `[` and `]` for the previous and next view. */
  viewOfKey(key) {
    const names = VIEWS.map(([name]) => name), digit = "1234567890".indexOf(key), step = { "[": -1, "]": 1 }[key];
    if (step) return names[(names.indexOf(this.state.view) + step + names.length) % names.length];
    return names[digit];
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target === $("filter")) {
      if (event.key !== "Escape" && event.key !== "Enter") return;
      const frames = this.view("frames");
      if (this.state.view === "frames") { frames.list.focus(); if (event.key === "Enter" && frames.position < 0) frames.selectAt(0); } else $("filter").blur();
      event.preventDefault();
      return;
    }
    if (event.target.matches("input, select, textarea") && event.key !== "Escape") return;
    if (event.key === "/") { $("filter").focus(); $("filter").select(); event.preventDefault(); return; }
    if (event.key === "?") { $("keys").togglePopover?.(); return; }
    if (event.key === "Escape" && $("keys").matches(":popover-open")) { $("keys").hidePopover(); event.preventDefault(); return; }
    if (event.key === "z" && this.state.view === "frames") { this.go({ only: !this.state.only }); return; }
    const view = this.viewOfKey(event.key);
    if (view && !event.target.closest(".tree")) { this.go({ view, row: undefined, at: undefined, key: undefined, sort: undefined }); return; }
    if (this.views.get(this.state.view)?.key(event)) event.preventDefault();
  }
}

/** Starts the application with a source. */
export const start = async (source) => {
  const app = new App(source);
  try { await app.start(); } catch (error) {
    $("view").replaceChildren(el("p", "none", `The page could not start: ${error.message}`));
    throw error;
  }
};
