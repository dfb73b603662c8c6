"""T001 to T008: cases that the stories on their pages do not show."""

from __future__ import annotations

import pytest

from tests.kproxy.stories import findings

INIT = """
2> as pay InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 60000}
2< {"producer_id": 9001, "producer_epoch": 0}
"""
BEGIN = """
2> as pay AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
   "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
2< {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
"""
COMMIT = """
2> as pay EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": true}
2< {}
"""
WRITE = """
2> as pay Produce v9 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data":
   [{"records": [{"is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": SEQUENCE,
   "records": [{}]}]}]}]}
2< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 5}]}]}
"""


def write_batch(sequence: int) -> str:
    return WRITE.replace("SEQUENCE", str(sequence))


def fetch_at(offset: int, last_stable: int, high_watermark: int, *, isolation_level: int = 1) -> str:
    return f"""
> Fetch v11 {{"isolation_level": {isolation_level},
  "topics": [{{"topic": "t", "partitions": [{{"fetch_offset": {offset}}}]}}]}}
< {{"responses": [{{"topic": "t", "partitions": [
  {{"high_watermark": {high_watermark}, "last_stable_offset": {last_stable}, "records": ""}}]}}]}}
"""


BLOCKED_FETCHES = fetch_at(5, 5, 7) + "+18s\n" + fetch_at(5, 5, 9) + "+3s\n" + fetch_at(5, 5, 9)


def test_producer_that_blocks_the_last_stable_offset_is_named() -> None:
    [finding] = findings(INIT + BEGIN + BLOCKED_FETCHES, "T001")
    assert finding.severity == "warning"
    assert finding.message == (
        "t[0]: read_committed consumers wait at 5 with 4 more records up to the high watermark 9; the last stable "
        "offset has not moved for 21 s: the transaction of transactional id 'pay-1' (producer 9001, epoch 0, client "
        "'pay' at 10.0.0.102:50002) holds it; it has been open for 21 s of a timeout of 60 s, and its producer has "
        "sent nothing for 21 s"
    )


def test_producer_whose_connections_ended_is_described() -> None:
    [finding] = findings(INIT + BEGIN + "2 close\n" + BLOCKED_FETCHES, "T001")
    assert finding.message.endswith("and its producer's connections ended 21 s ago")


def test_active_producer_is_reported_as_information() -> None:
    story = INIT + BEGIN + write_batch(0) + fetch_at(5, 5, 7) + "+18s\n" + write_batch(1) + "+3s\n" + fetch_at(5, 5, 9)
    [finding] = findings(story, "T001")
    assert finding.severity == "info"
    assert finding.message.endswith("its producer is active")


@pytest.mark.parametrize(
    "setup",
    ["", INIT, INIT + BEGIN + COMMIT, INIT + BEGIN + INIT, INIT + BEGIN + "2 lose > 100 frames=1\n"],
    ids=["unseen", "idle", "committed", "restarted", "lost"],
)
def test_producer_without_an_open_transaction_is_not_blamed(setup: str) -> None:
    [finding] = findings(setup + BLOCKED_FETCHES, "T001")
    assert finding.message.endswith("a transaction of a producer that was not observed here holds it")


def test_older_of_two_transactions_is_blamed() -> None:
    second_transaction = (
        (INIT + BEGIN).replace("2>", "3>").replace("2<", "3<").replace("pay-1", "pay-2").replace("9001", "9002")
    )
    [finding] = findings(INIT + BEGIN + second_transaction + BLOCKED_FETCHES, "T001")
    assert "'pay-1'" in finding.message
    [finding] = findings(INIT + BEGIN + second_transaction + COMMIT + BLOCKED_FETCHES, "T001")
    assert "'pay-2'" in finding.message


def test_transaction_beyond_its_timeout_blames_the_coordinator() -> None:
    later_fetches = "".join("+15s\n" + fetch_at(5, 5, 9) for _ in range(6))
    reported = findings(INIT + BEGIN + BLOCKED_FETCHES + later_fetches, "T001")
    assert [finding.blame for finding in reported] == ["client", "broker"]
    assert reported[1].hint is not None
    assert reported[1].hint.startswith("the coordinator should have aborted it")


