"use strict";
/* Everything that came off the wire goes into the page as text, never as markup. */
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const OVERSCAN = 12, MOST_PRINTED = 400, TREE_ROW = 20, HEX_ROW = 18;

  /** An element with its class, its text or children, and what it does. */
  const el = (tag, name, ...inside) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...inside.filter((each) => each !== null && each !== undefined));
    return made;
  };
  const button = (name, inside, act) => {
    const made = el("button", name, ...[inside].flat());
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  };
  const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  /** Values are packed in chunks; each is unpacked when something of it is shown. */
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const unpack = async (text) => {
    const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const kept = new Map();
  const value = async (name, number) => {
    const each = data.each[name], chunk = Math.floor(number / each), key = `${name} ${chunk}`;
    if (!kept.has(key)) {
      if (kept.size > 40) kept.delete(kept.keys().next().value);
      kept.set(key, unpack(data[name][chunk]));
    }
    return (await kept.get(key))[number % each];
  };

  /** Shows the rows of a long list that are in sight. */
  class Scroller {
    constructor(box, height, draw) {
      Object.assign(this, { box, height, draw, count: 0, all: false, drawn: new Map() });
      this.inner = el("div", "sized");
      box.append(this.inner);
      box.addEventListener("scroll", () => this.paint(), { passive: true });
      new ResizeObserver(() => this.paint()).observe(box);
    }
    set(count) {
      this.count = count;
      this.inner.style.height = `${count * this.height()}px`;
      this.redraw();
    }
    redraw() {
      this.inner.replaceChildren();
      this.drawn.clear();
      this.paint();
    }
    paint() {
      const height = this.height(), top = this.box.scrollTop;
      const first = this.all ? 0 : Math.max(0, Math.floor(top / height) - OVERSCAN);
      const end = Math.min(this.count, this.all ? MOST_PRINTED : Math.ceil((top + this.box.clientHeight) / height) + OVERSCAN);
      for (const [number, row] of this.drawn) {
        if (number < first || number >= end) { row.remove(); this.drawn.delete(number); }
      }
      let before = null;
      for (let number = first; number < end; number++) {
        let row = this.drawn.get(number);
        if (!row) {
          row = this.draw(number);
          row.style.top = `${number * height}px`;
          this.drawn.set(number, row);
          if (before) before.after(row); else this.inner.prepend(row);
        }
        before = row;
      }
    }
    show(number) {
      const height = this.height(), top = number * height, box = this.box;
      if (top < box.scrollTop) box.scrollTop = Math.max(0, top - height);
      else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * height - box.clientHeight;
      this.paint();
    }
    /** Draws the beginning, for paper; back again with false. */
    print(all) {
      this.all = all;
      this.redraw();
      if (all && this.count > MOST_PRINTED) this.inner.append(el("p", "none", `and ${(this.count - MOST_PRINTED).toLocaleString("en")} more`));
    }
  }

  /* The list of exchanges. */
  let rows = [], texts = [], shown = [], chosen = -1, opened = -1, panes = [];
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

  const narrow = () => {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean), only = $("only").checked;
    shown = [];
    for (let number = 0; number < rows.length; number++) {
      if ((!only || rows[number][9]) && words.every((word) => texts[number].includes(word))) shown.push(number);
    }
    $("count").textContent = shown.length === rows.length ? counted(rows.length, "row")
      : `${shown.length.toLocaleString("en")} of ${counted(rows.length, "row")}`;
    list.set(shown.length);
    if (!shown.length) list.inner.append(el("p", "none", rows.length ? "Nothing here has these words." : "There is nothing to show."));
    const at = shown.indexOf(chosen);
    if (at >= 0) list.show(at); else $("rows").scrollTop = 0;
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
      narrow();
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
    const columns = el("div", "sides");
    told.lines.forEach((each, index) => {
      const side = sides && sides[each.kind === "response" ? 1 : 0];
      columns.append(drawSide(each, told.findings[index], side, place));
    });
    $("detail").replaceChildren(head, columns);
    $("detail").hidden = false;
    document.querySelector("main").classList.add("open");
    document.body.classList.add("reading");
    link(number);
    panes.forEach((pane) => pane.start());
    if (columns.scrollHeight > columns.clientHeight) {
      // Where request and response do not stand beside each other, begin with the one that is wrong.
      const wrong = told.findings.findIndex((each) => each.length);
      if (wrong > 0) columns.scrollTop = columns.children[wrong].offsetTop - columns.offsetTop;
    }
    list.paint();
    if (first) choose(shown.indexOf(number));
  };

  const drawSide = (line, findings, side, place) => {
    const made = el("section", "side"), title = el("h3", "", line.kind);
    const facts = [line.size === undefined ? "" : `${line.size} bytes`, line.correlation_id === undefined ? "" : `id ${line.correlation_id}`];
    title.append(el("span", "dim", facts.filter(Boolean).join(", ")));
    made.append(title);
    const tabs = [], bar = el("span", "tabs");
    bar.setAttribute("role", "tablist");
    const tab = (name, body) => {
      const chooser = button("", name, () => tabs.forEach(([other, shown]) => {
        other.setAttribute("aria-selected", String(shown === body));
        shown.hidden = shown !== body;
        if (shown === body && pane) pane.start();
      }));
      chooser.setAttribute("role", "tab");
      chooser.setAttribute("aria-selected", String(!tabs.length));
      body.hidden = tabs.length > 0;
      tabs.push([chooser, body]);
      bar.append(chooser);
    };
    let pane = null;
    if (side && side.departure) made.append(el("p", "said warning", `read as it is written: ${side.departure}`));
    if (side && side.error) made.append(el("p", "said warning", `not read to the end: ${side.error}`));
    const missing = side ? side.missing : line.size === undefined ? null : place < 0 && "the page had no room for its fields and bytes";
    if (missing) made.append(el("p", "said dim", missing));
    const box = el("div", "findings");
    if (side) {
      pane = new Pane(side, findings, line.kind);
      panes.push(pane);
    }
    findings.forEach((finding, number) => box.append(drawFinding(finding, () => {
      if (pane) { tabs[0][0].click(); pane.point(number); }
    })));
    if (findings.length) made.append(box);
    if (pane) tab("fields", pane.box);
    const records = side ? side.records : [];
    if (records.length) {
      const count = records.reduce((sum, each) => sum + each.rows.length + (each.more || 0), 0);
      tab(counted(count, "record"), drawRecords(records, (field) => { tabs[0][0].click(); pane.choose(field); }));
    }
    tab("trace line", el("div", "text-of-line", el("pre", "", JSON.stringify(line, null, 2))));
    title.append(bar);
    made.append(...tabs.map(([, body]) => body));
    return made;
  };

  const drawFinding = (finding, act) => {
    const list = el("dl", "", ...finding.notes.flatMap(([name, said]) => [el("dt", "", name), el("dd", "", said)]));
    const where = finding.span ? `  bytes ${finding.span[0]}..${finding.span[1]}` : "";
    return button(`finding ${finding.severity}`, [el("span", "code", `${finding.code} ${finding.name}`),
      el("span", "dim", `  ${finding.path || ""}${where}`), el("div", "message", finding.message), list], act);
  };

  const drawPart = ([form, text, size, schema, cut]) => {
    if (form === "null" || form === "empty") return el("span", "dim", form);
    const made = el("div", "", el("pre", form === "hex" ? "hexdump" : "", text));
    const notes = [["text", "json", "hex"].includes(form) ? "" : form, schema === null ? "" : `schema ${schema}`,
      cut ? `cut, ${size === null ? "" : counted(size, "byte")}` : ""].filter(Boolean).join(", ");
    if (notes) made.append(el("span", "dim", notes));
    return made;
  };
  const drawRecords = (fields, act) => {
    const made = el("div", "list-of-records");
    for (const { path, rows: records, more, problems } of fields) {
      made.append(el("h4", "", path), ...problems.map((problem) => el("p", "warning", problem)));
      for (const [offset, time, key, value, headers, field] of records) {
        const at = el("div", "at", `offset ${offset}${time ? `  ${time}` : ""}`);
        at.addEventListener("click", () => act(field));
        const list = el("dl", "", el("dt", "", "key"), el("dd", "", drawPart(key)), el("dt", "", "value"), el("dd", "", drawPart(value)));
        for (const [name, part] of headers) list.append(el("dt", "", name), el("dd", "", drawPart(part)));
        made.append(el("div", "record", at, list));
      }
      if (more !== 0) made.append(el("p", "dim", more === null ? "and more" : `and ${more.toLocaleString("en")} more`));
    }
    return made;
  };

  /** The fields of a frame beside its bytes; what is marked in one is marked in the other. */
  class Pane {
    constructor(side, findings, kind) {
      Object.assign(this, { side, findings, marked: -1, near: -1, cut: 0 });
      this.fields = side.fields;
      this.bytes = side.frame ? bytesOf(side.frame) : new Uint8Array();
      this.size = this.fields.reduce((most, each) => Math.max(most, each[6] || 0), 0);
      this.folded = new Set();
      this.blamed = new Set(side.marks.filter((each) => each !== null));
      this.tree = el("div", "tree");
      this.tree.tabIndex = 0;
      this.tree.setAttribute("role", "tree");
      this.tree.setAttribute("aria-label", `Fields of the ${kind}`);
      this.hex = el("div", "hex");
      this.box = el("div", "pane", this.tree, this.hex);
      this.hex.hidden = !this.bytes.length;
      this.nodes = new Scroller(this.tree, () => TREE_ROW, (at) => this.drawNode(this.visible[at]));
      this.lines = new Scroller(this.hex, () => HEX_ROW, (at) => this.drawBytes(at));
      this.width = 0;
      this.fold();
    }
    /** Measures, now that it is on the screen, and points at what is wrong. */
    start() {
      const room = this.box.clientWidth;
      const columns = room > 900 ? 16 : 8;
      if (!room || columns === this.width) return;
      const first = !this.width;
      this.width = columns;
      const last = this.bytes.length < this.size ? 1 : 0;
      this.hex.style.width = `calc(${5 + columns * 4 + (columns > 8 ? 2 : 0)}ch + 38px)`;
      this.lines.set(Math.ceil(this.bytes.length / columns) + last);
      this.box.style.setProperty("--lines", `${this.lines.count * HEX_ROW}px`);
      if (first && this.findings.length) this.point(0); else if (this.marked >= 0) this.choose(this.marked);
    }
    fold() {
      this.visible = [];
      let hidden = Infinity;
      this.fields.forEach(([depth], number) => {
        if (depth > hidden) return;
        hidden = Infinity;
        this.visible.push(number);
        if (this.folded.has(number)) hidden = depth;
      });
      this.nodes.set(this.visible.length);
      this.box.style.setProperty("--tree", `${this.visible.length * TREE_ROW}px`);
    }
    toggle(number) {
      if (!this.folded.delete(number)) this.folded.add(number);
      this.fold();
    }
    isParent(number) {
      return number + 1 < this.fields.length && this.fields[number + 1][0] > this.fields[number][0];
    }
    drawNode(number) {
      const [depth, name, kind, text, meaning] = this.fields[number];
      const fold = el("span", "fold", this.isParent(number) ? (this.folded.has(number) ? "▸" : "▾") : "");
      fold.addEventListener("click", (event) => { event.stopPropagation(); this.toggle(number); });
      const made = el("div", "node", fold, el("span", "name", name), " ", el("span", "text", text), " ",
        el("span", "meaning", meaning), " ", el("span", "kind", kind));
      made.style.paddingLeft = `${4 + depth * 13}px`;
      made.title = [name, text, meaning, kind].filter(Boolean).join("  ");
      made.setAttribute("role", "treeitem");
      made.setAttribute("aria-level", String(depth + 1));
      made.classList.toggle("has-finding", this.blamed.has(number));
      this.style(made, number);
      made.addEventListener("mouseenter", () => this.hover(number));
      made.addEventListener("mouseleave", () => this.hover(-1));
      made.addEventListener("click", () => this.choose(number, true));
      made.addEventListener("dblclick", () => this.isParent(number) && this.toggle(number));
      return made;
    }
    style(node, number) {
      node.classList.toggle("marked", number === this.marked);
      node.classList.toggle("near", number === this.near);
    }
    span(number) {
      const field = this.fields[number];
      return field && field[5] !== null && field[6] !== null ? [field[5], field[6]] : [0, 0];
    }
    drawBytes(at) {
      const start = at * this.width, made = el("div", "bytes");
      if (start >= this.bytes.length) {
        made.append(el("i", "", `${counted(this.size - this.bytes.length, "more byte")} of the frame`));
        return made;
      }
      made.append(el("i", "", `${start.toString(16).padStart(4, "0")}  `));
      const marked = this.exact || this.span(this.marked), near = this.span(this.near), text = [];
      const end = Math.min(start + this.width, this.bytes.length);
      for (let offset = start; offset < end; offset++) {
        const byte = this.bytes[offset];
        const name = [offset >= marked[0] && offset < marked[1] ? "marked" : "", offset >= near[0] && offset < near[1] ? "near" : "",
          this.findings.some(({ span }) => span && offset >= span[0] && offset < span[1]) ? "finding-mark" : ""].filter(Boolean).join(" ");
        const pair = el("b", name, byte.toString(16).padStart(2, "0"));
        const letter = el("b", name, byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".");
        pair.dataset.at = letter.dataset.at = String(offset);
        const gap = offset + 1 === end ? "" : (offset - start) % 8 === 7 ? "  " : " ";
        const inner = offset + 1 < end && name && offset + 1 < Math.max(marked[1], near[1]) ? el("b", name.replace("finding-mark", ""), gap) : gap;
        made.append(pair, inner);
        text.push(letter);
      }
      const columns = this.width * 3 - 1 + (this.width > 8 ? 1 : 0), used = (end - start) * 3 - 1 + (end - start > 8 ? 1 : 0);
      made.append(" ".repeat(columns - used + 2), ...text);
      made.addEventListener("mouseover", (event) => this.hover(event.target.dataset.at === undefined ? -1 : this.deepest(+event.target.dataset.at)));
      made.addEventListener("mouseleave", () => this.hover(-1));
      made.addEventListener("click", (event) => event.target.dataset.at !== undefined && this.choose(this.deepest(+event.target.dataset.at)));
      return made;
    }
    /** The innermost field that has a byte; what came out of compressed bytes has all of them, so not these. */
    deepest(offset) {
      let found = -1;
      for (let number = 0; number < this.fields.length; number++) {
        const [start, end] = this.span(number);
        if (offset < start || offset >= end) continue;
        const [from, to] = this.span(found);
        if (found >= 0 && start === from && end === to && this.isSharedBelow(found)) continue;
        if (found < 0 || this.fields[number][0] > this.fields[found][0]) found = number;
      }
      return found;
    }
    isSharedBelow(number) {
      const [start, end] = this.span(number), depth = this.fields[number][0] + 1;
      let count = 0;
      for (let next = number + 1; next < this.fields.length && this.fields[next][0] >= depth; next++) {
        const [from, to] = this.span(next);
        if (this.fields[next][0] === depth && from === start && to === end && ++count > 1) return true;
      }
      return false;
    }
    hover(number) {
      if (number === this.near) return;
      this.near = number;
      this.refresh();
    }
    /** Marks a field in both; `here` if it was chosen in the tree. */
    choose(number, here = false) {
      if (number < 0) return;
      this.exact = null;
      this.mark(number, this.span(number), here);
    }
    /** Marks what a finding is about. */
    point(number) {
      const finding = this.findings[number], field = this.side.marks[number];
      const span = finding.span || (field === null ? null : this.span(field));
      this.exact = finding.span ? [finding.span[0], Math.max(finding.span[1], finding.span[0] + 1)] : null;
      this.mark(field === null ? (span ? this.deepest(span[0]) : -1) : field, span);
    }
    mark(number, span, here = false) {
      this.marked = number;
      if (number >= 0 && !here) {
        for (let at = number, depth = this.fields[number][0]; at >= 0; at--) {
          if (this.fields[at][0] < depth) { depth = this.fields[at][0]; this.folded.delete(at); }
        }
        this.fold();
        this.nodes.show(this.visible.indexOf(number));
      }
      this.refresh();
      if (span && this.width) this.lines.show(Math.min(Math.floor(span[0] / this.width), this.lines.count - 1));
    }
    refresh() {
      for (const [at, node] of this.nodes.drawn) this.style(node, this.visible[at]);
      this.lines.redraw();
    }
    print(all) {
      this.nodes.print(all);
      this.lines.print(all);
    }
    key(event) {
      const at = this.visible.indexOf(this.marked);
      const go = (to) => { const number = this.visible[Math.max(0, Math.min(to, this.visible.length - 1))]; this.choose(number); };
      if (event.key === "ArrowDown") go(at + 1);
      else if (event.key === "ArrowUp") go(at - 1);
      else if (event.key === "ArrowLeft" && this.marked >= 0 && this.isParent(this.marked) && !this.folded.has(this.marked)) this.toggle(this.marked);
      else if (event.key === "ArrowRight" && this.folded.has(this.marked)) this.toggle(this.marked);
      else return false;
      return true;
    }
  }

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
      const times = `${counted(cause.count, "time")}${cause.connections > 1 ? ` on ${counted(cause.connections, "connection")}` : ""}`;
      const made = button(`cause ${cause.severity}`, [el("span", "code", cause.code), el("span", "message", cause.message), el("span", "times", times)],
        () => cause.row >= 0 && jump(cause.row));
      const hint = cause.notes.find(([name]) => name === "hint");
      if (hint) made.title = hint[1];
      $("causes").querySelector("ol").append(el("li", "", made));
    }
    if (matchMedia("(max-width: 620px)").matches) $("causes").open = false;
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
    if (!("DecompressionStream" in window)) {
      $("rows").append(el("p", "none", "This browser is too old for the page: it cannot decompress (Chrome 80, Firefox 113, Safari 16.4 can)."));
      return;
    }
    rows = (await Promise.all(data.rows.map(unpack))).flat();
    texts = rows.map((row) => [row[1], row[2], `${row[3]} ${row[4]}`, row[5], row[7], ...row[8].map(([text]) => text), row[9]].join(" ").toLowerCase());
    narrow();
    $("columns").style.setProperty("--bar", `${$("rows").offsetWidth - $("rows").clientWidth}px`);
    $("filter").addEventListener("input", narrow);
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
    document.documentElement.dataset.ready = "true";
  };
  start();
})();
