"""Costs in bits of numbers, by the purpose of the field: ids, epochs, counts, times, ports, codes.

The costs follow from Kafka's defaults, from what brokers and clients send, and from which values are impossible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dissectors import schemas
from dissectors.messages.value_annotations.tables import FIELDS
from dissectors.wire.layout import Field
from dissectors.wire.plausibility import error_codes

Cost = Callable[[Any], float]

#: The cost of an implausible value: an unknown error code, a port of 151552, a control character.
WRONG_COST = 24.0

MINUTE = 60_000

_GAMMA = tuple(2.0 + 1.7 * bits for bits in range(65))  # by number of bits
_INT64_COSTS = tuple(3.0 + 1.2 * bits for bits in range(65))
_ZERO_COST = 1.0

#: The cost of a value outside the set that the field may have.
OUTSIDE_SET_COST = 16.0

#: The cost of the schema's default, and of a usual value of the field.
_DEFAULT_COST = 2.5
_USUAL_COST = 5.0

#: Times in ms since the epoch from 2001 to 2100.
_TIMES = range(978_307_200_000, 4_102_444_800_000)

#: Common durations in ms, capacities in bytes, and ports.
_DURATIONS = frozenset(
    {100, 200, 250, 500, 1000, 2000, 3000, 5000, 6000, 10_000, 15_000, 20_000, 30_000, 40_000, 45_000, 60_000, 120_000,
     300_000, 600_000, 900_000, 3_600_000, 86_400_000, 604_800_000}
)  # fmt: skip
#: The defaults of common clients for these fields.
_USUAL_VALUES = {
    "session_timeout_ms": frozenset({6000, 10_000, 30_000, 45_000}),
    "rebalance_timeout_ms": frozenset({60_000, 300_000}),
    "heartbeat_interval_ms": frozenset({3000, 5000}),
    "max_wait_ms": frozenset({100, 500}),
    "min_bytes": frozenset({1}),
    "max_bytes": frozenset({10_485_760, 52_428_800, (1 << 31) - 1}),
    "partition_max_bytes": frozenset({1_048_576}),
}
_CAPACITIES = frozenset({1, 65_536, 1_048_576, 10_485_760, 52_428_800, 104_857_600, (1 << 31) - 1})
_PORTS = frozenset((*range(9091, 9100), 19_092, 29_092))

_ROLES: dict[str, str] = {
    **dict.fromkeys(("partition_index", "partition", "partition_indexes", "partitions", "partition_id"), "partition"),
    **dict.fromkeys(("node_id", "broker_id", "replica_nodes", "isr_nodes", "replicas", "isr", "broker_ids"), "node"),
    **dict.fromkeys(("eligible_leader_replicas", "last_known_elr", "offline_replicas", "adding_replicas"), "node"),
    **dict.fromkeys(("removing_replicas", "preferred_successors", "new_isr"), "node"),
    **dict.fromkeys(("num_partitions", "replication_factor", "max_records", "batch_size", "count"), "number"),
    **dict.fromkeys(("max_num_offsets", "delivery_count", "iterations", "response_partition_limit"), "number"),
    **dict.fromkeys(("generation_id", "generation_id_or_member_epoch", "producer_id_len"), "number"),
    **dict.fromkeys(("min_version", "max_version", "min_supported_version", "max_supported_version"), "version"),
    **dict.fromkeys(("min_version_level", "max_version_level"), "version"),
    **dict.fromkeys(("max_bytes", "min_bytes", "partition_max_bytes", "telemetry_max_bytes"), "capacity"),
    **dict.fromkeys(("session_id", "subscription_id"), "random"),
}


def error_code_cost(value: int) -> float:
    """Return the cost of an error code, which is usually 0 and otherwise one of Kafka's codes."""
    if value == 0:
        return 0.5
    return 9.0 if value in error_codes() else 16 + WRONG_COST


