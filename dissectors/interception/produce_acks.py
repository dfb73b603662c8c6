"""Find out from the first bytes of a Produce request whether it gets a response."""

from __future__ import annotations

import functools
from typing import Final

from dissectors.messages.message import api_layouts
from dissectors.schemas.codes import ApiKey
from dissectors.wire.compiled import Irregular
from dissectors.wire.skip import Skipper, skipper_to, struct_skipper

#: Bytes of a frame, size included, that usually contain `acks`; a very long client id moves it further back.
ACKS_PREFIX_BYTES: Final = 512


def expects_response(start: bytes, api_version: int) -> bool:
    """Return False for a Produce request with acks=0; True otherwise, or if `start` does not contain `acks`.

    Args:
        start: The first bytes of the frame, size included; `ACKS_PREFIX_BYTES` are enough.
        api_version: The version of the request.
    """
    skippers = _skippers(api_version)
    if skippers is None:
        return True
    skip_header, skip_to_acks = skippers
    try:
        position = skip_to_acks(start, skip_header(start, 4))
    except Irregular:
        return True
    return start[position : position + 2] != b"\0\0"


@functools.cache
def _skippers(api_version: int) -> tuple[Skipper, Skipper] | None:
    """Return the skippers for the header and for the body up to `acks`."""
    layouts = api_layouts(ApiKey.PRODUCE, api_version)
    return layouts and (struct_skipper(layouts.request_header), skipper_to(layouts.request, "acks"))
