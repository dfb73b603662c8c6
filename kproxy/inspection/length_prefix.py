"""Length prefixes of pasted frames: one or several frames, a wrong prefix, or none.

Logs of gateways and clients often show frames without the prefix, because their framing layer has removed it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from dissectors.messages.message import read_request, read_response
from kproxy.inspection.explain import AnsweredRequest, candidates, is_request

_PREFIX = 4
#: A length prefix and the shortest header that is useful: a correlation id, or API key and version.
MIN_FRAME = 8
_MAX_TRUNCATED = 1 << 20


class Framed(NamedTuple):
    """Frames with length prefixes.

    `missing`: the bytes were one frame without a prefix, which was added. `problem` is a sentence about a wrong prefix.
    """

    frames: list[bytes]
    missing: bool = False
    problem: str | None = None


def framed(data: bytes, answered: AnsweredRequest = None) -> Framed:
    """Find the frames in bytes. `answered` is the request that they answer, as in `explain`; None for requests.

    Bytes with a correct prefix are returned unchanged. Otherwise the prefix is missing if the bytes decode completely
    without one, but not if their first four bytes are taken as one.
    """
    if len(data) >= _PREFIX and _prefix_value(data) == len(data) - _PREFIX:
        return Framed([data])
    frames, rest = [], data
    while len(rest) >= _PREFIX and _PREFIX <= (size := _prefix_value(rest)) <= len(rest) - _PREFIX:
        frames.append(rest[: size + _PREFIX])
        rest = rest[size + _PREFIX :]
    if frames and not rest:
        return Framed(frames)
    prefixed = len(data).to_bytes(_PREFIX, "big") + data
    if _lacks_prefix(data, prefixed, answered):
        return Framed([prefixed], missing=True)
    return Framed([data], problem=_problem(data))


def _prefix_value(data: bytes) -> int:
    return int.from_bytes(data[:_PREFIX], "big", signed=True)


def _lacks_prefix(data: bytes, prefixed: bytes, answered: AnsweredRequest) -> bool:
    with_prefix = _as_prefixed(data)
    for decodes in (_reads_as_request, candidates) if answered is None else (partial(_reads_as_response, answered),):
        if any(len(frame) >= MIN_FRAME and decodes(frame) for frame in with_prefix):
            return False
        if len(prefixed) >= MIN_FRAME and decodes(prefixed):
            return True
    return False


def _as_prefixed(data: bytes) -> list[bytes]:
    """Possible frames if the first four bytes are a prefix: a wrong one, or the correct one of a truncated frame.

    A truncated frame is padded with zeros, which do not decode if lengths are read from the wrong place.
    """
    rest = data[_PREFIX:]
    frames = [len(rest).to_bytes(_PREFIX, "big") + rest]
    if len(rest) < (value := _prefix_value(data)) <= _MAX_TRUNCATED:
        frames.append(data[:_PREFIX] + rest.ljust(value, b"\0"))
    return frames


def _reads_as_request(frame: bytes) -> bool:
    return is_request(frame) and read_request(frame).well_formed


def _reads_as_response(answered: tuple[int, int] | bytes, frame: bytes) -> bool:
    if isinstance(answered, bytes):
        request = read_request(answered)
        answered = request.api_key, request.version
    return read_response(frame, *answered).well_formed


def _problem(data: bytes) -> str:
    if len(data) < _PREFIX:
        return f"a frame begins with a 4-byte length prefix, but only {len(data)} bytes were given"
    value, actual = _prefix_value(data), len(data) - _PREFIX
    return (
        f"the length prefix is {value}, but {actual} bytes follow it; "
        f"the correct prefix is {actual.to_bytes(_PREFIX, 'big').hex(' ')}"
    )
