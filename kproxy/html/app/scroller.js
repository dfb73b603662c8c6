/* Draws the visible rows of a long list. A list higher than a browser can lay out is scaled: a million rows scroll. */
import { el } from "./elements.js";

const OVERSCAN = 12, MAX_PRINTED = 400, MAX_HEIGHT = 8_000_000;

export class Scroller {
  /**
   * @param box scrolls; @param height gives pixels of a row; @param draw makes the element of a row by its number
   * @param head stays at the top of the box, if there is one
   */
  constructor(box, height, draw, head = null) {
    Object.assign(this, { box, height, draw, head, count: 0, all: false, drawn: new Map(), shift: 0 });
    this.inner = el("div", "sized");
    box.append(this.inner);
    box.addEventListener("scroll", () => this.paint(), { passive: true });
    new ResizeObserver(() => this.paint()).observe(box);
  }
  /** Pixels of the box in which rows are seen. */
  get room() { return this.box.clientHeight - (this.head ? this.head.offsetHeight : 0); }
  get end() { return this.box.scrollTop + this.room >= this.inner.offsetHeight - 2; }
  /** Pixels by which a row at its true place is above its place in a scaled list. */
  scale(top) {
    const real = this.count * this.height(), shown = Math.min(real, MAX_HEIGHT), room = Math.max(1, shown - this.room);
    return real === shown ? 0 : Math.round(Math.min(1, top / room) * (real - shown));
  }
  set(count) {
    this.count = count;
    this.inner.style.height = `${Math.min(count * this.height(), MAX_HEIGHT)}px`;
    this.redraw();
  }
  redraw() {
    this.inner.replaceChildren();
    this.drawn.clear();
    this.paint();
  }
  range() {
    const height = this.height(), top = this.box.scrollTop + this.scale(this.box.scrollTop);
    return [Math.max(0, Math.floor(top / height)), Math.min(this.count, Math.ceil((top + this.room) / height))];
  }
  paint() {
    const height = this.height(), [from, to] = this.range(), shift = this.all ? 0 : this.scale(this.box.scrollTop);
    const first = this.all ? 0 : Math.max(0, from - OVERSCAN);
    const end = Math.min(this.count, this.all ? MAX_PRINTED : to + OVERSCAN);
    for (const [number, row] of this.drawn) {
      if (number < first || number >= end) { row.remove(); this.drawn.delete(number); }
      else if (shift !== this.shift) row.style.top = `${number * height - shift}px`;
    }
    this.shift = shift;
    let before = null;
    for (let number = first; number < end; number++) {
      let row = this.drawn.get(number);
      if (!row) {
        row = this.draw(number);
        row.style.top = `${number * height - shift}px`;
        this.drawn.set(number, row);
        if (before) before.after(row); else this.inner.prepend(row);
      }
      before = row;
    }
  }
  show(number) {
    const height = this.height(), box = this.box, [from] = this.range(), top = number * height;
    const seen = box.scrollTop + this.scale(box.scrollTop);
    const wanted = top < seen ? Math.max(0, top - height) : top + height > seen + this.room ? top + 2 * height - this.room : null;
    if (wanted !== null) {
      const real = this.count * height, shown = Math.min(real, MAX_HEIGHT);
      box.scrollTop = real === shown ? wanted : Math.ceil(wanted / Math.max(1, real - this.room) * (shown - this.room));
    }
    if (from >= 0) this.paint();
  }
  /** Draws the first rows, for printing; false restores the list. */
  print(all) {
    this.all = all;
    this.redraw();
    if (all && this.count > MAX_PRINTED) this.inner.append(el("p", "none", `and ${(this.count - MAX_PRINTED).toLocaleString("en")} more`));
  }
}
