/* Parses the filter language of docs/filters.md. Error messages are the same as on the command line (kproxy.filters). */
import { FilterError, inQuotes, suggestion } from "./filter_errors.js";
import { recordField } from "./filter_records.js";

const CONNECTIVES = ["and", "or", "not", "in"], MAX_DEPTH = 50;
export const FIELDS = new Map();
export const UNITS = {};
/** Sets the fields and units of `kproxy.html.filter_fields`. */
export const setFields = ({ fields, units }) => {
  for (const [name, aliases, kind, many, unit, known] of fields) {
    const field = { name, kind, many, unit, known };
    for (const alias of [name, ...aliases]) FIELDS.set(alias, field);
  }
  Object.assign(UNITS, units);
};

/** Whether two words differ by at most one letter: missing, added, different, or swapped with its neighbour. */
const isOneEdit = (first, second) => {
  let start = 0, end = 0;
  const shorter = Math.min(first.length, second.length);
  while (start < shorter && first[start] === second[start]) start++;
  while (end < shorter - start && first.at(-1 - end) === second.at(-1 - end)) end++;
  const [left, right] = [first, second].map((letters) => letters.slice(start, letters.length - end));
  return Math.max(left.length, right.length) <= 1 || (left.length === 2 && left.join() === right.reverse().join());
};
/** Returns the known name that differs from a word by one letter or by case, if the word has at least five characters and no digit. */
const correctSpelling = (word, known) => {
  const letters = [...word.toLowerCase()];
  if (letters.length < 5 || letters.some((letter) => /\p{Nd}/u.test(letter))) return undefined;
  return [...known].find((name) => isOneEdit(letters, [...name.toLowerCase()]));
};

const TOKEN = /\s*(?:(?<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<operator>==|=|!=|!~|<=|>=|<|>|~)|(?<sign>&&|\|\||!|\(|\)|,)|(?<word>[^\s()",'=!<>~&|]+)|(?<end>$))/sy;
const SPELLINGS = { "&&": "and", "||": "or", "!": "not", "==": "=" };
export const tokenize = (text) => {
  const tokens = [];
  let index = 0;
  while (!tokens.length || tokens.at(-1).type !== "end") {
    TOKEN.lastIndex = index;
    const match = TOKEN.exec(text);
    if (!match) {
      const start = index + text.slice(index).length - text.slice(index).trimStart().length, character = text[start];
      if (`"'`.includes(character)) throw new FilterError("unterminated string", start);
      throw new FilterError(`unexpected ${inQuotes(character)}`, start, `use ${character + character} to join terms, or quote the value`);
    }
    let [type, value] = Object.entries(match.groups).find(([, part]) => part !== undefined);
    index = TOKEN.lastIndex;
    const start = index - value.length, end = index;
    if (type === "string") value = value.slice(1, -1).replace(/\\([\\"'])/g, "$1");
    else if (type === "word" && CONNECTIVES.includes(value.toLowerCase())) [type, value] = ["sign", value.toLowerCase()];
    else value = Object.hasOwn(SPELLINGS, value) ? SPELLINGS[value] : value;
    tokens.push({ type, value, start, end });
  }
  return tokens;
};

/** Recursive descent: `not` binds tighter than `and`, `and` than `or`. */
export class FilterParser {
  constructor(text) {
    Object.assign(this, { tokens: tokenize(text), index: 0, depth: 0 });
  }
  get token() { return this.tokens[this.index]; }
  take() { return this.tokens[this.index++]; }
  isSign(value) { return this.token.type === "sign" && this.token.value === value; }
  takeSign(value) {
    const isTaken = this.isSign(value);
    this.index += isTaken;
    return isTaken;
  }
  fail(problem, hint) { throw new FilterError(problem, this.token.start, hint); }
  parse() {
    const node = this.alternatives();
    this.expectEnd();
    return node;
  }
  expectEnd() {
    if (this.isSign(")")) this.fail("')' without '('");
    if (this.token.type !== "end") this.fail("'and' or 'or' is missing", "quote values that contain spaces or operators");
  }
  joined(sign, parseOperand) {
    const terms = [parseOperand()];
    while (this.takeSign(sign)) terms.push(parseOperand());
    return terms.length === 1 ? terms[0] : { join: sign, terms };
  }
  alternatives() { return this.joined("or", () => this.joined("and", () => this.term())); }
  term() {
    const token = this.token;
    if (!this.isSign("not") && !this.isSign("(")) return this.comparison();
    this.index += 1;
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new FilterError("parentheses are nested too deeply", token.start);
    const node = token.value === "not" ? { join: "not", terms: [this.term()] } : this.group(token);
    this.depth -= 1;
    return node;
  }
  group(openingToken) {
    const node = this.alternatives();
    if (!this.takeSign(")")) {
      if (this.token.type === "end") throw new FilterError("'(' without ')'", openingToken.start);
      this.expectEnd();
    }
    return node;
  }
  /** Parses a text to search for: a quoted text, or a word that is not a field and has no operator after it. */
  text() {
    const { type, value, start, end } = this.token, next = this.tokens[this.index + 1];
    if (type !== "word" && type !== "string") return undefined;
    if (next.type === "operator" || (next.type === "sign" && ["in", "not"].includes(next.value))) return undefined;
    if (type === "word") {
      if (recordField(value) || FIELDS.get(value)) return undefined;
      const correction = correctSpelling(value, FIELDS.keys());
      if (correction) throw new FilterError(`unknown field ${inQuotes(value)}`, start, `did you mean '${correction}'? Quote it to search for the text`);
    }
    if (!value) this.fail("the text to search for is empty");
    this.index += 1;
    return { text: { text: value, quoted: type === "string", start, end } };
  }
  comparison() {
    const text = this.text();
    if (text) return text;
    const field = this.field(), operator = this.token;
    if (operator.type === "operator") {
      this.index += 1;
      const sign = { "!=": "=", "!~": "~" }[operator.value] || operator.value;
      return { field, sign, values: [this.value(operator.value)], negated: operator.value.startsWith("!"), start: operator.start };
    }
    const negated = this.takeSign("not");
    if (this.takeSign("in")) return { field, sign: "=", values: this.values(), negated, start: operator.start };
    if (negated) this.fail("'in' is missing after 'not'", `use not ${field.name}, or ${field.name} not in (...)`);
    return { field };
  }
  field() {
    if (this.token.type !== "word") this.fail("a field is missing", "a term looks like api=Fetch");
    const { value, start } = this.take(), field = recordField(value) || FIELDS.get(value);
    if (!field) throw new FilterError(`unknown field ${inQuotes(value)}`, start, suggestion(value, FIELDS.keys()));
    return field;
  }
  value(previousText) {
    const { type, value, start, end } = this.token;
    if (type !== "word" && type !== "string") {
      this.fail(`a value is missing after ${inQuotes(previousText)}`, value === "(" ? "use in (...) for several values"
        : CONNECTIVES.includes(value) ? `quote it: "${value}"` : "");
    }
    this.index += 1;
    return { text: value, quoted: type === "string", start, end };
  }
  values() {
    if (!this.takeSign("(")) this.fail("'(' is missing after 'in'", "example: in (Fetch, Produce)");
    const values = [this.value("(")];
    while (this.takeSign(",")) values.push(this.value(","));
    if (!this.takeSign(")")) this.fail("',' or ')' is missing");
    return values;
  }
}
