"""Diagnose payloads of group protocols with the search for frames; a payload's version serves as the header."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from dissectors.diagnosis.costs import FrameReading
from dissectors.diagnosis.diagnose import LIKELY_CONFIDENCE, MAX_RIVALS, MIN_RIVAL_CONFIDENCE
from dissectors.diagnosis.misfit import Misfit
from dissectors.diagnosis.ranking import rank
from dissectors.diagnosis.search import FittingReading, search
from dissectors.diagnosis.struct_reader import read_frame
from dissectors.edits import LOOSE_KINDS, Edit, EditError, frame_layout
from dissectors.embedded.payload_formats import is_payload, layouts_as_stated, layouts_for_version
from dissectors.messages.diagnosis_result import Rival
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout, versions
from dissectors.wire.walk import walk

#: The smallest payload to search, with a version and without; the largest; and the most fields to read per payload.
MIN_SIZE = 6
MIN_SIZE_WITHOUT_VERSION = 8
MAX_SIZE = 32 << 10
MAX_FIELDS_READ = 40_000

#: Errors in the version of a payload, with their priors in bits; the version is the header or the first field.
_VERSION_EDITS = {
    field: (
        (Edit.of("field_missing", field, where=0), 6.0),
        *((Edit.of("int_width", field, written=written), 9.0) for written in widths),
    )
    for field, widths in (("header.version", ("int8", "int32")), ("version", ("int16", "int64")))
}

#: Takes the place of the length prefix, which a payload does not have.
_NO_SIZE = bytes(4)


class PayloadDiagnosis(NamedTuple):
    """The edit of a payload, its confidence, edits that read every byte in the same way, and other explanations."""

    edit: Edit
    confidence: float
    also: tuple[Edit, ...]
    rivals: tuple[Rival, ...]


def is_whole_under(data: bytes, name: str, edit: Edit) -> bool:
    """Whether bytes are a whole payload of any version under an edit, which may be an edit of the version itself."""
    for version in versions(name):
        payload_layouts = layouts_for_version(name, version)
        try:
            layout = edit.apply(frame_layout(payload_layouts.header, payload_layouts.body))
        except EditError:
            continue
        walked = walk(layout, data, 0)
        if walked.error is None and not walked.decode_warnings and walked.end == len(data):
            return True
    return False


@functools.lru_cache(256)
def diagnose_payload(data: bytes, name: str) -> PayloadDiagnosis | None:
    """Return the edit that best explains a payload that does not decode; None if no edit explains it.

    Args:
        data: The payload, not empty.
        name: Kafka's name of the payload's message, one of `payload_formats`.
    """
    if not is_payload(name) or not MIN_SIZE <= len(data) <= MAX_SIZE:
        return None
    try:
        correct_layouts = layouts_as_stated(name, data)
    except DecodeError:
        if len(data) < MIN_SIZE_WITHOUT_VERSION:
            return None
        correct_layouts = layouts_for_version(name, versions(name)[-1])
    layout = frame_layout(correct_layouts.header, correct_layouts.body)
    frame = _NO_SIZE + data
    readings = search(frame, layout, correct_layouts.version, decodes=False, work=MAX_FIELDS_READ)
    readings_by_cost = sorted([*readings.found, *_version_readings(frame, name)], key=lambda reading: reading.cost)
    best, *others = rank(frame, readings_by_cost, layout)
    if best.edit is None or best.edit.then or best.edit.kind in LOOSE_KINDS or best.confidence < LIKELY_CONFIDENCE / 2:
        return None
    # Often an older version lacks just the last field. Then a missing field is the simpler explanation.
    edit, *other_edits = sorted((best.edit, *best.also), key=lambda edit: edit.kind != "field_missing")
    rivals = (Rival(reading.edit, round(reading.confidence, 3)) for reading in others if reading.edit is not None)
    return PayloadDiagnosis(
        edit,
        round(best.confidence, 3),
        tuple(other_edits),
        tuple(
            rival for rival in rivals if rival.confidence >= MIN_RIVAL_CONFIDENCE and rival.edit.kind not in LOOSE_KINDS
        )[:MAX_RIVALS],
    )


def _version_readings(frame: bytes, name: str) -> Iterator[FittingReading]:
    """Yield the readings with a wrong or missing version, in the layout of each version."""
    for version in versions(name):
        correct_layouts = layouts_for_version(name, version)
        layout = frame_layout(correct_layouts.header, correct_layouts.body)
        for edit, prior in _VERSION_EDITS["header.version" if correct_layouts.header.fields else "version"]:
            edited = edit.apply(layout)
            cost = _reading_cost(frame, edited, version, edit)
            if cost is not None:
                # Among versions with the same layout, prefer the latest.
                yield FittingReading(edit, edited, cost + prior - 0.01 * version, prior)


def _reading_cost(frame: bytes, layout: Layout, version: int, edit: Edit) -> float | None:
    header, body = layout.fields[0].struct, layout.fields[1].struct
    assert header is not None
    assert body is not None
    if (
        edit.kind == "int_width"
        and decode(header if header.fields else body, frame, 4).values.get("version") != version
    ):
        return None
    reading = FrameReading(frame, frozenset(), MAX_FIELDS_READ)
    reading.begin(float("inf"), MAX_FIELDS_READ)
    try:
        end = read_frame(reading, header, body)
    except Misfit:
        return None
    return reading.cost if end == len(frame) else None


def embedded_diagnosis(diagnosis: PayloadDiagnosis, field: str, name: str) -> PayloadDiagnosis:
    """Turn the diagnosis of a payload into one of the message that contains the payload in `field`."""

    def embed_edit(edit: Edit) -> Edit:
        return Edit.of("embedded_layout", field, payload=name, edit=edit)

    rivals = tuple(replace(rival, edit=embed_edit(rival.edit)) for rival in diagnosis.rivals)
    return PayloadDiagnosis(
        embed_edit(diagnosis.edit), diagnosis.confidence, tuple(map(embed_edit, diagnosis.also)), rivals
    )
