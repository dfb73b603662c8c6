/* Compiles a filter to a function over trace lines: reads fields, converts values, matches patterns. */
import { FilterError, inQuotes, suggestion } from "./filter_errors.js";
import { COMPARISONS, patternMatcher, textMatcher } from "./filter_pattern.js";
import { lineTexts, recordMatcher } from "./filter_records.js";
import { FilterParser, UNITS } from "./filter_text.js";

const NUMBERS = ["number", "count", "duration", "size"], SEVERITIES = ["info", "warning", "error"];
const NUMBER = /^(-?\d{1,20}(?:\.\d{1,9})?)([A-Za-zµ]*)$/;
const parseAmount = (field, value) => {
  const units = UNITS[field.kind] || {}, names = Object.keys(units);
  const example = { duration: "e.g. 50ms", size: "e.g. 10KiB" }[field.kind] || "use digits";
  const match = NUMBER.exec(value.text);
  if (!match) throw new FilterError(`${inQuotes(value.text)} is not a ${field.kind}`, value.start, example);
  const unit = names.find((name) => name.toLowerCase() === match[2].toLowerCase());
  if (match[2] && !unit) {
    const hint = names.length ? `use ${names.join(", ")}` : example;
    throw new FilterError(`unknown unit ${inQuotes(match[2])} for ${field.name}`, value.start, hint);
  }
  const factor = match[2] ? units[unit] : field.unit, [whole, fraction = ""] = match[1].split(".");
  const numerator = BigInt(whole + fraction) * BigInt(factor), denominator = 10n ** BigInt(fraction.length) * BigInt(field.unit);
  return numerator % denominator === 0n ? Number(numerator / denominator) : Number(numerator) / Number(denominator);
};
const INSTANT = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?Z?$/, MIDNIGHT = "0000-00-00T00:00:00.000000";
const parseInstant = (value) => {
  if (!INSTANT.test(value.text)) {
    throw new FilterError(`${inQuotes(value.text)} is not a time`, value.start, "use 2025-01-31, 2025-01-31T12:00 or 2025-01-31T12:00:00.5Z (UTC)");
  }
  const text = value.text.replace(/Z$/, "").replace(" ", "T");
  return `${text}${MIDNIGHT.slice(text.length)}Z`;
};
const parseEnumValue = (field, value) => {
  const match = field.known.find((name) => name.toLowerCase() === value.text.toLowerCase());
  if (match !== undefined) return match;
  const hint = field.known.length < 8 ? `use ${field.known.join(", ")}` : "";
  throw new FilterError(`unknown ${field.name} ${inQuotes(value.text)}`, value.start, suggestion(value.text, field.known) || hint);
};

/** Returns the test for one value, which is present and has its field's type. */
const valueMatcher = ({ field, sign, start }, value) => {
  if (field.kind === "record") return recordMatcher({ field, sign }, value);
  const { kind } = field, isNumber = NUMBERS.includes(kind);
  const forText = (check) => kind === "error" ? (actual) => typeof actual === "string" && check(actual) : check;
  if (sign === "~") {
    if (isNumber || kind === "flag") throw new FilterError(`${field.name} is a ${kind}; '~' searches text only`, start, "write =");
    return forText(patternMatcher(field, value, false));
  }
  const compare = COMPARISONS[sign];
  if (isNumber || (kind === "error" && /^-*\d+$/.test(value.text))) {
    const amount = parseAmount(field, value);
    return (actual) => typeof actual === "number" && compare(actual, amount);
  }
  if (kind === "flag" && sign === "=") {
    const expected = parseEnumValue(field, value) === "true";
    return (actual) => actual === expected;
  }
  if (sign === "=" && !value.quoted && /[*?]/.test(value.text)) return forText(patternMatcher(field, value, true));
  if (kind === "time") {
    const instant = parseInstant(value);
    return (actual) => compare(actual, instant);
  }
  if (kind === "severity") {
    const rank = SEVERITIES.indexOf(parseEnumValue(field, value));
    return (actual) => compare(SEVERITIES.indexOf(actual), rank);
  }
  if (sign !== "=") throw new FilterError(`${field.name} does not support ${inQuotes(sign)}`, start, "use =, ~ or in (...)");
  const expected = field.known.length && !value.quoted ? parseEnumValue(field, value) : value.text;
  if (kind === "text") return (actual) => actual === expected;
  const lowered = expected.toLowerCase();
  return forText((actual) => actual.toLowerCase() === lowered);
};

