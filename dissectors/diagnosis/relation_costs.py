"""Costs, in bits, of relations between the fields of a decoded frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

Values = Mapping[str, Any]

_IN_REPLICAS = ("isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr")
_NODES = ("leader_id", "controller_id")

#: Fields in ascending order, and the cost if they are not.
_ASCENDING = (
    (("log_start_offset", "last_stable_offset", "high_watermark"), 6.0),
    (("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"), 6.0),
    (("issue_timestamp", "expiry_timestamp", "max_timestamp"), 6.0),
    (("min_version", "max_version"), 8.0),
    (("min_supported_version", "max_supported_version"), 8.0),
    (("min_version_level", "max_version_level"), 8.0),
    (("usable_bytes", "total_bytes"), 6.0),
    (("first_offset", "last_offset"), 6.0),
    (("min_bytes", "max_bytes"), 4.0),
    (("session_timeout_ms", "rebalance_timeout_ms"), 2.0),
    (("heartbeat_interval_ms", "session_timeout_ms"), 4.0),
)

#: Pairs of fields that are either both negative or both not, and the cost if only one is negative.
_SAME_SIGN = (("producer_id", "producer_epoch", 5.0), ("offset", "leader_epoch", 1.0))

#: Fields that identify the elements of an array: no two elements have the same value.
_KEYS = (
    "partition_index", "partition", "partition_id", "index", "node_id", "broker_id", "topic_id", "topic", "topic_name",
    "api_key", "member_id", "group_id", "name", "replica_id",
)  # fmt: skip
_INDEXES = frozenset({*_KEYS[:4], "api_key"})

#: Arrays of numbers without duplicates.
_SETS = frozenset(
    {"replica_nodes", "isr_nodes", "replicas", "isr", "offline_replicas", "partition_indexes", "partitions",
     "broker_ids", "adding_replicas", "removing_replicas"}
)  # fmt: skip

_DUPLICATE_COST = 4.0
_ASCENDING_BONUS = 1.5
_MAX_ASCENDING_BONUS = 4.0

#: Config types with numeric or boolean values (BOOLEAN, INT, SHORT, LONG), in ConfigDef's text form.
_NUMERIC_CONFIG_TYPES = (3, 4, 5)

#: The most elements of an array that are compared.
_SAMPLE = 20


def relation_cost(header: Values, body: Values) -> float:
    """Return the cost of contradictions between fields, minus a bonus for agreements."""
    brokers = body.get("brokers")
    broker_ids = None
    if isinstance(brokers, list) and brokers and all(isinstance(broker, Mapping) for broker in brokers):
        broker_ids = {broker.get("node_id", broker.get("broker_id")) for broker in brokers}
    cost = _members_cost(header, body)
    for values in _structs(body):
        cost += (
            _replica_roles_cost(values, broker_ids) + _order_cost(values) + _meaning_cost(values) + _arrays_cost(values)
        )
    return cost


def _structs(values: Values) -> Iterator[Values]:
    """Yield a body and the structs in it."""
    yield values
    for value in values.values():
        if isinstance(value, Mapping):
            yield from _structs(value)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for element in value[:_SAMPLE]:
                yield from _structs(element)


def _replica_roles_cost(values: Values, broker_ids: set[Any] | None) -> float:
    """Return the cost of a leader or in-sync replica that is not a replica, or of a leader that is not a broker."""
    cost = 0.0
    replicas = values.get("replica_nodes", values.get("replicas"))
    leader = values.get("leader_id", values.get("leader"))
    if isinstance(replicas, list) and replicas:
        for name in _IN_REPLICAS:
            cost += 4.0 * sum(replica not in replicas for replica in (values.get(name) or ())[:3])
        if (isr := values.get("isr_nodes", values.get("isr"))) and isinstance(leader, int) and leader != -1:
            cost += 1.0 * (leader not in isr)
        if isinstance(leader, int) and leader != -1:
            cost += -2.0 if leader == replicas[0] else -1.0 if leader in replicas else 3.0
    if broker_ids is not None:
        for name in _NODES:
            if (value := values.get(name, -1)) != -1:
                cost += -1.5 if value in broker_ids else 4.0
    return cost


def _order_cost(values: Values) -> float:
    cost = 0.0
    for names, penalty in _ASCENDING:
        numbers = [value for name in names if isinstance(value := values.get(name), int) and value >= 0]
        cost += penalty * (numbers != sorted(numbers))
    for name, other_name, penalty in _SAME_SIGN:
        if (
            name in values
            and other_name in values
            and isinstance(values[name], int)
            and isinstance(values[other_name], int)
        ):
            cost += penalty * ((values[name] < 0) != (values[other_name] < 0))
    return cost


def _meaning_cost(values: Values) -> float:
    cost = 0.0
    if values.get("error_code") == 0 and values.get("error_message"):
        cost += 6.0
    if values.get("error_code") and values.get("assignment"):
        cost += 14.0  # a refused member gets no assignment
    if isinstance(name := values.get("name"), str) and "is_internal" in values:
        cost += 3.0 * (bool(values["is_internal"]) != name.startswith("__"))
    config_type, value = values.get("config_type"), values.get("value")
    if isinstance(config_type, int) and isinstance(value, str) and value:
        cost += 2.0 * ((config_type == 1) != (value in ("true", "false")))
        cost += 2.0 * ((config_type in _NUMERIC_CONFIG_TYPES) != value.removeprefix("-").isdigit())
    return cost


def _arrays_cost(values: Values) -> float:
    """Return the cost of array elements with equal keys, minus a bonus for indexes that count up."""
    cost = 0.0
    for name, value in values.items():
        if not isinstance(value, list) or len(value) < 2:
            continue
        sample = value[:_SAMPLE]
        if name in _SETS and isinstance(value[0], int):
            cost += _DUPLICATE_COST * (len(set(sample)) < len(sample))
        elif isinstance(value[0], Mapping):
            for key in _KEYS:
                if key in value[0]:  # later elements may be incomplete
                    cost += _keys_cost(key, [struct[key] for struct in sample if key in struct])
    return cost


def _keys_cost(key: str, values: list[Any]) -> float:
    if len(set(values)) < len(values):
        return _DUPLICATE_COST
    if key in _INDEXES:
        ascending = sum(following == previous + 1 for previous, following in pairwise(values))
        return -float(min(_ASCENDING_BONUS * ascending, _MAX_ASCENDING_BONUS))
    return 0.0


def _members_cost(header: Values, body: Values) -> float:
    """Return the cost of a leader that is not a member, minus a bonus if the member id begins with the client id."""
    cost = 0.0
    client_id, member = header.get("client_id"), body.get("member_id")
    if isinstance(client_id, str) and client_id and isinstance(member, str) and member:
        cost -= 8.0 * member.startswith(f"{client_id}-")
    leader, members = body.get("leader"), body.get("members")
    if isinstance(leader, str) and leader and isinstance(members, list):
        member_ids = {member.get("member_id") for member in members if isinstance(member, Mapping)}
        if member_ids:
            cost += -3.0 if leader in member_ids else 4.0
            cost += 0.0 if member == leader else 2.0
        else:
            cost += 1.0 * (member == leader)
    return cost
