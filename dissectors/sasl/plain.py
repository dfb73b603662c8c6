"""SASL PLAIN (RFC 4616): authorization id, user name and password, with a NUL between them."""

from __future__ import annotations

from dissectors.sasl.messages import ClientName, showable_name


def read(data: bytes) -> ClientName:
    """Read the client's only message."""
    parts = data.split(b"\0")
    if len(parts) != 3:
        return ClientName(
            problem=f"has {len(parts) - 1} of the 2 NUL bytes that separate authorization id, user name and password"
        )
    authorization_id, username, password = (part.decode(errors="replace") for part in parts)
    if not username:
        return ClientName(problem="has no user name")
    return ClientName(
        username=showable_name(username),
        authorization_id=authorization_id,
        problem=None if password else "has no password",
    )
