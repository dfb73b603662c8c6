"""The consumer protocol in JoinGroup and SyncGroup: subscriptions and assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dissectors.wire.decode import decode
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout

#: The protocol type of consumers.
CONSUMER: Final = "consumer"

_NEWEST_VERSION: Final = 3


def read_subscription(data: bytes) -> Mapping[str, Any] | None:
    """Decode a ConsumerProtocolSubscription with its version; None if the bytes are invalid."""
    return _decode_message("ConsumerProtocolSubscription", data)


def read_assignment(data: bytes) -> Mapping[str, Any] | None:
    """Decode a ConsumerProtocolAssignment with its version; None if the bytes are invalid."""
    return _decode_message("ConsumerProtocolAssignment", data)


def write_assignment(partitions: Mapping[str, list[int]], version: int) -> bytes:
    """Encode a ConsumerProtocolAssignment of these partitions by topic, with its version."""
    version = min(version, _NEWEST_VERSION)
    assigned = [{"topic": topic, "partitions": indexes} for topic, indexes in partitions.items()]
    assignment = encode(
        layout("ConsumerProtocolAssignment", version), {"assigned_partitions": assigned, "user_data": None}
    )
    return version.to_bytes(2, "big") + assignment


def version_of(data: bytes) -> int:
    """Return the version of a subscription or assignment."""
    return int.from_bytes(data[:2], "big", signed=True)


def _decode_message(name: str, data: bytes) -> Mapping[str, Any] | None:
    # As in Kafka, unknown versions are read as the newest known one: they only append fields.
    if len(data) < 2 or (version := version_of(data)) < 0:
        return None
    decoded = decode(layout(name, min(version, _NEWEST_VERSION)), data, 2)
    return None if decoded.error is not None else decoded.values
