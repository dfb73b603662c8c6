"""Payloads of group protocols and coordinators' records as versioned messages, to which edits can be applied."""

from __future__ import annotations

from typing import NamedTuple

from dissectors import schemas
from dissectors.embedded.registry import VERSION
from dissectors.messages.message import api_layouts
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout, layout, versions

#: Payloads that begin with an int16 version, which is not part of the message.
_VERSION_PREFIXED = (
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "ConnectWorkerState",
    "ConnectAssignment",
)

#: Payloads whose first field is an int32 version.
_VERSION_IN_MESSAGE = ("SubscriptionInfoData", "AssignmentInfo")

PAYLOADS = (*_VERSION_PREFIXED, *_VERSION_IN_MESSAGE)


#: Keys and values of coordinators' records. Keys have one version; the int16 before them is the record type.
_KEYS, _VALUES = schemas.coordinator_records()


_SIDES = ("Request", "Response")


def is_payload(name: str) -> bool:
    """Whether this is the name of a payload in this module, or of a message inside an Envelope."""
    return name in PAYLOADS or is_record(name) or _enveloped_layouts(name) is not None


def is_record(name: str) -> bool:
    """Whether this is the name of the key or value of a coordinator's record."""
    return name in _KEYS or name in _VALUES


def _enveloped_layouts(name: str) -> PayloadLayouts | None:
    """Return the layouts of a message inside an Envelope, e.g. ``CreateTopicsRequest v5``; None for other names."""
    message, _, version = name.rpartition(" v")
    side = next((side for side in _SIDES if message.endswith(side)), None)
    api = schemas.api_by_name(message.removesuffix(side)) if side else None
    layouts = api_layouts(api.key, int(version)) if api and version.isdecimal() and len(version) < 3 else None
    if layouts is None:
        return None
    kind = layouts.request_kind if side == "Request" else layouts.response_kind
    return PayloadLayouts(kind.header_layout, layout(message, int(version)), int(version))


class PayloadLayouts(NamedTuple):
    """The layouts of a payload at one version: its header, which has the version or no fields, and its message."""

    header: Layout
    body: Layout
    version: int


def header_layout_of(name: str) -> Layout:
    """Return the layout of a payload's header: an int16 version (for keys, the record type), or no fields."""
    return _EMPTY_HEADER if name in _VERSION_IN_MESSAGE else _VERSION_HEADER


_VERSION_HEADER = Layout("PayloadHeader", (VERSION,))
_EMPTY_HEADER = Layout("PayloadHeader", ())


def layouts_for_version(name: str, version: int) -> PayloadLayouts:
    """Return the layouts of a payload at an existing version."""
    return PayloadLayouts(header_layout_of(name), layout(name, version), version)


def layouts_as_stated(name: str, data: bytes) -> PayloadLayouts:
    """Return the layouts of a payload at the version in its first bytes; like Kafka, read a later one as the latest.

    Raises:
        DecodeError: The version is missing or does not exist.
    """
    if (enveloped := _enveloped_layouts(name)) is not None:
        return enveloped
    width = 4 if name in _VERSION_IN_MESSAGE else 2
    if len(data) < width:
        raise DecodeError(f"a payload of {len(data)} bytes has no room for its version", offset=0)
    if name in _KEYS:
        return layouts_for_version(name, 0)
    stated_version, known_versions = int.from_bytes(data[:width], "big", signed=True), versions(name)
    if stated_version < known_versions[0] or (stated_version > known_versions[-1] and name not in _VERSION_PREFIXED):
        raise DecodeError(f"{name} has no version {stated_version}", offset=0)
    return layouts_for_version(name, min(stated_version, known_versions[-1]))
