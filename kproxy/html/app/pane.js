/* The fields of one side of an exchange beside its bytes. */
import { el, pluralize } from "./elements.js";
import { decodeBase64 } from "./embedded_source.js";
import { Scroller } from "./scroller.js";

const TREE_ROW = 20, HEX_ROW = 18;

/** The fields of a frame beside its bytes, with linked highlighting. */
export class Pane {
  /** @param onSelect is called with the path of a selected field */
  constructor(side, findings, kind, onSelect = () => {}) {
    Object.assign(this, { side, findings, kind, onSelect, selected: -1, hovered: -1 });
    this.fields = side.fields;
    this.bytes = side.frame ? decodeBase64(side.frame) : new Uint8Array();
    this.size = this.fields.reduce((max, field) => Math.max(max, field[6] || 0), 0);
    this.folded = new Set();
    this.severities = new Map(side.marks.map((field, index) => [field, findings[index].severity]).reverse());
    this.errors = (side.errors || []).filter(([, field]) => field !== null);
    for (const [, field, nature] of this.errors) if (!this.severities.has(field)) this.severities.set(field, nature === "routine" ? "info" : "error");
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
    this.nodes = new Scroller(this.tree, () => TREE_ROW, (index) => this.drawNode(this.visible[index]));
    this.lines = new Scroller(this.hex, () => HEX_ROW, (lineIndex) => this.drawBytes(lineIndex));
    const fieldAt = ({ target }) => target.dataset.at === undefined ? -1 : this.deepestField(Number(target.dataset.at));
    this.hex.addEventListener("mouseover", (event) => this.hover(fieldAt(event)));
    this.hex.addEventListener("mouseleave", () => this.hover(-1));
    this.hex.addEventListener("click", (event) => this.selectField(fieldAt(event)));
    this.bytesPerLine = 0;
    this.fold();
  }
  /** Sets the layout when the pane is on the screen, and highlights the first finding, or the first error. */
  start() {
    const boxWidth = this.box.clientWidth;
    const columns = boxWidth > 900 ? 16 : 8;
    if (!boxWidth || columns === this.bytesPerLine) return;
    const isFirst = !this.bytesPerLine;
    this.bytesPerLine = columns;
    const extraLines = this.bytes.length < this.size ? 1 : 0;
    this.hex.style.width = `calc(${7 + columns * 4 + (columns > 8 ? 1 : 0)}ch + 38px)`;
    this.lines.set(Math.ceil(this.bytes.length / columns) + extraLines);
    this.box.style.setProperty("--lines", `${this.lines.count * HEX_ROW}px`);
    if (isFirst && this.findings.length) this.selectFinding(0);
    else if (isFirst && this.errors.length) this.highlight(this.errors[0][1], this.span(this.errors[0][1]));
    else if (this.selected >= 0) this.selectField(this.selected);
  }
  fold() {
    this.visible = [];
    let foldedDepth = Infinity;
    this.fields.forEach(([depth], number) => {
      if (depth > foldedDepth) return;
      foldedDepth = Infinity;
      this.visible.push(number);
      if (this.folded.has(number)) foldedDepth = depth;
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
    const node = el("div", "node", fold, el("span", "name", name), " ", el("span", "text", text), " ",
      el("span", "meaning", meaning), " ", el("span", "kind", kind));
    node.style.paddingLeft = `${4 + depth * 13}px`;
    node.title = [name, text, meaning, kind].filter(Boolean).join("  ");
    node.setAttribute("role", "treeitem");
    node.id = `${this.kind}-field-${number}`;
    node.setAttribute("aria-level", String(depth + 1));
    if (this.isParent(number)) node.setAttribute("aria-expanded", String(!this.folded.has(number)));
    if (this.severities.has(number)) node.classList.add(`blamed-${this.severities.get(number)}`);
    this.style(node, number);
    node.addEventListener("mouseenter", () => this.hover(number));
    node.addEventListener("mouseleave", () => this.hover(-1));
    node.addEventListener("click", () => { if (getSelection().isCollapsed) this.selectField(number, true); });
    node.addEventListener("dblclick", () => this.isParent(number) && this.toggle(number));
    return node;
  }
  style(node, number) {
    node.classList.toggle("marked", number === this.selected);
    node.setAttribute("aria-selected", String(number === this.selected));
    node.classList.toggle("near", number === this.hovered);
  }
  span(number) {
    const field = this.fields[number];
    return field && field[5] !== null && field[6] !== null ? [field[5], field[6]] : [0, 0];
  }
  drawBytes(lineIndex) {
    const start = lineIndex * this.bytesPerLine, line = el("div", "bytes");
    if (start >= this.bytes.length) {
      line.append(el("i", "", `${pluralize(this.size - this.bytes.length, "more byte")} of the frame`));
      return line;
    }
    line.append(el("i", "", `${start.toString(16).padStart(4, "0")}  `));
    const selected = this.exactSpan || this.span(this.selected), hovered = this.span(this.hovered), text = [];
    const end = Math.min(start + this.bytesPerLine, this.bytes.length);
    for (let offset = start; offset < end; offset++) {
      const byte = this.bytes[offset];
      const finding = this.findings.find(({ span }) => span && offset >= span[0] && offset < span[1]);
      const highlights = [offset >= selected[0] && offset < selected[1] ? "marked" : "", offset >= hovered[0] && offset < hovered[1] ? "near" : ""];
      const className = [...highlights, finding ? `blamed-${finding.severity}` : ""].join(" ").trim();
      const hexByte = el("b", className, byte.toString(16).padStart(2, "0"));
      const character = el("b", className, byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".");
      hexByte.dataset.at = character.dataset.at = String(offset);
      const gap = offset + 1 === end ? "" : (offset - start) % 8 === 7 ? "  " : " ";
      const separator = offset + 1 < end && offset + 1 < Math.max(selected[1], hovered[1]) ? el("b", highlights.join(" ").trim(), gap) : gap;
      line.append(hexByte, separator);
      text.push(character);
    }
    const columns = this.bytesPerLine * 3 - 1 + (this.bytesPerLine > 8 ? 1 : 0), usedColumns = (end - start) * 3 - 1 + (end - start > 8 ? 1 : 0);
    line.append(" ".repeat(columns - usedColumns + 2), ...text);
    return line;
  }
  /** Returns the innermost field with a byte, except fields decoded from compressed bytes, which share one span. */
  deepestField(offset) {
    let deepest = -1;
    for (let number = 0; number < this.fields.length; number++) {
      const [start, end] = this.span(number);
      if (offset < start || offset >= end) continue;
      const [from, to] = this.span(deepest);
      if (deepest >= 0 && start === from && end === to && this.isSharedBelow(deepest)) continue;
      if (deepest < 0 || this.fields[number][0] > this.fields[deepest][0]) deepest = number;
    }
    return deepest;
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
    if (number === this.hovered) return;
    this.hovered = number;
    this.refresh();
  }
  /** Highlights a field and its bytes. */
  selectField(number, isFromTree = false) {
    if (number < 0) return;
    this.exactSpan = null;
    this.highlight(number, this.span(number), isFromTree);
    this.onSelect(this.pathOf(number));
  }
  /** Returns the path of a field, as in findings. */
  pathOf(number) {
    const names = [];
    for (let candidate = number, depth = this.fields[number][0]; candidate >= 0; candidate--) {
      if (this.fields[candidate][0] > depth || (names.length && this.fields[candidate][0] === depth)) continue;
      names.unshift(this.fields[candidate][1]);
      if (this.fields[candidate][0] === 0) break;
      depth = this.fields[candidate][0];
    }
    return names.reduce((path, name) => !path ? name : name.startsWith("[") ? path + name : `${path}.${name}`, "");
  }
  /** Highlights the field with a path, if there is one. */
  selectPath(path) {
    const number = this.fields.findIndex((_, index) => this.pathOf(index) === path);
    if (number < 0) return;
    this.exactSpan = null;
    this.highlight(number, this.span(number));
  }
  /** Highlights a finding's field. */
  selectFinding(number) {
    const finding = this.findings[number], field = this.side.marks[number];
    const span = finding.span || (field === null ? null : this.span(field));
    this.exactSpan = finding.span ? [finding.span[0], Math.max(finding.span[1], finding.span[0] + 1)] : null;
    this.highlight(field === null ? (span ? this.deepestField(span[0]) : -1) : field, span);
  }
  highlight(number, span, isFromTree = false) {
    this.selected = number;
    if (number >= 0) this.tree.setAttribute("aria-activedescendant", `${this.kind}-field-${number}`);
    if (number >= 0 && !isFromTree) {
      for (let candidate = number, depth = this.fields[number][0]; candidate >= 0; candidate--) {
        if (this.fields[candidate][0] < depth) { depth = this.fields[candidate][0]; this.folded.delete(candidate); }
      }
      this.fold();
      this.nodes.show(this.visible.indexOf(number));
    }
    this.refresh();
    if (span && this.bytesPerLine) this.lines.show(Math.min(Math.floor(span[0] / this.bytesPerLine), this.lines.count - 1));
  }
  refresh() {
    for (const [position, node] of this.nodes.drawn) this.style(node, this.visible[position]);
    this.lines.redraw();
  }
  print(isPrinting) {
    this.nodes.print(isPrinting);
    this.lines.print(isPrinting);
  }
  key(event) {
    const position = this.visible.indexOf(this.selected);
    const selectAt = (target) => { const number = this.visible[Math.max(0, Math.min(target, this.visible.length - 1))]; this.selectField(number); };
    if (event.key === "ArrowDown") selectAt(position + 1);
    else if (event.key === "ArrowUp") selectAt(position - 1);
    else if (event.key === "ArrowLeft" && this.selected >= 0 && this.isParent(this.selected) && !this.folded.has(this.selected)) this.toggle(this.selected);
    else if (event.key === "ArrowRight" && this.folded.has(this.selected)) this.toggle(this.selected);
    else return false;
    return true;
  }
}
