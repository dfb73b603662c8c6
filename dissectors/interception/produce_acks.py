"""Whether a Produce request will be answered, from the first bytes of its frame."""

from __future__ import annotations

from typing import Final

from dissectors.messages.message import api_layouts
from dissectors.schemas.codes import ApiKey
from dissectors.wire.compiled import Irregular
from dissectors.wire.skip import skip_fields

#: Bytes of a frame, length prefix included, within which `acks` usually stands; after a longer client id it may not.
ACKS_WITHIN: Final = 512


def expects_response(start: bytes, api_version: int) -> bool:
    """False for a Produce request with acks=0; True if `start` does not tell.

    Args:
        start: The first bytes of the frame, length prefix included; `ACKS_WITHIN` are enough.
        api_version: That of the request.
    """
    known = api_layouts(ApiKey.PRODUCE, api_version)
    if known is None:
        return True
    try:
        body = skip_fields(known.request_header, start, 4)
        acks = skip_fields(known.request, start, body, before="acks")
        return len(start) < acks + 2 or start[acks : acks + 2] != b"\0\0"
    except Irregular:
        return True