def own_error_cost(value: int) -> float:
    """Return the cost of an error code from a separate table, as in Kafka Streams; usually 0."""
    return 0.5 if value == 0 else 7.0 + small_number_cost(value)


def boolean_cost(value: int) -> float:
    """Return the cost of a boolean: 0 or 1, more often 0."""
    return 1.0 if value == 0 else 1.3 if value == 1 else WRONG_COST


def count_cost(value: int) -> float:
    """Return the cost of a number of elements or bytes."""
    return _ZERO_COST + 1 if value == 0 else _GAMMA[value.bit_length()]


def port_cost(value: int) -> float:
    """Return the cost of a TCP port."""
    if 0 < value < 65536:
        return 7.0 if value in _PORTS else 13.0
    return 8.0 if value in (0, -1) else 32 + WRONG_COST


def throttle_time_cost(value: int) -> float:
    """Return the cost of a throttle time in ms, usually 0."""
    if value > 0:
        return 8.0 + 0.6 * value.bit_length() if value <= MINUTE else _GAMMA[value.bit_length()] + 3
    return 0.5 if value == 0 else 32 + WRONG_COST


def small_number_cost(value: int) -> float:
    """Return the cost of an epoch or index, which is a small number, or -1 for none."""
    if value > 0:
        return _GAMMA[value.bit_length()]
    return (
        _ZERO_COST if value == 0 else 4.0 if value == -1 else 8.0 if value == -2 else 18 + _GAMMA[(-value).bit_length()]
    )


def partition_cost(value: int) -> float:
    """Return the cost of a partition's index; real indexes are small and never negative."""
    return small_number_cost(value) if value >= 0 else OUTSIDE_SET_COST + small_number_cost(value)


def node_id_cost(value: int) -> float:
    """Return the cost of a broker's id in a list of brokers; real ids are small and never negative."""
    return (
        2.0 + small_number_cost(value)
        if value == 0
        else small_number_cost(value)
        if value > 0
        else OUTSIDE_SET_COST + small_number_cost(value)
    )


def quantity_cost(value: int) -> float:
    """Return the cost of a quantity, which is rarely 0."""
    return small_number_cost(value) if value > 0 or value == -1 else 6.0 + small_number_cost(value)


def version_cost(value: int) -> float:
    """Return the cost of the version of an API or a feature."""
    return small_number_cost(value) if value >= 0 else WRONG_COST


def min_version_cost(value: int) -> float:
    """Return the cost of the lowest version of an API, usually 0."""
    return 0.7 if value == 0 else 2.0 + version_cost(value)


def max_version_cost(value: int) -> float:
    """Return the cost of the highest version of an API, often more than 0."""
    return 2.0 if value == 0 else version_cost(value)


def api_key_cost(value: int) -> float:
    """Return the cost of an API key."""
    return 6.0 if schemas.api(value) is not None else WRONG_COST


def random_id_cost(value: int) -> float:
    """Return the cost of a random positive id, or 0 for none."""
    return 32.0 if value >= 1 << 20 else 1.0 if value == 0 else 8.0 + small_number_cost(value)


def int64_cost(value: int) -> float:
    """Return the cost of an offset or a producer id."""
    if value > 0:
        return _INT64_COSTS[value.bit_length()]
    return (
        _ZERO_COST
        if value == 0
        else 4.0
        if value == -1
        else 8.0
        if value > -6
        else 18 + _INT64_COSTS[(-value).bit_length()]
    )


def timestamp_cost(value: int) -> float:
    """Return the cost of a timestamp in ms; 0 and -1 stand for none, and ListOffsets has special values down to -6."""
    if value in _TIMES:
        return 36.0
    return 4.0 if value in (0, -1) else 7.0 if -7 < value < 0 else 8.0 + int64_cost(value)


def duration_cost(value: int) -> float:
    """Return the cost of a configured duration in ms, usually a round number."""
    if value in _DURATIONS:
        return 8.0
    if value <= 0:
        return 5.0 if value >= -1 else OUTSIDE_SET_COST + int64_cost(value)
    return (
        13.0
        if value % 100 == 0 and value < 1 << 32
        else 5.0 + (small_number_cost(value) if value < 1 << 20 else int64_cost(value))
    )


