"""Flows of a capture: which are Kafka, who is the client, and what comes out."""

from collections.abc import Sequence

import pytest

from kproxy.capture import BytesCaptured, BytesLost, Flow, FlowEnded, FlowOpened, NameNotFound, SegmentDiffers
from kproxy.capture.kafka_flows import MAX_UNDECIDED, Dissector
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from tests.kproxy.frames import request, response

CLIENT, SERVER = ("10.0.0.1", 50000), ("10.0.0.2", 19092)
METADATA = request("Metadata", 4, {"topics": [{"name": "orders"}]})
ANSWER = response("Metadata", 4, {})


def run(events: Sequence[object], **options: object) -> tuple[list[Line], Dissector]:
    dissector = Dissector(Inspector("x"), **options)  # type: ignore[arg-type]
    lines = [line for event in events for line in dissector.process(event)]  # type: ignore[arg-type]
    return lines + dissector.flush(), dissector


def kinds(lines: list[Line]) -> list[type]:
    return [type(line) for line in lines]


def flow(*, midstream: bool = False, swapped: bool = False) -> Flow:
    return Flow(0, (SERVER, CLIENT) if swapped else (CLIENT, SERVER), midstream)


def exchange(flow: Flow, client: int = 0) -> list[object]:
    return [
        FlowOpened(flow, 1),
        BytesCaptured(flow, client, 2, METADATA),
        BytesCaptured(flow, 1 - client, 3, ANSWER),
        FlowEnded(flow, 4, "fin", client),
    ]


def test_a_flow_that_begins_with_a_request_is_kafka_on_any_port() -> None:
    lines, dissector = run(exchange(flow()))
    assert kinds(lines) == [OpenLine, RequestLine, ResponseLine, CloseLine]
    assert (lines[0].client, lines[0].server) == ("10.0.0.1:50000", "10.0.0.2:19092")  # type: ignore[union-attr]
    assert (lines[-1].by, lines[-1].how) == ("client", "fin")  # type: ignore[union-attr]
    assert dissector.flows == 1


def test_a_request_in_small_pieces_is_kafka_too() -> None:
    one = flow()
    pieces = [BytesCaptured(one, 0, at, METADATA[at : at + 1]) for at in range(len(METADATA))]
    assert kinds(run([FlowOpened(one, 0), *pieces])[0]) == [OpenLine, RequestLine]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc", "TLS"),
        (b"x" * 20, "unknown"),
    ],
)
def test_other_protocols_are_left_alone_and_counted(data: bytes, name: str) -> None:
    one = flow()
    lines, dissector = run(
        [
            FlowOpened(one, 1),
            BytesCaptured(one, 0, 2, data),
            BytesCaptured(one, 1, 3, b"y"),
            FlowEnded(one, 4, "fin", 0),
        ]
    )
    assert lines == []
    assert dissector.other == {name: 1}


def test_on_a_port_that_is_said_to_be_kafkas_they_are_findings() -> None:
    one = flow()
    lines, _ = run([FlowOpened(one, 1), BytesCaptured(one, 0, 2, b"GET / HTTP/1.1\r\n")], ports=frozenset({19092}))
    assert kinds(lines) == [OpenLine, FindingLine]


def test_with_ports_given_no_other_flow_is_looked_at() -> None:
    assert run(exchange(flow()), ports=frozenset({9092}))[0] == []


def test_a_flow_met_in_the_middle_is_turned_round_if_the_guess_was_wrong() -> None:
    lines, _ = run(exchange(flow(midstream=True, swapped=True), client=1))
    assert kinds(lines) == [OpenLine, RequestLine, ResponseLine, CloseLine]
    assert lines[0].client == "10.0.0.1:50000"  # type: ignore[union-attr]
    assert lines[-1].by == "client"  # type: ignore[union-attr]


def test_a_response_before_the_first_request_waits_and_is_a_gap() -> None:
    one = flow(midstream=True)
    early = response("Heartbeat", 0, {}, correlation_id=77)
    lines, _ = run([FlowOpened(one, 1), BytesCaptured(one, 1, 2, early), *exchange(one)[1:]])
    assert kinds(lines) == [OpenLine, RequestLine, GapLine, FindingLine, ResponseLine, CloseLine]  # K002


def test_lost_bytes_are_told() -> None:
    one = flow()
    events = [FlowOpened(one, 1), BytesCaptured(one, 0, 2, METADATA), BytesLost(one, 0, 3, 10)]
    lines, _ = run(events)
    assert kinds(lines) == [OpenLine, RequestLine, GapLine, FindingLine]  # K001


