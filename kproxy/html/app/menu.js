/* A button with a list of actions below it. */
import { announce, button, el, setAttributes } from "./elements.js";

let lastId = 0;

/** @param getItems is called when the menu opens; returns elements, or `[label, action, title]` with an optional title */
export const menu = (label, title, getItems) => {
  const list = setAttributes(el("div", "menu-list"), { role: "menu", id: `menu-${++lastId}` });
  list.hidden = true;
  const close = (restoresFocus) => {
    list.hidden = true;
    setAttributes(opener, { "aria-expanded": false });
    if (restoresFocus) opener.focus();
  };
  const opener = setAttributes(button("", label, () => {
    if (!list.hidden) { close(true); return; }
    list.replaceChildren(...getItems().map((item) => {
      if (item instanceof HTMLAnchorElement) item.addEventListener("click", () => { close(false); announce(`download: ${item.textContent}`); });
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
    const focusable = [...list.querySelectorAll("button, input, a")], index = focusable.indexOf(document.activeElement);
    if (event.key === "Escape") close(true);
    else if (event.key === "ArrowDown") focusable[(index + 1) % focusable.length]?.focus();
    else if (event.key === "ArrowUp") focusable[(index + focusable.length - 1) % focusable.length]?.focus();
    else if (event.key !== "Tab") { event.stopPropagation(); return; } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.addEventListener("pointerdown", ({ target }) => { if (!list.hidden && !box.contains(target)) close(false); });
  return box;
};
