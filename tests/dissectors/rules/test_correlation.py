"""Family C, beyond its pages: causes are reported once, waiting times add up, and losses excuse missing frames."""

from __future__ import annotations

import pytest

from dissectors import rules
from dissectors.connections.events import RequestReceived
from dissectors.connections.in_flight_requests import MAX_IN_FLIGHT
from dissectors.messages.message import read_request
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState, RunState
from tests.kproxy.capture_results import DATA, findings_of
from tests.kproxy.frames import request
from tests.kproxy.stories import StoryPlayer, findings

METADATA = '> Metadata v8 {"topics": []}\n'
FETCH = '> Fetch v11 {"max_wait_ms": 60000, "topics": []}\n'


def correlation_codes(story: str) -> list[str]:
    """Return the codes of family C, without C020, which precedes every C004."""
    return [finding.code for finding in findings(story) if finding.code.startswith("C") and finding.code != "C020"]


@pytest.mark.parametrize("client", ["java", "kafka-go", "kafkajs", "librdkafka"])
def test_shifted_correlation_ids_are_reported_once(client: str) -> None:
    reported = [
        reported_finding
        for _, reported_finding in findings_of(DATA / "bugs" / f"corrid-wrong--{client}.pcap.gz")
        if reported_finding.code[0] == "C"
    ]
    assert [finding.code for finding in reported] == ["C001"]
    assert "Metadata" in reported[0].message
    assert "off by +1000" in reported[0].message
    assert (reported[0].got, reported[0].span) == (str(int(reported[0].expected or 0) + 1000), (4, 8))


def test_negative_shift_of_correlation_ids_is_reported() -> None:
    [finding] = findings(f"> #7 ApiVersions v0\n{METADATA}< #5 as ApiVersions v0 {{}}", "C001")
    assert "ApiVersions v0, which has 7: the id is off by -2" in finding.message


REUSED_PORT = """\
open 1 client=10.0.0.9:50000 server=10.0.0.1:9092
1> #9 Produce v7 {"acks": -1, "topic_data": []}
1 close by=client how=reset
+5s
open 2 client=10.0.0.9:50000 server=10.0.0.1:9092
2> #1 Metadata v8 {"topics": []}
2< #9 as Produce v7 {}
"""


def test_orphan_response_names_the_request_it_probably_answers() -> None:
    [finding] = findings(REUSED_PORT, "C001")
    assert "it probably answers Produce v7 (correlation id 9) of connection story-1" in finding.message
    assert "from the same port and which ended 5 s before" in finding.message
    assert finding.hint is not None
    assert "drop the responses of a connection that has ended" in finding.hint


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("+5s", "+5m"),
        ("2< #9", "2< #8"),
        ("open 2 client=10.0.0.9:50000", "open 2 client=10.0.0.9:50001"),
        ("1 close", "1< #9 {}\n1 close"),
    ],
)
def test_other_stray_responses_probably_answer_the_oldest_request(there: str, here: str) -> None:
    [finding] = findings(REUSED_PORT.replace(there, here), "C001")
    assert "it probably answers the oldest, Metadata v8" in finding.message


def test_request_probably_answered_by_a_stray_response_is_not_overdue() -> None:
    assert correlation_codes(f"{METADATA}< #9 as Metadata v8 {{}}\n+5m\n{METADATA}< #2 {{}}") == ["C001"]
    # a client that restarts its ids reuses the id of the request that was taken as answered
    assert correlation_codes(f"{METADATA}< #9 as Metadata v8 {{}}\n+5m\n< {{}}") == ["C001"]


def test_stray_response_explains_the_closed_connection() -> None:
    assert correlation_codes(f"{METADATA}{METADATA}< #9 as Metadata v8 {{}}\nclose by=server how=fin") == ["C001"]


def test_malformed_request_explains_the_closed_connection() -> None:
    broken = "> hex 00 00 00 0e  00 03 00 08  00 00 00 01  ff ff  00 00 00 09\n"
    assert correlation_codes(f"{broken}close by=server how=fin") == []


def test_malformed_response_explains_the_closed_connection() -> None:
    broken = "< hex 00 00 00 09  00 00 00 01  00 00 00 01 00\n"
    assert correlation_codes(f"{METADATA}lose > 10 frames=0\n{METADATA}{broken}close by=server how=fin") == []


