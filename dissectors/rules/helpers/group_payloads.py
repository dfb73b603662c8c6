"""The payloads of group protocols in a message, and how malformed payloads were written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dissectors.diagnosis.payloads import (
    PayloadDiagnosis,
    diagnose_payload,
    embedded_diagnosis,
    is_whole_under,
)
from dissectors.diagnosis.whole_payloads import is_whole_payload
from dissectors.edits import Edit
from dissectors.embedded.assignors import user_data_names
from dissectors.embedded.group import payload_names
from dissectors.embedded.locations import EmbeddedLocation, embedded_locations
from dissectors.embedded.payload_formats import layouts_as_stated
from dissectors.embedded.registry import Rows, enclosing_text
from dissectors.embedded.registry import payload_layout as with_prefix
from dissectors.messages.message import Message
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError

#: The maximum number of payloads examined in one message.
MAX_PAYLOADS = 200

#: How many steps of the message's budget the diagnosis of a payload uses: the maximum, and the number per byte.
_MAX_STEPS = 40_000
_STEPS_PER_BYTE = 20

#: The maximum number of payload bytes that are compared with a malformed payload.
MAX_COMPARED = 32 << 10


class GroupPayload(NamedTuple):
    """A payload: its bytes, its paths in the message and in the schema, its enclosing structs, its possible names."""

    data: bytes
    path: tuple[str | int, ...]
    field: str
    rows: Rows
    names: tuple[str, ...]


def group_payloads(message: Message, protocol_type: str | None = None) -> Iterator[GroupPayload]:
    """Yield the non-empty payloads of a message.

    Args:
        message: A message that decodes.
        protocol_type: The group's protocol type, if known: some versions of the message do not have it.
    """
    if message.layout is None:
        return
    count = 0
    for data, path, field, rows, location in _find_payloads(
        message.body, embedded_locations(message.layout), (), "", ()
    ):
        names = payload_names(location.reader, enclosing_text(rows, "protocol_type") or protocol_type)
        if names and data:
            count += 1
            if count > MAX_PAYLOADS:
                return
            yield GroupPayload(bytes(data), path, field, rows, names)


def _find_payloads(
    row: dict[str, Any],
    locations: tuple[EmbeddedLocation, ...],
    path: tuple[str | int, ...],
    field: str,
    rows: Rows,
) -> Iterator[tuple[Any, tuple[str | int, ...], str, Rows, EmbeddedLocation]]:
    for location in locations:
        value = row.get(location.name)
        if isinstance(value, list):
            for index, element in enumerate(value):
                yield from _find_payloads(
                    element,
                    location.children,
                    (*path, location.name, index),
                    f"{field}{location.name}[].",
                    (*rows, row),
                )
        elif location.children and value is not None:
            yield from _find_payloads(
                value, location.children, (*path, location.name), f"{field}{location.name}.", (*rows, row)
            )
        elif location.reader is not None and value is not None:
            yield value, (*path, location.name), field + location.name, (*rows, row), location


def payload_deviation(message: Message, payload: GroupPayload) -> PayloadDiagnosis | None:
    """Diagnose how a payload was written, as edits of the message; None if it is well-formed or no edit explains it."""
    message.spend(min(_MAX_STEPS, _STEPS_PER_BYTE * len(payload.data)))
    return deviation(payload.data, payload.names, payload.rows, payload.field)


def deviation(data: bytes, names: tuple[str, ...], rows: Rows, field: str) -> PayloadDiagnosis | None:
    """Diagnose how the payload in a field, or a payload inside it, was written, as edits of the enclosing layout.

    Args:
        data: The payload, not empty.
        names: Kafka's names of the payload types that it may be.
        rows: The enclosing structs, outermost first.
        field: The path of its field in the schema.
    """
    for name in names:
        if is_whole_payload(data, name):
            diagnosis = _inner_deviation(data, name, rows)
            return embedded_diagnosis(diagnosis, field, name) if diagnosis else None
    candidates = [
        embedded_diagnosis(payload_diagnosis, field, name)
        for name in names
        if (payload_diagnosis := diagnose_payload(data, name)) is not None
    ]
    return max(candidates, key=lambda diagnosis: diagnosis.confidence, default=None)


class Deviations:
    """Finds the deviations of one message's payloads by path. The payloads are listed only once."""

    def __init__(self, message: Message, protocol_type: str | None = None) -> None:
        self._message, self._protocol_type = message, protocol_type
        self._payloads: dict[tuple[str | int, ...], GroupPayload] | None = None

    def diagnose_at(self, *path: str | int) -> PayloadDiagnosis | None:
        """Diagnose how the payload at a path was written."""
        if self._payloads is None:
            self._payloads = {payload.path: payload for payload in group_payloads(self._message, self._protocol_type)}
        payload = self._payloads.get(path)
        return payload_deviation(self._message, payload) if payload else None


def _inner_deviation(data: bytes, name: str, rows: Rows) -> PayloadDiagnosis | None:
    """Diagnose a payload inside another one: user data of Kafka Streams, tasks of Connect, or members of a group."""
    header, _, version = layouts_as_stated(name, data)
    payload_layout = with_prefix(name, version, *header.fields)
    values = decode(payload_layout, data).values
    for inner, _, field, enclosing, location in _find_payloads(
        values, embedded_locations(payload_layout), (), "", rows
    ):
        protocol_type = enclosing_text(enclosing, "protocol_type")
        names = payload_names(location.reader, protocol_type) or user_data_names(location.reader, enclosing)
        if names and inner and (diagnosis := deviation(bytes(inner), names, enclosing, field.removeprefix("data."))):
            return diagnosis
    return None


def payloads_with_same_edit(payloads: Iterable[GroupPayload], edit: Edit) -> Iterator[GroupPayload]:
    """Yield the payloads, within the first `MAX_COMPARED` bytes, that another payload's edit also explains."""
    remaining = MAX_COMPARED
    for payload in payloads:
        remaining -= len(payload.data)
        if remaining < 0:
            return
        if _is_explained_by(payload, edit):
            yield payload


def _is_explained_by(payload: GroupPayload, edit: Edit) -> bool:
    details = dict(edit.detail)
    data, name, inner = payload.data, details["payload"], details["edit"]
    if inner.kind == "embedded_layout":
        details = dict(inner.detail)
        data, name, inner = _user_data(data, name), details["payload"], details["edit"]
    return bool(data) and not is_whole_payload(data, name) and is_whole_under(data, name, inner)


def _user_data(data: bytes, name: str) -> bytes:
    """Return the user data in a consumer's payload, or no bytes if there is none."""
    try:
        header, body, _ = layouts_as_stated(name, data)
    except DecodeError:
        return b""
    return bytes(decode(body, data, decode(header, data).end).values.get("user_data") or b"")
