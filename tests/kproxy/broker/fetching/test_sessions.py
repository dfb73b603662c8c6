from __future__ import annotations

from collections.abc import Iterable

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.fetching.partition_request import Key, PartitionRequest
from kproxy.broker.fetching.sessions import EVICTABLE_AFTER_MS, SLOTS, FetchContext, Sessions

A, B, C = ("a", 0), ("b", 0), ("c", 0)


def begin_session(
    sessions: Sessions,
    session_id: int,
    epoch: int,
    *keys: Key,
    forgotten: Iterable[Key] = (),
    now: int = 0,
    by_topic_id: bool = True,
    offset: int = 0,
) -> FetchContext:
    requests = {key: PartitionRequest(key, offset, 100, -1) for key in keys}
    return sessions.begin(session_id, epoch, requests, forgotten, now, by_topic_id=by_topic_id)


def changed_partitions(
    context: FetchContext, *with_records: Key, high_watermark: int = 5, error: Error = Error.NONE
) -> set[Key]:
    """Return the partitions that are sent if every partition has this result."""
    fields = {"error_code": error, "high_watermark": high_watermark, "log_start_offset": 0}
    return context.changed_results(
        [(request.key, fields, request.key in with_records) for request in context.requested]
    )


def refused_error(*args: object, **kwargs: object) -> Error:
    with pytest.raises(ApiError) as caught:
        begin_session(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value.error


def keys(context: FetchContext) -> list[Key]:
    return [request.key for request in context.requested]


def test_fetch_without_a_session_returns_every_partition() -> None:
    context = begin_session(Sessions(), 0, -1, A, B)
    assert context.session_id == 0
    assert changed_partitions(context) == {A, B}


def test_session_returns_only_partitions_that_changed() -> None:
    sessions = Sessions()
    first = begin_session(sessions, 0, 0, A, B, C)
    assert changed_partitions(first) == {A, B, C}
    session = first.session_id
    assert session > 0
    second = begin_session(sessions, session, 1)
    assert keys(second) == [A, B, C]
    assert changed_partitions(second) == set()
    assert changed_partitions(begin_session(sessions, session, 2), B) == {B}
    assert keys(third := begin_session(sessions, session, 3)) == [A, C, B]
    assert changed_partitions(third, high_watermark=6) == {A, B, C}


def test_session_returns_a_partition_while_its_error_lasts_and_once_after() -> None:
    sessions = Sessions()
    session = begin_session(sessions, 0, 0, A)
    changed_partitions(session)
    assert changed_partitions(begin_session(sessions, session.session_id, 1), error=Error.NOT_LEADER_OR_FOLLOWER) == {A}
    assert changed_partitions(begin_session(sessions, session.session_id, 2), error=Error.NOT_LEADER_OR_FOLLOWER) == {A}
    assert changed_partitions(begin_session(sessions, session.session_id, 3)) == {A}
    assert changed_partitions(begin_session(sessions, session.session_id, 4)) == set()


def test_session_adds_updates_and_forgets_partitions() -> None:
    sessions = Sessions()
    session = begin_session(sessions, 0, 0, A, B).session_id
    context = begin_session(sessions, session, 1, C, A, forgotten=[B], offset=9)
    assert [(request.key, request.offset) for request in context.requested] == [(A, 9), (C, 9)]
    emptied_context = begin_session(sessions, session, 2, forgotten=[A, C])
    assert emptied_context.session_id == 0
    assert refused_error(sessions, session, 3) is Error.FETCH_SESSION_ID_NOT_FOUND


def test_session_rejects_a_wrong_id_epoch_or_topic_naming() -> None:
    sessions = Sessions()
    session = begin_session(sessions, 0, 0, A).session_id
    assert refused_error(sessions, session + 1, 1) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert refused_error(sessions, session, 2) is Error.INVALID_FETCH_SESSION_EPOCH
    assert refused_error(sessions, session, 1, by_topic_id=False) is Error.FETCH_SESSION_TOPIC_ID_ERROR
    begin_session(sessions, session, 1)
    assert refused_error(sessions, session, 1) is Error.INVALID_FETCH_SESSION_EPOCH


def test_rejects_the_response_to_a_request_superseded_by_a_later_epoch() -> None:
    sessions = Sessions()
    session = begin_session(sessions, 0, 0, A).session_id
    superseded = begin_session(sessions, session, 1)
    begin_session(sessions, session, 2)
    with pytest.raises(ApiError) as caught:
        changed_partitions(superseded)
    assert caught.value.error is Error.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("epoch", [0, -1])
def test_final_or_initial_epoch_closes_the_session(epoch: int) -> None:
    sessions = Sessions()
    session = begin_session(sessions, 0, 0, A).session_id
    assert begin_session(sessions, session, epoch, A).session_id != session
    assert refused_error(sessions, session, 1) is Error.FETCH_SESSION_ID_NOT_FOUND


def test_full_cache_evicts_only_idle_sessions() -> None:
    sessions = Sessions()
    session_ids = [begin_session(sessions, 0, 0, A).session_id for _ in range(SLOTS)]
    begin_session(sessions, session_ids[0], 1, now=10)
    assert begin_session(sessions, 0, 0, A, now=EVICTABLE_AFTER_MS).session_id == 0
    assert begin_session(sessions, 0, 0, A, now=EVICTABLE_AFTER_MS + 1).session_id > 0
    assert refused_error(sessions, session_ids[1], 1) is Error.FETCH_SESSION_ID_NOT_FOUND
    begin_session(sessions, session_ids[0], 2, now=20)


def test_epoch_wraps_to_1_after_the_maximum() -> None:
    sessions = Sessions()
    session = begin_session(sessions, 0, 0, A).session_id
    sessions._sessions[session].epoch = 2**31 - 1
    begin_session(sessions, session, 2**31 - 1)
    begin_session(sessions, session, 1)
