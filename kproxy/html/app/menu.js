/* A button with a list of actions below it. */
import { setAttributes, button, el } from "./elements.js";

let last = 0;

/** @param items returns pairs of a name and an action, maybe with a title, or elements, when the menu opens */
export const menu = (name, title, items) => {
  const list = setAttributes(el("div", "menu-list"), { role: "menu", id: `menu-${++last}` });
  list.hidden = true;
  const close = (focus) => {
    list.hidden = true;
    setAttributes(opener, { "aria-expanded": false });
    if (focus) opener.focus();
  };
  const opener = setAttributes(button("", name, () => {
    if (!list.hidden) { close(true); return; }
    list.replaceChildren(...items().map((item) => {
      if (item instanceof Node) return item;
      return setAttributes(button("", item[0], () => { close(true); item[1](); }), { role: "menuitem", title: item[2] ?? null });
    }));
    list.hidden = false;
    setAttributes(opener, { "aria-expanded": true });
    list.querySelector("button, input, a")?.focus();
  }), { "aria-haspopup": "menu", "aria-expanded": false, "aria-controls": list.id, title });
  const box = el("span", "menu", opener, list);
  box.addEventListener("focusout", ({ relatedTarget }) => { if (!list.hidden && relatedTarget && !box.contains(relatedTarget)) close(false); });
  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const all = [...list.querySelectorAll("button, input, a")], at = all.indexOf(document.activeElement);
    if (event.key === "Escape") close(true);
    else if (event.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
    else if (event.key === "ArrowUp") all[(at + all.length - 1) % all.length]?.focus();
    else if (event.key !== "Tab") { event.stopPropagation(); return; } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.addEventListener("pointerdown", ({ target }) => { if (!list.hidden && !box.contains(target)) close(false); });
  return box;
};
