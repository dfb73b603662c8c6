"""OffsetDelete: deletes offsets of a group, for topics that no member subscribes to.

Leaves out: nothing.
"""

from __future__ import annotations

from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.offset_rows import OffsetRows
from kproxy.broker.groups.offsets import Offsets
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("OffsetDelete")
async def offset_delete(request: Request) -> Body:
    """Return the result for each partition, or one error for the whole request."""
    group_id = request.body["group_id"]
    rows = await OffsetRows.from_request(request)
    offsets = request.cluster.part(Offsets)
    try:
        require(request, "DELETE", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        group = request.cluster.part(Groups).find(group_id)
        group.check_offset_deletion()
    except ApiError as api_error:
        return {"error_code": api_error.error}
    for row in rows.valid_rows():
        assert row.topic is not None
        if group.is_subscribed(row.topic.name):
            row.error = Error.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            offsets.delete(group_id, (row.topic.name, row.entry["partition_index"]))
    return {"topics": rows.response_topics()}