def test_malformed_request_that_was_answered_explains_nothing() -> None:
    # librdkafka 2.16 ends its Metadata v13 with three bytes too many, which brokers accept
    with_trailing_bytes = "> hex 00 00 00 14  00 03 00 08  00 00 00 01  ff ff  00 00 00 00  00 00 00  00 00 00\n"
    assert correlation_codes(
        f"{with_trailing_bytes}< #1 as Metadata v8 {{}}\n> #2 ListGroups v2\nclose by=server how=fin"
    ) == ["C013"]
    assert correlation_codes(f"{with_trailing_bytes}close by=server how=fin") == []


def test_duplicate_response_replaces_the_pending_one() -> None:
    assert correlation_codes(f"{METADATA}< {{}}\n{METADATA}< #1 as Metadata v8 {{}}\n+5m") == ["C003"]


def test_response_to_acks_0_is_not_a_stray_response() -> None:
    assert correlation_codes('> Produce v7 {"acks": 0}\n< #1 as Produce v7 {}\nclose by=client how=fin') == ["C005"]


OTHER_EXCHANGES = 3 * f"{METADATA}< #2 {{}}\n".replace("> Metadata", "> #2 Metadata") + "> #3 ListGroups v2\n< #3 {}\n"


class TestOvertakenRequest:
    """A response that comes late is out of order; one that never comes is missing."""

    def test_dropped_response_is_reported_as_one_unanswered_request(self) -> None:
        assert correlation_codes(f"> ApiVersions v0\n{OTHER_EXCHANGES}") == []  # it may still come
        story = f"> ApiVersions v0\n{OTHER_EXCHANGES}+2s\n{METADATA.replace('> ', '> #4 ')}< #4 {{}}\n+60s"
        assert set(correlation_codes(story)) == {"C004"}
        [finding] = findings(story, "C004")
        assert (finding.code, finding.severity, finding.blame) == ("C004", "error", "broker")
        assert finding.message.startswith(
            "no answer to ApiVersions v0 (correlation id 1): the server answered the newer "
        )
        assert "drops its response to ApiVersions" in (finding.hint or "")

    def test_skipped_request_is_reported_when_the_client_leaves_early(self) -> None:
        [finding] = findings(f"> ApiVersions v0\n{OTHER_EXCHANGES}close by=client how=fin")
        assert (finding.code, finding.severity) == ("C004", "error")
        assert "although the server had answered the newer Metadata v8 (correlation id 2)" in finding.message

    def test_response_after_the_report_is_not_reported_again(self) -> None:
        assert correlation_codes(f"> ApiVersions v0\n{OTHER_EXCHANGES}+2s\n< #1 {{}}") == ["C004"]

    def test_late_response_is_reported_out_of_order_once(self) -> None:
        swapped_pair = "> #{0} ApiVersions v0\n> #{1} ListGroups v2\n< #{1} {{}}\n< #{0} {{}}\n"
        assert correlation_codes(swapped_pair.format(1, 2) + swapped_pair.format(3, 4) + "+60s") == ["C002"]
        [finding] = findings(swapped_pair.format(1, 2), "C002")
        assert finding.message.startswith(
            "the response to ApiVersions v0 (correlation id 1) came 1 ms after the response"
        )

    def test_fetch_may_be_overtaken_for_its_wait_time(self) -> None:
        overtaken = '> Fetch v11 {"max_wait_ms": 2000, "topics": []}\n> ListGroups v2\n< #2 {}\n'
        assert correlation_codes(f"{overtaken}+2900ms") == []
        assert correlation_codes(f"{overtaken}+3100ms") == ["C004"]

    def test_overtaken_response_may_be_in_lost_bytes(self) -> None:
        assert correlation_codes(f"{METADATA}> ListGroups v2\n< #2 {{}}\nlose < 100\n+5s") == []


