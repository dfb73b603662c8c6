"""The checks pass at the built-in broker of each release, and exactly the right ones fail at a broken one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.probe.check import Check, CheckFailed, CheckResult, checks
from kproxy.probe.run import run_checks
from kproxy.probe.target import Target
from kproxy.proxy.address import parse_upstream


async def results(
    broker: BrokerThread, only: Sequence[str] = (), within: float = 10, *, writes: bool = True
) -> dict[str, CheckResult]:
    """The results by id; `only` are beginnings of ids."""
    target = Target(parse_upstream(broker.bootstrap.partition(",")[0]), within)
    await target.learn_versions()
    selected = [check for check in checks() if not only or check.id.startswith(tuple(only))]
    return {result.check.id: result async for result in run_checks(target, selected, writes=writes)}


def failures(found: dict[str, CheckResult]) -> dict[str, str]:
    return {name: result.sentence for name, result in found.items() if result.outcome == "fail"}


@pytest.mark.parametrize(("release", "least"), [("0.10.0", 70), ("1.1", 240), ("2.8", 600), ("4.4", 780)])
async def test_no_check_fails_at_a_right_broker(release: str, least: int) -> None:
    with BrokerThread(release=release, brokers=2) as broker:
        found = await results(broker)
    assert failures(found) == {}
    assert sum(check_result.outcome == "pass" for check_result in found.values()) >= least


async def test_without_write_nothing_is_created() -> None:
    with BrokerThread() as broker:
        found = await results(broker, writes=False)
        async with Target(parse_upstream(broker.bootstrap), 10).connection() as connection:
            target = Target(parse_upstream(broker.bootstrap), 10)
            await target.learn_versions()
            topics = await target.ask(connection, "Metadata", 9, topics=None)
            groups = await target.ask(connection, "ListGroups", 4)
    assert failures(found) == {}
    assert {check_result.sentence for name, check_result in found.items() if name.startswith("producers/")} == {
        "it writes: pass --write"
    }
    assert topics.body["topics"] == []
    assert groups.body["groups"] == []


async def test_what_is_written_is_deleted() -> None:
    with BrokerThread() as broker:
        await results(broker, ["records/", "cluster/"])
        target = Target(parse_upstream(broker.bootstrap), 10)
        await target.learn_versions()
        async with target.connection() as connection:
            answer = await target.ask(connection, "Metadata", 9, topics=None)
    assert [topic["name"] for topic in answer.body["topics"] if not topic["is_internal"]] == []


@pytest.mark.parametrize(
    ("quirk", "only", "failing"),
    [
        ("Metadata:9:moved:cluster_id:first", ["Metadata/"], {"Metadata/v9/2"}),
        ("ListGroups:4:drop", ["ListGroups/"], {"ListGroups/v4/1"}),
        ("ListGroups:2:close", ["ListGroups/"], {"ListGroups/v2/1"}),
        ("ListGroups:1:correlation_id:+1", ["ListGroups/"], {"ListGroups/v1/1"}),
        ("ListGroups:3:truncated:3", ["ListGroups/"], {"ListGroups/v3/2"}),
        ("ListGroups:3:trailing_bytes:3", ["ListGroups/"], {"ListGroups/v3/2"}),
        ("FindCoordinator:2:missing:throttle_time_ms", ["FindCoordinator/"], {"FindCoordinator/v2/2"}),
        ("Metadata:versions:9:3", ["ApiVersions/v3"], {"ApiVersions/v3/3"}),
        ("ApiVersions:0:versions:9:3", ["versions/"], {"versions/same-in-every-version"}),
        ("Metadata:versions:9:3", ["versions/"], {"versions/ranges"}),
        ("*:duplicate", ["framing/frames", "framing/pipe"], {"framing/frames-in-one-segment", "framing/pipelined"}),
        ("Produce:value:responses[].partition_responses[].base_offset:7", ["records/none", "producers/duplicate"],
         {"records/none", "producers/duplicate"}),
        ("Fetch:error:OFFSET_OUT_OF_RANGE", ["records/offset", "records/max-wait", "records/max-bytes"],
         {"records/max-wait", "records/max-bytes"}),
        ("ListOffsets:value:topics[].partitions[].offset:0", ["records/list-offsets"], {"records/list-offsets"}),
        ("Metadata:value:brokers[].port:0", ["cluster/brokers"], {"cluster/brokers"}),
        ("JoinGroup:error:NONE", ["groups/empty", "groups/member", "groups/two", "groups/other", "groups/session"],
         {"groups/empty-group-id", "groups/member-id-required", "groups/two-members", "groups/other-protocol",
          "groups/session-timeout"}),
        ("Heartbeat:error:NONE OffsetCommit:error:NONE DeleteGroups:error:NONE",
         ["groups/illegal", "groups/fenced", "groups/non-empty", "groups/delete"],
         {"groups/illegal-generation", "groups/fenced-commits", "groups/fenced-instance", "groups/non-empty",
          "groups/delete-unknown"}),
        ("SyncGroup:value:assignment:x", ["groups/two", "groups/committed"], {"groups/two-members"}),
        ("OffsetFetch:value:topics[].partitions[].metadata:other", ["groups/"], {"groups/committed-offsets"}),
        ("ConsumerGroupHeartbeat:value:assignment:null", ["groups/"], {"groups/consumer-protocol"}),
        ("Produce:error:MESSAGE_TOO_LARGE", ["limits/"], {"limits/longest-name", "limits/large-record"}),
        ("CreateTopics:error:TOPIC_AUTHORIZATION_FAILED", ["limits/invalid"], {"limits/invalid-name"}),
        ("DescribeGroups:value:groups[].group_id:other", ["limits/"], {"limits/text"}),
        ("Fetch:value:responses[].partitions[].last_stable_offset:4", ["producers/"], {"producers/transactions"}),
        ("AddPartitionsToTxn:value:results_by_topic_v3_and_below[].results_by_partition[].partition_error_code:0 "
         "InitProducerId:error:NONE Produce:6:error:NONE",
         ["producers/fenced", "producers/transaction-", "records/uns"],
         {"producers/fenced", "producers/transaction-timeout", "records/unsupported-compression"}),
        ("Fetch:13:value:responses[].topic_id:AAAAAAAAAAAAAAAAAAAAAQ", ["topic-ids/"],
         {"topic-ids/fetch", "topic-ids/fetch-unknown", "topic-ids/recreated"}),
        ("Metadata:11:value:topics[].topic_id:AAAAAAAAAAAAAAAAAAAAAQ Produce:13:error:NONE DeleteTopics:6:error:NONE",
         ["topic-ids/"], {"topic-ids/metadata", "topic-ids/produce", "topic-ids/delete"}),
        ("CreateTopics:error:NONE CreatePartitions:error:NONE DeleteTopics:error:NONE Metadata:error:NONE", ["topics/"],
         {"topics/exists", "topics/partitions", "topics/replication-factor", "topics/validate-only",
          "topics/more-partitions", "topics/delete-unknown"}),
        ("Fetch:value:error_code:0", ["fetch-sessions/"], {"fetch-sessions/unknown", "fetch-sessions/wrong-epoch"}),
        ("Fetch:value:session_id:7", ["fetch-sessions/"], {"fetch-sessions/incremental", "fetch-sessions/wrong-epoch"}),
        ("ListOffsets:8:value:topics[].partitions[].offset:0", ["offsets/"],
         {"offsets/earliest-and-latest", "offsets/max-timestamp"}),
        ("ListOffsets:9:value:topics[].partitions[].offset:7", ["offsets/e", "offsets/l"],
         {"offsets/earliest-and-latest", "offsets/earliest-local", "offsets/latest-tiered"}),
        ("ListOffsets:error:NONE", ["offsets/"], {"offsets/special-timestamp-too-early", "offsets/leader-epochs"}),
        ("ShareAcknowledge:error:NONE ShareGroupHeartbeat:error:NONE", ["shares/"],
         {"shares/fenced-members", "shares/not-acquired", "shares/session-epochs", "shares/first-acknowledge"}),
        ("ShareGroupHeartbeat:value:member_epoch:3", ["shares/members"], {"shares/members"}),
        ("ShareFetch:value:responses[].partitions[].acquired_records[].delivery_count:1", ["shares/"],
         {"shares/release", "shares/some", "shares/end-of-session"}),
        ("ShareFetch:value:responses[].partitions[].acquired_records[].delivery_count:2", ["shares/ac", "shares/rej"],
         {"shares/acquire", "shares/accept", "shares/reject"}),
        ("Heartbeat:4:moved:throttle_time_ms:last AlterClientQuotas:error:NONE", ["quotas/no", "quotas/validate"],
         {"quotas/no-throttle", "quotas/validate-only"}),
        ("DescribeClientQuotas:value:entries[].values[].value:1 Produce:value:throttle_time_ms:0 "
         "Fetch:value:throttle_time_ms:0", ["quotas/round", "quotas/p", "quotas/f"],
         {"quotas/round-trip", "quotas/produce", "quotas/fetch"}),
    ],
)  # fmt: skip
async def test_a_quirk_fails_exactly_its_checks(quirk: str, only: list[str], failing: set[str]) -> None:
    with BrokerThread(quirks=quirk.split()) as broker:
        found = await results(broker, only, within=4)
    assert set(failures(found)) == failing, failures(found)


@pytest.mark.parametrize(
    ("quirk", "failing"),
    [
        ("DescribeAcls:versions:1:3", set()),
        ("DescribeAcls:value:resources[].acls[].host:x", {"acls/round-trip", "acls/prefixed"}),
    ],
)
async def test_acls(quirk: str, failing: set[str]) -> None:
    with BrokerThread(quirks=[quirk], acls=True, super_users=("User:ANONYMOUS",)) as broker:
        found = await results(broker, ["acls/"], within=4)
    assert set(failures(found)) == failing, failures(found)
    assert len(found) == 3
    assert "skip" not in {check_result.outcome for check_result in found.values()}


async def test_a_broker_that_takes_an_unknown_resource_type_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.broker.apis.describe_acls.closes", lambda *_: False)
    with BrokerThread(acls=True, super_users=("User:ANONYMOUS",)) as broker:
        found = await results(broker, ["acls/unknown"])
    assert set(failures(found)) == {"acls/unknown-resource-type"}


async def test_a_request_to_another_broker_must_fail() -> None:
    with BrokerThread(brokers=2, quirks=["Fetch:error:NONE"]) as broker:
        found = await results(broker, ["offsets/not-leader"])
    assert set(failures(found)) == {"offsets/not-leader"}


async def test_the_first_failed_task_of_a_check_is_its_result() -> None:
    async def fail(_: Target) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(expect_nothing())

    async def expect_nothing() -> None:
        raise CheckFailed("the broker is wrong")

    target = Target(parse_upstream("localhost:1"), 1)
    [check_result] = [check async for check in run_checks(target, [Check("x", "x", "", ("",), fail)], writes=True)]
    assert (check_result.outcome, check_result.sentence) == ("fail", "the broker is wrong")


def test_ids_are_stable_and_unique() -> None:
    every: Sequence[Check] = checks()
    assert len({check.id for check in every}) == len(every)
    assert {"Metadata/v1/3", "framing/pipelined", "versions/ranges", "records/zstd", "groups/two-members"} <= {
        check.id for check in every
    }
    assert all(check.title and check.page and check.sources for check in every)


@pytest.mark.parametrize("notices", ["kills", "ListGroups/v1/2"])
async def test_a_broker_that_dies_ends_the_run(notices: str) -> None:
    """The check that killed it notices, or the next one."""
    broker = BrokerThread()

    async def kill(target: Target) -> None:
        async with target.connection() as connection:
            await target.ask(connection, "Metadata", 9)
        broker.stop_node(1)
        if notices == "kills":
            raise CheckFailed("no response")

    with broker:
        target = Target(parse_upstream(broker.bootstrap), 10)
        await target.learn_versions()
        selected = [check for check in checks() if check.id.startswith("ListGroups/v1")]
        selected.insert(1, Check("kills", "it kills the broker", "", ("",), kill))
        found = {check.check.id: check async for check in run_checks(target, selected, writes=False, at_once=1)}
    outcomes = [each.outcome for each in found.values()]
    assert outcomes == ["pass", *(["fail", "skip"] if notices == "kills" else ["pass", "fail"]), "skip"]
    assert found[notices].sentence.endswith(
        "; the broker no longer accepts connections; sent last: Metadata v9 by kills; to run the rest, restart it and "
        "pass --skip kills"
    )
    assert [each.message.api for each in found[notices].evidence] == ["Metadata"]
    assert found["ListGroups/v1/3"].sentence == "the broker no longer accepts connections"


async def test_a_broker_that_dies_while_several_checks_run() -> None:
    broker = BrokerThread()
    asked = asyncio.Barrier(2)

    async def kill(target: Target) -> None:
        async with target.connection() as connection:
            await target.ask(connection, "Metadata", 9)
            await asked.wait()
            broker.stop_node(1)
            await target.ask(connection, "ListGroups", 4)

    with broker:
        target = Target(parse_upstream(broker.bootstrap), 10)
        await target.learn_versions()
        selected = [Check(name, "", "", ("",), kill) for name in ("one", "two")]
        check_results = [check async for check in run_checks(target, selected, writes=False)]
    [sentence] = [
        check_result.sentence
        for check_result in check_results
        if "no longer accepts" in check_result.sentence and "sent last" in check_result.sentence
    ]
    assert sentence.endswith("restart it and --at-once 1 finds the check that causes it")
    assert "ListGroups v4 by one" in sentence
    assert "ListGroups v4 by two" in sentence
