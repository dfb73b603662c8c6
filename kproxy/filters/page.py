"""Generates docs/filters.md from the table of fields: ``python -m kproxy.filters.page > docs/filters.md``."""

from __future__ import annotations

import sys

from kproxy.filters.fields import FIELDS, FilterField, Kind
from kproxy.filters.values import DURATIONS, SIZES

#: Filter -> what it finds. The page shows them, and a test parses them.
EXAMPLES = {
    "api=Fetch and latency>50ms and topic~ord": "slow fetches of topics with `ord` in their name",
    "finding=L*": "frames with a finding whose code begins with L",
    "error!=0": "responses with an error",
    "error=NOT_LEADER_OR_FOLLOWER or error=3": "errors by name or code",
    'client_id="consumer-1"': "all requests of a client, and their responses",
    "not api in (Heartbeat, Fetch)": "everything but heartbeats and fetches",
    "kind=request and (size>1MiB or version<3)": "large or old requests",
    "severity>=warning and blame=broker": "problems caused by the broker",
    "value.order.id=17 or header.traceparent~4bf92f": "frames with a record that has this field or header",
    "orders": "lines that contain this text anywhere, e.g. in a topic, a group, an error, a message or a record",
    '"order 17" and api=Produce': "requests and responses of Produce that contain this text",
    "unanswered": "closed connections with unanswered requests",
}

_VALUES = {
    Kind.NAME: "Case-insensitive text. `*` and `?` are wildcards unless the value is quoted.",
    Kind.TEXT: "Text. `*` and `?` are wildcards unless the value is quoted.",
    Kind.NUMBER: "Digits.",
    Kind.COUNT: "A whole number. The field alone is true if it is not 0.",
    Kind.DURATION: f"A number with a unit: {', '.join(DURATIONS)}. The field alone is true if it is not 0.",
    Kind.SIZE: f"Bytes, optionally with a unit: {', '.join(SIZES)}. The field alone is true if it is not 0.",
    Kind.TIME: "`2025-01-31`, `2025-01-31T12:00` or `2025-01-31T12:00:00.5Z`, in UTC; omitted parts are 0.",
    Kind.FLAG: "`true` or `false`. The field alone means `true`.",
    Kind.SEVERITY: "`info` < `warning` < `error`.",
    Kind.RECORD: "Text, a number, `true`, `false` or `null`; see [fields of records](#fields-of-records).",
    Kind.ERROR: "Kafka's error name or code. `error` alone is true if there is an error.",
}


def page() -> str:
    """Return the page as Markdown."""
    return "".join(
        (
            _HEAD,
            "| filter | finds |\n|---|---|\n",
            *(f"| `{_cell(text)}` | {meaning} |\n" for text, meaning in EXAMPLES.items()),
            _GRAMMAR,
            "| field kind | values |\n|---|---|\n",
            *(f"| {kind} | {meaning} |\n" for kind, meaning in _VALUES.items()),
            _FIELDS,
            "| field | aliases | kind | meaning |\n|---|---|---|---|\n",
            *map(_field_row, FIELDS),
        )
    )


_HEAD = """\
# Filters

The same filter language works in `kproxy -f`, `kproxy dissect -f`, the TUI (`/`), `kproxy web`, the HTML page
(`dissect --html`) and `analyze --where`. A filter is evaluated on each trace line. The TUI, `kproxy web` and the HTML
page evaluate it on each exchange: a field comes from the response, or from the request if the response lacks it;
findings of both count.

"""

_GRAMMAR = """
## Terms

A term is a field with an operator and a value, a field alone, which is true if the field has a value, or a
[text to search for](#search-for-text). Combine terms with `and`, `or` and `not` (or `&&`, `||`, `!`) and group them
with parentheses. `not` binds tighter than `and`, and `and` tighter than `or`.

| operator | true if |
|---|---|
| `=` (or `==`), `in (a, b)` | any value of the field equals this one, or one of these |
| `!=`, `not in (a, b)` | the field has values and none of them matches |
| `<` `<=` `>` `>=` | any value of the field is smaller or larger |
| `~` | the pattern is found in any value of the field |
| `!~` | the field has values and the pattern is found in none |

A line without the field matches none of these: `not topic=orders` matches a line without topics, `topic!=orders` does
not.

Quote a value with `"` or `'` if it contains a space, parenthesis, comma, quote or operator character, or is `and`,
`or`, `not` or `in`. Inside quotes, `\\\\` and `\\"` are a backslash and a quote.

Patterns are regular expressions without backtracking features, so matching always takes linear time: literals, `.`,
`[...]`, `\\d` `\\w` `\\s`, `*` `+` `?` `{2,3}`, `|`, `(...)`, `^`, `$`; a leading `(?i)` ignores case.

## Search for text

A word that is not the name of a field, or a quoted text, finds the lines that contain it, in any case: in names,
addresses, ids, errors, findings and notes, in texts of the body (of traces with `--detail full`), and in texts and
numbers of records that are decoded. The TUI and `kproxy web` also search the bytes of frames, as their details show
them. Times, other numbers and names of fields are not searched. In a word, `*` is any text and `?` any character,
unless it is quoted.

Quote a word to search for the name of a field: `"error"`. A word that differs from a field's name by one letter is an
error, as it is probably misspelt (`latncy`): quote it to search for it.

"""

_FIELDS = """
## Fields of records

`key`, `value` and `header` read records that are decoded: of captures with `--payloads`, and of traces written with it
([payloads](payloads.md)). Otherwise, nothing matches them. A line matches if any of its records does.

- `value.order.id` is a field of values, `header.traceparent` a header. Names are case-sensitive, with the wildcards `*`
  and `?`; `**` is any number of fields: `value.**.id`.
- Lists count as their elements, and an object as all values in it: `value~Alice` finds the name in any field.
- Numbers are compared as numbers, also if the record has them as text (`"12.50"`); `<` and `>` also compare other text,
  such as dates. Bytes are base64. Quotes make the value text.
- `null` also finds tombstones: `value=null`. The field alone is true if a value is neither `null` nor `false`.
- What `--mask` hides is not compared.

`key` was once the number of the API, which is `api_key`.

## Fields

"""


def _field_row(field: FilterField) -> str:
    aliases = ", ".join(f"`{alias}`" for alias in field.aliases)
    return f"| `{field.name}` | {aliases} | {field.kind} | {field.help} |\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    sys.stdout.write(page())
