"""Encode whole frames of an API, correctly or with an edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.edits.field_names import check_names
from dissectors.edits.notation import edit_of
from dissectors.edits.targets import frame_layout
from dissectors.edits.write import write
from dissectors.messages.message import ApiLayouts, api_layouts
from dissectors.schemas import Api
from dissectors.schemas.lookup import find_api
from dissectors.wire.edit import Edit
from dissectors.wire.layout import Layout


def encode_request(
    api: str,
    version: int,
    body: Mapping[str, Any] | None = None,
    *,
    correlation_id: int = 0,
    client_id: str | None = None,
    edit: str | Edit | None = None,
) -> bytes:
    """Encode a request frame, length prefix included.

    Args:
        api: Kafka's name, e.g. ``Metadata``.
        version: The version of the API, which determines the layouts of header and body.
        body: Values by Kafka's names in snake_case; missing ones have Kafka's defaults. Times are in ms. A field that
            only other versions have may be there with its default.
        correlation_id: For the header.
        client_id: For the header.
        edit: How to deviate from it, as `Edit` or in the notation of docs/edits.md, e.g. ``missing:topics[].name``.

    Raises:
        ValueError: Unknown API or version, or the version has no such field.
        EncodeError: A value does not fit its type. It is a `ValueError`.
        EditError: The edit is invalid or does not apply to this layout. It is a `ValueError`.
    """
    known_api = find_api(api, version)
    layouts = _find_layouts(known_api, version)
    header = {
        "request_api_key": known_api.key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return _encode_frame(f"{layouts.api}Request", version, layouts.request_header, layouts.request, header, body, edit)


def encode_response(
    api: str,
    version: int,
    body: Mapping[str, Any] | None = None,
    *,
    correlation_id: int = 0,
    edit: str | Edit | None = None,
) -> bytes:
    """Encode a response frame, length prefix included. Arguments and errors are as for `encode_request`."""
    layouts = _find_layouts(find_api(api, version), version)
    return _encode_frame(
        f"{layouts.api}Response",
        version,
        layouts.response_header,
        layouts.response,
        {"correlation_id": correlation_id},
        body,
        edit,
    )


def _encode_frame(
    message: str,
    version: int,
    header_layout: Layout,
    body_layout: Layout,
    header: Mapping[str, Any],
    body: Mapping[str, Any] | None,
    edit: str | Edit | None,
) -> bytes:
    if body:
        check_names(message, version, body, edited=edit is not None)
    if isinstance(edit, str):
        edit = edit_of(edit)(body_layout)
    return write(edit, frame_layout(header_layout, body_layout), {"header": header, "body": body or {}})


def _find_layouts(api: Api, version: int) -> ApiLayouts:
    layouts = api_layouts(api.key, version)
    assert layouts is not None  # `find_api` has checked the version
    return layouts