def test_bytes_that_differ_are_reported_once_a_direction_and_counted() -> None:
    one = flow()
    differ = [SegmentDiffers(one, way, 4, 8, 24, 3) for way in (0, 0, 1, 0)]
    opened, asked, answered, ended = exchange(one)
    lines, _ = run([opened, asked, answered, *differ, ended])
    found = [line for line in lines if isinstance(line, FindingLine)]
    assert [(line.code, line.direction, line.offset) for line in found] == [
        ("K008", "request", 8),
        ("K008", "response", 8),
    ]
    assert "3 of 24 bytes" in found[0].message
    closed = lines[-1]
    assert isinstance(closed, CloseLine)
    assert [(finding.code, finding.count) for finding in closed.repeated] == [("K008", 2)]


def test_bytes_that_differ_before_the_protocol_is_known_wait_with_them() -> None:
    one = flow()
    opened, *rest = exchange(one)
    early = [
        SegmentDiffers(one, 0, 2, 5, 9, 3),
        BytesCaptured(one, 0, 2, METADATA[:9]),
        SegmentDiffers(one, 0, 2, 5, 9, 3),
    ]
    lines, _ = run([opened, *early, BytesCaptured(one, 0, 3, METADATA[9:]), *rest[1:]])
    assert kinds(lines) == [OpenLine, FindingLine, RequestLine, ResponseLine, CloseLine]


def test_bytes_that_differ_do_not_hide_that_a_flow_is_tls() -> None:
    one = flow()
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc"
    events = [FlowOpened(one, 1), SegmentDiffers(one, 0, 2, 5, 9, 3), BytesCaptured(one, 0, 2, hello)]
    decryptors: list[str] = []
    run([*events, FlowEnded(one, 4, "fin", 0)], decryptor=lambda: decryptors.append("made"))
    assert decryptors == ["made"]


def test_not_all_that_differs_is_kept_until_the_protocol_is_known() -> None:
    one = flow(midstream=True)
    differ = [SegmentDiffers(one, 0, 2, 5, MAX_UNDECIDED // 4, 3)] * 1000
    lines, _ = run([FlowOpened(one, 1), *differ, *exchange(one)[1:]])
    closed = lines[-1]
    assert isinstance(closed, CloseLine)
    assert [(finding.code, finding.count) for finding in closed.repeated] == [("K008", 4)]


def test_what_stays_unclear_is_not_kept_for_ever() -> None:
    one = flow(midstream=True)
    chunk = b"\xff" * 65536
    events = [FlowOpened(one, 1), *(BytesCaptured(one, 0, 2, chunk) for _ in range(MAX_UNDECIDED // len(chunk) + 1))]
    lines, dissector = run(events)
    assert lines == []
    assert dissector.other == {"unknown": 1}


def test_a_connection_on_which_nothing_was_said_is_nothing() -> None:
    one = flow()
    lines, dissector = run([FlowOpened(one, 1), FlowEnded(one, 2, "fin", 0)])
    assert lines == []
    assert dissector.other == {}


ASKED = request("Metadata", 8, {"topics": None})
GIVEN = response("Metadata", 8, {"brokers": [{"node_id": 1, "host": "kafka-1", "port": 9092}]})


def attempt(number: int, port: int, how: str) -> list[object]:
    tried = Flow(number, ((CLIENT[0], 50000 + number), ("10.0.0.7", port)), midstream=False)
    return [FlowOpened(tried, 5), FlowEnded(tried, 6, how, 1, 1)]  # type: ignore[arg-type]


def asked() -> list[object]:
    one = flow()
    return [FlowOpened(one, 1), BytesCaptured(one, 0, 2, ASKED), BytesCaptured(one, 1, 3, GIVEN)]


def test_attempts_to_reach_an_advertised_address_have_lines() -> None:
    lines, dissector = run([*asked(), *attempt(1, 9092, "refused"), *attempt(2, 80, "refused")])
    assert kinds(lines) == [OpenLine, RequestLine, ResponseLine, OpenLine, CloseLine]
    closed = lines[-1]
    assert isinstance(closed, CloseLine)
    assert (closed.server, closed.how, closed.by) == ("10.0.0.7:9092", "refused", "server")
    assert dissector.failed == {("10.0.0.7:9092", "refused"): 1, ("10.0.0.7:80", "refused"): 1}


def test_attempts_on_a_port_that_is_given_have_lines() -> None:
    lines, _ = run(attempt(1, 9092, "no answer"), ports=frozenset({9092}))
    assert kinds(lines) == [OpenLine, CloseLine]


def test_a_name_that_cannot_be_resolved_is_a_finding() -> None:
    lines, _ = run([*asked(), NameNotFound(4, (CLIENT[0], 5353), "kafka-1"), FlowEnded(flow(), 9, "fin", 0)])
    [finding] = [line for line in lines if isinstance(line, FindingLine) and line.code == "S001"]
    assert "its name server does not know that name" in finding.message
