"""Connections whose bytes were not all captured: where the next frame is found, and what a loss excuses."""

from __future__ import annotations

import tracemalloc

import pytest

from dissectors.connections import connection as module
from dissectors.connections.connection import Connection
from dissectors.hexdump import unhex
from tests.dissectors.dialogue import HEARTBEAT, REQUEST, RESPONSE, Talk, answer, answers, beats, heartbeat
from tests.kproxy.frames import request, response


def test_a_capture_that_starts_in_a_frame_finds_the_next_one() -> None:
    talk = Talk(midstream=True)
    assert talk.client(heartbeat(1)[9:] + heartbeat(2)) == [
        "> 19 bytes skipped @0: the capture starts in the middle of the stream",
        "> Heartbeat v0 #2 @19+24",
    ]
    assert talk.server(answer(1)[3:] + answer(2)) == [
        "< 7 bytes skipped @0: the capture starts in the middle of the stream",
        "< #2 to Heartbeat @19 @7+6",
    ]


def test_a_capture_that_starts_between_frames_skips_nothing() -> None:
    talk = Talk(midstream=True)
    assert talk.client(heartbeat(1)) == ["> Heartbeat v0 #1 @0+24"]
    assert talk.server(answer(1)) == ["< #1 to Heartbeat @0 @0+6"]


def test_responses_to_requests_before_the_capture_are_passed_over() -> None:
    talk = Talk(midstream=True)
    talk.client(heartbeat(3))
    assert talk.server(answers(1, 2, 3, 9)) == [
        "< 20 bytes skipped @0: the capture starts in the middle of the stream",
        "< #3 to Heartbeat @0 @20+6",
        "< #9 to nobody @30+6",
    ]


def test_a_search_that_finds_nothing_says_so_at_the_end() -> None:
    talk = Talk(midstream=True)
    assert talk.client(b"\xff" * 100, b"\xff" * 100) == []
    assert talk.connection.buffered == 0
    assert talk.close() == [
        "> 200 bytes skipped @0: the capture starts in the middle of the stream",
        "end, unanswered: none",
    ]


def test_bytes_lost_inside_a_frame_keep_the_stream_in_step() -> None:
    talk = Talk()
    stream = beats(1, 2, 3)
    assert talk.client(stream[:40]) == ["> Heartbeat v0 #1 @0+24"]
    assert talk.lose(REQUEST, 10) == [
        "> 10 bytes skipped @40: not captured",
        "> Heartbeat v0 #2 @28+24 (10 bytes of it were lost)",
    ]
    assert talk.client(stream[50:]) == ["> Heartbeat v0 #3 @56+24"]
    assert talk.server(answers(1, 2, 3))[1] == "< #2 to Heartbeat @28 @10+6"


def test_the_rest_of_a_damaged_frame_may_be_lost_piece_by_piece() -> None:
    talk = Talk()
    stream = beats(1, 2)
    talk.client(stream[:8])
    assert len(talk.lose(REQUEST, 5)) == 2
    assert talk.lose(REQUEST, 5) == ["> 5 bytes skipped @13: not captured"]
    assert talk.client(stream[18:20]) == []
    assert talk.lose(REQUEST, 8) == ["> 8 bytes skipped @20: not captured"]
    assert talk.client(stream[28:]) == ["> Heartbeat v0 #2 @28+24"]


def test_bytes_lost_over_the_end_of_a_frame_make_it_look_for_the_next() -> None:
    talk = Talk()
    stream = beats(1, 2, 3, 4)
    talk.client(stream[:40])
    assert talk.lose(REQUEST, 20) == [
        "> 20 bytes skipped @40: not captured",
        "> Heartbeat v0 #2 @28+24 (20 bytes of it were lost)",
    ]
    assert talk.client(stream[60:]) == [
        "> 24 bytes skipped @60: 20 bytes were lost",
        "> Heartbeat v0 #4 @84+24",
    ]


def test_bytes_lost_over_the_end_of_a_frame_that_was_reported_make_it_look_for_the_next() -> None:
    talk = Talk()
    stream = beats(1, 2, 3)
    talk.client(stream[:8])
    talk.lose(REQUEST, 10)
    assert talk.lose(REQUEST, 15) == ["> 15 bytes skipped @18: not captured"]
    assert talk.client(stream[33:])[-1] == "> Heartbeat v0 #3 @56+24"


def test_bytes_lost_between_frames_make_it_look_for_the_next() -> None:
    talk = Talk()
    talk.client(beats(1, 2))
    talk.server(answer(1))
    assert talk.lose(RESPONSE, 4) == ["< 4 bytes skipped @10: not captured"]
    talk.client(heartbeat(3))
    assert talk.server(answer(2)[4:] + answer(3)) == [
        "< 6 bytes skipped @14: 4 bytes were lost",
        "< #3 to Heartbeat @56 @20+6",
    ]


def test_bytes_lost_in_a_length_prefix_make_it_look_for_the_next() -> None:
    talk = Talk()
    stream = beats(1, 2, 3)
    talk.client(stream[:30])
    assert talk.lose(REQUEST, 5) == [
        "> 5 bytes skipped @30: not captured",
        "> 2 bytes skipped @28: 5 bytes were lost",
    ]
    assert talk.client(stream[35:])[-1] == "> Heartbeat v0 #3 @56+24"


def test_bytes_lost_while_looking_are_told_apart_from_those_passed_over() -> None:
    talk = Talk(midstream=True)
    assert talk.client(b"\xff" * 50) == []
    assert talk.lose(REQUEST, 9) == [
        "> 9 bytes skipped @50: not captured",
        "> 50 bytes skipped @0: the capture starts in the middle of the stream",
    ]
    assert talk.client(b"\xff" * 3 + heartbeat(1)) == [
        "> 3 bytes skipped @59: the capture starts in the middle of the stream",
        "> Heartbeat v0 #1 @62+24",
    ]


