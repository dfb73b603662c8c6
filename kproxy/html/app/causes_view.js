/* What is wrong: the ranked causes, each with its frames and what to change. */
import { anchor, setAttributes, pluralize, el } from "./elements.js";
import { toHash } from "./router.js";

const SIGNS = { error: "✕", warning: "!", info: "i" };

export class CausesView {
  constructor(app) {
    this.app = app;
    this.box = setAttributes(el("div", "causes", el("p", "none", "loading …")), { tabindex: 0, role: "region", "aria-label": "What is wrong" });
  }
  async show(state) {
    const causes = this.causes = await this.app.source.causes(state.filter);
    const counts = ["error", "warning", "info"].map((level) => [causes.filter(({ severity }) => severity === level).length, level])
      .filter(([number]) => number).map(([number, level]) => level === "info" ? `${number} for information` : pluralize(number, level));
    this.app.say(counts.join(", "), this);
    const roots = causes.filter(({ follows }) => !follows);
    const nothing = el("p", "none", state.filter ? `Nothing wrong was found in what matches ${state.filter}.` : "Nothing wrong was found.");
    this.box.replaceChildren(el("h2", "", causes.length ? `What is wrong: ${counts.join(", ")}` : "What is wrong"), causes.length ? el("ol", "", ...causes.map((cause) => this.cause(cause, roots))) : nothing);
  }
  cause(cause) {
    const narrow = (text) => toHash({ view: "frames", filter: text });
    const note = (name) => cause.notes.find(([each]) => each === name)?.[1];
    const others = cause.notes.filter(([name]) => name !== "hint");
    const links = [
      cause.row >= 0 ? anchor("primary", toHash({ view: "frames", row: cause.row }), cause.what ? `first frame: ${cause.what}` : "where it was found") : null,
      cause.filter ? anchor("", narrow(cause.filter), `all frames with ${cause.code}`) : null,
      ...cause.connections.slice(0, 3).map((name) => anchor("", narrow(`connection="${name}"`), `connection ${name}`)),
      ...cause.groups.slice(0, 3).map((name) => anchor("", toHash({ view: "groups", key: name }), `group ${name}`)),
    ].filter(Boolean).map((link) => el("li", "", link));
    const ends = cause.client ? `${cause.client} → ${cause.server}` : "";
    return el("li", `cause ${cause.severity}${cause.follows ? " follows" : ""}`,
      el("h3", "", setAttributes(el("span", "sign", SIGNS[cause.severity] || "i"), { "aria-hidden": true }), el("span", "message", cause.message)),
      el("p", "seen", el("span", cause.severity, cause.severity), `  ${cause.seen}`, cause.follows ? `  ·  follows from ${cause.follows}` : null, `  ·  ${cause.first.slice(11, 23)} UTC`, ends ? `  ·  ${ends}` : null),
      note("hint") ? el("p", "todo", el("b", "", "What to change: "), note("hint")) : null,
      ...cause.sentences.map((text) => el("p", "dim", `also: ${text}`)),
      el("ul", "links", ...links),
      el("details", "", el("summary", "", el("span", "code", `${cause.code} ${cause.name}`)), el("dl", "", ...others.flatMap(([name, text]) => [el("dt", "", name), el("dd", "", text)]),
        el("dt", "", "rule"), el("dd", "", el("code", "", `kproxy rules ${cause.code}`)))));
  }
  async changed() { await this.show(this.app.state).catch(() => {}); }
  downloads() { return []; }
  /** Moves from cause to cause, to the first link of each, which Enter follows. */
  key(event) {
    const causes = [...this.box.querySelectorAll(".cause")], at = causes.findIndex((cause) => cause.contains(document.activeElement));
    const to = { j: at + 1, ArrowDown: at + 1, k: at - 1, ArrowUp: at - 1, g: 0, G: causes.length - 1 }[event.key];
    if (to === undefined || !causes.length) return false;
    const cause = causes[Math.max(0, Math.min(to, causes.length - 1))];
    cause.querySelector("a, summary").focus({ preventScroll: true });
    cause.scrollIntoView({ block: "nearest" });
    return true;
  }
}
