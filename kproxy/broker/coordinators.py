"""Which broker coordinates what."""

from __future__ import annotations

import zlib

from kproxy.broker.cluster import BrokerNode, Cluster
from kproxy.broker.errors import Error, Refused
from kproxy.broker.request import Request


def coordinator(cluster: Cluster, key: str) -> BrokerNode:
    """The broker that looks after a group or a transactional id, among those that are up."""
    up = sorted((node for node in cluster.nodes.values() if node.up), key=lambda node: node.id)
    return up[zlib.crc32(key.encode("utf-8", "surrogatepass")) % len(up)]


def check_coordinator(request: Request, key: str) -> None:
    """Raise `Refused` with NOT_COORDINATOR unless the broker that was asked looks after the key."""
    if coordinator(request.cluster, key) is not request.node:
        raise Refused(Error.NOT_COORDINATOR)