def test_whole_frames_that_were_lost_leave_the_stream_in_step() -> None:
    talk = Talk()
    talk.client(heartbeat(1))
    assert talk.lose(REQUEST, 56, frames=2) == ["> 56 bytes skipped @28, 2 frames: not captured"]
    assert talk.client(heartbeat(4)) == ["> Heartbeat v0 #4 @84+24"]
    assert talk.server(answers(1, 2, 3, 4, 9)) == [
        "< #1 to Heartbeat @0 @0+6",
        "< #2 to nobody @10+6 (its request was not captured)",
        "< #3 to nobody @20+6 (its request was not captured)",
        "< #4 to Heartbeat @84 @30+6",
        "< #9 to nobody @40+6",
    ]


def test_whole_frames_that_were_lost_with_the_end_of_one_leave_the_stream_in_step() -> None:
    talk = Talk()
    talk.client(beats(1, 2)[:40])
    assert talk.lose(REQUEST, 44, frames=1) == [
        "> 44 bytes skipped @40, 1 frames: not captured",
        "> Heartbeat v0 #2 @28+24 (44 bytes of it were lost)",
    ]
    assert talk.client(heartbeat(4)) == ["> Heartbeat v0 #4 @84+24"]


def test_a_loss_excuses_only_the_responses_to_what_was_lost() -> None:
    talk = Talk()
    talk.client(heartbeat(1))
    talk.lose(REQUEST, 28, frames=1)
    talk.client(heartbeat(3))
    assert talk.server(answers(1, 2, 3, 9)) == [
        "< #1 to Heartbeat @0 @0+6",
        "< #2 to nobody @10+6 (its request was not captured)",
        "< #3 to Heartbeat @56 @20+6",
        "< #9 to nobody @30+6",
    ]


def test_requests_whose_responses_were_lost_are_not_late() -> None:
    talk = Talk()
    talk.client(beats(1, 2))
    talk.lose(RESPONSE, 20, frames=2)
    talk.client(beats(3, 4, 5))
    assert talk.server(answers(5, 3)) == [
        "< #5 to Heartbeat @112 @20+6, 2 passed over",
        "< #3 to Heartbeat @56 @30+6",
    ]
    assert talk.close() == ["end, unanswered: #4"]


def test_a_loss_after_framing_was_lost_is_only_counted() -> None:
    talk = Talk()
    talk.client(b"GET / HTTP/1.1\r\n")
    assert talk.lose(REQUEST, 10) == ["> 10 bytes skipped @16: not captured"]
    assert talk.client(heartbeat(1)) == []


def test_after_a_loss_a_response_is_believed_only_if_it_reads_well() -> None:
    talk = Talk()
    metadata = request("Metadata", 0, {}, correlation_id=5)
    talk.client(metadata)
    talk.lose(RESPONSE, 100)
    looks_like_one = unhex("0000000a 00000005 7fffffff 0000")
    right = response("Metadata", 0, {}, correlation_id=5)
    assert talk.server(looks_like_one + right) == [
        "< 14 bytes skipped @100: 100 bytes were lost",
        "< #5 to Metadata @0 @114+12",
    ]


def test_after_a_loss_a_response_is_forgotten_with_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 1)
    talk = Talk()
    talk.client(heartbeat(5))
    talk.lose(RESPONSE, 100)
    assert talk.server(answer(5)[:9]) == []
    talk.client(heartbeat(6))
    assert talk.server(answer(5)[9:] + answer(6)) == [
        "< 10 bytes skipped @100: 100 bytes were lost",
        "< #6 to Heartbeat @28 @110+6",
    ]


def test_after_a_loss_a_long_response_is_believed_by_its_id() -> None:
    talk = Talk()
    talk.client(heartbeat(5))
    talk.lose(RESPONSE, 100)
    assert talk.server(unhex("00 01 00 00 00 00 00 05"), bytes(65536 - 4)) == ["< #5 to Heartbeat @0 @100+65536"]


def test_a_length_is_no_length_while_looking_either() -> None:
    talk = Talk(midstream=True, max_frame_bytes=1000)
    too_long = request("Heartbeat", 0, HEARTBEAT | {"group_id": "g" * 2000}, correlation_id=1)
    assert talk.client(too_long + heartbeat(2))[-1] == f"> Heartbeat v0 #2 @{len(too_long)}+24"


def test_what_looks_like_the_length_of_a_long_frame_holds_nothing_up() -> None:
    talk = Talk(midstream=True)
    claims_a_megabyte = unhex("00 10 00 00  00 00 00 03  00 00 00 01  00 00")
    assert talk.client(claims_a_megabyte, *(beats(n) for n in range(4))) == [
        "> 14 bytes skipped @0: the capture starts in the middle of the stream",
        *(f"> Heartbeat v0 #{n} @{14 + 28 * n}+24" for n in range(4)),
    ]


def test_a_long_frame_is_believed_once_nothing_else_is_found_in_it() -> None:
    talk = Talk(midstream=True)
    produce = request("Produce", 3, {"acks": 1, "topic_data": [{"name": "x" * 20_000}]}, correlation_id=9)
    assert talk.client(produce[:16_383]) == []
    assert talk.client(produce[16_383:] + heartbeat(10)) == [
        f"> Produce v3 #9 @0+{len(produce) - 4}",
        f"> Heartbeat v0 #10 @{len(produce)}+24",
    ]


def test_looking_for_a_frame_needs_no_more_memory_than_a_frame() -> None:
    connection = Connection(midstream=True)
    noise = bytes(range(1, 256)) * 16
    tracemalloc.start()
    for _ in range(100):
        connection.receive_data(REQUEST, noise, at=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
