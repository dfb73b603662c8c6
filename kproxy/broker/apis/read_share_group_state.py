"""ReadShareGroupState: returns the state of share partitions.

All brokers share one state, so every broker responds as the share coordinator.

Leaves out: NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.state_requests import check_state_request, find_state, handle_partitions
from kproxy.broker.shares.states import ShareStates


@api("ReadShareGroupState")
async def read_share_group_state(request: Request) -> Body:
    """Return the states, and record the leader epochs."""

    def read_partition(topic_id_partition: TopicIdPartition, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        state = find_state(request, topic_id_partition, "Read")
        check_state_request(request, topic_id_partition, state, entry)
        if entry["leader_epoch"] > state.leader_epoch:
            state.leader_epoch = entry["leader_epoch"]
            request.cluster.part(ShareStates).store(request.body["group_id"], topic_id_partition, state)
        return {
            "state_epoch": state.state_epoch,
            "start_offset": state.start_offset,
            "state_batches": [
                {
                    "first_offset": batch.first,
                    "last_offset": batch.last,
                    "delivery_state": batch.state,
                    "delivery_count": batch.deliveries,
                }
                for batch in state.batches
            ],
        }

    return await handle_partitions(request, read_partition)
