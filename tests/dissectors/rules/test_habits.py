"""Rules about habits: their thresholds, and the numbers in their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from dissectors.findings import Severity
from dissectors.rules import Rule, rules
from tests.dissectors.rules.test_pages import page_stories
from tests.kproxy.stories import findings


def produce_records(*values: str, partition: int = 0, acks: int = -1) -> str:
    records = ", ".join(f'{{"value": "{value}"}}' for value in values)
    batch = f'[{{"records": [{records}]}}]'
    return (f'> Produce v9 {{"acks": {acks}, "topic_data": [{{"name": "t", "partition_data": [{{"index": {partition}, '
            f'"records": {batch}}}]}}]}}')  # fmt: skip


PRODUCE_RESPONSE = '< {"responses": []}'


def rule_messages(lines: Iterable[str], code: str) -> list[str]:
    return [finding.message for finding in findings("\n".join(lines), code)]


@pytest.mark.parametrize("rule", [rule for rule in rules() if rule.code.startswith("H")], ids=lambda rule: rule.code)
def test_rule_of_family_h_is_never_an_error(rule: Rule) -> None:
    reported = [finding for story in page_stories(rule.page, "Example") for finding in findings(story, rule.code)]
    assert {rule.severity, *(finding.severity for finding in reported)} <= {Severity.INFO, Severity.WARNING}


def flush_each_record(pause: str = "", count: int = 10, partitions: int = 1) -> list[str]:
    exchanges = [
        [produce_records("v", partition=number % partitions), "+5ms", PRODUCE_RESPONSE, *([pause] if pause else [])]
        for number in range(count)
    ]
    return ["rule R026:requests=10", *(line for lines in exchanges for line in lines)]


def test_flush_after_each_record_is_reported() -> None:
    [message] = rule_messages(flush_each_record(), "R026")
    assert message == (
        "client 'app' at 10.0.0.101 sent 10 of 10 Produce requests within 63 ms with one record each, to 1 partition,"
        " each sent only after the response to the one before"
    )
    assert rule_messages(flush_each_record(count=9), "R026") == []


def test_occasional_single_records_are_not_flushes() -> None:
    assert (
        rule_messages(flush_each_record("+20ms"), "R026") == []
    )  # the client neither sends again at once nor at a high rate


def test_pipelined_requests_to_many_partitions_are_not_flushes() -> None:
    pipelined = [produce_records("v", partition=number) for number in range(10)]
    assert rule_messages(["rule R026:requests=10", *pipelined], "R026") == []


def test_short_linger_time_is_reported() -> None:
    pipelined = [produce_records("v") for _ in range(10)]
    [message] = rule_messages(["rule R026:requests=10", *pipelined], "R026")
    assert message.endswith("within 9 ms with one record each, to 1 partition")
    assert rule_messages(["rule R026:requests=10,rate=2000", *pipelined], "R026") == []


@pytest.mark.parametrize(("share", "finding_count"), [(80, 1), (81, 0)])
def test_share_of_single_record_requests_has_a_limit(share: int, finding_count: int) -> None:
    mixed = [produce_records(*"vw"[: 2 if number % 5 == 0 else 1]) for number in range(10)]
    assert len(rule_messages([f"rule R026:requests=10,share={share}", *mixed], "R026")) == finding_count


def commit_offset(offset: int) -> list[str]:
    return [
        '> OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t", "partitions":'
        f' [{{"partition_index": 0, "committed_offset": {offset}}}]}}]}}',
        '< {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}',
    ]


def commit_offsets(*offsets: int) -> list[str]:
    return [f"rule S091:commits={len(offsets) - 1}", *(line for offset in offsets for line in commit_offset(offset))]


def fetch_record(offset: int) -> list[str]:
    batch = f'[{{"base_offset": {offset}, "records": [{{"value": "v"}}]}}]'
    return [
        '2> Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset":'
        f" {offset}}}]}}]}}",
        f'2< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 900, "records": {batch}}}]}}]}}',
    ]


def test_commit_per_record_is_reported() -> None:
    lines = commit_offsets(*range(11))
    [message] = rule_messages(lines, "S091")
    assert message == "client 'app' at 10.0.0.101 sent 10 commits for 10 records of group 'g' within 18 ms"
    assert rule_messages(lines, "S092") == []
    assert rule_messages(commit_offsets(*range(0, 22, 2)), "S091") == []  # two records each


def test_commit_after_each_single_record_fetch_is_normal() -> None:
    lines = ["rule S091:commits=10", "open 1 client=10.0.0.9:1", "open 2 client=10.0.0.9:2"]
    assert rule_messages([*lines, *(line for offset in range(11) for line in commit_offset(offset))], "S091")
    assert not rule_messages(
        [*lines, *(line for offset in range(11) for line in fetch_record(offset) + commit_offset(offset))], "S091"
    )


def test_commits_without_progress_are_reported() -> None:
    lines = commit_offsets(*[7] * 10, 9)
    [message] = rule_messages(lines, "S092")
    assert message == "9 of 10 commits that client 'app' at 10.0.0.101 sent for group 'g' within 18 ms moved no offset"
    assert rule_messages(lines, "S091") == []
    assert rule_messages(commit_offsets(*[7] * 9, 8, 9), "S092") == []


def short_connections(count: int, requests: int, pause: str = "") -> list[str]:
    connections = [
        [f"open {number} client=10.0.0.9:{number}", *[f"{number}> ListGroups v2 {{}}", f"{number}< {{}}"] * requests,
         f"{number} close by=client how=fin", *([pause] if pause else [])]
        for number in range(1, count + 1)
    ]  # fmt: skip
    return [line for lines in connections for line in lines]


@pytest.mark.parametrize(
    ("count", "requests", "pause", "finding_count"),
    [(20, 1, "", 1), (20, 2, "", 1), (19, 1, "", 0), (20, 3, "", 0), (20, 1, "+20s", 0), (20, 1, "+14s", 1)],
)
def test_connections_for_one_or_two_requests_are_reported(
    count: int, requests: int, pause: str, finding_count: int
) -> None:
    reported = rule_messages(short_connections(count, requests, pause), "C018")
    assert len(reported) == finding_count
    if reported:
        assert "opened 20 connections to 10.0.0.1:9092 within" in reported[0]
        assert reported[0].endswith(f"for {20 * requests} requests")


def test_unclosed_connections_are_judged_by_their_opening_times() -> None:
    opens = [f"open {number} client=10.0.0.9:{number}" for number in range(1, 21)]
    requests = [line for number in range(1, 21) for line in (f"{number}> ListGroups v2 {{}}", f"{number}< {{}}")]
    closes = [f"{number} close by=client how=fin" for number in range(1, 21)]
    assert len(rule_messages([*opens, *requests, "+60m", *closes], "C018")) == 1


def test_acks_0_is_reported_once_per_connection() -> None:
    lines = ["rule S090:requests=5", *[produce_records("v", acks=0)] * 20]
    assert len(rule_messages(lines, "S090")) == 1


def test_uncompressed_records_are_measured_over_several_batches() -> None:
    large_produce = [produce_records("v" * 2000)]
    assert rule_messages(["rule R029:bytes=1000", *large_produce], "R029") == []  # one large batch is no habit
    [message] = rule_messages(["rule R029:bytes=1000", *large_produce * 2], "R029")
    assert re.search(
        r"sent 4,1\d\d bytes of uncompressed batches: a sample of 4,0\d\d bytes shrinks to 2 % with zlib", message
    )
    assert rule_messages(["rule R029:bytes=1000,saved=99.9%", *large_produce * 2], "R029") == []
    compressed = [
        line.replace('[{"records": [{"value"', '[{"compression": "gzip", "records": [{"value"')
        for line in large_produce
    ]
    assert rule_messages(["rule R029:bytes=100", *compressed * 20], "R029") == []


@pytest.mark.parametrize(("pause", "finding_count"), [("+8ms", 1), ("+12ms", 0)])
def test_retries_without_a_pause_are_reported(pause: str, finding_count: int) -> None:
    retry = ['> FindCoordinator v2 {"key": "g"}', '< {"error_code": 15}', pause]
    assert len(rule_messages(retry * 20, "S050")) == finding_count
    assert rule_messages(retry * 19, "S050") == []
    assert rule_messages([line.replace("15", "30") for line in retry] * 20, "S050") == []  # a retry cannot succeed


def test_fetched_records_end_a_busy_poll() -> None:
    empty_fetch = ['> Fetch v11 {"max_wait_ms": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}',
             '< {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}']  # fmt: skip
    fetch_with_records = [line.removeprefix("2") for line in fetch_record(0)]
    lines = ["rule S031:responses=6", *empty_fetch * 5]
    assert rule_messages([*lines, *fetch_with_records, *empty_fetch], "S031") == []
    [message] = rule_messages([*lines, *empty_fetch], "S031")
    assert "got 6 empty Fetch responses in a row within 11 ms" in message


def test_client_that_also_uses_long_connections_is_not_reported() -> None:
    long_connections = "\n".join(short_connections(3, 5)).replace("10.0.0.9:", "10.0.0.9:9").splitlines()
    long_connections = [line.replace("open ", "open 9") for line in long_connections]
    long_connections = [line if line.startswith("open") else f"9{line}" for line in long_connections]
    assert (
        len(rule_messages([*long_connections[: len(long_connections) // 3], *short_connections(20, 1)], "C018")) == 1
    )  # one in twenty
    assert rule_messages([*long_connections, *short_connections(20, 1)], "C018") == []


def test_only_metadata_without_an_error_counts_as_repeated() -> None:
    for code, finding_count in ((0, 1), (5, 0)):
        exchange = [
            '> Metadata v8 {"topics": [{"name": "t"}]}',
            f'< {{"topics": [{{"name": "t", "error_code": {code}}}]}}',
        ]
        assert len(rule_messages(["rule S009:responses=5", *exchange * 5], "S009")) == finding_count


def test_retries_after_different_errors_are_counted_separately() -> None:
    retries = ['> FindCoordinator v2 {"key": "g"}', '< {"error_code": 15}', '> FindCoordinator v2 {"key": "g"}',
            '< {"error_code": 14}']  # fmt: skip
    assert rule_messages(retries * 20, "S050") == []


@pytest.mark.parametrize(("error", "is_reported"), [(0, True), (15, False)])
def test_reconnects_after_a_refusal_are_not_counted(error: int, is_reported: bool) -> None:
    story = "rule C018:connections=3\n" + "".join(
        f"open {number} client=10.0.0.9:5000{number}\n"
        f'{number}> SyncGroup v3 {{"group_id": "g"}}\n{number}< {{"error_code": {error}}}\n'
        f"{number} close by=client how=fin\n"
        for number in range(1, 5)
    )
    assert bool(findings(story, "C018")) is is_reported


def keyed_partition(*keys: str, partition: int = 0) -> str:
    records = ", ".join(f'{{"key": "{key}", "value": "v"}}' for key in keys)
    return f'{{"index": {partition}, "records": [{{"records": [{records}]}}]}}'


def skewed_produce(hot_count: int, cold_count: int, *, partitions: int = 3, key: str = "x") -> list[str]:
    partition_data = [
        keyed_partition(*[key] * hot_count),
        *[keyed_partition(*[f"{key}{index}"] * cold_count, partition=index) for index in range(1, partitions)],
    ]
    return [
        f'> Produce v9 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{", ".join(partition_data)}]}}]}}'
    ]


@pytest.mark.parametrize(
    ("hot_count", "cold_count", "partitions", "finding_count"), [(8, 1, 3, 1), (7, 1, 3, 0), (10, 1, 2, 0)]
)
def test_key_skew_is_reported_only_above_its_limits(
    hot_count: int, cold_count: int, partitions: int, finding_count: int
) -> None:
    reported = rule_messages(
        ["rule H006:records=9", *skewed_produce(hot_count, cold_count, partitions=partitions)], "H006"
    )
    assert len(reported) == finding_count
    if reported:
        assert reported[0].endswith(
            "sent 8 of 10 records to t[0], one of 3 partitions in use: 8 of 8 records in its latest batch have the same"
            " key"
        )
        assert "'x'" not in reported[0]  # a key may be personal


def test_key_skew_is_found_with_one_request_per_partition() -> None:
    [single_request] = skewed_produce(8, 1)
    partitions = re.findall(r'{"index".*?]}]}', single_request)
    separate_requests = [
        single_request[: single_request.index('{"index"')] + partition + "]}]}" for partition in partitions
    ]
    assert rule_messages(["rule H006:records=9", *separate_requests], "H006") == []  # the partition's batch is over
    assert len(rule_messages(["rule H006:records=9", *separate_requests, *separate_requests], "H006")) == 1
    assert len(rule_messages(["rule H006:records=9", *reversed(separate_requests)], "H006")) == 1


def test_key_skew_is_found_when_the_other_partitions_get_their_records_first() -> None:
    # librdkafka sends what it had queued before it knew the partitions, an equal number of requests to each.
    [balanced], [hot] = skewed_produce(2, 2), skewed_produce(8, 1, partitions=1)
    assert rule_messages(["rule H006:records=6", balanced, hot], "H006") == []
    [message] = rule_messages(["rule H006:records=6", balanced, hot, hot], "H006")
    assert "sent 18 of 22 records to t[0]" in message


def create_producers(count: int, pause: str) -> list[str]:
    connections = [
        [f"open {number} client=10.0.0.9:{number}", f'{number}> InitProducerId v4 {{"transactional_id": null}}',
         f'{number}< {{"producer_id": {number}}}', pause]
        for number in range(1, count + 1)
    ]  # fmt: skip
    return [line for lines in connections for line in lines]


@pytest.mark.parametrize(("count", "pause", "finding_count"), [(20, "+10s", 1), (19, "+10s", 0), (20, "+17s", 0)])
def test_repeatedly_created_producers_are_reported(count: int, pause: str, finding_count: int) -> None:
    assert len(rule_messages(create_producers(count, pause), "H001")) == finding_count


def retry_batch(code: int, *, other_connection: str = "1") -> list[str]:
    """Return a batch answered with a code, a later batch that is accepted, and the first batch again."""
    first, second = (produce_records("v", partition=0).replace('"v"', f'"{value}", "timestamp": 1767225600000')
                     for value in "ab")  # fmt: skip
    return [
        f"1{first}",
        f"{other_connection}{second}",
        f'1< {{"responses": [{{"name": "t", "partition_responses": [{{"error_code": {code}}}]}}]}}',
        f'{other_connection}< {{"responses": [{{"name": "t", "partition_responses": [{{"base_offset": 5}}]}}]}}',
        f"1{first}",
    ]


def test_retry_that_changes_the_order_is_reported() -> None:
    [message] = rule_messages(retry_batch(6), "H005")
    assert message == (
        "client 'app' at 10.0.0.101 sends a batch for t[0] again, which was answered with NOT_LEADER_OR_FOLLOWER, after"
        " 1 later batch was accepted: its records come after theirs"
    )
    assert rule_messages(retry_batch(0), "H005") == []  # that is a duplicate (S034)
    assert (
        rule_messages(retry_batch(6, other_connection="2"), "H005") == []
    )  # another producer, which has its own order


def connection_lifetimes(*seconds: int, closed_by: str = "server", requests: int = 3) -> list[str]:
    connections = [
        [f"open {number} client=10.0.0.9:{number}",
         *[f"{number}> ListGroups v2 {{}}", f"{number}< {{}}"] * requests, f"+{lifetime}s",
         f"{number} close by={closed_by} how=fin"]
        for number, lifetime in enumerate(seconds, 1)
    ]  # fmt: skip
    return [line for lines in connections for line in lines]


def test_connections_that_end_after_the_same_time_are_reported() -> None:
    [message] = rule_messages(connection_lifetimes(*[60] * 10), "H008")
    assert message == (
        "10 connections in a row of client 'app' at 10.0.0.9 to 10.0.0.1:9092 were closed by the server after the same"
        " time, 60 s to 60 s"
    )
    for story in (
        connection_lifetimes(*[60] * 9),
        connection_lifetimes(*[60] * 5, 70, *[60] * 5),
        connection_lifetimes(*[60] * 10, requests=2),
    ):
        assert rule_messages(story, "H008") == []


def test_parallel_connections_do_not_count_as_consecutive() -> None:
    opens = [f"open {number} client=10.0.0.9:{number}" for number in range(1, 12)]
    requests = [line for number in range(1, 12) for line in [f"{number}> ListGroups v2 {{}}", f"{number}< {{}}"] * 3]
    closes = [f"{number} close by=client how=fin" for number in range(1, 12)]
    assert rule_messages([*opens, *requests, "+60s", *closes], "H008") == []


def poll_records(gap_s: int, records: int = 1, repetitions: int = 3) -> list[str]:
    batch = f'[{{"records": [{", ".join(["{}"] * records)}]}}]'
    batch = batch.replace("{}", '{"value": "v"}')
    join = (
        '> JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 9000, "rebalance_timeout_ms": 60000}'
    )
    request = '> Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}'
    response = f'< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 9999, "records": {batch}}}]}}]}}'
    return [join, '< {"generation_id": 1, "member_id": "m"}', *[request, response, f"+{gap_s}s"] * repetitions, request]


def test_polls_close_to_the_limit_are_reported() -> None:
    [message] = rule_messages(poll_records(50), "H013")
    assert message.endswith(
        "sent no fetch for 50 s; if it polls later than 60 s (max.poll.interval.ms), it leaves group 'g'"
    )
    assert (
        rule_messages(poll_records(50, repetitions=2), "H013") == []
    )  # nobody counted the records before the first gap
    assert rule_messages(poll_records(40), "H013") == rule_messages(poll_records(70), "H013") == []
    assert (
        rule_messages(["rule H013:records=2", *poll_records(50, records=3)], "H013") == []
    )  # enough for several polls


def join_members(generation: int, *members: str, protocol: str = "range") -> list[str]:
    member_entries = ", ".join(f'{{"member_id": "{member}"}}' for member in members)
    return [
        f'> JoinGroup v5 {{"group_id": "g", "member_id": "{members[0]}", "session_timeout_ms": 9000}}',
        f'< {{"generation_id": {generation}, "protocol_name": "{protocol}", "leader": "{members[0]}", "member_id":'
        f' "{members[0]}", "members": [{member_entries}]}}',
    ]


def test_rebalances_that_stop_all_members_are_reported() -> None:
    rebalances = [line for generation in range(5) for line in join_members(generation, "m", "n", "o")]
    [message] = rule_messages(rebalances, "H016")
    assert (
        message
        == "group 'g' rebalanced 5 times within 8 ms with assignor 'range': each time all 3 members stopped reading"
    )
    assert rule_messages(rebalances[:-2] * 2, "H016") != []
    single_member = [line for generation in range(9) for line in join_members(generation, "m")]
    same_generation = join_members(1, "m", "n") * 9
    assert rule_messages(single_member, "H016") == rule_messages(same_generation, "H016") == []


def test_different_assignors_are_reported_in_either_response_order() -> None:
    requests = [
        '> JoinGroup v5 {"group_id": "g", "member_id": "m", "protocol_type": "consumer", "protocols":'
        ' [{"name": "range"}]}',
        '2> JoinGroup v5 {"group_id": "g", "member_id": "n", "protocol_type": "consumer", "protocols":'
        ' [{"name": "range"}, {"name": "sticky"}]}',
    ]
    leader_response = (
        '< {"generation_id": %d, "protocol_name": "range", "leader": "m", "member_id": "m", "members":'
        ' [{"member_id": "m"}, {"member_id": "n"}]}'
    )
    follower_response = '2< {"generation_id": %d, "protocol_name": "range", "leader": "m", "member_id": "n"}'
    for first, second in ((leader_response, follower_response), (follower_response, leader_response)):
        rounds = [line for number in (1, 2, 3) for line in (*requests, first % number, second % number)]
        [message] = rule_messages(rounds, "H018")
        assert message == (
            "members of group 'g' have different assignors: 'm' 'range', 'n' 'range', 'sticky'; the group uses 'range'"
        )
        assert rule_messages(rounds[:-4], "H018") == []


@pytest.mark.parametrize(
    ("interval_s", "session_timeout_s", "finding_count"), [(3, 6, 1), (3, 8, 1), (3, 9, 0), (3, 10, 0)]
)
def test_session_too_short_for_its_heartbeats_is_reported(
    interval_s: int, session_timeout_s: int, finding_count: int
) -> None:
    heartbeat_lines = [
        '> Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}',
        "< {}",
        f"+{interval_s}s",
    ]
    join_lines = [f'> JoinGroup v5 {{"group_id": "g", "member_id": "m", "session_timeout_ms": {session_timeout_s}000}}',
            '< {"generation_id": 1, "member_id": "m"}']  # fmt: skip
    reported = rule_messages([*join_lines, *heartbeat_lines * 6], "H014")
    assert len(reported) == finding_count
    assert rule_messages([*join_lines, *heartbeat_lines * 5], "H014") == []


def test_size_limit_of_a_topic_is_learned_from_a_refused_batch() -> None:
    large, larger = (produce_records("v" * size) for size in (900, 1000))
    refused = '< {"responses": [{"name": "t", "partition_responses": [{"error_code": 10, "base_offset": -1}]}]}'
    [message] = rule_messages([larger, refused, *[large, PRODUCE_RESPONSE] * 3], "M008")
    assert re.search(r"sent 3 batches of up to 9\d\d bytes to topic 't', whose limit is 1,0\d\d bytes", message)
    assert rule_messages([*[large, PRODUCE_RESPONSE] * 9], "M008") == []  # the topic may have any limit
    assert rule_messages([larger, refused, *[produce_records("v" * 700), PRODUCE_RESPONSE] * 9], "M008") == []


@pytest.mark.parametrize(("calls", "pause", "finding_count"), [(60, "", 1), (59, "", 0), (60, "+2s", 0)])
def test_repeated_identical_request_is_reported(calls: int, pause: str, finding_count: int) -> None:
    exchange = ['> DescribeConfigs v1 {"resources": []}', '< {"results": []}', *([pause] if pause else [])]
    assert len(rule_messages(exchange * calls, "H020")) == finding_count


def test_habit_toward_several_brokers_is_reported_once() -> None:
    exchange = '> DescribeConfigs v1 {"resources": []}', '< {"results": []}'
    lines = ["open 1 client=10.0.0.9:50001 server=10.0.0.1:9092", "open 2 client=10.0.0.9:50002 server=10.0.0.2:9092"]
    for connection in ("", "2"):
        lines += [f"{connection}{line}" for line in exchange] * 60
    assert len(rule_messages(lines, "H020")) == 1


def test_wait_for_each_result_is_distinguished_from_a_linger_time() -> None:
    lines = flush_each_record("+6ms")
    [finding] = findings("\n".join(lines), "R026")
    assert finding.message.endswith("each sent only after the response to the one before")
    assert finding.hint is not None
    assert "then wait once; if it does not, let the producer collect records: linger.ms=" in finding.hint
    assert rule_messages(flush_each_record("+7ms"), "R026") == []


def test_telemetry_does_not_count_as_work_of_a_connection() -> None:
    telemetry = ["> GetTelemetrySubscriptions v0 {}", "< {}"]
    lines = short_connections(20, 2)
    with_telemetry = []
    for line in lines:
        if " close " in line:
            number = line.split()[0]
            with_telemetry += [f"{number}{request}" for request in telemetry]
        with_telemetry.append(line)
    assert len(rule_messages(with_telemetry, "C018")) == len(rule_messages(lines, "C018")) == 1


def metadata_connections(count: int) -> list[str]:
    connections = [
        [f"open {number} client=10.0.0.9:{number}", f'{number}> Metadata v8 {{"topics": []}}', f"{number}< {{}}",
         f"{number} close by=client how=fin"]
        for number in range(1, count + 1)
    ]  # fmt: skip
    return [line for lines in connections for line in lines]


MISSING = ['> Metadata v8 {"topics": [{"name": "t"}]}', '< {"topics": [{"name": "t", "error_code": 3}]}']
SLOW = ["> ListGroups v2 {}", "+3s", "< {}"]
REFUSED = ['> FindCoordinator v2 {"key": "g"}', '< {"error_code": 14}', "+1s"]


@pytest.mark.parametrize(
    ("limit", "lines", "lines_below_limit"),
    [
        ("C017:connections=3", metadata_connections(3), metadata_connections(2)),
        ("C017:connections=15", metadata_connections(15), metadata_connections(14)),
        ("C012:duration=2s", SLOW, ["> ListGroups v2 {}", "+1s", "< {}"]),
        ("S066:responses=2,over=0s", MISSING * 2, MISSING),
        ("S012:generations=3", [line for number in (1, 2, 3, 4) for line in join_members(number, "m")],
         [line for number in (1, 2, 3) for line in join_members(number, "m")]),
        ("E002:refusals=8", REFUSED * 16, REFUSED * 7),
    ],
)  # fmt: skip
def test_limits_of_older_rules_are_configurable(limit: str, lines: list[str], lines_below_limit: list[str]) -> None:
    code = limit.partition(":")[0]
    assert rule_messages([f"rule {limit}", *lines], code)
    assert rule_messages([f"rule {limit}", *lines_below_limit], code) == []


def log_in(number: int, error: int = 0) -> list[str]:
    """Return a login on a connection, or a re-authentication if the connection has logged in before."""
    return [
        f'{number}> SaslHandshake v1 {{"mechanism": "PLAIN"}}',
        f'{number}< {{"mechanisms": ["PLAIN"]}}',
        f'{number}> SaslAuthenticate v1 {{"auth_bytes": "00 61 00 62"}}',
        f'{number}< {{"error_code": {error}, "session_lifetime_ms": 60000}}',
    ]


def failed_reauthentications(count: int) -> list[str]:
    """Return a story of re-authentications that fail after 50 s, each followed by a connection whose login fails."""
    lines = []
    for number in range(1, 2 * count, 2):
        lines += [f"open {number} client=10.0.0.101:{50_000 + number}", *log_in(number), "+50s", *log_in(number, 58)]
        lines += [f"{number} close by=server how=fin", f"open {number + 1} client=10.0.0.101:{50_001 + number}"]
        lines += [*log_in(number + 1, 58), f"{number + 1} close by=server how=fin"]
    return lines


def test_third_failed_reauthentication_is_reported_and_failed_logins_do_not_count() -> None:
    assert rule_messages(failed_reauthentications(2), "H021") == []
    [message] = rule_messages(failed_reauthentications(3), "H021")
    assert message.startswith("3 re-authentications of client 'app' at 10.0.0.101 at ")
    assert message.endswith(" failed, one every 50 s, each after a login that succeeded")


def test_refused_telemetry_is_counted_for_each_api() -> None:
    refused_subscription = ["> GetTelemetrySubscriptions v0 {}", '< {"error_code": 42}']
    refused_push = ["> PushTelemetry v0 {}", '< {"error_code": 118}']
    lines = 2 * [*refused_subscription, *refused_push]
    assert rule_messages(lines, "S044") == []
    [message] = rule_messages([*lines, *refused_push], "S044")
    assert message.startswith("client 'app' at 10.0.0.101 sent PushTelemetry to ")
    assert message.endswith(", which refused it 3 times (TELEMETRY_TOO_LARGE)")
