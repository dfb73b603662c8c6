/* The address: its fragment holds the view, the filter, the order, the frame and the field. Back and forward work. */
const NAMES = ["filter", "only", "sort", "key", "start", "row", "at"];

/** The state in an address: `{view}` and what is set; a bare number is a frame, as in links of older pages. */
export const parseHash = (hash) => {
  const text = hash.replace(/^#\/?/, "");
  if (/^\d+$/.test(text)) return { view: "frames", row: Number(text) - 1 };
  const [view, query = ""] = text.split(/\?(.*)/s), given = new URLSearchParams(query), state = { view };
  for (const name of NAMES) if (given.has(name)) state[name] = given.get(name);
  if ("row" in state) {
    state.row = Number(state.row);
    if (!Number.isInteger(state.row) || state.row < 0) delete state.row;
  }
  state.only = state.only === "1";
  return state;
};
/** A text as a value in a filter. */
export const quote = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
export const toHash = (state) => {
  const query = new URLSearchParams();
  for (const name of NAMES) {
    const value = state[name];
    if (value === undefined || value === null || value === "" || value === false) continue;
    query.set(name, value === true ? "1" : String(value));
  }
  const text = query.toString();
  return `#/${state.view}${text ? `?${text}` : ""}`;
};

/** Holds the state, and calls `show(state, before)` after every change of it. */
export class Router {
  constructor(show) {
    this.show = show;
    this.state = { view: "" };
    addEventListener("popstate", () => this.follow());
    addEventListener("hashchange", () => this.follow());
  }
  follow() {
    const state = parseHash(location.hash);
    if (toHash(state) !== toHash(this.state)) this.enter(state);
  }
  enter(state) {
    const before = this.state;
    this.state = state;
    this.show(state, before);
  }
  /** Changes parts of the state. With `replace`, back leads to where it led before. */
  go(changes, { replace = false } = {}) {
    const state = { ...this.state, ...changes }, hash = toHash(state);
    if (hash === toHash(this.state)) return;
    try {
      if (replace) history.replaceState(null, "", hash); else history.pushState(null, "", hash);
    } catch { if (replace) location.replace(hash); else location.hash = hash; }
    this.enter(state);
  }
}
