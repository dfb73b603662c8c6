"""The text of a trace line, which a search without a field reads: ``orders``, ``"order 17"``.

It contains what a person may look for: names, addresses, ids, errors, messages, notes, all texts of the body, and all
texts and numbers of decoded records. It omits times, other numbers and names of fields. The page's script follows the
same rules (kproxy/html/filter_records.js).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kproxy.filters import record_fields
from kproxy.trace.lines import KINDS
from kproxy.trace.record_values import WITHHELD, is_decoded

#: Columns of a line that are not searched: those with the same words in most lines, times, or bytes.
NOT_SEARCHED: Final = frozenset(
    {"v", "kind", "ts", "request_ts", "since", "until", "severity", "direction", "frame", "marked"}
)
#: Keys that are not searched in entries of the other columns, including layouts in a notation for programs.
_NOT_IN_ENTRIES: Final = NOT_SEARCHED | {"excerpt", "edit", "also", "rivals"}

_BYTES: Final = (bytes, memoryview)
_WITHOUT_TEXT: Final = (bool, type(None))

#: The columns that are searched.
COLUMNS: Final = frozenset(name for kind in KINDS.values() for name in kind.__struct_fields__) - NOT_SEARCHED


def build_text_test(matches: Callable[[str], bool]) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that reports whether `matches` accepts any text of a line."""
    return lambda line: any(map(matches, line_texts(line)))


def line_texts(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield all texts of a line, in any order. Bytes are base64, as in a trace."""
    pending = [value for name, value in line.items() if name not in NOT_SEARCHED and name != "body"]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += [value for name, value in item.items() if name not in _NOT_IN_ENTRIES]
    yield from _body_texts(line.get("body"))


def _body_texts(body: Any) -> Iterator[str]:
    pending = [body]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            pending += item
        elif is_decoded(item):
            if item["format"] != WITHHELD:
                values = record_fields.all_values(item["data"])
                yield from (record_fields.as_text(value) for value in values if not isinstance(value, _WITHOUT_TEXT))
        elif isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, _BYTES):
            yield base64.b64encode(item).decode()
