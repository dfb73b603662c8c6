/* The list of exchanges. */
let rows = [], shown = [], chosen = -1, opened = -1;
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 24;

const drawRow = (position) => {
  const number = shown[position];
  const [time, conn, client, api, version, what, size, latency, wrong, level, isEvent] = rows[number];
  const cell = (name, ...inside) => el("span", name, ...inside);
  const said = cell("wrong", ...wrong.map(([text, style]) => el("span", style, `${text} `)));
  said.title = wrong.map(([text]) => text).join(" ");
  const about = cell("what", what);
  about.title = what;
  const made = el("div", `row${level ? ` is-${level}` : ""}${isEvent ? " event" : ""}`, cell("time", time), cell("conn", conn),
    cell("client", client), cell("api", el("b", "", api), el("span", "version", ` ${version}`)), about, cell("size", size),
    cell(`latency${latency === "never" ? " error" : ""}`, latency), said);
  made.setAttribute("role", "option");
  made.setAttribute("aria-selected", String(number === chosen));
  made.id = `row-${number}`;
  if (number === chosen) made.classList.add("chosen");
  made.addEventListener("click", () => { choose(position); open(number); });
  return made;
};
const list = new Scroller($("rows"), rowHeight, drawRow);

/* The filter: `test` belongs to the last valid text. */
let test = null, asked = "", lines = null;
const joinedLines = async () => {
  const found = [];
  for (const chunk of data.lines) found.push(...(await unpack(chunk)).map(({ lines }) => asOne(lines)));
  return found;
};
const clear = () => {
  $("filter").value = "";
  $("only").checked = false;
  $("rows").focus({ preventScroll: true });
  return refilter();
};
const emptiness = () => {
  if (!rows.length) return ["Nothing to show."];
  const none = $("only").checked ? "no row with a finding" : "nothing";
  return [asked ? `${none} matches ${asked}; ` : "no row has a finding; ", button("clear", asked ? "clear it" : "show all rows", clear)];
};
const narrow = () => {
  const only = $("only").checked;
  shown = [];
  for (let number = 0; number < rows.length; number++) {
    if ((!only || rows[number][9]) && (!test || test(lines[number]))) shown.push(number);
  }
  $("count").textContent = shown.length === rows.length ? counted(rows.length, "row")
    : `${shown.length.toLocaleString("en")} of ${counted(rows.length, "row")}`;
  list.set(shown.length);
  if (!shown.length) list.inner.append(el("p", "none", ...emptiness()));
  const at = shown.indexOf(chosen);
  if (at >= 0) list.show(at); else $("rows").scrollTop = 0;
};
/** Parses the filter again. While it is invalid, the rows stay and a message is shown. */
const refilter = async () => {
  const text = $("filter").value.trim();
  let made = null, wrong = "";
  try {
    if (text) made = filterOf(text);
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    wrong = error.said(text);
  }
  $("wrong").textContent = wrong;
  $("wrong").hidden = !wrong;
  $("filter").setAttribute("aria-invalid", String(Boolean(wrong)));
  if (wrong) return;
  if (made && !lines) {
    const read = await joinedLines();
    lines = lines || read;
    if (text !== $("filter").value.trim()) return;  /* the text has changed meanwhile and is handled by its own event */
  }
  [test, asked] = [made, text];
  narrow();
};
const choose = (position) => {
  if (!shown.length) return;
  const at = Math.max(0, Math.min(position, shown.length - 1));
  const before = document.getElementById(`row-${chosen}`);
  if (before) { before.classList.remove("chosen"); before.setAttribute("aria-selected", "false"); }
  chosen = shown[at];
  list.show(at);
  const now = document.getElementById(`row-${chosen}`);
  if (now) { now.classList.add("chosen"); now.setAttribute("aria-selected", "true"); }
  $("rows").setAttribute("aria-activedescendant", `row-${chosen}`);
};
const move = (by) => {
  const at = shown.indexOf(chosen);
  choose(at < 0 ? (by > 0 ? 0 : shown.length - 1) : at + by);
  if (opened >= 0) open(chosen);
};
const jump = (number) => {
  if (!shown.includes(number)) {
    $("filter").value = "";
    $("only").checked = false;
    refilter();
  }
  choose(shown.indexOf(number));
  open(number);
};

/* One exchange. */
const link = (number) => {
  try { history.replaceState(null, "", number < 0 ? location.pathname + location.search : `#${number + 1}`); }
  catch { if (number >= 0) location.replace(`#${number + 1}`); }
};
const close = () => {
  opened = -1;
  panes = [];
  $("detail").hidden = true;
  document.querySelector("main").classList.remove("open");
  document.body.classList.remove("reading");
  link(-1);
  list.paint();
  if (chosen >= 0) choose(shown.indexOf(chosen));
  $("rows").focus({ preventScroll: true });
};

