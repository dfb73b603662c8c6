"""FindCoordinator: says which broker looks after a group, a transactional id, or a share partition.

Leaves out: nothing. Every broker that is up has its part of them, by a hash of the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.coordinators import coordinator
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("FindCoordinator")
def find_coordinator(request: Request) -> Body:
    """Answer for each key; one stands alone before version 4."""
    body = request.body
    kind = body.get("key_type", 0)
    if request.version < 4:
        return _found(request, body["key"], kind)
    return {"coordinators": [{"key": key, **_found(request, key, kind)} for key in body["coordinator_keys"]]}


def _found(request: Request, key: str, kind: int) -> Mapping[str, Any]:
    if kind not in (0, 1, 2):
        return _refused(Error.INVALID_REQUEST, f"Unknown coordinator type {kind}")
    if kind == 0 and not key:
        return _refused(Error.INVALID_GROUP_ID, "The group id is empty")
    node = coordinator(request.cluster, key)
    return {"error_message": "", "node_id": node.id, "host": node.host, "port": node.port}


def _refused(error: Error, message: str) -> Mapping[str, Any]:
    return {"error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}
