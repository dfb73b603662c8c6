"""WriteShareGroupState: updates the state of share partitions.

The new state replaces the old one; members of the group have to acquire records again. All brokers share one state, so
every broker responds as the share coordinator. A partition keeps at most 10,000 batches.

Leaves out: NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.inflight import RecordState
from kproxy.broker.shares.state_requests import check_state_request, combine_batches, find_state, handle_partitions
from kproxy.broker.shares.states import UNKNOWN, ShareState, ShareStates, StateBatch

_MAX_BATCHES: Final = 10_000
_MAX_INT16: Final = 2**15 - 1
_MAX_INT64: Final = 2**63 - 1
_STORED_STATES: Final = (RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


@api("WriteShareGroupState")
async def write_share_group_state(request: Request) -> Body:
    """Return the results once the state is durable."""

    def write_partition(topic_id_partition: TopicIdPartition, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        state = find_state(request, topic_id_partition, "Write")
        check_state_request(request, topic_id_partition, state, entry)
        _write(state, entry)
        if state.live is not None:
            state.live.close()
            state.live = None
        request.cluster.part(ShareStates).store(request.body["group_id"], topic_id_partition, state)
        return {}

    return await handle_partitions(request, write_partition)


def _write(state: ShareState, entry: Mapping[str, Any]) -> None:
    start = state.start_offset if entry["start_offset"] < 0 else entry["start_offset"]
    new_batches = [
        StateBatch(batch["first_offset"], batch["last_offset"], batch["delivery_state"], batch["delivery_count"])
        for batch in entry["state_batches"]
    ]
    complete = entry.get("delivery_complete_count", UNKNOWN)
    if not all(map(_is_valid, new_batches)) or not UNKNOWN <= complete <= _MAX_INT64 - max(start, 0):
        raise ApiError(Error.INVALID_REQUEST)
    batches = combine_batches([*state.batches, *new_batches], max(start, 0))
    if len(batches) > _MAX_BATCHES:
        raise ApiError(Error.INVALID_REQUEST)
    state.start_offset, state.complete, state.batches = start, complete, batches


def _is_valid(batch: StateBatch) -> bool:
    is_ordered = 0 <= batch.first <= batch.last < _MAX_INT64
    return is_ordered and batch.state in _STORED_STATES and 0 <= batch.deliveries < _MAX_INT16
