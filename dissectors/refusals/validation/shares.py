"""Checks of requests from share consumers (KIP-932, KIP-1222).

Sources: KafkaApis.handleShareFetchRequest, handleShareAcknowledgeRequest and validateAcknowledgementBatches,
SharePartitionManager.acknowledgeSessionUpdate.
"""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.refusals.validation.violation import Values, Violation, is_blank, rows, validates
from dissectors.schemas.codes import Error

_INVALID = Error.INVALID_REQUEST
_RENEW = 4
_FIRST_VERSION_WITH_RENEWALS = 2


@validates("ShareFetch", "ShareAcknowledge")
def check_share_names(body: Values, _: int) -> Iterator[Violation]:
    """Check that the request names a group and a member, to which the share session belongs."""
    for name in ("group_id", "member_id"):
        if body.get(name) is None or is_blank(body[name]):
            yield Violation(_INVALID, f"{name} is {body.get(name)!r}", f"send {name}")


@validates("ShareFetch")
def check_new_session(body: Values, _: int) -> Iterator[Violation]:
    """Check that the first ShareFetch of a session acknowledges nothing, as nothing has been acquired yet."""
    if body.get("share_session_epoch", 0) != 0:
        return
    for topic in rows(body, "topics"):
        for partition in rows(topic, "partitions"):
            if partition.get("acknowledgement_batches"):
                yield Violation(
                    _INVALID, "share_session_epoch is 0, but the request acknowledges records "
                    "(topics[].partitions[].acknowledgement_batches)",
                    "send acknowledgements only with a share_session_epoch above 0, or -1 to end the session",
                )  # fmt: skip
                return


@validates("ShareAcknowledge")
def check_acknowledge_session(body: Values, _: int) -> Iterator[Violation]:
    """Check that ShareAcknowledge does not try to open a share session."""
    if body.get("share_session_epoch", 0) == 0:
        yield Violation(
            Error.INVALID_SHARE_SESSION_EPOCH, "share_session_epoch is 0, with which ShareAcknowledge cannot open a "
            "session",
            "open the session with ShareFetch, and acknowledge with its next epoch, or -1 to end it",
        )  # fmt: skip


@validates("ShareFetch", "ShareAcknowledge")
def check_acknowledgement_batches(body: Values, version: int) -> Iterator[Violation]:
    """Check that the batches of a partition are ascending ranges with one type, or one type per record."""
    highest_type = _RENEW if version >= _FIRST_VERSION_WITH_RENEWALS else _RENEW - 1
    for topic in rows(body, "topics"):
        target = topic.get("topic_id") or ""
        for partition in rows(topic, "partitions"):
            previous = -1
            prefix = f"in partition {partition.get('partition_index', 0)}, "
            for batch in rows(partition, "acknowledgement_batches"):
                first, last = batch.get("first_offset", 0), batch.get("last_offset", 0)
                types = batch.get("acknowledge_types") or []
                count = last - first + 1
                if first > last:
                    text, change = f"first_offset {first} is above last_offset {last}", "send ascending ranges"
                elif first < previous:
                    text, change = f"first_offset {first} is below the previous {previous}", "send ascending ranges"
                elif not types:
                    text, change = f"acknowledge_types of {first}-{last} is empty", "send one type, or one per record"
                elif 1 < len(types) != count:
                    text = f"{first}-{last} has {len(types)} acknowledge_types for {count} records"
                    change = "send one type, or one per record"
                elif invalid_types := [kind for kind in types if not 0 <= kind <= highest_type]:
                    text, change = f"acknowledge type {invalid_types[0]} is invalid", f"use types 0 to {highest_type}"
                elif _RENEW in types and not body.get("is_renew_ack"):
                    text, change = "type 4 (renew) needs is_renew_ack", "set is_renew_ack to renew acquisition locks"
                else:
                    previous = last
                    continue
                yield Violation(_INVALID, prefix + text, change, str(target))
                break
