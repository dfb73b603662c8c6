"""The schema id that serializers with a schema registry put before a key or value (Confluent's wire format).

It is a zero byte, then the id in four bytes. Nothing marks it for sure, so other bytes may look like one.
"""

from __future__ import annotations

#: Bytes of the prefix.
PREFIX = 5

#: The same as a regular expression over the first bytes in upper-case hex, for engines that run no Python. Registries
#: count ids from 1 and keep them in a signed number.
HEX_PREFIX = "^00(?!0{8})[0-7][0-9A-F]{7}"

#: Of a lone value, a higher id is more likely chance: no registry has so many schemas.
_HIGHEST = 10_000_000


def schema_id(data: bytes) -> int | None:
    """The id that a key or value begins with, None if it has none. Eight bytes are taken for a number."""
    if len(data) <= PREFIX or data[0] != 0 or len(data) == 8:
        return None
    found = int.from_bytes(data[1:PREFIX], "big")
    return found if 0 < found < _HIGHEST else None
