/* The fields of one side of an exchange beside its bytes. */
import { pluralize, el } from "./elements.js";
import { decodeBase64 } from "./embedded_source.js";
import { Scroller } from "./scroller.js";

const TREE_ROW = 20, HEX_ROW = 18;

/** The fields of a frame beside its bytes, with linked highlighting. */
export class Pane {
  /** @param chosen is called with the path of a field that was selected */
  constructor(side, findings, kind, chosen = () => {}) {
    Object.assign(this, { side, findings, kind, chosen, marked: -1, near: -1 });
    this.fields = side.fields;
    this.bytes = side.frame ? decodeBase64(side.frame) : new Uint8Array();
    this.size = this.fields.reduce((most, each) => Math.max(most, each[6] || 0), 0);
    this.folded = new Set();
    this.blamed = new Map(side.marks.map((field, at) => [field, findings[at].severity]).reverse());
    this.tree = el("div", "tree");
    this.tree.tabIndex = 0;
    this.tree.setAttribute("role", "tree");
    this.tree.setAttribute("aria-label", `Fields of the ${kind}`);
    this.tree.id = `tree-${kind}`;
    this.hex = el("div", "hex");
    this.hex.tabIndex = 0;
    this.hex.setAttribute("role", "region");
    this.hex.setAttribute("aria-label", `Bytes of the ${kind}`);
    this.box = el("div", "pane", this.tree, this.hex);
    this.hex.hidden = !this.bytes.length;
    this.nodes = new Scroller(this.tree, () => TREE_ROW, (at) => this.drawNode(this.visible[at]));
    this.lines = new Scroller(this.hex, () => HEX_ROW, (at) => this.drawBytes(at));
    const at = ({ target }) => target.dataset.at === undefined ? -1 : this.deepest(Number(target.dataset.at));
    this.hex.addEventListener("mouseover", (event) => this.hover(at(event)));
    this.hex.addEventListener("mouseleave", () => this.hover(-1));
    this.hex.addEventListener("click", (event) => this.choose(at(event)));
    this.width = 0;
    this.fold();
  }
  /** Measures itself once it is on the screen, and highlights the first finding. */
  start() {
    const room = this.box.clientWidth;
    const columns = room > 900 ? 16 : 8;
    if (!room || columns === this.width) return;
    const first = !this.width;
    this.width = columns;
    const last = this.bytes.length < this.size ? 1 : 0;
    this.hex.style.width = `calc(${7 + columns * 4 + (columns > 8 ? 1 : 0)}ch + 38px)`;
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
    made.id = `${this.kind}-field-${number}`;
    made.setAttribute("aria-level", String(depth + 1));
    if (this.isParent(number)) made.setAttribute("aria-expanded", String(!this.folded.has(number)));
    if (this.blamed.has(number)) made.classList.add(`blamed-${this.blamed.get(number)}`);
    this.style(made, number);
    made.addEventListener("mouseenter", () => this.hover(number));
    made.addEventListener("mouseleave", () => this.hover(-1));
    made.addEventListener("click", () => { if (getSelection().isCollapsed) this.choose(number, true); });
    made.addEventListener("dblclick", () => this.isParent(number) && this.toggle(number));
    return made;
  }
  style(node, number) {
    node.classList.toggle("marked", number === this.marked);
    node.setAttribute("aria-selected", String(number === this.marked));
    node.classList.toggle("near", number === this.near);
  }
  span(number) {
    const field = this.fields[number];
    return field && field[5] !== null && field[6] !== null ? [field[5], field[6]] : [0, 0];
  }
  drawBytes(at) {
    const start = at * this.width, made = el("div", "bytes");
    if (start >= this.bytes.length) {
      made.append(el("i", "", `${pluralize(this.size - this.bytes.length, "more byte")} of the frame`));
      return made;
    }
    made.append(el("i", "", `${start.toString(16).padStart(4, "0")}  `));
    const marked = this.exact || this.span(this.marked), near = this.span(this.near), text = [];
    const end = Math.min(start + this.width, this.bytes.length);
    for (let offset = start; offset < end; offset++) {
      const byte = this.bytes[offset];
      const wrong = this.findings.find(({ span }) => span && offset >= span[0] && offset < span[1]);
      const hit = [offset >= marked[0] && offset < marked[1] ? "marked" : "", offset >= near[0] && offset < near[1] ? "near" : ""];
      const name = [...hit, wrong ? `blamed-${wrong.severity}` : ""].join(" ").trim();
      const pair = el("b", name, byte.toString(16).padStart(2, "0"));
      const letter = el("b", name, byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".");
      pair.dataset.at = letter.dataset.at = String(offset);
      const gap = offset + 1 === end ? "" : (offset - start) % 8 === 7 ? "  " : " ";
      const inner = offset + 1 < end && offset + 1 < Math.max(marked[1], near[1]) ? el("b", hit.join(" ").trim(), gap) : gap;
      made.append(pair, inner);
      text.push(letter);
    }
    const columns = this.width * 3 - 1 + (this.width > 8 ? 1 : 0), used = (end - start) * 3 - 1 + (end - start > 8 ? 1 : 0);
    made.append(" ".repeat(columns - used + 2), ...text);
    return made;
  }
  /** The innermost field that contains a byte, except fields decoded from compressed bytes, which share one span. */
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
  /** Highlights a field in both; `here` if it was selected in the tree. */
  choose(number, here = false) {
    if (number < 0) return;
    this.exact = null;
    this.mark(number, this.span(number), here);
    this.chosen(this.pathOf(number));
  }
  /** The names of a field and of the fields around it, as in findings. */
  pathOf(number) {
    const names = [];
    for (let at = number, depth = this.fields[number][0]; at >= 0; at--) {
      if (this.fields[at][0] > depth || (names.length && this.fields[at][0] === depth)) continue;
      names.unshift(this.fields[at][1]);
      if (this.fields[at][0] === 0) break;
      depth = this.fields[at][0];
    }
    return names.reduce((path, name) => !path ? name : name.startsWith("[") ? path + name : `${path}.${name}`, "");
  }
  /** Highlights the field with a path, if there is one. */
  chooseByPath(path) {
    const number = this.fields.findIndex((_, each) => this.pathOf(each) === path);
    if (number < 0) return;
    this.exact = null;
    this.mark(number, this.span(number));
  }
  /** Highlights a finding's field. */
  point(number) {
    const finding = this.findings[number], field = this.side.marks[number];
    const span = finding.span || (field === null ? null : this.span(field));
    this.exact = finding.span ? [finding.span[0], Math.max(finding.span[1], finding.span[0] + 1)] : null;
    this.mark(field === null ? (span ? this.deepest(span[0]) : -1) : field, span);
  }
  mark(number, span, here = false) {
    this.marked = number;
    if (number >= 0) this.tree.setAttribute("aria-activedescendant", `${this.kind}-field-${number}`);
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
