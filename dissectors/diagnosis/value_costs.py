"""Costs of values, in bits, by name and type of the field: low if the value is plausible there.

The cost of a reading is the sum of its values' costs. All readings have the same bytes, so the cheapest is the most
probable. Costs follow from what Kafka's fields hold (codes, ports, counts, names); values that result from reading at a
wrong offset are expensive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.diagnosis.integer_costs import WRONG_COST, count_cost, integer_cost, operations_cost
from dissectors.diagnosis.string_costs import text_cost
from dissectors.wire.layout import Field, Layout

__all__ = [
    "PAYLOAD_BYTE_COST",
    "blob_cost",
    "count_cost",
    "empty_array_cost",
    "integer_cost",
    "is_ordinary",
    "null_cost",
    "text_cost",
]

#: Arrays that are empty only in an error response, and arrays that are rarely empty.
_NEVER_EMPTY = frozenset({"brokers", "api_keys", "replica_nodes", "replicas", "current_voters", "mechanisms"})
_SELDOM_EMPTY = frozenset({"topics", "responses", "results", "partitions", "groups", "coordinators"})

#: Fields of headers in which any number is plausible.
ARBITRARY_FIELDS = frozenset({"correlation_id", "request_api_key", "request_api_version"})

#: The cost of a string that occurs in the request or the connection.
KNOWN_WORD_COST = 4.0

#: The cost of an opaque byte, about that of a byte in a name; otherwise long strings would look better.
BLOB_BYTE_COST = 5.5

#: The cost of a byte in a whole payload, about that of a byte in its fields.
PAYLOAD_BYTE_COST = 2.0


def blob_cost(is_records: bool, data: bytes, pos: int, size: int) -> float:
    """Return the cost of the bytes of a bytes or records field; the length is not included."""
    if is_records and size >= 17:
        # Only the last batch may be truncated, so the first usually has its whole length.
        batch_size = 12 + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
        is_plausible = data[pos + 16] < 3 and data[pos] < 0x40 and batch_size > 12
        return BLOB_BYTE_COST * size + (2 * WRONG_COST if not is_plausible else -20 if batch_size == size else -8)
    return BLOB_BYTE_COST * size


#: The largest bonus for duplicate bytes: two fields may be equal by chance.
MAX_DUPLICATE_BONUS = 14.0

EMPTY_TAGS_COST = 0.4
KNOWN_TAG_COST = 5.0
UNKNOWN_TAG_COST = 24.0

#: The weight of each cost in the confidence: costs are not independent. Tuned with the cases of tests.independent.
COST_WEIGHT = 0.75

#: The highest cost of an integer in an ordinary frame, and its lowest value: no sentinel of Kafka is below -6.
EXTREME_COST = 45.0
MIN_VALUE = -6


def null_cost(field: Field) -> float:
    """Return the cost of null in a nullable field."""
    return 0.8 if field.name.endswith("message") else 1.5 if field.default is None else 3.0


def empty_array_cost(field: Field) -> float:
    """Return the cost of an empty array."""
    return 7.0 if field.name in _NEVER_EMPTY else 3.5 if field.name in _SELDOM_EMPTY else 2.0


def is_ordinary(layout: Layout, values: Mapping[str, Any]) -> bool:
    """Whether all integers are plausible in their fields."""
    for field in layout.fields:
        value = values.get(field.name)
        if field.struct is not None and value is not None:
            if not all(is_ordinary(field.struct, element) for element in (value if field.array else (value,))):
                return False
        elif isinstance(value, int) and field.name not in ARBITRARY_FIELDS:
            cost = integer_cost(field)
            if cost(value) > EXTREME_COST or (value < MIN_VALUE and cost is not operations_cost):
                return False
    return True
