"""Family C where its pages do not reach: one cause told once, times that add up, what is not known."""

from __future__ import annotations

import pytest

from dissectors import rules
from dissectors.connections.connection import MAX_IN_FLIGHT
from dissectors.connections.events import RequestReceived
from dissectors.messages.message import read_request
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState, RunState
from tests.kproxy.capture_results import DATA, findings_of
from tests.kproxy.frames import request
from tests.kproxy.stories import Teller, findings

METADATA = '> Metadata v8 {"topics": []}\n'
FETCH = '> Fetch v11 {"max_wait_ms": 60000, "topics": []}\n'


def codes(story: str) -> list[str]:
    """The codes of family C, without C020, which precedes every C004."""
    return [finding.code for finding in findings(story) if finding.code.startswith("C") and finding.code != "C020"]


@pytest.mark.parametrize("client", ["java", "kafka-go", "kafkajs", "librdkafka"])
def test_an_id_that_is_off_is_told_once_and_explains_the_rest(client: str) -> None:
    found = [each for _, each in findings_of(DATA / "bugs" / f"corrid-wrong--{client}.pcap.gz") if each.code[0] == "C"]
    assert [finding.code for finding in found] == ["C001"]
    assert "Metadata" in found[0].message
    assert "off by +1000" in found[0].message
    assert (found[0].got, found[0].span) == (str(int(found[0].expected or 0) + 1000), (4, 8))


def test_an_id_that_is_off_is_off_by_less_too() -> None:
    [finding] = findings(f"> #7 ApiVersions v0\n{METADATA}< #5 as ApiVersions v0 {{}}", "C001")
    assert "ApiVersions v0, which has 7: the id is off by -2" in finding.message


def test_what_a_stray_response_most_likely_answered_is_not_overdue() -> None:
    assert codes(f"{METADATA}< #9 as Metadata v8 {{}}\n+5m\n{METADATA}< #2 {{}}") == ["C001"]
    # a client that counts anew meets the id of what was taken for answered
    assert codes(f"{METADATA}< #9 as Metadata v8 {{}}\n+5m\n< {{}}") == ["C001"]


def test_a_stray_response_explains_the_close() -> None:
    assert codes(f"{METADATA}{METADATA}< #9 as Metadata v8 {{}}\nclose by=server how=fin") == ["C001"]


def test_a_frame_that_does_not_read_well_explains_the_close() -> None:
    broken = "> hex 00 00 00 0e  00 03 00 08  00 00 00 01  ff ff  00 00 00 09\n"
    assert codes(f"{broken}close by=server how=fin") == []


def test_a_response_that_does_not_read_well_explains_the_close() -> None:
    broken = "< hex 00 00 00 09  00 00 00 01  00 00 00 01 00\n"
    assert codes(f"{METADATA}lose > 10 frames=0\n{METADATA}{broken}close by=server how=fin") == []


def test_a_broken_frame_that_is_answered_explains_nothing() -> None:
    # librdkafka 2.16 ends its Metadata v13 with three bytes too many; brokers do not mind
    odd = "> hex 00 00 00 14  00 03 00 08  00 00 00 01  ff ff  00 00 00 00  00 00 00  00 00 00\n"
    assert codes(f"{odd}< #1 as Metadata v8 {{}}\n> #2 ListGroups v2\nclose by=server how=fin") == ["C013"]
    assert codes(f"{odd}close by=server how=fin") == []


def test_a_second_answer_takes_the_place_of_the_one_that_is_due() -> None:
    assert codes(f"{METADATA}< {{}}\n{METADATA}< #1 as Metadata v8 {{}}\n+5m") == ["C003"]


def test_an_answer_to_acks_0_is_no_stray() -> None:
    assert codes('> Produce v7 {"acks": 0}\n< #1 as Produce v7 {}\nclose by=client how=fin') == ["C005"]


