"""Errors that the request or the response explains better than the tables: most contradict it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from dissectors.refusals.judgement import ErrorJudgement, Harm, final_error, transient_error
from dissectors.schemas.codes import Error

#: Takes the request, and the struct of the response with the error.
_Condition = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
_FIX = "fix the broker: "


class _Contradiction(NamedTuple):
    apis: tuple[str, ...]
    error: Error
    holds: _Condition
    judgement: ErrorJudgement
    since: int = 0  # the first version with this contradiction


def _final_error(meaning: str, change: str) -> ErrorJudgement:
    return final_error(meaning, f"{_FIX}{change}", blame="broker")


def _transient_error(meaning: str, change: str) -> ErrorJudgement:
    return transient_error(meaning, f"{_FIX}{change}", blame="broker")


_CONTRADICTIONS: Final = (
    _Contradiction(
        ("JoinGroup",), Error.MEMBER_ID_REQUIRED, lambda request, _: request.get("member_id"),
        _transient_error(
            "the broker requires a member id although the request has one (KIP-394)",
            "it must accept the member id that it gave",
        ),
    ),
    _Contradiction(
        ("JoinGroup",), Error.UNKNOWN_MEMBER_ID, lambda request, _: request.get("member_id") == "",
        _transient_error(
            "the member joins without a member id, so it cannot be unknown", "it must give a new member an id",
        ),
    ),
    _Contradiction(
        ("JoinGroup",), Error.ILLEGAL_GENERATION, lambda _request, _row: True,
        _transient_error("a member that joins names no generation, so it cannot be illegal",
                         "it must answer JoinGroup with the next generation"),
    ),
    _Contradiction(
        ("JoinGroup",), Error.REBALANCE_IN_PROGRESS, lambda _request, _row: True,
        _transient_error("with JoinGroup a member takes part in a rebalance, so none can be in its way",
                         "it must hold the response back until all members have joined"),
    ),
    _Contradiction(
        ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"), Error.INVALID_GROUP_ID,
        lambda request, _: request.get("group_id"),
        _final_error("the group id is not empty, and Kafka accepts any other", "it must accept the group id"),
    ),
    _Contradiction(
        ("Produce",), Error.INVALID_REQUIRED_ACKS, lambda request, _: request.get("acks") in (-1, 0, 1),
        _final_error("acks has one of the three valid values", "it must accept acks of -1, 0 and 1"),
    ),
    _Contradiction(
        ("Produce",), Error.UNSUPPORTED_COMPRESSION_TYPE, lambda _request, _row: True,
        _final_error("this version of Produce may have batches of every codec, zstd included (KIP-110)",
                     "it must accept every codec"),
        since=7,
    ),
    _Contradiction(
        ("Fetch",), Error.UNSUPPORTED_COMPRESSION_TYPE, lambda _request, _row: True,
        _final_error("this version of Fetch may have batches of every codec, zstd included (KIP-110)",
                     "it must return the batches as they were written"),
        since=10,
    ),
    _Contradiction(
        ("Metadata",), Error.LEADER_NOT_AVAILABLE, lambda _, row: row.get("leader_id", -1) >= 0,
        _final_error("the response names a leader of the partition nevertheless",
                     "it must return no error for a partition with a leader, or leader -1"),
    ),
    _Contradiction(
        ("CreateTopics",), Error.INVALID_REPLICATION_FACTOR,
        lambda request, _: all(topic.get("replication_factor") == 1 and not topic.get("assignments")
                               for topic in request.get("topics") or ()),
        _final_error("a replication factor of 1 needs only one broker", "it must accept 1; or no broker is registered"),
    ),
    _Contradiction(
        ("Fetch", "ShareFetch"), Error.REQUEST_TIMED_OUT, lambda _request, _row: True,
        _transient_error("a fetch has no timeout that can fail, so clients take this for an unexpected error",
                         "when max_wait_ms runs out, it must answer without an error, with the records that it has"),
    ),
    _Contradiction(
        ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat"), Error.GROUP_ID_NOT_FOUND,
        lambda request, _: request.get("member_epoch", 0) > 0,
        final_error("the coordinator no longer has the group of this member: it was deleted, or has expired",
                    "fix the client: no heartbeat with this member_epoch can succeed, so it must rejoin with "
                    "member_epoch 0, or fail", fields=("member_epoch",), harm=Harm.DATA),
    ),
)  # fmt: skip

_BY_ERROR: Final[Mapping[tuple[str, int], _Contradiction]] = {
    (api, entry.error.value): entry for entry in _CONTRADICTIONS for api in entry.apis
}


def contradiction(
    api: str, version: int, code: int, request_body: Mapping[str, Any], row: Mapping[str, Any]
) -> ErrorJudgement | None:
    """Return the judgement of an error that contradicts the request or its struct in the response; otherwise None."""
    entry = _BY_ERROR.get((api, code))
    return entry.judgement if entry is not None and version >= entry.since and entry.holds(request_body, row) else None
