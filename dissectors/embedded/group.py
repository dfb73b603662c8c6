"""Payloads of classic group members: their protocol follows from the group's protocol type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dissectors.embedded import connect, consumer
from dissectors.embedded.registry import Reader, Rows, embedded, enclosing_text, find_exact_layout
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout

LayoutByType = Mapping[str, Callable[[bytes], Layout]]

_METADATA: LayoutByType = {"consumer": consumer.subscription, "connect": connect.worker_state}
_ASSIGNMENT: LayoutByType = {"consumer": consumer.assignment, "connect": connect.assignment}
_METADATA_NAMES = {"consumer": "ConsumerProtocolSubscription", "connect": "ConnectWorkerState"}
_ASSIGNMENT_NAMES = {"consumer": "ConsumerProtocolAssignment", "connect": "ConnectAssignment"}


@embedded("JoinGroupRequest", "protocols.metadata")
@embedded("JoinGroupResponse", "members.metadata")
@embedded("DescribeGroupsResponse", "groups.members.member_metadata")
@embedded("GroupMetadataValue", "data.members.subscription")
def metadata(data: bytes, rows: Rows) -> Layout | None:
    """Return the layout of a member's metadata in JoinGroup."""
    return _choose_layout(data, rows, _METADATA)


@embedded("SyncGroupRequest", "assignments.assignment")
@embedded("SyncGroupResponse", "assignment")
@embedded("DescribeGroupsResponse", "groups.members.member_assignment")
@embedded("GroupMetadataValue", "data.members.assignment")
def assignment(data: bytes, rows: Rows) -> Layout | None:
    """Return the layout of a member's assignment in SyncGroup."""
    return _choose_layout(data, rows, _ASSIGNMENT)


@embedded("ConsumerGroupMemberMetadataValue", "data.classic_member_metadata.supported_protocols.metadata")
def classic_member_metadata(data: bytes, _: Rows) -> Layout | None:
    """Return the layout of the metadata of a member that uses the classic protocol in a consumer group (KIP-848)."""
    return consumer.subscription(data) if data else None


def payload_names(reader: Reader | None, protocol_type: str | None) -> tuple[str, ...]:
    """Return the names of payloads that this reader's field may have; empty if none belongs to a known group protocol.

    Args:
        reader: The field's reader.
        protocol_type: The group's protocol type; None if unknown.
    """
    if reader is classic_member_metadata:
        return (_METADATA_NAMES["consumer"],)
    if reader is connect.allocation:
        return (_ASSIGNMENT_NAMES["connect"],)
    names = _METADATA_NAMES if reader is metadata else _ASSIGNMENT_NAMES if reader is assignment else {}
    if protocol_type is None:
        return tuple(names.values())
    return (names[protocol_type],) if protocol_type in names else ()


def _choose_layout(data: bytes, rows: Rows, by_type: LayoutByType) -> Layout | None:
    if not data:
        return None
    protocol_type = enclosing_text(rows, "protocol_type")
    if protocol_type is None:
        # SyncGroup before v5 and JoinGroup responses before v7 lack the protocol type: use the layout that decodes
        # completely.
        return find_exact_layout(data, _possible_layouts(data, by_type))
    get_layout = by_type.get(protocol_type)
    return get_layout(data) if get_layout else None


def _possible_layouts(data: bytes, by_type: LayoutByType) -> Iterator[Layout]:
    for get_layout in by_type.values():
        try:
            yield get_layout(data)
        except DecodeError:
            continue
