"""Functions that build frames for tests with the project's own encoder."""

from typing import Any

from dissectors.messages.message import api_layouts
from dissectors.schemas import api_by_name
from dissectors.wire.encode import encode


def request(
    api: str, version: int, body: dict[str, Any], *, correlation_id: int = 1, client_id: str | None = "test"
) -> bytes:
    """Return a request frame with its length prefix."""
    known_api = api_by_name(api)
    assert known_api is not None
    layouts = api_layouts(known_api.key, version)
    assert layouts is not None
    header = {
        "request_api_key": known_api.key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return with_length_prefix(encode(layouts.request_header, header) + encode(layouts.request, body))


def response(api: str, version: int, body: dict[str, Any], *, correlation_id: int = 1) -> bytes:
    """Return a response frame with its length prefix."""
    known_api = api_by_name(api)
    assert known_api is not None
    layouts = api_layouts(known_api.key, version)
    assert layouts is not None
    return with_length_prefix(
        encode(layouts.response_header, {"correlation_id": correlation_id}) + encode(layouts.response, body)
    )


def with_length_prefix(data: bytes) -> bytes:
    """Return `data` with a length prefix."""
    return len(data).to_bytes(4, "big") + data
