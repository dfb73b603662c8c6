"""From bytes to trace lines."""

import base64
from typing import Any

import pytest

from dissectors.connections.events import Direction
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
from tests.kproxy.frames import framed, request, response
from tests.kproxy.stories import Teller

MS = 1_000_000
AT = 1_700_000_000_000_000_000

PRODUCE = {
    "acks": -1,
    "timeout_ms": 1000,
    "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": b""}, {"index": 3, "records": None}]}],
}


class Session:
    """One connection watched, and its lines."""

    def __init__(self, **options: Any) -> None:
        self.inspector = Inspector("web-1-77", **options)
        self.lines: list[Line] = self.inspector.open(5, "10.0.0.1:40000", "10.0.0.2:9092", at=AT)

    def client(self, data: bytes, at: int = 0) -> Any:
        self.lines += (made := self.inspector.data(5, Direction.REQUEST, data, at=AT + at))
        return made[-1] if made else None

    def server(self, data: bytes, at: int = 0) -> Any:
        self.lines += (made := self.inspector.data(5, Direction.RESPONSE, data, at=AT + at))
        return made[-1] if made else None

    def close(self, **options: Any) -> CloseLine:
        self.lines += (made := self.inspector.close(5, **{"at": AT} | options))
        assert isinstance(made[-1], CloseLine)
        return made[-1]


def test_a_connection_opens_with_its_two_ends() -> None:
    [line] = Session().lines
    assert isinstance(line, OpenLine)
    assert (line.connection_id, line.client, line.server) == ("web-1-77-5", "10.0.0.1:40000", "10.0.0.2:9092")


def test_a_request_says_who_asks_what_of_which_topics() -> None:
    frame = request("Produce", 9, PRODUCE, correlation_id=7, client_id="shop")
    line = Session().client(frame)
    assert isinstance(line, RequestLine)
    assert (line.api, line.api_key, line.api_version) == ("Produce", 0, 9)
    assert (line.correlation_id, line.client_id, line.acks) == (7, "shop", -1)
    assert (line.size, line.offset) == (len(frame), 0)
    assert [(topic.topic, topic.partitions, topic.bytes) for topic in line.topics] == [("orders", [0, 3], 0)]


def test_a_response_repeats_its_request_so_that_no_join_is_needed() -> None:
    session = Session()
    asked = request("JoinGroup", 5, {"group_id": "g", "member_id": "m", "protocol_type": "consumer"}, correlation_id=9)
    session.client(asked)
    line = session.server(response("JoinGroup", 5, {"error_code": 25, "throttle_time_ms": 3}, correlation_id=9), 7 * MS)
    assert isinstance(line, ResponseLine)
    assert (line.api, line.api_version, line.client_id) == ("JoinGroup", 5, "test")
    assert (line.group_id, line.member_id) == ("g", "m")
    assert line.latency_us == 7000
    assert line.request_ts == "2023-11-14T22:13:20.000000Z"
    assert line.request_size == len(asked)
    assert line.throttle_time_ms == 3
    assert [(error.path, error.code, error.name) for error in line.errors] == [("error_code", 25, "UNKNOWN_MEMBER_ID")]


def test_a_response_names_its_request_by_its_offset_whatever_the_correlation_ids() -> None:
    session = Session()
    asked = request("Heartbeat", 4, {"group_id": "g", "member_id": "m"}, correlation_id=9)
    session.client(asked * 2)
    answer = response("Heartbeat", 4, {}, correlation_id=9)
    assert [session.server(answer).request_offset for _ in range(2)] == [0, len(asked)]
    assert session.server(answer).request_offset is None


def test_a_produce_response_tells_of_the_records_of_its_request() -> None:
    session = Session()
    session.client(request("Produce", 9, PRODUCE))
    line = session.server(response("Produce", 9, {"responses": [{"name": "orders"}]}))
    assert [topic.partitions for topic in line.topics] == [[0, 3]]


def test_what_record_data_holds_is_told_by_the_request_of_a_produce_and_by_its_response() -> None:
    session = Session()
    data = encode([{"compression": "gzip", "records": [{"value": b"v"}] * 5}, {"records": [{"value": b"v"}]}])
    partitions = [{"index": 0, "records": data}, {"index": 3, "records": None}]
    produce = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": partitions}]}
    [asked] = session.client(request("Produce", 9, produce)).topics
    [answered] = session.server(response("Produce", 9, {"responses": [{"name": "orders"}]})).topics
    expected = TopicEntry("orders", None, [0, 3], len(data), 6, 2, ["gzip", "none"], [len(data), 0])
    assert asked == answered == expected