OTHERS = 3 * f"{METADATA}< #2 {{}}\n".replace("> Metadata", "> #2 Metadata") + "> #3 ListGroups v2\n< #3 {}\n"


class TestOvertaken:
    """A response that comes late is out of order, one that never comes is missing."""

    def test_a_dropped_answer_is_one_request_without_an_answer(self) -> None:
        assert codes(f"> ApiVersions v0\n{OTHERS}") == []  # it may still come
        story = f"> ApiVersions v0\n{OTHERS}+2s\n{METADATA.replace('> ', '> #4 ')}< #4 {{}}\n+60s"
        assert set(codes(story)) == {"C004"}
        [finding] = findings(story, "C004")
        assert (finding.code, finding.severity, finding.blame) == ("C004", "error", "broker")
        assert finding.message.startswith(
            "no answer to ApiVersions v0 (correlation id 1): the server answered the newer "
        )
        assert "drops its response to ApiVersions" in (finding.hint or "")

    def test_one_that_was_skipped_is_named_when_the_client_leaves_before(self) -> None:
        [finding] = findings(f"> ApiVersions v0\n{OTHERS}close by=client how=fin")
        assert (finding.code, finding.severity) == ("C004", "error")
        assert "although the server had answered the newer Metadata v8 (correlation id 2)" in finding.message

    def test_an_answer_that_comes_after_that_is_not_reported_again(self) -> None:
        assert codes(f"> ApiVersions v0\n{OTHERS}+2s\n< #1 {{}}") == ["C004"]

    def test_a_late_answer_is_out_of_order_once(self) -> None:
        pair = "> #{0} ApiVersions v0\n> #{1} ListGroups v2\n< #{1} {{}}\n< #{0} {{}}\n"
        assert codes(pair.format(1, 2) + pair.format(3, 4) + "+60s") == ["C002"]
        [finding] = findings(pair.format(1, 2), "C002")
        assert finding.message.startswith(
            "the response to ApiVersions v0 (correlation id 1) came 1 ms after the response"
        )

    def test_a_held_fetch_may_be_overtaken_for_as_long_as_it_may_be_held(self) -> None:
        overtaken = '> Fetch v11 {"max_wait_ms": 2000, "topics": []}\n> ListGroups v2\n< #2 {}\n'
        assert codes(f"{overtaken}+2900ms") == []
        assert codes(f"{overtaken}+3100ms") == ["C004"]

    def test_lost_bytes_may_have_been_the_answer(self) -> None:
        assert codes(f"{METADATA}> ListGroups v2\n< #2 {{}}\nlose < 100\n+5s") == []