class TestUnansweredRequest:
    def test_unanswered_request_is_reported_after_30_seconds(self) -> None:
        assert correlation_codes(f"{METADATA}+30s") == []
        [finding] = findings(f"{METADATA}+31s", "C004")
        assert finding.severity == "error"
        assert finding.message.startswith("no answer to Metadata v8 (correlation id 1) after 30 s: ")

    @pytest.mark.parametrize(
        ("request_line", "allowed_s"),
        [
            ('Fetch v11 {"max_wait_ms": 20000}', 20),
            ('ShareFetch v1 {"max_wait_ms": 20000}', 20),
            ('JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}', 60),
            ('JoinGroup v0 {"group_id": "g", "session_timeout_ms": 10000}', 10),
            ('SyncGroup v3 {"group_id": "nobody seen to join"}', 300),
            ('CreateTopics v2 {"timeout_ms": 15000}', 15),
            ('ListOffsets v10 {"timeout_ms": 15000}', 15),
            ('ConsumerGroupHeartbeat v0 {"rebalance_timeout_ms": 60000}', 0),
        ],
    )
    def test_unanswered_request_gets_the_time_that_it_allows(self, request_line: str, allowed_s: int) -> None:
        assert correlation_codes(f"> {request_line}\n+{allowed_s + 29}s") == []
        assert correlation_codes(f"> {request_line}\n+{allowed_s + 31}s") == ["C004"]

    def test_join_waits_for_the_slowest_member_of_the_group(self) -> None:
        slow_join = '2> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 90000}\n'
        quick_join = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 20000}\n'
        assert correlation_codes(f"{slow_join}{quick_join}+110s") == []

    def test_request_behind_a_long_fetch_waits_for_it(self) -> None:
        assert correlation_codes(f"{FETCH}{METADATA}+85s") == []
        assert correlation_codes(f"{FETCH}{METADATA}+91s") == ["C004"]

    def test_throttled_client_waits_for_the_throttle_time_as_well(self) -> None:
        throttled = f'{METADATA}< {{"throttle_time_ms": 60000}}\n{METADATA}'
        assert correlation_codes(f"{throttled}+80s") == []
        assert correlation_codes(f"{throttled}+95s") == ["C004"]

    def test_each_request_has_its_own_deadline(self) -> None:
        assert correlation_codes(f"{METADATA}+20s\n> ListGroups v2\n< #1 {{}}\n+29s") == ["C012"]
        assert correlation_codes(f"{METADATA}+20s\n> ListGroups v2\n< #1 {{}}\n+31s") == ["C012", "C004"]

    def test_ended_connection_has_no_unanswered_request(self) -> None:
        assert correlation_codes(f"{METADATA}close by=proxy how=shutdown\n+5m") == []

    def test_response_may_be_in_lost_bytes(self) -> None:
        assert correlation_codes(f"{METADATA}lose < 100\n+5m\nclose by=server how=fin") == []

    def test_stream_seen_in_one_direction_has_no_unanswered_request(self) -> None:
        assert correlation_codes(f"open 1 midstream\n{METADATA}+5m") == []

    def test_client_that_left_after_a_long_wait_gave_up(self) -> None:
        [left_early] = findings(f"{METADATA}+1s\nclose by=client how=fin", "C004")
        [gave_up] = findings(f"{METADATA}+6s\nclose by=client how=fin", "C004")
        assert (left_early.severity, gave_up.severity) == ("info", "warning")
        assert (left_early.hint, gave_up.blame) == (None, "broker")
        assert "why the server does not answer" in (gave_up.hint or "")
        assert findings(f"{FETCH}+50s\nclose by=client how=fin", "C004") == []

    def test_request_sent_shortly_before_the_end_is_not_reported(self) -> None:
        assert correlation_codes(f"{METADATA}+900ms\nclose by=client how=fin") == []
        assert correlation_codes(f"{METADATA}+900ms\nclose") == []
        assert correlation_codes(f"{FETCH}+60500ms\nclose") == []
        assert correlation_codes(f"{FETCH}+62s\nclose") == ["C004"]

    def test_message_says_how_the_connection_ended(self) -> None:
        [unknown_end] = findings(f"{METADATA}+2s\nclose", "C004")
        [timeout] = findings(f"{METADATA}+2s\nclose how=timeout", "C004")
        assert (
            unknown_end.message
            == "no answer to Metadata v8 (correlation id 1), which had waited 2 s when its connection was last seen"
        )
        assert timeout.message.endswith("last seen (timeout)")

    def test_late_response_to_a_reported_request_is_not_reported_again(self) -> None:
        assert correlation_codes(f"{METADATA}+40s\n< {{}}") == ["C004"]

    def test_requests_behind_a_produce_have_one_finding(self) -> None:
        without_acks = '> Produce v7 {"acks": 0}\n'
        assert correlation_codes(f"{without_acks}{METADATA}+31s") == ["C006"]
        assert correlation_codes(f'{without_acks}{METADATA}> Produce v7 {{"acks": 1, "timeout_ms": 0}}\n+31s') == [
            "C006",
            "C007",
        ]
        assert correlation_codes(f"{METADATA}{without_acks}> ListGroups v2\n< #1 {{}}\n+31s") == ["C004"]


