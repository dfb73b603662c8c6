"""FindCoordinator: returns the broker that coordinates a group, a transactional id, or a share partition.

The first request creates Kafka's internal topic for that state, for clients that look for it.

Leaves out: records in these topics; the state is stored elsewhere. Keys are distributed over all live brokers by hash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dissectors.schemas.codes import ApiKey
from dissectors.schemas.lines import ReleaseLine
from kproxy.broker.access import CLUSTER, require
from kproxy.broker.auto_creation import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, AutoCreation
from kproxy.broker.coordinators import find_coordinator_node
from kproxy.broker.errors import ApiError, Error, message_of
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_SHARE_GROUP_HEARTBEAT: Final = ApiKey.SHARE_GROUP_HEARTBEAT
_STATE_TOPICS: Final = {_GROUP: CONSUMER_OFFSETS, _TRANSACTION: TRANSACTION_STATE, _SHARE: SHARE_GROUP_STATE}
#: The operation to authorize for each type of key.
_AUTHORIZATION: Final = (("DESCRIBE", "GROUP"), ("DESCRIBE", "TRANSACTIONAL_ID"), ("CLUSTER_ACTION", "CLUSTER"))
#: Group, topic id and partition (org.apache.kafka.server.share.SharePartitionKey).
_SHARE_KEY: Final = re.compile(r"\s*\S.*:[\w-]{22}:[+-]?\d+", re.ASCII | re.DOTALL)


@api("FindCoordinator")
async def find_coordinator(request: Request) -> Body:
    """Return the coordinator of each key; before version 4 there is one key, at the top level."""
    body, line = request.body, request.cluster.line
    kind = body.get("key_type", _GROUP)
    is_valid = kind in _STATE_TOPICS and (kind != _SHARE or _SHARE_GROUP_HEARTBEAT in line.served)
    if not is_valid and not line.is_at_least("2.3"):
        request.session.closing = True  # Kafka cannot parse such a request
        return None
    if request.version >= 4:
        message = "" if kind in _STATE_TOPICS else message_of(Error.INVALID_REQUEST)  # 2.8 and later
        keys = body["coordinator_keys"]
        coordinators = {
            key: _coordinator_result(request, key, kind) if is_valid else _invalid_key_type(line)
            async for key in paced(keys)
        }
        return {"coordinators": [{"key": key, "error_message": message, **coordinators[key]} for key in keys]}
    response = _coordinator_result(request, body["key"], kind) if is_valid else _invalid_key_type(line)
    error = response.get("error_code", Error.NONE)
    return {"error_message": message_of(error) if line.is_at_least("2.3") else None, **response}


def _coordinator_result(request: Request, key: str, kind: int) -> Mapping[str, Any]:
    if kind == _SHARE and (request.version < 6 or not _SHARE_KEY.fullmatch(key)):
        return _error_response(Error.INVALID_REQUEST)
    try:
        require(request, *_AUTHORIZATION[kind], CLUSTER if kind == _SHARE else key)
    except ApiError as api_error:
        return _error_response(api_error.error)
    if request.cluster.part(Topics).by_name(_STATE_TOPICS[kind]) is None:
        try:
            request.cluster.part(AutoCreation).create_now(_STATE_TOPICS[kind])
        except ApiError:  # e.g. the disk is full
            return _error_response(Error.COORDINATOR_NOT_AVAILABLE)
    node = find_coordinator_node(request.cluster, key)
    return {"node_id": node.id, **request.endpoint(node)}


def _invalid_key_type(line: ReleaseLine) -> Mapping[str, Any]:
    return _error_response(Error.INVALID_REQUEST if line.is_at_least("2.8") else Error.UNKNOWN_SERVER_ERROR)


def _error_response(error: Error) -> Mapping[str, Any]:
    return {"error_code": error, "node_id": -1, "host": "", "port": -1}
