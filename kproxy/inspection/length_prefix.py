"""The length prefix of frames that people paste: one frame or several, a wrong prefix, or none at all.

Logs of gateways and clients often show a frame without its prefix, because their framing layer has removed it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from dissectors.messages.message import read_request, read_response
from kproxy.inspection.explain import Asked, candidates, is_request

_PREFIX = 4
#: A length prefix and the shortest header: a correlation id, or the API key and version of a request.
LEAST_FRAME = 8
_MOST_CUT_OFF = 1 << 20


class Framed(NamedTuple):
    """Frames with their length prefixes.

    `missing`: the bytes were one frame without its prefix, and it was added. `problem` is a sentence about a prefix
    that is there and wrong.
    """

    frames: list[bytes]
    missing: bool = False
    problem: str | None = None


def framed(data: bytes, asked: Asked = None) -> Framed:
    """Find the frames in bytes. `asked` is the request they answer, as in `explain`; None for requests.

    Bytes whose prefix is right are taken as they are. Otherwise the prefix is missing if the bytes read completely
    without one, and do not with the one that they seem to have.
    """
    if len(data) >= _PREFIX and _said(data) == len(data) - _PREFIX:
        return Framed([data])
    frames, rest = [], data
    while len(rest) >= _PREFIX and _PREFIX <= (size := _said(rest)) <= len(rest) - _PREFIX:
        frames.append(rest[: size + _PREFIX])
        rest = rest[size + _PREFIX :]
    if frames and not rest:
        return Framed(frames)
    prefixed = len(data).to_bytes(_PREFIX, "big") + data
    if _lacks_prefix(data, prefixed, asked):
        return Framed([prefixed], missing=True)
    return Framed([data], problem=_problem(data))


def _said(data: bytes) -> int:
    return int.from_bytes(data[:_PREFIX], "big", signed=True)


def _lacks_prefix(data: bytes, prefixed: bytes, asked: Asked) -> bool:
    with_prefix = _with_prefix_of_its_own(data)
    for reads in (_reads_as_request, candidates) if asked is None else (partial(_reads_as_response, asked),):
        if any(len(frame) >= LEAST_FRAME and reads(frame) for frame in with_prefix):
            return False
        if len(prefixed) >= LEAST_FRAME and reads(prefixed):
            return True
    return False


def _with_prefix_of_its_own(data: bytes) -> list[bytes]:
    """What the bytes may be if their first four are a prefix: a wrong one, or the right one of a frame that is cut off.

    Zeros stand for what is cut off: if lengths were read from the wrong place, these do not help.
    """
    rest = data[_PREFIX:]
    frames = [len(rest).to_bytes(_PREFIX, "big") + rest]
    if len(rest) < (said := _said(data)) <= _MOST_CUT_OFF:
        frames.append(data[:_PREFIX] + rest.ljust(said, b"\0"))
    return frames


def _reads_as_request(frame: bytes) -> bool:
    return is_request(frame) and read_request(frame).well_formed


def _reads_as_response(asked: tuple[int, int] | bytes, frame: bytes) -> bool:
    if isinstance(asked, bytes):
        request = read_request(asked)
        asked = request.api_key, request.version
    return read_response(frame, *asked).well_formed


def _problem(data: bytes) -> str:
    if len(data) < _PREFIX:
        return f"a frame begins with a 4-byte length prefix, but only {len(data)} bytes were given"
    said, follow = _said(data), len(data) - _PREFIX
    return (
        f"the length prefix says {said} bytes, {follow} follow: "
        f"for these bytes it would be {follow.to_bytes(_PREFIX, 'big').hex(' ')}"
    )
