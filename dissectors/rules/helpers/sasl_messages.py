"""SASL messages as rules see them: in SaslAuthenticate, or without a header after SaslHandshake v0."""

from __future__ import annotations

from dissectors.connections.events import Direction, RequestReceived, ResponseReceived, TokenReceived
from dissectors.messages.locate import ProblemLocation, locate


def is_from_client(event: RequestReceived | ResponseReceived | TokenReceived) -> bool:
    """Return whether the client sent the message."""
    if isinstance(event, TokenReceived):
        return event.direction is Direction.REQUEST
    return isinstance(event, RequestReceived)


def token_location(event: RequestReceived | ResponseReceived | TokenReceived) -> ProblemLocation:
    """Return where the SASL message is in its frame, or no location if the frame has no fields."""
    if isinstance(event, TokenReceived) or event.message is None:
        return {}
    return locate(event.message, "auth_bytes")
