"""UTF-8 text without control characters."""

from __future__ import annotations

from dissectors.values.plain_formats import plain_format
from dissectors.values.value import DecodedValue, ValueContext

_SPACES = frozenset("\t\n\r")


@plain_format(rank=30)
def text(data: bytes, context: ValueContext) -> DecodedValue | None:
    """Decode text. It is a guess, because other data may look like text."""
    decoded = data.decode()
    if decoded.isprintable() or all(character.isprintable() or character in _SPACES for character in decoded):
        return DecodedValue("text", decoded, is_guess=True)
    return None
