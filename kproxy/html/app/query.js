/* What is typed into the filter: its errors and completions. */
import { FilterError } from "./filter_errors.js";
import { compileFilter } from "./filter_match.js";
import { FIELDS, tokenize } from "./filter_text.js";

/** Returns `{test, isText, readsRecords}` of a filter, null if nothing is typed; throws `FilterError` if it is invalid. */
export const parseQuery = (typed) => typed.trim() ? compileFilter(typed.trim()) : null;
/** Returns the message about an invalid filter, empty if it is valid. */
export const filterProblem = (text) => {
  try {
    parseQuery(text);
    return "";
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    return error.said(text.trim());
  }
};

const NEXT = {
  start: { word: "field", not: "start", "(": "start" },
  field: { operator: "operator", in: "in", not: "not", and: "start", or: "start", ")": "term" },
  not: { in: "in" }, in: { "(": "list" }, operator: { word: "term", string: "term" },
  list: { word: "listed", string: "listed" }, listed: { ",": "list", ")": "term" },
  term: { and: "start", or: "start", ")": "term" },
};
const operatorsOf = (kind) => ["=", "!=", ...["name", "text", "flag"].includes(kind) ? [] : ["<", "<=", ">", ">="],
  ...["number", "count", "duration", "size", "flag"].includes(kind) ? [] : ["~", "!~"]];

/** Returns the start of the word at the cursor, and the words that may stand there (kproxy.filters.completion). */
export const complete = (text, cursor) => {
  const before = text.slice(0, cursor), typed = /[^\s()",'=!<>~&|]*$/.exec(before)[0], start = before.length - typed.length;
  let place = "start", field = null, tokens;
  try { tokens = tokenize(before.slice(0, start)); } catch { return { start, words: [] }; }
  for (const { sort, value } of tokens.slice(0, -1)) {
    if (place === "start" && sort === "word") {
      field = FIELDS.get(value) || null;
      place = field ? "field" : "";
    } else place = (NEXT[place] || {})[sort === "sign" ? value : sort] || "";
  }
  const words = place === "start" ? [...FIELDS.keys(), "not"]
    : place === "field" && field ? [...operatorsOf(field.kind), "in", "not in", "and", "or"]
    : ["operator", "list"].includes(place) && field ? field.known
    : { not: ["in"], in: ["("], listed: [",", ")"], term: ["and", "or"] }[place] || [];
  return { start, words: words.filter((word) => word.toLowerCase().startsWith(typed.toLowerCase())) };
};