class TestNeverAnswered:
    def test_after_30_seconds_and_not_before(self) -> None:
        assert codes(f"{METADATA}+30s") == []
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
    def test_waits_as_long_as_the_request_allows(self, request_line: str, allowed_s: int) -> None:
        assert codes(f"> {request_line}\n+{allowed_s + 29}s") == []
        assert codes(f"> {request_line}\n+{allowed_s + 31}s") == ["C004"]

    def test_a_group_waits_for_its_slowest_member(self) -> None:
        slow = '2> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 90000}\n'
        quick = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 20000}\n'
        assert codes(f"{slow}{quick}+110s") == []

    def test_what_is_behind_a_long_fetch_may_wait_for_it(self) -> None:
        assert codes(f"{FETCH}{METADATA}+85s") == []
        assert codes(f"{FETCH}{METADATA}+91s") == ["C004"]

    def test_a_throttled_client_waits_for_the_end_of_that(self) -> None:
        throttled = f'{METADATA}< {{"throttle_time_ms": 60000}}\n{METADATA}'
        assert codes(f"{throttled}+80s") == []
        assert codes(f"{throttled}+95s") == ["C004"]

    def test_each_request_has_its_own_time(self) -> None:
        assert codes(f"{METADATA}+20s\n> ListGroups v2\n< #1 {{}}\n+29s") == ["C012"]
        assert codes(f"{METADATA}+20s\n> ListGroups v2\n< #1 {{}}\n+31s") == ["C012", "C004"]

    def test_nobody_is_told_of_a_connection_that_is_over(self) -> None:
        assert codes(f"{METADATA}close by=proxy how=shutdown\n+5m") == []

    def test_lost_bytes_may_have_been_the_answer(self) -> None:
        assert codes(f"{METADATA}lose < 100\n+5m\nclose by=server how=fin") == []

    def test_one_direction_of_a_stream_proves_nothing(self) -> None:
        assert codes(f"open 1 midstream\n{METADATA}+5m") == []

    def test_a_client_that_left_after_long_gave_up(self) -> None:
        [left] = findings(f"{METADATA}+1s\nclose by=client how=fin", "C004")
        [gave_up] = findings(f"{METADATA}+6s\nclose by=client how=fin", "C004")
        assert (left.severity, gave_up.severity) == ("info", "warning")
        assert (left.hint, gave_up.blame) == (None, "broker")
        assert "why the server does not answer" in (gave_up.hint or "")
        assert findings(f"{FETCH}+50s\nclose by=client how=fin", "C004") == []

    def test_what_had_hardly_waited_when_the_connection_ended_is_not_reported(self) -> None:
        assert codes(f"{METADATA}+900ms\nclose by=client how=fin") == []
        assert codes(f"{METADATA}+900ms\nclose") == []
        assert codes(f"{FETCH}+60500ms\nclose") == []
        assert codes(f"{FETCH}+62s\nclose") == ["C004"]

    def test_says_what_is_known_of_the_end(self) -> None:
        [unknown] = findings(f"{METADATA}+2s\nclose", "C004")
        [timeout] = findings(f"{METADATA}+2s\nclose how=timeout", "C004")
        assert (
            unknown.message
            == "no answer to Metadata v8 (correlation id 1), which had waited 2 s when its connection was last seen"
        )
        assert timeout.message.endswith("last seen (timeout)")

    def test_an_answer_that_comes_after_all_is_not_told_again(self) -> None:
        assert codes(f"{METADATA}+40s\n< {{}}") == ["C004"]

    def test_who_tells_of_what_follows_a_produce(self) -> None:
        nothing = '> Produce v7 {"acks": 0}\n'
        assert codes(f"{nothing}{METADATA}+31s") == ["C006"]
        assert codes(f'{nothing}{METADATA}> Produce v7 {{"acks": 1, "timeout_ms": 0}}\n+31s') == ["C006", "C007"]
        assert codes(f"{METADATA}{nothing}> ListGroups v2\n< #1 {{}}\n+31s") == ["C004"]


def test_the_middle_of_a_response_is_cut_once() -> None:
    story = f"{METADATA}< hex 00 00 00 50  00 00 00 01  00 00 00 00\nclose by=server how=reset"
    [finding] = findings(story, "C014")
    assert codes(story) == ["C014"]
    assert "12 bytes into a response, most likely the answer to Metadata v8" in finding.message


def test_who_cut_a_request() -> None:
    cut = "> hex 00 00 00 50  00 03 00 08  00 00 00 01\n"
    by_client = findings(f"{cut}close by=client how=reset", "C014")
    by_server = findings(f"{cut}close by=server how=reset", "C014")
    assert [(finding.severity, finding.blame) for finding in by_client + by_server] == [
        ("error", "client"),
        ("warning", "broker"),
    ]


@pytest.mark.parametrize("how", ["by=server how=fin", "by=server how=reset"])
def test_a_restart_while_a_consumer_waits_is_for_information(how: str) -> None:
    [finding] = findings(f"{METADATA}< {{}}\n{FETCH}close {how}", "C013")
    assert finding.severity == "info"


