"""DeleteGroups: deletes groups without members, and their offsets.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError
from kproxy.broker.groups.groups import Groups
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("DeleteGroups")
async def delete_groups(request: Request) -> Body:
    """Return one result per group."""
    results = [_delete(request, group_id) async for group_id in paced(dict.fromkeys(request.body["groups_names"]))]
    return {"results": results}


def _delete(request: Request, group_id: str) -> Mapping[str, Any]:
    try:
        require(request, "DELETE", "GROUP", group_id)
        check_coordinator(request, group_id)
        groups = request.cluster.part(Groups)
        group = groups.find(group_id)
        group.check_deletion()
        groups.delete(group)
    except ApiError as api_error:
        return {"group_id": group_id, "error_code": api_error.error, "error_message": api_error.message}
    return {"group_id": group_id}
