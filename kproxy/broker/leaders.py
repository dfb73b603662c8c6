"""Leader hints: the current leader in Produce and Fetch responses with NOT_LEADER_OR_FOLLOWER (KIP-951)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kproxy.broker.request import Request
    from kproxy.broker.topics import Partition


class LeaderHints:
    """Collects the leaders that one response mentions."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._mentioned_ids: dict[int, None] = {}

    def current_leader(self, partition: Partition | None) -> Mapping[str, int]:
        """Return the value of the response field ``current_leader``."""
        if partition is None:
            return {"leader_id": -1, "leader_epoch": -1}
        if partition.leader >= 0:
            self._mentioned_ids[partition.leader] = None
        return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}

    def endpoints(self) -> list[Mapping[str, Any]]:
        """Return the response field ``node_endpoints``: the addresses of the leaders mentioned so far."""
        nodes = [self._request.cluster.nodes[broker_id] for broker_id in self._mentioned_ids]
        return [{"node_id": node.id, "rack": node.rack, **self._request.endpoint(node)} for node in nodes]
