/* Patterns of the filter language, and how values compare. */
import { FilterError, inQuotes } from "./filter_errors.js";

const ATOM = /\[\^?\]?(?:\\.|[^\]\\])*\]|\\[dDwWsSnrt]|\\[^A-Za-z0-9]|[^\\[(){}*+?|]/suy;
const REPEAT = /(?:[*+?]|\{(\d{1,3})(?:(,)(\d{1,3})?)?\})\??/y;
const CLASSES = { d: "\\p{Nd}", D: "\\P{Nd}", w: "\\p{L}\\p{N}_", s: "\\s", S: "\\S", n: "\\n", r: "\\r", t: "\\t" };
export const WILDCARDS = { "*": ".*", "?": "." };
export const escapeLiteral = (text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, (character) => character === "-" ? "\\x2d" : `\\${character}`);

class PatternError extends Error {
  constructor(message, position) {
    super(message);
    this.position = position;
  }
}

/** Converts a pattern of the filter language to a regular expression, without look-around as on the command line. */
class PatternReader {
  constructor(pattern) {
    this.ignoresCase = pattern.startsWith("(?i)");
    Object.assign(this, { pattern, position: this.ignoresCase ? 4 : 0 });
  }
  nextIs(characters) { return this.position < this.pattern.length && characters.includes(this.pattern[this.position]); }
  match(expression) {
    expression.lastIndex = this.position;
    return expression.exec(this.pattern);
  }
  parse() {
    const source = this.choice();
    if (this.position < this.pattern.length) throw new PatternError("unmatched ')': use \\) for the character", this.position);
    return source;
  }
  choice() {
    let source = this.sequence();
    while (this.nextIs("|")) {
      this.position += 1;
      source += `|${this.sequence()}`;
    }
    return source;
  }
  sequence() {
    let source = "";
    while (this.position < this.pattern.length && !this.nextIs("|)")) source += this.repeated();
    return source;
  }
  repeated() {
    const source = this.nextIs("(") ? this.group() : this.atom(), repeat = this.match(REPEAT);
    if (!repeat) return source;
    const [quantifier, min, comma, max] = repeat;
    if (max && Number(max) < Number(min)) throw new PatternError("the second number is smaller than the first", this.position);
    this.position += quantifier.length;
    return `(?:${source})${quantifier}`;
  }
  group() {
    const start = this.position;
    this.position += this.pattern.startsWith("(?:", start) ? 3 : 1;
    if (this.nextIs("?")) throw new PatternError("only (...) and (?:...) groups are supported", start);
    const source = this.choice();
    if (!this.nextIs(")")) throw new PatternError("unclosed '(': use \\( for the character", start);
    this.position += 1;
    return `(?:${source})`;
  }
  atom() {
    const start = this.position, atom = this.match(ATOM);
    if (!atom) {
      const unexpected = this.pattern.slice(start, start + (this.nextIs("\\") ? 2 : 1));
      throw new PatternError(`unexpected ${inQuotes(unexpected)}`, start);
    }
    this.position += atom[0].length;
    if (".^$".includes(atom[0])) return atom[0];
    const source = atom[0][0] === "[" ? this.set(atom[0]) : this.escape(atom[0]);
    try { new RegExp(source, "su"); } catch { throw new PatternError(`unexpected ${inQuotes(atom[0])}`, start); }
    return source;
  }
  escape(atom) {
    if (atom[0] !== "\\") return escapeLiteral(atom);
    if (atom === "\\w") return `[${CLASSES.w}]`;
    if (atom === "\\W") return `[^${CLASSES.w}]`;
    return CLASSES[atom[1]] || escapeLiteral(atom.slice(1));
  }
  set(atom) {
    const negated = atom[1] === "^";
    const inner = atom.slice(negated ? 2 : 1, -1).replace(/\\(.)|([\]\[^$.*+?(){}|/])/gsu, (_, escaped, character) => {
      if (character) return escapeLiteral(character);
      return /[A-Za-z0-9]/.test(escaped) ? CLASSES[escaped] || `\\${escaped}` : escapeLiteral(escaped);
    });
    return `[${negated ? "^" : ""}${inner}]`;
  }
}

export const patternMatcher = (field, value, isGlob) => {
  const flags = (ignoresCase) => `su${ignoresCase || !["text", "record"].includes(field.kind) ? "i" : ""}`;
  if (isGlob) {
    const parts = [...value.text].map((character) => WILDCARDS[character] || escapeLiteral(character));
    const expression = new RegExp(`^${parts.join("")}$`, flags(false));
    return (text) => expression.test(text);
  }
  try {
    const reader = new PatternReader(value.text), expression = new RegExp(reader.parse(), flags(reader.ignoresCase));
    return (text) => expression.test(text);
  } catch (error) {
    const hasEscapes = value.quoted && value.end - value.start !== value.text.length + 2;
    const start = value.start + (hasEscapes ? 0 : (error.position || 0) + value.quoted);
    throw new FilterError(`invalid pattern ${inQuotes(value.text)}: ${error.message}`, start);
  }
};

export const COMPARISONS = { "=": (a, b) => a === b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };

/** Returns a test whether a text contains the value, ignoring case. */
export const textMatcher = ({ text, quoted }) => {
  if (!quoted && /[*?]/.test(text)) {
    const expression = new RegExp([...text].map((character) => WILDCARDS[character] || escapeLiteral(character)).join(""), "sui");
    return (candidate) => expression.test(candidate);
  }
  const needle = text.toLowerCase();
  return (candidate) => candidate.toLowerCase().includes(needle);
};
