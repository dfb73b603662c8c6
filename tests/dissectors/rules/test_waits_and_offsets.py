"""S037 to S049, beyond the stories on their pages: versions, thresholds, spans and limits of memory."""

import pytest

from kproxy.trace.lines import FindingEntry
from tests.kproxy.stories import findings


def only_frame_finding(story: str, code: str) -> FindingEntry:
    """Return the only finding of a rule, which must belong to a frame."""
    [finding] = findings(story, code)
    assert isinstance(finding, FindingEntry)
    return finding


def finding_severities(story: str, code: str) -> list[str]:
    return [finding.severity for finding in findings(story, code)]


THROTTLED = '> {0} {{}}\n< {{"throttle_time_ms": 1000}}\n> {0} {{}}\n+1s\n< {{}}\n'


@pytest.mark.parametrize(
    ("api", "is_reported"),
    [("Heartbeat v2", True), ("Heartbeat v1", False), ("ListGroups v2", True), ("DescribeCluster v0", True),
     ("OffsetForLeaderEpoch v3", False)],
)  # fmt: skip
def test_client_must_wait_in_versions_in_which_the_broker_does_not(api: str, is_reported: bool) -> None:
    assert bool(findings(3 * THROTTLED.format(api), "S037")) is is_reported


def test_third_ignored_throttle_is_reported_once() -> None:
    story = THROTTLED.format("Heartbeat v4")
    assert not findings(2 * story, "S037")
    assert len(findings(9 * story, "S037")) == 1


def test_request_sent_after_the_throttled_response_counts() -> None:
    pipelined = """
> Heartbeat v4
> Heartbeat v4
< {"throttle_time_ms": 1000}
+300ms
> Heartbeat v4
+1s
<
<
"""
    assert finding_severities(3 * pipelined, "S037") == ["warning"]


def test_throttled_long_poll_is_reported_only_if_empty() -> None:
    fetch = '> Fetch v11 {"max_wait_ms": 500}\n+499ms\n'
    assert not findings(3 * (fetch + """< {"throttle_time_ms": 500, "responses": [{"topic": "t", "partitions":
        [{"records": [{"records": [{}]}]}]}]}\n"""), "S038")  # fmt: skip
    finding = only_frame_finding(5 * (fetch + '< {"throttle_time_ms": 500}\n'), "S038")
    assert (finding.path, finding.span) == ("throttle_time_ms", (8, 12))


def test_abandoned_join_within_the_rebalance_timeout_is_reported() -> None:
    story = """
> JoinGroup v5 {"group_id": "g", "rebalance_timeout_ms": 60000, "session_timeout_ms": 10000}
+30s
close by=client how=fin
"""
    [finding] = findings(4 * story, "S039")
    assert "gives up on JoinGroup after 30 s" in finding.message
    assert "up to 60 s" in finding.message
    assert not findings(4 * story.replace("+30s", "+61s"), "S039")
    assert not findings(4 * story.replace("by=client", "by=server"), "S039")


def test_closed_consumer_did_not_abandon_its_fetch() -> None:
    consumer_run = """
open {0} client=10.0.0.101:{0}
{0}> Fetch v11 {{"max_wait_ms": 5000}}
open {1} client=10.0.0.101:{1}
{1}> Heartbeat v3 {{"group_id": "g"}}
{1}< {{}}
+2s
{ends}
"""
    fetch_last, fetch_first = (
        "{1} close by=client how=fin\n{0} close by=client how=fin",
        "{0} close by=client how=fin\n+5ms\n{1} close by=client how=fin",
    )
    for closes in fetch_last, fetch_first:
        runs = [
            consumer_run.format(number, number + 1, ends=closes.format(number, number + 1))
            for number in range(10, 20, 2)
        ]
        assert not findings("".join(runs), "S039")
    with_open_connections = [
        consumer_run.format(number, number + 1, ends=f"{number} close by=client how=fin") for number in range(10, 20, 2)
    ]
    assert len(findings("".join(with_open_connections), "S039")) == 1  # the client's other connections stay open


def test_found_timestamp_is_kept_for_a_minute_per_isolation_level() -> None:
    lookup = (
        '> ListOffsets v4 {"isolation_level": %d, "topics": [{"name": "t", "partitions": [{"timestamp": 1000}]}]}\n'
    )
    found_response = '< {"topics": [{"name": "t", "partitions": [{"timestamp": 1005, "offset": 9}]}]}\n'
    empty_response = '< {"topics": [{"name": "t", "partitions": [{"timestamp": -1, "offset": -1}]}]}\n'
    assert finding_severities(lookup % 0 + found_response + lookup % 0 + empty_response, "S041") == ["warning"]
    assert not findings(lookup % 0 + found_response + lookup % 1 + empty_response, "S041")
    assert not findings(lookup % 0 + found_response + "+61s\n" + lookup % 0 + empty_response, "S041")


