"""TxnOffsetCommit: stages offsets of a group, which take effect when the transaction commits.

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
from kproxy.broker.transactions.verify import verify_commit


@api("TxnOffsetCommit")
async def txn_offset_commit(request: Request) -> Body:
    """Return the result for each partition once the offsets are durable."""
    body = request.body
    rows = await OffsetRows.from_request(request)
    with rows.recording_errors(list(rows)):
        require(request, "WRITE", "TRANSACTIONAL_ID", body["transactional_id"])
        require(request, "READ", "GROUP", body["group_id"])
    valid_rows = rows.valid_rows()
    if valid_rows:
        with rows.recording_errors(valid_rows):
            _stage(request, rows, valid_rows)
    return {"topics": rows.response_topics()}


def _stage(request: Request, rows: OffsetRows, valid_rows: list[OffsetRow]) -> None:
    body = request.body
    group_id, producer = body["group_id"], (body["producer_id"], body["producer_epoch"])
    if not group_id:
        raise ApiError(Error.INVALID_GROUP_ID)
    check_coordinator(request, group_id)
    verify_commit(request, body["transactional_id"], *producer, group_id)
    groups, epoch = request.cluster.part(Groups), body.get("generation_id_or_member_epoch", -1)
    if epoch >= 0 and groups.get(group_id) is None:
        raise ApiError(Error.ILLEGAL_GENERATION)
    try:
        check = groups.for_commits(group_id).check_commit(
            body.get("member_id", ""),
            body.get("group_instance_id"),
            epoch,
            transactional=True,
            version=request.version,
        )
        commits = rows.commits(valid_rows, check)
    except ApiError as api_error:
        if api_error.error is Error.STALE_MEMBER_EPOCH:  # unknown to producers
            raise ApiError(Error.ILLEGAL_GENERATION) from None
        raise
    request.cluster.part(Offsets).stage(*producer, group_id, commits)
