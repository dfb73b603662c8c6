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
def test_records_of_the_newest_epoch_count_only_if_the_broker_appended_them_before(
    kind: str, age_ms: int, is_found: bool
) -> None:
    at = NOW_MS - age_ms
    story = EPOCH_5 + FETCHED % (kind, at, at)
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
def test_a_commit_is_lost_unless_it_may_have_expired_or_been_deleted(between: str, is_found: bool) -> None:
    assert bool(findings(COMMITTED + between + NOTHING_COMMITTED, "S093")) is is_found


def test_a_fenced_member_with_an_old_epoch_is_explained_by_its_epoch() -> None:
    def beat(epoch: int, answer: str) -> str:
        asked = f'{{"group_id": "g", "member_id": "m", "member_epoch": {epoch}}}'
        return f"> ConsumerGroupHeartbeat v0 {asked}\n< {answer}\n+1s\n"

    story = beat(0, '{"member_id": "m", "member_epoch": 7}') + 4 * beat(5, '{"error_code": 110}')
    [finding] = findings(story, "S095")
    assert (finding.expected, finding.got) == ("7", "5")


@pytest.mark.parametrize(("end", "replica", "is_found"), [(49, -1, True), (50, -1, False), (49, 2, False)])
def test_the_end_of_the_newest_epoch_is_compared_with_a_high_watermark_before(
    end: int, replica: int, is_found: bool
) -> None:
    def ask(end_offset: int) -> str:
        return (
            f'> OffsetForLeaderEpoch v3 {{"replica_id": {replica}, "topics": [{{"topic": "t", "partitions": '
            '[{"current_leader_epoch": 5, "leader_epoch": 5}]}]}\n'
            f'< {{"topics": [{{"topic": "t", "partitions": [{{"leader_epoch": 5, "end_offset": {end_offset}}}]}}]}}\n'
        )

    fetched = (
        '> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 50}]}]}\n'
        '< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 50, "records": ""}]}]}\n'
    )
    assert bool(findings(ask(50) + fetched + ask(end), "S097")) is is_found


def beat(member: str, epoch: int, answer: str = "", *, owned: list[int] | None = None) -> tuple[str, str]:
    """A heartbeat of KIP-848 and its response, which is that the epoch is accepted by default."""
    owns = ""
    if owned is not None:
        owns = f', "topic_partitions": [{{"topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": {owned}}}]'
    number = 1 if member == "a" else 2
    asked = f'{number}> ConsumerGroupHeartbeat v0 {{"group_id": "g", "member_id": "{member}", "member_epoch": {epoch}'
    answer = answer or f'{{"member_id": "{member}", "member_epoch": {epoch}}}'
    return f"{asked}{owns}}}\n", f"{number}< {answer}\n"


A_OWNS, B_OWNS = "".join(beat("a", 4, owned=[0])), "".join(beat("b", 4, owned=[0]))
A_ASKS, A_GETS = beat("a", 4)
FENCED = "".join(beat("a", 4, '{"error_code": 110}'))


@pytest.mark.parametrize(
    ("story", "is_found"),
    [
        (A_OWNS + B_OWNS + A_ASKS + A_GETS, True),
        (A_OWNS + A_ASKS + B_OWNS + A_GETS, False),  # it was on its way
        (A_OWNS + B_OWNS + "".join(beat("a", 4, owned=[])) + A_ASKS + A_GETS, False),
        (A_OWNS + B_OWNS + FENCED + "".join(beat("a", 0, '{"member_id": "a", "member_epoch": 4}')) + A_ASKS + A_GETS,
         False),
        (A_OWNS + FENCED + B_OWNS + "".join(beat("a", 0, '{"member_id": "a", "member_epoch": 4}')) + A_ASKS + A_GETS,
         False),
    ],
)  # fmt: skip
def test_a_claim_counts_only_while_the_coordinator_accepts_it(story: str, is_found: bool) -> None:
    assert bool(findings(story, "S096")) is is_found


@pytest.mark.parametrize(("generation", "is_found"), [(5, True), (-1, False)])
def test_claims_without_a_generation_do_not_count(generation: int, is_found: bool) -> None:
    def claims(member: str) -> str:
        data = (
            f'"topics": ["t"], "owned_partitions": [{{"topic": "t", "partitions": [1]}}], "generation_id": {generation}'
        )
        metadata = f'{{"type": "ConsumerProtocolSubscription", "version": 2, "data": {{{data}}}}}'
        return f'{{"member_id": "{member}", "metadata": {metadata}}}'

    story = (
        '> JoinGroup v7 {"group_id": "g", "member_id": "a", "protocol_type": "consumer"}\n'
        '< {"generation_id": 6, "leader": "a", "member_id": "a", "protocol_type": "consumer", '
        f'"members": [{claims("a")}, {claims("b")}]}}\n'
    )
    assert bool(findings(story, "S096")) is is_found


def test_an_error_gives_no_subscription() -> None:
    instance = '"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"'
    story = f"""
    > GetTelemetrySubscriptions v0 {{{instance}}}
    < {{{instance}, "subscription_id": 11}}
    > GetTelemetrySubscriptions v0 {{{instance}}}
    < {{"error_code": 89, {instance}, "subscription_id": 0}}
    > PushTelemetry v0 {{{instance}, "subscription_id": 11}}
    """
    assert not findings(textwrap.dedent(story), "S094")


def test_heartbeats_with_an_old_epoch_count_only_in_a_row_and_joins_do_not() -> None:
    def beats(*epochs: int) -> str:
        return "".join("".join(beat("a", epoch, '{"member_id": "a", "member_epoch": 7}')) for epoch in epochs)

    assert findings(beats(7, 5, 5, 5), "S095")
    assert not findings(beats(7, 5, 5, 7, 5, 5, 7), "S095")
    assert not findings(beats(7, 0, 0, 0, 0), "S095")


def test_what_s095_explains_is_not_reported_as_a_refusal() -> None:
    refused = 8 * ("".join(beat("a", 5, '{"error_code": 110}')) + "+1s\n")
    assert {finding.code for finding in findings(refused)} & {"E001", "E002"}
    explained = "".join(beat("a", 0, '{"member_id": "a", "member_epoch": 7}')) + refused
    assert "S095" in {finding.code for finding in findings(explained)}
    assert not {finding.code for finding in findings(explained)} & {"E001", "E002"}
