/* Data from the wire is added to the page as text, never as markup. */
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const NS = document.querySelector("svg").namespaceURI;

const add = (made, inside) => {
  made.append(...inside.flat().filter((each) => each !== null && each !== undefined));
  return made;
};
/** Creates an element with a class, text or children. */
const el = (tag, name, ...inside) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  return add(made, inside);
};
/** Creates an SVG element with attributes. */
const draw = (tag, attributes, ...inside) => {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return add(made, inside);
};

/* Values as text, as in the terminal. */
const whole = (value) => Math.round(value).toLocaleString("en");
const duration = (us) => us < 1000 ? `${+us.toFixed(us < 10 ? 1 : 0)} µs` : us < 1e6 ? `${(us / 1000).toFixed(1)} ms`
  : us < 120e6 ? `${(us / 1e6).toFixed(1)} s` : us < 7200e6 ? `${(us / 60e6).toFixed(1)} min` : `${(us / 3600e6).toFixed(1)} h`;
const size = (bytes) => {
  let value = bytes, unit = "B";
  for (const next of ["KB", "MB", "GB", "TB"]) if (Math.abs(value) >= 1000) { value /= 1000; unit = next; }
  return unit === "B" ? `${whole(value)} B` : `${value.toFixed(1)} ${unit}`;
};
const iso = (us) => new Date(us / 1000).toISOString().replace("T", " ");
const time = (us) => iso(us).slice(0, 19);
const number = (value) => Number.isInteger(value) ? whole(value) : Math.abs(value) >= 1000 ? whole(value) : String(+value.toPrecision(3));
const FORMS = {
  duration, size, time, number, share: (value) => `${+(value * 100).toPrecision(3)} %`,
  list: (values) => values.join(", "), text: String,
};
const NUMBERS = new Set(["duration", "size", "share", "number"]);
const shown = (kind, value) => value === null ? "" : FORMS[kind](value);
const counted = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

/** The column with the name of a table row. If there are several clusters, that of the row is added; filters use `raw`. */
const NAMES = { clients: "client", errors: "value", findings: "client", "group-stalls": "group_id", latency: "api", rules: "client" };

/** The rows of a job's table as objects by column name; empty if there is no such job. */
const tables = new Map(data.tables.map((table) => [table.name, table]));
const records = (name) => {
  const table = tables.get(name);
  if (!table) return [];
  const rows = table.rows.map((row) => Object.fromEntries(table.columns.map(([column], place) => [column, row[place]])));
  for (const row of rows) {
    row.raw = row[NAMES[name]];
    if (row.cluster && row.raw) row[NAMES[name]] = `${row.raw} · ${row.cluster}`;
  }
  return rows;
};

/* The tooltip. */
const tip = $("tip");
const tell = (mark, text) => {
  mark.addEventListener("pointermove", (event) => {
    tip.textContent = text();
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
  });
  mark.addEventListener("pointerleave", () => { tip.hidden = true; });
  return mark;
};

/* The time axis: a column for each bucket, and an empty one for each removed gap. */
const { step_us: step, begins, observed_us: observed } = data.axis;
const columns = [];
let width = 0;
begins.forEach((begin, place) => {
  if (place && begin - begins[place - 1] > step) width += 1;
  columns.push(width++);
});
const until = (place) => step < 60e6 ? iso(begins[place] + step).slice(11, 19) : iso(begins[place] + step).slice(11, 16);
/** Whether only part of a bucket was observed, as at the ends and in gaps of a trace. */
const partial = (place) => observed[place] < .95 * step;
const bucket = (place) => (step < 24 * 3600e6 ? `${time(begins[place])} to ${until(place)}` : time(begins[place]).slice(0, 10))
  + (partial(place) ? `, of which ${duration(observed[place])} were observed` : "");

