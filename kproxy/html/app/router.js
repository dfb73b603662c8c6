/* The fragment of the address has the state: view, filter, order, frame and field. Back and forward work. */
const PARAMETERS = ["filter", "only", "sort", "key", "start", "row", "at"];

/** Returns the state in a fragment: `{view}` and the parameters that are set. A bare number is a frame, as in links to older pages. */
export const parseHash = (hash) => {
  const text = hash.replace(/^#\/?/, "");
  if (/^\d+$/.test(text)) return { view: "frames", row: Number(text) - 1 };
  const [view, query = ""] = text.split(/\?(.*)/s), parameters = new URLSearchParams(query), state = { view };
  for (const name of PARAMETERS) if (parameters.has(name)) state[name] = parameters.get(name);
  if ("row" in state) {
    state.row = Number(state.row);
    if (!Number.isInteger(state.row) || state.row < 0) delete state.row;
  }
  state.only = state.only === "1";
  return state;
};
/** Quotes a text as a value in a filter. */
export const quote = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
export const toHash = (state) => {
  const parameters = new URLSearchParams();
  for (const name of PARAMETERS) {
    const value = state[name];
    if (value === undefined || value === null || value === "" || value === false) continue;
    parameters.set(name, value === true ? "1" : String(value));
  }
  const text = parameters.toString();
  return `#/${state.view}${text ? `?${text}` : ""}`;
};

/** Holds the state, and calls `show(state, previous)` after each change. */
export class Router {
  constructor(show) {
    this.show = show;
    this.state = { view: "" };
    addEventListener("popstate", () => this.sync());
    addEventListener("hashchange", () => this.sync());
  }
  sync() {
    const state = parseHash(location.hash);
    if (toHash(state) !== toHash(this.state)) this.setState(state);
  }
  setState(state) {
    const previous = this.state;
    this.state = state;
    this.show(state, previous);
  }
  /** Changes parts of the state. With `replace`, the history gets no new entry. */
  go(changes, { replace = false } = {}) {
    const state = { ...this.state, ...changes }, hash = toHash(state);
    if (hash === toHash(this.state)) return;
    try {
      if (replace) history.replaceState(null, "", hash); else history.pushState(null, "", hash);
    } catch { if (replace) location.replace(hash); else location.hash = hash; }
    this.setState(state);
  }
}
