"""Relations: what fields say of each other in a frame that reads well, in bits where they do not."""

from __future__ import annotations

from typing import Any

_IN_REPLICAS = ("isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr")
_OFFSETS = ("log_start_offset", "last_stable_offset", "high_watermark")
_TIMES = ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms")
_NODES = ("leader_id", "controller_id")


def contradictions(body: dict[str, Any]) -> float:
    """What it costs that fields of a body contradict each other."""
    brokers = body.get("brokers")
    nodes = None
    if isinstance(brokers, list) and brokers and all(isinstance(each, dict) for each in brokers):
        nodes = {each.get("node_id", each.get("broker_id")) for each in brokers}
    return _struct(body, nodes)


def _struct(values: dict[str, Any], nodes: set[Any] | None) -> float:
    cost = 0.0
    replicas = values.get("replica_nodes")
    if isinstance(replicas, list):
        for name in _IN_REPLICAS:
            cost += 4.0 * sum(each not in replicas for each in (values.get(name) or ())[:3])
        if (leader := values.get("leader_id", -1)) != -1 and replicas:
            cost += 3.0 * (leader not in replicas)
    if nodes is not None:
        cost += sum(4.0 for name in _NODES if values.get(name, -1) not in (-1, *nodes))
    offsets = [value for name in _OFFSETS if isinstance(value := values.get(name), int) and value >= 0]
    cost += 6.0 * (offsets != sorted(offsets))
    times = [value for name in _TIMES if isinstance(value := values.get(name), int)]
    cost += 6.0 * (times != sorted(times))
    if values.get("min_version", 0) > values.get("max_version", 0) >= 0:
        cost += 8.0
    if values.get("error_code") == 0 and values.get("error_message"):
        cost += 6.0
    for value in values.values():
        if isinstance(value, dict):
            cost += _struct(value, nodes)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            cost += sum(_struct(each, nodes) for each in value[:20])
    return cost