/** A chart over time: margins, a scale, and the axis below. `rows` are heights in pixels. */
const timeline = (host, rows, left) => {
  const total = Math.max(280, host.clientWidth), inner = total - left - 6;
  const each = inner / Math.max(1, width);
  const x = (place) => left + columns[place] * each;
  /** The x position of a time, also between bucket starts. */
  const at = (us) => {
    let low = 0, high = begins.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (begins[middle] <= us) low = middle; else high = middle - 1;
    }
    return x(low) + Math.max(0, Math.min(1, (us - begins[low]) / step)) * each;
  };
  const box = draw("svg", { viewBox: `0 0 ${total} ${rows + 34}`, height: rows + 34, role: "img" });
  const marks = draw("g", {});
  box.append(marks, draw("line", { class: "axis", x1: left, x2: left + inner, y1: rows + .5, y2: rows + .5 }));
  const ticks = [];
  let day = "";
  begins.forEach((begin, place) => {
    const from = x(place);
    if (place && columns[place] - columns[place - 1] > 1) {
      box.append(draw("line", { class: "cut", x1: from - each / 2, x2: from - each / 2, y1: 0, y2: rows }));
    }
    const date = iso(begin).slice(5, 10), clock = iso(begin).slice(11, 19).replace(/:00$/, "");
    const isDay = date !== day, room = isDay ? 46 : 62;
    day = date;
    // A date label takes precedence over a time of the previous day.
    if (isDay && ticks.length && !ticks.at(-1).isDay && from - ticks.at(-1).from < room) ticks.pop();
    if (!ticks.length || from - ticks.at(-1).from >= room) ticks.push({ from, clock, date, isDay });
  });
  let told = "";
  for (const { from, clock, date } of ticks) {
    const anchor = from > total - 40 ? "end" : "start", has = step < 24 * 3600e6;
    box.append(draw("line", { class: "axis", x1: from, x2: from, y1: rows, y2: rows + 4 }));
    if (has) box.append(draw("text", { x: from, y: rows + 16, "text-anchor": anchor }, clock));
    if (date !== told) box.append(draw("text", { x: from, y: rows + (has ? 30 : 16), "text-anchor": anchor }, date));
    told = date;
  }
  host.replaceChildren(box);
  return { box, marks, x, at, each, left, inner, total };
};
const label = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
const none = (host, text) => host.replaceChildren(el("p", "none", text));

/* Latency over time. */
const DECADE = 4;
const edge = (row) => 10 ** (row / DECADE);
let heatOf = 0;
const drawHeat = () => {
  const { name, marks } = data.heat[heatOf];
  if (!marks.length) return none($("heat"), "No responses.");
  const rows = marks.map(([, row]) => row), low = Math.min(...rows), high = Math.max(...rows) + 1;
  const most = Math.log(Math.max(...marks.map(([, , count]) => count)) + 1), tall = 13, height = (high - low) * tall;
  const frame = timeline($("heat"), height, 58);
  frame.box.setAttribute("aria-label", `Latency over time${name ? ` of ${name}` : ""}`);
  for (let row = Math.ceil(low / DECADE) * DECADE; row <= high; row += DECADE) {
    const y = (high - row) * tall;
    frame.marks.append(draw("line", { class: "grid", x1: frame.left, x2: frame.left + frame.inner, y1: y, y2: y }));
    frame.box.append(draw("text", { x: frame.left - 8, y: y + 4, "text-anchor": "end" }, duration(edge(row)).replace(".0", "")));
  }
  for (const [place, row, count] of marks) {
    const cell = draw("rect", {
      class: "heat", x: frame.x(place), y: (high - row - 1) * tall, width: Math.max(1, frame.each - .5), height: tall - .5,
      "fill-opacity": (.1 + .9 * Math.log(count + 1) / most).toFixed(3),
    });
    frame.marks.append(tell(cell, () => `${counted(count, "response")} in ${duration(edge(row))} to ${duration(edge(row + 1))}\n${bucket(place)}`));
  }
  return null;
};
const chooseHeat = () => {
  $("heat-choice").replaceChildren(...data.heat.map(({ name }, place) => {
    const made = el("button", "", name || "all except long polls");
    made.type = "button";
    made.setAttribute("role", "radio");
    made.setAttribute("aria-checked", String(place === heatOf));
    made.addEventListener("click", () => { heatOf = place; chooseHeat(); drawHeat(); $("heat-choice").children[place].focus(); });
    return made;
  }));
};

