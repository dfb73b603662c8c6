/* Exports an exchange as text for other tools, from the data of the page, in which secrets are zeros. */
import { decodeBase64 } from "./embedded_source.js";
import { API, VERSION } from "./rows.js";

const toHex = (side, separator) => side && side.frame ? [...decodeBase64(side.frame)].map((byte) => byte.toString(16).padStart(2, "0")).join(separator) : null;
const isComplete = (side, line) => Boolean(side && side.frame && line && line.size === decodeBase64(side.frame).length);
const findLine = ({ lines }, kind) => lines.find((line) => line.kind === kind);
const hexLines = (side) => toHex(side, " ")?.replace(/(.{47}) /g, "$1\n");

/** Returns a name and a text for each format, except those that need bytes that the page does not have. */
export const copyTexts = (exchange) => {
  const [requestSide, responseSide] = exchange.sides || [], request = findLine(exchange, "request"), response = findLine(exchange, "response");
  const complete = [isComplete(requestSide, request), isComplete(responseSide, response)];
  return [
    ["JSON", toJson(exchange)],
    ["Markdown", toMarkdown(exchange)],
    ["request as hex", hexLines(requestSide)],
    ["response as hex", hexLines(responseSide)],
    ["kproxy explain, request", complete[0] && `kproxy explain ${toHex(requestSide, "")}`],
    ["kproxy explain, response", complete[1] && complete[0] && `kproxy explain --request ${toHex(requestSide, "")} ${toHex(responseSide, "")}`],
    ["kproxy send", complete[0] && `kproxy send ${request.server} --raw ${toHex(requestSide, "")}`],
  ].filter(([, text]) => text);
};
export const toJson = ({ lines }) => JSON.stringify(Object.fromEntries(lines.map((line) => [line.kind, line])), null, 2);

const fencedBlock = (text, language) => {
  let fence = "```";
  while (text.includes(fence)) fence += "`";
  return `\n${fence}${language}\n${text}\n${fence}\n`;
};
const inlineCode = (text) => {
  let fence = "`";
  while (text.includes(fence)) fence += "`";
  return `${fence} ${text} ${fence}`;
};
/** Markdown for an issue: facts, findings, decoded fields, bytes. */
const toMarkdown = (exchange) => {
  const { row, lines, findings, sides } = exchange, line = lines[0], parts = [`### ${row[API] || line.kind} ${row[VERSION]}`.trim(), ""];
  for (const [name, text] of [["time", line.ts], ["connection", `${line.client || ""} -> ${line.server || ""}`], ["client id", line.client_id]]) {
    if (text) parts.push(`- ${name}: ${inlineCode(text)}`);
  }
  for (const finding of findings.flat()) {
    parts.push(fencedBlock([`${finding.code} ${finding.name}: ${finding.message}`, ...finding.notes.map(([name, text]) => `  ${name}: ${text}`)].join("\n"), "text"));
  }
  (sides || []).forEach((side, index) => {
    if (!side) return;
    const fields = side.fields.map(([depth, name, , text, meaning]) => `${"  ".repeat(depth)}${name} ${text} ${meaning}`.trimEnd()).join("\n");
    parts.push(`\n<details><summary>${["request", "response"][index]}</summary>`, fencedBlock(fields, "text"), side.frame ? fencedBlock(hexLines(side), "text") : "", "</details>");
  });
  return parts.join("\n");
};

const csvCell = (value) => /[",\n\r]|^[=+@-]/.test(value) ? `"${(/^[=+@-]/.test(value) ? "'" : "") + value.replaceAll('"', '""')}"` : value;
/** Formats rows as CSV; a text that a spreadsheet would read as a formula gets an apostrophe. */
export const toCsv = (titles, rows) => [titles, ...rows].map((row) => row.map((value) => typeof value === "number" ? String(value) : csvCell(String(value ?? ""))).join(",")).join("\r\n") + "\r\n";

/** Saves a text as a file. */
export const saveFile = (name, text, type) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};