def test_a_fetch_tells_its_lag_from_where_it_asked() -> None:
    session = Session()
    fetch = {"topics": [{"topic": "orders", "partitions": [{"partition": 1, "fetch_offset": 40}]}]}
    assert session.client(request("Fetch", 11, fetch)).topics[0].lag is None
    partition = {"partition_index": 1, "high_watermark": 100, "records": b""}
    line = session.server(response("Fetch", 11, {"responses": [{"topic": "orders", "partitions": [partition]}]}))
    assert line.topics == [TopicEntry("orders", None, [1], 0, 0, 0, [], [0], 60)]


def test_a_response_has_its_own_generation_or_that_of_its_request() -> None:
    session = Session()
    join = {"group_id": "g", "member_id": "m", "protocol_type": "consumer"}
    assert session.client(request("JoinGroup", 5, join)).generation_id is None
    assert session.server(response("JoinGroup", 5, {"generation_id": 4})).generation_id == 4
    sync = {"group_id": "g", "generation_id": 4, "member_id": "m"}
    assert session.client(request("SyncGroup", 3, sync, correlation_id=2)).generation_id == 4
    assert session.server(response("SyncGroup", 3, {}, correlation_id=2)).generation_id == 4
    beat = {"group_id": "g", "member_id": "m", "member_epoch": 0}
    assert session.client(request("ConsumerGroupHeartbeat", 0, beat, correlation_id=3)).generation_id == 0
    body = {"member_epoch": 7, "assignment": None}
    assert session.server(response("ConsumerGroupHeartbeat", 0, body, correlation_id=3)).generation_id == 7
    assert session.client(request("LeaveGroup", 1, {"group_id": "g"}, correlation_id=4)).generation_id is None


def test_the_software_of_a_client_stands_on_both_sides_of_apiversions() -> None:
    session = Session()
    named = {"client_software_name": "librdkafka", "client_software_version": "2.16.0"}
    asked = session.client(request("ApiVersions", 3, named))
    answered = session.server(response("ApiVersions", 3, {"error_code": 35}))
    for line in (asked, answered):
        assert (line.software_name, line.software_version) == ("librdkafka", "2.16.0")
    older = session.client(request("ApiVersions", 2, {}, correlation_id=2))
    assert (older.software_name, older.software_version) == (None, None)


@pytest.mark.parametrize(
    ("api", "version", "cluster_id", "told"),
    [("Metadata", 12, "c-1", "c-1"), ("Metadata", 1, None, None), ("DescribeCluster", 1, "c-1", "c-1"),
     ("Metadata", 12, "", None)],
)  # fmt: skip
def test_responses_that_name_the_cluster_say_its_id_and_its_brokers(
    api: str, version: int, cluster_id: str | None, told: str | None
) -> None:
    session = Session()
    node = "node_id" if api == "Metadata" else "broker_id"
    named = {"brokers": [{node: 1, "host": "b1", "port": 9092}, {node: 2, "host": "::1", "port": 9093}]}
    asked = session.client(request(api, version, {}))
    answered = session.server(
        response(api, version, named | ({} if cluster_id is None else {"cluster_id": cluster_id}))
    )
    assert (answered.cluster_id, answered.brokers) == (told, ["b1:9092", "[::1]:9093"])
    assert not hasattr(asked, "cluster_id")
    session.client(request("Heartbeat", 4, {"group_id": "g", "member_id": "m"}, correlation_id=2))
    other = session.server(response("Heartbeat", 4, {}, correlation_id=2))
    assert (other.cluster_id, other.brokers) == (None, [])


def test_topic_ids_get_the_names_that_a_metadata_response_gave_them() -> None:
    session = Session()
    topic_id = "AAECAwQFBgcICQoLDA0ODw"
    session.client(request("Metadata", 12, {}))
    session.server(response("Metadata", 12, {"topics": [{"name": "orders", "topic_id": topic_id}]}))
    fetch = {"topics": [{"topic_id": topic_id, "partitions": [{"partition": 1}]}]}
    line = session.client(request("Fetch", 13, fetch, correlation_id=2))
    assert [(topic.topic, topic.topic_id) for topic in line.topics] == [("orders", topic_id)]


