"""Kafka Streams' user data in the consumer protocol: an instance's state, and its assigned tasks."""

from __future__ import annotations

import functools

from dissectors.embedded.registry import payload_layout, payload_of_layout
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Field, Layout, define

_LATEST_VERSION = 11
_FIRST_VERSION_WITH_NAMED_TOPOLOGIES = 10


def subscription(data: bytes) -> Layout | None:
    """Return the layout of SubscriptionInfoData, whose first field is its version; None without data.

    Source: Kafka's SubscriptionInfo.
    """
    return payload_layout("SubscriptionInfoData", _stated_version(data)) if data else None


def assignment(data: bytes) -> Layout | None:
    """Return the layout of AssignmentInfo; None without data.

    Raises:
        DecodeError: The version does not exist.
    """
    if not data:
        return None
    if (layout := find_assignment_layout(data)) is None:
        raise DecodeError(f"AssignmentInfo has no version {_stated_version(data)}", offset=0)
    return layout


def find_assignment_layout(data: bytes) -> Layout | None:
    """Return the layout of an AssignmentInfo by its version; None if the version does not exist."""
    version = int.from_bytes(data[:4], "big")
    return _assignment_layout(version) if len(data) >= 4 and 1 <= version <= _LATEST_VERSION else None


def _stated_version(data: bytes) -> int:
    if len(data) < 4:
        raise DecodeError(f"user data of {len(data)} bytes has no room for its version", offset=0)
    return int.from_bytes(data[:4], "big", signed=True)


@functools.cache
def _assignment_layout(version: int) -> Layout:
    return payload_of_layout(_assignment_info(version))


def _assignment_info(version: int) -> Layout:
    """Build the layout of AssignmentInfo, which Kafka does not define. Field names follow SubscriptionInfoData.

    Source: AssignmentInfo.encode and ConsumerProtocolUtils.writeTaskIdTo in kafka-streams 3.9.1. Java's writeUTF equals
    a Kafka string for text without NUL or supplementary characters.
    """
    task = [Field("topic_group_id", "int32", default=0), Field("partition", "int32", default=0)]
    if version >= _FIRST_VERSION_WITH_NAMED_TOPOLOGIES:
        # UTF-16 code units; empty unless the application uses an experimental API.
        task.append(Field("named_topology", "uint16", array=True, length="int32", default=[]))
    fields = [Field("version", "int32", default=0)]
    if version >= 3:
        fields.append(Field("latest_supported_version", "int32", default=0))
    fields += [
        _struct_array("active_tasks", "TaskId", *task),
        _struct_array("standby_tasks", "StandbyTask", *task, _partitions_by_name()),
    ]
    if version >= 5:
        fields += [
            _struct_array(
                "topics", "IndexedTopic", Field("index", "int32", default=0), Field("topic", "string", length="int16")
            )
        ]
    if version >= 2:
        fields.append(
            _hosts_field("partitions_by_host", _partitions_by_index() if version >= 5 else _partitions_by_name())
        )
    if version >= 6:
        fields.append(_hosts_field("standby_partitions_by_host", _partitions_by_index()))
    if version >= 4:
        fields.append(Field("error_code", "int32", default=0))
    if version >= 7:
        fields.append(Field("next_rebalance_ms", "int64", default=0))
    return Layout("AssignmentInfo", tuple(fields))


_PARTITION = Field("partition", "int32", default=0)


def _struct_array(name: str, struct: str, *fields: Field) -> Field:
    return Field(name, "struct", array=True, length="int32", struct=Layout(struct, fields), default=[])


def _partitions_by_name() -> Field:
    return _struct_array("partitions", "TopicPartition", Field("topic", "string", length="int16"), _PARTITION)


def _partitions_by_index() -> Field:
    return _struct_array("partitions", "IndexedPartition", Field("topic_index", "int32", default=0), _PARTITION)


def _hosts_field(name: str, partitions: Field) -> Field:
    return _struct_array(
        name, "Host", Field("host", "string", length="int16"), Field("port", "int32", default=0), partitions
    )


define("AssignmentInfo", {version: _assignment_info(version) for version in range(1, _LATEST_VERSION + 1)})
