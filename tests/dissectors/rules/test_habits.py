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
    return [each.message for each in findings("\n".join(lines), code)]


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
