"""Diagnose one frame: find the edit that explains it best, where it applies, and the confidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from dissectors.diagnosis import wording
from dissectors.diagnosis.first_difference import Difference, first_difference
from dissectors.diagnosis.implausible_values import SMALL_FRAME_BYTES
from dissectors.diagnosis.ranking import RankedReading, rank
from dissectors.diagnosis.search import Habit, search
from dissectors.diagnosis.shift_signs import shows_shift
from dissectors.diagnosis.tag_sizes import with_tag_sizes
from dissectors.diagnosis.value_costs import is_ordinary
from dissectors.edits import LOOSE_KINDS, Edit, frame_layout, write
from dissectors.messages.diagnosis_result import Diagnosis, Rival
from dissectors.messages.message import Message, api_layouts
from dissectors.messages.secret_fields import may_hold_secrets
from dissectors.wire.decode import decode
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Layout
from dissectors.wire.paths import render
from dissectors.wire.walk import walk

#: How many bits cheaper than the correct layout an edit must be if the correct layout also decodes the whole frame.
MARGIN = 14.0

#: The highest cost in bits of an ordinary frame, fixed and per byte; random numbers cost twice as much.
ORDINARY_BITS = 30.0
ORDINARY_BITS_PER_BYTE = 4.5

#: The most rivals to report, and their lowest confidence.
MAX_RIVALS = 5
MIN_RIVAL_CONFIDENCE = 0.02

#: The most strings of a request that are expected in its response.
MAX_WORDS = 500

#: The most bytes to append in order to find out how many are missing.
MAX_APPENDED_BYTES = 4096

#: The number of bytes of a large frame that are searched for the first deviation.
SEARCHED_BYTES = 8 << 10

#: The least confidence to decode a frame under its diagnosis, or to diagnose a frame that decodes.
LIKELY_CONFIDENCE = 0.5

#: Another missing field is named as an alternative from this share of the best confidence on.
RIVAL_SHARE = 0.75

#: The highest confidence in trailing bytes and truncation, which explain nearly any frame.
MAX_LOOSE_CONFIDENCE = 0.6

#: The highest confidence in an edit if the correct layout decodes the frame to its last byte.
MAX_DOUBTFUL_CONFIDENCE = 0.9


def right_layout(message: Message) -> Layout | None:
    """Return Kafka's layout of a message, None if the schemas do not know its version."""
    layouts = api_layouts(message.api_key, message.version)
    if layouts is None:
        return None
    if message.is_request:
        return frame_layout(layouts.request_header, layouts.request)
    return frame_layout(layouts.response_header, layouts.response)


def diagnose(
    message: Message, request: Message | None = None, usual: frozenset[Habit] = frozenset()
) -> Diagnosis | None:
    """Find the edit that explains a frame best.

    Args:
        message: The message as decoded by the correct layout; it is not changed.
        request: The request of a response, if known: its topics and groups are likely in the response.
        usual: The `habits` of the edits that the same peer has made before.

    Returns:
        None if the correct layout is the most probable, or if the schemas do not have the message. Never raises; the
        work is bounded for frames of any size.
    """
    correct_layout = right_layout(message)
    if correct_layout is None:
        return None
    is_fully_read = message.error is None and message.end == len(message.frame)
    if is_fully_read and not _is_doubtful(message):
        return None
    known_words = (
        frozenset(_encoded_strings(request.body)) if request is not None and request.error is None else frozenset()
    )
    candidates, correct_cost = search(
        message.frame,
        correct_layout,
        message.version,
        decodes=is_fully_read,
        trailing=message.trailing,
        words=known_words,
        usual=usual,
    )
    ranked = rank(message.frame, candidates, correct_layout)
    best = ranked[0]
    if best.edit is None:
        return None
    if correct_cost is not None:  # the correct layout also fits: report only an edit that makes the frame ordinary
        if (
            best.cost > correct_cost - MARGIN
            or best.confidence < LIKELY_CONFIDENCE
            or best.cost > ORDINARY_BITS + ORDINARY_BITS_PER_BYTE * len(message.frame)
        ):
            return None
        walked = walk(best.layout, message.frame, 4)
        if walked.decode_warnings or not is_ordinary(best.layout, walked.values):
            return None
        best.confidence = min(best.confidence, MAX_DOUBTFUL_CONFIDENCE)
    return _build_diagnosis(message, correct_layout, ranked)


def _is_doubtful(message: Message) -> bool:
    """Whether a frame that decodes to its last byte has a value that a correct writer is unlikely to send."""
    if any(warning.kind != "implausible" for warning in message.decode_warnings):
        return True
    return message.layout is not None and shows_shift(message.layout, message.body)


