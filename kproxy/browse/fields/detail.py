"""What there is to see of one side of an exchange: its fields with their bytes, and what was found wrong with it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from dissectors import edits
from dissectors.diagnosis import Diagnosis, KnownDepartures, examine
from dissectors.diagnosis.diagnose import apply_diagnosis, right_layout
from dissectors.messages.message import Message, api_layouts
from dissectors.messages.sensitive import may_hold_secrets, withheld
from kproxy.browse.fields.field import FieldView, ancestors, covering
from kproxy.browse.fields.frames import FrameLine, message_of, topic_names
from kproxy.browse.fields.from_body import body_fields, facts, fields_at
from kproxy.browse.fields.from_bytes import WireFields
from kproxy.outputs.findings import best_first
from kproxy.trace.lines import FindingEntry, RequestLine

_RECORD_IT = "record with --detail raw"


@dataclass(slots=True, eq=False)
class FrameDetail:
    """One side of an exchange.

    Attributes:
        line: Of the trace.
        frame: The bytes, those of secrets zero; None if they are not there, and `missing` says why.
        fields: ``size``, ``header``, ``body`` and perhaps ``(not decoded)``; of a body without its bytes ``body``
            alone; of neither the facts of the line.
        missing: A sentence, None if the bytes are there.
        findings: Those of the line, the worst first.
        error: Where reading stopped, and why.
        departure: In words how the frame departs from its layout, if it is read as it is written.
    """

    line: FrameLine
    frame: bytes | None = None
    fields: list[FieldView] = field(default_factory=list)
    missing: str | None = None
    findings: list[FindingEntry] = field(default_factory=list)
    error: str | None = None
    departure: str | None = None

    def way(self, offset: int) -> list[FieldView]:
        """The fields that have the byte at `offset` of the frame, outermost first."""
        return covering(self.fields, offset)

    def find(self, path: str) -> list[FieldView]:
        """The fields on the way to the path of a finding, outermost first, as far as there are any."""
        return ancestors(self.fields, path)


def side(line: FrameLine, request: RequestLine | None = None) -> FrameDetail:
    """What there is to see of a frame. Never raises; what is inside record data is read when it is asked for.

    Args:
        line: Of a trace of any detail; it is not changed.
        request: Of a response, the line of its request, if there is one: it helps to tell how the response departs.
    """
    made = FrameDetail(line, findings=best_first(line.findings))
    if line.not_decoded:
        made.missing = f"not decoded: {line.not_decoded}"
    elif line.frame is not None:
        if (message := message_of(line)) is not None:
            layouts = message.header_layout, message.layout
            message = _settled(message, line, request)
            if message.diagnosis is not None and layouts != (message.header_layout, message.layout):
                made.departure = str(message.diagnosis.edit)
            _show(made, message)
            return made
        made.missing = "the trace's bytes here are not a valid frame"
    elif line.body is not None:
        made.missing = f"the trace has no raw bytes: {_RECORD_IT}"
    else:
        made.missing = f"the trace has no bodies or raw bytes: {_RECORD_IT}"
    if line.body is not None:
        layout, owner = _layout(line)
        produce = partial(body_fields, line.body, layout, owner)
        made.fields = [FieldView("body", "body", kind=owner, produce=produce)]
    else:
        made.fields = facts(line)
    return made


def _settled(message: Message, line: FrameLine, request: RequestLine | None) -> Message:
    """Read a frame that departs as it is written: as the findings say; if they say nothing, as a diagnosis does."""
    if message.well_formed and not message.decode_warnings:
        return message
    for found in line.findings:
        if (diagnosis := _diagnosed(message, found)) is not None:
            return apply_diagnosis(message, diagnosis)
    asked = message_of(request) if request is not None and not message.is_request else None
    return examine(message, asked, KnownDepartures(), "")


def _diagnosed(message: Message, found: FindingEntry) -> Diagnosis | None:
    """The diagnosis that a finding tells of, if its edit can be applied."""
    right = right_layout(message)
    if found.edit is None or right is None:
        return None
    with suppress(edits.EditError):
        edit = edits.parse(msgspec.to_builtins(found.edit))
        layout = None if edit.kind in edits.LOOSE else edit.apply(right)
        start, end = found.span or (0, 0)
        return Diagnosis(edit, found.confidence or 0.0, found.path or "", start, end, found.message, found.hint or "",
                         layout=layout)  # fmt: skip
    return None


def _show(made: FrameDetail, message: Message) -> None:
    line = made.line
    wire = WireFields(message, topic_names(line).get, partial(fields_at, line.body))
    made.fields, made.error = wire.fields, wire.error
    hidden = wire.secrets
    if line.body == {} and may_hold_secrets(message):
        # It could not be read, so it was withheld; the zeros in its place may read well.
        hidden = [(message.body_start, len(message.frame))]
        made.fields = [each for each in made.fields if each.name in ("size", "header")]
        made.fields.append(FieldView("body", "body", hidden[0], withheld(message.frame[message.body_start :])))
    frame = bytearray(message.frame)
    for start, end in hidden:
        frame[start:end] = bytes(end - start)
    made.frame = bytes(frame)


def _layout(line: FrameLine) -> tuple[Any, str]:
    """The layout that the body of a line should have, None if there is none, and its name."""
    owner = f"{line.api}{'Request' if isinstance(line, RequestLine) else 'Response'}"
    if (
        line.api_key is None
        or line.api_version is None
        or (known := api_layouts(line.api_key, line.api_version)) is None
    ):
        return None, owner
    return (known.request if isinstance(line, RequestLine) else known.response), owner
