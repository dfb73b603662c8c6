"""Lost commits (S093), old subscriptions (S094) and epochs (S095), double claims (S096), ends of epochs (S097)."""

from __future__ import annotations

import textwrap

import pytest

from tests.kproxy.stories import findings

EPOCH_5 = """
> OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [{"current_leader_epoch": 5, "leader_epoch": 5}]}]}
< {"topics": [{"topic": "t", "partitions": [{"leader_epoch": 5, "end_offset": 40}]}]}
"""
FETCHED = """
> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 50, "records": [
  {"base_offset": 40, "partition_leader_epoch": 5, "timestamp_type": "%s", "max_timestamp": %d,
   "base_timestamp": %d, "records": [{"value": "a"}]}]}]}]}
"""
NOW_MS = 1_767_225_600_000


@pytest.mark.parametrize(
    ("kind", "age_ms", "is_found"),
    [("LogAppendTime", 5000, True), ("LogAppendTime", 500, False), ("CreateTime", 5000, False)],
)
def test_epoch_end_is_contradicted_only_by_records_appended_earlier(kind: str, age_ms: int, is_found: bool) -> None:
    timestamp = NOW_MS - age_ms
    story = EPOCH_5 + FETCHED % (kind, timestamp, timestamp)
    assert bool(findings(story, "S097")) is is_found


COMMITTED = """
> OffsetCommit v7 {"group_id": "g", "topics": [{"name": "t", "partitions": [{"committed_offset": 5}]}]}
< {"topics": [{"name": "t", "partitions": [{}]}]}
"""
NOTHING_COMMITTED = """
> OffsetFetch v5 {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
< {"topics": [{"name": "t", "partitions": [{"committed_offset": -1}]}]}
"""


@pytest.mark.parametrize(
    ("between", "is_found"),
    [
        ("+50m\n", True),
        ("+61m\n", False),
        ('> DeleteTopics v6 {"topics": [{"name": "t"}]}\n< {"responses": [{"name": "t"}]}\n', False),
        ('> DeleteTopics v6 {"topics": [{"name": "u"}]}\n< {"responses": [{"name": "u"}]}\n', True),
        ('> DeleteGroups v2 {"groups_names": ["g"]}\n< {"results": [{"group_id": "g"}]}\n', False),
    ],
)
def test_missing_commit_is_reported_unless_it_may_have_expired_or_been_deleted(between: str, is_found: bool) -> None:
    assert bool(findings(COMMITTED + between + NOTHING_COMMITTED, "S093")) is is_found


def test_fencing_of_a_member_is_explained_by_its_old_epoch() -> None:
    def heartbeat(epoch: int, response: str) -> str:
        request = f'{{"group_id": "g", "member_id": "m", "member_epoch": {epoch}}}'
        return f"> ConsumerGroupHeartbeat v0 {request}\n< {response}\n+1s\n"

    story = heartbeat(0, '{"member_id": "m", "member_epoch": 7}') + 4 * heartbeat(5, '{"error_code": 110}')
    [finding] = findings(story, "S095")
    assert (finding.expected, finding.got) == ("7", "5")


@pytest.mark.parametrize(("end", "replica", "is_found"), [(49, -1, True), (50, -1, False), (49, 2, False)])
def test_epoch_end_is_compared_with_an_earlier_high_watermark(end: int, replica: int, is_found: bool) -> None:
    def epoch_lookup(end_offset: int) -> str:
        return (
            f'> OffsetForLeaderEpoch v3 {{"replica_id": {replica}, "topics": [{{"topic": "t", "partitions": '
            '[{"current_leader_epoch": 5, "leader_epoch": 5}]}]}\n'
            f'< {{"topics": [{{"topic": "t", "partitions": [{{"leader_epoch": 5, "end_offset": {end_offset}}}]}}]}}\n'
        )

    fetched = (
        '> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 50}]}]}\n'
        '< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 50, "records": ""}]}]}\n'
    )
    assert bool(findings(epoch_lookup(50) + fetched + epoch_lookup(end), "S097")) is is_found


