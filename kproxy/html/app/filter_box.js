/* The filter: completion, errors in place, plain text search. */
import { $, setAttributes, el } from "./elements.js";
import { complete, filterProblem, parseQuery } from "./query.js";

const MAX_WORDS = 10;

export class FilterBox {
  /** @param chosen is called with each valid text, and whether typing goes on */
  constructor(chosen) {
    this.chosen = chosen;
    this.input = $("filter");
    this.list = $("completions");
    this.words = [];
    this.at = -1;
    this.typing = false;
    this.input.addEventListener("input", () => this.changed());
    this.input.addEventListener("focus", () => { this.typing = false; });
    this.input.addEventListener("blur", () => this.close());
    this.input.addEventListener("keydown", (event) => this.key(event));
  }
  set(text) {
    if (this.input.value !== text) this.input.value = text;
    this.check();
  }
  changed() {
    this.suggest();
    if (this.check()) {
      this.chosen(this.input.value.trim(), this.typing);
      this.typing = true;
    }
  }
  /** Shows what is wrong with the text, or that it is searched as text; returns whether it is valid. */
  check() {
    const text = this.input.value, problem = filterProblem(text);
    $("wrong").textContent = problem;
    $("wrong").hidden = !problem;
    setAttributes(this.input, { "aria-invalid": Boolean(problem) });
    $("as-text").hidden = Boolean(problem) || !parseQuery(text)?.isText;
    return !problem;
  }
  suggest() {
    const { start, words } = complete(this.input.value, this.input.selectionStart);
    const typed = this.input.value.slice(start, this.input.selectionStart);
    this.words = words.filter((word) => word !== typed).slice(0, MAX_WORDS);
    this.start = start;
    this.at = -1;
    const shown = this.words.length && (typed || this.input.value) && document.activeElement === this.input;
    this.list.replaceChildren(...this.words.map((word, number) => {
      const made = setAttributes(el("li", "", word), { role: "option", id: `completion-${number}` });
      made.addEventListener("pointerdown", (event) => { event.preventDefault(); this.take(number); });
      return made;
    }));
    this.list.hidden = !shown;
    setAttributes(this.input, { "aria-expanded": Boolean(shown), "aria-activedescendant": null });
  }
  close() {
    this.list.hidden = true;
    setAttributes(this.input, { "aria-expanded": false, "aria-activedescendant": null });
  }
  choose(at) {
    this.at = (at + this.words.length + 1) % (this.words.length + 1);
    if (this.at === this.words.length) this.at = -1;
    [...this.list.children].forEach((item, number) => setAttributes(item, { "aria-selected": number === this.at }));
    setAttributes(this.input, { "aria-activedescendant": this.at < 0 ? null : `completion-${this.at}` });
  }
  take(number) {
    const { value, selectionStart } = this.input, word = this.words[number];
    const made = value.slice(0, this.start) + word;
    this.input.value = made + value.slice(selectionStart);
    this.input.setSelectionRange(made.length, made.length);
    this.changed();
  }
  /** Keys of the list; others belong to the page. */
  key(event) {
    const open = !this.list.hidden;
    if (open && event.key === "ArrowDown") this.choose(this.at < 0 ? 0 : this.at + 1);
    else if (open && event.key === "ArrowUp") this.choose(this.at < 0 ? this.words.length - 1 : this.at - 1);
    else if (open && event.key === "Tab" && !event.shiftKey) this.take(Math.max(0, this.at));
    else if (open && event.key === "Enter" && this.at >= 0) this.take(this.at);
    else if (open && event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
