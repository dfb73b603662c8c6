"""S061 to S067 and V019: cases that the stories on their pages do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors.records import encode
from dissectors.trackers.repetitions import MAX_GAP
from tests.kproxy.stories import StoryPlayer, findings


def fetch_profiles(
    offset: int, *batches: dict[str, Any], request_fields: dict[str, Any] | None = None, **partition_fields: Any
) -> str:
    request = {"topics": [{"topic": "profiles", "partitions": [{"fetch_offset": offset}]}]} | (request_fields or {})
    partition = {"high_watermark": 5000, "last_stable_offset": 5000, "records": list(batches)} | partition_fields
    response = {"responses": [{"topic": "profiles", "partitions": [partition]}]}
    return f"> Fetch v11 {json.dumps(request)}\n< {json.dumps(response)}\n+300ms\n"


def batch(base: int, last_delta: int, *values: str, **header: Any) -> dict[str, Any]:
    records = [{"value": value} for value in values]
    return {"base_offset": base, "last_offset_delta": last_delta, "records": records} | header


COMPACTED_TAIL = fetch_profiles(103, batch(96, 12, "a", "b"))


def test_message_names_the_next_offset_for_a_consumer_stuck_at_a_compacted_tail() -> None:
    assert not findings(4 * COMPACTED_TAIL, "S061")
    [finding] = findings(9 * COMPACTED_TAIL, "S061")
    assert finding.message == (
        "6 fetches of profiles[0] at 103 got the batch 96..108 (base_offset + last_offset_delta), whose last record is "
        "97: the client must continue at 109"
    )
    assert finding.path == "responses[0].partitions[0].records"
    assert not findings(9 * COMPACTED_TAIL, "S062")


def test_consumer_that_gets_stuck_late_is_reported() -> None:
    story = (
        "".join(fetch_profiles(offset, batch(offset, 0, str(offset))) for offset in range(100)) + 30 * COMPACTED_TAIL
    )
    [finding] = findings(story, "S061")
    assert "whose last record is 97" in finding.message


def test_consumer_stuck_at_an_emptied_batch_is_reported() -> None:
    [finding] = findings(6 * fetch_profiles(103, batch(96, 12)), "S061")
    assert "got the batch 96..108 (base_offset + last_offset_delta), which is empty" in finding.message


def test_stuck_consumer_continues_after_the_last_of_several_batches() -> None:
    [finding] = findings(6 * fetch_profiles(103, batch(96, 12, "a"), batch(109, 3)), "S061")
    assert finding.message.endswith("the client must continue at 113")


@pytest.mark.parametrize(("isolation_level", "code"), [(1, "S061"), (0, None)])
def test_aborted_records_count_as_progress_only_for_read_uncommitted(isolation_level: int, code: str | None) -> None:
    story = 7 * fetch_profiles(
        96,
        batch(96, 1, "a", "b", is_transactional=True, producer_id=9, producer_epoch=0, base_sequence=0),
        request_fields={"isolation_level": isolation_level},
        aborted_transactions=[{"producer_id": 9, "first_offset": 96}],
    )
    assert [finding.code for finding in findings(story) if finding.code in ("S061", "S062")] == ([code] if code else [])


def test_consumer_that_moves_inside_a_batch_makes_progress() -> None:
    # When an application pauses a partition, librdkafka drops the fetched records and fetches again from its position.
    values = [str(number) for number in range(30)]
    story = "".join(fetch_profiles(offset, batch(96, 29, *values)) for offset in range(96, 126))
    assert not {"S061", "S062"} & {finding.code for finding in findings(story)}


def test_rarely_repeated_batch_is_not_a_loop() -> None:
    assert not findings(7 * (COMPACTED_TAIL + "+11s\n"), "S061")


def test_follower_fetches_are_not_judged() -> None:
    assert not findings(9 * fetch_profiles(103, batch(96, 12, "a", "b"), request_fields={"replica_id": 2}), "S061")


def test_corrupt_records_have_their_own_finding() -> None:
    data = bytearray(encode([{"base_offset": 96, "last_offset_delta": 12, "records": [{"value": b"a"}]}]))
    data[61] = 0x7E  # the length of the record
    codes = {finding.code for finding in findings(20 * fetch_profiles(103, records=data.hex()))}
    assert "R001" in codes
    assert not codes & {"S061", "S062"}


def test_repeated_fetch_of_a_record_is_reported_only_after_many_repeats() -> None:
    story = fetch_profiles(96, batch(96, 1, "a", "b"))
    assert not findings(14 * story, "S062")
    [finding] = findings(20 * story, "S062")
    assert "fetches of profiles[0] at 96 within" in finding.message
    assert "up to offset 97: the consumer does not move on" in finding.message
    fetch_with_error = fetch_profiles(96, batch(96, 1, "a", "b"), error_code=3)
    assert not findings(20 * fetch_with_error, "S062"), "a consumer does not use records that come with an error"


def refused_epoch(epoch: int = 11, code: int = 74, api: str = "OffsetForLeaderEpoch v2") -> str:
    list_name = "responses" if api.startswith("Fetch") else "topics"
    index_name = "partition_index" if api.startswith("Fetch") else "partition"
    request = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": epoch}]}]}
    response = {list_name: [{"topic": "t", "partitions": [{index_name: 0, "error_code": code}]}]}
    return f"> {api} {json.dumps(request)}\n< {json.dumps(response)}\n+300ms\n"


def metadata(epoch: int) -> str:
    return (
        '> Metadata v9 {"topics": [{"name": "t"}]}\n'
        '< {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],'
        f' "topics": [{{"name": "t", "partitions": [{{"leader_id": 1, "leader_epoch": {epoch}}}]}}]}}\n'
    )


def test_client_with_an_epoch_replaced_by_metadata_is_blamed() -> None:
    [finding] = findings(metadata(12) + 9 * refused_epoch(), "S063")
    assert "OffsetForLeaderEpoch requests of app with current_leader_epoch 11 for t[0] got FENCED_LEADER_EPOCH" in (
        finding.message
    )
    assert finding.message.endswith("although Metadata gave it leader epoch 12")
    assert finding.blame == "client"


def test_cluster_is_blamed_if_metadata_repeats_the_refused_epoch() -> None:
    story = metadata(11) + 4 * (refused_epoch(api="Fetch v11") + metadata(11))
    assert not findings(story + 4 * refused_epoch(api="Fetch v11"), "S063"), "it may still learn of an election"
    [finding] = findings(story + 14 * refused_epoch(api="Fetch v11"), "S063")
    assert "Metadata still gives leader epoch 11: the cluster contradicts itself" in finding.message
    assert finding.blame == "broker"


def test_older_epoch_in_metadata_does_not_help_the_client() -> None:
    [finding] = findings(metadata(9) + 9 * refused_epoch(11), "S063")
    assert "although Metadata" not in finding.message


def test_client_that_requests_no_newer_epoch_is_reported() -> None:
    [finding] = findings(6 * refused_epoch(), "S063")
    assert finding.message.endswith("and the client did not request Metadata for a newer epoch")


def test_election_may_take_a_moment() -> None:
    assert not findings(metadata(11) + 4 * refused_epoch() + metadata(12) + 3 * refused_epoch(12, code=0), "S063")


def test_requests_sent_before_the_new_epoch_was_known_are_excused() -> None:
    request = '> OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [{"current_leader_epoch": 11}]}]}\n'
    fenced = '< {"topics": [{"topic": "t", "partitions": [{"error_code": 74}]}]}\n'
    other_connection = "open 2 client=10.0.0.101:50999\n" + metadata(12).replace(">", "2>").replace("<", "2<")
    assert not findings(3 * request + other_connection + 3 * fenced, "S063")
    assert findings(3 * request + other_connection + 3 * fenced + request + fenced, "S063")


def join_with_epoch(epoch: int, code: int) -> str:
    request = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
    return f'> ConsumerGroupHeartbeat v1 {json.dumps(request)}\n< {{"error_code": {code}, "member_id": "m"}}\n+500ms\n'


def test_broker_that_fences_joins_is_blamed() -> None:
    [finding] = findings(12 * join_with_epoch(0, 110), "S064")
    assert finding.blame == "broker"
    assert "(ConsumerGroupHeartbeat with member_epoch 0) were refused with FENCED_MEMBER_EPOCH" in finding.message
    assert "the broker must accept epoch 0" in finding.message


@pytest.mark.parametrize("code", [0, 41, 79])  # none, INVALID_REQUEST, another error of a join
def test_other_responses_to_a_join_are_not_fencing(code: int) -> None:
    assert not findings(5 * join_with_epoch(0, code), "S064")


def test_fenced_member_that_does_not_rejoin_is_left_to_another_rule() -> None:
    assert not findings(5 * join_with_epoch(5, 110), "S064")


def test_missing_topic_is_reported_with_a_similar_name() -> None:
    metadata = (
        '> Metadata v12 {"topics": [{"name": "orders"}]}\n'
        '< {"topics": [{"name": "orders", "topic_id": "iQ2TY3LnUY29Lbs4b27PzA"}]}\n'
    )
    lookup = (
        '> Metadata v8 {"topics": [{"name": "ordres"}]}\n< {"topics": [{"name": "ordres", "error_code": 3}]}\n+2s\n'
    )
    [finding] = findings(metadata + 5 * lookup, "S066")
    assert finding.message.startswith("topic 'ordres' does not exist: Metadata answered app so 5 times")
    assert finding.hint is not None
    assert "did you mean 'orders'?" in finding.hint


def test_occasional_lookup_of_a_missing_topic_is_polling() -> None:
    lookup = '> Metadata v8 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 3}]}\n+1m\n'
    assert not findings(9 * lookup, "S066")


OFFSETS = (
    '> OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}\n'
    '< {"topics": [{"name": "t", "partitions": [{"committed_offset": %d}]}]}\n'
)
HEARTBEAT = '> Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}\n< {}\n'


def test_repeated_request_is_reported_with_its_group() -> None:
    [finding] = findings(30 * (OFFSETS % -1 + "+300ms\n"), "S067")
    assert finding.message.startswith("app sent the same OffsetFetch v5 for group 'g' 20 times within 5.74 s and got")


@pytest.mark.parametrize(
    "story",
    [
        30 * (OFFSETS % -1 + f"+{MAX_GAP // 1_000_000 + 1}ms\n"),  # a poller
        30 * (OFFSETS % -1 + HEARTBEAT + "+300ms\n"),  # the client does other work
        "".join(OFFSETS % offset + "+300ms\n" for offset in range(30)),  # the answer changes
        19 * (OFFSETS % -1 + "+300ms\n"),
    ],
)
def test_polling_is_not_a_loop(story: str) -> None:
    assert not findings(story, "S067")


def heartbeat(epoch: int, owned: str, assigned: str = "null", code: int = 0) -> str:
    topic = '[{"topic_id": "iQ2TY3LnUY29Lbs4b27PzA", "partitions": %s}]'
    reported = "null" if owned == "null" else topic % owned
    assignment = "null" if assigned == "null" else f'{{"topic_partitions": {topic % assigned}}}'
    return (
        f'> ConsumerGroupHeartbeat v1 {{"group_id": "g", "member_id": "m", "member_epoch": {epoch}, '
        f'"rebalance_timeout_ms": {20000 if epoch == 0 else -1}, "topic_partitions": {reported}}}\n'
        f'< {{"error_code": {code}, "member_id": "m", "member_epoch": {epoch or 1}, "assignment": {assignment}}}\n+5s\n'
    )


REVOKED = heartbeat(0, "[]", "[0, 1]") + heartbeat(1, "[0, 1]", "[0]")


def test_member_fenced_for_an_unconfirmed_revocation_is_reported() -> None:
    assert not findings(REVOKED + 2 * heartbeat(1, "null"), "S077")
    [finding] = findings(REVOKED + heartbeat(1, "null") + heartbeat(1, "null", code=110), "S077")
    assert finding.severity == "error"
    assert "did not confirm it in 2 heartbeats within 10 s and was fenced" in finding.message


@pytest.mark.parametrize(
    "story",
    [
        REVOKED + heartbeat(1, "[0]") + 9 * heartbeat(2, "null"),
        REVOKED + "lose > 100\n" + 9 * heartbeat(2, "null"),
        REVOKED + heartbeat(-1, "null") + 9 * heartbeat(2, "null"),
        heartbeat(0, "[]", "[0, 1]") + 9 * heartbeat(1, "null"),
        heartbeat(0, "[]", "[0]") + heartbeat(1, "[0]", "[0, 1]") + 9 * heartbeat(1, "null"),
    ],
)
def test_member_with_nothing_to_confirm_is_not_reported(story: str) -> None:
    assert not findings(story, "S077")


REFUSED = (
    '> ApiVersions v4 {"client_software_name": "kgo", "client_software_version": "1.19"}\n'
    '< as ApiVersions v0 {"error_code": 35, "api_keys": [%s]}\n'
)


def test_refused_apiversions_names_the_version_to_retry_with() -> None:
    story = 14 * (REFUSED % '{"api_key": 18, "max_version": 3}' + "close by=client how=fin\n+500ms\n")
    [finding] = findings(story, "V019")
    assert finding.message == (
        "10.0.0.1:9092 refuses ApiVersions v4 and serves v0-v3: kgo 1.19 must repeat ApiVersions with v3, but closed "
        "the connection instead, 3 times"
    )
    assert not findings(story, "C017")  # this is why it reconnects


def test_refusal_of_an_old_broker_suggests_version_0() -> None:
    [finding] = findings(3 * (REFUSED % "" + "close by=client how=fin\n"), "V019")
    assert "must repeat ApiVersions with v0" in finding.message


def test_client_that_repeats_apiversions_is_not_reported() -> None:
    repetition = '> ApiVersions v3 {"client_software_name": "kgo", "client_software_version": "1.19"}\n'
    assert not findings(5 * (REFUSED % "" + repetition + "close by=client how=fin\n"), "V019")


def session_fetch(epoch: int, requested: list[int], answered_offsets: dict[int, int]) -> str:
    """Return a fetch in session 7 that names some partitions; each answered partition has a batch at an offset."""
    request_partitions = [
        {"partition": partition, "fetch_offset": 40 if partition else 40 + epoch} for partition in requested
    ]
    response_partitions = [
        {"partition_index": partition, "high_watermark": 900, "records": [{"base_offset": base, "records": [{}]}]}
        for partition, base in answered_offsets.items()
    ]
    return (
        f'> Fetch v11 {{"session_id": {7 if epoch else 0}, "session_epoch": {epoch}, '
        f'"topics": [{{"topic": "t", "partitions": {json.dumps(request_partitions)}}}]}}\n'
        f'< {{"session_id": 7, "responses": [{{"topic": "t", "partitions": {json.dumps(response_partitions)}}}]}}\n'
        "+500ms\n"
    )


def test_partition_left_in_a_fetch_session_is_explained() -> None:
    def story(named: list[int]) -> str:
        opening = session_fetch(0, [0, 1], {0: 40, 1: 40})
        return opening + "".join(session_fetch(epoch, named, {0: 40 + epoch, 1: 40}) for epoch in range(1, 20))

    [finding] = findings(story([0]), "S062")
    assert "t[1]" in finding.message
    assert finding.message.endswith("still in the fetch session, although the client does not ask for it")
    assert "forgotten_topics_data" in (finding.hint or "")
    [stuck] = findings(story([0, 1]), "S062")
    assert stuck.message.endswith("the consumer does not move on")


@pytest.mark.parametrize(
    ("code", "offset", "hint"),
    [
        (113, 900, "repeat OffsetFetch with the member_epoch of its last heartbeat response"),
        (25, 900, "repeat OffsetFetch; only"),
        (113, 310, None),  # the client may know this offset from elsewhere
        (0, 900, None),
    ],
)
def test_refused_offset_lookup_is_not_taken_for_an_empty_one(code: int, offset: int, hint: str | None) -> None:
    list_offsets = (
        '> ListOffsets v4 {"topics": [{"name": "t", "partitions": [{"timestamp": -1}]}]}\n'
        '< {"topics": [{"name": "t", "partitions": [{"offset": 900}]}]}\n'
    )
    lookup = '> OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}\n'
    refused_lookup = lookup + f'< {{"topics": [{{"name": "t", "partitions": [{{"error_code": {code}}}]}}]}}\n'
    refused_group = lookup + f'< {{"error_code": {code}, "topics": []}}\n'
    fetch = f'> Fetch v12 {{"topics": [{{"topic": "t", "partitions": [{{"fetch_offset": {offset}}}]}}]}}\n'
    for story in (list_offsets + refused_lookup + fetch, list_offsets + refused_group + fetch):
        reported = findings(story, "S087")
        assert len(reported) == (hint is not None)
        assert all(hint in (finding.hint or "") for finding in reported if hint)
    assert not findings(refused_lookup + fetch, "S087")
    assert not findings(list_offsets + refused_lookup + "+31s\n" + fetch, "S087")
    other_client = fetch.replace("> ", "> as other ")
    assert not findings(list_offsets + refused_lookup + other_client, "S087")


def test_fetches_are_observed_only_for_a_while_after_a_refused_lookup() -> None:
    player = StoryPlayer()
    run = player.inspector._inspection.run_state
    lookup = '> OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}\n'
    player.play(lookup + '< {"topics": [{"name": "t", "partitions": [{"error_code": 113}]}]}\n')
    assert "S087" in run.subscribed
    player.play('+31s\n> Fetch v12 {"topics": [{"topic": "u", "partitions": [{"fetch_offset": 1}]}]}\n')
    assert "S087" not in run.subscribed


@pytest.mark.parametrize(
    ("name", "limit_s"), [("words-counts-repartition", 16), ("words-counts-changelog", 16), ("w", 6)]
)
def test_internal_streams_topics_get_more_time_to_be_created(name: str, limit_s: int) -> None:
    request = f'> Metadata v8 {{"topics": [{{"name": "{name}"}}]}}\n'
    missing = f'{request}< {{"topics": [{{"name": "{name}", "error_code": 3}}]}}\n+1s\n'
    assert not findings(missing * (limit_s - 1), "S066")
    assert findings(missing * limit_s, "S066")