def test_moving_last_stable_offset_is_not_blocked() -> None:
    fetches = "".join(fetch_at(offset, offset, offset + 9) + "+12s\n" for offset in range(5))
    assert not findings(INIT + BEGIN + fetches, "T001")


def test_consumer_below_the_last_stable_offset_is_not_waiting() -> None:
    assert not findings(fetch_at(3, 5, 7) + "+21s\n" + fetch_at(3, 5, 7), "T001")
    assert not findings(fetch_at(5, 5, 7, isolation_level=0) + "+21s\n" + fetch_at(5, 5, 7, isolation_level=0), "T001")


SESSION_OPENED = """
> Fetch v12 {"isolation_level": 1, "session_epoch": 0, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
< {"session_id": 7, "responses": [
  {"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
"""
NEXT_FETCH = '> Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 1}\n< {"session_id": 7}\n'


def test_fetch_session_without_changes_counts_as_waiting() -> None:
    assert findings(SESSION_OPENED + "+15s\n" + NEXT_FETCH + "+6s\n" + NEXT_FETCH, "T001")


@pytest.mark.parametrize(
    "change",
    [
        # the consumer gives the partition back
        '> Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 1,\n'
        ' "forgotten_topics_data": [{"topic": "t", "partitions": [0]}]}\n< {"session_id": 7}\n' + NEXT_FETCH,
        # the transaction ends
        '> Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 1}\n< {"session_id": 7, "responses": [\n'
        ' {"topic": "t", "partitions": [{"high_watermark": 8, "last_stable_offset": 8, "records": ""}]}]}\n'
        + NEXT_FETCH,
        "",  # the consumer stops fetching
    ],
    ids=["forgotten", "ended", "silent"],
)
def test_ended_wait_in_a_session_is_not_reported(change: str) -> None:
    assert not findings(SESSION_OPENED + "+15s\n" + change + "+6s\n2> Metadata v9 {}\n", "T001")


def test_long_transaction_is_reported_before_it_times_out() -> None:
    metadata = "3> Metadata v9 {}\n3< {}\n"
    assert not findings(INIT + BEGIN + "+44s\n" + metadata, "T002")
    [finding] = findings(INIT + BEGIN + "+46s\n" + metadata, "T002")
    assert (
        "transactional id 'pay-1' (producer 9001, epoch 0, client 'pay' at 10.0.0.102:50002) with t[0]"
        in finding.message
    )
    assert "has been open for 45 s of a timeout of 60 s" in finding.message


ZOMBIE = """
open 1 client=10.0.0.9:50000
open 2 client=10.0.0.9:50001
> InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
< {"producer_id": 4000, "producer_epoch": 0}
2> InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
2< {"producer_id": 4000, "producer_epoch": 1}
> Produce v9 {"transactional_id": "pay", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records":
  [{"is_transactional": true, "producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{}]}]}]}]}
< {"responses": [{"name": "t", "partition_responses": [{"error_code": 47, "base_offset": -1}]}]}
"""


def test_producers_of_one_host_fence_each_other() -> None:
    reported = findings(ZOMBIE)
    assert [finding.code for finding in reported if finding.code in ("T003", "E001")] == ["T003"]
    [finding] = findings(ZOMBIE, "T003")
    assert "client 'app' at 10.0.0.9:50000 with transactional id 'pay' (producer 4000, epoch 0) was" in finding.message
    assert "because client 'app' at 10.0.0.9:50001 had called InitProducerId" in finding.message


def test_refused_newest_producer_is_not_fenced_by_itself() -> None:
    assert not findings(
        ZOMBIE.replace('"producer_epoch": 0, "base_sequence"', '"producer_epoch": 1, "base_sequence"'), "T003"
    )


def test_unanswered_end_of_a_transaction_is_mentioned() -> None:
    end_request = COMMIT.partition("\n2< ")[0] + "\n"
    [finding] = findings(INIT + BEGIN + end_request + BLOCKED_FETCHES, "T001")
    assert "of a timeout of 60 s, and its EndTxn (commit) has no response, and its producer has sent" in finding.message
    refused_end = COMMIT.replace("2< {}", '2< {"error_code": 51}')
    [finding] = findings(INIT + BEGIN + refused_end + BLOCKED_FETCHES, "T001")
    assert "EndTxn" not in finding.message


