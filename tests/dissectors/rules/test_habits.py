"""Rules about habits: where they begin to report, and what they say with numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from tests.kproxy.stories import findings


def produce(*values: str, partition: int = 0, acks: int = -1) -> str:
    records = ", ".join(f'{{"value": "{value}"}}' for value in values)
    batch = f'[{{"records": [{records}]}}]'
    return (f'> Produce v9 {{"acks": {acks}, "topic_data": [{{"name": "t", "partition_data": [{{"index": {partition}, '
            f'"records": {batch}}}]}}]}}')  # fmt: skip


ANSWER = '< {"responses": []}'


def messages(lines: Iterable[str], code: str) -> list[str]:
    return [finding.message for finding in findings("\n".join(lines), code)]


def flushed(pause: str = "", count: int = 10, partitions: int = 1) -> list[str]:
    each = [[produce("v", partition=number % partitions), "+5ms", ANSWER, *([pause] if pause else [])]
            for number in range(count)]  # fmt: skip
    return ["rule R026:requests=10", *(line for lines in each for line in lines)]


def test_a_flush_after_each_record() -> None:
    [text] = messages(flushed(), "R026")
    assert text == (
        "client 'app' at 10.0.0.101 sent 10 of 10 Produce requests within 63 ms with one record each, to 1 partition,"
        " each sent only after the response to the one before"
    )
    assert messages(flushed(count=9), "R026") == []


def test_a_record_now_and_then_is_no_flush_after_each() -> None:
    assert messages(flushed("+20ms"), "R026") == []  # it does not send again at once, nor at a high rate


def test_requests_to_many_partitions_have_one_record_for_each_anyway() -> None:
    pipelined = [produce("v", partition=number) for number in range(10)]
    assert messages(["rule R026:requests=10", *pipelined], "R026") == []


def test_a_short_linger_time() -> None:
    pipelined = [produce("v") for _ in range(10)]
    [text] = messages(["rule R026:requests=10", *pipelined], "R026")
    assert text.endswith("within 9 ms with one record each, to 1 partition")
    assert messages(["rule R026:requests=10,rate=2000", *pipelined], "R026") == []


@pytest.mark.parametrize(("share", "found"), [(80, 1), (81, 0)])
def test_the_share_of_requests_with_one_record(share: int, found: int) -> None:
    mixed = [produce(*"vw"[: 2 if number % 5 == 0 else 1]) for number in range(10)]
    assert len(messages([f"rule R026:requests=10,share={share}", *mixed], "R026")) == found


def commit(offset: int) -> list[str]:
    return [
        '> OffsetCommit v7 {"group_id": "g", "member_id": "m", "topics": [{"name": "t", "partitions":'
        f' [{{"partition_index": 0, "committed_offset": {offset}}}]}}]}}',
        '< {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}',
    ]


def commits(*offsets: int) -> list[str]:
    return [f"rule S091:commits={len(offsets) - 1}", *(line for offset in offsets for line in commit(offset))]


def fetch(offset: int) -> list[str]:
    batch = f'[{{"base_offset": {offset}, "records": [{{"value": "v"}}]}}]'
    return [
        '2> Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset":'
        f" {offset}}}]}}]}}",
        f'2< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 900, "records": {batch}}}]}}]}}',
    ]


def test_a_commit_per_record() -> None:
    lines = commits(*range(11))
    [text] = messages(lines, "S091")
    assert text == "client 'app' at 10.0.0.101 sent 10 commits for 10 records of group 'g' within 18 ms"
    assert messages(lines, "S092") == []
    assert messages(commits(*range(0, 22, 2)), "S091") == []  # two records each


def test_a_commit_for_each_fetch_of_one_record_is_right() -> None:
    lines = ["rule S091:commits=10", "open 1 client=10.0.0.9:1", "open 2 client=10.0.0.9:2"]
    assert messages([*lines, *(line for offset in range(11) for line in commit(offset))], "S091")
    assert not messages([*lines, *(line for offset in range(11) for line in fetch(offset) + commit(offset))], "S091")


def test_commits_that_move_nothing() -> None:
    lines = commits(*[7] * 10, 9)
    [text] = messages(lines, "S092")
    assert text == "9 of 10 commits that client 'app' at 10.0.0.101 sent for group 'g' within 18 ms moved no offset"
    assert messages(lines, "S091") == []
    assert messages(commits(*[7] * 9, 8, 9), "S092") == []


def visits(count: int, errands: int, pause: str = "") -> list[str]:
    each = [
        [f"open {number} client=10.0.0.9:{number}", *[f"{number}> ListGroups v2 {{}}", f"{number}< {{}}"] * errands,
         f"{number} close by=client how=fin", *([pause] if pause else [])]
        for number in range(1, count + 1)
    ]  # fmt: skip
    return [line for lines in each for line in lines]


@pytest.mark.parametrize(
    ("count", "errands", "pause", "found"),
    [(20, 1, "", 1), (20, 2, "", 1), (19, 1, "", 0), (20, 3, "", 0), (20, 1, "+20s", 0), (20, 1, "+14s", 1)],
)
def test_connections_for_one_or_two_requests(count: int, errands: int, pause: str, found: int) -> None:
    texts = messages(visits(count, errands, pause), "C018")
    assert len(texts) == found
    if texts:
        assert "opened 20 connections to 10.0.0.1:9092 within" in texts[0]
        assert texts[0].endswith(f"for {20 * errands} requests")


def test_clients_that_are_not_closed_are_judged_by_when_they_were_opened() -> None:
    opened = [f"open {number} client=10.0.0.9:{number}" for number in range(1, 21)]
    used = [line for number in range(1, 21) for line in (f"{number}> ListGroups v2 {{}}", f"{number}< {{}}")]
    closed = [f"{number} close by=client how=fin" for number in range(1, 21)]
    assert len(messages([*opened, *used, "+60m", *closed], "C018")) == 1


def test_acks_0_is_reported_once_for_a_connection() -> None:
    lines = ["rule S090:requests=5", *[produce("v", acks=0)] * 20]
    assert len(messages(lines, "S090")) == 1


def test_uncompressed_records_are_measured_on_several_batches() -> None:
    large = [produce("v" * 2000)]
    assert messages(["rule R029:bytes=1000", *large], "R029") == []  # one large batch is no habit
    [text] = messages(["rule R029:bytes=1000", *large * 2], "R029")
    assert re.search(
        r"sent 4,1\d\d bytes of uncompressed batches: a sample of 4,0\d\d bytes shrinks to 2 % with zlib", text
    )
    assert messages(["rule R029:bytes=1000,saved=99.9%", *large * 2], "R029") == []
    compressed = [
        line.replace('[{"records": [{"value"', '[{"compression": "gzip", "records": [{"value"') for line in large
    ]
    assert messages(["rule R029:bytes=100", *compressed * 20], "R029") == []


@pytest.mark.parametrize(("pause", "found"), [("+8ms", 1), ("+12ms", 0)])
def test_retries_without_a_pause(pause: str, found: int) -> None:
    each = ['> FindCoordinator v2 {"key": "g"}', '< {"error_code": 15}', pause]
    assert len(messages(each * 20, "S050")) == found
    assert messages(each * 19, "S050") == []
    assert messages([line.replace("15", "30") for line in each] * 20, "S050") == []  # it cannot succeed later


def test_a_busy_poll_is_over_when_records_come() -> None:
    empty = ['> Fetch v11 {"max_wait_ms": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}',
             '< {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}']  # fmt: skip
    full = [line.removeprefix("2") for line in fetch(0)]
    lines = ["rule S031:responses=6", *empty * 5]
    assert messages([*lines, *full, *empty], "S031") == []
    [text] = messages([*lines, *empty], "S031")
    assert "got 6 empty Fetch responses in a row within 11 ms" in text


def test_a_client_that_also_works_on_its_connections() -> None:
    busy = "\n".join(visits(3, 5)).replace("10.0.0.9:", "10.0.0.9:9").splitlines()
    busy = [line.replace("open ", "open 9").replace("close", "close") for line in busy]
    busy = [line if line.startswith("open") else f"9{line}" for line in busy]
    assert len(messages([*busy[: len(busy) // 3], *visits(20, 1)], "C018")) == 1  # one in twenty
    assert messages([*busy, *visits(20, 1)], "C018") == []


def test_metadata_with_an_error_is_requested_again() -> None:
    for code, found in ((0, 1), (5, 0)):
        each = ['> Metadata v8 {"topics": [{"name": "t"}]}', f'< {{"topics": [{{"name": "t", "error_code": {code}}}]}}']
        assert len(messages(["rule S009:responses=5", *each * 5], "S009")) == found


def test_retries_after_different_errors_are_counted_apart() -> None:
    each = ['> FindCoordinator v2 {"key": "g"}', '< {"error_code": 15}', '> FindCoordinator v2 {"key": "g"}',
            '< {"error_code": 14}']  # fmt: skip
    assert messages(each * 20, "S050") == []


@pytest.mark.parametrize(("error", "is_found"), [(0, True), (15, False)])
def test_connections_that_a_client_opens_again_because_it_is_refused_are_no_habit(error: int, is_found: bool) -> None:
    story = "rule C018:connections=3\n" + "".join(
        f'open {n} client=10.0.0.9:5000{n}\n{n}> SyncGroup v3 {{"group_id": "g"}}\n{n}< {{"error_code": {error}}}\n'
        f"{n} close by=client how=fin\n"
        for n in range(1, 5)
    )
    assert bool(findings(story, "C018")) is is_found


def keyed(*keys: str, partition: int = 0) -> str:
    records = ", ".join(f'{{"key": "{key}", "value": "v"}}' for key in keys)
    return f'{{"index": {partition}, "records": [{{"records": [{records}]}}]}}'


def skewed(hot: int, cold: int, *, partitions: int = 3, key: str = "x") -> list[str]:
    parts = [keyed(*[key] * hot), *[keyed(*[f"{key}{n}"] * cold, partition=n) for n in range(1, partitions)]]
    return [f'> Produce v9 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{", ".join(parts)}]}}]}}']


@pytest.mark.parametrize(("hot", "cold", "partitions", "found"), [(8, 1, 3, 1), (7, 1, 3, 0), (10, 1, 2, 0)])
def test_key_skew(hot: int, cold: int, partitions: int, found: int) -> None:
    texts = messages(["rule H006:records=9", *skewed(hot, cold, partitions=partitions)], "H006")
    assert len(texts) == found
    if texts:
        assert texts[0].endswith(
            "sent 8 of 10 records to t[0], one of 3 partitions in use: 8 of 8 records in its latest batch have the same"
            " key"
        )
        assert "'x'" not in texts[0]  # a key may be personal


def test_key_skew_of_a_client_that_sends_a_request_for_each_partition() -> None:
    [together] = skewed(8, 1)
    partitions = re.findall(r'{"index".*?]}]}', together)
    apart = [together[: together.index('{"index"')] + partition + "]}]}" for partition in partitions]
    assert messages(["rule H006:records=9", *apart], "H006") == []  # the partition's batch is over
    assert len(messages(["rule H006:records=9", *apart, *apart], "H006")) == 1
    assert len(messages(["rule H006:records=9", *reversed(apart)], "H006")) == 1


def new_producers(count: int, pause: str) -> list[str]:
    each = [
        [f"open {number} client=10.0.0.9:{number}", f'{number}> InitProducerId v4 {{"transactional_id": null}}',
         f'{number}< {{"producer_id": {number}}}', pause]
        for number in range(1, count + 1)
    ]  # fmt: skip
    return [line for lines in each for line in lines]


@pytest.mark.parametrize(("count", "pause", "found"), [(20, "+10s", 1), (19, "+10s", 0), (20, "+17s", 0)])
def test_producers_that_are_created_again_and_again(count: int, pause: str, found: int) -> None:
    assert len(messages(new_producers(count, pause), "H001")) == found


def retried(code: int, *, other: str = "1") -> list[str]:
    """A batch that is refused or not, one after it that is accepted, and the first again."""
    first, second = (produce("v", partition=0).replace('"v"', f'"{value}", "timestamp": 1767225600000')
                     for value in "ab")  # fmt: skip
    return [
        f"1{first}",
        f"{other}{second}",
        f'1< {{"responses": [{{"name": "t", "partition_responses": [{{"error_code": {code}}}]}}]}}',
        f'{other}< {{"responses": [{{"name": "t", "partition_responses": [{{"base_offset": 5}}]}}]}}',
        f"1{first}",
    ]


def test_a_retry_that_changes_the_order() -> None:
    [text] = messages(retried(6), "H005")
    assert text == (
        "client 'app' at 10.0.0.101 sends a batch for t[0] again, which was answered with NOT_LEADER_OR_FOLLOWER, after"
        " 1 later batch was accepted: its records come after theirs"
    )
    assert messages(retried(0), "H005") == []  # that is a duplicate (S034)
    assert messages(retried(6, other="2"), "H005") == []  # another producer, whose order is its own


def lives(*seconds: int, by: str = "server", errands: int = 3) -> list[str]:
    each = [
        [f"open {number} client=10.0.0.9:{number}",
         *[f"{number}> ListGroups v2 {{}}", f"{number}< {{}}"] * errands, f"+{life}s",
         f"{number} close by={by} how=fin"]
        for number, life in enumerate(seconds, 1)
    ]  # fmt: skip
    return [line for lines in each for line in lines]


def test_connections_that_end_after_the_same_time() -> None:
    [text] = messages(lives(*[60] * 10), "H008")
    assert text == (
        "10 connections in a row of client 'app' at 10.0.0.9 to 10.0.0.1:9092 were closed by the server after the same"
        " time, 60 s to 60 s"
    )
    for other in (lives(*[60] * 9), lives(*[60] * 5, 70, *[60] * 5), lives(*[60] * 10, errands=2)):
        assert messages(other, "H008") == []


def test_connections_of_one_time_are_not_in_a_row() -> None:
    together = [f"open {number} client=10.0.0.9:{number}" for number in range(1, 12)]
    used = [line for number in range(1, 12) for line in [f"{number}> ListGroups v2 {{}}", f"{number}< {{}}"] * 3]
    closed = [f"{number} close by=client how=fin" for number in range(1, 12)]
    assert messages([*together, *used, "+60s", *closed], "H008") == []


def polled(gap: int, records: int = 1, times: int = 3) -> list[str]:
    batch = f'[{{"records": [{", ".join(["{}"] * records)}]}}]'
    batch = batch.replace("{}", '{"value": "v"}')
    join = (
        '> JoinGroup v5 {"group_id": "g", "member_id": "m", "session_timeout_ms": 9000, "rebalance_timeout_ms": 60000}'
    )
    ask = '> Fetch v11 {"max_wait_ms": 500, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}'
    answer = f'< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 9999, "records": {batch}}}]}}]}}'
    return [join, '< {"generation_id": 1, "member_id": "m"}', *[ask, answer, f"+{gap}s"] * times, ask]


def test_polls_that_are_barely_in_time() -> None:
    [text] = messages(polled(50), "H013")
    assert text.endswith(
        "sent no fetch for 50 s; if it polls later than 60 s (max.poll.interval.ms), it leaves group 'g'"
    )
    assert messages(polled(50, times=2), "H013") == []  # nobody counted the records before the first gap
    assert messages(polled(40), "H013") == messages(polled(70), "H013") == []
    assert messages(["rule H013:records=2", *polled(50, records=3)], "H013") == []  # enough for several polls


def joined(generation: int, *members: str, protocol: str = "range") -> list[str]:
    rows = ", ".join(f'{{"member_id": "{member}"}}' for member in members)
    return [
        f'> JoinGroup v5 {{"group_id": "g", "member_id": "{members[0]}", "session_timeout_ms": 9000}}',
        f'< {{"generation_id": {generation}, "protocol_name": "{protocol}", "leader": "{members[0]}", "member_id":'
        f' "{members[0]}", "members": [{rows}]}}',
    ]


def test_rebalances_that_stop_all_members() -> None:
    five = [line for generation in range(5) for line in joined(generation, "m", "n", "o")]
    [text] = messages(five, "H016")
    assert (
        text
        == "group 'g' rebalanced 5 times within 8 ms with assignor 'range': each time all 3 members stopped reading"
    )
    assert messages(five[:-2] * 2, "H016") != []
    alone = [line for generation in range(9) for line in joined(generation, "m")]
    again = joined(1, "m", "n") * 9  # the same generation
    assert messages(alone, "H016") == messages(again, "H016") == []


def test_different_assignors_are_known_before_the_members_are() -> None:
    asks = [
        '> JoinGroup v5 {"group_id": "g", "member_id": "m", "protocol_type": "consumer", "protocols":'
        ' [{"name": "range"}]}',
        '2> JoinGroup v5 {"group_id": "g", "member_id": "n", "protocol_type": "consumer", "protocols":'
        ' [{"name": "range"}, {"name": "sticky"}]}',
    ]
    leader = (
        '< {"generation_id": %d, "protocol_name": "range", "leader": "m", "member_id": "m", "members":'
        ' [{"member_id": "m"}, {"member_id": "n"}]}'
    )
    follower = '2< {"generation_id": %d, "protocol_name": "range", "leader": "m", "member_id": "n"}'
    for first, second in ((leader, follower), (follower, leader)):
        rounds = [line for number in (1, 2, 3) for line in (*asks, first % number, second % number)]
        [text] = messages(rounds, "H018")
        assert text == (
            "members of group 'g' have different assignors: 'm' 'range', 'n' 'range', 'sticky'; the group uses 'range'"
        )
        assert messages(rounds[:-4], "H018") == []


@pytest.mark.parametrize(("heartbeat", "session", "found"), [(3, 6, 1), (3, 8, 1), (3, 9, 0), (3, 10, 0)])
def test_heartbeats_that_fit_into_a_session(heartbeat: int, session: int, found: int) -> None:
    beat = ['> Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}', "< {}", f"+{heartbeat}s"]
    join = [f'> JoinGroup v5 {{"group_id": "g", "member_id": "m", "session_timeout_ms": {session}000}}',
            '< {"generation_id": 1, "member_id": "m"}']  # fmt: skip
    texts = messages([*join, *beat * 6], "H014")
    assert len(texts) == found
    assert messages([*join, *beat * 5], "H014") == []


def test_the_size_limit_of_a_topic_is_that_of_a_refused_batch() -> None:
    large, larger = (produce("v" * size) for size in (900, 1000))
    refused = '< {"responses": [{"name": "t", "partition_responses": [{"error_code": 10, "base_offset": -1}]}]}'
    [text] = messages([larger, refused, *[large, ANSWER] * 3], "M008")
    assert re.search(r"sent 3 batches of up to 9\d\d bytes to topic 't', whose limit is 1,0\d\d bytes", text)
    assert messages([*[large, ANSWER] * 9], "M008") == []  # it may have any limit
    assert messages([larger, refused, *[produce("v" * 700), ANSWER] * 9], "M008") == []


@pytest.mark.parametrize(("calls", "pause", "found"), [(60, "", 1), (59, "", 0), (60, "+2s", 0)])
def test_the_same_question_again_and_again(calls: int, pause: str, found: int) -> None:
    each = ['> DescribeConfigs v1 {"resources": []}', '< {"results": []}', *([pause] if pause else [])]
    assert len(messages(each * calls, "H020")) == found


def test_a_habit_toward_several_brokers_is_reported_once() -> None:
    question = '> DescribeConfigs v1 {"resources": []}', '< {"results": []}'
    lines = ["open 1 client=10.0.0.9:50001 server=10.0.0.1:9092", "open 2 client=10.0.0.9:50002 server=10.0.0.2:9092"]
    for connection in ("", "2"):
        lines += [f"{connection}{line}" for line in question] * 60
    assert len(messages(lines, "H020")) == 1


def test_a_wait_for_each_result_behind_a_linger_time() -> None:
    lines = flushed("+6ms")
    [finding] = findings("\n".join(lines), "R026")
    assert finding.message.endswith("each sent only after the response to the one before")
    assert finding.hint is not None
    assert "then wait once; if it does not, let the producer collect records: linger.ms=" in finding.hint
    assert messages(flushed("+7ms"), "R026") == []


def test_telemetry_is_no_work_of_a_connection() -> None:
    telemetry = ["> GetTelemetrySubscriptions v0 {}", "< {}"]
    lines = visits(20, 2)
    with_telemetry = []
    for line in lines:
        if " close " in line:
            number = line.split()[0]
            with_telemetry += [f"{number}{each}" for each in telemetry]
        with_telemetry.append(line)
    assert len(messages(with_telemetry, "C018")) == len(messages(lines, "C018")) == 1


def lookups(count: int) -> list[str]:
    each = [
        [f"open {number} client=10.0.0.9:{number}", f'{number}> Metadata v8 {{"topics": []}}', f"{number}< {{}}",
         f"{number} close by=client how=fin"]
        for number in range(1, count + 1)
    ]  # fmt: skip
    return [line for lines in each for line in lines]


MISSING = ['> Metadata v8 {"topics": [{"name": "t"}]}', '< {"topics": [{"name": "t", "error_code": 3}]}']
SLOW = ["> ListGroups v2 {}", "+3s", "< {}"]
REFUSED = ['> FindCoordinator v2 {"key": "g"}', '< {"error_code": 14}', "+1s"]


@pytest.mark.parametrize(
    ("limit", "lines", "other"),
    [
        ("C017:connections=3", lookups(3), lookups(2)),
        ("C017:connections=15", lookups(15), lookups(14)),
        ("C012:duration=2s", SLOW, ["> ListGroups v2 {}", "+1s", "< {}"]),
        ("S066:responses=2,over=0s", MISSING * 2, MISSING),
        ("S012:generations=3", [line for number in (1, 2, 3, 4) for line in joined(number, "m")],
         [line for number in (1, 2, 3) for line in joined(number, "m")]),
        ("E002:refusals=8", REFUSED * 16, REFUSED * 7),
    ],
)  # fmt: skip
def test_limits_of_older_rules(limit: str, lines: list[str], other: list[str]) -> None:
    code = limit.partition(":")[0]
    assert messages([f"rule {limit}", *lines], code)
    assert messages([f"rule {limit}", *other], code) == []