def test_kproxy_ends_what_it_likes() -> None:
    half = "< hex 00 00 00 50  00 00 00 01  00 00 00 00\n"
    assert codes(f"{METADATA}{METADATA}{half}close by=proxy how=shutdown") == []


def test_a_server_that_ends_one_request_after_the_other_is_told_with_its_count() -> None:
    upon = "".join(f"{n}{METADATA}{n}< {{}}\n{n}> ListGroups v2\n{n} close by=server how=fin\n" for n in (1, 2))
    assert codes(upon) == ["C013", "C015"]
    [finding] = findings(upon, "C015")
    assert "closed 2 connections after ListGroups v2 and never answered one" in finding.message
    assert codes(upon.replace("2> ", "2> as other ")) == ["C013"]


def test_an_end_that_another_rule_explains() -> None:
    assert [finding.code for finding in findings("> ListGroups v2\nclose by=server how=fin")] == ["X006"]
    too_new = """
        > ApiVersions v0
        < {"api_keys": [{"api_key": 3, "max_version": 7}, {"api_key": 18, "max_version": 3}]}
        > Metadata v7
        < {}
        > Metadata v8
        close by=server how=fin
    """
    assert [finding.code for finding in findings(too_new)] == ["V001"]


def test_a_deep_pipeline_is_told_once() -> None:
    assert codes("".join("> Heartbeat v3 {}\n" for _ in range(1200))) == ["C010"]


def test_requests_in_flight_are_bounded() -> None:
    flight, connection = InFlight(), ConnectionState(RunState(rules.trackers()))
    for number in range(MAX_IN_FLIGHT + 10):
        message = read_request(request("Metadata", 8, {}, correlation_id=number))
        flight.observe(RequestReceived(number, number, 0, message), connection)
    assert len(flight.waiting) == MAX_IN_FLIGHT
    assert len(connection.run.deadlines) == 2


@pytest.mark.parametrize(("max_wait_ms", "expected"), [(1500, ["C011"]), (500, [])])
def test_a_client_is_not_to_blame_for_a_fetch_that_takes_longer_than_it_may(
    max_wait_ms: int, expected: list[str]
) -> None:
    fetch = f'> Fetch v11 {{"max_wait_ms": {max_wait_ms}, "topics": []}}\n'
    assert codes(f"{fetch}> ListGroups v2\n+3s\n< {{}}\n< {{}}\n") == expected


def test_an_end_takes_its_deadlines_along() -> None:
    teller = Teller()
    teller.tell(METADATA)
    deadlines = teller.inspector._inspection.run_state.deadlines
    assert len(deadlines) == 2  # that of a late and that of an overdue response
    teller.tell("close by=client how=fin")
    assert len(deadlines) == 0


def visit(number: int, body: str = "") -> str:
    return (
        f"open {number} client=10.0.0.9:{50000 + number} server=10.0.0.1:9092\n{number}{METADATA}{number}< {{{body}}}\n"
        f"{number} close by=client how=fin\n"
    )


def test_who_is_sent_where_nobody_goes_is_told_by_another_rule() -> None:
    elsewhere = '"brokers": [{"node_id": 1, "host": "10.0.0.7", "port": 19092}]'
    assert codes("".join(map(visit, range(1, 13)))) == ["C017"]
    assert codes("".join(visit(number, elsewhere) for number in range(1, 13))) == []


def test_work_at_another_broker_ends_a_row_too() -> None:
    work = "open 50 client=10.0.0.9:50050 server=10.0.0.2:9092\n50> Fetch v11\n50< {}\n"
    assert codes("".join(map(visit, range(1, 9))) + work + "".join(map(visit, range(9, 15)))) == []


def test_the_middle_of_a_frame_after_one_that_departs() -> None:
    broken = "> hex 00 00 00 0e  00 03 00 08  00 00 00 01  ff ff  00 00 00 09\n"
    assert codes(f"{broken}> hex 00 00 00 50  00 03\nclose by=server how=fin") == []


