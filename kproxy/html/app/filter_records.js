/* Fields of decoded records (value.order.id, key, header.traceparent), as kproxy.filters.record_fields reads and compares them. */
import { COMPARISONS, WILDCARDS, patternMatcher, escapeLiteral } from "./filter_pattern.js";

const PARTS = ["key", "value", "header"], MASKED = "(masked)", WITHHELD = "(withheld)", MAX_NAMES = 50;
const DECIMAL = /^-?\d{1,40}(\.\d{1,40})?$/;
const isObject = (item) => item !== null && typeof item === "object" && !Array.isArray(item);
const isDecoded = (item) => isObject(item) && Object.hasOwn(item, "format") && Object.hasOwn(item, "data") && item.format !== WITHHELD;

/** Pushes items so that the first one is on top. */
const pushAll = (stack, items) => {
  for (let at = items.length - 1; at >= 0; at--) stack.push(items[at]);
};

/** Returns the field of a name such as `value.order.id`; undefined if it is not one. */
export const recordField = (name) => {
  const dot = name.indexOf("."), part = dot < 0 ? name : name.slice(0, dot), below = dot < 0 ? null : name.slice(dot + 1);
  const names = below === null ? [] : part === "header" ? [below] : below.split(".");
  if (!PARTS.includes(part) || names.includes("") || names.length > MAX_NAMES) return undefined;
  return { name, kind: "record", many: true, unit: 1, known: [], read: recordReader(part, names) };
};

const nameTest = (name) => {
  if (name === "**") return null;
  const parts = [...name].map((letter) => WILDCARDS[letter] || escapeLiteral(letter));
  const expression = new RegExp(`^${parts.join("")}$`, "su");
  return (found) => expression.test(found);
};
const recordReader = (part, names) => {
  const path = names.map(nameTest), below = part === "header" ? [] : path;
  const isWanted = (name) => part !== "header" || !names.length || path[0] === null || path[0](name);
  return (line) => [...recordValues(line.body)].filter(([each, name]) => each === part && isWanted(name))
    .flatMap(([, , value]) => [...valuesAt(value === null ? null : value.data, below)]);
};
/** Yields [part, name of the header, object or null] of the records in a body, or in a list of bodies. */
const recordValues = function* (body) {
  const waiting = [body];
  while (waiting.length) {
    const item = waiting.pop();
    if (Array.isArray(item)) pushAll(waiting, item);
    if (!isObject(item)) continue;
    const headers = Array.isArray(item.headers) ? item.headers.filter(isObject) : [];
    const found = [["key", null, item.key], ["value", null, item.value], ...headers.map(({ key, value }) => ["header", typeof key === "string" ? key : "", value])];
    if (found.some(([, , value]) => isDecoded(value))) {
      yield* found.filter(([, , value]) => value === null || isDecoded(value));
    } else pushAll(waiting, Object.values(item));
  }
};
/** Yields the values below a path; null in the path is any number of fields. `at` has the places reached in it. */
const valuesAt = function* (data, path) {
  const reached = (at) => {
    path.forEach((test, place) => { if (test === null && at.has(place)) at.add(place + 1); });
    return at;
  };
  const step = (at, name) => at.has(path.length) ? new Set([path.length])
    : reached(new Set([...at].flatMap((place) => path[place] === null ? [place] : path[place](name) ? [place + 1] : [])));
  const waiting = [[data, reached(new Set([0]))]];
  while (waiting.length) {
    const [item, at] = waiting.pop();
    if (Array.isArray(item)) pushAll(waiting, item.map((each) => [each, at]));
    else if (isObject(item)) {
      pushAll(waiting, Object.entries(item).map(([name, each]) => [each, step(at, name)]).filter(([, next]) => next.size));
    } else if (at.has(path.length) && item !== MASKED) yield item;
  }
};

/** Compares decimal numbers that are text, whatever their size. */
const compareDecimals = (compare, one, other) => {
  const [[a, i], [b, j]] = [one, other].map((text) => { const [whole, part = ""] = text.split("."); return [BigInt(whole + part), part.length]; });
  const most = Math.max(i, j);
  return compare(a * 10n ** BigInt(most - i), b * 10n ** BigInt(most - j));
};
/** Returns the test for one value in a record, which may be null. */
export const recordMatcher = ({ field, sign }, value) => {
  const glob = sign === "=" && !value.quoted && /[*?]/.test(value.text), compare = COMPARISONS[sign];
  if (sign === "~" || glob) {
    const find = patternMatcher(field, value, glob);
    return (found) => find(String(found));
  }
  if (value.quoted || !DECIMAL.test(value.text)) {
    return sign === "=" ? (found) => String(found) === value.text : (found) => typeof found === "string" && compare(found, value.text);
  }
  return (found) => {
    if (typeof found === "string") return DECIMAL.test(found) && compareDecimals(compare, found, value.text);
    return Number.isSafeInteger(found) ? compareDecimals(compare, String(found), value.text)
      : typeof found === "number" && compare(found, Number(value.text));
  };
};

const NOT_SEARCHED = ["v", "kind", "ts", "request_ts", "since", "until", "severity", "direction", "frame", "marked"];
const NOT_IN_ENTRIES = [...NOT_SEARCHED, "excerpt", "edit", "also", "rivals"];
/** The texts of a line that a search without a field reads, as kproxy.filters.line_text. */
export const lineTexts = (line) => {
  const { body, ...columns } = line, texts = [];
  const waiting = [[columns, NOT_SEARCHED]];
  while (waiting.length) {
    const [item, skipped] = waiting.pop();
    if (typeof item === "string") texts.push(item);
    else if (Array.isArray(item)) for (const each of item) waiting.push([each, NOT_IN_ENTRIES]);
    else if (isObject(item)) {
      for (const name of Object.keys(item)) if (!skipped.includes(name)) waiting.push([item[name], NOT_IN_ENTRIES]);
    }
  }
  const inBody = [body];
  while (inBody.length) {
    const item = inBody.pop();
    if (typeof item === "string") texts.push(item);
    else if (Array.isArray(item)) pushAll(inBody, item);
    else if (isObject(item) && Object.hasOwn(item, "format") && Object.hasOwn(item, "data")) {
      if (item.format === WITHHELD) continue;
      for (const each of valuesAt(item.data, [])) if (["string", "number"].includes(typeof each)) texts.push(String(each));
    } else if (isObject(item)) pushAll(inBody, Object.values(item));
  }
  return texts;
};