def size_cost(value: int) -> float:
    """Return the cost of a configured size in bytes, usually a power of two, or the maximum."""
    if value in _CAPACITIES:
        return 7.0
    return 12.0 if value > 0 and value & (value - 1) == 0 else 4.0 + small_number_cost(value)


def uuid_cost(value: bytes) -> float:
    """Return the cost of a uuid: a random one (version 4), or a reserved one, which is nearly all zeros."""
    if not any(value[:15]):
        return 4.0
    return 92.0 if value[6] >> 4 == 4 and value[8] >> 6 == 2 else 100.0


def double_cost(value: float) -> float:
    """Return the cost of a quota."""
    return 4.0 if value == 0 else 44.0 if 1e-9 < abs(value) < 1e15 else 64 + WRONG_COST


def operations_cost(value: int) -> float:
    """Return the cost of a set of ACL operations, which is usually not requested."""
    return 1.0 if value == -(1 << 31) else 12.0 if 0 < value < 1 << 14 else 10.0 if value == 0 else 44.0 + WRONG_COST


_COSTS: dict[str, Cost] = {
    "partition": partition_cost,
    "node": node_id_cost,
    "number": quantity_cost,
    "version": version_cost,
    "capacity": size_cost,
    "random": random_id_cost,
}


def integer_cost(field: Field) -> Cost:
    """Return the cost function for the integers of a field."""
    name = field.name
    if field.type == "bool":
        return boolean_cost
    if field.type == "float64":
        return double_cost
    if field.type == "uuid":
        return uuid_cost
    if field.type == "int16" and (name.endswith("error_code") or name == "error"):
        return error_code_cost
    if name.endswith("error_code"):
        return own_error_cost
    if name == "throttle_time_ms":
        return throttle_time_cost
    if name == "port" and field.type in ("int32", "uint16", "int16"):
        return port_cost
    if name.endswith("authorized_operations"):
        return operations_cost
    if name == "api_key":
        return api_key_cost
    if name in ("min_version", "max_version"):
        return min_version_cost if name == "min_version" else max_version_cost
    if field.type == "int8" and (code_cost := _code_table_cost(name)):
        return code_cost
    return _with_default(field, _cost_by_role(field))


def _cost_by_role(field: Field) -> Cost:
    name, is_wide = field.name, field.type == "int64"
    if is_wide and ("timestamp" in name or name.endswith("time_ms")) and name != "retention_time_ms":
        return timestamp_cost
    if name.endswith("_ms") or name == "duration_filter":
        return duration_cost
    role = _ROLES.get(name)
    return int64_cost if is_wide else _COSTS[role] if role else small_number_cost


def _with_default(field: Field, cost: Cost) -> Cost:
    default = field.default
    if usual_values := _USUAL_VALUES.get(field.name):
        return lambda value: _USUAL_COST if value in usual_values else cost(value)
    if not isinstance(default, int) or isinstance(default, bool) or default == 0:
        return cost
    default_cost = min(_DEFAULT_COST, cost(default))
    return lambda value: default_cost if value == default else cost(value)


def _code_table_cost(name: str) -> Cost | None:
    """Return the cost function of a field with a table of codes; None for other fields."""
    explain_code = FIELDS.get(name)
    meanings = {value: meaning for value in range(-2, 64) if explain_code and (meaning := explain_code(value))}
    if len(meanings) < 2:
        return None
    costs = {value: 8.0 if meaning == "UNKNOWN" else 3.0 for value, meaning in meanings.items()}
    if name.startswith("resource_type"):
        costs |= dict.fromkeys((8, 16, 32), 4.0)  # the resource types of configurations have their own table
    return lambda value: costs.get(value, OUTSIDE_SET_COST)
