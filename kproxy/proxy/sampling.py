"""Chooses the connections to inspect if only a share of them is inspected (``--sample``)."""

from __future__ import annotations

from hashlib import blake2b

_HASH_BYTES = 8


def parse_sample(text: str) -> float:
    """Parse a share of connections such as ``0.1`` or ``10%``; it is above 0 and at most 1.

    Raises:
        ValueError: The text is not a share; the message can be shown to the user as it is.
    """
    number, percent, suffix = text.strip().partition("%")
    try:
        share = float(number) / 100 if percent and not suffix else float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(
            f"invalid share of connections {text!r}: use a number above 0 up to 1, or a percentage like 10%"
        )
    return share


def is_chosen(client: str, number: int, share: float) -> bool:
    """Return whether a connection is inspected. A hash decides, so that similar clients are not all treated alike.

    Args:
        client: The client's address.
        number: The number of the connection, counted from the start of the relay.
        share: The share of connections to choose.
    """
    digest = blake2b(f"{client} {number}".encode(), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") < share * (1 << 8 * _HASH_BYTES)