def test_repeated_aborts_are_reported_once() -> None:
    abort = COMMIT.replace("true", "false")
    assert not findings(INIT + 4 * (BEGIN + abort) + BEGIN + COMMIT + 4 * (BEGIN + abort), "T004")
    assert len(findings(INIT + 9 * (BEGIN + abort), "T004")) == 1


TICK = "3> Metadata v9 {}\n3< {}\n"


@pytest.mark.parametrize(
    ("code", "story", "limits"),
    [
        ("T001", BLOCKED_FETCHES, ("still=25s", "still=5s")),
        ("T002", INIT + BEGIN + "+30s\n" + TICK, ("share=60%", "share=40%")),
        ("T004", INIT + 4 * (BEGIN + COMMIT.replace("true", "false")), ("aborts=6", "aborts=3")),
    ],
)
def test_transaction_limits_are_configurable(code: str, story: str, limits: tuple[str, str]) -> None:
    higher, lower = (findings(f"rule {code}:{limit}\n{story}", code) for limit in limits)
    assert not higher
    assert len(lower) == 1


BATCH = """[{"base_offset": 5, "is_transactional": true, "producer_id": 9001, "producer_epoch": EPOCH,
   "base_sequence": 0, "records": [{}]}]"""


def fetch_uncommitted(end: int, *, records: str = '""', epoch: int = 0, api: str = "Fetch v11") -> str:
    """Return a fetch of a read_uncommitted consumer, whose response has the last stable offset 5."""
    return f"""
> {api} {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 5}}]}}]}}
< {{"responses": [{{"topic": "t", "partitions": [
  {{"high_watermark": {end}, "last_stable_offset": 5, "records": {records.replace("EPOCH", str(epoch))}}}]}}]}}
"""


UNCOMMITTED_FETCHES = fetch_uncommitted(6, records=BATCH) + "+21s\n" + fetch_uncommitted(9)
ABORT = COMMIT.replace("true", "false")


def test_uncommitted_reader_reveals_the_blocking_producer() -> None:
    [finding] = findings(INIT + BEGIN + UNCOMMITTED_FETCHES, "T006")
    assert finding.severity == "warning"
    assert finding.message.startswith(
        "t[0]: the last stable offset 5 has not moved for 21 s, while 3 records were written after it: the transaction "
        "of transactional id 'pay-1' (producer 9001, epoch 0, client 'pay' at 10.0.0.102:50002) holds it; it has been "
    )


def test_ended_transaction_without_a_marker_is_hanging() -> None:
    [finding] = findings(INIT + BEGIN + ABORT + UNCOMMITTED_FETCHES, "T006")
    assert (finding.severity, finding.blame) == ("warning", "broker")
    assert "a hanging transaction of transactional id 'pay-1' (producer 9001, epoch 0) holds it" in finding.message
    assert "was aborted 21 s ago" in finding.message
    assert finding.hint == "end it with kafka-transactions.sh abort --topic t --partition 0 --start-offset 5"


def test_hint_names_a_topic_fetched_by_its_id() -> None:
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    metadata = f"""
9> Metadata v12 {{"topics": []}}
9< {{"topics": [{{"name": "t", "topic_id": "{topic_id}"}}]}}
"""
    fetches = UNCOMMITTED_FETCHES.replace("Fetch v11", "Fetch v13").replace('"topic": "t"', f'"topic_id": "{topic_id}"')
    [finding] = findings(metadata + INIT + BEGIN + ABORT + fetches, "T006")
    assert finding.hint == "end it with kafka-transactions.sh abort --topic t --partition 0 --start-offset 5"
    assert finding.message.startswith("t[0]: ")


def test_transaction_that_just_ended_is_not_called_hanging() -> None:
    story = INIT + BEGIN + fetch_uncommitted(6, records=BATCH) + "+15s\n" + ABORT + "+6s\n" + fetch_uncommitted(9)
    [finding] = findings(story, "T006")
    assert "hanging" not in finding.message
    assert "a transaction of transactional id 'pay-1' (producer 9001, epoch 0) holds it" in finding.message


