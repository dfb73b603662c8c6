"""The decoded records of a frame for the filter of a page, up to a size."""

from __future__ import annotations

from typing import Any

from kproxy.trace.encoding import encode_json
from kproxy.trace.lines import Line
from kproxy.trace.record_values import record_values

#: Maximum number of characters of JSON per frame.
MAX_SIZE = 50_000

_MAX_EXACT = (1 << 53) - 1


def page_records(line: Line) -> tuple[list[dict[str, Any]], bool]:
    """Return the decoded keys, values and headers of a line, each as a body of its own, and whether some are left out.

    Whole numbers that JavaScript would round become text, which filters still compare as numbers.
    """
    records: list[dict[str, Any]] = []
    size = 0
    for part, header, value in record_values(getattr(line, "body", None)):
        # By itself, null would not be recognized as a part of a decoded record.
        decoded_value = {"format": "null", "data": None} if value is None else value
        data = {"format": decoded_value["format"], "data": _exact_numbers(decoded_value["data"])}
        record_body = {"headers": [{"key": header, "value": data}]} if part == "header" else {part: data}
        size += len(encode_json(record_body))
        if size > MAX_SIZE:
            return records, True
        records.append(record_body)
    return records, False


def _exact_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _exact_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_exact_numbers(element) for element in value]
    if isinstance(value, int) and abs(value) > _MAX_EXACT:
        return str(value)
    return value
