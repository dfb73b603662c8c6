"""Flows in a capture: which of them are Kafka, which side is the client, and which lines they yield."""

from collections.abc import Sequence

import pytest

from kproxy.capture import BytesCaptured, BytesLost, Flow, FlowEnded, FlowOpened, NameNotFound, SegmentDiffers
from kproxy.capture.kafka_flows import MAX_UNDECIDED, Dissector
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from tests.kproxy.frames import request, response

CLIENT, SERVER = ("10.0.0.1", 50000), ("10.0.0.2", 19092)
METADATA = request("Metadata", 4, {"topics": [{"name": "orders"}]})
METADATA_RESPONSE = response("Metadata", 4, {})


def dissect(events: Sequence[object], **options: object) -> tuple[list[Line], Dissector]:
    dissector = Dissector(Inspector("x"), **options)  # type: ignore[arg-type]
    lines = [line for event in events for line in dissector.process(event)]  # type: ignore[arg-type]
    return lines + dissector.flush(), dissector


def kinds(lines: list[Line]) -> list[type]:
    return [type(line) for line in lines]


def flow(*, midstream: bool = False, swapped: bool = False) -> Flow:
    return Flow(0, (SERVER, CLIENT) if swapped else (CLIENT, SERVER), midstream)


def exchange(flow: Flow, client_direction: int = 0) -> list[object]:
    return [
        FlowOpened(flow, 1),
        BytesCaptured(flow, client_direction, 2, METADATA),
        BytesCaptured(flow, 1 - client_direction, 3, METADATA_RESPONSE),
        FlowEnded(flow, 4, "fin", client_direction),
    ]


def test_flow_that_starts_with_a_request_is_kafka_on_any_port() -> None:
    lines, dissector = dissect(exchange(flow()))
    assert kinds(lines) == [OpenLine, RequestLine, ResponseLine, CloseLine]
    assert (lines[0].client, lines[0].server) == ("10.0.0.1:50000", "10.0.0.2:19092")  # type: ignore[union-attr]
    assert (lines[-1].by, lines[-1].how) == ("client", "fin")  # type: ignore[union-attr]
    assert dissector.flows == 1


def test_request_in_small_pieces_is_recognised() -> None:
    tcp_flow = flow()
    pieces = [BytesCaptured(tcp_flow, 0, index, METADATA[index : index + 1]) for index in range(len(METADATA))]
    assert kinds(dissect([FlowOpened(tcp_flow, 0), *pieces])[0]) == [OpenLine, RequestLine]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc", "TLS"),
        (b"x" * 20, "unknown"),
    ],
)
def test_other_protocols_are_only_counted(data: bytes, name: str) -> None:
    tcp_flow = flow()
    lines, dissector = dissect(
        [
            FlowOpened(tcp_flow, 1),
            BytesCaptured(tcp_flow, 0, 2, data),
            BytesCaptured(tcp_flow, 1, 3, b"y"),
            FlowEnded(tcp_flow, 4, "fin", 0),
        ]
    )
    assert lines == []
    assert dissector.other == {name: 1}


def test_other_protocols_on_a_kafka_port_are_reported() -> None:
    tcp_flow = flow()
    lines, _ = dissect(
        [FlowOpened(tcp_flow, 1), BytesCaptured(tcp_flow, 0, 2, b"GET / HTTP/1.1\r\n")], ports=frozenset({19092})
    )
    assert kinds(lines) == [OpenLine, FindingLine]


def test_flows_on_other_ports_are_ignored_if_ports_are_given() -> None:
    assert dissect(exchange(flow()), ports=frozenset({9092}))[0] == []


def test_midstream_flow_is_reversed_if_the_client_was_guessed_wrong() -> None:
    lines, _ = dissect(exchange(flow(midstream=True, swapped=True), client_direction=1))
    assert kinds(lines) == [OpenLine, RequestLine, ResponseLine, CloseLine]
    assert lines[0].client == "10.0.0.1:50000"  # type: ignore[union-attr]
    assert lines[-1].by == "client"  # type: ignore[union-attr]


def test_response_before_the_first_request_becomes_a_gap() -> None:
    tcp_flow = flow(midstream=True)
    early_response = response("Heartbeat", 0, {}, correlation_id=77)
    lines, _ = dissect(
        [FlowOpened(tcp_flow, 1), BytesCaptured(tcp_flow, 1, 2, early_response), *exchange(tcp_flow)[1:]]
    )
    assert kinds(lines) == [OpenLine, RequestLine, GapLine, FindingLine, ResponseLine, CloseLine]  # K002


def test_lost_bytes_are_reported() -> None:
    tcp_flow = flow()
    events = [FlowOpened(tcp_flow, 1), BytesCaptured(tcp_flow, 0, 2, METADATA), BytesLost(tcp_flow, 0, 3, 10)]
    lines, _ = dissect(events)
    assert kinds(lines) == [OpenLine, RequestLine, GapLine, FindingLine]  # K001