def test_nothing_is_said_of_a_stream_that_is_no_kafka_any_more() -> None:
    lost = "< hex ff ff ff ff\n"
    assert codes(f"{METADATA}{lost}{METADATA}+5m\nclose by=server how=fin") == []
    assert codes(f"{METADATA}> hex ff ff ff ff ff ff ff ff\n< #9 as Metadata v8 {{}}\n+5m") == []


def test_a_response_that_is_damaged_is_an_answer() -> None:
    assert codes(f"{METADATA}< hex 00 00 00 50  00 00 00 01\nlose < 76\n+5m") == []


def test_a_produce_without_records_has_no_producer() -> None:
    assert codes(7 * '> Produce v7 {"acks": 1, "topic_data": [{"name": "t"}]}\n') == []
    deep = 7 * '> Produce v7 {"acks": 1}\n'
    assert codes(f"{FETCH}{FETCH}+2s\n{METADATA}{deep}") == []


def test_an_idempotent_producer_may_have_five_batches_of_each_partition_in_flight() -> None:
    def produce(partition: int) -> str:
        batch = '{"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}'
        data = f'{{"index": {partition}, "records": [{batch}]}}'
        return f'> Produce v7 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{data}]}}]}}\n'

    assert codes(5 * (produce(0) + produce(1))) == []
    assert codes(5 * (produce(0) + produce(1)) + produce(1)) == ["C010"]


def test_only_the_head_of_the_line_is_to_blame() -> None:
    assert codes(f"{METADATA}+2s\n< {{}}\n{FETCH}+5s\n< {{}}\n{METADATA}+2s\n< {{}}") == []


class TestRequestWaits:
    def test_from_5_seconds_on_and_once(self) -> None:
        assert findings(f"{METADATA}+5s", "C020") == []
        [finding] = findings(f"{METADATA}+6s\n+20s", "C020")
        assert finding.severity == "warning"
        assert finding.message.startswith("Metadata v8 (correlation id 1) has waited 5 s for its response: ")

    def test_a_connection_that_is_busy_is_looked_at_all_the_time(self) -> None:
        answered = f"{METADATA}+4s\n< {{}}\n"
        assert findings(5 * answered, "C020") == []
        assert len(findings(f"{5 * answered}> ListGroups v2\n+8s", "C020")) == 1

    def test_what_is_behind_it_waits_for_it(self) -> None:
        [finding] = findings(f"{METADATA}> ListGroups v2\n+6s", "C020")
        assert "Metadata v8" in finding.message

    def test_a_long_poll_waits_as_long_as_it_says(self) -> None:
        assert findings(f"{FETCH}+64s", "C020") == []
        assert len(findings(f"{FETCH}+66s", "C020")) == 1


def test_connections_that_the_server_closes_upon_a_request_are_no_reconnect_storm() -> None:
    visit = "open {0} client=10.0.0.9:{0}\n{0}> Metadata v8 {{}}\n{0}< {{}}\n{1}{0} close by={2} how=fin\n+1s\n"
    asked = [visit.format(n, f"{n}> InitProducerId v1 {{}}\n", "server") for n in range(10, 22)]
    assert not findings("".join(asked), "C017")
    assert findings("".join(asked), "C015")
    assert findings("".join(visit.format(n, "", "server") for n in range(10, 22)), "C017")


@pytest.mark.parametrize(
    ("wait_ms", "took", "severities"),
    [(5000, "6400ms", []), (5000, "7s", ["info"]), (500, "4900ms", []), (500, "6s", ["warning"])],
)
def test_a_fetch_that_comes_late(wait_ms: int, took: str, severities: list[str]) -> None:
    found = findings(f'> Fetch v11 {{"max_wait_ms": {wait_ms}, "topics": []}}\n+{took}\n< {{}}\n', "C012")
    assert [finding.severity for finding in found] == severities