def test_a_body_and_the_bytes_come_only_when_asked_for() -> None:
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]})
    assert Session().client(frame).body is None
    full = Session(detail=Detail.FULL).client(frame)
    assert full.body == {"topics": [{"name": "orders"}], "allow_auto_topic_creation": True}
    assert full.frame is None
    assert base64.b64decode(Session(detail=Detail.RAW).client(frame).frame) == frame


def test_frames_come_and_go_while_it_watches_and_bring_no_body() -> None:
    session = Session(frames=True)
    asked, answered = request("Metadata", 4, {"topics": None}), response("Metadata", 4, {})
    line = session.client(asked)
    assert (base64.b64decode(line.frame), line.body) == (asked, None)
    session.inspector.frames = False
    assert session.server(answered).frame is None
    session.inspector.frames = True
    session.client(asked)
    assert base64.b64decode(session.server(answered).frame) == answered
    full = Session(detail=Detail.FULL, frames=True).client(asked)
    assert full.body is not None
    assert base64.b64decode(full.frame) == asked
    raw = Session(detail=Detail.RAW)
    raw.inspector.frames = False
    assert raw.client(asked).frame is not None


def test_frames_have_no_secrets_and_what_was_not_decoded_has_no_frame() -> None:
    session = Session(frames=True)
    line = session.client(request("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0hunter2"}))
    assert line.body is None
    assert b"hunter2" not in base64.b64decode(line.frame)
    opaque = session.client(unhex("00000013 03e7 0000 00000007 ffff 68756e74657232ffff"))
    assert opaque.not_decoded is not None
    assert opaque.frame is None


def test_frames_leave_larger_ones_alone_also_one_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.inspection.inspector.MAX_DECODED_BYTES", 4000)
    large = request("Metadata", 4, {"topics": [{"name": "t" * 2000}]})
    session = Session()
    assert session.client(large).not_decoded is None
    session.client(large[:1500])
    session.inspector.frames = True
    line = session.client(large[1500:])
    assert line.not_decoded == "over the limit of 1000 bytes for decoding"
    assert session.client(large).not_decoded is not None
    assert session.client(request("Metadata", 4, {}, correlation_id=9)).correlation_id == 9
    session.inspector.frames = False
    assert session.client(large).not_decoded is None


def test_secrets_are_in_no_detail() -> None:
    frame = request("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0hunter2"})
    line = Session(detail=Detail.RAW).client(frame)
    assert line.body == {"auth_bytes": "(redacted, 14 bytes)"}
    assert b"hunter2" not in base64.b64decode(line.frame)
    assert len(base64.b64decode(line.frame)) == len(frame)


def test_raw_sasl_tokens_are_lines_without_content() -> None:
    session = Session(detail=Detail.RAW)
    session.client(request("SaslHandshake", 0, {"mechanism": "PLAIN"}))
    session.server(response("SaslHandshake", 0, {"mechanisms": ["PLAIN"]}))
    token = session.client(framed(b"\0alice\0hunter2"))
    assert isinstance(token, RequestLine)
    assert token.api is None
    assert token.frame is None
    assert token.not_decoded is not None
    assert "withheld" in token.not_decoded
    assert isinstance(session.server(framed(b"")), ResponseLine)
    assert session.client(request("Metadata", 1, {}, correlation_id=2)).api == "Metadata"


def test_a_broken_frame_carries_its_finding_with_the_bytes() -> None:
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]})
    line = Session().client(framed(frame[4:] + b"\xde\xad\xbe"))
    [finding] = line.findings
    assert (finding.code, finding.name, finding.severity) == ("L001", "trailing-bytes", "error")
    assert finding.span == (len(frame), len(frame) + 3)


def test_what_is_no_kafka_is_a_finding_of_its_own() -> None:
    line = Session().client(b"GET / HTTP/1.1\r\n\r\n")
    assert isinstance(line, FindingLine)
    assert (line.code, line.direction, line.offset) == ("X003", "request", 0)


def test_an_unasked_response_has_no_api_and_a_finding() -> None:
    line = Session().server(response("Heartbeat", 0, {}, correlation_id=99))
    assert line.api is None
    assert [finding.code for finding in line.findings] == ["C001"]


def test_lost_bytes_are_a_gap_and_what_follows_is_in_step() -> None:
    session = Session()
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]})
    session.client(frame[:20])
    lines = session.inspector.lose(5, Direction.REQUEST, len(frame) - 20, at=AT, reason="not in the capture")
    gap, _, damaged = lines  # and K001, which says so
    assert isinstance(gap, GapLine)
    assert (gap.direction, gap.bytes) == ("request", len(frame) - 20)
    assert isinstance(damaged, RequestLine)
    assert damaged.not_decoded == f"{len(frame) - 20} bytes of it were lost"
    assert damaged.findings == []
    assert session.client(request("Metadata", 1, {}, correlation_id=2)).correlation_id == 2


