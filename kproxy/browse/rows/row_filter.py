"""Evaluates a filter on rows; only the keys that the filter uses are parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, TypedDict, get_type_hints

import msgspec

from kproxy.browse.rows.index import RowIndex
from kproxy.browse.rows.store import Store
from kproxy.browse.rows.text_search import TextSearch
from kproxy.filters import Filter
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, OpenLine, RequestLine, ResponseLine, StallLine

#: Bytes read at once; rows are examined in order.
_AHEAD: Final = 1 << 14

_LINES: Final = (OpenLine, RequestLine, ResponseLine, FindingLine, GapLine, StallLine, CloseLine)


def row_matcher(chosen: Filter | TextSearch, index: RowIndex, store: Store) -> Callable[[int], bool]:
    """Return a function that reports whether the filter matches a row; discarded rows do not match.

    A filter sees an exchange as one object: the fields of the response, else those of the request, and the findings of
    both, and the records of both.
    """
    reads = _ahead(store), _ahead(store)
    if isinstance(chosen, TextSearch):
        return _text_matcher(chosen, index, reads)
    decoder = _decoder(chosen)
    matches, places, sizes = chosen.matches, index.places, index.sizes

    def matches_row(row: int) -> bool:
        entry = row - index.first
        found: list[Mapping[str, Any]] = []
        for side in (0, 1):
            if (place := places[side][entry]) >= 0:
                try:
                    found.append(decoder.decode(reads[side](place, sizes[side][entry])))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # discarded, or another process changed the file
        return bool(found) and matches(reduce(_joined, found))

    return matches_row


def _text_matcher(
    search: TextSearch, index: RowIndex, reads: Sequence[Callable[[int, int], bytes]]
) -> Callable[[int], bool]:
    places, sizes = index.places, index.sizes

    def matches_row(row: int) -> bool:
        entry = row - index.first
        return any(
            (place := places[side][entry]) >= 0 and search.is_in(reads[side](place, sizes[side][entry]))
            for side in (0, 1)
        )

    return matches_row


def _joined(request: Mapping[str, Any], response: Mapping[str, Any]) -> Mapping[str, Any]:
    joined = dict(request) | {name: value for name, value in response.items() if value is not None}
    for name in ("findings", "repeats"):
        if (of_request := request.get(name)) and (of_response := response.get(name)):
            joined[name] = of_request + of_response
    if (request_body := request.get("body")) and (response_body := response.get("body")):
        joined["body"] = [request_body, response_body]
    return joined


def _decoder(chosen: Filter) -> msgspec.json.Decoder[dict[str, Any]]:
    """Return a decoder for the keys that a filter uses."""
    kinds: dict[str, Any] = {"kind": str}
    for line in _LINES:
        for name, kind in get_type_hints(line).items():
            simple_kind = list[dict[str, Any]] if name in ("topics", "findings", "repeats", "errors") else kind
            kinds[name] = reduce(or_, (kinds[name], simple_kind)) if name in kinds else simple_kind
    keys = {name: kinds[name] for name in sorted(chosen.columns) if name in kinds}
    return msgspec.json.Decoder(TypedDict("Keys", keys, total=False))  # type: ignore[operator]


def _ahead(store: Store) -> Callable[[int, int], bytes]:
    """Return a function like `Store.read` that reads ahead, for consecutive lines."""
    chunk_start, data = 0, b""

    def read(place: int, size: int) -> bytes:
        nonlocal chunk_start, data
        at = place - chunk_start
        if at < 0 or at + size > len(data):
            chunk_start, data, at = place, store.read(place, max(size, _AHEAD)), 0
        return data[at : at + size]

    return read