def test_transaction_of_an_earlier_epoch_hangs_alongside_an_open_one() -> None:
    next_begin = BEGIN.replace('epoch": 0', 'epoch": 1')
    next_transaction = INIT.replace('epoch": 0', 'epoch": 1') + COMMIT.replace('epoch": 0', 'epoch": 1') + next_begin
    [finding] = findings(
        INIT + BEGIN + fetch_uncommitted(6, records=BATCH) + next_transaction + "+21s\n" + fetch_uncommitted(9), "T006"
    )
    assert "a hanging transaction of transactional id 'pay-1' (producer 9001, epoch 0) holds it" in finding.message


def test_reader_that_always_gets_records_reveals_a_blocked_offset() -> None:
    plain_batch = BATCH.replace('"base_offset": 5', '"base_offset": 6').replace('"is_transactional": true, ', "")
    [finding] = findings(
        INIT + BEGIN + fetch_uncommitted(6, records=BATCH) + "+21s\n" + fetch_uncommitted(9, records=plain_batch),
        "T006",
    )
    assert "'pay-1'" in finding.message


def test_moved_offset_may_be_blocked_again() -> None:
    story = (
        fetch_uncommitted(6, records=BATCH)
        + "+5s\n"
        + fetch_uncommitted(9).replace('stable_offset": 5', 'stable_offset": 7')
    )
    story += "+21s\n" + fetch_uncommitted(12).replace('stable_offset": 5', 'stable_offset": 7')
    [finding] = findings(story, "T006")
    assert finding.message.startswith("t[0]: the last stable offset 7 has not moved for 21 s, while 3 records")


def test_transaction_of_an_unobserved_producer_is_a_warning_only_after_minutes() -> None:
    [finding] = findings(UNCOMMITTED_FETCHES, "T006")
    assert finding.severity == "info"
    assert "a transaction (producer 9001, epoch 0), whose requests were not observed here, holds it" in finding.message
    after_minutes = findings(UNCOMMITTED_FETCHES + "+15m\n" + fetch_uncommitted(12), "T006")
    assert [finding.severity for finding in after_minutes] == ["info", "warning"]


@pytest.mark.parametrize(
    "story",
    [
        fetch_uncommitted(6, records=BATCH) + "+21s\n" + fetch_uncommitted(6),  # nobody writes
        fetch_uncommitted(6, records=BATCH) + "+15s\n" + fetch_uncommitted(9),
        fetch_uncommitted(6, records=BATCH) + "+15s\n"
        + fetch_uncommitted(9).replace('offset": 5, "rec', 'offset": 8, "rec') + "+15s\n"
        + fetch_uncommitted(12).replace('offset": 5, "rec', 'offset": 11, "rec'),
        BLOCKED_FETCHES,  # a consumer of committed records: T001
    ],
    ids=["quiet", "soon", "moves", "committed"],
)  # fmt: skip
def test_unblocked_offset_is_not_reported(story: str) -> None:
    assert not findings(story, "T006")


def test_uncommitted_reader_names_the_producer_for_waiting_consumers() -> None:
    uncommitted_fetch = fetch_uncommitted(7, records=BATCH, epoch=3).replace("> ", "4> ").replace("< {", "4< {")
    [finding] = findings(uncommitted_fetch + BLOCKED_FETCHES, "T001")
    assert finding.severity == "warning"  # consumers wait, whoever it is
    assert finding.message.endswith(
        "a transaction (producer 9001, epoch 3), whose requests were not observed here, holds it"
    )


ADD_OFFSETS = """
2> as pay AddOffsetsToTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "group_id": "g"}
2< {}
"""
TXN_OFFSET_COMMIT = """
2> as pay TxnOffsetCommit v2 {"transactional_id": "pay-1", "group_id": "g", "producer_id": 9001, "producer_epoch": 0,
   "topics": [{"name": "in", "partitions": [{"partition_index": 0, "committed_offset": OFFSET}]}]}
2< {"topics": [{"name": "in", "partitions": [{"partition_index": 0}]}]}
"""


