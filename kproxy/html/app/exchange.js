/* One exchange: its sides, findings and records. */
import { button, pluralize, el } from "./elements.js";
import { Pane } from "./pane.js";

/** Draws a side. `panes` gets its pane, `above` its findings, `missing` says why it has no fields; `chosen` gets a field's path. */
export const drawSide = (line, findings, side, missingSide, above, panes, chosen) => {
  const made = el("section", "side"), title = el("h3", "", line.kind);
  const facts = [line.size === undefined ? "" : `${line.size} bytes`, line.correlation_id === undefined ? "" : `id ${line.correlation_id}`];
  title.append(el("span", "dim", facts.filter(Boolean).join(", ")));
  made.append(title);
  const tabs = [], bar = el("span", "tabs");
  bar.setAttribute("role", "tablist");
  const tab = (name, body) => {
    const chooser = button("", name, () => tabs.forEach(([other, shown]) => {
      other.setAttribute("aria-selected", String(shown === body));
      shown.hidden = shown !== body;
      if (shown === body && pane) pane.start();
    }));
    chooser.setAttribute("role", "tab");
    body.setAttribute("role", "tabpanel");
    body.setAttribute("aria-label", `${name} of the ${line.kind}`);
    chooser.setAttribute("aria-selected", String(!tabs.length));
    body.hidden = tabs.length > 0;
    tabs.push([chooser, body]);
    bar.append(chooser);
  };
  let pane = null;
  if (side && side.departure) {
    title.append(el("span", "warning", "decoded as actually written"));
    title.lastChild.title = side.departure;
  }
  if (side && side.error) made.append(el("p", "said warning", `not decoded to the end: ${side.error}`));
  const missing = side ? side.missing : line.size === undefined ? null : missingSide;
  if (missing) made.append(el("p", "said dim", missing));
  if (side) {
    pane = new Pane(side, findings, line.kind, (path) => chosen(`${line.kind}:${path}`));
    panes.push(pane);
    tab("fields", pane.box);
  }
  above.append(...findings.map((finding, number) => drawFinding(finding, () => {
    if (!pane) return;
    tabs[0][0].click();
    pane.point(number);
    pane.box.scrollIntoView({ block: "nearest" });
  })));
  const records = side ? side.records : [];
  if (records.length) {
    const count = records.reduce((sum, each) => sum + each.rows.length + (each.more || 0), 0);
    tab(pluralize(count, "record"), drawRecords(records, (field) => { tabs[0][0].click(); pane.choose(field); }));
  }
  tab("trace line", scrolling("text-of-line", el("pre", "", JSON.stringify(line, null, 2))));
  title.append(bar);
  made.append(...tabs.map(([, body]) => body));
  return made;
};

/** A box that scrolls, also by keys. */
const scrolling = (name, ...inside) => {
  const made = el("div", name, ...inside);
  made.tabIndex = 0;
  return made;
};

const drawFinding = (finding, act) => {
  const list = el("dl", "", ...finding.notes.map(([name, said]) => el("div", "", el("dt", "", name), el("dd", "", said))));
  const where = finding.span ? `  bytes ${finding.span[0]}..${finding.span[1]}` : "";
  return button(`finding ${finding.severity}`, [el("span", "code", `${finding.code} ${finding.name}`),
    el("span", "dim", `  ${finding.severity}  ${finding.path || ""}${where}`), el("div", "message", finding.message), list], act);
};

export const drawCell = ([form, text, size, schema, cut]) => {
  if (form === "null" || form === "empty") return el("span", "dim", form);
  const made = el("div", "", el("pre", form === "hex" ? "hexdump" : "", text));
  const notes = [["text", "json", "hex"].includes(form) ? "" : form, schema === null ? "" : `schema ${schema}`,
    cut ? `cut, ${size === null ? "" : pluralize(size, "byte")}` : ""].filter(Boolean).join(", ");
  if (notes) made.append(el("span", "dim", notes));
  return made;
};
const drawRecords = (fields, act) => {
  const made = scrolling("list-of-records");
  for (const { path, rows: records, more, problems } of fields) {
    made.append(el("h4", "", path), ...problems.map((problem) => el("p", "warning", problem)));
    for (const [offset, time, key, value, headers, field] of records) {
      const at = el("div", "at", `${offset === null ? "offset unknown" : `offset ${offset}`}${time ? `  ${time}` : ""}`);
      at.addEventListener("click", () => act(field));
      const list = el("dl", "", el("dt", "", "key"), el("dd", "", drawCell(key)), el("dt", "", "value"), el("dd", "", drawCell(value)));
      for (const [name, part] of headers) list.append(el("dt", "", name), el("dd", "", drawCell(part)));
      made.append(el("div", "record", at, list));
    }
    if (more !== 0) made.append(el("p", "dim", more === null ? "and more" : `and ${more.toLocaleString("en")} more`));
  }
  return made;
};
