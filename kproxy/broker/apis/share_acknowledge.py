"""ShareAcknowledge: lets a member of a share group accept, release or reject acquired records.

Records are accepted, released, rejected, or from version 2 on renewed (KIP-1222); for each partition, all or none of
the acknowledgements are applied. Version 0 had a different layout.

Leaves out: nothing.
"""

from __future__ import annotations

from kproxy.broker.errors import ApiError
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.sessions import END, AllShareSessions
from kproxy.broker.shares.settings import ShareSettings
from kproxy.broker.shares.share_reader import group_by_topic
from kproxy.broker.shares.share_requests import apply_acknowledgements, authorized_group_and_member, end_session


@api("ShareAcknowledge", lowest=1)
async def share_acknowledge(request: Request) -> Body:
    """Return the results once the state is durable."""
    epoch = request.body["share_session_epoch"]
    try:
        key = authorized_group_and_member(request)
        session = request.cluster.part(AllShareSessions).for_node(request.node).acknowledge(key, epoch)
    except ApiError as api_error:
        return {"error_code": api_error.error}
    results = await apply_acknowledgements(request)
    if epoch == END:
        end_session(request.cluster, request.node, key, session)
    return {
        "acquisition_lock_timeout_ms": request.cluster.part(ShareSettings).lock_ms(key[0]),
        "responses": group_by_topic(results),
    }
