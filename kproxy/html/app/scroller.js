/* Draws only the visible rows of a long list. A list that is too high for the browser's layout is scaled. */
import { el } from "./elements.js";

const OVERSCAN = 12, MAX_PRINTED = 400, MAX_HEIGHT = 8_000_000;

export class Scroller {
  /**
   * @param box the element that scrolls; @param height returns the height of a row; @param draw returns the element of a row by its index
   * @param head the sticky header of the box, if it has one
   */
  constructor(box, height, draw, head = null) {
    Object.assign(this, { box, height, draw, head, count: 0, isPrinting: false, drawn: new Map(), shift: 0 });
    this.inner = el("div", "sized");
    box.append(this.inner);
    box.addEventListener("scroll", () => this.paint(), { passive: true });
    new ResizeObserver(() => this.paint()).observe(box);
  }
  /** The height of the part of the box that shows rows. */
  get viewportHeight() { return this.box.clientHeight - (this.head ? this.head.offsetHeight : 0); }
  get isAtEnd() { return this.box.scrollTop + this.viewportHeight >= this.inner.offsetHeight - 2; }
  /** How far the rows of a scaled list are moved up when it is scrolled to `top`, in pixels. */
  shiftAt(top) {
    const fullHeight = this.count * this.height(), scaledHeight = Math.min(fullHeight, MAX_HEIGHT), scrollRange = Math.max(1, scaledHeight - this.viewportHeight);
    return fullHeight === scaledHeight ? 0 : Math.round(Math.min(1, top / scrollRange) * (fullHeight - scaledHeight));
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
    const height = this.height(), top = this.box.scrollTop + this.shiftAt(this.box.scrollTop);
    return [Math.max(0, Math.floor(top / height)), Math.min(this.count, Math.ceil((top + this.viewportHeight) / height))];
  }
  paint() {
    const height = this.height(), [from, to] = this.range(), shift = this.isPrinting ? 0 : this.shiftAt(this.box.scrollTop);
    const first = this.isPrinting ? 0 : Math.max(0, from - OVERSCAN);
    const end = Math.min(this.count, this.isPrinting ? MAX_PRINTED : to + OVERSCAN);
    for (const [index, row] of this.drawn) {
      if (index < first || index >= end) { row.remove(); this.drawn.delete(index); }
      else if (shift !== this.shift) row.style.top = `${index * height - shift}px`;
    }
    this.shift = shift;
    let previous = null;
    for (let index = first; index < end; index++) {
      let row = this.drawn.get(index);
      if (!row) {
        row = this.draw(index);
        row.style.top = `${index * height - shift}px`;
        this.drawn.set(index, row);
        if (previous) previous.after(row); else this.inner.prepend(row);
      }
      previous = row;
    }
  }
  show(index) {
    const height = this.height(), box = this.box, [from] = this.range(), top = index * height;
    const visibleTop = box.scrollTop + this.shiftAt(box.scrollTop);
    const target = top < visibleTop ? Math.max(0, top - height) : top + height > visibleTop + this.viewportHeight ? top + 2 * height - this.viewportHeight : null;
    if (target !== null) {
      const fullHeight = this.count * height, scaledHeight = Math.min(fullHeight, MAX_HEIGHT);
      box.scrollTop = fullHeight === scaledHeight ? target : Math.ceil(target / Math.max(1, fullHeight - this.viewportHeight) * (scaledHeight - this.viewportHeight));
    }
    if (from >= 0) this.paint();
  }
  /** Draws the first rows, for printing; false restores the list. */
  print(isPrinting) {
    this.isPrinting = isPrinting;
    this.redraw();
    if (isPrinting && this.count > MAX_PRINTED) this.inner.append(el("p", "none", `and ${(this.count - MAX_PRINTED).toLocaleString("en")} more`));
  }
}
