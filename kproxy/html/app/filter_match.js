/* Compiles a filter to a function over trace lines: reads fields, converts values, matches patterns. */
import { FilterError, inQuotes, suggestion } from "./filter_errors.js";
import { COMPARISONS, textMatcher, patternMatcher } from "./filter_pattern.js";
import { lineTexts, recordMatcher } from "./filter_records.js";
import { FilterParser, UNITS } from "./filter_text.js";

const NUMBERS = ["number", "count", "duration", "size"], SEVERITIES = ["info", "warning", "error"];
const NUMBER = /^(-?\d{1,20}(?:\.\d{1,9})?)([A-Za-zµ]*)$/;
const amountOf = (field, value) => {
  const units = UNITS[field.kind] || {}, names = Object.keys(units);
  const example = { duration: "e.g. 50ms", size: "e.g. 10KiB" }[field.kind] || "use digits";
  const match = NUMBER.exec(value.text);
  if (!match) throw new FilterError(`${inQuotes(value.text)} is not a ${field.kind}`, value.start, example);
  const unit = names.find((name) => name.toLowerCase() === match[2].toLowerCase());
  if (match[2] && !unit) {
    const hint = names.length ? `use ${names.join(", ")}` : example;
    throw new FilterError(`unknown unit ${inQuotes(match[2])} for ${field.name}`, value.start, hint);
  }
  const factor = match[2] ? units[unit] : field.unit, [whole, part = ""] = match[1].split(".");
  const top = BigInt(whole + part) * BigInt(factor), bottom = 10n ** BigInt(part.length) * BigInt(field.unit);
  return top % bottom === 0n ? Number(top / bottom) : Number(top) / Number(bottom);
};
const INSTANT = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?Z?$/, MIDNIGHT = "0000-00-00T00:00:00.000000";
const instantOf = (value) => {
  if (!INSTANT.test(value.text)) {
    throw new FilterError(`${inQuotes(value.text)} is not a time`, value.start, "use 2025-01-31, 2025-01-31T12:00 or 2025-01-31T12:00:00.5Z (UTC)");
  }
  const text = value.text.replace(/Z$/, "").replace(" ", "T");
  return `${text}${MIDNIGHT.slice(text.length)}Z`;
};
const closedValue = (field, value) => {
  const found = field.known.find((name) => name.toLowerCase() === value.text.toLowerCase());
  if (found !== undefined) return found;
  const few = field.known.length < 8 ? `use ${field.known.join(", ")}` : "";
  throw new FilterError(`unknown ${field.name} ${inQuotes(value.text)}`, value.start, suggestion(value.text, field.known) || few);
};

/** Returns the test for one value, which is present and has its field's type. */
const checkOf = ({ field, sign, start }, value) => {
  if (field.kind === "record") return recordMatcher({ field, sign }, value);
  const { kind } = field, isNumber = NUMBERS.includes(kind);
  const ofText = (check) => kind === "error" ? (found) => typeof found === "string" && check(found) : check;
  if (sign === "~") {
    if (isNumber || kind === "flag") throw new FilterError(`${field.name} is a ${kind}; '~' searches text only`, start, "write =");
    return ofText(patternMatcher(field, value, false));
  }
  const compare = COMPARISONS[sign];
  if (isNumber || (kind === "error" && /^-*\d+$/.test(value.text))) {
    const amount = amountOf(field, value);
    return (found) => typeof found === "number" && compare(found, amount);
  }
  if (kind === "flag" && sign === "=") {
    const wanted = closedValue(field, value) === "true";
    return (found) => found === wanted;
  }
  if (sign === "=" && !value.quoted && /[*?]/.test(value.text)) return ofText(patternMatcher(field, value, true));
  if (kind === "time") {
    const moment = instantOf(value);
    return (found) => compare(found, moment);
  }
  if (kind === "severity") {
    const rank = SEVERITIES.indexOf(closedValue(field, value));
    return (found) => compare(SEVERITIES.indexOf(found), rank);
  }
  if (sign !== "=") throw new FilterError(`${field.name} does not support ${inQuotes(sign)}`, start, "use =, ~ or in (...)");
  const exact = field.known.length && !value.quoted ? closedValue(field, value) : value.text;
  if (kind === "text") return (found) => found === exact;
  const lowered = exact.toLowerCase();
  return ofText((found) => found.toLowerCase() === lowered);
};

