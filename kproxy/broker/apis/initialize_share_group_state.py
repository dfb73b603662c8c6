"""InitializeShareGroupState: initializes the state of share partitions.

Kafka's group coordinators send it to share coordinators. Here all brokers share one state, so every broker responds as
the coordinator.

Leaves out: NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.state_requests import check_state_request, handle_partitions
from kproxy.broker.shares.states import UNKNOWN, ShareStates


@api("InitializeShareGroupState")
async def initialize_share_group_state(request: Request) -> Body:
    """Return the results once the state is durable."""
    states, group = request.cluster.part(ShareStates), request.body["group_id"]

    def initialize_partition(topic_id_partition: TopicIdPartition, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        check_state_request(request, topic_id_partition, states.get(group, topic_id_partition), entry)
        if entry["start_offset"] < UNKNOWN:
            raise ApiError(Error.INVALID_REQUEST)
        states.initialize(group, topic_id_partition, entry["state_epoch"], entry["start_offset"])
        return {}

    return await handle_partitions(request, initialize_partition)
