"""Evaluates a filter on rows; only the keys that the filter uses are parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, TypedDict, get_args, get_origin, get_type_hints

import msgspec
from msgspec.inspect import is_struct_type

from kproxy.browse.fields.frames import body_of
from kproxy.browse.rows.index import RowIndex
from kproxy.browse.rows.store import Store
from kproxy.filters import Filter
from kproxy.trace.encoding import as_mapping, parse_line
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RequestLine,
    ResponseLine,
    StallLine,
)

#: Bytes read at once; rows are examined in order.
_CHUNK_BYTES: Final = 1 << 14

_LINES: Final = (OpenLine, RequestLine, ResponseLine, FindingLine, GapLine, StallLine, CloseLine)


def row_matcher(
    row_filter: Filter,
    index: RowIndex,
    store: Store,
    note_columns: Callable[[int], Mapping[str, Any] | None] = lambda _: None,
) -> Callable[[int], bool]:
    """Return a function that reports whether the filter matches a row; discarded rows do not match.

    A filter sees an exchange as one object: the fields of the response, or else of the request, and the findings and
    records of both. A text search also searches the bytes of frames. The columns that `note_columns` returns for a row
    replace those of its line.
    """
    readers = _make_reader(store), _make_reader(store)
    decoder = _decoder(row_filter)
    matches, locations, sizes = row_filter.matches, index.locations, index.sizes
    searches_text = row_filter.searches_text

    def matches_row(row: int) -> bool:
        entry = row - index.first
        lines: list[Mapping[str, Any]] = []
        raw_lines: list[bytes] = []
        for side in (0, 1):
            if (location := locations[side][entry]) >= 0:
                try:
                    raw_lines.append(readers[side](location, sizes[side][entry]))
                    lines.append(decoder.decode(raw_lines[-1]))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # discarded, or another process changed the file
        if not lines:
            return False
        line = reduce(_join_lines, lines)
        if (note := note_columns(row)) is not None:
            line = {**line, **note}
        return matches(_LineWithFrames(line, raw_lines) if searches_text else line)

    return matches_row


def exchange_columns(lines: Sequence[Line]) -> Mapping[str, Any]:
    """Return the columns of an exchange as a filter sees them: of the response, or else of the request."""
    return reduce(_join_lines, map(as_mapping, lines))


class _LineWithFrames(dict[str, Any]):
    """A line whose body also includes the bytes of its frames as text; they are decoded when the body is searched."""

    def __init__(self, line: Mapping[str, Any], raw_lines: Sequence[bytes]) -> None:
        super().__init__(line)
        self._raw_lines = raw_lines

    def get(self, key: str, default: Any = None) -> Any:
        """See `dict`."""
        value = super().get(key, default)
        return [value, *map(_body_of_frame, self._raw_lines)] if key == "body" else value


def _body_of_frame(raw: bytes) -> Any:
    """Return the body decoded from a line's frame, with bytes as text, as its details show it; None without a frame."""
    try:
        line = parse_line(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(line, FRAME_LINES) or line.frame is None:
        return None
    return _decode_bytes(body_of(msgspec.structs.replace(line, body=None)))


def _decode_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _decode_bytes(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_decode_bytes(item) for item in value]
    return bytes(value).decode(errors="replace") if isinstance(value, (bytes, memoryview)) else value


def _join_lines(request: Mapping[str, Any], response: Mapping[str, Any]) -> Mapping[str, Any]:
    exchange = dict(request) | {name: value for name, value in response.items() if value is not None}
    for name in ("findings", "repeats"):
        if (request_items := request.get(name)) and (response_items := response.get(name)):
            exchange[name] = request_items + response_items
    if (request_body := request.get("body")) and (response_body := response.get("body")):
        exchange["body"] = [request_body, response_body]
    return exchange


def _decoder(row_filter: Filter) -> msgspec.json.Decoder[dict[str, Any]]:
    """Return a decoder for the keys that a filter uses."""
    kinds: dict[str, Any] = {"kind": str}
    for line in _LINES:
        for name, kind in get_type_hints(line).items():
            is_list_of_structs = get_origin(kind) is list and is_struct_type(get_args(kind)[0])
            simple_kind = list[dict[str, Any]] if is_list_of_structs else kind
            kinds[name] = reduce(or_, (kinds[name], simple_kind)) if name in kinds else simple_kind
    keys = {name: kinds[name] for name in sorted(row_filter.columns) if name in kinds}
    return msgspec.json.Decoder(TypedDict("Keys", keys, total=False))  # type: ignore[operator]


def _make_reader(store: Store) -> Callable[[int, int], bytes]:
    """Return a function like `Store.read` that reads ahead, which is efficient for consecutive lines."""
    chunk_start, data = 0, b""

    def read(location: int, size: int) -> bytes:
        nonlocal chunk_start, data
        start = location - chunk_start
        if start < 0 or start + size > len(data):
            chunk_start, data, start = location, store.read(location, max(size, _CHUNK_BYTES)), 0
        return data[start : start + size]

    return read
