/* What is wrong: the ranked causes, each with its frames and what to change. */
import { anchor, button, el, pluralize, setAttributes } from "./elements.js";
import { toHash } from "./router.js";

const SIGNS = { error: "✕", warning: "!", info: "i" };

export class CausesView {
  constructor(app) {
    this.app = app;
    this.box = setAttributes(el("div", "causes", el("p", "none", "loading …")), { tabindex: 0, role: "region", "aria-label": "What is wrong" });
  }
  async show(state) {
    const { source } = this.app, [causes, groups] = await Promise.all([source.causes(state.filter), state.filter ? null : source.table("groups", "")]);
    this.causes = causes;
    const counts = ["error", "warning", "info"].map((level) => [causes.filter(({ severity }) => severity === level).length, level])
      .filter(([count]) => count).map(([count, level]) => level === "info" ? `${count} for information` : pluralize(count, level));
    this.app.setStatus(counts.join(", "), this);
    const roots = causes.filter(({ follows }) => !follows);
    const nothing = state.filter ? el("p", "none", `No finding in what matches ${state.filter}; `, button("clear", "clear the filter", () => this.app.go({ filter: undefined }))) : el("p", "none", "Nothing wrong was found.");
    const children = [el("h2", "", causes.length ? `What is wrong: ${counts.join(", ")}` : "What is wrong"), causes.length ? el("ol", "", ...causes.map((cause) => this.cause(cause, roots))) : nothing, state.filter ? null : this.refusals(), ...(groups ? this.slowGroups(groups) : [])];
    this.box.replaceChildren(...children.filter(Boolean));
  }
  /** Returns a note about responses with an error, which are often part of ordinary work and then no cause. */
  refusals() {
    const { refused } = this.app.source.state;
    return refused ? el("p", "dim", `${pluralize(refused, "response")} with an error: `, anchor("", toHash({ view: "apis", sort: "-errors" }), "list by API"), " · ", anchor("", toHash({ view: "frames", filter: "error!=0 and not finding" }), "those without a finding"), ".") : null;
  }
  /** Returns a note for each group that is behind because its client is slow, which is no error of either side. */
  slowGroups({ columns, rows }) {
    const lag = columns.findIndex(([title]) => title === "lag");
    return rows.map(({ key, values, facts }) => [key, values[lag], facts.find(([label]) => label === "why it is behind")?.[1]]).filter(([, , reason]) => reason)
      .map(([key, count, reason]) => el("p", "dim", "Group ", anchor("", toHash({ view: "groups", key }), key), ` is ${pluralize(count, "record")} behind: ${reason}.`));
  }
  cause(cause) {
    const framesHash = (text) => toHash({ view: "frames", filter: text });
    const note = (name) => cause.notes.find(([noteName]) => noteName === name)?.[1];
    const otherNotes = cause.notes.filter(([name]) => name !== "hint");
    const links = [
      cause.row >= 0 ? anchor("primary", toHash({ view: "frames", row: cause.row }), cause.what ? `first frame: ${cause.what}` : "where it was found") : null,
      cause.filter ? anchor("", framesHash(cause.filter), `all frames with ${cause.code}`) : null,
      ...cause.connections.slice(0, 3).map((name) => anchor("", framesHash(`connection="${name}"`), `connection ${name}`)),
      ...cause.groups.slice(0, 3).map((name) => anchor("", toHash({ view: "groups", key: name }), `group ${name}`)),
    ].filter(Boolean).map((link) => el("li", "", link));
    const endpoints = cause.client ? `${cause.client} → ${cause.server}` : "";
    return el("li", `cause ${cause.severity}${cause.follows ? " follows" : ""}`,
      el("h3", "", setAttributes(el("span", "sign", SIGNS[cause.severity] || "i"), { "aria-hidden": true }), el("span", "message", cause.message)),
      el("p", "seen", el("span", cause.severity, cause.severity), `  ${cause.seen}`, cause.follows ? `  ·  follows from ${cause.follows}` : null, `  ·  first at ${cause.first.slice(11, 23)} UTC`, endpoints ? `  ·  ${endpoints}` : null, cause.served && cause.severity !== "info" ? "  ·  answered without an error" : null),
      note("hint") ? el("p", "todo", el("b", "", "What to change: "), note("hint")) : null,
      ...cause.sentences.map((text) => el("p", "dim", `also: ${text}`)),
      el("ul", "links", ...links),
      el("details", "", el("summary", "", el("span", "code", `${cause.code} ${cause.name}`)), el("dl", "", ...otherNotes.flatMap(([name, text]) => [el("dt", "", name), el("dd", "", text)]),
        el("dt", "", "rule"), el("dd", "", el("code", "", `kproxy rules ${cause.code}`)))));
  }
  async changed() { await this.show(this.app.state).catch(() => {}); }
  downloads() { return []; }
  /** Moves between causes; the first link of each gets the focus, and Enter follows it. */
  key(event) {
    const causes = [...this.box.querySelectorAll(".cause")], index = causes.findIndex((cause) => cause.contains(document.activeElement));
    const target = { j: index + 1, ArrowDown: index + 1, k: index - 1, ArrowUp: index - 1, g: 0, G: causes.length - 1 }[event.key];
    if (target === undefined || !causes.length) return false;
    const cause = causes[Math.max(0, Math.min(target, causes.length - 1))];
    cause.querySelector("a, summary").focus({ preventScroll: true });
    cause.scrollIntoView({ block: "nearest" });
    return true;
  }
}