def test_differing_retransmissions_are_reported_once_per_direction_and_counted() -> None:
    tcp_flow = flow()
    differing = [SegmentDiffers(tcp_flow, direction, 4, 8, 24, 3) for direction in (0, 0, 1, 0)]
    opened, request_bytes, response_bytes, ended = exchange(tcp_flow)
    lines, _ = dissect([opened, request_bytes, response_bytes, *differing, ended])
    findings = [line for line in lines if isinstance(line, FindingLine)]
    assert [(line.code, line.direction, line.offset) for line in findings] == [
        ("K008", "request", 8),
        ("K008", "response", 8),
    ]
    assert "3 of 24 bytes" in findings[0].message
    close_line = lines[-1]
    assert isinstance(close_line, CloseLine)
    assert [(finding.code, finding.count) for finding in close_line.repeated] == [("K008", 2)]


def test_early_differing_bytes_are_reported_once_the_protocol_is_known() -> None:
    tcp_flow = flow()
    opened, *later_events = exchange(tcp_flow)
    early_events = [
        SegmentDiffers(tcp_flow, 0, 2, 5, 9, 3),
        BytesCaptured(tcp_flow, 0, 2, METADATA[:9]),
        SegmentDiffers(tcp_flow, 0, 2, 5, 9, 3),
    ]
    lines, _ = dissect([opened, *early_events, BytesCaptured(tcp_flow, 0, 3, METADATA[9:]), *later_events[1:]])
    assert kinds(lines) == [OpenLine, FindingLine, RequestLine, ResponseLine, CloseLine]


def test_tls_is_recognised_despite_differing_retransmissions() -> None:
    tcp_flow = flow()
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc"
    events = [FlowOpened(tcp_flow, 1), SegmentDiffers(tcp_flow, 0, 2, 5, 9, 3), BytesCaptured(tcp_flow, 0, 2, hello)]
    decryptors: list[str] = []
    dissect([*events, FlowEnded(tcp_flow, 4, "fin", 0)], decryptor=lambda: decryptors.append("made"))
    assert decryptors == ["made"]


def test_number_of_differences_kept_until_the_protocol_is_known_is_limited() -> None:
    tcp_flow = flow(midstream=True)
    differing = [SegmentDiffers(tcp_flow, 0, 2, 5, MAX_UNDECIDED // 4, 3)] * 1000
    lines, _ = dissect([FlowOpened(tcp_flow, 1), *differing, *exchange(tcp_flow)[1:]])
    close_line = lines[-1]
    assert isinstance(close_line, CloseLine)
    assert [(finding.code, finding.count) for finding in close_line.repeated] == [("K008", 4)]


def test_flow_of_unknown_protocol_is_abandoned_after_a_limit() -> None:
    tcp_flow = flow(midstream=True)
    chunk = b"\xff" * 65536
    events = [
        FlowOpened(tcp_flow, 1),
        *(BytesCaptured(tcp_flow, 0, 2, chunk) for _ in range(MAX_UNDECIDED // len(chunk) + 1)),
    ]
    lines, dissector = dissect(events)
    assert lines == []
    assert dissector.other == {"unknown": 1}


def test_connection_without_data_has_no_lines() -> None:
    tcp_flow = flow()
    lines, dissector = dissect([FlowOpened(tcp_flow, 1), FlowEnded(tcp_flow, 2, "fin", 0)])
    assert lines == []
    assert dissector.other == {}


BROKERS_REQUEST = request("Metadata", 8, {"topics": None})
BROKERS_RESPONSE = response("Metadata", 8, {"brokers": [{"node_id": 1, "host": "kafka-1", "port": 9092}]})


def failed_connection_attempt(number: int, port: int, how: str) -> list[object]:
    failed_flow = Flow(number, ((CLIENT[0], 50000 + number), ("10.0.0.7", port)), midstream=False)
    return [FlowOpened(failed_flow, 5), FlowEnded(failed_flow, 6, how, 1, 1)]  # type: ignore[arg-type]


def advertise_broker_address() -> list[object]:
    tcp_flow = flow()
    return [
        FlowOpened(tcp_flow, 1),
        BytesCaptured(tcp_flow, 0, 2, BROKERS_REQUEST),
        BytesCaptured(tcp_flow, 1, 3, BROKERS_RESPONSE),
    ]


def test_failed_attempts_to_reach_an_advertised_address_have_lines() -> None:
    lines, dissector = dissect(
        [
            *advertise_broker_address(),
            *failed_connection_attempt(1, 9092, "refused"),
            *failed_connection_attempt(2, 80, "refused"),
        ]
    )
    assert kinds(lines) == [OpenLine, RequestLine, ResponseLine, OpenLine, CloseLine]
    close_line = lines[-1]
    assert isinstance(close_line, CloseLine)
    assert (close_line.server, close_line.how, close_line.by) == ("10.0.0.7:9092", "refused", "server")
    assert dissector.failed == {("10.0.0.7:9092", "refused"): 1, ("10.0.0.7:80", "refused"): 1}


def test_failed_attempts_on_a_given_port_have_lines() -> None:
    lines, _ = dissect(failed_connection_attempt(1, 9092, "no answer"), ports=frozenset({9092}))
    assert kinds(lines) == [OpenLine, CloseLine]


def test_unresolvable_broker_name_is_reported() -> None:
    lines, _ = dissect(
        [*advertise_broker_address(), NameNotFound(4, (CLIENT[0], 5353), "kafka-1"), FlowEnded(flow(), 9, "fin", 0)]
    )
    [finding] = [line for line in lines if isinstance(line, FindingLine) and line.code == "S001"]
    assert "its name server does not know that name" in finding.message
