/* Fields of decoded records (value.order.id, key, header.traceparent), as kproxy.filters.record_fields reads and compares them. */
import { COMPARISONS, WILDCARDS, escapeLiteral, patternMatcher } from "./filter_pattern.js";

const PARTS = ["key", "value", "header"], MASKED = "(masked)", WITHHELD = "(withheld)", MAX_NAMES = 50;
const DECIMAL = /^-?\d{1,40}(\.\d{1,40})?$/;
const isObject = (item) => item !== null && typeof item === "object" && !Array.isArray(item);
const isDecoded = (item) => isObject(item) && Object.hasOwn(item, "format") && Object.hasOwn(item, "data") && item.format !== WITHHELD;

/** Pushes items so that the first one is on top. */
const pushAll = (stack, items) => {
  for (let index = items.length - 1; index >= 0; index--) stack.push(items[index]);
};

/** Returns the field of a name such as `value.order.id`; undefined if it is not one. */
export const recordField = (name) => {
  const dot = name.indexOf("."), part = dot < 0 ? name : name.slice(0, dot), rest = dot < 0 ? null : name.slice(dot + 1);
  const names = rest === null ? [] : part === "header" ? [rest] : rest.split(".");
  if (!PARTS.includes(part) || names.includes("") || names.length > MAX_NAMES) return undefined;
  return { name, kind: "record", many: true, unit: 1, known: [], read: recordReader(part, names) };
};

const nameTest = (name) => {
  if (name === "**") return null;
  const parts = [...name].map((character) => WILDCARDS[character] || escapeLiteral(character));
  const expression = new RegExp(`^${parts.join("")}$`, "su");
  return (text) => expression.test(text);
};
const recordReader = (part, names) => {
  const path = names.map(nameTest), valuePath = part === "header" ? [] : path;
  const isSelected = (name) => part !== "header" || !names.length || path[0] === null || path[0](name);
  return (line) => [...recordValues(line.body)].filter(([recordPart, name]) => recordPart === part && isSelected(name))
    .flatMap(([, , value]) => [...valuesAt(value === null ? null : value.data, valuePath)]);
};
/** Yields [part, name of the header, object or null] of the records in a body, or in a list of bodies. */
const recordValues = function* (body) {
  const stack = [body];
  while (stack.length) {
    const item = stack.pop();
    if (Array.isArray(item)) pushAll(stack, item);
    if (!isObject(item)) continue;
    const headers = Array.isArray(item.headers) ? item.headers.filter(isObject) : [];
    const parts = [["key", null, item.key], ["value", null, item.value], ...headers.map(({ key, value }) => ["header", typeof key === "string" ? key : "", value])];
    if (parts.some(([, , value]) => isDecoded(value))) {
      yield* parts.filter(([, , value]) => value === null || isDecoded(value));
    } else pushAll(stack, Object.values(item));
  }
};
/** Yields the values below a path; null in the path matches any number of fields. `positions` are indexes of the path. */
const valuesAt = function* (data, path) {
  const expand = (positions) => {
    path.forEach((test, position) => { if (test === null && positions.has(position)) positions.add(position + 1); });
    return positions;
  };
  const advance = (positions, name) => positions.has(path.length) ? new Set([path.length])
    : expand(new Set([...positions].flatMap((position) => path[position] === null ? [position] : path[position](name) ? [position + 1] : [])));
  const stack = [[data, expand(new Set([0]))]];
  while (stack.length) {
    const [item, positions] = stack.pop();
    if (Array.isArray(item)) pushAll(stack, item.map((element) => [element, positions]));
    else if (isObject(item)) {
      pushAll(stack, Object.entries(item).map(([name, value]) => [value, advance(positions, name)]).filter(([, nextPositions]) => nextPositions.size));
    } else if (positions.has(path.length) && item !== MASKED) yield item;
  }
};

/** Compares decimal numbers of any size, which are texts. */
const compareDecimals = (compare, left, right) => {
  const [[a, i], [b, j]] = [left, right].map((text) => { const [whole, part = ""] = text.split("."); return [BigInt(whole + part), part.length]; });
  const scale = Math.max(i, j);
  return compare(a * 10n ** BigInt(scale - i), b * 10n ** BigInt(scale - j));
};
/** Returns the test for one value in a record, which may be null. */
export const recordMatcher = ({ field, sign }, value) => {
  const isGlob = sign === "=" && !value.quoted && /[*?]/.test(value.text), compare = COMPARISONS[sign];
  if (sign === "~" || isGlob) {
    const matches = patternMatcher(field, value, isGlob);
    return (actual) => matches(String(actual));
  }
  if (value.quoted || !DECIMAL.test(value.text)) {
    return sign === "=" ? (actual) => String(actual) === value.text : (actual) => typeof actual === "string" && compare(actual, value.text);
  }
  return (actual) => {
    if (typeof actual === "string") return DECIMAL.test(actual) && compareDecimals(compare, actual, value.text);
    return Number.isSafeInteger(actual) ? compareDecimals(compare, String(actual), value.text)
      : typeof actual === "number" && compare(actual, Number(value.text));
  };
};

const NOT_SEARCHED = ["v", "kind", "ts", "request_ts", "since", "until", "severity", "direction", "frame", "marked"];
const NOT_IN_ENTRIES = [...NOT_SEARCHED, "excerpt", "edit", "also", "rivals"];
/** The texts of a line that a search without a field reads, as kproxy.filters.line_text. */
export const lineTexts = (line) => {
  const { body, ...columns } = line, texts = [];
  const stack = [[columns, NOT_SEARCHED]];
  while (stack.length) {
    const [item, skippedKeys] = stack.pop();
    if (typeof item === "string") texts.push(item);
    else if (Array.isArray(item)) for (const element of item) stack.push([element, NOT_IN_ENTRIES]);
    else if (isObject(item)) {
      for (const name of Object.keys(item)) if (!skippedKeys.includes(name)) stack.push([item[name], NOT_IN_ENTRIES]);
    }
  }
  const bodyStack = [body];
  while (bodyStack.length) {
    const item = bodyStack.pop();
    if (typeof item === "string") texts.push(item);
    else if (Array.isArray(item)) pushAll(bodyStack, item);
    else if (isObject(item) && Object.hasOwn(item, "format") && Object.hasOwn(item, "data")) {
      if (item.format === WITHHELD) continue;
      for (const value of valuesAt(item.data, [])) if (["string", "number"].includes(typeof value)) texts.push(String(value));
    } else if (isObject(item)) pushAll(bodyStack, Object.values(item));
  }
  return texts;
};