const drawTraffic = () => {
  const marks = data.traffic[0].marks, height = 70;
  if (!marks.length) return none($("traffic"), "No traffic.");
  // A bar is the rate over the observed time; a briefly observed bucket does not get a tall bar.
  const rate = ([place, requests]) => requests / (Math.max(observed[place], step / 2) / 1e6);
  const most = Math.max(...marks.map(rate));
  const frame = timeline($("traffic"), height, 58);
  const shown = (each) => `${each >= 10 ? whole(each) : +each.toPrecision(2)}/s`;
  frame.box.append(draw("text", { x: 50, y: 10, "text-anchor": "end" }, shown(most)));
  for (const mark of marks) {
    const [place, requests, bytes] = mark, tall = rate(mark) / (most || 1) * height;
    const bar = draw("rect", { class: partial(place) ? "bar partial" : "bar", x: frame.x(place), y: height - tall, width: Math.max(1, frame.each - .5), height: tall });
    frame.marks.append(tell(bar, () => `${counted(requests, "request")}, ${shown(rate(mark))}, ${size(bytes)}\n${bucket(place)}`));
  }
  return null;
};

const drawBrokers = () => {
  const series = data.brokers.filter(({ marks }) => marks.length);
  if (!series.length) return none($("brokers"), "No broker responded.");
  const values = series.flatMap(({ marks }) => marks.map(([, , p99]) => Math.max(1, p99)));
  const low = Math.log(Math.min(...values)), span = Math.log(Math.max(...values)) - low || 1;
  const narrow = $("brokers").clientWidth < 620, tall = narrow ? 36 : 22;
  const frame = timeline($("brokers"), series.length * tall, narrow ? 8 : 170);
  series.forEach(({ name, marks }, row) => {
    const top = row * tall + (narrow ? 16 : 0);
    frame.box.append(draw("text", { class: "name", x: narrow ? 8 : 0, y: narrow ? top - 4 : top + 14 }, label(name, narrow ? 40 : 25)));
    for (const [place, answers, p99] of marks) {
      const cell = draw("rect", {
        class: "heat", x: frame.x(place), y: top + 1, width: Math.max(1, frame.each - .5), height: 17,
        "fill-opacity": (.12 + .88 * (Math.log(Math.max(1, p99)) - low) / span).toFixed(3),
      });
      frame.marks.append(tell(cell, () => `p99 ${duration(p99)} of ${counted(answers, "response")}\n${name}\n${bucket(place)}`));
    }
  });
  const ramp = (opacity) => draw("svg", { viewBox: "0 0 11 11" }, draw("rect", { class: "heat", width: 11, height: 11, "fill-opacity": opacity }));
  $("brokers").append(el("div", "legend", el("span", "", ramp(.12), duration(Math.exp(low))), el("span", "", ramp(.56), duration(Math.exp(low + span / 2))),
    el("span", "", ramp(1), duration(Math.exp(low + span)))));
  return null;
};

