"""From bytes to trace lines."""

import base64
from typing import Any

import pytest

from dissectors.connections.events import INSPECTOR_WAS_BEHIND, Direction
from dissectors.hexdump import unhex
from dissectors.records import encode
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import (
    CloseLine,
    Detail,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RequestLine,
    ResponseLine,
    TopicEntry,
)
from tests.kproxy.frames import request, response, with_length_prefix
from tests.kproxy.stories import StoryPlayer

NS_PER_MS = 1_000_000
AT = 1_700_000_000_000_000_000

PRODUCE = {
    "acks": -1,
    "timeout_ms": 1000,
    "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": b""}, {"index": 3, "records": None}]}],
}


class ObservedConnection:
    """One inspected connection and its trace lines."""

    def __init__(self, **options: Any) -> None:
        self.inspector = Inspector("web-1-77", **options)
        self.lines: list[Line] = self.inspector.open(5, "10.0.0.1:40000", "10.0.0.2:9092", at=AT)

    def client_sends(self, data: bytes, at: int = 0) -> Any:
        self.lines += (take_new_lines := self.inspector.receive_data(5, Direction.REQUEST, data, at=AT + at))
        return take_new_lines[-1] if take_new_lines else None

    def server_sends(self, data: bytes, at: int = 0) -> Any:
        self.lines += (take_new_lines := self.inspector.receive_data(5, Direction.RESPONSE, data, at=AT + at))
        return take_new_lines[-1] if take_new_lines else None

    def close(self, **options: Any) -> CloseLine:
        self.lines += (take_new_lines := self.inspector.close(5, **{"at": AT} | options))
        assert isinstance(take_new_lines[-1], CloseLine)
        return take_new_lines[-1]


def test_open_line_has_both_endpoints() -> None:
    [line] = ObservedConnection().lines
    assert isinstance(line, OpenLine)
    assert (line.connection_id, line.client, line.server) == ("web-1-77-5", "10.0.0.1:40000", "10.0.0.2:9092")


def test_request_line_has_client_api_and_topics() -> None:
    frame = request("Produce", 9, PRODUCE, correlation_id=7, client_id="shop")
    line = ObservedConnection().client_sends(frame)
    assert isinstance(line, RequestLine)
    assert (line.api, line.api_key, line.api_version) == ("Produce", 0, 9)
    assert (line.correlation_id, line.client_id, line.acks) == (7, "shop", -1)
    assert (line.size, line.offset) == (len(frame), 0)
    assert [(topic.topic, topic.partitions, topic.bytes) for topic in line.topics] == [("orders", [0, 3], 0)]


def test_response_line_repeats_columns_of_its_request() -> None:
    session = ObservedConnection()
    join_request = request(
        "JoinGroup", 5, {"group_id": "g", "member_id": "m", "protocol_type": "consumer"}, correlation_id=9
    )
    session.client_sends(join_request)
    line = session.server_sends(
        response("JoinGroup", 5, {"error_code": 25, "throttle_time_ms": 3}, correlation_id=9), 7 * NS_PER_MS
    )
    assert isinstance(line, ResponseLine)
    assert (line.api, line.api_version, line.client_id) == ("JoinGroup", 5, "test")
    assert (line.group_id, line.member_id) == ("g", "m")
    assert line.latency_us == 7000
    assert line.request_ts == "2023-11-14T22:13:20.000000Z"
    assert line.request_size == len(join_request)
    assert line.throttle_time_ms == 3
    assert [(error.path, error.code, error.name) for error in line.errors] == [("error_code", 25, "UNKNOWN_MEMBER_ID")]


def test_response_line_has_the_offset_of_its_request() -> None:
    session = ObservedConnection()
    request_bytes = request("Heartbeat", 4, {"group_id": "g", "member_id": "m"}, correlation_id=9)
    session.client_sends(request_bytes * 2)
    response_bytes = response("Heartbeat", 4, {}, correlation_id=9)
    assert [session.server_sends(response_bytes).request_offset for _ in range(2)] == [0, len(request_bytes)]
    assert session.server_sends(response_bytes).request_offset is None