def commit_offsets(*numbers: int) -> str:
    return (
        "rule T007:commits=3\n"
        + INIT
        + "".join(ADD_OFFSETS + TXN_OFFSET_COMMIT.replace("OFFSET", str(number)) + COMMIT for number in numbers)
    )


def test_transactions_that_repeat_offsets_count_as_empty() -> None:
    [finding] = findings(commit_offsets(7, 7, 7, 7), "T007")
    assert "committed 3 transactions in a row without a record or a new offset" in finding.message
    assert not findings(commit_offsets(7, 7, 7, 8, 8, 8), "T007")
    assert not findings(commit_offsets(7, 7, 7) + BEGIN + COMMIT + ADD_OFFSETS + COMMIT, "T007")


def test_offsets_sent_to_another_broker_may_be_new() -> None:
    assert not findings("rule T007:commits=1\n" + INIT + ADD_OFFSETS + COMMIT, "T007")


def test_lost_bytes_may_have_held_records() -> None:
    assert not findings("rule T007:commits=1\n" + INIT + "2 lose > 100 frames=1\n" + COMMIT, "T007")
    assert findings("rule T007:commits=1\n" + INIT + COMMIT, "T007")


def test_verify_only_request_begins_no_transaction() -> None:
    add_partitions = """
3> AddPartitionsToTxn v4 {"transactions": [{"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0,
   "verify_only": VERIFIES, "topics": [{"name": "t", "partitions": [0]}]}]}
3< {"results_by_transaction": [{"transactional_id": "pay-1", "topic_results": [
   {"name": "t", "results_by_partition": [{"partition_index": 0}]}]}]}
"""
    story = INIT + add_partitions + "+46s\n" + TICK
    assert not findings(story.replace("VERIFIES", "true"), "T002")
    [finding] = findings(story.replace("VERIFIES", "false"), "T002")
    assert "with t[0] has been open" in finding.message


LATE_BATCH = """
2> InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 600000}
2< {"producer_id": 9001, "producer_epoch": 0}
2> AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
   "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
2< {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
2> Produce v7 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
   {"is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": 0, "records": [{}]}]}]}]}
2< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 3}]}]}
2> EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": false}
2< {}
ADDED
2> Produce v7 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
   {"is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": 1, "records": [{}]}]}]}]}
2< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 5}]}]}
> Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
+25s
> Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 5, "records": ""}]}]}
"""
SECOND_BEGIN = """
2> AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
   "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
2< {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
"""


def test_batch_written_after_its_transaction_is_hanging() -> None:
    [finding] = findings(LATE_BATCH.replace("ADDED\n", ""), "T001")
    assert "a hanging transaction of transactional id 'pay-1' (producer 9001, epoch 0)" in finding.message
    assert "its latest one was aborted" in finding.message


def late_response(*, pause: str = "+1s") -> str:
    """Return a story in which the broker answers a Produce only after the end of its transaction."""
    first_produce, answer = LATE_BATCH.partition("2> EndTxn")[0].rsplit("2< ", 1)
    return (
        f"{first_produce}3> EndTxn v1 {END_OF_LATE_BATCH}\n3< {{}}\n{pause}\n2< {answer.replace('3}', '5}')}"
        + LATE_BATCH.split("ADDED\n")[1].split('"base_offset": 5}]}]}\n', 1)[1]
    )


END_OF_LATE_BATCH = '{"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": false}'


def test_batch_acknowledged_after_the_end_of_its_transaction_is_hanging() -> None:
    [finding] = findings(late_response(), "T001")
    assert "a hanging transaction of transactional id 'pay-1' (producer 9001, epoch 0)" in finding.message
    assert "its latest one was aborted" in finding.message


def test_batch_acknowledged_just_after_the_end_of_its_transaction_may_be_part_of_it() -> None:
    [finding] = findings(late_response(pause="+50ms"), "T001")
    assert "hanging" not in finding.message


