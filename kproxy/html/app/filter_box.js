/* The input of the filter, with completion and errors. */
import { $, el, setAttributes } from "./elements.js";
import { complete, filterProblem, parseQuery } from "./query.js";

const MAX_WORDS = 10, MAX_VISIBLE = 60;

export class FilterBox {
  /** @param onChange is called with each valid text, and whether it continues the text before */
  constructor(onChange) {
    this.onChange = onChange;
    this.input = $("filter");
    this.list = $("completions");
    this.words = [];
    this.activeIndex = -1;
    this.typing = false;
    this.input.addEventListener("input", () => this.changed());
    this.input.addEventListener("focus", () => { this.typing = false; });
    this.input.addEventListener("blur", () => this.close());
    this.input.addEventListener("keydown", (event) => this.key(event));
    $("clear").addEventListener("click", () => { this.input.value = ""; this.input.focus(); this.changed(); });
  }
  set(text) {
    if (this.input.value !== text) this.input.value = text;
    this.check();
  }
  changed() {
    this.suggest();
    if (this.check()) {
      this.onChange(this.input.value.trim(), this.typing);
      this.typing = true;
    }
  }
  /** Shows the error of the filter, or that it is a plain text search; returns whether it is valid. */
  check() {
    const text = this.input.value, problem = filterProblem(text);
    this.input.title = text.length > MAX_VISIBLE ? text : ""; // the box may be too narrow for it
    $("wrong").textContent = problem;
    $("wrong").hidden = !problem;
    setAttributes(this.input, { "aria-invalid": Boolean(problem) });
    $("clear").hidden = !text;
    $("as-text").hidden = Boolean(problem) || !parseQuery(text)?.isText;
    return !problem;
  }
  suggest() {
    const { start, words } = complete(this.input.value, this.input.selectionStart);
    const typed = this.input.value.slice(start, this.input.selectionStart);
    this.words = words.filter((word) => word !== typed).slice(0, MAX_WORDS);
    this.start = start;
    this.activeIndex = -1;
    const isOpen = this.words.length && (typed || this.input.value) && document.activeElement === this.input;
    this.list.replaceChildren(...this.words.map((word, index) => {
      const option = setAttributes(el("li", "", word), { role: "option", id: `completion-${index}` });
      option.addEventListener("pointerdown", (event) => { event.preventDefault(); this.accept(index); });
      return option;
    }));
    this.list.hidden = !isOpen;
    setAttributes(this.input, { "aria-expanded": Boolean(isOpen), "aria-activedescendant": null });
  }
  close() {
    this.list.hidden = true;
    setAttributes(this.input, { "aria-expanded": false, "aria-activedescendant": null });
  }
  setActive(index) {
    this.activeIndex = (index + this.words.length + 1) % (this.words.length + 1);
    if (this.activeIndex === this.words.length) this.activeIndex = -1;
    [...this.list.children].forEach((item, index) => setAttributes(item, { "aria-selected": index === this.activeIndex }));
    setAttributes(this.input, { "aria-activedescendant": this.activeIndex < 0 ? null : `completion-${this.activeIndex}` });
  }
  accept(index) {
    const { value, selectionStart } = this.input, word = this.words[index];
    const completed = value.slice(0, this.start) + word;
    this.input.value = completed + value.slice(selectionStart);
    this.input.setSelectionRange(completed.length, completed.length);
    this.changed();
  }
  /** Handles the keys of the list; the page handles others. */
  key(event) {
    const isOpen = !this.list.hidden;
    if (isOpen && event.key === "ArrowDown") this.setActive(this.activeIndex < 0 ? 0 : this.activeIndex + 1);
    else if (isOpen && event.key === "ArrowUp") this.setActive(this.activeIndex < 0 ? this.words.length - 1 : this.activeIndex - 1);
    else if (isOpen && event.key === "Tab" && !event.shiftKey) this.accept(Math.max(0, this.activeIndex));
    else if (isOpen && event.key === "Enter" && this.activeIndex >= 0) this.accept(this.activeIndex);
    else if (isOpen && event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
