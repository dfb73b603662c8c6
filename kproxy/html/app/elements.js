/* Elements. Data from the wire is added to a page as text, never as markup. */
export const $ = (id) => document.getElementById(id);

/** Creates an element with a class, and with texts and children; null and undefined are left out. */
export const el = (tag, name, ...inside) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...inside.flat().filter((each) => each !== null && each !== undefined));
  return made;
};
/** Creates a shape of a picture; the namespace comes from an element of the page, which names no address. */
export const shape = (tag, names, ...inside) => {
  const made = setAttributes(document.createElementNS($("shapes").namespaceURI, tag), names);
  made.append(...inside.flat().filter((each) => each !== null && each !== undefined));
  return made;
};
export const button = (name, inside, act) => {
  const made = el("button", name, inside);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
};
export const anchor = (name, href, ...inside) => {
  const made = el("a", name, ...inside);
  made.href = href;
  return made;
};
export const pluralize = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
export const setAttributes = (element, names) => {
  for (const [name, value] of Object.entries(names)) {
    if (value === null || value === undefined) element.removeAttribute(name); else element.setAttribute(name, String(value));
  }
  return element;
};

/** A setting that outlives the page where the browser allows that. */
export const loadSetting = (name, otherwise) => {
  try { return localStorage.getItem(`kproxy-${name}`) ?? otherwise; } catch { return otherwise; }
};
export const saveSetting = (name, value) => {
  try { localStorage.setItem(`kproxy-${name}`, value); } catch { /* a page from a file may have no storage */ }
};

/** Says something for a moment, to screen readers too. */
export const announce = (text) => {
  $("said").textContent = text;
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => { $("said").textContent = ""; }, 4000);
};
