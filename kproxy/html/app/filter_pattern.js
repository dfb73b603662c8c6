/* Patterns of the filter language, and how values compare. */
import { FilterError, inQuotes } from "./filter_errors.js";

const ATOM = /\[\^?\]?(?:\\.|[^\]\\])*\]|\\[dDwWsSnrt]|\\[^A-Za-z0-9]|[^\\[(){}*+?|]/suy;
const REPEAT = /(?:[*+?]|\{(\d{1,3})(?:(,)(\d{1,3})?)?\})\??/y;
const CLASSES = { d: "\\p{Nd}", D: "\\P{Nd}", w: "\\p{L}\\p{N}_", s: "\\s", S: "\\S", n: "\\n", r: "\\r", t: "\\t" };
export const WILDCARDS = { "*": ".*", "?": "." };
export const escapeLiteral = (text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, (sign) => sign === "-" ? "\\x2d" : `\\${sign}`);

class PatternError extends Error {
  constructor(message, position) {
    super(message);
    this.position = position;
  }
}

/** Converts a pattern of the filter language to a regular expression; like the command line without look-around. */
class PatternReader {
  constructor(pattern) {
    this.ignoresCase = pattern.startsWith("(?i)");
    Object.assign(this, { pattern, at: this.ignoresCase ? 4 : 0 });
  }
  nextIs(signs) { return this.at < this.pattern.length && signs.includes(this.pattern[this.at]); }
  match(expression) {
    expression.lastIndex = this.at;
    return expression.exec(this.pattern);
  }
  whole() {
    const made = this.choice();
    if (this.at < this.pattern.length) throw new PatternError("unmatched ')': use \\) for the character", this.at);
    return made;
  }
  choice() {
    let made = this.sequence();
    while (this.nextIs("|")) {
      this.at += 1;
      made += `|${this.sequence()}`;
    }
    return made;
  }
  sequence() {
    let made = "";
    while (this.at < this.pattern.length && !this.nextIs("|)")) made += this.repeated();
    return made;
  }
  repeated() {
    const made = this.nextIs("(") ? this.group() : this.atom(), repeat = this.match(REPEAT);
    if (!repeat) return made;
    const [sign, least, comma, most] = repeat;
    if (most && Number(most) < Number(least)) throw new PatternError("the second number is smaller than the first", this.at);
    this.at += sign.length;
    return `(?:${made})${sign}`;
  }
  group() {
    const start = this.at;
    this.at += this.pattern.startsWith("(?:", start) ? 3 : 1;
    if (this.nextIs("?")) throw new PatternError("only (...) and (?:...) groups are supported", start);
    const made = this.choice();
    if (!this.nextIs(")")) throw new PatternError("unclosed '(': use \\( for the character", start);
    this.at += 1;
    return `(?:${made})`;
  }
  atom() {
    const start = this.at, atom = this.match(ATOM);
    if (!atom) {
      const what = this.pattern.slice(start, start + (this.nextIs("\\") ? 2 : 1));
      throw new PatternError(`unexpected ${inQuotes(what)}`, start);
    }
    this.at += atom[0].length;
    if (".^$".includes(atom[0])) return atom[0];
    const made = atom[0][0] === "[" ? this.set(atom[0]) : this.escape(atom[0]);
    try { new RegExp(made, "su"); } catch { throw new PatternError(`unexpected ${inQuotes(atom[0])}`, start); }
    return made;
  }
  escape(atom) {
    if (atom[0] !== "\\") return escapeLiteral(atom);
    if (atom === "\\w") return `[${CLASSES.w}]`;
    if (atom === "\\W") return `[^${CLASSES.w}]`;
    return CLASSES[atom[1]] || escapeLiteral(atom.slice(1));
  }
  set(atom) {
    const negated = atom[1] === "^";
    const inner = atom.slice(negated ? 2 : 1, -1).replace(/\\(.)|([\]\[^$.*+?(){}|/])/gsu, (_, escaped, sign) => {
      if (sign) return escapeLiteral(sign);
      return /[A-Za-z0-9]/.test(escaped) ? CLASSES[escaped] || `\\${escaped}` : escapeLiteral(escaped);
    });
    return `[${negated ? "^" : ""}${inner}]`;
  }
}

export const patternMatcher = (field, value, glob) => {
  const flags = (ignored) => `su${ignored || !["text", "record"].includes(field.kind) ? "i" : ""}`;
  if (glob) {
    const parts = [...value.text].map((letter) => WILDCARDS[letter] || escapeLiteral(letter));
    const expression = new RegExp(`^${parts.join("")}$`, flags(false));
    return (found) => expression.test(found);
  }
  try {
    const reader = new PatternReader(value.text), expression = new RegExp(reader.whole(), flags(reader.ignoresCase));
    return (found) => expression.test(found);
  } catch (error) {
    const moved = value.quoted && value.end - value.start !== value.text.length + 2;  /* because of escapes */
    const start = value.start + (moved ? 0 : (error.position || 0) + value.quoted);
    throw new FilterError(`invalid pattern ${inQuotes(value.text)}: ${error.message}`, start);
  }
};

export const COMPARISONS = { "=": (a, b) => a === b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };

/** Returns the test of a text for one that contains the value, ignoring case. */
export const textMatcher = ({ text, quoted }) => {
  if (!quoted && /[*?]/.test(text)) {
    const expression = new RegExp([...text].map((letter) => WILDCARDS[letter] || escapeLiteral(letter)).join(""), "sui");
    return (found) => expression.test(found);
  }
  const searched = text.toLowerCase();
  return (found) => found.toLowerCase().includes(searched);
};
