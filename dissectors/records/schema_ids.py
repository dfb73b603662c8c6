"""Schema ids that serializers with a schema registry write before keys and values (Confluent's wire format).

The prefix is a zero byte and a four-byte id. Nothing else marks it, so other data may look like it.
"""

from __future__ import annotations

#: Size of the prefix.
PREFIX_SIZE = 5

#: The prefix as a regular expression over upper-case hex, for engines that run no Python. Registries count ids from 1
#: and keep them in a signed int32. Not all engines have look-ahead, so each position of the first non-zero digit is an
#: alternative.
_LATER = "|".join(f"0{{{zeros}}}[1-9A-F][0-9A-F]{{{7 - zeros}}}" for zeros in range(1, 8))
HEX_PREFIX = f"^00(?:[1-7][0-9A-F]{{7}}|{_LATER})"

#: In a single value, a higher id is probably a coincidence: no registry has so many schemas.
_MAX_ID = 10_000_000


def schema_id(data: bytes) -> int | None:
    """Return the schema id at the start of a key or value, if any. Eight bytes are assumed to be a number."""
    if len(data) <= PREFIX_SIZE or data[0] != 0 or len(data) == 8:
        return None
    schema_id = int.from_bytes(data[1:PREFIX_SIZE], "big")
    return schema_id if 0 < schema_id < _MAX_ID else None


def is_repeated(data: bytes) -> bool:
    """Whether the prefix occurs a second time, right after the first or after a few Protobuf message indexes."""
    return schema_id(data) is not None and 0 < data.find(data[:PREFIX_SIZE], PREFIX_SIZE) <= 2 * PREFIX_SIZE
