/* Shared helpers: elements, packed values, long lists. Data from the wire is added to the page as text,
   never as markup. */
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const OVERSCAN = 12, MOST_PRINTED = 400;

/** Creates an element with a class, text or children, and event handlers. */
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

/** Values packed in chunks; a chunk is unpacked when one of its values is shown. */
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

/** Renders the visible rows of a long list. */
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
  /** Renders the first rows, for printing; false restores the list. */
  print(all) {
    this.all = all;
    this.redraw();
    if (all && this.count > MOST_PRINTED) this.inner.append(el("p", "none", `and ${(this.count - MOST_PRINTED).toLocaleString("en")} more`));
  }
}
