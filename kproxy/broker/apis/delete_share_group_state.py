"""DeleteShareGroupState: deletes the state of share partitions.

All brokers share one state, so every broker responds as the share coordinator.

Leaves out: NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.state_requests import check_state_request, handle_partitions
from kproxy.broker.shares.states import ShareStates


@api("DeleteShareGroupState")
async def delete_share_group_state(request: Request) -> Body:
    """Return the results once the change is durable."""

    def delete_partition(topic_id_partition: TopicIdPartition, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        check_state_request(request, topic_id_partition, None, entry)
        request.cluster.part(ShareStates).forget(request.body["group_id"], topic_id_partition)
        return {}

    return await handle_partitions(request, delete_partition)
