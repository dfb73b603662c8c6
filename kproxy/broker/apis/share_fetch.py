"""ShareFetch: lets members of a share group acquire records, and acknowledge earlier ones.

Partitions are sent once per share session, which belongs to a connection. Waits until min_bytes can be acquired, or
max_wait_ms have passed. Batches are returned whole, with the acquired offsets. Version 2 adds renewals (KIP-1222) and
the mode that limits the number of records strictly (KIP-1206). Version 0 had a different layout.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kproxy.broker.change_signal import wait_for_any
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.leaders import LeaderHints
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.sessions import BEGIN, END, AllShareSessions, ShareSession
from kproxy.broker.shares.settings import ShareSettings
from kproxy.broker.shares.share_reader import ShareReader, group_by_topic
from kproxy.broker.shares.share_requests import (
    apply_acknowledgements,
    authorized_group_and_member,
    end_on_disconnect,
    end_session,
)


@api("ShareFetch", lowest=1)
async def share_fetch(request: Request) -> Body:
    """Apply acknowledgements, then respond immediately if there is enough data, else wait for it."""
    body = request.body
    try:
        key = authorized_group_and_member(request)
        _check_renewal(body)
        has_acknowledgements = _has_acknowledgements(body)
        session = _open_session(request, key, has_acknowledgements=has_acknowledgements)
    except ApiError as api_error:
        if api_error.error is Error.SHARE_SESSION_LIMIT_REACHED:  # so that the client does not retry immediately
            await wait_for_any((), body["max_wait_ms"])
        return {"error_code": api_error.error}
    leaders = LeaderHints(request)
    acknowledgement_results = await apply_acknowledgements(request) if has_acknowledgements else {}
    results: dict[TopicIdPartition, dict[str, Any]] = {}
    if not body.get("is_renew_ack", False) and body["share_session_epoch"] != END:
        try:
            results = await _fetch(request, session, leaders)
        except ApiError as api_error:
            return {"error_code": api_error.error}
    results = {
        topic_id_partition: result
        for topic_id_partition, result in results.items()
        if _must_send(session, topic_id_partition, result)
    }
    for topic_id_partition, acknowledgement_result in acknowledgement_results.items():
        result = results.setdefault(topic_id_partition, {"partition_index": topic_id_partition[1], "records": b""})
        result["acknowledge_error_code"] = acknowledgement_result.get("error_code", Error.NONE)
        result["acknowledge_error_message"] = acknowledgement_result.get("error_message")
    if body["share_session_epoch"] == END:
        end_session(request.cluster, request.node, key, session)
    return {
        "acquisition_lock_timeout_ms": request.cluster.part(ShareSettings).lock_ms(key[0]),
        "responses": group_by_topic(results),
        "node_endpoints": leaders.endpoints(),
    }


def _check_renewal(body: Mapping[str, Any]) -> None:
    """Raise `ApiError` with INVALID_REQUEST if a request both renews and fetches."""
    if body.get("is_renew_ack", False) and any(
        body[name] for name in ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
    ):
        raise ApiError(Error.INVALID_REQUEST)


def _has_acknowledgements(body: Mapping[str, Any]) -> bool:
    return any(partition["acknowledgement_batches"] for topic in body["topics"] for partition in topic["partitions"])


def _open_session(request: Request, key: tuple[str, str], *, has_acknowledgements: bool) -> ShareSession:
    body = request.body
    session = (
        request.cluster.part(AllShareSessions)
        .for_node(request.node)
        .fetch(
            key,
            body["share_session_epoch"],
            [
                (topic["topic_id"], partition["partition_index"])
                for topic in body["topics"]
                for partition in topic["partitions"]
            ],
            [(topic["topic_id"], index) for topic in body["forgotten_topics_data"] for index in topic["partitions"]],
            has_acknowledgements=has_acknowledgements,
        )
    )
    if body["share_session_epoch"] == BEGIN:
        end_on_disconnect(request, key, session)
    return session


async def _fetch(
    request: Request, session: ShareSession, leaders: LeaderHints
) -> dict[TopicIdPartition, dict[str, Any]]:
    """Return the acquired records of the session's partitions once there is enough or the time is up."""
    body, clock = request.body, request.cluster.clock
    topic_id_partitions = _rotate(list(session.partitions), body["share_session_epoch"])
    if not topic_id_partitions or body["max_records"] <= 0 or body["max_bytes"] <= 0:
        return {}
    reader = ShareReader(request, leaders)
    deadline = clock.now() + body["max_wait_ms"]
    while True:
        if session.ended:
            raise ApiError(Error.SHARE_SESSION_NOT_FOUND)
        reader.read(topic_id_partitions)
        size = sum(read.size for read in reader.reads)
        has_enough = size >= min(body["min_bytes"], reader.max_bytes) and reader.acquirable
        remaining_ms = deadline - clock.now()
        if has_enough or remaining_ms <= 0 or not reader.reads:
            return reader.acquire()
        await wait_for_any(reader.changes(), remaining_ms)


def _rotate(topic_id_partitions: Sequence[TopicIdPartition], epoch: int) -> list[TopicIdPartition]:
    """Return the partitions, starting with a different one each time."""
    start = epoch % len(topic_id_partitions) if topic_id_partitions else 0
    return [*topic_id_partitions[start:], *topic_id_partitions[:start]]


def _must_send(session: ShareSession, topic_id_partition: TopicIdPartition, result: Mapping[str, Any]) -> bool:
    has_failed = bool(result.get("error_code", Error.NONE))
    return session.must_send(topic_id_partition, has_records=bool(result["records"]), has_error=has_failed)
