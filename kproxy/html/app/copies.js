/* An exchange as text for other tools, made from what is shown; secrets are zeros in it already. */
import { decodeBase64 } from "./embedded_source.js";
import { API, VERSION } from "./rows.js";

const hexOf = (side, between) => side && side.frame ? [...decodeBase64(side.frame)].map((byte) => byte.toString(16).padStart(2, "0")).join(between) : null;
const isWhole = (side, line) => Boolean(side && side.frame && line && line.size === decodeBase64(side.frame).length);
const lineOf = ({ lines }, kind) => lines.find((line) => line.kind === kind);
const hexLines = (side) => hexOf(side, " ")?.replace(/(.{47}) /g, "$1\n");

/** Pairs of a name and a text to copy; those that need bytes that are not there are left out. */
export const copyTexts = (exchange) => {
  const [asked, answered] = exchange.sides || [], request = lineOf(exchange, "request"), response = lineOf(exchange, "response");
  const whole = [isWhole(asked, request), isWhole(answered, response)];
  return [
    ["JSON", toJson(exchange)],
    ["Markdown", markdownOf(exchange)],
    ["request as hex", hexLines(asked)],
    ["response as hex", hexLines(answered)],
    ["kproxy explain, request", whole[0] && `kproxy explain ${hexOf(asked, "")}`],
    ["kproxy explain, response", whole[1] && whole[0] && `kproxy explain --request ${hexOf(asked, "")} ${hexOf(answered, "")}`],
    ["kproxy send", whole[0] && `kproxy send ${request.server} --raw ${hexOf(asked, "")}`],
  ].filter(([, text]) => text);
};
export const toJson = ({ lines }) => JSON.stringify(Object.fromEntries(lines.map((line) => [line.kind, line])), null, 2);

const fenced = (text, language) => {
  let fence = "```";
  while (text.includes(fence)) fence += "`";
  return `\n${fence}${language}\n${text}\n${fence}\n`;
};
const coded = (text) => {
  let fence = "`";
  while (text.includes(fence)) fence += "`";
  return `${fence} ${text} ${fence}`;
};
/** For an issue: facts, findings, decoded fields, bytes. */
const markdownOf = (exchange) => {
  const { row, lines, findings, sides } = exchange, line = lines[0], parts = [`### ${row[API] || line.kind} ${row[VERSION]}`.trim(), ""];
  for (const [name, text] of [["time", line.ts], ["connection", `${line.client || ""} -> ${line.server || ""}`], ["client id", line.client_id]]) {
    if (text) parts.push(`- ${name}: ${coded(text)}`);
  }
  for (const finding of findings.flat()) {
    parts.push(fenced([`${finding.code} ${finding.name}: ${finding.message}`, ...finding.notes.map(([name, text]) => `  ${name}: ${text}`)].join("\n"), "text"));
  }
  (sides || []).forEach((side, number) => {
    if (!side) return;
    const fields = side.fields.map(([depth, name, , text, meaning]) => `${"  ".repeat(depth)}${name} ${text} ${meaning}`.trimEnd()).join("\n");
    parts.push(`\n<details><summary>${["request", "response"][number]}</summary>`, fenced(fields, "text"), side.frame ? fenced(hexLines(side), "text") : "", "</details>");
  });
  return parts.join("\n");
};

const quotedCell = (value) => /[",\n\r]|^[=+@-]/.test(value) ? `"${(/^[=+@-]/.test(value) ? "'" : "") + value.replaceAll('"', '""')}"` : value;
/** Rows as CSV; a text that a spreadsheet would take for a formula begins with an apostrophe. */
export const toCsv = (titles, rows) => [titles, ...rows].map((row) => row.map((value) => typeof value === "number" ? String(value) : quotedCell(String(value ?? ""))).join(",")).join("\r\n") + "\r\n";

/** Saves a text as a file. */
export const saveFile = (name, text, type) => {
  const made = document.createElement("a");
  made.href = URL.createObjectURL(new Blob([text], { type }));
  made.download = name;
  made.click();
  setTimeout(() => URL.revokeObjectURL(made.href), 10_000);
};
