/* Parses the filter language of docs/filters.md. Error messages are the same as on the command line (kproxy.filters). */
import { FilterError, inQuotes, suggestion } from "./filter_errors.js";
import { recordField } from "./filter_records.js";

const CONNECTIVES = ["and", "or", "not", "in"], MAX_OPEN = 50;
export const FIELDS = new Map();
export const UNITS = {};
/** Takes the fields and units of `kproxy.html.filter_fields`. */
export const setFields = ({ fields, units }) => {
  for (const [name, aliases, kind, many, unit, known] of fields) {
    const field = { name, kind, many, unit, known };
    for (const each of [name, ...aliases]) FIELDS.set(each, field);
  }
  Object.assign(UNITS, units);
};

/** Whether two words differ by at most one letter: missing, added, different, or swapped with its neighbour. */
const isOneEdit = (one, other) => {
  let start = 0, end = 0;
  const shorter = Math.min(one.length, other.length);
  while (start < shorter && one[start] === other[start]) start++;
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  const [left, right] = [one, other].map((letters) => letters.slice(start, letters.length - end));
  return Math.max(left.length, right.length) <= 1 || (left.length === 2 && left.join() === right.reverse().join());
};
/** The known name that a word of at least five characters without digits differs from by one letter, or by case. */
const misspelt = (word, known) => {
  const letters = [...word.toLowerCase()];
  if (letters.length < 5 || letters.some((letter) => /\p{Nd}/u.test(letter))) return undefined;
  return [...known].find((name) => isOneEdit(letters, [...name.toLowerCase()]));
};

const TOKEN = /\s*(?:(?<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<operator>==|=|!=|!~|<=|>=|<|>|~)|(?<sign>&&|\|\||!|\(|\)|,)|(?<word>[^\s()",'=!<>~&|]+)|(?<end>$))/sy;
const SPELLINGS = { "&&": "and", "||": "or", "!": "not", "==": "=" };
export const tokenize = (text) => {
  const found = [];
  let at = 0;
  while (!found.length || found.at(-1).sort !== "end") {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (!match) {
      const start = at + text.slice(at).length - text.slice(at).trimStart().length, sign = text[start];
      if (`"'`.includes(sign)) throw new FilterError("unterminated string", start);
      throw new FilterError(`unexpected ${inQuotes(sign)}`, start, `use ${sign + sign} to join terms, or quote the value`);
    }
    let [sort, value] = Object.entries(match.groups).find(([, part]) => part !== undefined);
    at = TOKEN.lastIndex;
    const start = at - value.length, end = at;
    if (sort === "string") value = value.slice(1, -1).replace(/\\([\\"'])/g, "$1");
    else if (sort === "word" && CONNECTIVES.includes(value.toLowerCase())) [sort, value] = ["sign", value.toLowerCase()];
    else value = Object.hasOwn(SPELLINGS, value) ? SPELLINGS[value] : value;
    found.push({ sort, value, start, end });
  }
  return found;
};

/** Recursive descent: `not` binds tighter than `and`, `and` than `or`. */
export class FilterParser {
  constructor(text) {
    Object.assign(this, { tokens: tokenize(text), at: 0, open: 0 });
  }
  get token() { return this.tokens[this.at]; }
  take() { return this.tokens[this.at++]; }
  isSign(value) { return this.token.sort === "sign" && this.token.value === value; }
  takeSign(value) {
    const found = this.isSign(value);
    this.at += found;
    return found;
  }
  fail(problem, hint) { throw new FilterError(problem, this.token.start, hint); }
  whole() {
    const node = this.alternatives();
    this.expectEnd();
    return node;
  }
  expectEnd() {
    if (this.isSign(")")) this.fail("')' without '('");
    if (this.token.sort !== "end") this.fail("'and' or 'or' is missing", "quote values that contain spaces or operators");
  }
  joined(sign, each) {
    const terms = [each()];
    while (this.takeSign(sign)) terms.push(each());
    return terms.length === 1 ? terms[0] : { join: sign, terms };
  }
  alternatives() { return this.joined("or", () => this.joined("and", () => this.term())); }
  term() {
    const token = this.token;
    if (!this.isSign("not") && !this.isSign("(")) return this.comparison();
    this.at += 1;
    this.open += 1;
    if (this.open > MAX_OPEN) throw new FilterError("parentheses are nested too deeply", token.start);
    const node = token.value === "not" ? { join: "not", terms: [this.term()] } : this.group(token);
    this.open -= 1;
    return node;
  }
  group(opening) {
    const node = this.alternatives();
    if (!this.takeSign(")")) {
      if (this.token.sort === "end") throw new FilterError("'(' without ')'", opening.start);
      this.expectEnd();
    }
    return node;
  }
  /** A text to search for: a quoted one, or a word that is neither a field nor compared with something. */
  text() {
    const { sort, value, start, end } = this.token, after = this.tokens[this.at + 1];
    if (sort !== "word" && sort !== "string") return undefined;
    if (after.sort === "operator" || (after.sort === "sign" && ["in", "not"].includes(after.value))) return undefined;
    if (sort === "word") {
      if (recordField(value) || FIELDS.get(value)) return undefined;
      const near = misspelt(value, FIELDS.keys());
      if (near) throw new FilterError(`unknown field ${inQuotes(value)}`, start, `did you mean '${near}'? Quote it to search for the text`);
    }
    if (!value) this.fail("the text to search for is empty");
    this.at += 1;
    return { text: { text: value, quoted: sort === "string", start, end } };
  }
  comparison() {
    const text = this.text();
    if (text) return text;
    const field = this.field(), operator = this.token;
    if (operator.sort === "operator") {
      this.at += 1;
      const sign = { "!=": "=", "!~": "~" }[operator.value] || operator.value;
      return { field, sign, values: [this.value(operator.value)], negated: operator.value.startsWith("!"), start: operator.start };
    }
    const negated = this.takeSign("not");
    if (this.takeSign("in")) return { field, sign: "=", values: this.values(), negated, start: operator.start };
    if (negated) this.fail("'in' is missing after 'not'", `use not ${field.name}, or ${field.name} not in (...)`);
    return { field };
  }
  field() {
    if (this.token.sort !== "word") this.fail("a field is missing", "a term looks like api=Fetch");
    const { value, start } = this.take(), field = recordField(value) || FIELDS.get(value);
    if (!field) throw new FilterError(`unknown field ${inQuotes(value)}`, start, suggestion(value, FIELDS.keys()));
    return field;
  }
  value(after) {
    const { sort, value, start, end } = this.token;
    if (sort !== "word" && sort !== "string") {
      this.fail(`a value is missing after ${inQuotes(after)}`, value === "(" ? "use in (...) for several values"
        : CONNECTIVES.includes(value) ? `quote it: "${value}"` : "");
    }
    this.at += 1;
    return { text: value, quoted: sort === "string", start, end };
  }
  values() {
    if (!this.takeSign("(")) this.fail("'(' is missing after 'in'", "example: in (Fetch, Produce)");
    const values = [this.value("(")];
    while (this.takeSign(",")) values.push(this.value(","));
    if (!this.takeSign(")")) this.fail("',' or ')' is missing");
    return values;
  }
}