def _build_diagnosis(message: Message, correct_layout: Layout, ranked: list[RankedReading]) -> Diagnosis:
    best = ranked[0]
    assert best.edit is not None
    frame = message.frame
    edit, surplus = best.edit, None
    if edit.kind in LOOSE_KINDS:
        end = message.error.offset if message.error else message.end
        location = Difference((), end, len(frame), None, None)
        path = render(message.error.path) if message.error else ""
        if edit.kind == "trailing_bytes":
            surplus = len(frame) - end
        elif (missing_bytes := _missing_byte_count(frame, correct_layout)) is not None:
            edit, surplus = Edit.of("truncated", "*", bytes=missing_bytes), -missing_bytes
    else:
        edit = with_tag_sizes(edit, frame, best.layout)
        size = len(frame) if len(frame) <= SMALL_FRAME_BYTES else SEARCHED_BYTES
        walked = walk(best.layout, frame, 4, size)
        difference = first_difference(correct_layout, best.layout, walked.nodes, 4)
        location = difference or Difference((), 4, len(frame), None, None)
        shown_path = location.path[1:] if location.path[:1] == ("body",) else location.path
        path = render(shown_path)
        surplus = _surplus(frame, correct_layout, walked.values)
    text = f"{message.api} v{message.version} {'request' if message.is_request else 'response'}: "
    text += wording.sentence(edit, correct_layout)
    if surplus:
        count = abs(surplus)
        text += f" ({count} byte{'s' * (count != 1)} too {'many' if surplus > 0 else 'few'})"
    text += _alternatives_text(best, ranked[1:])
    rivals = [
        Rival(with_tag_sizes(candidate.edit, frame, candidate.layout), round(candidate.confidence, 3))
        for candidate in ranked[1:]
        if candidate.edit is not None
    ]
    return Diagnosis(
        edit=edit,
        confidence=round(
            min(best.confidence, MAX_LOOSE_CONFIDENCE) if edit.kind in LOOSE_KINDS else best.confidence, 3
        ),
        path=path,
        start=location.start,
        end=max(location.start, location.end),
        sentence=text,
        hint=wording.hint(edit, correct_layout, message.version),
        surplus=surplus,
        also=tuple(best.also),
        rivals=tuple(rival for rival in rivals if rival.confidence >= MIN_RIVAL_CONFIDENCE)[:MAX_RIVALS],
        # Build a new layout: the layouts of the search refer to everything that was tried on top of them.
        layout=None if edit.kind in LOOSE_KINDS else edit.apply(correct_layout),
    )


def _alternatives_text(best: RankedReading, rivals: list[RankedReading]) -> str:
    """Return a clause that names other fields that may be missing instead, if the bytes do not show which."""
    if best.edit is None or best.edit.kind != "field_missing" or best.confidence >= LIKELY_CONFIDENCE:
        return ""
    names = [
        candidate.edit.field.rpartition(".")[2]
        for candidate in rivals
        if candidate.edit is not None
        and candidate.edit.kind == "field_missing"
        and candidate.confidence >= RIVAL_SHARE * best.confidence
    ]
    if not names:
        return ""
    return f"; or it is {' or '.join(dict.fromkeys(names))}: these bytes do not show which"


def _missing_byte_count(frame: bytes, correct_layout: Layout) -> int | None:
    """Return the smallest number of missing bytes, found by appending zeros; None if the frame stays incomplete."""
    if len(frame) > SMALL_FRAME_BYTES:
        return None
    walked = walk(correct_layout, frame + bytes(MAX_APPENDED_BYTES), 4)
    return None if walked.error else max(walked.end - len(frame), 1)


def _surplus(frame: bytes, correct_layout: Layout, values: dict[str, Any]) -> int | None:
    """Return how many bytes the frame has beyond Kafka's encoding of the values; negative if it has fewer."""
    if len(frame) > SMALL_FRAME_BYTES:
        return None
    try:
        return len(frame) - len(write(None, correct_layout, values))
    except EncodeError:
        return None


def _encoded_strings(values: Any) -> Iterator[bytes]:
    """Yield the strings in a body, encoded as UTF-8."""
    stack = [values]
    count = 0
    while stack and count < MAX_WORDS:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value[:MAX_WORDS])
        elif isinstance(value, str) and len(value) > 2:
            count += 1
            yield value.encode("utf-8", "replace")


def apply_diagnosis(message: Message, diagnosis: Diagnosis) -> Message:
    """Return the message with its diagnosis, decoded under the diagnosis if that is likely enough."""
    result = structs.replace(
        message, diagnosis=diagnosis, well_formed=False, errors_cache=None, records_cache=None, offsets_cache=None,
        tree=None,
    )  # fmt: skip
    if may_hold_secrets(message):
        return result  # under another layout, redaction would not find the secret
    if diagnosis.layout is None or diagnosis.edit.kind in LOOSE_KINDS or diagnosis.confidence < LIKELY_CONFIDENCE:
        return result
    header, body = _header_and_body(diagnosis.layout)
    decoded_header = decode(header, message.frame, 4)
    decoded_body = decode(body, message.frame, decoded_header.end)
    if decoded_header.error is not None or decoded_body.error is not None:
        return result
    return structs.replace(
        result, header_layout=header, layout=body, header=decoded_header.values, body=decoded_body.values,
        body_start=decoded_header.end,
        end=decoded_body.end, error=None, decode_warnings=decoded_header.decode_warnings + decoded_body.decode_warnings,
    )  # fmt: skip


def match_known_diagnosis(message: Message, known_diagnosis: Diagnosis) -> Diagnosis | None:
    """Return a known diagnosis adapted to this frame; None if this frame does not decode under it."""
    if known_diagnosis.layout is None:
        return None
    header, body = _header_and_body(known_diagnosis.layout)
    decoded_header = decode(header, message.frame, 4)
    decoded_body = decode(body, message.frame, decoded_header.end)
    if (
        decoded_header.error
        or decoded_body.error
        or decoded_header.decode_warnings
        or decoded_body.decode_warnings
        or decoded_body.end != len(message.frame)
    ):
        return None
    return replace(known_diagnosis, rivals=(), surplus=None)


def _header_and_body(frame: Layout) -> tuple[Layout, Layout]:
    header, body = (field.struct for field in frame.fields)
    assert header is not None
    assert body is not None
    return header, body