/* Tables. */
const cell = (kind, value, name = "") => el("td", `${NUMBERS.has(kind) ? "number" : kind === "time" ? "tight" : ""} ${name}`.trim(), shown(kind, value));
/** A text as a value in a filter. */
const quoted = (text) => `"${String(text).replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
const word = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
/** Shows the command for the frames that a filter finds, all without one, of one bucket of time if there is a place. */
const showFrames = (filter, place) => {
  const at = (us) => `${iso(us).slice(0, 10)}T${iso(us).slice(11, 23)}Z`;
  const within = place === undefined ? "" : ` and ts>=${at(begins[place])} and ts<${at(begins[place] + step)}`;
  const command = `kproxy tui ${filter && `-f ${word(filter + within)} `}${data.paths}`;
  $("command").textContent = command;
  $("copy").onclick = async () => { await navigator.clipboard.writeText(command); $("copy").textContent = "Copied"; };
  $("copy").textContent = "Copy";
  $("frames").showModal();
};
const link = (text, filter) => {
  const made = el("button", "opens", text);
  made.type = "button";
  made.title = "Show these frames";
  made.addEventListener("click", () => showFrames(filter));
  return made;
};
/** A cell with a number that opens the frames that it counts. */
const opening = (kind, value, filter, name = "") => el("td", `number ${name}`.trim(), link(shown(kind, value), filter));
const head = (titles) => el("thead", "", el("tr", "", ...titles.map(([text, name]) => el("th", name, text))));
/** A table; on narrow screens each number has its column's label. */
const grid = (titles, body, name) => {
  for (const row of body.rows) [...row.cells].forEach((each, place) => { each.dataset.of = titles[place][0]; });
  return el("div", "scroll", el("table", name, head(titles), body));
};
const heading = (name) => name.replace(/_us$|_bytes$/, "").replaceAll("_", " ");

const drawPercentiles = () => {
  const rows = records("latency").filter(({ by }) => by === "api");
  if (!rows.length) return none($("percentiles"), "No responses.");
  const low = Math.log10(Math.min(...rows.map((row) => Math.max(1, row.p50_us)))), high = Math.log10(Math.max(...rows.map((row) => Math.max(10, row.max_us))));
  const x = (us) => 4 + 292 * (Math.log10(Math.max(1, us)) - low) / (high - low || 1);
  const plot = (row) => {
    const box = draw("svg", { viewBox: "0 0 300 18", preserveAspectRatio: "none", height: 18 });
    for (let decade = Math.ceil(low); decade <= high; decade++) box.append(draw("line", { class: "grid", x1: x(10 ** decade), x2: x(10 ** decade), y1: 0, y2: 18 }));
    box.append(draw("line", { class: "range", x1: x(row.p50_us), x2: x(row.p99_us), y1: 9, y2: 9 }),
      draw("line", { class: "far", x1: x(row.p99_us), x2: x(row.max_us), y1: 9, y2: 9, "stroke-opacity": .35 }),
      draw("line", { class: "far", x1: x(row.max_us), x2: x(row.max_us), y1: 5, y2: 13 }),
      draw("rect", { class: "dot", x: x(row.p50_us) - 2, y: 3, width: 4, height: 12, rx: 1 }));
    return tell(box, () => `${row.api}: p50 ${duration(row.p50_us)}, p90 ${duration(row.p90_us)}, p99 ${duration(row.p99_us)}, p99.9 ${duration(row.p999_us)}, max ${duration(row.max_us)}`);
  };
  const body = el("tbody", "", ...rows.map((row) => el("tr", "", el("td", "tight", row.api), opening("number", row.responses, `kind=response and api=${row.raw}`, "minor"), cell("duration", row.p50_us),
    cell("duration", row.p90_us, "minor"), opening("duration", row.p99_us, `api=${row.raw} and latency>=${Math.floor(row.p99_us)}us`), cell("duration", row.p999_us, "minor"),
    opening("duration", row.max_us, `api=${row.raw} and latency>=${row.max_us}us`), el("td", "plot", plot(row)))));
  const titles = [["API", ""], ["responses", "number minor"], ["p50", "number"], ["p90", "number minor"], ["p99", "number"], ["p99.9", "number minor"], ["max", "number"],
    ["p50 to p99, and max (log scale)", "plot"]];
  $("percentiles").replaceChildren(grid(titles, body, "percentiles"));
  return null;
};

/** Stacked bars over time. `written` gives the text of a value, `told` that of a mark, `filter` the filter of a series. */
const stacked = (id, all, { written, told, nothing, filter, colours = [2, 1, 4, 3, 5, 0] }) => {
  const series = all.filter(({ marks }) => marks.length), host = $(id);
  if (!series.length) { none(host, nothing); return; }
  const sums = new Map(), height = 130;
  for (const { marks } of series) for (const [place, count] of marks) sums.set(place, (sums.get(place) || 0) + count);
  const most = Math.max(...sums.values()), frame = timeline(host, height, 58), tops = new Map();
  frame.box.append(draw("text", { x: 50, y: 10, "text-anchor": "end" }, written(most)), draw("text", { x: 50, y: height, "text-anchor": "end" }, "0"));
  frame.marks.append(draw("line", { class: "grid", x1: frame.left, x2: frame.left + frame.inner, y1: .5, y2: .5 }));
  series.forEach(({ name, marks }, number) => {
    const colour = colours[number];
    for (const [place, count] of marks) {
      const tall = count / most * height, top = (tops.get(place) ?? height) - tall;
      tops.set(place, top);
      const bar = draw("rect", { class: `c${colour} opens`, x: frame.x(place), y: top, width: Math.max(2, frame.each - 1), height: Math.max(1, tall) });
      bar.addEventListener("click", () => showFrames(filter(name), place));
      frame.marks.append(tell(bar, () => `${told(count, name)}\n${bucket(place)}`));
    }
  });
  host.append(el("div", "legend", ...series.map(({ name }, number) => el("span", "", draw("svg", { viewBox: "0 0 11 11" },
    draw("rect", { class: `c${colours[number]}`, width: 11, height: 11, rx: 2 })), name))));
};
const drawMore = () => {
  stacked("client-bars", data.clients, { written: size, told: (bytes, name) => `${size(bytes)} of ${name}`, nothing: "No frames.", filter: (name) => `client=${quoted(name)}` });
  stacked("topic-bars", data.topics, { written: size, told: (bytes, name) => `${size(bytes)} of records of ${name}`, nothing: "No records.", filter: (name) => `topic=${quoted(name)} and bytes>0` });
  stacked("lag-bars", data.lags, { written: whole, told: (lag, name) => `lag of up to ${counted(lag, "record")} in ${name}`, nothing: "No reader was behind.", filter: (name) => `topic=${quoted(name)} and lag>0` });
  stacked("connection-bars", data.connections, { written: whole, told: (count, name) => `${counted(count, "connection")} to ${name}`, nothing: "No connection was opened.", filter: (name) => `kind=open and server=${quoted(name)}` });
  const groups = new Map();
  for (const { group_id: group, since } of records("rebalances")) {
    if (since === null || !begins.length) continue;
    const place = begins.findLastIndex((begin) => begin <= since), marks = groups.get(group) || new Map();
    if (place < 0) continue;
    marks.set(place, (marks.get(place) || 0) + 1);
    groups.set(group, marks);
  }
  const series = [...groups].slice(0, 6).map(([name, marks]) => ({ name, marks: [...marks] }));
  stacked("rebalance-bars", series, { written: whole, told: (count, name) => `${counted(count, "rebalance")} of ${name}`, nothing: "No group rebalanced.", filter: (name) => `group_id=${quoted(name)}` });
};
const drawErrors = () => {
  stacked("error-bars", data.errors, { written: whole, told: (count, name) => `${counted(count, "response")} with ${name}`, nothing: "No response has an error.", filter: (name) => `error=${name}`, colours: [0, 1, 2, 3, 4, 5] });
  const rows = records("errors").filter(({ by }) => by === "api");
  const body = el("tbody", "", ...rows.map((row) => el("tr", "", el("td", "tight", row.value), el("td", "", row.error), opening("number", row.responses, `api=${row.raw} and error=${row.error}`), cell("share", row.share),
    cell("time", row.first_at, "minor"), cell("time", row.last_at, "minor"))));
  $("error-table").replaceChildren(grid([["API", ""], ["error", ""], ["responses", "number"], ["share of responses", "number"], ["first", ""], ["last", ""]], body, "stacked"));
};

/* Groups: one lane each, the longest stall first. */
const LANES = 24;
const drawGroups = () => {
  const stalls = records("group-stalls"), host = $("lanes");
  if (!stalls.length) { none(host, "No group stalled."); return; }
  const groups = new Map();
  for (const stall of stalls) groups.set(stall.group_id, [...(groups.get(stall.group_id) || []), stall]);
  const lanes = [...groups].slice(0, LANES), narrow = host.clientWidth < 620, tall = narrow ? 38 : 24;
  const frame = timeline(host, lanes.length * tall, narrow ? 8 : 170);
  lanes.forEach(([group, found], row) => {
    const top = row * tall + (narrow ? 18 : 2);
    frame.box.append(draw("text", { class: "name", x: narrow ? 8 : 0, y: narrow ? top - 4 : top + 13 }, label(group, narrow ? 44 : 25)));
    frame.marks.append(draw("rect", { class: "cell", x: frame.left, y: top, width: frame.inner, height: 18, rx: 2 }));
    for (const stall of found) {
      const from = frame.at(stall.since), to = stall.until === null ? frame.left + frame.inner : frame.at(stall.until);
      const bar = draw("rect", { class: stall.severity, x: from, y: top + 2, width: Math.max(3, to - from), height: 14, rx: 2, "fill-opacity": .8 });
      frame.marks.append(tell(bar, () => `${stall.stall}, ${duration(stall.duration_us)} from ${time(stall.since)}\n${stall.sentence}`));
    }
  });
  const more = groups.size > LANES ? [el("p", "about", `and ${counted(groups.size - LANES, "more group")}`)] : [];
  // The longest stall of each kind represents the others of its group.
  const kinds = new Map();
  for (const stall of stalls) {
    const key = JSON.stringify([stall.group_id, stall.stall]);
    kinds.set(key, [...(kinds.get(key) || []), stall]);
  }
  const rows = [...kinds.values()].slice(0, 40).map((found) => ({ ...found[0], times: found.length, last: Math.max(...found.map(({ since }) => since)) }));
  const body = el("tbody", "", ...rows.map((row) => el("tr", "", el("td", "", row.group_id), el("td", "", el("span", `verdict ${row.severity}`, row.stall)),
    opening("number", row.times, `stall and group_id=${quoted(row.raw)}`), cell("duration", row.duration_us), cell("time", row.last, "minor"), el("td", "wide", row.sentence, el("div", "dim", row.look[0].toUpperCase() + row.look.slice(1))))));
  $("stalls").replaceChildren(...more, grid([["group", ""], ["what", ""], ["times", "number"], ["longest", "number"], ["last", ""], ["cause of the longest", ""]], body, "stacked"));
};

const drawClients = () => {
  const all = records("clients"), rows = all.filter(({ api }) => api === null);
  if (!rows.length) { none($("client-table"), "No clients."); return; }
  const key = (row) => JSON.stringify([row.client, row.software_name, row.software_version]), uses = new Map();
  for (const row of all) if (row.api !== null) uses.set(key(row), [...(uses.get(key(row)) || []), row]);
  const used = (row) => (uses.get(key(row)) || []).flatMap((use, place) => [place ? ", " : "", el(use.verdict === "refused" ? "b" : "span",
    use.verdict === "works" ? "dim" : "gone", `${use.api}\u00a0${use.api_version}`)]);
  const body = el("tbody", "", ...rows.map((row) => el("tr", "", el("td", "", row.client), el("td", "", el("span", `verdict ${row.verdict}`, row.verdict)),
    el("td", "", [row.software_name, row.software_version].filter(Boolean).join(" ")), opening("number", row.requests, `kind=request and client=${quoted(row.raw)}`, "minor"), cell("number", row.connections, "minor"),
    cell("number", row.hosts, "minor"), el("td", "wide", row.verdict === "works" ? null : row.reason, el("div", "", ...used(row))))));
  $("client-table").replaceChildren(grid([["client", ""], ["verdict", ""], ["software", ""], ["requests", "number"], ["connections", "number"], ["hosts", "number"],
    ["reason, and versions used", ""]], body, "stacked"));
  $("clients-about").textContent = `Whether the newest Kafka release serves their API versions (KIP-896), worst first.${tables.get("clients").more ? " For the full list: kproxy analyze --job clients" : ""}`;
};

/* Findings: one example per rule, and the other places. */
const page = (text) => {
  const made = el("div", "page");
  for (const [place, part] of text.split(/```\w*\n?/).entries()) {
    if (place % 2) { made.append(el("pre", "", part.trimEnd())); continue; }
    for (const block of part.split(/\n\s*\n/).map((each) => each.trim()).filter(Boolean)) {
      const [first, ...rest] = block.split("\n");
      if (first.startsWith("## ")) made.append(el("h4", "", first.slice(3)));
      const words = (first.startsWith("## ") ? rest : [first, ...rest]).join(" ").trim();
      if (words) made.append(el("p", "", words));
    }
  }
  return made;
};
const drawFindings = () => {
  const rules = new Map();
  for (const row of [...records("findings"), ...records("rules")]) {
    const id = `${row.code} ${row.name}`;
    rules.set(id, [...(rules.get(id) || []), row]);
  }
  if (!rules.size) { none($("finding-list"), "No findings."); return; }
  $("finding-list").replaceChildren(...[...rules].map(([id, rows]) => {
    const first = rows.find(({ message }) => message !== null) || rows[0], severity = rows[0].severity || "info";
    const times = rows.reduce((sum, row) => sum + row.findings, 0), rule = data.rules[first.code];
    const where = rows.slice(0, 8).map((row) => `${row.client ?? "?"} at ${row.broker ?? "?"} (${whole(row.findings)})`).join(", ");
    const made = el("article", "finding", el("h3", "", el("span", `verdict ${severity}`, severity), id, el("span", "times", link(counted(times, "occurrence"), `finding=${first.code}`))));
    if (first.message) made.append(el("p", "message", first.message));
    made.append(el("p", "where", where, rows.length > 8 ? ` and ${rows.length - 8} more` : ""));
    if (first.connection_id) {
      const known = typeof first.offset === "number", frame = known ? ` and offset=${first.offset}` : "";
      made.append(el("p", "where", `Example: ${first.direction ? `${first.direction} ` : ""}${known ? `at byte ${first.offset} of the stream, ` : ""}${iso(first.at ?? first.first_at)} UTC`),
        el("pre", "", `kproxy dissect --detail full -v -f 'connection_id="${first.connection_id}"${frame}' ${data.paths}`));
    }
    if (rule) made.append(el("details", "", el("summary", "", `About ${first.code} and how to fix it`), page(rule.page)));
    return made;
  }));
};

