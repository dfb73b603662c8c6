/* Errors and completions of a filter while it is typed. */
import { FilterError } from "./filter_errors.js";
import { compileFilter } from "./filter_match.js";
import { FIELDS, tokenize } from "./filter_text.js";

/** Returns `{test, isText, readsRecords}` of a filter, null if nothing is typed; throws `FilterError` if it is invalid. */
export const parseQuery = (text) => text.trim() ? compileFilter(text.trim()) : null;
/** Returns the message about an invalid filter, empty if it is valid. */
export const filterProblem = (text) => {
  try {
    parseQuery(text);
    return "";
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    return error.format(text.trim());
  }
};

const TRANSITIONS = {
  start: { word: "field", not: "start", "(": "start" },
  field: { operator: "operator", in: "in", not: "not", and: "start", or: "start", ")": "term" },
  not: { in: "in" }, in: { "(": "list" }, operator: { word: "term", string: "term" },
  list: { word: "listed", string: "listed" }, listed: { ",": "list", ")": "term" },
  term: { and: "start", or: "start", ")": "term" },
};
const operatorsFor = (kind) => ["=", "!=", ...["name", "text", "flag"].includes(kind) ? [] : ["<", "<=", ">", ">="],
  ...["number", "count", "duration", "size", "flag"].includes(kind) ? [] : ["~", "!~"]];

/** Returns where the word at the cursor starts, and its completions (as kproxy.filters.completion). */
export const complete = (text, cursor) => {
  const textBefore = text.slice(0, cursor), prefix = /[^\s()",'=!<>~&|]*$/.exec(textBefore)[0], start = textBefore.length - prefix.length;
  let state = "start", field = null, tokens;
  try { tokens = tokenize(textBefore.slice(0, start)); } catch { return { start, words: [] }; }
  for (const { type, value } of tokens.slice(0, -1)) {
    if (state === "start" && type === "word") {
      field = FIELDS.get(value) || null;
      state = field ? "field" : "";
    } else state = (TRANSITIONS[state] || {})[type === "sign" ? value : type] || "";
  }
  const words = state === "start" ? [...FIELDS.keys(), "not"]
    : state === "field" && field ? [...operatorsFor(field.kind), "in", "not in", "and", "or"]
    : ["operator", "list"].includes(state) && field ? field.known
    : { not: ["in"], in: ["("], listed: [",", ")"], term: ["and", "or"] }[state] || [];
  return { start, words: words.filter((word) => word.toLowerCase().startsWith(prefix.toLowerCase())) };
};
