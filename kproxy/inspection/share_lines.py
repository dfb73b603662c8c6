"""The columns of trace lines about records that members of share groups acquire and acknowledge."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from dissectors.messages.message import Message
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.share_acquisitions import AcknowledgeType, acknowledge_errors, acknowledgements
from kproxy.trace.lines import AcknowledgedEntry, AcquiredEntry, ResponseLine

API_KEYS: Final = frozenset((ApiKey.SHARE_FETCH.value, ApiKey.SHARE_ACKNOWLEDGE.value))

#: The maximum number of record ranges of each kind in a frame's line.
_MAX_RANGES: Final = 200
_TYPE_NAMES: Final[Mapping[int, str]] = {
    acknowledge_type.value: acknowledge_type.name.lower() for acknowledge_type in AcknowledgeType
}


def add_records(
    line: ResponseLine, request_body: Mapping[str, Any] | None, message: Message, topic_names: Mapping[str, str]
) -> None:
    """Add the records that a ShareFetch or ShareAcknowledge response gives to the member, and its acknowledgements."""
    body = message.body
    line.lock_ms = body.get("acquisition_lock_timeout_ms") or None
    if request_body is None or body.get("error_code"):
        return
    refused = acknowledge_errors(body)
    accepted = (
        acknowledgement
        for acknowledgement in acknowledgements(request_body)
        if acknowledgement.topic_partition not in refused and acknowledgement.type in _TYPE_NAMES
    )
    line.acknowledged = [
        AcknowledgedEntry(
            topic_names.get(acknowledgement.topic_partition[0], acknowledgement.topic_partition[0]),
            acknowledgement.topic_partition[1],
            acknowledgement.first,
            acknowledgement.last,
            _TYPE_NAMES[acknowledgement.type],
        )
        for acknowledgement in islice(accepted, _MAX_RANGES)
    ]
    acquired = (
        AcquiredEntry(
            topic_names.get(topic.get("topic_id") or "", topic.get("topic_id") or ""),
            row.get("partition_index", 0),
            record.get("first_offset", 0),
            record.get("last_offset", 0),
            record.get("delivery_count", 1),
        )
        for topic in body.get("responses") or ()
        for row in topic.get("partitions") or ()
        for record in row.get("acquired_records") or ()
    )
    line.acquired = list(islice(acquired, _MAX_RANGES))
