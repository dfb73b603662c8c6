from typing import Any

import pytest

from dissectors import embedded
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from tests.dissectors.embedded.samples import PAYLOADS, join_request, real_message, response

VERSIONS = range(1, 12)


def expand_user_data(user_data: bytes, assignor: str) -> dict[str, Any]:
    data = b"\x00\x00" + encode(layout("ConsumerProtocolSubscription", 0), {"topics": ["t"], "user_data": user_data})
    [protocol] = embedded.expand(join_request(data, assignor))["protocols"]
    return dict(protocol["metadata"]["data"])


def expand_assignment(user_data: bytes, version: int = 5, assignor: str | None = "stream") -> dict[str, Any]:
    data = b"\x00\x00" + encode(layout("ConsumerProtocolAssignment", 0), {"user_data": user_data})
    message = response("SyncGroup", version, protocol_type="consumer", protocol_name=assignor, assignment=data)
    return dict(embedded.expand(message)["assignment"]["data"])


@pytest.mark.parametrize("version", VERSIONS)
def test_streams_subscription_is_decoded_in_each_version(version: int) -> None:
    payload = expand_user_data(PAYLOADS[f"streams-sub-{version}"], "stream")["user_data"]
    assert payload["type"] == "SubscriptionInfoData"
    assert "rest" not in payload
    data = payload["data"]
    assert (data["version"], data["process_id"]) == (version, "AAAAAAAAAAEAAAAAAAAAAg")
    assert data.get("user_end_point") == (b"h1:8080" if version > 1 else None)
    if version >= 11:
        assert data["client_tags"] == [{"key": b"zone", "value": b"a"}]


@pytest.mark.parametrize("version", VERSIONS)
def test_streams_assignment_is_decoded_in_each_version(version: int) -> None:
    payload = expand_assignment(PAYLOADS[f"streams-assign-{version}"])["user_data"]
    assert payload["type"] == "AssignmentInfo"
    assert "rest" not in payload
    data = payload["data"]
    assert data["version"] == version
    assert [(task["topic_group_id"], task["partition"]) for task in data["active_tasks"]] == [(0, 0), (1, 0)]
    [standby] = data["standby_tasks"]
    assert standby["partitions"] == [{"topic": "orders", "partition": 1}]
    hosts = data.get("partitions_by_host", [])
    by_name = [{"host": "h1", "port": 8080, "partitions": [{"topic": "orders", "partition": 0}]}]
    by_index = [{"host": "h1", "port": 8080, "partitions": [{"topic_index": 0, "partition": 0}]}]
    assert hosts == ([] if version == 1 else by_name if version < 5 else by_index)
    if version >= 5:
        assert data["topics"] == [{"index": 0, "topic": "orders"}]
    if version >= 7:
        assert data["next_rebalance_ms"] == 1_700_000_000_000


def test_task_of_a_named_topology_keeps_its_name() -> None:
    [task] = expand_assignment(PAYLOADS["streams-assign-named"])["user_data"]["data"]["active_tasks"]
    assert "".join(map(chr, task["named_topology"])) == "top"


def test_streams_assignment_is_recognised_without_an_assignor_name() -> None:
    assert expand_assignment(PAYLOADS["streams-assign-11"], version=3)["user_data"]["type"] == "AssignmentInfo"
    assert expand_assignment(b"mine", version=3)["user_data"] == b"mine"


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x0c", b"\xff\xff\xff\xff", b"\x00"])
def test_streams_user_data_of_an_unknown_version_stays_bytes(data: bytes) -> None:
    assert expand_user_data(data, "stream")["user_data"] == data
    assert "version" in expand_user_data(data, "stream")["user_data_error"]
    assert expand_assignment(data)["user_data"] == data
    assert "version" in expand_assignment(data)["user_data_error"]


def test_empty_streams_user_data_is_not_an_error() -> None:
    assert "user_data_error" not in expand_user_data(b"", "stream") | expand_assignment(b"")


def test_sticky_user_data_holds_the_previous_assignment() -> None:
    previous = [{"topic": "orders", "partitions": [0, 1]}]
    sticky = expand_user_data(PAYLOADS["sticky"], "sticky")["user_data"]
    assert sticky == {
        "type": "StickyAssignorUserData",
        "data": {"previous_assignment": previous, "generation": 7},
    }
    before_generations = expand_user_data(PAYLOADS["sticky"][:-4], "sticky")["user_data"]
    assert before_generations["data"] == {"previous_assignment": previous}
    assert expand_user_data(PAYLOADS["cooperative"], "cooperative-sticky")["user_data"]["data"] == {"generation": 7}


def test_sticky_user_data_of_librdkafka_is_decoded() -> None:
    [protocol] = embedded.expand(real_message("confluent-3.9.1 JoinGroup v5 request sticky"))["protocols"]
    data = protocol["metadata"]["data"]["user_data"]["data"]
    assert data.keys() == {"previous_assignment", "generation"}


def test_user_data_of_other_assignors_stays_bytes() -> None:
    assert expand_user_data(PAYLOADS["sticky"], "range")["user_data"] == PAYLOADS["sticky"]
