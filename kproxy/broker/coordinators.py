"""The coordinators of groups and transactional ids."""

from __future__ import annotations

import zlib

from kproxy.broker.cluster import BrokerNode, Cluster
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.request import Request


def find_coordinator_node(cluster: Cluster, key: str) -> BrokerNode:
    """Return the broker that coordinates a group or transactional id, among those that are up."""
    live_nodes = sorted((node for node in cluster.nodes.values() if node.up), key=lambda node: node.id)
    return live_nodes[zlib.crc32(key.encode("utf-8", "surrogatepass")) % len(live_nodes)]


def check_coordinator(request: Request, key: str) -> None:
    """Raise `ApiError` with NOT_COORDINATOR unless the broker that received the request coordinates the key."""
    if find_coordinator_node(request.cluster, key) is not request.node:
        raise ApiError(Error.NOT_COORDINATOR)