def test_finding_names_the_end_that_read_committed_cannot_reach() -> None:
    list_end = (
        '> ListOffsets v2 {"isolation_level": LEVEL, "topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}\n'
        + ('< {"topics": [{"name": "t", "partitions": [{"offset": 9}]}]}\n')
    )
    [finding] = findings(list_end.replace("LEVEL", "0") + BLOCKED_FETCHES, "T001")
    assert (
        "ListOffsets with isolation_level 0 told the client that the end is 9, which it cannot reach" in finding.message
    )
    assert finding.hint is not None
    assert "it must use isolation_level 1 in ListOffsets, too" in finding.hint
    [finding] = findings(list_end.replace("LEVEL", "1") + BLOCKED_FETCHES, "T001")
    assert "ListOffsets" not in finding.message + (finding.hint or "")


def test_batch_of_the_next_transaction_is_not_hanging() -> None:
    [finding] = findings(LATE_BATCH.replace("ADDED\n", SECOND_BEGIN.lstrip()), "T001")
    assert "hanging" not in finding.message


def test_refused_batch_is_not_hanging() -> None:
    refused = '{"error_code": 47, "base_offset": 5}'
    [finding] = findings(LATE_BATCH.replace("ADDED\n", "").replace('{"base_offset": 5}', refused), "T001")
    assert "hanging" not in finding.message


def test_first_batch_of_a_partition_may_be_hanging() -> None:
    story = LATE_BATCH.replace("ADDED\n", "").replace('"name": "t", "partition_data"', '"name": "u", "partition_data"')
    story = story.replace(
        '[{"name": "t", "partition_responses": [{"base', '[{"name": "u", "partition_responses": [{"base'
    )
    story = story.replace('"topic": "t"', '"topic": "u"').replace('"base_sequence": 1', '"base_sequence": 0')
    before_produce, _, from_produce = story.partition("2> Produce v7")
    [finding] = findings(before_produce + "2> EndTxn" + from_produce.partition("2> EndTxn")[2], "T001")
    assert "a hanging transaction" in finding.message


COMMIT_OFFSETS = """
2> as pay AddOffsetsToTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "group_id": "g"}
2< {}
2> as pay TxnOffsetCommit v2 {"transactional_id": "pay-1", "group_id": "g", "producer_id": 9001, "producer_epoch": 0,
   "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]}
2< {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
"""
ABORT = COMMIT.replace("true", "false")


def fetch_offsets(group: str = "g", *, error: int = 88) -> str:
    return f"""
> OffsetFetch v8 {{"groups": [{{"group_id": "{group}", "topics": [{{"name": "t", "partition_indexes": [0]}}]}}],
  "require_stable": true}}
< {{"groups": [{{"group_id": "{group}", "topics": [{{"name": "t", "partitions": [{{"error_code": {error}}}]}}]}}]}}
"""


@pytest.mark.parametrize(("end", "outcome"), [(COMMIT, "committed"), (ABORT, "aborted"), (INIT, "aborted")])
def test_offsets_that_stay_unstable_are_blamed_on_the_broker(end: str, outcome: str) -> None:
    [finding] = findings(f"{INIT}{COMMIT_OFFSETS}{end}+6s\n{fetch_offsets()}", "T008")
    assert finding.message == (
        "offsets of group 'g' are unstable (UNSTABLE_OFFSET_COMMIT), but no observed transaction with its offsets is"
        f" open: the latest, of transactional id 'pay-1' (producer 9001, epoch 0), was {outcome} 6 s ago"
    )


@pytest.mark.parametrize(
    "story",
    [
        f"{INIT}{COMMIT_OFFSETS}{COMMIT}+4s\n{fetch_offsets()}",
        f"{INIT}{COMMIT_OFFSETS}{COMMIT}{COMMIT_OFFSETS}+6s\n{fetch_offsets()}",
        f"{INIT}{COMMIT_OFFSETS}{COMMIT}+6s\n{fetch_offsets('other')}",
        f"{INIT}{COMMIT_OFFSETS}{COMMIT}+6s\n{fetch_offsets(error=16)}",
        f"{INIT}{COMMIT_OFFSETS}{COMMIT}2 lose > 100\n+6s\n{fetch_offsets()}",  # perhaps another transaction
    ],
)
def test_offsets_that_may_be_unstable_are_not_reported(story: str) -> None:
    assert findings(story, "T008") == []