def test_produce_response_has_the_topics_of_its_request() -> None:
    session = ObservedConnection()
    session.client_sends(request("Produce", 9, PRODUCE))
    line = session.server_sends(response("Produce", 9, {"responses": [{"name": "orders"}]}))
    assert [topic.partitions for topic in line.topics] == [[0, 3]]


def test_produce_request_and_response_count_batches_and_records() -> None:
    session = ObservedConnection()
    data = encode([{"compression": "gzip", "records": [{"value": b"v"}] * 5}, {"records": [{"value": b"v"}]}])
    partitions = [{"index": 0, "records": data}, {"index": 3, "records": None}]
    produce = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": partitions}]}
    [request_topic] = session.client_sends(request("Produce", 9, produce)).topics
    [response_topic] = session.server_sends(response("Produce", 9, {"responses": [{"name": "orders"}]})).topics
    expected = TopicEntry("orders", None, [0, 3], len(data), 6, 2, ["gzip", "none"], [len(data), 0])
    assert request_topic == response_topic == expected


def test_fetch_response_has_the_lag_from_the_fetch_offset() -> None:
    session = ObservedConnection()
    fetch = {"topics": [{"topic": "orders", "partitions": [{"partition": 1, "fetch_offset": 40}]}]}
    assert session.client_sends(request("Fetch", 11, fetch)).topics[0].lag is None
    partition = {"partition_index": 1, "high_watermark": 100, "records": b""}
    line = session.server_sends(response("Fetch", 11, {"responses": [{"topic": "orders", "partitions": [partition]}]}))
    assert line.topics == [TopicEntry("orders", None, [1], 0, 0, 0, [], [0], 60)]


def test_generation_of_a_response_defaults_to_that_of_its_request() -> None:
    session = ObservedConnection()
    join = {"group_id": "g", "member_id": "m", "protocol_type": "consumer"}
    assert session.client_sends(request("JoinGroup", 5, join)).generation_id is None
    assert session.server_sends(response("JoinGroup", 5, {"generation_id": 4})).generation_id == 4
    sync = {"group_id": "g", "generation_id": 4, "member_id": "m"}
    assert session.client_sends(request("SyncGroup", 3, sync, correlation_id=2)).generation_id == 4
    assert session.server_sends(response("SyncGroup", 3, {}, correlation_id=2)).generation_id == 4
    heartbeat = {"group_id": "g", "member_id": "m", "member_epoch": 0}
    assert session.client_sends(request("ConsumerGroupHeartbeat", 0, heartbeat, correlation_id=3)).generation_id == 0
    body = {"member_epoch": 7, "assignment": None}
    assert session.server_sends(response("ConsumerGroupHeartbeat", 0, body, correlation_id=3)).generation_id == 7
    assert session.client_sends(request("LeaveGroup", 1, {"group_id": "g"}, correlation_id=4)).generation_id is None


def test_api_versions_lines_carry_the_client_software() -> None:
    session = ObservedConnection()
    software = {"client_software_name": "librdkafka", "client_software_version": "2.16.0"}
    request_line = session.client_sends(request("ApiVersions", 3, software))
    response_line = session.server_sends(response("ApiVersions", 3, {"error_code": 35}))
    for line in (request_line, response_line):
        assert (line.software_name, line.software_version) == ("librdkafka", "2.16.0")
    older_request = session.client_sends(request("ApiVersions", 2, {}, correlation_id=2))
    assert (older_request.software_name, older_request.software_version) == (None, None)


