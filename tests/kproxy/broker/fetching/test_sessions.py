from __future__ import annotations

from collections.abc import Iterable

import pytest

from kproxy.broker.errors import Error, Refused
from kproxy.broker.fetching.partition_request import Key, PartitionRequest
from kproxy.broker.fetching.sessions import EVICTABLE_AFTER_MS, SLOTS, FetchContext, Sessions

A, B, C = ("a", 0), ("b", 0), ("c", 0)


def begin(
    sessions: Sessions,
    session_id: int,
    epoch: int,
    *keys: Key,
    forgotten: Iterable[Key] = (),
    now: int = 0,
    by_topic_id: bool = True,
    offset: int = 0,
) -> FetchContext:
    wanted = {key: PartitionRequest(key, offset, 100, -1) for key in keys}
    return sessions.begin(session_id, epoch, wanted, forgotten, now, by_topic_id=by_topic_id)


def answer(context: FetchContext, *with_records: Key, high_watermark: int = 5, error: Error = Error.NONE) -> set[Key]:
    """What is sent if all partitions have this answer."""
    fields = {"error_code": error, "high_watermark": high_watermark, "log_start_offset": 0}
    return context.changed_results([(each.key, fields, each.key in with_records) for each in context.requested])


def refused(*args: object, **kwargs: object) -> Error:
    with pytest.raises(Refused) as caught:
        begin(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value.error


def keys(context: FetchContext) -> list[Key]:
    return [each.key for each in context.requested]


def test_without_a_session_everything_is_listed_and_sent() -> None:
    context = begin(Sessions(), 0, -1, A, B)
    assert context.session_id == 0
    assert answer(context) == {A, B}


def test_a_session_answers_what_has_changed() -> None:
    sessions = Sessions()
    first = begin(sessions, 0, 0, A, B, C)
    assert answer(first) == {A, B, C}
    session = first.session_id
    assert session > 0
    second = begin(sessions, session, 1)
    assert keys(second) == [A, B, C]
    assert answer(second) == set()
    assert answer(begin(sessions, session, 2), B) == {B}
    assert keys(third := begin(sessions, session, 3)) == [A, C, B]
    assert answer(third, high_watermark=6) == {A, B, C}


def test_errors_are_sent_each_time_and_their_end_too() -> None:
    sessions = Sessions()
    session = begin(sessions, 0, 0, A)
    answer(session)
    assert answer(begin(sessions, session.session_id, 1), error=Error.NOT_LEADER_OR_FOLLOWER) == {A}
    assert answer(begin(sessions, session.session_id, 2), error=Error.NOT_LEADER_OR_FOLLOWER) == {A}
    assert answer(begin(sessions, session.session_id, 3)) == {A}
    assert answer(begin(sessions, session.session_id, 4)) == set()


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = Sessions()
    session = begin(sessions, 0, 0, A, B).session_id
    context = begin(sessions, session, 1, C, A, forgotten=[B], offset=9)
    assert [(each.key, each.offset) for each in context.requested] == [(A, 9), (C, 9)]
    empty = begin(sessions, session, 2, forgotten=[A, C])
    assert empty.session_id == 0
    assert refused(sessions, session, 3) is Error.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_is_asked_for_in_its_order() -> None:
    sessions = Sessions()
    session = begin(sessions, 0, 0, A).session_id
    assert refused(sessions, session + 1, 1) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert refused(sessions, session, 2) is Error.INVALID_FETCH_SESSION_EPOCH
    assert refused(sessions, session, 1, by_topic_id=False) is Error.FETCH_SESSION_TOPIC_ID_ERROR
    begin(sessions, session, 1)
    assert refused(sessions, session, 1) is Error.INVALID_FETCH_SESSION_EPOCH


def test_an_answer_to_what_was_overtaken_is_refused() -> None:
    sessions = Sessions()
    session = begin(sessions, 0, 0, A).session_id
    slow = begin(sessions, session, 1)
    begin(sessions, session, 2)
    with pytest.raises(Refused) as caught:
        answer(slow)
    assert caught.value.error is Error.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("epoch", [0, -1])
def test_beginning_anew_or_ending_gives_the_session_up(epoch: int) -> None:
    sessions = Sessions()
    session = begin(sessions, 0, 0, A).session_id
    assert begin(sessions, session, epoch, A).session_id != session
    assert refused(sessions, session, 1) is Error.FETCH_SESSION_ID_NOT_FOUND


def test_there_is_room_for_a_thousand_and_the_idle_make_some() -> None:
    sessions = Sessions()
    made = [begin(sessions, 0, 0, A).session_id for _ in range(SLOTS)]
    begin(sessions, made[0], 1, now=10)
    assert begin(sessions, 0, 0, A, now=EVICTABLE_AFTER_MS).session_id == 0
    assert begin(sessions, 0, 0, A, now=EVICTABLE_AFTER_MS + 1).session_id > 0
    assert refused(sessions, made[1], 1) is Error.FETCH_SESSION_ID_NOT_FOUND
    begin(sessions, made[0], 2, now=20)


def test_epochs_begin_again_behind_the_greatest() -> None:
    sessions = Sessions()
    session = begin(sessions, 0, 0, A).session_id
    sessions._sessions[session].epoch = 2**31 - 1
    begin(sessions, session, 2**31 - 1)
    begin(sessions, session, 1)