export const isPresent = (value) => value !== null && value !== undefined;
const valuesIn = (array, key) => (line) => (line[array] || []).map((entry) => entry[key]).filter(isPresent);
const flatValuesIn = (array, key) => (line) => (line[array] || []).flatMap((entry) => entry[key] || []);
const findingValues = (key) => (line) => [...(line.findings || []), ...(line.repeats || []), ...(line.kind === "finding" || line.kind === "stall" ? [line] : [])].map((entry) => entry[key]).filter(isPresent);
const listIn = (key) => (line) => line[key] || [];
const onlyIn = (kind, name, fallback) => (line) => isPresent(line[name]) ? line[name] : line.kind === kind ? fallback : null;
/** Readers of fields that are not simply a key of the line. */
const READS = {
  client: (line) => [line.client_id, line.client].filter(isPresent),
  tls: onlyIn("open", "tls", false), midstream: onlyIn("open", "midstream", false),
  direction: (line) => line.kind === "request" || line.kind === "response" ? line.kind : line.direction,
  topic: valuesIn("topics", "topic"), topic_id: valuesIn("topics", "topic_id"), partition: flatValuesIn("topics", "partitions"),
  records: valuesIn("topics", "records"), batches: valuesIn("topics", "batches"), lag: valuesIn("topics", "lag"),
  age: (line) => flatValuesIn("topics", "ages_ms")(line).filter(isPresent),
  base_offset: (line) => flatValuesIn("topics", "offsets")(line).filter(isPresent),
  broker: listIn("brokers"), rewritten: valuesIn("rewritten", "path"),
  marker: valuesIn("markers", "topic"), held: valuesIn("held", "topic"),
  task: listIn("tasks"), acquired: valuesIn("acquired", "topic"), acknowledged: valuesIn("acknowledged", "type"),
  waiting: listIn("waiting"), waiting_ids: listIn("waiting_ids"), blamed: listIn("blamed"), blamed_ids: listIn("blamed_ids"),
  compression: flatValuesIn("topics", "compression"),
  bytes: (line) => isPresent(line.bytes) ? [line.bytes] : valuesIn("topics", "bytes")(line),
  software: ({ software_name: name, software_version: version }) => !isPresent(name) ? [] : isPresent(version) ? [name, `${name} ${version}`] : [name],
  error: (line) => line.errors && line.errors.length ? line.errors.flatMap(({ code, name }) => [code, name])
    : line.kind === "response" && !isPresent(line.not_decoded) ? [0, "NONE"] : [],
  finding: (line) => [...findingValues("code")(line), ...findingValues("name")(line)],
  severity: findingValues("severity"), blame: findingValues("blame"), message: findingValues("message"), hint: findingValues("hint"),
  expected: findingValues("expected"), got: findingValues("got"), marked: (line) => line.marked || false,
  frames: onlyIn("gap", "frames", 0), requests: onlyIn("close", "requests", 0), responses: onlyIn("close", "responses", 0),
  request_bytes: onlyIn("close", "request_bytes", 0), response_bytes: onlyIn("close", "response_bytes", 0),
  unanswered: onlyIn("close", "unanswered", 0),
};
const readerOf = ({ name, read }) => read || (Object.hasOwn(READS, name) ? READS[name] : (line) => line[name]);

const compileNode = (node) => {
  if (node.join) {
    const terms = node.terms.map(compileNode);
    if (node.join === "not") return (line) => !terms[0](line);
    return node.join === "and" ? (line) => terms.every((term) => term(line)) : (line) => terms.some((term) => term(line));
  }
  if (node.text) {
    const contains = textMatcher(node.text);
    return (line) => lineTexts(line).some(contains);
  }
  const { field } = node, read = readerOf(field), values = (line) => field.many ? read(line) : [read(line)].filter(isPresent);
  if (!node.values) {
    if (field.kind === "error") return (line) => Boolean(line.errors && line.errors.length);
    if (field.kind === "number") return (line) => values(line).length > 0;
    if (field.kind === "record") return (line) => values(line).some((actual) => actual !== null && actual !== false);
    return (line) => values(line).some(Boolean);
  }
  const checks = node.values.map((value) => valueMatcher(node, value)), matchesAny = (actual) => checks.some((check) => check(actual));
  if (!node.negated) return (line) => values(line).some(matchesAny);
  return (line) => {
    const actualValues = values(line);
    return actualValues.length > 0 && !actualValues.some(matchesAny);
  };
};

/** Merges the lines of an exchange for a filter: fields of the response come first; findings and records are of both. */
export const mergeLines = ([first, second]) => second === undefined ? first
  : { ...first, ...second, findings: [...(first.findings || []), ...(second.findings || [])],
    repeats: [...(first.repeats || []), ...(second.repeats || [])], body: [first.body, second.body] };

const readsRecords = (node) => node.join ? node.terms.some(readsRecords) : Boolean(node.text) || node.field.kind === "record";

/** Returns a function that tests a line, whether the filter only searches for a text, and whether it reads records; throws `FilterError`. */
export const compileFilter = (text) => {
  const node = new FilterParser(text).parse();
  return { test: compileNode(node), isText: Boolean(node.text), readsRecords: readsRecords(node) };
};
