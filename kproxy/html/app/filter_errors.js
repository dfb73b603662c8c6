/* Errors in filters, with suggestions. Messages are the same as on the command line (kproxy.filters). */
export class FilterError extends Error {
  constructor(problem, start, hint = "") {
    super(problem);
    Object.assign(this, { start, hint });
  }
  /** Returns the message with its column in the filter text. */
  format(text) {
    return `${this.message} at column ${[...text.slice(0, this.start)].length + 1}${this.hint ? `: ${this.hint}` : ""}`;
  }
}

export const inQuotes = (text) => {
  const escaped = text.replaceAll("\\", "\\\\");
  return text.includes("'") && !text.includes('"') ? `"${escaped}"` : `'${escaped.replaceAll("'", "\\'")}'`;
};

/** The similarity of two words, 0 to 1, as in Python's difflib. */
const similarity = (left, right) => {
  const common = (a, aEnd, b, bEnd) => {
    let [size, aBest, bBest, previousLengths] = [0, a, b, new Map()];
    for (let i = a; i < aEnd; i++) {
      const lengths = new Map();
      for (let j = b; j < bEnd; j++) {
        if (left[i] !== right[j]) continue;
        const length = (previousLengths.get(j - 1) || 0) + 1;
        lengths.set(j, length);
        if (length > size) [size, aBest, bBest] = [length, i - length + 1, j - length + 1];
      }
      previousLengths = lengths;
    }
    return size && size + common(a, aBest, b, bBest) + common(aBest + size, aEnd, bBest + size, bEnd);
  };
  return 2 * common(0, left.length, 0, right.length) / (left.length + right.length);
};
export const suggestion = (word, known) => {
  const lowered = word.toLowerCase(), names = new Map([...known].sort((a, b) => a.length - b.length).map((name) => [name.toLowerCase(), name]));
  let closest = [...names.keys()].find((name) => name.startsWith(lowered));
  if (closest === undefined) {
    let bestScore = 0.6;
    for (const name of names.keys()) {
      const score = similarity(name, lowered);
      if (score > bestScore || (score === bestScore && (closest === undefined || name > closest))) [bestScore, closest] = [score, name];
    }
  }
  return closest === undefined ? "" : `did you mean '${names.get(closest)}'?`;
};
