/* Elements. Data from the wire is added to a page as text, never as markup. */
export const $ = (id) => document.getElementById(id);

/** Creates an element with a class and children, which are elements or texts; null and undefined are skipped. */
export const el = (tag, className, ...children) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};
/** Creates an SVG element. The namespace comes from an element of the page, so that the script contains no address. */
export const shape = (tag, attributes, ...children) => {
  const element = setAttributes(document.createElementNS($("shapes").namespaceURI, tag), attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};
export const button = (className, children, onClick) => {
  const element = el("button", className, children);
  element.type = "button";
  element.addEventListener("click", onClick);
  return element;
};
export const anchor = (className, href, ...children) => {
  const element = el("a", className, ...children);
  element.href = href;
  return element;
};
/** The heading of a column that sorts; `order` is "ascending", "descending" or null. */
export const sortButton = (title, order, onClick) => button("", [title, order ? el("span", "arrow", order === "ascending" ? " ▲" : " ▼") : null], onClick);
export const pluralize = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
export const setAttributes = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) element.removeAttribute(name); else element.setAttribute(name, String(value));
  }
  return element;
};

/** Settings are kept in local storage, if the browser allows it. */
export const loadSetting = (name, fallback) => {
  try { return localStorage.getItem(`kproxy-${name}`) ?? fallback; } catch { return fallback; }
};
export const saveSetting = (name, value) => {
  try { localStorage.setItem(`kproxy-${name}`, value); } catch { /* a page from a file may have no storage */ }
};

/** Shows a message for a moment; screen readers announce it. */
export const announce = (text) => {
  $("said").textContent = text;
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => { $("said").textContent = ""; }, 4000);
};