/* All tables, each rendered when it is opened. */
const sortable = (table, chosen = null) => {
  let by = -1, down = false;
  const host = el("div", "scroll");
  const places = Object.entries(chosen || {}).map(([name, value]) => [table.columns.findIndex(([column]) => column === name), value]);
  const paint = () => {
    const rows = table.rows.filter((row) => places.every(([place, value]) => place < 0 || row[place] === value));
    if (by >= 0) {
      rows.sort((one, other) => {
        const [a, b] = [one[by], other[by]];
        if (a === null || b === null) return (a === null) - (b === null);
        const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
        return down ? -order : order;
      });
    }
    const titles = table.columns.map(([name, kind], place) => {
      const act = el("button", "", heading(name));
      act.type = "button";
      act.addEventListener("click", () => { down = by === place ? !down : NUMBERS.has(kind); by = place; paint(); });
      const made = el("th", NUMBERS.has(kind) ? "number" : "", act);
      if (by === place) made.setAttribute("aria-sort", down ? "descending" : "ascending");
      return made;
    });
    const long = (value) => typeof value === "string" && value.length > 40 ? "wide" : "";
    const body = rows.map((row) => el("tr", "", ...row.map((value, place) => cell(table.columns[place][1], value, long(value)))));
    host.replaceChildren(el("table", "", el("thead", "", el("tr", "", ...titles)), el("tbody", "", ...body)));
  };
  paint();
  return host;
};
const drawTables = () => {
  $("table-list").replaceChildren(...data.tables.map((table) => {
    const many = `${table.more ? "first " : ""}${counted(table.rows.length, "row")}`;
    const made = el("details", "listed", el("summary", "", el("b", "", table.name), el("span", "about", table.help), el("span", "dim", many)));
    made.id = `table-${table.name}`;
    made.addEventListener("toggle", () => { if (made.open && made.children.length === 1) made.append(table.rows.length ? sortable(table) : el("p", "none", "No rows.")); });
    made.choose = ({ title, rows, filter }) => {
      const all = el("button", "", "all rows");
      all.type = "button";
      all.addEventListener("click", () => made.replaceChildren(made.firstChild, sortable(table)));
      made.replaceChildren(made.firstChild, el("p", "chosen", el("b", "", title), " ", filter ? link("its frames", filter) : null, " ", all), sortable(table, rows));
      made.open = true;
      made.scrollIntoView();
    };
    return made;
  }));
};

