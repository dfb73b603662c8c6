/* Selects the records of an exchange that match a filter, as in kproxy.html.matching_records. */

/** Returns the decoded data of a cell: JSON, unless its format is text. Large integers stay texts, as in the lines of a page. */
const parseData = (format, text) => {
  if (format.startsWith("text")) return text;
  try {
    return JSON.parse(text, (name, value, context) => typeof value === "number" && !Number.isSafeInteger(value) && context ? context.source : value);
  } catch { return text; }
};
const decodedValue = ([format, text], isDecoded) => format === "null" ? null : isDecoded ? { format, data: parseData(format, text) } : text;
const isCut = ([, , , , cut]) => cut;

/**
 * Returns the records of an exchange that match a filter: the exchange would match with this record alone.
 * @param filter from `parseQuery`; null selects all
 * @param line the exchange as one line, from `mergeLines`
 * @param fields the fields with records, from its sides; a record that the page has only a part of always matches
 */
export const matchingRecords = (filter, line, fields) => {
  if (!filter || !filter.readsRecords) return fields;
  const isDecoded = [line.body].flat(2).some(Boolean);
  const matches = ([, , key, value, headers]) => {
    if ([key, value, ...headers.map(([, cell]) => cell)].some(isCut)) return true;
    const namedHeaders = headers.map(([name, cell]) => ({ key: name, value: decodedValue(cell, isDecoded) }));
    return filter.test({ ...line, body: { key: decodedValue(key, isDecoded), value: decodedValue(value, isDecoded), headers: namedHeaders } });
  };
  return fields.map((field) => ({ ...field, rows: field.rows.filter(matches) })).filter(({ rows }) => rows.length);
};
