"""ReadShareGroupStateSummary: returns the start offset of share partitions; -1 if unknown.

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
from kproxy.broker.shares.states import UNKNOWN, ShareStates


@api("ReadShareGroupStateSummary")
async def read_share_group_state_summary(request: Request) -> Body:
    """Return the start offsets."""

    def summarize_partition(topic_id_partition: TopicIdPartition, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        state = request.cluster.part(ShareStates).get(request.body["group_id"], topic_id_partition)
        check_state_request(request, topic_id_partition, state, entry)
        if state is None:
            return {"start_offset": UNKNOWN, "delivery_complete_count": UNKNOWN}
        return {
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.complete,
        }

    return await handle_partitions(request, summarize_partition)
