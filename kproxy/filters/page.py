"""docs/filters.md, made from the table of fields: ``python -m kproxy.filters.page > docs/filters.md``."""

from __future__ import annotations

import sys

from kproxy.filters.fields import FIELDS, FilterField, Kind
from kproxy.filters.values import DURATIONS, SIZES

#: Each with what it finds; the page shows them, and a test parses them.
EXAMPLES = {
    "api=Fetch and latency>50ms and topic~ord": "slow fetches of topics with `ord` in their name",
    "finding=L*": "frames with a finding whose code begins with L",
    "error!=0": "responses with an error",
    "error=NOT_LEADER_OR_FOLLOWER or error=3": "errors by name or code",
    'client_id="consumer-1"': "everything that a client asked, and the answers",
    "not api in (Heartbeat, Fetch)": "no heartbeats and no fetches",
    "kind=request and (size>1MiB or version<3)": "large or old requests",
    "severity>=warning and blame=broker": "what the broker does wrong",
    "unanswered": "ended connections that left requests unanswered",
}

_VALUES = {
    Kind.NAME: "Text whose case does not count. `*` and `?` are wildcards, unless the value is quoted.",
    Kind.TEXT: "Text. `*` and `?` are wildcards, unless the value is quoted.",
    Kind.NUMBER: "Digits.",
    Kind.COUNT: "Digits. The field alone is true when it is not 0.",
    Kind.DURATION: f"A number with a unit: {', '.join(DURATIONS)}. The field alone is true when it is not 0.",
    Kind.SIZE: f"A number of bytes, or with a unit: {', '.join(SIZES)}. The field alone is true when it is not 0.",
    Kind.TIME: "`2025-01-31`, `2025-01-31T12:00` or `2025-01-31T12:00:00.5Z`, in UTC; what is left out is 0.",
    Kind.FLAG: "`true` or `false`; the field alone is true when it is.",
    Kind.SEVERITY: "`info`, `warning` or `error`, in this order.",
    Kind.ERROR: "Kafka's name of the error or its code. `error` alone is true when there is one.",
}


def page() -> str:
    """The page, Markdown."""
    return "".join(
        (
            _HEAD,
            "| filter | finds |\n|---|---|\n",
            *(f"| `{_cell(text)}` | {meaning} |\n" for text, meaning in EXAMPLES.items()),
            _GRAMMAR,
            "| kind of field | values |\n|---|---|\n",
            *(f"| {kind} | {meaning} |\n" for kind, meaning in _VALUES.items()),
            _FIELDS,
            "| field | also | kind | is |\n|---|---|---|---|\n",
            *map(_row, FIELDS),
        )
    )


_HEAD = """\
# Filters

One language for `kproxy dissect -f`, the relay's `-f`, the TUI's `/`, the page of `dissect --html` and
`analyze --where`. A filter is asked of each line of the trace. The TUI and the page ask it of an exchange: the fields
of the response, where it has none those of the request, and the findings of both.

"""

_GRAMMAR = """
## Terms

A term is a field with an operator and a value, or a field alone, which is true when it has a value. Terms are joined
with `and`, `or` and `not` (or `&&`, `||`, `!`) and grouped with parentheses; `not` binds tighter than `and`, `and`
tighter than `or`.

| operator | true when |
|---|---|
| `=` (or `==`), `in (a, b)` | a value of the field is this, or one of these |
| `!=`, `not in (a, b)` | the field has values and none of them is |
| `<` `<=` `>` `>=` | a value of the field is less, more |
| `~` | the pattern is found in a value of the field |
| `!~` | the field has values and the pattern is in none of them |

A line without the field fits none of these: `not topic=orders` is true for a line without topics, `topic!=orders` is
not.

A value needs quotes, `"` or `'`, when it has a blank, a parenthesis, a comma, a quote or a sign of an operator in it,
or is `and`, `or`, `not` or `in`. In quotes, `\\\\` and `\\"` stand for the backslash and the quote.

Patterns are regular expressions without what needs backtracking, so that none can take for ever: literals, `.`,
`[...]`, `\\d` `\\w` `\\s`, `*` `+` `?` `{2,3}`, `|`, `(...)`, `^`, `$`; `(?i)` in front ignores case.

"""

_FIELDS = """
## Fields

"""


def _row(field: FilterField) -> str:
    also = ", ".join(f"`{alias}`" for alias in field.aliases)
    return f"| `{field.name}` | {also} | {field.kind} | {field.help} |\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    sys.stdout.write(page())
