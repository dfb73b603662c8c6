"""FindCoordinator: says which broker looks after a group, a transactional id, or a share partition.

The first question makes the topic that Kafka keeps their state in, for clients that look for it.

Leaves out: records in those topics; the state is kept elsewhere. Every broker that is up has its part of the keys, by a
hash of the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import CLUSTER, require
from kproxy.broker.configs import Configs
from kproxy.broker.coordinators import coordinator
from kproxy.broker.errors import Error, Refused
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics

#: Type of the key -> topic of the state, and the config that says how many partitions it has.
_STATE: Final = {
    0: ("__consumer_offsets", "offsets.topic.num.partitions"),
    1: ("__transaction_state", "transaction.state.log.num.partitions"),
    2: ("__share_group_state", "share.coordinator.state.topic.num.partitions"),
}

_SHARE: Final = 2
#: What has to be allowed for each kind of key.
_LEAVE: Final = (("DESCRIBE", "GROUP"), ("DESCRIBE", "TRANSACTIONAL_ID"), ("CLUSTER_ACTION", "CLUSTER"))


@api("FindCoordinator")
def find_coordinator(request: Request) -> Body:
    """Answer for each key; one stands alone before version 4."""
    body = request.body
    kind = body.get("key_type", 0)
    if request.version < 4:
        return _found(request, body["key"], kind)
    return {"coordinators": [{"key": key, **_found(request, key, kind)} for key in body["coordinator_keys"]]}


def _found(request: Request, key: str, kind: int) -> Mapping[str, Any]:
    if kind not in _STATE:
        return _refused(Error.INVALID_REQUEST, f"Unknown coordinator type {kind}")
    if kind == 0 and not key:
        return _refused(Error.INVALID_GROUP_ID, "The group id is empty")
    try:
        require(request, *_LEAVE[kind], CLUSTER if kind == _SHARE else key)
    except Refused as refused:
        return _refused(refused.error, str(refused))
    _make_topic(request, *_STATE[kind])
    node = coordinator(request.cluster, key)
    return {"error_message": "", "node_id": node.id, "host": node.host, "port": node.port}


def _refused(error: Error, message: str) -> Mapping[str, Any]:
    return {"error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}


def _make_topic(request: Request, name: str, config: str) -> None:
    topics = request.cluster.part(Topics)
    if topics.named(name) is None:
        partitions = int(request.cluster.part(Configs).broker(config))
        topics.create(name, topics.spread(partitions, topics.default_replication), internal=True)