COMMIT = """> OffsetCommit v8 {"group_id": "g", "member_id": "m", "generation_id_or_member_epoch": 1, "topics":
    [{"name": "t", "partitions": [{"committed_offset": %d, "committed_metadata": "%s"}]}]}
"""
COMMITTED = '< {"topics": [{"name": "t", "partitions": [{}]}]}\n'
LOOKUP = """> OffsetFetch v8 {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]}
< {"groups": [{"group_id": "g", "topics": [{"name": "t", "partitions": [{"committed_offset": 5, "metadata": "%s"}]}]}]}
"""


def test_lost_metadata_of_a_commit_is_reported_at_its_group() -> None:
    finding = only_frame_finding(COMMIT % (5, "abc") + COMMITTED + LOOKUP % "", "S042")
    assert finding.path == "groups[0].topics[0].partitions[0].metadata"
    assert (finding.expected, finding.got) == ("3 characters", "none")


@pytest.mark.parametrize(
    "between",
    [
        "lose < 100 frames=1",
        COMMIT % (6, ""),
        '> OffsetDelete v0 {"group_id": "g", "topics": [{"name": "t", "partitions": [{}]}]}\n< {}',
        '> DeleteGroups v2 {"groups_names": ["g"]}\n< {"results": [{"group_id": "g"}]}',
        '> TxnOffsetCommit v3 {"group_id": "g", "topics": [{"name": "t", "partitions": [{}]}]}\n< {}',
    ],
)
def test_metadata_that_may_have_changed_is_not_reported(between: str) -> None:
    story = COMMIT % (5, "abc") + COMMITTED + between + "\nclose by=client\n" + LOOKUP % ""
    assert not findings(story, "S042")


def test_commit_that_goes_back_within_one_client_is_reported_as_information() -> None:
    story = "".join(COMMIT % (offset, "") + COMMITTED for offset in (50, 40, 30, 20, 60, 10))
    assert set(finding_severities(story, "S043")) == {"info"}


def test_clients_that_move_each_others_commits_back_are_a_warning() -> None:
    turn = (
        COMMIT % (50, "") + COMMITTED + (COMMIT % (40, "") + COMMITTED).replace("> ", "2> as b ").replace("< ", "2< ")
    )
    assert finding_severities(2 * turn, "S043") == ["info"]
    assert finding_severities(3 * turn, "S043") == ["info", "warning"]


def test_commit_by_name_below_one_by_topic_id_is_reported() -> None:
    by_topic_id = """> Metadata v12
< {"topics": [{"name": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAABw"}]}
> OffsetCommit v10 {"group_id": "g", "topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions":
    [{"committed_offset": 9}]}]}
< {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [{}]}]}
"""
    finding = only_frame_finding(by_topic_id + COMMIT % (5, "") + COMMITTED, "S043")
    assert "t[0] goes back from 9 to 5" in finding.message


FETCHED = """> Fetch v13 {"topics": []}
< {"responses": [{"topic_id": "%s", "partitions": [{"high_watermark": %d}]}]}
"""
OLD, NEW = "AAAAAAAAAAAAAAAAAAAABw", "AAAAAAAAAAAAAAAAAAAACA"
NAMED = """> Metadata v12
< {"topics": [{"name": "t", "topic_id": "%s"}]}
"""


def test_commit_of_an_old_topic_beyond_the_end_of_the_new_one_is_reported() -> None:
    old_topic = COMMIT % (50, "") + COMMITTED + NAMED % OLD + FETCHED % (OLD, 100) + COMMIT % (90, "") + COMMITTED
    assert not findings(old_topic, "S043")
    new_topic = NAMED % NEW + FETCHED % (NEW, 3) + COMMIT % (95, "") + COMMITTED
    [finding] = findings(old_topic + new_topic, "S043")
    assert (
        "commits offset 95 of t[0] for group 'g', but the broker reported to it that the partition ends at 3"
        in finding.message
    )
    assert not findings(old_topic + new_topic.replace(NEW, OLD), "S043")
    assert not findings(
        old_topic + NAMED % NEW + FETCHED % (NEW, 3) + "lose < 50 frames=0\n" + COMMIT % (95, "") + COMMITTED, "S043"
    )


def test_first_end_after_missed_frames_is_not_trusted() -> None:
    """A new leader reports an older end until its followers respond. Found with brokers restarted on a busy machine."""
    after_loss = COMMIT % (50, "") + COMMITTED + "lose < 50 frames=0\n" + FETCHED % ("t", 3)
    after_loss = after_loss.replace("Fetch v13", "Fetch v11").replace("topic_id", "topic")
    assert not findings(after_loss + COMMIT % (95, "") + COMMITTED, "S043")
    assert findings(after_loss + "+11s\n" + COMMIT % (95, "") + COMMITTED, "S043")


