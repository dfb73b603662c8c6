"""Routes for replaying to a cluster: the live broker for each request, and the replicas of new topics. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from dissectors.interception.addresses import locate_addresses
from dissectors.messages import summary
from dissectors.messages.message import Message
from kproxy.proxy.address import TcpAddress
from kproxy.replay.steps import Action, CapturedExchange, Step

Row = dict[str, Any]
#: FindCoordinator's key types.
_GROUP, _TRANSACTION = 0, 1
#: Requests with a group or a transactional id that do not go to its coordinator.
_NOT_COORDINATED = frozenset({"FindCoordinator", "Produce", "ShareAcknowledge", "ShareFetch"})


class ClusterRoutes:
    """Maps each captured broker to a live broker, and each captured coordinator to the live coordinator.

    A captured broker is mapped to the live one with its node id, else to one of the others. New topics get their
    captured replicas, so that the leader of each partition is the broker that the captured requests go to.

    Args:
        steps: The steps of the capture.
        live: The live brokers by node id.
    """

    def __init__(self, steps: Iterable[Step], live: Mapping[int, TcpAddress]) -> None:
        self._live = live
        #: Captured address -> node id; topic -> partition -> captured replicas, the leader first.
        self._captured_nodes: dict[str, int] = {}
        self._replicas: defaultdict[str, dict[int, list[int]]] = defaultdict(dict)
        self._partition_counts: dict[str, int] = {}  # of new topics
        self._coordinators: dict[tuple[int, str], int] = {}
        for step in steps:
            if step.action is Action.RECEIVE and step.exchange is not None and step.exchange.response is not None:
                self._learn_from_captured(step.exchange.response)
        self._nodes = _pair_nodes(set(self._captured_nodes.values()), live)

    def address(self, exchange: CapturedExchange) -> TcpAddress | None:
        """Return the live broker for a request, None if the captured one is unknown."""
        request = exchange.request
        node = None if request is None else self._find_coordinator(request)
        if node is None:
            captured = self._captured_nodes.get(exchange.line.server)
            node = None if captured is None else self._nodes[captured]
        return None if node is None else self._live.get(node)

    def learn(self, request: Message, live: Message) -> None:
        """Learn the coordinators in a live FindCoordinator response."""
        if live.api != "FindCoordinator" or not live.well_formed:
            return
        key_type = request.body.get("key_type", 0)
        for coordinator in live.body.get("coordinators") or [{**live.body, "key": request.body.get("key", "")}]:
            if not coordinator["error_code"]:
                self._coordinators[key_type, coordinator["key"]] = coordinator["node_id"]

    def body(self, request: Message) -> Row:
        """Return the body to send: CreateTopics and CreatePartitions assign the replicas as in the capture."""
        if request.api == "CreateTopics" and request.well_formed:
            return {**request.body, "topics": [self._with_captured_replicas(topic) for topic in request.body["topics"]]}
        if request.api == "CreatePartitions" and request.well_formed:
            return {**request.body, "topics": [self._with_new_replicas(topic) for topic in request.body["topics"]]}
        return request.body

    def _learn_from_captured(self, response: Message) -> None:
        for span in locate_addresses(response.frame, response.api_key, response.version):
            self._captured_nodes[str(TcpAddress(span.address.host, span.address.port))] = span.address.node_id
        if response.api == "Metadata" and response.well_formed:
            for topic in response.body["topics"]:
                for partition in topic["partitions"]:
                    leader, replicas = partition["leader_id"], partition["replica_nodes"]
                    if topic["name"] and leader in replicas:
                        leader_first = [leader, *(node for node in replicas if node != leader)]
                        self._replicas[topic["name"]].setdefault(partition["partition_index"], leader_first)

    def _find_coordinator(self, request: Message) -> int | None:
        if request.api in _NOT_COORDINATED:
            return None
        transaction = next(iter(request.body.get("transactional_ids", ())), summary.transactional_id(request))
        keys = [(_TRANSACTION, transaction), (_GROUP, summary.group_id(request))]
        if request.api == "TxnOffsetCommit":
            keys.reverse()
        return next((self._coordinators.get((kind, key)) for kind, key in keys if key is not None), None)

    def _with_captured_replicas(self, topic: Row) -> Row:
        name, count = topic["name"], topic["num_partitions"]
        self._partition_counts[name] = count
        replicas = self._live_replicas(name, range(count))
        if not replicas or topic["assignments"]:
            return topic
        assignments = [
            {"partition_index": index, "broker_ids": broker_ids} for index, broker_ids in enumerate(replicas)
        ]
        return {**topic, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}

    def _with_new_replicas(self, topic: Row) -> Row:
        old_count = self._partition_counts.get(topic["name"])
        if old_count is None or topic["assignments"]:
            return topic
        replicas = self._live_replicas(topic["name"], range(old_count, topic["count"]))
        if not replicas:
            return topic
        return {**topic, "assignments": [{"broker_ids": broker_ids} for broker_ids in replicas]}

    def _live_replicas(self, topic: str, partitions: Iterable[int]) -> list[list[int]]:
        """Return the live replicas of each partition; empty if some are unknown, or two are on the same broker."""
        captured_replicas = self._replicas.get(topic, {})
        replicas = [[self._nodes.get(node, -1) for node in captured_replicas.get(index, ())] for index in partitions]
        return (
            replicas
            if all(replica and -1 not in replica and len({*replica}) == len(replica) for replica in replicas)
            else []
        )


def _pair_nodes(captured: set[int], live: Iterable[int]) -> dict[int, int]:
    """Map each captured node to a live one: the one with the same id, else an unpaired one if possible."""
    nodes = sorted(live)
    paired = {node: node for node in captured if node in nodes}
    free_nodes = [node for node in nodes if node not in paired]
    for index, node in enumerate(sorted(captured - paired.keys())):
        paired[node] = free_nodes[index] if index < len(free_nodes) else nodes[index % len(nodes)]
    return paired
