/* Which records of an exchange match a filter, each by itself, as in kproxy.html.matching_records. */

/** A decoded value from its cell: data that is not text is shown as JSON. Large whole numbers stay text, as in the lines of a page. */
const dataOf = (form, text) => {
  if (form.startsWith("text")) return text;
  try {
    return JSON.parse(text, (name, value, context) => typeof value === "number" && !Number.isSafeInteger(value) && context ? context.source : value);
  } catch { return text; }
};
const valueOf = ([form, text], isDecoded) => form === "null" ? null : isDecoded ? { format: form, data: dataOf(form, text) } : text;
const isCut = ([, , , , cut]) => cut;

/**
 * Returns the records of an exchange that a filter leaves: those with which alone the exchange would match.
 * @param wanted the filter, from `parseQuery`; null leaves all
 * @param line the exchange as one line, from `mergeLines`
 * @param fields the fields with records, from its sides; a record of which the page has only a part stays
 */
export const matchingRecords = (wanted, line, fields) => {
  if (!wanted || !wanted.readsRecords) return fields;
  const isDecoded = [line.body].flat(2).some(Boolean);
  const fits = ([, , key, value, headers]) => {
    if ([key, value, ...headers.map(([, part]) => part)].some(isCut)) return true;
    const named = headers.map(([name, part]) => ({ key: name, value: valueOf(part, isDecoded) }));
    return wanted.test({ ...line, body: { key: valueOf(key, isDecoded), value: valueOf(value, isDecoded), headers: named } });
  };
  return fields.map((field) => ({ ...field, rows: field.rows.filter(fits) })).filter(({ rows }) => rows.length);
};
