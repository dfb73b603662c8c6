"""Frames for tests, written by the project's own encoder from values."""

from typing import Any

from dissectors.messages.message import api_layouts
from dissectors.schemas import api_by_name
from dissectors.wire.encode import encode


def request(
    api: str, version: int, body: dict[str, Any], *, correlation_id: int = 1, client_id: str | None = "test"
) -> bytes:
    """A request frame with its length prefix."""
    found = api_by_name(api)
    assert found is not None
    known = api_layouts(found.key, version)
    assert known is not None
    header = {
        "request_api_key": found.key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return framed(encode(known.request_header, header) + encode(known.request, body))


def response(api: str, version: int, body: dict[str, Any], *, correlation_id: int = 1) -> bytes:
    """A response frame with its length prefix."""
    found = api_by_name(api)
    assert found is not None
    known = api_layouts(found.key, version)
    assert known is not None
    return framed(encode(known.response_header, {"correlation_id": correlation_id}) + encode(known.response, body))


def framed(data: bytes) -> bytes:
    """`data` behind its length."""
    return len(data).to_bytes(4, "big") + data
