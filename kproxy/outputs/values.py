"""Decoded keys, values and headers of records as text, below an explained frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from kproxy.outputs.text import Piece, painter
from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import safe

_MOST_CHARACTERS = 10_000


def write_values(body: dict[str, Any], file: TextIO) -> None:
    """Write a row for each decoded key, value and header: its path, its format and schema, the data as JSON."""
    paint = painter(file)
    for path, value in _values(body, ""):
        pieces: list[Piece] = [(f"{safe(path)}  ", "name"), (f"{facts(value)}  ", "topic"), (_data(value["data"]), "")]
        file.write(paint(pieces) + "\n")
        if sentence := problem(value):
            file.write(paint([(f"    {sentence}", "warning")]) + "\n")


def _values(item: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(item, list):
        for index, each in enumerate(item):
            yield from _values(each, f"{path}[{index}]")
    elif isinstance(item, dict):
        if item.keys() >= {"format", "data"}:
            yield path, item
            return
        for name, each in item.items():
            yield from _values(each, f"{path}.{name}" if path else name)


def facts(value: Mapping[str, Any]) -> str:
    """The format of a decoded value, with ``?`` if it is a guess, and its schema: ``avro Order orders-value id 17``."""
    words = [safe(str(value["format"])) + ("?" if value.get("guess") else "")]
    words += [safe(str(value[name])) for name in ("type", "subject") if name in value]
    if isinstance(schema := value.get("schema"), dict):
        words += [safe(f"{form.replace('_', ' ')} {key}") for form, key in schema.items()]
    if value.get("reencoding", "equal") != "equal":
        words.append(safe(f"(encoded again: {value['reencoding']})"))
    return " ".join(words)


def problem(value: Mapping[str, Any]) -> str | None:
    """Why a decoded value is incomplete or doubtful, and at which byte; None if it is neither."""
    if not isinstance(text := value.get("problem"), str):
        return None
    return safe(text) + (f" at byte {value['offset']}" if "offset" in value else "")


def _data(data: Any) -> str:
    if isinstance(data, bytes):
        return data[: _MOST_CHARACTERS // 3].hex(" ")
    text = encode_json(data).decode()
    return safe(text[:_MOST_CHARACTERS]) + ("..." if len(text) > _MOST_CHARACTERS else "")
