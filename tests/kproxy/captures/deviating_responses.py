"""Wrong layouts that brokers have written, each as a frame and as the story of a client that requests it twice."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from dissectors.edits import Edit, frame_layout, write
from dissectors.messages.message import api_layouts
from dissectors.schemas import api_by_name
from tests.kproxy.frames import with_length_prefix
from tests.kproxy.stories import to_encodable

#: The versions that the broker advertises: roughly those of Kafka 2.8.
SERVED = {0: 9, 1: 12, 2: 6, 3: 11, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 17: 1, 18: 3, 36: 2}
ADVERTISED = {"api_keys": [{"api_key": key, "max_version": highest} for key, highest in SERVED.items()]}

_BROKER = {"node_id": 1, "host": "10.0.0.1", "port": 9092}
_PARTITION = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
_METADATA = {"brokers": [_BROKER], "topics": [{"name": "orders", "partitions": [_PARTITION]}]}
_METADATA_1 = {"brokers": [_BROKER | {"rack": None}], "controller_id": 1, "topics": _METADATA["topics"]}
_CLUSTER = "kR2hXx0bQ8mTq3FzV7n1Yg"
_MEMBER = "app-5f0c2d9e-41b7-4c83-9a60"
_SUBSCRIPTION = {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["payments"]}}
_JOIN = {"group_id": "billing", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "protocol_type": "consumer",
         "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}]}  # fmt: skip
_JOINED = {"generation_id": 1, "protocol_name": "range", "leader": _MEMBER, "member_id": _MEMBER,
           "members": [{"member_id": _MEMBER, "metadata": _SUBSCRIPTION}]}  # fmt: skip
_FETCH = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1_048_576, "topics": [
    {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 40, "partition_max_bytes": 1_048_576}]}
]}  # fmt: skip
_BATCH = [{"base_offset": 40, "records": [{"value": "first"}, {"offset": 41, "value": "second"}]}]


def _fetch_response(records: Any, **partition_fields: Any) -> dict[str, Any]:
    partition = {"high_watermark": 42, "last_stable_offset": 42, "log_start_offset": 7, "records": records}
    return {"responses": [{"topic": "orders", "partitions": [partition | partition_fields]}]}


@dataclass(frozen=True)
class DeviatingResponse:
    """A response as a broken broker writes it; `seen` holds its recorded bytes, if it was ever recorded."""

    api: str
    version: int
    request: dict[str, Any]
    response: dict[str, Any] = field(default_factory=dict)
    edit: Edit | None = None
    seen: str | None = None

    def frame(self, correlation_id: int) -> bytes:
        """Return the bytes of the response, including the length prefix."""
        if self.seen is not None:
            return with_length_prefix(bytes.fromhex(self.seen))
        api = api_by_name(self.api)
        assert api is not None
        layouts = api_layouts(api.key, self.version)
        assert layouts is not None
        layout = frame_layout(layouts.response_header, layouts.response)
        values = {"header": {"correlation_id": correlation_id}, "body": self._body(layout)}
        return write(self.edit, layout, values)

    def _body(self, layout: Any) -> dict[str, Any]:
        struct = (self.edit.apply(layout) if self.edit else layout).fields[1].struct
        assert struct is not None
        return to_encodable(struct, self.response)

    @property
    def story(self) -> str:
        """The story of a client that sends its request on two connections, since it cannot read the first response."""
        return "\n".join(self._connection(number) for number in (1, 2))

    def _connection(self, number: int) -> str:
        # A recorded frame answers the first request of its connection.
        hello = f"{number}> ApiVersions v0\n{number}< {json.dumps(ADVERTISED)}"
        answers_first_request = self.seen is not None or self.api == "ApiVersions"
        lines = [
            f"open {number} client=10.0.0.9:5000{number} server=10.0.0.1:9092",
            *([] if answers_first_request else [hello]),
            f"{number}> {self.api} v{self.version} {json.dumps(self.request)}",
            f"{number}< hex {self.frame(1 if answers_first_request else 2).hex(' ')}",
            "+50ms",
            f"{number} close by=client how=fin",
            "+1s",
        ]
        return "\n".join(lines)


_VERSIONS = {"client_software_name": "app", "client_software_version": "1.0"}
_METADATA_REQUEST = {"topics": [{"name": "orders"}]}

DEVIATING_RESPONSES = {
    "api-versions-v0-throttle-appended": DeviatingResponse(
        "ApiVersions", 0, {}, ADVERTISED | {"throttle_time_ms": 0},
        Edit.of("field_from_version", "throttle_time_ms", from_version=1, place=2),
    ),
    "api-versions-v3-not-flexible": DeviatingResponse(
        "ApiVersions", 3, _VERSIONS, ADVERTISED, Edit.of("flexibility", written="fixed")
    ),
    "api-versions-v3-tag-buffer-in-header": DeviatingResponse(
        "ApiVersions", 3, _VERSIONS, ADVERTISED, Edit.of("header_version", "header", written=1)
    ),
    "metadata-v1-throttle-first": DeviatingResponse(
        "Metadata", 1, _METADATA_REQUEST, _METADATA_1 | {"throttle_time_ms": 0},
        Edit.of("field_from_version", "throttle_time_ms", from_version=3, place=0),
    ),
    "metadata-v1-in-the-layout-of-v3": DeviatingResponse(
        "Metadata", 1, _METADATA_REQUEST, _METADATA_1 | {"cluster_id": _CLUSTER, "throttle_time_ms": 0},
        Edit.of("body_version", body_version=3, header=None),
    ),
    "metadata-v0-with-fields-of-v1": DeviatingResponse(
        "Metadata", 0, _METADATA_REQUEST, _METADATA_1, Edit.of("body_version", body_version=1, header=None)
    ),
    "metadata-v1-without-its-fields": DeviatingResponse(
        "Metadata", 1, _METADATA_REQUEST, _METADATA, Edit.of("body_version", body_version=0, header=None)
    ),
    "find-coordinator-v0-with-fields-of-v1": DeviatingResponse(
        "FindCoordinator", 0, {"key": "billing"},
        seen="00000001 00000000 0000 0000 00000000 0009 3132372e302e302e31 0000fe6c",
    ),
    "find-coordinator-v0-with-fields-of-v1-null": DeviatingResponse(
        "FindCoordinator", 0, {"key": "billing"},
        seen="00000001 00000000 0000 ffff 00000000 0009 3132372e302e302e31 0000fe6c",
    ),
    "find-coordinator-v0-right": DeviatingResponse(
        "FindCoordinator", 0, {"key": "billing"}, seen="0000000100000000000000093132372e302e302e310000fe6c"
    ),
    "join-group-v2-throttle-last": DeviatingResponse(
        "JoinGroup", 2, _JOIN, _JOINED, Edit.of("field_moved", "throttle_time_ms", from_=0, to=6)
    ),
    "join-group-v2-throttle-twice": DeviatingResponse(
        "JoinGroup", 2, _JOIN, _JOINED, Edit.of("field_duplicated", "throttle_time_ms", where=7)
    ),
    "list-offsets-v2-without-throttle": DeviatingResponse(
        "ListOffsets", 2,
        {"replica_id": -1, "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1, "offset": 42}]}]},
        Edit.of("field_missing", "throttle_time_ms", where=0),
    ),
    "fetch-v5-in-the-layout-of-v3": DeviatingResponse(
        "Fetch", 5, _FETCH,
        {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 42, "records": _BATCH}]}]},
        Edit.of("body_version", body_version=3, header=None),
    ),
    "produce-v2-throttle-first": DeviatingResponse(
        "Produce", 2,
        {"acks": -1, "timeout_ms": 30000, "topic_data": [{"name": "orders", "partition_data": [
            {"index": 0, "records": [{"magic": 1, "records": [{"value": "first"}]}]}]}]},
        {"responses": [{"name": "orders", "partition_responses": [
            {"index": 0, "base_offset": 40, "log_append_time_ms": -1}]}]},
        Edit.of("field_moved", "throttle_time_ms", from_=1, to=0),
    ),
    "fetch-v11-records-with-int32-lengths": DeviatingResponse(
        "Fetch", 11, _FETCH, _fetch_response(_BATCH),
        Edit.of("record_encoding", "responses[].partitions[].records", written="record_length_int32"),
    ),
    "metadata-v9-without-tag-buffer-in-header": DeviatingResponse(
        "Metadata", 9, _METADATA_REQUEST, _METADATA_1, Edit.of("header_version", "header", written=0)
    ),
    "join-group-v2-generic-error-body": DeviatingResponse(
        "JoinGroup", 2, _JOIN, {"error_code": 25}, Edit.of("generic_error_body")
    ),
    "find-coordinator-v1-correlation-id-twice": DeviatingResponse(
        "FindCoordinator", 1, {"key": "billing"}, _BROKER, Edit.of("duplicated_prefix", prefix="correlation_id")
    ),
    "fetch-v12-body-not-flexible": DeviatingResponse(
        "Fetch", 12, _FETCH, _fetch_response(_BATCH), Edit.of("flexibility", written="fixed")
    ),
    "fetch-v12-not-flexible": DeviatingResponse(
        "Fetch", 12, _FETCH, _fetch_response(_BATCH),
        Edit.of("flexibility", written="fixed").followed_by(Edit.of("header_version", "header", written=0)),
    ),
}  # fmt: skip