/* The header. */
const MAX_SHOWN = 6;
const drawHead = () => {
  const facts = data.facts, from = facts.first_us === null ? "" : time(facts.first_us).slice(0, 16), to = facts.last_us === null ? "" : time(facts.last_us).slice(0, 16);
  $("period").textContent = !from ? "No traffic" : from.slice(0, 10) === to.slice(0, 10) ? `${from} to ${to.slice(11)} UTC` : `${from} to ${to} UTC`;
  document.title = `kproxy report: ${$("period").textContent}`;
  const many = data.sources.length > 6;
  $("sources").replaceChildren(...many ? [el("details", "", el("summary", "", `${counted(data.sources.length, "source")}: ${data.sources.slice(0, 3).join(", ")}, …`), data.sources.join(", "))]
    : [data.sources.join(", ")]);
  const stages = [["fails", "What fails"], ["degrades", "What is slow, or fails at times"], ["will break", "What will break"]];
  const known = data.headlines.map((headline, place) => ({ ...headline, place }));
  $("headlines").replaceChildren(...stages.flatMap(([stage, title]) => {
    const found = known.filter((each) => each.stage === stage);
    if (!found.length) return [];
    const items = found.map(({ level, title: name, text, place }) => {
      const made = el("a", level, el("span", "", el("b", "", name), " ", text));
      made.href = `#rows-${place}`;
      return el("li", "", made);
    });
    const shown = el("ol", "", ...items.slice(0, MAX_SHOWN)), rest = items.slice(MAX_SHOWN);
    if (rest.length) shown.append(el("li", "", el("details", "more", el("summary", "", `${rest.length} more`), el("ol", "", ...rest))));
    return [el("h2", "", title), shown];
  }));
  const ends = data.errors.reduce((sum, { marks }) => sum + marks.reduce((all, [, count]) => all + count, 0), 0);
  // Routine errors are not counted; the errors of the chart are all others, if it has room for them.
  const refused = ends && ends >= facts.refused ? `error in (${data.errors.map(({ name }) => name).join(", ")})` : "error!=0";
  const place = (text, id) => { const made = el("a", "opens", text); made.href = `#${id}`; return made; };
  const told = [["requests", link(whole(facts.requests), "kind=request")], ["bytes", link(size(facts.wire_bytes), "kind in (request, response)")], ["error responses", link(whole(facts.refused), refused)],
    ["clients", place(whole(facts.clients), "clients")], ["brokers", place(whole(facts.brokers), "latency")], ["connections", link(whole(facts.connections), "kind in (open, close)")],
    ["sources", place(whole(facts.proxies), "sources")], ["lines", link(whole(facts.lines), "")]];
  if (facts.missed_bytes) told.push(["not inspected", link(size(facts.missed_bytes), "kind=gap")]);
  $("facts").replaceChildren(...told.map(([name, value]) => el("div", "", el("dt", "", name), el("dd", "", value))));
  $("nav").replaceChildren(...Array.from(document.querySelectorAll("section"), (section) => {
    const link = el("a", "", section.querySelector("h2").textContent);
    link.href = `#${section.id}`;
    return link;
  }));
  document.querySelector("main").after(el("footer", "", `kproxy ${data.version}. Times are UTC, 1 KB is 1000 bytes.`));
};
const follow = () => {
  const chosen = /^#rows-(\d+)$/.exec(location.hash), headline = chosen && data.headlines[chosen[1]];
  if (headline) { document.getElementById(`table-${headline.about}`)?.choose(headline); return; }
  const aim = location.hash.startsWith("#table-") && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (aim) { aim.open = true; aim.scrollIntoView(); }
};

const charts = () => { drawHeat(); drawTraffic(); drawBrokers(); drawErrors(); drawGroups(); drawMore(); };
drawHead();
chooseHeat();
drawPercentiles();
drawClients();
drawFindings();
drawTables();
charts();
let drawnAt = innerWidth;
addEventListener("resize", () => { if (innerWidth !== drawnAt) { drawnAt = innerWidth; charts(); } });
addEventListener("hashchange", follow);
follow();
document.documentElement.dataset.ready = "true";
