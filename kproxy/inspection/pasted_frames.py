"""Finds the frames in pasted bytes: one or several, cut off at either end, with a wrong length prefix or none.

Logs of gateways and clients often show frames without the prefix, because their framing layer has removed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from dissectors.messages.message import read_request, read_response
from kproxy.inspection.explain import AnsweredRequest, is_request, possible_apis

_PREFIX = 4
#: A length prefix and the shortest header that is useful: a correlation id, or API key and version.
MIN_FRAME = 8
_MAX_TRUNCATED = 1 << 20
_MAX_SEARCHED = 1 << 20  # bytes before the first whole frame

#: Tests whether bytes are a whole frame that decodes; its result is used as a boolean.
_Decodes: TypeAlias = Callable[[bytes], object]


class FoundFrames(NamedTuple):
    """Frames with length prefixes.

    `missing` means that the bytes were one frame without a prefix, which was added. `problem` is a sentence about a
    wrong prefix or a frame that is cut off, `note` one about bytes that belong to other frames.
    """

    frames: list[bytes]
    missing: bool = False
    problem: str | None = None
    note: str | None = None


class PastedFrame(NamedTuple):
    """A frame, and the request that it answers."""

    frame: bytes
    answered: AnsweredRequest


def find_frames(data: bytes, answered_request: AnsweredRequest = None) -> FoundFrames:
    """Find the frames in bytes. `answered_request` is the request that they answer, as in `explain`; None for requests.

    Bytes with a correct prefix are returned unchanged. Otherwise the prefix is missing if the bytes decode completely
    without one, but not if their first four bytes are taken as one. If nothing decodes at the first byte, frames are
    searched for after it, except for responses to unknown requests, which could be anywhere.
    """
    if answered_request is None:
        return _find_frames(data, (_reads_as_request, possible_apis), _reads_as_request)
    decodes = partial(_reads_as_response, answered_request)
    return _find_frames(
        data, (decodes,), partial(_is_response_to, answered_request) if isinstance(answered_request, bytes) else None
    )


def pair_frames(
    streams: Sequence[bytes], answered_request: AnsweredRequest = None
) -> tuple[list[PastedFrame], list[str]]:
    """Return the frames of a connection and sentences about problems. A response follows its request, if present.

    Args:
        streams: Bytes of one direction each, e.g. the requests and the responses of the connection.
        answered_request: The request of responses whose request is not in the streams.
    """
    directions = [find_frames(stream) for stream in streams]
    requests = [
        frame for candidate in directions if _reads_as_request(candidate.frames[0]) for frame in candidate.frames
    ]
    if not requests:
        requests = [frame for candidate in directions if is_request(candidate.frames[0]) for frame in candidate.frames]
    distinct_requests = set(requests)
    by_correlation_id = {frame[8:12]: frame for frame in reversed(requests)}

    def answers(frame: bytes) -> bool:
        request = by_correlation_id.get(frame[4:8])
        return request is not None and _reads_as_response(request, frame)

    responses: dict[bytes, list[bytes]] = {}
    for index, stream in enumerate(streams):
        if directions[index].frames[0] not in distinct_requests:
            directions[index] = _find_frames(stream, (answers,), answers)
            for frame in directions[index].frames:
                responses.setdefault(frame[4:8], []).append(frame)
    frames = []
    for request in requests:
        frames.append(PastedFrame(request, None))
        frames += [PastedFrame(frame, request) for frame in responses.pop(request[8:12], ())]
    frames += [PastedFrame(frame, answered_request) for unpaired in responses.values() for frame in unpaired]
    frames = [frame for frame in frames if len(frame.frame) >= MIN_FRAME]
    return frames, [
        sentence for candidate in directions for sentence in (candidate.note, candidate.problem) if sentence
    ]


def _find_frames(data: bytes, decoders: Sequence[_Decodes], search_test: _Decodes | None) -> FoundFrames:
    if (split := _split_frames(data, decoders[0])) is not None:
        return split
    prefixed_frames = [frame for frame in _candidate_frames(data) if len(frame) >= MIN_FRAME]
    frame_with_added_prefix = len(data).to_bytes(_PREFIX, "big") + data
    for decodes in decoders:
        if (decodable := next(filter(decodes, prefixed_frames), None)) is not None:
            return FoundFrames([data], problem=_prefix_problem(data, may_be_cut=len(decodable) > len(data)))
        if len(frame_with_added_prefix) >= MIN_FRAME and decodes(frame_with_added_prefix):
            return FoundFrames([frame_with_added_prefix], missing=True)
        if decodes is decoders[0] and search_test and (after_cut := _frames_after_cut(data, search_test)) is not None:
            return after_cut
    return FoundFrames([data], problem=_prefix_problem(data, may_be_cut=_prefix_value(data) > len(data) - _PREFIX))


def _split_frames(data: bytes, decodes: _Decodes) -> FoundFrames | None:
    """Return the frames that the length prefixes delimit; None if these do not agree with the number of bytes.

    The last frame may be cut off if the others decode.
    """
    frames, remaining = [], data
    while len(remaining) >= _PREFIX and _PREFIX <= (size := _prefix_value(remaining)) <= len(remaining) - _PREFIX:
        frames.append(remaining[: size + _PREFIX])
        remaining = remaining[size + _PREFIX :]
    if not remaining:
        return FoundFrames(frames) if frames else None
    size = _prefix_value(remaining.ljust(_PREFIX, b"\0"))
    if not (frames and 0 <= size <= _MAX_TRUNCATED and all(map(decodes, frames))):
        return None
    if len(remaining) < MIN_FRAME:
        return FoundFrames(frames, note=f"the last {_byte_count(len(remaining))} begin another frame: skipped")
    return FoundFrames(
        [*frames, remaining],
        problem=f"the last frame is cut off: {len(remaining) - _PREFIX} of {_byte_count(size)} follow its length "
        "prefix",
    )


def _frames_after_cut(data: bytes, decodes: _Decodes) -> FoundFrames | None:
    """Return the frames after the rest of a frame whose beginning is missing; None if there are none."""
    for start in range(1, min(len(data) - MIN_FRAME, _MAX_SEARCHED) + 1):
        end = start + _PREFIX + _prefix_value(data[start : start + _PREFIX])
        if not (start + MIN_FRAME <= end <= len(data) and decodes(data[start:end])):
            continue
        if (split := _split_frames(data[start:], decodes)) is not None:
            return split._replace(note=f"the first {_byte_count(start)} belong to an earlier frame: skipped")
    return None


def _byte_count(size: int) -> str:
    return f"{size} byte{'s' * (size != 1)}"


def _prefix_value(data: bytes) -> int:
    return int.from_bytes(data[:_PREFIX], "big", signed=True)


def _candidate_frames(data: bytes) -> list[bytes]:
    """Return possible frames if the first four bytes are a prefix: a wrong one, or that of a truncated frame.

    A truncated frame is padded with zeros, which do not decode if lengths are read from the wrong place.
    """
    body = data[_PREFIX:]
    frames = [len(body).to_bytes(_PREFIX, "big") + body]
    if len(body) < (value := _prefix_value(data)) <= _MAX_TRUNCATED:
        frames.append(data[:_PREFIX] + body.ljust(value, b"\0"))
    return frames


def _reads_as_request(frame: bytes) -> bool:
    return is_request(frame) and read_request(frame).well_formed


def _reads_as_response(answered_request: tuple[int, int] | bytes, frame: bytes) -> bool:
    if isinstance(answered_request, bytes):
        request = read_request(answered_request)
        answered_request = request.api_key, request.version
    return read_response(frame, *answered_request).well_formed


def _is_response_to(request: bytes, frame: bytes) -> bool:
    return frame[4:8] == request[8:12] and _reads_as_response(request, frame)


def _prefix_problem(data: bytes, *, may_be_cut: bool) -> str:
    """Return what is wrong with the length prefix; if `may_be_cut`, the frame may be incomplete instead."""
    if len(data) < _PREFIX:
        return f"a frame begins with a 4-byte length prefix, but only {len(data)} bytes were given"
    value, actual = _prefix_value(data), len(data) - _PREFIX
    return (
        f"the length prefix is {value}, but {actual} bytes follow it; {'the frame is cut off, or ' * may_be_cut}"
        f"the correct prefix is {actual.to_bytes(_PREFIX, 'big').hex(' ')}"
    )
