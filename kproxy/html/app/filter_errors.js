/* Errors in filters, with suggestions. Messages are the same as on the command line (kproxy.filters). */
export class FilterError extends Error {
  constructor(problem, start, hint = "") {
    super(problem);
    Object.assign(this, { start, hint });
  }
  /** A message with its column in the filter text. */
  said(text) {
    return `${this.message} at column ${[...text.slice(0, this.start)].length + 1}${this.hint ? `: ${this.hint}` : ""}`;
  }
}

export const inQuotes = (text) => {
  const escaped = text.replaceAll("\\", "\\\\");
  return text.includes("'") && !text.includes('"') ? `"${escaped}"` : `'${escaped.replaceAll("'", "\\'")}'`;
};

/** The similarity of two words, 0 to 1, as in Python's difflib. */
const likeness = (one, other) => {
  const common = (a, aEnd, b, bEnd) => {
    let [size, aBest, bBest, before] = [0, a, b, new Map()];
    for (let i = a; i < aEnd; i++) {
      const now = new Map();
      for (let j = b; j < bEnd; j++) {
        if (one[i] !== other[j]) continue;
        const length = (before.get(j - 1) || 0) + 1;
        now.set(j, length);
        if (length > size) [size, aBest, bBest] = [length, i - length + 1, j - length + 1];
      }
      before = now;
    }
    return size && size + common(a, aBest, b, bBest) + common(aBest + size, aEnd, bBest + size, bEnd);
  };
  return 2 * common(0, one.length, 0, other.length) / (one.length + other.length);
};
export const suggestion = (written, known) => {
  const typed = written.toLowerCase(), names = new Map([...known].sort((a, b) => a.length - b.length).map((name) => [name.toLowerCase(), name]));
  let near = [...names.keys()].find((name) => name.startsWith(typed));
  if (near === undefined) {
    let best = 0.6;
    for (const name of names.keys()) {
      const alike = likeness(name, typed);
      if (alike > best || (alike === best && (near === undefined || name > near))) [best, near] = [alike, name];
    }
  }
  return near === undefined ? "" : `did you mean '${names.get(near)}'?`;
};