def test_a_skipped_frame_still_pairs() -> None:
    session = Session()
    frame = request("Metadata", 4, {"topics": [{"name": "orders"}]}, correlation_id=3)
    [skipped] = session.inspector.skip(5, Direction.REQUEST, frame[:20], len(frame) - 4, at=AT, reason="behind")
    assert isinstance(skipped, RequestLine)
    assert skipped.not_decoded == "behind"
    line = session.server(response("Metadata", 4, {}, correlation_id=3), MS)
    assert (line.api, line.latency_us, line.not_decoded) == ("Metadata", 1000, None)


def test_a_closed_connection_tells_its_totals_and_what_was_left_open() -> None:
    session = Session()
    session.client(request("Metadata", 1, {}))
    close = session.close(at=AT + 2000 * MS, by="client", how="fin")
    assert (close.by, close.how, close.requests, close.responses, close.unanswered) == ("client", "fin", 1, 0, 1)
    assert close.request_bytes > 0
    assert [line.code for line in session.lines if isinstance(line, FindingLine)] == ["C004"]


def test_data_that_is_received_together_has_the_lines_of_data_one_by_one() -> None:
    """Long pauses in between: deadlines pass that an earlier piece of the same data has set."""
    pieces = [
        (Direction.REQUEST, request("Produce", 3, PRODUCE, correlation_id=1), 0),
        (Direction.REQUEST, request("Metadata", 1, {"topics": None}, correlation_id=2)[:20], 1),
        (Direction.REQUEST, request("Metadata", 1, {"topics": None}, correlation_id=2)[20:], 200),
        (Direction.RESPONSE, response("Produce", 3, {}, correlation_id=1), 400),
        (Direction.RESPONSE, response("Metadata", 1, {}, correlation_id=2), 401),
        (Direction.REQUEST, b"\0\0\0\x30", 402),
        (Direction.REQUEST, request("Heartbeat", 0, {}, correlation_id=3), 700),
    ]
    one_by_one, together = Session(partial=True), Session(partial=True)  # without stalls, nothing else flushes
    for direction, data, second in pieces:
        at = AT + second * 1000 * MS
        one_by_one.lines += one_by_one.inspector.data(5, direction, data, at=at)
        together.lines += together.inspector.receive(5, direction, data, at=at)
    one_by_one.close()
    together.close()
    assert together.lines == one_by_one.lines
    assert len([line for line in together.lines if isinstance(line, FindingLine)]) >= 2


def test_a_request_that_is_not_judged_yet_is_not_listed_as_waiting() -> None:
    session = Session()
    session.client(request("Metadata", 1, {"topics": None}, correlation_id=1))
    session.inspector.receive(5, Direction.REQUEST, request("Heartbeat", 0, {}, correlation_id=2), at=AT)
    [opened] = session.inspector.open_now()
    assert [line.api for line in opened.waiting] == ["Metadata"]
    session.inspector.flush()
    [opened] = session.inspector.open_now()
    assert [line.api for line in opened.waiting] == ["Metadata", "Heartbeat"]


@pytest.mark.parametrize("version", [3, 5])
def test_the_response_to_a_sync_group_has_the_assignment(version: int) -> None:
    protocol = '"protocol_type": "consumer", ' if version >= 5 else ""
    assigned = '{"topic": "orders", "partitions": [0, 2]}, {"topic": "audit", "partitions": [1]}'
    teller = Teller()
    teller.tell(f"""
> SyncGroup v{version} {{"group_id": "g", "generation_id": 1, "member_id": "a"}}
< {{{protocol}"assignment": {{"type": "ConsumerProtocolAssignment", "version": 1,
  "data": {{"assigned_partitions": [{assigned}]}}}}}}
> SyncGroup v{version} {{"group_id": "g", "generation_id": 1, "member_id": "a"}}
< {{"error_code": 27}}
> SyncGroup v{version} {{"group_id": "other", "generation_id": 1, "member_id": "a"}}
< {{"assignment": "00 ff 07"}}
""")
    answered = [line for line in teller.lines if isinstance(line, ResponseLine)]
    assert [(topic.topic, topic.partitions) for topic in answered[0].topics] == [("orders", [0, 2]), ("audit", [1])]
    assert not answered[1].topics
    assert not answered[2].topics