@pytest.mark.parametrize(
    ("api", "version", "cluster_id", "expected_id"),
    [("Metadata", 12, "c-1", "c-1"), ("Metadata", 1, None, None), ("DescribeCluster", 1, "c-1", "c-1"),
     ("Metadata", 12, "", None)],
)  # fmt: skip
def test_cluster_lines_carry_the_cluster_id_and_brokers(
    api: str, version: int, cluster_id: str | None, expected_id: str | None
) -> None:
    session = ObservedConnection()
    id_field = "node_id" if api == "Metadata" else "broker_id"
    brokers = {"brokers": [{id_field: 1, "host": "b1", "port": 9092}, {id_field: 2, "host": "::1", "port": 9093}]}
    request_line = session.client_sends(request(api, version, {}))
    response_line = session.server_sends(
        response(api, version, brokers | ({} if cluster_id is None else {"cluster_id": cluster_id}))
    )
    assert (response_line.cluster_id, response_line.brokers) == (expected_id, ["b1:9092", "[::1]:9093"])
    assert not hasattr(request_line, "cluster_id")
    session.client_sends(request("Heartbeat", 4, {"group_id": "g", "member_id": "m"}, correlation_id=2))
    heartbeat_response = session.server_sends(response("Heartbeat", 4, {}, correlation_id=2))
    assert (heartbeat_response.cluster_id, heartbeat_response.brokers) == (None, [])


def test_topic_ids_are_resolved_from_metadata_responses() -> None:
    session = ObservedConnection()
    topic_id = "AAECAwQFBgcICQoLDA0ODw"
    session.client_sends(request("Metadata", 12, {}))
    session.server_sends(response("Metadata", 12, {"topics": [{"name": "orders", "topic_id": topic_id}]}))
    fetch = {"topics": [{"topic_id": topic_id, "partitions": [{"partition": 1}]}]}
    line = session.client_sends(request("Fetch", 13, fetch, correlation_id=2))
    assert [(topic.topic, topic.topic_id) for topic in line.topics] == [("orders", topic_id)]


def test_detail_level_decides_whether_lines_have_a_body_and_a_frame() -> None:
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]})
    assert ObservedConnection().client_sends(frame).body is None
    full_line = ObservedConnection(detail=Detail.FULL).client_sends(frame)
    assert full_line.body == {"topics": [{"name": "orders"}], "allow_auto_topic_creation": True}
    assert full_line.frame is None
    assert base64.b64decode(ObservedConnection(detail=Detail.RAW).client_sends(frame).frame) == frame


def test_frames_can_be_switched_on_and_off_without_bodies() -> None:
    session = ObservedConnection(frames=True)
    request_bytes, response_bytes = request("Metadata", 4, {"topics": None}), response("Metadata", 4, {})
    line = session.client_sends(request_bytes)
    assert (base64.b64decode(line.frame), line.body) == (request_bytes, None)
    session.inspector.frames = False
    assert session.server_sends(response_bytes).frame is None
    session.inspector.frames = True
    session.client_sends(request_bytes)
    assert base64.b64decode(session.server_sends(response_bytes).frame) == response_bytes
    full_line = ObservedConnection(detail=Detail.FULL, frames=True).client_sends(request_bytes)
    assert full_line.body is not None
    assert base64.b64decode(full_line.frame) == request_bytes
    raw_connection = ObservedConnection(detail=Detail.RAW)
    raw_connection.inspector.frames = False
    assert raw_connection.client_sends(request_bytes).frame is not None


def test_frames_omit_secrets_and_undecoded_requests_have_no_frame() -> None:
    session = ObservedConnection(frames=True)
    line = session.client_sends(request("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0hunter2"}))
    assert line.body is None
    assert b"hunter2" not in base64.b64decode(line.frame)
    opaque = session.client_sends(unhex("00000013 03e7 0000 00000007 ffff 68756e74657232ffff"))
    assert opaque.not_decoded is not None
    assert opaque.frame is None


def test_large_frames_are_not_decoded_while_frames_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.inspection.inspector.MAX_DECODED_BYTES", 4000)
    large_frame = request("Metadata", 4, {"topics": [{"name": "t" * 2000}]})
    session = ObservedConnection()
    assert session.client_sends(large_frame).not_decoded is None
    session.client_sends(large_frame[:1500])
    session.inspector.frames = True
    line = session.client_sends(large_frame[1500:])
    assert line.not_decoded == "over the limit of 1000 bytes for decoding"
    assert session.client_sends(large_frame).not_decoded is not None
    assert session.client_sends(request("Metadata", 4, {}, correlation_id=9)).correlation_id == 9
    session.inspector.frames = False
    assert session.client_sends(large_frame).not_decoded is None


