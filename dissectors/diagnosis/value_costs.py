"""What a value costs, in bits, for a field of a name and type: little if it is plausible there.

A reading of a whole frame costs the sum, and the likeliest reading is the cheapest: the bytes are the same for all.
Values follow what Kafka's fields hold: codes, ports, counts, names; what a shift by a byte or two gives is dear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.diagnosis.integer_costs import WRONG, count, integer, operations
from dissectors.diagnosis.string_costs import text
from dissectors.wire.layout import Field, Layout

__all__ = ["blob", "count", "empty", "integer", "null", "ordinary", "text"]

#: Arrays that are empty only where there is an error, or hardly ever.
_NEVER_EMPTY = frozenset({"brokers", "api_keys", "replica_nodes", "replicas", "current_voters", "mechanisms"})
_SELDOM_EMPTY = frozenset({"topics", "responses", "results", "partitions", "groups", "coordinators"})

#: Fields of headers that any number may stand in.
FREE = frozenset({"correlation_id", "request_api_key", "request_api_version"})

#: What a word costs that the request or the connection has named.
KNOWN_WORD = 4.0

#: What a byte costs of which nothing is known: about as much as one of a name, or long strings would look better.
BLOB_BYTE = 5.5


def blob(records: bool, data: bytes, pos: int, size: int) -> float:
    """What the bytes of a bytes or records field cost, their length left out."""
    if records and size >= 17:
        # The first batch says how long it is; only the last may be cut off.
        batch = 12 + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
        right = data[pos + 16] < 3 and data[pos] < 0x40 and batch > 12
        return BLOB_BYTE * size + (2 * WRONG if not right else -20 if batch == size else -8)
    return BLOB_BYTE * size


#: What bytes that stand twice save at most: two fields may also hold the same by chance.
COPY = 14.0

EMPTY_TAGS = 0.4
KNOWN_TAG = 5.0
UNKNOWN_TAG = 24.0

#: Bits of evidence are not independent of each other: so much of each counts when they become a confidence.
TEMPER = 0.5

#: What no integer of an ordinary frame costs, and what none is less than: Kafka's special values end at -6.
EXTREME = 45.0
LEAST = -6


def null(field: Field) -> float:
    """What null costs in a field that may hold it."""
    return 0.8 if field.name.endswith("message") else 1.5 if field.default is None else 3.0


def empty(field: Field) -> float:
    """What an array without elements costs."""
    return 7.0 if field.name in _NEVER_EMPTY else 3.5 if field.name in _SELDOM_EMPTY else 2.0


def ordinary(layout: Layout, values: Mapping[str, Any]) -> bool:
    """Whether the integers among values are such as Kafka's fields hold."""
    for one in layout.fields:
        value = values.get(one.name)
        if one.struct is not None and value is not None:
            if not all(ordinary(one.struct, each) for each in (value if one.array else (value,))):
                return False
        elif isinstance(value, int) and one.name not in FREE:
            cost = integer(one)
            if cost(value) > EXTREME or (value < LEAST and cost is not operations):
                return False
    return True