const open = async (number) => {
  const first = opened < 0;
  opened = number;
  const place = data.places[number];
  const [told, sides] = await Promise.all([value("lines", number), place >= 0 ? value("sides", place) : null]);
  if (opened !== number) return;
  const [, conn, , api, version] = rows[number];
  const line = told.lines[0];
  const at = el("span", "grow", [line.ts, line.connection_id, line.client ? `${line.client} → ${line.server}` : "", rows[number][7]]
    .filter(Boolean).join("  ·  "));
  const here = el("a", "", "link");
  here.href = `#${number + 1}`;
  const head = el("div", "head", el("h2", "", `${conn} ${api} ${version}`), at, here, button("previous", "‹", () => move(-1)),
    button("next", "›", () => move(1)), button("close", "close", close));
  head.querySelector(".previous").title = "previous (k)";
  head.querySelector(".next").title = "next (j)";
  panes = [];
  const findings = el("div", "findings"), columns = el("div", "sides", findings);
  told.lines.forEach((each, index) => {
    const side = sides && sides[each.kind === "response" ? 1 : 0];
    columns.append(drawSide(each, told.findings[index], side, place, findings));
  });
  $("detail").replaceChildren(head, columns);
  $("detail").hidden = false;
  document.querySelector("main").classList.add("open");
  document.body.classList.add("reading");
  link(number);
  panes.forEach((pane) => pane.start());
  list.paint();
  if (first) choose(shown.indexOf(number));
};

/* The summary. */
const summarize = () => {
  const [named, others] = [data.files.slice(0, 3).join(", "), data.files.length - 3];
  $("files").textContent = others > 0 ? `${named} and ${counted(others, "other file")}` : named;
  $("files").title = data.files.join("\n");
  const time = data.from && `${data.from.replace("T", " ").slice(0, 23)} to ${data.to.slice(0, 10) === data.from.slice(0, 10) ? data.to.slice(11, 23) : data.to.replace("T", " ").slice(0, 23)} UTC`;
  $("facts").textContent = [time, counted(data.connections, "connection"), counted(data.exchanges, "exchange"),
    `${counted(data.frames, "frame")}, ${data.bytes}`, data.refused ? `${data.refused.toLocaleString("en")} with an error` : "",
    data.unanswered ? `${data.unanswered.toLocaleString("en")} unanswered` : "", data.filter ? `only ${data.filter}` : "",
    `kproxy ${data.version}`].filter(Boolean).join("  ·  ");
  $("notes").append(...data.notes.map((note) => el("li", "", note)));
  $("causes").hidden = !data.causes.length;
  const counts = ["error", "warning", "info"].map((level) => [data.causes.filter(({ severity }) => severity === level).length, level])
    .filter(([count]) => count).map(([count, level]) => level === "info" ? `${count} for information` : counted(count, level));
  $("causes").querySelector("summary").textContent = `What is wrong: ${counts.join(", ")}`;
  for (const cause of data.causes) {
    const times = cause.follows ? `${cause.seen}; follows from ${cause.follows}` : cause.seen;
    const made = button(`cause ${cause.severity}`, [el("span", "code", cause.code), el("span", "message", cause.message), el("span", "times", times)],
      () => cause.row >= 0 && jump(cause.row));
    const hint = cause.notes.find(([name]) => name === "hint");
    if (hint) made.title = hint[1];
    $("causes").querySelector("ol").append(el("li", "", made));
  }
};

const follow = () => {
  const number = Number(location.hash.slice(1)) - 1;
  if (Number.isInteger(number) && number >= 0 && number < rows.length && number !== opened) jump(number);
};

const onKey = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === $("filter")) {
    if (event.key !== "Escape" && event.key !== "Enter") return;
    $("rows").focus();
    if (event.key === "Enter" && shown.length && !shown.includes(chosen)) choose(0);
    event.preventDefault();
    return;
  }
  const pane = panes.find(({ tree }) => tree === event.target);
  const page = Math.max(1, Math.floor($("rows").clientHeight / rowHeight()) - 1);
  const acts = {
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
    PageDown: () => move(page), PageUp: () => move(-page), g: () => choose(0), G: () => choose(shown.length - 1),
    Home: () => choose(0), End: () => choose(shown.length - 1), Escape: () => opened >= 0 && close(),
    "/": () => { $("filter").focus(); $("filter").select(); }, z: () => $("only").click(),
  };
  if (pane && pane.key(event)) { event.preventDefault(); return; }
  if (event.key === "Enter" && (event.target === $("rows") || event.target === document.body)) {
    if (chosen < 0) choose(0);
    if (chosen >= 0) open(chosen);
    event.preventDefault();
    return;
  }
  if (acts[event.key] && event.target.type !== "checkbox" || event.key === "Escape") {
    acts[event.key]();
    event.preventDefault();
  }
};

const start = async () => {
  summarize();
  drawTransactions(data.transactions);
  if (!("DecompressionStream" in window)) {
    $("rows").append(el("p", "none", "This browser is too old for the page: it cannot decompress (Chrome 80, Firefox 113, Safari 16.4 can)."));
    return;
  }
  rows = (await Promise.all(data.rows.map(unpack))).flat();
  narrow();
  $("columns").style.setProperty("--bar", `${$("rows").offsetWidth - $("rows").clientWidth}px`);
  $("filter").addEventListener("input", refilter);
  $("only").addEventListener("change", narrow);
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", follow);
  addEventListener("resize", () => { list.set(shown.length); panes.forEach((pane) => pane.start()); });
  addEventListener("beforeprint", () => { list.print(true); panes.forEach((pane) => pane.print(true)); });
  addEventListener("afterprint", () => { list.print(false); panes.forEach((pane) => pane.print(false)); });
  $("rows").focus({ preventScroll: true });
  const worst = data.causes.find(({ row }) => row >= 0);
  choose(worst ? worst.row : 0);
  follow();
  if (worst && opened < 0) await open(worst.row);
  document.documentElement.dataset.ready = "true";
};
start();
