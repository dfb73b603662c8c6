"""Whether a Produce request gets a response, from the first bytes of its frame."""

from __future__ import annotations

import functools
from typing import Final

from dissectors.messages.message import api_layouts
from dissectors.schemas.codes import ApiKey
from dissectors.wire.compiled import Irregular
from dissectors.wire.skip import Skipper, skipper_to, struct_skipper

#: Bytes of a frame, size included, that usually contain `acks`; a very long client id moves it further back.
ACKS_WITHIN: Final = 512


def expects_response(start: bytes, api_version: int) -> bool:
    """False for a Produce request with acks=0; True if `start` does not contain `acks`.

    Args:
        start: The first bytes of the frame, size included; `ACKS_PREFIX_BYTES` are enough.
        api_version: The version of the request.
    """
    known = _skippers(api_version)
    if known is None:
        return True
    header, to_acks = known
    try:
        acks = to_acks(start, header(start, 4))
    except Irregular:
        return True
    return start[acks : acks + 2] != b"\0\0"


@functools.cache
def _skippers(api_version: int) -> tuple[Skipper, Skipper] | None:
    """For the header, and for the body up to `acks`."""
    known = api_layouts(ApiKey.PRODUCE, api_version)
    return known and (struct_skipper(known.request_header), skipper_to(known.request, "acks"))
