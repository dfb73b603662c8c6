"""Helpers of the rules about payloads: the problems of keys and values, and their wording."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Final

from dissectors import embedded
from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.records.schema_ids import PREFIX_SIZE, is_repeated
from dissectors.trackers.schema_uses import PartSchemas
from dissectors.values import DecodedPart, ProblemKind
from dissectors.wire.node import Node
from dissectors.wire.paths import render


def parts_with_problem(event: RecordsDecoded, kind: ProblemKind) -> Iterator[DecodedPart]:
    """Yield the keys and values with a problem of one kind, except any with two envelopes (P005)."""
    for part in event.parts:
        problem = part.value.problem
        if problem is not None and problem.kind is kind and not is_repeated(part.data):
            yield part


def record_problem(
    event: RecordsDecoded,
    part: DecodedPart,
    message: str,
    *,
    hint: str,
    cause: object = "",
    severity: Severity | None = None,
    expected: str | None = None,
    got: str | None = None,
) -> Problem:
    """Return a rule's problem with a key or value. In a Fetch, the producer is unknown, so nobody is blamed."""
    start, end = _problem_span(event, part)
    return Problem(
        f"{part.topic or 'a topic of unknown name'}, {part.part}: {message}",
        path=part.path,
        start=start,
        end=end,
        hint=hint,
        blame="client" if event.message.is_request else None,
        severity=severity,
        expected=expected,
        got=got,
        cause=f"{part.topic} {part.part} {cause}",
    )


def _problem_span(event: RecordsDecoded, part: DecodedPart) -> tuple[int, int]:
    """Return the byte range of a key or value from its problem onwards, or of all records if they are compressed."""
    if event.spans is None:  # one walk for all problems of the frame
        event.spans = dict(_part_spans(embedded.expanded_body(event.message).children, ()))
    frame = event.message.frame
    start, end = event.spans.get(part.path, (0, len(frame)))
    if not part.data or frame[end - len(part.data) : end] != part.data:
        return start, end
    problem = part.value.problem
    offset = 0 if problem is None or problem.offset is None else problem.offset
    return end - len(part.data) + offset, end


#: Maps the nodes of a record to fields of its body. If there are no headers, the node of their count represents them.
_FIELDS: Final = {
    "key": "key", "value": "value", "headers_count": "headers", "headers": "headers", "timestamp_delta": "timestamp",
}  # fmt: skip


def _part_spans(nodes: Iterable[Node], path: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, int]]]:
    for node in nodes:
        child_path = (*path, node.name)
        if (name := _FIELDS.get(node.name)) is not None:
            yield render((*path, name)), (node.start, node.end)
        yield from _part_spans(node.children, child_path)


def schema_name(part: DecodedPart) -> str:
    """Return the name of a key's or value's schema, e.g. ``schema id 17 (shop.Order)``."""
    key = part.value.schema
    type_or_subject = part.value.type or part.value.subject
    return f"schema {key}" + (f" ({type_or_subject})" if type_or_subject else "")


def problem_text(part: DecodedPart) -> str:
    """Return the text of a key's or value's problem, empty if it has none."""
    return part.value.problem.text if part.value.problem is not None else ""


def schema_list(keys: Iterable[object]) -> str:
    """Return the first schemas as text, e.g. ``id 17, id 18, ...``."""
    first, *other_keys = [str(key) for key in keys]
    return ", ".join([first, *other_keys[:2], *(["..."] if len(other_keys) > 2 else [])])


def broken_prefix(data: bytes, schemas: PartSchemas) -> str | None:
    """Return a clause that says how a value's prefix is broken, if it still has a schema id that its topic uses."""
    ids = {int(key.value).to_bytes(4, "big") for key in schemas.used if key.form == "id"}
    if data[:1] == b"\0" and data[1:PREFIX_SIZE][::-1] in ids:
        return "the id is written in little-endian order"
    if data[:4] in ids:
        return "the zero byte before the id is missing"
    if data[1:PREFIX_SIZE] in ids:
        return f"the magic byte before the id is {data[0]}, not 0"
    try:
        decoded = base64.b64decode(data.strip(b'"')[:8])
    except (binascii.Error, ValueError):
        return None
    return (
        "the value with its id is written in base64" if decoded[:1] == b"\0" and decoded[1:PREFIX_SIZE] in ids else None
    )