def test_truncated_response_is_reported_once() -> None:
    story = f"{METADATA}< hex 00 00 00 50  00 00 00 01  00 00 00 00\nclose by=server how=reset"
    [finding] = findings(story, "C014")
    assert correlation_codes(story) == ["C014"]
    assert "12 bytes into a response, most likely the answer to Metadata v8" in finding.message


def test_truncated_request_is_blamed_on_the_side_that_closed() -> None:
    truncated = "> hex 00 00 00 50  00 03 00 08  00 00 00 01\n"
    by_client = findings(f"{truncated}close by=client how=reset", "C014")
    by_server = findings(f"{truncated}close by=server how=reset", "C014")
    assert [(finding.severity, finding.blame) for finding in by_client + by_server] == [
        ("error", "client"),
        ("warning", "broker"),
    ]


@pytest.mark.parametrize("close_arguments", ["by=server how=fin", "by=server how=reset"])
def test_restart_during_a_fetch_is_reported_as_information(close_arguments: str) -> None:
    [finding] = findings(f"{METADATA}< {{}}\n{FETCH}close {close_arguments}", "C013")
    assert finding.severity == "info"


@pytest.mark.parametrize(("other_count", "severity"), [(2, "warning"), (3, "info")])
def test_server_that_closes_all_its_connections_is_taken_as_stopped(other_count: int, severity: str) -> None:
    numbers = range(2, 2 + other_count)
    story = "".join(f"{number}{METADATA}{number}< {{}}\n" for number in numbers)
    story += f"{METADATA}< {{}}\n{METADATA}"
    story += "".join(f"{number} close by=server how=fin\n" for number in numbers)
    [finding] = findings(f"{story}close by=server how=fin", "C013")
    assert finding.severity == severity
    assert ("has just closed several others" in finding.message) == (severity == "info")
    [finding] = findings(f"{story}+3s\nclose by=server how=fin", "C013")
    assert finding.severity == "warning"


def test_connection_closed_by_kproxy_is_not_reported() -> None:
    incomplete_response = "< hex 00 00 00 50  00 00 00 01  00 00 00 00\n"
    assert correlation_codes(f"{METADATA}{METADATA}{incomplete_response}close by=proxy how=shutdown") == []


def test_connections_closed_after_the_same_request_are_counted() -> None:
    story = "".join(
        f"{number}{METADATA}{number}< {{}}\n{number}> ListGroups v2\n{number} close by=server how=fin\n"
        for number in (1, 2)
    )
    assert correlation_codes(story) == ["C013", "C015"]
    [finding] = findings(story, "C015")
    assert "closed 2 connections after ListGroups v2 and never answered one" in finding.message
    assert correlation_codes(story.replace("2> ", "2> as other ")) == ["C013"]


def test_close_explained_by_another_rule_is_not_reported() -> None:
    assert [finding.code for finding in findings("> ListGroups v2\nclose by=server how=fin")] == ["X006"]
    unsupported_version = """
        > ApiVersions v0
        < {"api_keys": [{"api_key": 3, "max_version": 7}, {"api_key": 18, "max_version": 3}]}
        > Metadata v7
        < {}
        > Metadata v8
        close by=server how=fin
    """
    assert [finding.code for finding in findings(unsupported_version)] == ["V001"]


def test_deep_pipeline_is_reported_once() -> None:
    assert correlation_codes("".join("> Heartbeat v3 {}\n" for _ in range(1200))) == ["C010"]


def test_requests_in_flight_are_limited() -> None:
    flight, connection = InFlight(), ConnectionState(RunState(rules.trackers()))
    for number in range(MAX_IN_FLIGHT + 10):
        message = read_request(request("Metadata", 8, {}, correlation_id=number))
        flight.observe(RequestReceived(number, number, 0, message), connection)
    assert len(flight.waiting) == MAX_IN_FLIGHT
    assert len(connection.run.deadlines) == 2


