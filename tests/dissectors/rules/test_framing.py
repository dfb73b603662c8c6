"""M001 to M007: one finding per impossible length prefix, stalled frames, and responses that are too large."""

import pytest

from dissectors import records
from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import FindingLine
from tests.kproxy.frames import request
from tests.kproxy.stories import BEGIN, StoryPlayer, findings

SHORT_FRAME = "> hex 00 00 00 08 00 12 00 00 00 00 00 2a\n"  # two bytes too few for its client_id
VALID_FRAME = "> hex 00 00 00 0a 00 12 00 00 00 00 00 2a ff ff\n"


def framing_findings(story: str) -> list[tuple[str, str, str | None]]:
    return [
        (finding.code, finding.severity, finding.blame) for finding in findings(story) if finding.code.startswith("M")
    ]


@pytest.mark.parametrize(
    ("story", "code", "severity", "blame"),
    [
        ("> hex 7fffffff", "M001", "error", "client"),
        ("> ApiVersions v0\n< hex 06400028", "M001", "warning", "broker"),
        ("> ApiVersions v0\n< hex 6572726f", "M001", "error", "broker"),
        ("> hex ffffffff", "M002", "error", "client"),
        ("> hex 00000007", "M003", "error", "client"),
        ("> ApiVersions v0\n< hex 00000003", "M003", "error", "broker"),
        (VALID_FRAME + "> hex fffffffe", "M002", "error", "client"),
        (SHORT_FRAME + "> hex fffffffe", "M004", "error", "client"),
        (SHORT_FRAME + VALID_FRAME + "> hex 7fffffff", "M001", "error", "client"),
        (SHORT_FRAME + "< hex 00000003", "M003", "error", "broker"),
        (VALID_FRAME + "lose > 14 frames=1\n> hex 00000007", "M004", "info", None),
        (VALID_FRAME + "lose > 14 frames=1\n< hex 00000003", "M003", "error", "broker"),
        (
            "open 1 client=10.0.0.9:1 server=10.0.0.1:9092 midstream\n" + 2 * VALID_FRAME + "> hex ffffffff",
            "M004",
            "info",
            None,
        ),
    ],
)
def test_each_impossible_length_prefix_has_one_finding(story: str, code: str, severity: str, blame: str | None) -> None:
    assert framing_findings(story) == [(code, severity, blame)]


def test_frame_after_a_partial_loss_is_not_blamed_on_anyone() -> None:
    story = "> hex 00 00 00 0a 00 12 00 00 00\nlose > 5\n> hex ffffffff"
    assert framing_findings(story) == [("M004", "info", None)]


def test_first_bytes_of_another_protocol_are_not_a_length() -> None:
    assert framing_findings("> hex 47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a") == []


def test_text_in_a_length_prefix_is_shown() -> None:
    [finding] = findings(VALID_FRAME + "> hex 48 65 6c 6c 6f", "M001")
    assert "'Hell'" in (finding.hint or "")


def stall_messages(story: str) -> list[str]:
    return [finding.message for finding in findings(story, "M005")]


@pytest.mark.parametrize(
    ("surplus", "description"),
    [
        (4, "4 too large: the request is complete without 4 more bytes"),
        (1, "1 too large"),
        (16, "16 too large"),
        (17, ""),
    ],
)
def test_too_large_length_prefix_is_reported_with_the_surplus(surplus: int, description: str) -> None:
    [finding] = findings(f"> hex {10 + surplus:08x} 0012 0000 0000002a ffff\n+31s", "M005")
    if description:
        assert f"the length prefix of ApiVersions v0 is {description}" in finding.message
        assert (finding.severity, finding.blame, finding.expected) == ("error", "client", "10")
    else:
        assert "stopped after 14 of 31 bytes" in finding.message


def test_too_large_length_prefix_of_a_response_is_reported() -> None:
    story = "> Heartbeat v0\n< hex 0000000a 00000001 0000\n+31s"
    [finding] = findings(story, "M005")
    assert "the length prefix of Heartbeat v0 is 4 too large: the response is complete" in finding.message
    assert finding.blame == "broker"
    assert not findings(story.replace("+31s", "< hex 00000000\n+31s"), "M005")  # the rest arrived


def test_too_small_length_prefix_is_found_by_the_remaining_bytes() -> None:
    [finding] = findings(SHORT_FRAME + "> hex ff ff 00 00 00 0a 00 12 00 00 00 00 00 2b ff ff", "M004")
    assert "the length prefix of ApiVersions v0 is 2 too small: with the next 2 bytes" in finding.message
    assert isinstance(finding, FindingLine)
    assert (finding.expected, finding.got, finding.blame) == ("10", "8", "client")
    [finding] = findings(SHORT_FRAME + "> hex ff fe 00 00 00 0a 00 12 00 00 00 00 00 2b ff ff", "M004")
    assert "was malformed too" in finding.message


def test_stalled_frame_is_reported_with_its_size() -> None:
    assert stall_messages("> hex 00 00 00 0a 00\n+31s") == [
        "a request stopped after 5 of 14 bytes, and no more of it arrived for 30 s"
    ]
    assert stall_messages("> hex 00 00\n+31s") == [
        "a request stopped after 2 bytes, and no more of it arrived for 30 s"
    ]


