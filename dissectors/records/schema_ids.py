"""Schema ids that serializers with a schema registry write before keys and values (Confluent's wire format).

The prefix is a zero byte and the id in four bytes. It is not marked, so other data may look like it.
"""

from __future__ import annotations

#: Size of the prefix.
PREFIX_SIZE = 5

#: The prefix as a regular expression over upper-case hex, for engines that run no Python. Registries count ids from 1
#: and keep them in a signed int32. Not all engines have look-ahead, so the first digit that is not zero may be any.
_LATER = "|".join(f"0{{{zeros}}}[1-9A-F][0-9A-F]{{{7 - zeros}}}" for zeros in range(1, 8))
HEX_PREFIX = f"^00(?:[1-7][0-9A-F]{{7}}|{_LATER})"

#: For a single value, a higher id is more probably chance: no registry has so many schemas.
_MAX_ID = 10_000_000


def schema_id(data: bytes) -> int | None:
    """The schema id at the start of a key or value; None if it has none. Eight bytes are assumed to be a number."""
    if len(data) <= PREFIX_SIZE or data[0] != 0 or len(data) == 8:
        return None
    schema_id = int.from_bytes(data[1:PREFIX_SIZE], "big")
    return schema_id if 0 < schema_id < _MAX_ID else None


def is_repeated(data: bytes) -> bool:
    """Whether the prefix is followed by the same prefix again, after at most a few Protobuf message indexes."""
    return schema_id(data) is not None and 0 < data.find(data[:PREFIX_SIZE], PREFIX_SIZE) <= 2 * PREFIX_SIZE
