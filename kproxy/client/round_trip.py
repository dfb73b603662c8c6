"""Sends one request and returns the body of its response, for exchanges that must precede the user's requests."""

from __future__ import annotations

from typing import Any

from dissectors import schemas
from dissectors.messages.message import read_response
from kproxy.client.connection import BrokerConnection, NoResponse
from kproxy.client.request import ClientRequest
from kproxy.errors import FINDINGS, UserError


async def send_request(
    connection: BrokerConnection, api: schemas.Api, version: int, **values: object
) -> dict[str, Any]:
    """Send a request and return the body of its response, as `dissectors.wire.decode.decode` returns it.

    Raises:
        UserError: No response arrives, or it does not decode.
    """
    connection.send(ClientRequest(api, version, values).frame(connection.next_correlation_id()))
    try:
        # `read_response` also handles version 0, in which a broker rejects an unknown version of ApiVersions (KIP-511).
        message = read_response(await connection.receive(), api.key, version)
    except NoResponse as no_response:
        raise UserError(f"{api.name} v{version}: {no_response}", FINDINGS) from None
    if message.error or message.opaque:
        raise UserError(
            f"the {api.name} v{version} response does not decode: {message.error or message.opaque}; look at it with "
            f"kproxy send HOST:PORT {api.name} -v {version}",
            FINDINGS,
        )
    return message.body