def test_records_may_end_behind_the_high_watermark_of_their_response() -> None:
    """Kafka takes the high watermark before it reads the records. Found with recorded traffic of franz-go."""
    batch = '"records": [{"base_offset": 99, "records": [{"value": "a"}, {"value": "b"}]}]'
    fetch = FETCHED % (OLD, 100)
    fetch = fetch.replace('"high_watermark"', f'{batch}, "high_watermark"')
    setup = COMMIT % (50, "") + COMMITTED + NAMED % OLD + fetch
    assert not findings(setup + COMMIT % (101, "") + COMMITTED, "S043")
    assert findings(setup + COMMIT % (102, "") + COMMITTED, "S043")


LISTED = """> ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": %d}]}]}
< {"topics": [{"name": "t", "partitions": [{"offset": %d}]}]}
"""


def test_start_of_a_partition_is_not_taken_for_its_end() -> None:
    """franz-go lists the start by name, between fetches by topic id. Found with its own test suite."""
    committed = COMMIT % (50, "") + COMMITTED
    assert not findings(committed + LISTED % (-2, 0) + COMMIT % (90, "") + COMMITTED, "S043")
    after_fetch = committed + NAMED % OLD + FETCHED % (OLD, 100)
    assert not findings(after_fetch + LISTED % (-2, 0) + COMMIT % (90, "") + COMMITTED, "S043")


def test_listed_end_offset_is_used_unless_a_later_one_was_fetched() -> None:
    committed = COMMIT % (50, "") + COMMITTED
    assert (
        "ends at 60"
        in only_frame_finding(committed + LISTED % (-1, 60) + COMMIT % (90, "") + COMMITTED, "S043").message
    )
    after_fetch = committed + NAMED % OLD + FETCHED % (OLD, 100)
    assert not findings(after_fetch + LISTED % (-1, 60) + COMMIT % (90, "") + COMMITTED, "S043")


def test_response_with_an_error_is_not_empty() -> None:
    assert not findings('> DescribeGroups v5 {"groups": ["g"]}\n< {"groups": [{"error_code": 16}]}', "S045")
    assert not findings('> OffsetDelete v0 {"group_id": "g"}\n< {"error_code": 16}', "S045")


def test_deleted_topics_given_by_name_need_a_result() -> None:
    assert findings('> DeleteTopics v3 {"topic_names": ["t"]}\n< {"responses": []}', "S045")
    assert findings('> DeleteTopics v6 {"topics": [{"name": "t"}]}\n< {"responses": []}', "S045")


def test_invalid_acks_are_reported_at_their_field() -> None:
    finding = only_frame_finding('> Produce v7 {"acks": 3, "topic_data": []}', "S046")
    assert (finding.path, finding.span, finding.severity) == ("acks", (19, 21), "error")


PRODUCED = """> Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data":
    [{"records": [{"records": [{}]}]}]}]}
< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 41}]}]}
"""
EMPTY = """> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 0}]}]}
< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 41}]}]}
"""


def test_lost_records_are_reported_with_both_offsets() -> None:
    finding = only_frame_finding(PRODUCED + EMPTY, "S049")
    assert (finding.expected, finding.got) == ("at least 42", "41")
    assert finding.path == "responses[0].partitions[0].high_watermark"


@pytest.mark.parametrize(
    "between",
    ["+301s", '> DeleteTopics v3 {"topic_names": ["t"]}\n< {"responses": [{"name": "t"}]}',
     PRODUCED.replace("41", "7")],
)  # fmt: skip
def test_possibly_recreated_topic_has_lost_nothing(between: str) -> None:
    assert not findings(f"{PRODUCED}{between}\n{EMPTY}", "S049")


def test_another_server_may_be_behind() -> None:
    fetch_elsewhere = EMPTY.replace("> ", "2> ").replace("< ", "2< ")
    assert not findings(f"{PRODUCED}open 2 server=10.0.0.2:9092\n{fetch_elsewhere}", "S049")


@pytest.mark.parametrize(
    ("offset", "code", "is_correct"), [(-1, 0, False), (-1001, 0, False), (0, 0, True), (-1, 25, True)]
)
def test_negative_committed_offset_is_reported(offset: int, code: int, is_correct: bool) -> None:
    request_body = f'{{"group_id": "g", "topics": [{{"name": "t", "partitions": [{{"committed_offset": {offset}}}]}}]}}'
    response_body = f'{{"topics": [{{"name": "t", "partitions": [{{"error_code": {code}}}]}}]}}'
    reported = findings(f"> OffsetCommit v7 {request_body}\n< {response_body}\n", "S043")
    assert [finding.got for finding in reported] == ([] if is_correct else [str(offset)])
