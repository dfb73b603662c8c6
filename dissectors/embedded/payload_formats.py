"""The payloads of group protocols as messages with versions: what an edit of one is applied to."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.embedded.registry import VERSION
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout, layout, versions

#: Payloads that begin with an int16 version, which is not part of the message.
_PREFIXED = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "ConnectWorkerState", "ConnectAssignment")

#: Payloads whose first field is an int32 version.
_WITH_VERSION = ("SubscriptionInfoData", "AssignmentInfo")

PAYLOADS = (*_PREFIXED, *_WITH_VERSION)


class PayloadLayouts(NamedTuple):
    """A payload at a version: the layout of its header, which has the version or nothing, and of its message."""

    header: Layout
    body: Layout
    version: int


def header_of(name: str) -> Layout:
    """The header of a payload: its int16 version, or nothing if the version is in the message."""
    return _PREFIX if name in _PREFIXED else _NOTHING


_PREFIX = Layout("PayloadHeader", (VERSION,))
_NOTHING = Layout("PayloadHeader", ())


def at_version(name: str, version: int) -> PayloadLayouts:
    """The layouts of a payload at a version that exists."""
    return PayloadLayouts(header_of(name), layout(name, version), version)


def as_stated(name: str, data: bytes) -> PayloadLayouts:
    """The layouts of a payload at the version in its first bytes; as in Kafka, a later one is read as the latest.

    Raises:
        DecodeError: The version is missing or does not exist.
    """
    width = 2 if name in _PREFIXED else 4
    if len(data) < width:
        raise DecodeError(f"a payload of {len(data)} bytes has no room for its version", offset=0)
    stated, known = int.from_bytes(data[:width], "big", signed=True), versions(name)
    if stated < known[0] or (stated > known[-1] and name not in _PREFIXED):
        raise DecodeError(f"{name} has no version {stated}", offset=0)
    return at_version(name, min(stated, known[-1]))
