"""UTF-8 text without control characters."""

from __future__ import annotations

from dissectors.values.plain_formats import plain_format
from dissectors.values.value import DecodedValue, ValueContext

_SPACES = frozenset("\t\n\r")


@plain_format(rank=30)
def text(data: bytes, context: ValueContext) -> DecodedValue | None:
    """Text. It is a guess: other data may look like it."""
    found = data.decode()
    if found.isprintable() or all(each.isprintable() or each in _SPACES for each in found):
        return DecodedValue("text", found, is_guess=True)
    return None
