/* One exchange: its sides, findings and records. */
import { button, el, pluralize, setAttributes } from "./elements.js";
import { Pane } from "./pane.js";

/** Draws a side, and adds its pane to `panes` and its findings to `findingsBox`. `missingReason` tells why it has no fields; `onSelect` gets a field's path. */
export const drawSide = (line, findings, side, missingReason, findingsBox, panes, onSelect) => {
  const section = el("section", "side"), heading = el("h3", "", line.kind);
  const facts = [line.size === undefined ? "" : `${line.size} bytes`, line.correlation_id === undefined ? "" : `id ${line.correlation_id}`];
  heading.append(el("span", "dim", facts.filter(Boolean).join(", ")));
  section.append(heading);
  const tabs = [], tabBar = el("span", "tabs");
  tabBar.setAttribute("role", "tablist");
  const addTab = (name, panel) => {
    const tabButton = button("", name, () => tabs.forEach(([otherButton, otherPanel]) => {
      otherButton.setAttribute("aria-selected", String(otherPanel === panel));
      otherPanel.hidden = otherPanel !== panel;
      if (otherPanel === panel && pane) pane.start();
    }));
    tabButton.setAttribute("role", "tab");
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-label", `${name} of the ${line.kind}`);
    tabButton.setAttribute("aria-selected", String(!tabs.length));
    panel.hidden = tabs.length > 0;
    tabs.push([tabButton, panel]);
    tabBar.append(tabButton);
  };
  let pane = null;
  if (side && side.deviation) {
    heading.append(el("span", "warning", "decoded as actually written"));
    heading.lastChild.title = side.deviation;
  }
  if (side && side.error) section.append(el("p", "said warning", `not decoded to the end: ${side.error}`));
  if (side && side.errors) section.append(...side.errors.map((error) => drawError(error, (field) => { tabs[0][0].click(); pane.selectField(field); })));
  const missingText = side ? side.missing : line.size === undefined ? null : missingReason;
  if (missingText) section.append(el("p", "said dim", missingText));
  if (side) {
    pane = new Pane(side, findings, line.kind, (path) => onSelect(`${line.kind}:${path}`));
    panes.push(pane);
    addTab("fields", pane.box);
  }
  findingsBox.append(...findings.map((finding, index) => drawFinding(finding, () => {
    if (!pane) return;
    tabs[0][0].click();
    pane.selectFinding(index);
    pane.box.scrollIntoView({ block: "nearest" });
  })));
  const records = side ? side.records : [];
  if (records.length) {
    const count = records.reduce((sum, field) => sum + field.rows.length + (field.more || 0), 0);
    addTab(pluralize(count, "record"), drawRecords(records, (field) => { tabs[0][0].click(); pane.selectField(field); }));
  }
  addTab("trace line", scrollBox("text-of-line", el("pre", "", JSON.stringify(line, null, 2))));
  heading.append(tabBar);
  section.append(...tabs.map(([, panel]) => panel));
  return section;
};

/** A box that can be scrolled with keys, too. */
const scrollBox = (className, ...children) => {
  const box = el("div", className, ...children);
  box.tabIndex = 0;
  return box;
};

/** What an error of a response means; a click highlights its field. */
const drawError = ([name, field, nature, meaning, change], onSelect) => setAttributes(
  button(`said refusal ${nature}`, [el("b", "", name), nature === "final" ? "" : ` (${nature})`, `: ${meaning}. `, el("span", "dim", `${change}.`)], () => { if (field !== null) onSelect(field); }),
  { title: "show the field" });

const drawFinding = (finding, onSelect) => {
  const list = el("dl", "", ...finding.notes.map(([name, text]) => el("div", "", el("dt", "", name), el("dd", "", text))));
  const where = finding.span ? `  bytes ${finding.span[0]}..${finding.span[1]}` : "";
  return button(`finding ${finding.severity}`, [el("span", "code", `${finding.code} ${finding.name}`),
    el("span", "dim", `  ${finding.severity}  ${finding.path || ""}${where}`), el("div", "message", finding.message), list], onSelect);
};

export const drawCell = ([format, text, size, schema, isCut]) => {
  if (format === "null" || format === "empty") return el("span", "dim", format);
  const element = el("div", "", el("pre", format === "hex" ? "hexdump" : "", text));
  const notes = [["text", "text?", "json", "hex"].includes(format) ? "" : format, schema === null ? "" : `schema ${schema}`,
    isCut ? `cut, ${size === null ? "" : pluralize(size, "byte")}` : ""].filter(Boolean).join(", ");
  if (notes) element.append(setAttributes(el("span", "dim", notes), { title: format.endsWith("?") ? "The format is a guess from the bytes." : null }));
  return element;
};
const drawRecords = (fields, onSelect) => {
  const box = scrollBox("list-of-records");
  for (const { path, rows: records, more, problems } of fields) {
    box.append(el("h4", "", path), ...problems.map((problem) => el("p", "warning", problem)));
    for (const [offset, time, key, value, headers, field] of records) {
      const position = el("div", "at", `${offset === null ? "offset unknown" : `offset ${offset}`}${time ? `  ${time}` : ""}`);
      position.addEventListener("click", () => onSelect(field));
      const definitions = el("dl", "", el("dt", "", "key"), el("dd", "", drawCell(key)), el("dt", "", "value"), el("dd", "", drawCell(value)));
      for (const [name, cell] of headers) definitions.append(el("dt", "", name), el("dd", "", drawCell(cell)));
      box.append(el("div", "record", position, definitions));
    }
    if (more !== 0) box.append(el("p", "dim", more === null ? "and more" : `and ${more.toLocaleString("en")} more`));
  }
  return box;
};