export const isPresent = (value) => value !== null && value !== undefined;
const inEach = (array, key) => (line) => (line[array] || []).map((each) => each[key]).filter(isPresent);
const allInEach = (array, key) => (line) => (line[array] || []).flatMap((each) => each[key] || []);
const ofFindings = (key) => (line) => [...(line.findings || []), ...(line.repeats || []), ...(line.kind === "finding" || line.kind === "stall" ? [line] : [])].map((each) => each[key]).filter(isPresent);
const listed = (key) => (line) => line[key] || [];
const ofKind = (kind, name, absent) => (line) => isPresent(line[name]) ? line[name] : line.kind === kind ? absent : null;
/** Readers of fields that are not simply a key of the line. */
const READS = {
  client: (line) => [line.client_id, line.client].filter(isPresent),
  tls: ofKind("open", "tls", false), midstream: ofKind("open", "midstream", false),
  direction: (line) => line.kind === "request" || line.kind === "response" ? line.kind : line.direction,
  topic: inEach("topics", "topic"), topic_id: inEach("topics", "topic_id"), partition: allInEach("topics", "partitions"),
  records: inEach("topics", "records"), batches: inEach("topics", "batches"), lag: inEach("topics", "lag"),
  age: (line) => allInEach("topics", "ages_ms")(line).filter(isPresent),
  base_offset: (line) => allInEach("topics", "offsets")(line).filter(isPresent),
  broker: listed("brokers"), rewritten: inEach("rewritten", "path"),
  marker: inEach("markers", "topic"), held: inEach("held", "topic"),
  task: listed("tasks"), acquired: inEach("acquired", "topic"), acknowledged: inEach("acknowledged", "type"),
  waiting: listed("waiting"), waiting_ids: listed("waiting_ids"), blamed: listed("blamed"), blamed_ids: listed("blamed_ids"),
  compression: allInEach("topics", "compression"),
  bytes: (line) => isPresent(line.bytes) ? [line.bytes] : inEach("topics", "bytes")(line),
  software: ({ software_name: name, software_version: version }) => !isPresent(name) ? [] : isPresent(version) ? [name, `${name} ${version}`] : [name],
  error: (line) => line.errors && line.errors.length ? line.errors.flatMap(({ code, name }) => [code, name])
    : line.kind === "response" && !isPresent(line.not_decoded) ? [0, "NONE"] : [],
  finding: (line) => [...ofFindings("code")(line), ...ofFindings("name")(line)],
  severity: ofFindings("severity"), blame: ofFindings("blame"), message: ofFindings("message"), hint: ofFindings("hint"),
  expected: ofFindings("expected"), got: ofFindings("got"), marked: (line) => line.marked || false,
  frames: ofKind("gap", "frames", 0), requests: ofKind("close", "requests", 0), responses: ofKind("close", "responses", 0),
  request_bytes: ofKind("close", "request_bytes", 0), response_bytes: ofKind("close", "response_bytes", 0),
  unanswered: ofKind("close", "unanswered", 0),
};
const readOf = ({ name, read }) => read || (Object.hasOwn(READS, name) ? READS[name] : (line) => line[name]);

const testOf = (node) => {
  if (node.join) {
    const terms = node.terms.map(testOf);
    if (node.join === "not") return (line) => !terms[0](line);
    return node.join === "and" ? (line) => terms.every((term) => term(line)) : (line) => terms.some((term) => term(line));
  }
  if (node.text) {
    const contains = textMatcher(node.text);
    return (line) => lineTexts(line).some(contains);
  }
  const { field } = node, read = readOf(field), values = (line) => field.many ? read(line) : [read(line)].filter(isPresent);
  if (!node.values) {
    if (field.kind === "error") return (line) => Boolean(line.errors && line.errors.length);
    if (field.kind === "number") return (line) => values(line).length > 0;
    if (field.kind === "record") return (line) => values(line).some((found) => found !== null && found !== false);
    return (line) => values(line).some(Boolean);
  }
  const checks = node.values.map((value) => checkOf(node, value)), fits = (found) => checks.some((check) => check(found));
  if (!node.negated) return (line) => values(line).some(fits);
  return (line) => {
    const found = values(line);
    return found.length > 0 && !found.some(fits);
  };
};

/** An exchange for a filter: the fields of the response, else those of the request; the findings and records of both. */
export const mergeLines = ([first, second]) => second === undefined ? first
  : { ...first, ...second, findings: [...(first.findings || []), ...(second.findings || [])],
    repeats: [...(first.repeats || []), ...(second.repeats || [])], body: [first.body, second.body] };

const readsRecords = (node) => node.join ? node.terms.some(readsRecords) : Boolean(node.text) || node.field.kind === "record";

/** Returns a function that tests a line, whether the filter only searches for a text, and whether it reads records; throws `FilterError`. */
export const compileFilter = (text) => {
  const node = new FilterParser(text).whole();
  return { test: testOf(node), isText: Boolean(node.text), readsRecords: readsRecords(node) };
};