@pytest.mark.parametrize(("max_wait_ms", "expected"), [(1500, ["C011"]), (500, [])])
def test_long_fetch_delays_requests_only_within_its_wait_time(max_wait_ms: int, expected: list[str]) -> None:
    fetch = f'> Fetch v11 {{"max_wait_ms": {max_wait_ms}, "topics": []}}\n'
    assert correlation_codes(f"{fetch}> ListGroups v2\n+3s\n< {{}}\n< {{}}\n") == expected


_THREE_WAITING = '> Heartbeat v3 {}\n2> Metadata v8 {"topics": []}\n3> Fetch v11 {"max_wait_ms": 500, "topics": []}\n'


@pytest.mark.parametrize(
    "story",
    [
        f"{_THREE_WAITING}+2400ms\n< {{}}\n2< {{}}\n3< {{}}\n",
        f"{_THREE_WAITING}+3s\n< {{}}\n2< {{}}\n+300ms\n3< {{}}\n",
        "> Heartbeat v3 {}\n2> Heartbeat v3 {}\n3> Heartbeat v3 {}\n+3s\n< {}\n2< {}\n3< {}\n",
        "> Heartbeat v3 {}\n> ListGroups v2\n> FindCoordinator v3 {}\n+3s\n< {}\n< {}\n< {}\n",
        '> Heartbeat v3 {}\n2> ListGroups v2\n3> ListGroups v2\n+3s\n< {"throttle_time_ms": 2500}\n2< {}\n3< {}\n',
        "rule C023:pause=4s\n> Heartbeat v3 {}\n2> ListGroups v2\n3> ListGroups v2\n+3s\n< {}\n2< {}\n3< {}\n",
    ],
    ids=["too short for the Fetch", "not together", "one API", "one connection", "throttled", "a limit of 4 s"],
)
def test_requests_that_wait_without_a_pause_of_the_server(story: str) -> None:
    assert "C023" not in correlation_codes(story)


def test_pause_of_a_server_is_reported_once_and_marks_the_later_responses() -> None:
    pause = f"{_THREE_WAITING}4> ListGroups v2\n+3s\n< {{}}\n2< {{}}\n3< {{}}\n4< {{}}\n"
    [finding] = findings(pause, "C023")
    assert finding.message == (
        "the server seems to have stood still for 3.01 s: at least 3 requests on 3 connections (Fetch, Heartbeat, "
        "Metadata) waited during this time, and were answered within 2 ms at its end"
    )
    assert finding.severity == "info"
    pause = pause.replace("+3s", "+6s")
    [long_pause] = findings(pause, "C023")
    assert long_pause.severity == "warning"
    player = StoryPlayer()
    player.play(f"{pause}+9s\n{pause}")
    repeats = [repeat.code for line in player.lines for repeat in getattr(line, "repeats", ())]
    assert repeats.count("C023") == 3  # the last response of the first pause, the last two of the second


def test_closed_connection_has_no_deadlines() -> None:
    player = StoryPlayer()
    player.play(METADATA)
    deadlines = player.inspector._inspection.run_state.deadlines
    assert len(deadlines) == 2  # one for a late response, one for an overdue one
    player.play("close by=client how=fin")
    assert len(deadlines) == 0


def short_visit(number: int, body: str = "") -> str:
    return (
        f"open {number} client=10.0.0.9:{50000 + number} server=10.0.0.1:9092\n{number}{METADATA}{number}< {{{body}}}\n"
        f"{number} close by=client how=fin\n"
    )


def test_visits_that_lead_to_an_unreachable_broker_are_left_to_another_rule() -> None:
    unreachable_broker = '"brokers": [{"node_id": 1, "host": "10.0.0.7", "port": 19092}]'
    assert correlation_codes("".join(map(short_visit, range(1, 13)))) == ["C017"]
    assert correlation_codes("".join(short_visit(number, unreachable_broker) for number in range(1, 13))) == []


def test_work_at_another_broker_resets_the_count() -> None:
    work_elsewhere = "open 50 client=10.0.0.9:50050 server=10.0.0.2:9092\n50> Fetch v11\n50< {}\n"
    assert (
        correlation_codes(
            "".join(map(short_visit, range(1, 9))) + work_elsewhere + "".join(map(short_visit, range(9, 15)))
        )
        == []
    )