def test_completed_frame_is_not_stalled() -> None:
    assert stall_messages("> hex 00 00 00 0a 00 12 00 00\n+20s\n> hex 00 00 00 2a ff ff\n+1m") == []


def test_lost_frame_is_not_stalled() -> None:
    assert stall_messages("> hex 00 00 00 0a 00 12 00 00\nlose > 6\n+1m") == []


def test_whole_frames_set_no_stall_deadline() -> None:
    inspector = Inspector("x")
    inspector.open(1, "10.0.0.9:1", "10.0.0.1:9092", at=BEGIN)
    inspector.receive_data(1, Direction.REQUEST, bytes.fromhex("0000000a00120000 0000002affff"), at=BEGIN)
    assert len(inspector._inspection.run_state.deadlines) == 2  # both for the missing response


FETCH = """
    > Fetch v%d {"max_bytes": %d, "topics": [{"%s": %s, "partitions": [{}]}]}
    < {"responses": [{"partitions": [{"records": [%s]}, {"partition_index": 1, "records": [%s]}]}]}
"""
BATCH = '{"records": [{"value": {"repeat": "v", "times": 100}}]}'  # 170 bytes


@pytest.mark.parametrize(
    ("version", "max_bytes", "is_reported"),
    [(4, 340, False), (4, 339, True), (12, 520, False), (12, 340, False), (12, 339, True), (13, 339, True)],
)
def test_fetch_may_exceed_its_limit_by_one_batch(version: int, max_bytes: int, is_reported: bool) -> None:
    name, value = ("topic", '"a"') if version < 13 else ("topic_id", '"AAAAAAAAAAAAAAAAAAAAAQ"')
    reported = findings(FETCH % (version, max_bytes, name, value, BATCH, f"{BATCH}, {BATCH}"), "M006")
    assert bool(reported) is is_reported


def test_fetch_without_a_limit_is_not_checked() -> None:
    story = f"""
    > Fetch v2 {{"topics": [{{"topic": "a", "partitions": [{{"partition_max_bytes": 1}}]}}]}}
    < {{"responses": [{{"topic": "a", "partitions": [{{"records": [{BATCH}]}}]}}]}}
    """
    assert not findings(story, "M006")


def test_fetched_decompression_bomb_is_blamed_on_the_client() -> None:
    story = """
    > Fetch v12 {"topics": [{"topic": "a", "partitions": [{}]}]}
    < {"responses": [{"topic": "a", "partitions": [{"records": [
      {"compression": "gzip", "records": [{"value": {"repeat": "0", "times": 20000000}}]}]}]}]}
    """
    [finding] = findings(story, "M007")
    assert (finding.blame, finding.severity) == ("client", "warning")
    assert "of gzip decompress to over 16777216 bytes" in finding.message


def test_closed_connections_leave_no_stall_deadlines() -> None:
    player = StoryPlayer()
    for number in range(1, 200):
        player.play(f"{number}> hex 00 00 00 0a\n{number} close")
    assert not len(player.inspector._inspection.run_state.deadlines)
    assert not any(isinstance(line, FindingLine) and line.code == "M005" for line in player.lines)


def test_request_inside_another_is_found_as_the_cause_of_a_wrong_crc() -> None:
    """librdkafka#756: the frame can be decoded, but its batch ends in the next request."""
    batch = records.encode([{"records": [{"value": b"v" * 200}]}])
    topics = [{"name": "orders", "partition_data": [{"records": batch}]}]
    frame = request("Produce", 3, {"acks": -1, "topic_data": topics})
    inner = frame[:8] + (int.from_bytes(frame[8:12], "big") + 1).to_bytes(4, "big") + frame[12:]
    mixed = frame[:120] + inner[: len(frame) - 120]
    errors = [finding for finding in findings(f"> hex {mixed.hex()}") if finding.severity == "error"]
    assert [finding.code for finding in errors] == ["M009"]
    assert "at byte 120 another request begins inside it: Produce v3 (correlation id 2)" in errors[0].message


def test_frame_that_ends_early_because_of_a_wrapped_length_is_an_error() -> None:
    """kafka-api#10: 65536 became 0, which takes one byte instead of three."""
    body = "00000001 00 00000000 0000 00000000 02 07 6f7264657273 02 00000000 0000" + " 00*24" + " 00 ffffffff"
    batch = "00*8 0000fff4 ffffffff 02 00*65519"
    right_size = 4 + 1 + 4 + 2 + 4 + 1 + 7 + 1 + 6 + 24 + 5 + 1 + 65536 + 3
    story = f"""
        > Fetch v12 {{"topics": [{{"topic": "orders", "partitions": [{{"partition": 0}}]}}]}}
        < hex {right_size + 2:08x} {body} 01 {batch} 00 00 00
        +31s
    """
    [finding] = findings(story, "M005")
    assert finding.severity == "error"
    assert "has length 0, but records of 65536 bytes follow" in finding.message
    assert "2 bytes early" in finding.message


def test_binary_client_id_is_not_taken_for_a_request() -> None:
    frame = "> hex 00 00 00 10 00 03 00 00 00 00 00 01 00 02 ff fe 00 00 00 09"
    assert not findings(frame, "M009")