def heartbeat(member: str, epoch: int, response: str = "", *, owned: list[int] | None = None) -> tuple[str, str]:
    """Return a heartbeat of KIP-848 and its response, which by default accepts the epoch."""
    owned_field = ""
    if owned is not None:
        owned_field = f', "topic_partitions": [{{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": {owned}}}]'
    connection = 1 if member == "a" else 2
    request = (
        f'{connection}> ConsumerGroupHeartbeat v0 {{"group_id": "g", "member_id": "{member}", "member_epoch": {epoch}'
    )
    response = response or f'{{"member_id": "{member}", "member_epoch": {epoch}}}'
    return f"{request}{owned_field}}}\n", f"{connection}< {response}\n"


A_OWNS, B_OWNS = "".join(heartbeat("a", 4, owned=[0])), "".join(heartbeat("b", 4, owned=[0]))
A_ASKS, A_GETS = heartbeat("a", 4)
FENCED = "".join(heartbeat("a", 4, '{"error_code": 110}'))
A_REJOINS = "".join(heartbeat("a", 0, '{"member_id": "a", "member_epoch": 4}'))


@pytest.mark.parametrize(
    ("story", "is_found"),
    [
        (A_OWNS + B_OWNS + A_ASKS + A_GETS, True),
        (A_OWNS + A_ASKS + B_OWNS + A_GETS, False),  # the request was already in flight
        (A_OWNS + B_OWNS + "".join(heartbeat("a", 4, owned=[])) + A_ASKS + A_GETS, False),
        (A_OWNS + B_OWNS + FENCED + A_REJOINS + A_ASKS + A_GETS,
         False),
        (A_OWNS + FENCED + B_OWNS + A_REJOINS + A_ASKS + A_GETS,
         False),
    ],
)  # fmt: skip
def test_claimed_partition_counts_only_while_the_coordinator_accepts_it(story: str, is_found: bool) -> None:
    assert bool(findings(story, "S096")) is is_found


@pytest.mark.parametrize(("generation", "is_reported"), [(5, True), (-1, False)])
def test_claims_are_compared_only_if_they_have_a_generation(generation: int, is_reported: bool) -> None:
    def member_entry(member: str) -> str:
        data = (
            f'"topics": ["t"], "owned_partitions": [{{"topic": "t", "partitions": [1]}}], "generation_id": {generation}'
        )
        metadata = f'{{"type": "ConsumerProtocolSubscription", "version": 2, "data": {{{data}}}}}'
        return f'{{"member_id": "{member}", "metadata": {metadata}}}'

    story = (
        '> JoinGroup v7 {"group_id": "g", "member_id": "a", "protocol_type": "consumer"}\n'
        '< {"generation_id": 6, "leader": "a", "member_id": "a", "protocol_type": "consumer", '
        f'"members": [{member_entry("a")}, {member_entry("b")}]}}\n'
    )
    assert bool(findings(story, "S096")) is is_reported


def test_refused_subscription_request_does_not_replace_the_subscription() -> None:
    instance_field = '"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"'
    story = f"""
    > GetTelemetrySubscriptions v0 {{{instance_field}}}
    < {{{instance_field}, "subscription_id": 11}}
    > GetTelemetrySubscriptions v0 {{{instance_field}}}
    < {{"error_code": 89, {instance_field}, "subscription_id": 0}}
    > PushTelemetry v0 {{{instance_field}, "subscription_id": 11}}
    """
    assert not findings(textwrap.dedent(story), "S094")


def test_only_consecutive_heartbeats_with_an_old_epoch_count() -> None:
    def heartbeats(*epochs: int) -> str:
        return "".join("".join(heartbeat("a", epoch, '{"member_id": "a", "member_epoch": 7}')) for epoch in epochs)

    assert findings(heartbeats(7, 5, 5, 5), "S095")
    assert not findings(heartbeats(7, 5, 5, 7, 5, 5, 7), "S095")
    assert not findings(heartbeats(7, 0, 0, 0, 0), "S095")


def test_refusals_explained_by_s095_are_not_reported_twice() -> None:
    refusals = 8 * ("".join(heartbeat("a", 5, '{"error_code": 110}')) + "+1s\n")
    assert {finding.code for finding in findings(refusals)} & {"E001", "E002"}
    with_epoch = "".join(heartbeat("a", 0, '{"member_id": "a", "member_epoch": 7}')) + refusals
    assert "S095" in {finding.code for finding in findings(with_epoch)}
    assert not {finding.code for finding in findings(with_epoch)} & {"E001", "E002"}