def test_truncated_frame_after_a_malformed_one_is_not_reported() -> None:
    broken = "> hex 00 00 00 0e  00 03 00 08  00 00 00 01  ff ff  00 00 00 09\n"
    assert correlation_codes(f"{broken}> hex 00 00 00 50  00 03\nclose by=server how=fin") == []


def test_stream_with_lost_framing_is_not_reported() -> None:
    lost_framing = "< hex ff ff ff ff\n"
    assert correlation_codes(f"{METADATA}{lost_framing}{METADATA}+5m\nclose by=server how=fin") == []
    assert correlation_codes(f"{METADATA}> hex ff ff ff ff ff ff ff ff\n< #9 as Metadata v8 {{}}\n+5m") == []


def test_damaged_response_counts_as_a_response() -> None:
    assert correlation_codes(f"{METADATA}< hex 00 00 00 50  00 00 00 01\nlose < 76\n+5m") == []


def test_produce_without_records_does_not_count_as_a_deep_pipeline() -> None:
    assert correlation_codes(7 * '> Produce v7 {"acks": 1, "topic_data": [{"name": "t"}]}\n') == []
    pipelined = 7 * '> Produce v7 {"acks": 1}\n'
    assert correlation_codes(f"{FETCH}{FETCH}+2s\n{METADATA}{pipelined}") == []


def test_idempotent_producer_may_have_five_batches_per_partition_in_flight() -> None:
    def produce(partition: int) -> str:
        batch = '{"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}'
        data = f'{{"index": {partition}, "records": [{batch}]}}'
        return f'> Produce v7 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{data}]}}]}}\n'

    assert correlation_codes(5 * (produce(0) + produce(1))) == []
    assert correlation_codes(5 * (produce(0) + produce(1)) + produce(1)) == ["C010"]


def test_only_the_oldest_request_is_blamed_for_a_delay() -> None:
    assert correlation_codes(f"{METADATA}+2s\n< {{}}\n{FETCH}+5s\n< {{}}\n{METADATA}+2s\n< {{}}") == []


class TestWaitingRequest:
    def test_waiting_request_is_reported_once_after_5_seconds(self) -> None:
        assert findings(f"{METADATA}+5s", "C020") == []
        [finding] = findings(f"{METADATA}+6s\n+20s", "C020")
        assert finding.severity == "warning"
        assert finding.message.startswith("Metadata v8 (correlation id 1) has waited 5 s for its response: ")

    def test_busy_connection_is_checked_continuously(self) -> None:
        slow_exchange = f"{METADATA}+4s\n< {{}}\n"
        assert findings(5 * slow_exchange, "C020") == []
        assert len(findings(f"{5 * slow_exchange}> ListGroups v2\n+8s", "C020")) == 1

    def test_only_the_oldest_waiting_request_is_reported(self) -> None:
        [finding] = findings(f"{METADATA}> ListGroups v2\n+6s", "C020")
        assert "Metadata v8" in finding.message

    def test_long_poll_may_wait_for_its_wait_time(self) -> None:
        assert findings(f"{FETCH}+64s", "C020") == []
        assert len(findings(f"{FETCH}+66s", "C020")) == 1


def test_connections_closed_by_the_server_are_not_a_reconnect_storm() -> None:
    visit = "open {0} client=10.0.0.9:{0}\n{0}> Metadata v8 {{}}\n{0}< {{}}\n{1}{0} close by={2} how=fin\n+1s\n"
    closed_on_request = [
        visit.format(number, f"{number}> InitProducerId v1 {{}}\n", "server") for number in range(10, 22)
    ]
    assert not findings("".join(closed_on_request), "C017")
    assert findings("".join(closed_on_request), "C015")
    assert findings("".join(visit.format(number, "", "server") for number in range(10, 22)), "C017")


@pytest.mark.parametrize(
    ("wait_ms", "delay", "severities"),
    [(5000, "6400ms", []), (5000, "7s", ["info"]), (500, "4900ms", []), (500, "6s", ["warning"])],
)
def test_severity_of_a_late_fetch_depends_on_its_wait_time(wait_ms: int, delay: str, severities: list[str]) -> None:
    late_findings = findings(f'> Fetch v11 {{"max_wait_ms": {wait_ms}, "topics": []}}\n+{delay}\n< {{}}\n', "C012")
    assert [finding.severity for finding in late_findings] == severities
