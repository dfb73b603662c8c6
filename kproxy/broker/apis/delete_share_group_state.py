"""DeleteShareGroupState: deletes the state of share partitions.

All brokers share one state, so every broker responds as the share coordinator.

Leaves out: NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.groups.assignors import Part
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.state_requests import check, responses
from kproxy.broker.shares.states import ShareStates


@api("DeleteShareGroupState")
async def delete_share_group_state(request: Request) -> Body:
    """Return the results once the change is durable."""

    def delete_partition(part: Part, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        check(request, part, None, entry)
        request.cluster.part(ShareStates).forget(request.body["group_id"], part)
        return {}

    return await responses(request, delete_partition)
