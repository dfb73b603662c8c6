"""A capture of several brokers is replayed: the live broker of each request, and the brokers of new topics."""

from __future__ import annotations

import pytest

from dissectors.messages.message import read_request, read_response
from kproxy.proxy.address import TcpAddress
from kproxy.replay.exchange import Replayer
from kproxy.replay.routes import ClusterRoutes
from kproxy.replay.steps import Action
from tests.kproxy.frames import response
from tests.kproxy.replay.capture_stories import exchanges, steps

CLUSTER = """
open 1 client=10.0.0.9:1 server=10.0.0.1:9092
open 2 client=10.0.0.9:2 server=10.0.0.2:9092
open 3 client=10.0.0.9:3 server=bootstrap:9092
> Metadata v12 {"topics": [{"name": "orders"}]}
< {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}, {"node_id": 2, "host": "10.0.0.2", "port": 9092}],
  "topics": [{"name": "orders", "partitions": [
  {"partition_index": 0, "leader_id": 2, "replica_nodes": [1, 2]},
  {"partition_index": 1, "leader_id": 1, "replica_nodes": [1, 2]},
  {"partition_index": 2, "leader_id": 2, "replica_nodes": [2, 1]}]}]}
"""
ONE, TWO, FIVE = TcpAddress("a", 1), TcpAddress("b", 2), TcpAddress("c", 5)


def addresses(story: str, live: dict[int, TcpAddress]) -> list[TcpAddress | None]:
    captured_steps = steps(CLUSTER + story)
    routes = ClusterRoutes(captured_steps, live)
    return [routes.address(step.exchange) for step in captured_steps if step.exchange and step.action is Action.SEND][
        1:
    ]


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        ({1: ONE, 2: TWO, 5: FIVE}, [ONE, TWO, None]),
        ({1: ONE, 5: FIVE}, [ONE, FIVE, None]),
        ({5: FIVE, 6: ONE}, [FIVE, ONE, None]),
    ],
)
def test_each_captured_broker_maps_to_at_most_one_live_broker(
    live: dict[int, TcpAddress], expected: list[TcpAddress | None]
) -> None:
    assert addresses("> Fetch v11 {}\n2> Fetch v11 {}\n3> Fetch v11 {}", live) == expected


COORDINATED = [
    ("Heartbeat v4", {"group_id": "g"}, FIVE),
    ("DescribeGroups v5", {"groups": ["g"]}, FIVE),
    ("Heartbeat v4", {"group_id": "other"}, ONE),
    ("EndTxn v3", {"transactional_id": "t"}, TWO),
    ("DescribeTransactions v0", {"transactional_ids": ["t"]}, TWO),
    ("AddOffsetsToTxn v3", {"transactional_id": "t", "group_id": "g"}, TWO),
    ("TxnOffsetCommit v3", {"transactional_id": "t", "group_id": "g"}, FIVE),
    ("Produce v9", {"transactional_id": "t", "acks": -1}, ONE),
    ("ShareFetch v1", {"group_id": "g"}, ONE),
]


@pytest.mark.parametrize("version", [3, 4])
def test_requests_go_to_the_coordinators_of_the_live_cluster(version: int) -> None:
    story = "".join(f"> {name} {values}\n".replace("'", '"') for name, values, _ in COORDINATED)
    captured_exchanges = exchanges(CLUSTER + story)
    routes = ClusterRoutes(steps(CLUSTER), {1: ONE, 2: TWO, 5: FIVE})
    for key_type, key, node in ((0, "g", 5), (1, "t", 2)):
        lookup = {"key": key} if version < 4 else {"coordinator_keys": [key]}
        coordinator = {"node_id": node} if version < 4 else {"coordinators": [{"key": key, "node_id": node}]}
        [find_coordinator] = exchanges(f'> FindCoordinator v{version} {{"key_type": {key_type}}}')
        assert find_coordinator.request is not None
        find_coordinator.request.body.update(lookup)
        routes.learn(
            find_coordinator.request, read_response(response("FindCoordinator", version, coordinator), 10, version)
        )
        unavailable = {name: -1 if name == "node_id" else value for name, value in coordinator.items()} | {
            "error_code": 15
        }
        if version < 4:  # only the last successful response counts
            routes.learn(
                find_coordinator.request, read_response(response("FindCoordinator", version, unavailable), 10, version)
            )
    assert [routes.address(exchange) for exchange in captured_exchanges[1:]] == [address for *_, address in COORDINATED]


def test_new_topics_keep_their_captured_leaders() -> None:
    story = """
    > CreateTopics v7 {"topics": [{"name": "orders", "num_partitions": 2, "replication_factor": 2},
      {"name": "unknown", "num_partitions": 1, "replication_factor": 1}]}
    > CreatePartitions v3 {"topics": [{"name": "orders", "count": 3, "assignments": null}]}
    """
    replayer = Replayer(routes=ClusterRoutes(steps(CLUSTER), {2: TWO, 7: ONE}))
    created_topics, extended_topics = [
        read_request(replayer.frame(exchange)).body["topics"] for exchange in exchanges(story)
    ]
    assert created_topics == [
        {"name": "orders", "num_partitions": -1, "replication_factor": -1, "configs": [], "assignments": [
            {"partition_index": 0, "broker_ids": [2, 7]}, {"partition_index": 1, "broker_ids": [7, 2]}]},
        {"name": "unknown", "num_partitions": 1, "replication_factor": 1, "configs": [], "assignments": []},
    ]  # fmt: skip
    assert extended_topics == [{"name": "orders", "count": 3, "assignments": [{"broker_ids": [2, 7]}]}]


def test_smaller_cluster_is_left_to_place_replicas_itself() -> None:
    story = '> CreateTopics v7 {"topics": [{"name": "orders", "num_partitions": 2, "replication_factor": 2}]}'
    [exchange] = exchanges(story)
    assert exchange.request is not None
    three_brokers = CLUSTER.replace("[1, 2]", "[1, 2, 3]").replace(
        '}],\n  "topics"', '}, {"node_id": 3, "host": "10.0.0.3", "port": 9092}],\n  "topics"'
    )
    routes = ClusterRoutes(steps(three_brokers), {1: ONE, 2: TWO})
    assert Replayer(routes=routes).frame(exchange) == exchange.request.frame
