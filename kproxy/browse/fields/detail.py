"""The details of one side of an exchange: its fields with their bytes, and its findings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from dissectors import edits
from dissectors.diagnosis import Diagnosis, KnownDeviations, examine
from dissectors.diagnosis.diagnose import apply_diagnosis, right_layout
from dissectors.messages.message import Message, api_layouts
from dissectors.messages.secret_fields import may_hold_secrets, redaction_text
from kproxy.browse.fields.decoded_values import decoded_at
from kproxy.browse.fields.field import FieldView, ancestors, fields_at_offset
from kproxy.browse.fields.frames import FrameLine, message_of, topic_names
from kproxy.browse.fields.from_body import body_fields, facts, fields_at
from kproxy.browse.fields.from_bytes import WireFields
from kproxy.trace.lines import FindingEntry, RequestLine
from kproxy.verdict.ranking import best_first

_RECORD_RAW = "record with --detail raw"


@dataclass(slots=True, eq=False)
class FrameDetail:
    """One side of an exchange.

    Attributes:
        line: The trace line.
        frame: The frame's bytes with secrets zeroed; None if the trace lacks them, and `missing` has the reason.
        fields: With bytes: ``size``, ``header``, ``body`` and, if bytes remain, ``(not decoded)``. With a decoded body
            only: ``body``. With neither: the summary facts of the line.
        missing: Why there are no bytes, as a sentence; None if there are.
        findings: The line's findings, most severe first.
        error: Where and why decoding stopped.
        deviation: How the frame deviates from Kafka's layout, in words, if it was decoded with a modified layout.
    """

    line: FrameLine
    frame: bytes | None = None
    fields: list[FieldView] = field(default_factory=list)
    missing: str | None = None
    findings: list[FindingEntry] = field(default_factory=list)
    error: str | None = None
    deviation: str | None = None

    def at_byte(self, offset: int) -> list[FieldView]:
        """Return the fields that contain the byte at `offset` of the frame, outermost first."""
        return fields_at_offset(self.fields, offset)

    def find(self, path: str) -> list[FieldView]:
        """Return the fields on a finding's path, outermost first, as far as they exist."""
        return ancestors(self.fields, path)


def build_frame_detail(line: FrameLine, request: RequestLine | None = None) -> FrameDetail:
    """Build the details of a frame. Never raises; record data is decoded only when it is opened.

    Args:
        line: A line of a trace at any detail level; it is not changed.
        request: For a response, the line of its request if known; it helps the diagnosis.
    """
    detail = FrameDetail(line, findings=best_first(line.findings))
    if line.not_decoded:
        detail.missing = f"not decoded: {line.not_decoded}"
    elif line.frame is not None:
        if (message := message_of(line)) is not None:
            layouts = message.header_layout, message.layout
            message = _decode_with_best_layout(message, line, request)
            if message.diagnosis is not None and layouts != (message.header_layout, message.layout):
                detail.deviation = str(message.diagnosis.edit)
            _add_wire_fields(detail, message)
            return detail
        detail.missing = "the trace's bytes here are not a valid frame"
    elif line.body is not None:
        detail.missing = f"the trace has no raw bytes: {_RECORD_RAW}"
    else:
        detail.missing = f"the trace has no bodies or raw bytes: {_RECORD_RAW}"
    if line.body is not None:
        layout, owner = _layout(line)
        produce = partial(body_fields, line.body, layout, owner)
        detail.fields = [FieldView("body", "body", kind=owner, produce=produce)]
    else:
        detail.fields = facts(line)
    return detail


def _decode_with_best_layout(message: Message, line: FrameLine, request: RequestLine | None) -> Message:
    """Decode a malformed frame with the modified layout from its findings, or else from a new diagnosis."""
    if message.well_formed and not message.decode_warnings:
        return message
    for finding in line.findings:
        if (diagnosis := _diagnosis_of(message, finding)) is not None:
            return apply_diagnosis(message, diagnosis)
    request_message = message_of(request) if request is not None and not message.is_request else None
    return examine(message, request_message, KnownDeviations(), "")


def _diagnosis_of(message: Message, finding: FindingEntry) -> Diagnosis | None:
    """Return the diagnosis in a finding, if its edit can be applied."""
    expected_layout = right_layout(message)
    if finding.edit is None or expected_layout is None:
        return None
    with suppress(edits.EditError):
        edit = edits.parse(msgspec.to_builtins(finding.edit))
        layout = None if edit.kind in edits.LOOSE_KINDS else edit.apply(expected_layout)
        start, end = finding.span or (0, 0)
        return Diagnosis(edit, finding.confidence or 0.0, finding.path or "", start, end, finding.message,
                         finding.hint or "", layout=layout)  # fmt: skip
    return None


def _add_wire_fields(detail: FrameDetail, message: Message) -> None:
    line = detail.line
    wire = WireFields(message, topic_names(line).get, partial(fields_at, line.body), partial(decoded_at, line.body))
    detail.fields, detail.error = wire.fields, wire.error
    secret_spans = wire.secrets
    if line.body == {} and may_hold_secrets(message):
        # Undecodable frames are withheld; the zeros in their place might decode.
        secret_spans = [(message.body_start, len(message.frame))]
        detail.fields = [view for view in detail.fields if view.name in ("size", "header")]
        detail.fields.append(
            FieldView("body", "body", secret_spans[0], redaction_text(message.frame[message.body_start :]))
        )
    frame = bytearray(message.frame)
    for start, end in secret_spans:
        frame[start:end] = bytes(end - start)
    detail.frame = bytes(frame)


def _layout(line: FrameLine) -> tuple[Any, str]:
    """Return the expected layout of a line's body, None if unknown, and the name of its message."""
    owner = f"{line.api}{'Request' if isinstance(line, RequestLine) else 'Response'}"
    if (
        line.api_key is None
        or line.api_version is None
        or (layouts := api_layouts(line.api_key, line.api_version)) is None
    ):
        return None, owner
    return (layouts.request if isinstance(line, RequestLine) else layouts.response), owner
