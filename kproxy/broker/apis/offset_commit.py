"""OffsetCommit: commits offsets of a group, or of a standalone consumer.

Versions 0 and 1, which Kafka 4 removed, behave like the others: nothing is stored in ZooKeeper.

Leaves out: nothing.
"""

from __future__ import annotations

from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.offset_rows import OffsetRow, OffsetRows
from kproxy.broker.groups.offsets import Offsets
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("OffsetCommit")
async def offset_commit(request: Request) -> Body:
    """Return the result for each partition once the commit is durable."""
    rows = await OffsetRows.from_request(request)
    with rows.recording_errors(list(rows)):
        require(request, "READ", "GROUP", request.body["group_id"])
    valid_rows = rows.valid_rows()
    if valid_rows:
        with rows.recording_errors(valid_rows):
            _commit(request, rows, valid_rows)
    return {"topics": rows.response_topics()}


def _commit(request: Request, rows: OffsetRows, valid_rows: list[OffsetRow]) -> None:
    body = request.body
    group_id, epoch = body["group_id"], body.get("generation_id_or_member_epoch", -1)
    check_coordinator(request, group_id)
    groups = request.cluster.part(Groups)
    if epoch >= 0 and groups.get(group_id) is None:
        raise ApiError(Error.GROUP_ID_NOT_FOUND if request.version >= 9 else Error.ILLEGAL_GENERATION)
    check = groups.for_commits(group_id).check_commit(
        body.get("member_id", ""),
        body.get("group_instance_id"),
        epoch,
        transactional=False,
        version=request.version,
    )
    retention_ms = body.get("retention_time_ms", -1)
    expires_at_ms = None if retention_ms == -1 else request.cluster.clock.now() + retention_ms
    request.cluster.part(Offsets).commit(group_id, rows.commits(valid_rows, check, expires_at_ms))
