"""Decoded keys, values and headers of records (docs/payloads.md) in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import safe
from kproxy.trace.record_values import is_decoded

TOMBSTONE = "null (tombstone)"


def facts(value: Mapping[str, Any]) -> str:
    """Return a decoded value's format, with ``?`` if guessed, and its schema: ``avro Order orders-value id 17``."""
    words = [safe(str(value["format"])) + ("?" if value.get("guess") else "")]
    words += [safe(str(value[name])) for name in ("type", "subject") if name in value]
    if isinstance(schema := value.get("schema"), dict):
        words += [safe(f"{form.replace('_', ' ')} {key}") for form, key in schema.items()]
    if value.get("reencoding", "equal") != "equal":
        words.append(safe(f"(encoded again: {value['reencoding']})"))
    if value.get("cut"):
        words.append("(cut)")
    return " ".join(words)


def is_tombstone(record: Mapping[str, Any]) -> bool:
    """Whether a record has a decoded key and a null value."""
    return "value" in record and record["value"] is None and is_decoded(record.get("key"))


def problem(value: Mapping[str, Any]) -> str | None:
    """Return why a decoded value is incomplete or doubtful, and at which byte; None if it is neither."""
    if not isinstance(text := value.get("problem"), str):
        return None
    return safe(text) + (safe(f" at byte {value['offset']}") if "offset" in value else "")


def data_text(data: Any, max_length: int) -> str:
    """Return data as JSON in one row, or bytes as hex, truncated to `max_length` characters."""
    if isinstance(data, bytes):
        return data[: max_length // 3].hex(" ") + ("..." if len(data) > max_length // 3 else "")
    text = encode_json(data).decode()
    return safe(text[:max_length]) + ("..." if len(text) > max_length else "")