def test_no_detail_level_reveals_secrets() -> None:
    frame = request("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0hunter2"})
    line = ObservedConnection(detail=Detail.RAW).client_sends(frame)
    assert line.body == {"auth_bytes": "(redacted, 14 bytes)"}
    assert b"hunter2" not in base64.b64decode(line.frame)
    assert len(base64.b64decode(line.frame)) == len(frame)


def test_raw_sasl_tokens_have_lines_without_content() -> None:
    session = ObservedConnection(detail=Detail.RAW)
    session.client_sends(request("SaslHandshake", 0, {"mechanism": "PLAIN"}))
    session.server_sends(response("SaslHandshake", 0, {"mechanisms": ["PLAIN"]}))
    token = session.client_sends(with_length_prefix(b"\0alice\0hunter2"))
    assert isinstance(token, RequestLine)
    assert token.api is None
    assert token.frame is None
    assert token.not_decoded is not None
    assert "withheld" in token.not_decoded
    assert isinstance(session.server_sends(with_length_prefix(b"")), ResponseLine)
    assert session.client_sends(request("Metadata", 1, {}, correlation_id=2)).api == "Metadata"


def test_line_of_an_invalid_frame_has_its_finding() -> None:
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]})
    line = ObservedConnection().client_sends(with_length_prefix(frame[4:] + b"\xde\xad\xbe"))
    [finding] = line.findings
    assert (finding.code, finding.name, finding.severity) == ("L001", "trailing-bytes", "error")
    assert finding.span == (len(frame), len(frame) + 3)


def test_other_protocol_is_reported_as_a_separate_finding() -> None:
    line = ObservedConnection().client_sends(b"GET / HTTP/1.1\r\n\r\n")
    assert isinstance(line, FindingLine)
    assert (line.code, line.direction, line.offset) == ("X003", "request", 0)


def test_unsolicited_response_has_no_api_and_a_finding() -> None:
    line = ObservedConnection().server_sends(response("Heartbeat", 0, {}, correlation_id=99))
    assert line.api is None
    assert [finding.code for finding in line.findings] == ["C001"]


def test_lost_bytes_become_a_gap_and_framing_continues() -> None:
    session = ObservedConnection()
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]})
    session.client_sends(frame[:20])
    lines = session.inspector.lose(5, Direction.REQUEST, len(frame) - 20, at=AT, reason="not in the capture")
    gap, _, incomplete = lines  # the second line is K001, which reports the gap
    assert isinstance(gap, GapLine)
    assert (gap.direction, gap.bytes) == ("request", len(frame) - 20)
    assert isinstance(incomplete, RequestLine)
    assert incomplete.not_decoded == f"{len(frame) - 20} bytes of it were lost"
    assert incomplete.findings == []
    assert session.client_sends(request("Metadata", 1, {}, correlation_id=2)).correlation_id == 2


def test_skipped_request_still_gets_its_response() -> None:
    session = ObservedConnection()
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]}, correlation_id=3)
    [skipped] = session.inspector.skip(5, Direction.REQUEST, frame[:20], len(frame) - 4, at=AT, reason="behind")
    assert isinstance(skipped, RequestLine)
    assert skipped.not_decoded == "behind"
    line = session.server_sends(response("Metadata", 4, {}, correlation_id=3), NS_PER_MS)
    assert (line.api, line.latency_us, line.not_decoded) == ("Metadata", 1000, None)


def test_nothing_is_late_as_long_as_the_inspector_is_behind() -> None:
    session = ObservedConnection()
    session.client_sends(request("Metadata", 1, {}, correlation_id=1))
    session.inspector.is_behind = True
    assert session.inspector.tick(at=AT + 40_000 * NS_PER_MS) == []
    assert list(session.inspector.late_responses(at=AT + 40_000 * NS_PER_MS)) == []
    session.inspector.lose(5, Direction.RESPONSE, 90, at=AT + 40_000 * NS_PER_MS, reason=INSPECTOR_WAS_BEHIND, frames=1)
    session.inspector.is_behind = False
    assert session.inspector.tick(at=AT + 80_000 * NS_PER_MS) == []


