"""Bodies are compared field by field, except for fields whose values may differ."""

from __future__ import annotations

from typing import Any

from kproxy.comparison.bodies import BodyComparison, DifferenceKind, compare_bodies
from kproxy.comparison.kinds import ValueKind


def compare(a: dict[str, Any], b: dict[str, Any], message: str = "MetadataResponse", **options: Any) -> BodyComparison:
    return compare_bodies(message, a, b, **options)


def differences(a: dict[str, Any], b: dict[str, Any], message: str = "MetadataResponse", **options: Any) -> list[Any]:
    return [
        (difference.path, difference.a, difference.b, difference.why)
        for difference in compare(a, b, message, **options).differences
    ]


def test_ids_addresses_and_times_may_differ() -> None:
    a = {"throttle_time_ms": 0, "cluster_id": "x", "brokers": [{"node_id": 1, "host": "a", "port": 9092, "rack": None}]}
    b = {"throttle_time_ms": 9, "cluster_id": "y", "brokers": [{"node_id": 0, "host": "b", "port": 9093, "rack": None}]}
    assert differences(a, b) == []
    pairs = {(pair.kind, pair.path): (pair.a, pair.b) for pair in compare(a, b).pairs}
    assert pairs[ValueKind.NODE_ID, "brokers[0].node_id"] == (1, 0)


def test_any_kind_of_value_can_be_compared() -> None:
    result = differences({"cluster_id": "x"}, {"cluster_id": "y"}, may_differ=frozenset())
    assert result == [("cluster_id", "x", "y", DifferenceKind.VALUE)]


def test_unset_value_corresponds_only_to_another_unset_value() -> None:
    assert differences({"controller_id": 1}, {"controller_id": -1}) == [("controller_id", 1, -1, DifferenceKind.VALUE)]
    assert compare({"controller_id": -1}, {"controller_id": -1}) == BodyComparison()


def test_offsets_are_compared_unless_they_may_differ() -> None:
    a, b = {"responses": [{"base_offset": 0}]}, {"responses": [{"base_offset": 7}]}
    assert differences(a, b, "ProduceResponse") == [("responses[0].base_offset", 0, 7, DifferenceKind.VALUE)]
    assert differences(a, b, "ProduceResponse", may_differ=frozenset({ValueKind.OFFSET})) == []


def test_elements_are_compared_by_name_in_any_order() -> None:
    a = {"topics": [{"name": "x", "error_code": 0}, {"name": "y", "error_code": 0}, {"name": "z", "error_code": 0}]}
    b = {"topics": [{"name": "y", "error_code": 3}, {"name": "x", "error_code": 0}, {"name": "w", "error_code": 0}]}
    assert differences(a, b) == [
        ("topics[1].error_code", 0, 3, DifferenceKind.ERROR_CODE),
        ("topics[2]", {"name": "z", "error_code": 0}, None, DifferenceKind.ONLY_IN_A),
        ("topics[2]", None, {"name": "w", "error_code": 0}, DifferenceKind.ONLY_IN_B),
    ]


def test_topics_with_only_an_id_are_matched_by_their_name() -> None:
    def topics(*ids: tuple[str, int]) -> dict[str, Any]:
        return {"responses": [{"topic_id": id_, "error_code": error} for id_, error in ids]}

    names = {"1": "x", "2": "y", "8": "y", "9": "x"}.get
    a, b = topics(("1", 0), ("2", 5)), topics(("8", 5), ("9", 0))
    assert differences(a, b, "ProduceResponse", topic_names=(names, names)) == []


def test_node_ids_in_an_array_may_differ_but_not_their_number() -> None:
    a, b = {"isr_nodes": [1, 2]}, {"isr_nodes": [7]}
    assert differences(a, b) == [("isr_nodes[1]", 2, None, DifferenceKind.ONLY_IN_A)]


def test_only_common_fields_of_two_versions_are_compared() -> None:
    a, b = {"error_code": 0, "old": 1}, {"error_code": 1, "new": 2}
    assert len(differences(a, b)) == 3
    assert differences(a, b, same_layout=False) == [("error_code", 0, 1, DifferenceKind.ERROR_CODE)]


def test_fields_of_an_embedded_payload_may_also_differ() -> None:
    def body(leader: str, url: str) -> dict[str, Any]:
        return {
            "assignment": {"type": "ConnectAssignment", "version": 0, "data": {"leader": leader, "leader_url": url}}
        }

    assert differences(body("m-1", "u"), body("m-2", "u"), "SyncGroupResponse") == []
    assert [difference.path for difference in compare(body("m", "u"), body("m", "v")).differences] == [
        "assignment.data.leader_url"
    ]


def test_bytes_equal_their_base64_and_redacted_secrets_are_equal() -> None:
    assert differences({"value": b"abc"}, {"value": "YWJj"}) == []
    assert differences({"auth_bytes": "(redacted, 9 bytes)"}, {"auth_bytes": "(redacted, 12 bytes)"}) == []


def test_deeply_nested_bodies_are_compared() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"x": deep}
    assert differences(deep, deep) == []


def test_special_timestamps_are_compared_but_actual_ones_are_not() -> None:
    def list_offsets(timestamp: int) -> dict[str, Any]:
        return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]}

    pairs = [(-1, -2), (-1, 1_700_000_000_000), (1_600_000_000_000, 1_700_000_000_000), (-1, -1)]
    difference_counts = [
        len(compare_bodies("ListOffsetsRequest", list_offsets(a), list_offsets(b)).differences) for a, b in pairs
    ]
    assert difference_counts == [1, 1, 0, 0]


def test_partitions_of_an_assignment_may_differ_but_not_their_number() -> None:
    def with_partitions(*partitions: int) -> dict[str, Any]:
        return {
            "topics": [{"name": "orders", "partitions": [{"partition_index": partition} for partition in partitions]}]
        }

    pairs = [((0, 1), (2, 3)), ((0, 1), (0, 2)), ((0, 1), (3,))]
    difference_counts = [
        len(compare_bodies("OffsetFetchResponse", with_partitions(*a), with_partitions(*b)).differences)
        for a, b in pairs
    ]
    assert difference_counts == [0, 0, 1]
    metadata_counts = [
        len(compare_bodies("MetadataResponse", with_partitions(*a), with_partitions(*b)).differences) for a, b in pairs
    ]
    assert metadata_counts == [4, 2, 3]