def test_request_is_late_after_the_inspector_was_behind() -> None:
    session = ObservedConnection()
    session.client_sends(request("Metadata", 1, {}, correlation_id=1))
    session.inspector.is_behind = True
    session.inspector.is_behind = False
    findings = session.inspector.tick(at=AT + 40_000 * NS_PER_MS)
    assert [finding.code for finding in findings if isinstance(finding, FindingLine)] == ["C020", "C004"]


def test_close_line_has_totals_and_unanswered_requests() -> None:
    session = ObservedConnection()
    session.client_sends(request("Metadata", 1, {}))
    close = session.close(at=AT + 2000 * NS_PER_MS, by="client", how="fin")
    assert (close.by, close.how, close.requests, close.responses, close.unanswered) == ("client", "fin", 1, 0, 1)
    assert close.request_bytes > 0
    assert [line.code for line in session.lines if isinstance(line, FindingLine)] == ["C004"]


def test_batched_data_yields_the_same_lines_as_single_pieces() -> None:
    """During the long pauses, deadlines pass that an earlier piece of the same data has set."""
    pieces = [
        (Direction.REQUEST, request("Produce", 3, PRODUCE, correlation_id=1), 0),
        (Direction.REQUEST, request("Metadata", 1, {"topics": None}, correlation_id=2)[:20], 1),
        (Direction.REQUEST, request("Metadata", 1, {"topics": None}, correlation_id=2)[20:], 200),
        (Direction.RESPONSE, response("Produce", 3, {}, correlation_id=1), 400),
        (Direction.RESPONSE, response("Metadata", 1, {}, correlation_id=2), 401),
        (Direction.REQUEST, b"\0\0\0\x30", 402),
        (Direction.REQUEST, request("Heartbeat", 0, {}, correlation_id=3), 700),
    ]
    # Without stall lines, nothing else flushes.
    one_by_one, batched = ObservedConnection(partial=True), ObservedConnection(partial=True)
    for direction, data, second in pieces:
        at = AT + second * 1000 * NS_PER_MS
        one_by_one.lines += one_by_one.inspector.receive_data(5, direction, data, at=at)
        batched.lines += batched.inspector.receive(5, direction, data, at=at)
    one_by_one.close()
    batched.close()
    assert batched.lines == one_by_one.lines
    assert len([line for line in batched.lines if isinstance(line, FindingLine)]) >= 2


def test_uninspected_request_is_not_listed_as_waiting() -> None:
    session = ObservedConnection()
    session.client_sends(request("Metadata", 1, {"topics": None}, correlation_id=1))
    session.inspector.receive(5, Direction.REQUEST, request("Heartbeat", 0, {}, correlation_id=2), at=AT)
    [connection] = session.inspector.open_connections()
    assert [line.api for line in connection.waiting] == ["Metadata"]
    session.inspector.flush()
    [connection] = session.inspector.open_connections()
    assert [line.api for line in connection.waiting] == ["Metadata", "Heartbeat"]


@pytest.mark.parametrize("version", [3, 5])
def test_sync_group_response_has_the_assigned_partitions(version: int) -> None:
    protocol = '"protocol_type": "consumer", ' if version >= 5 else ""
    assigned = '{"topic": "orders", "partitions": [0, 2]}, {"topic": "audit", "partitions": [1]}'
    player = StoryPlayer()
    player.play(f"""
> SyncGroup v{version} {{"group_id": "g", "generation_id": 1, "member_id": "a"}}
< {{{protocol}"assignment": {{"type": "ConsumerProtocolAssignment", "version": 1,
  "data": {{"assigned_partitions": [{assigned}]}}}}}}
> SyncGroup v{version} {{"group_id": "g", "generation_id": 1, "member_id": "a"}}
< {{"error_code": 27}}
> SyncGroup v{version} {{"group_id": "other", "generation_id": 1, "member_id": "a"}}
< {{"assignment": "00 ff 07"}}
""")
    responses = [line for line in player.lines if isinstance(line, ResponseLine)]
    assert [(topic.topic, topic.partitions) for topic in responses[0].topics] == [("orders", [0, 2]), ("audit", [1])]
    assert not responses[1].topics
    assert not responses[2].topics
