"""All checks pass on the built-in broker of each release, and exactly the expected ones fail on a broken broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.probe.check import Check, CheckFailed, CheckResult, checks
from kproxy.probe.run import run_checks
from kproxy.probe.target import Target
from kproxy.proxy.address import parse_upstream


async def run_selected(
    broker: BrokerThread, id_prefixes: Sequence[str] = (), timeout_s: float = 10, *, writes: bool = True
) -> dict[str, CheckResult]:
    """Run the checks whose ids start with one of `id_prefixes`, or all checks; return the results by id."""
    target = Target(parse_upstream(broker.bootstrap.partition(",")[0]), timeout_s)
    await target.learn_versions()
    selected = [check for check in checks() if not id_prefixes or check.id.startswith(tuple(id_prefixes))]
    return {result.check.id: result async for result in run_checks(target, selected, writes=writes)}


def failures(results_by_id: dict[str, CheckResult]) -> dict[str, str]:
    return {name: result.sentence for name, result in results_by_id.items() if result.outcome == "fail"}


@pytest.mark.slow
@pytest.mark.parametrize(("release", "minimum_passes"), [("0.10.0", 70), ("1.1", 240), ("2.8", 600), ("4.4", 780)])
async def test_no_check_fails_on_a_correct_broker(release: str, minimum_passes: int) -> None:
    with BrokerThread(release=release, brokers=2) as broker:
        results_by_id = await run_selected(broker)
    assert failures(results_by_id) == {}
    assert sum(check_result.outcome == "pass" for check_result in results_by_id.values()) >= minimum_passes


@pytest.mark.slow
async def test_probe_creates_nothing_without_the_write_option() -> None:
    with BrokerThread() as broker:
        results_by_id = await run_selected(broker, writes=False)
        async with Target(parse_upstream(broker.bootstrap), 10).connection() as connection:
            target = Target(parse_upstream(broker.bootstrap), 10)
            await target.learn_versions()
            topics = await target.request(connection, "Metadata", 9, topics=None)
            groups = await target.request(connection, "ListGroups", 4)
    assert failures(results_by_id) == {}
    assert {check_result.sentence for name, check_result in results_by_id.items() if name.startswith("producers/")} == {
        "it writes: pass --write"
    }
    assert topics.body["topics"] == []
    assert groups.body["groups"] == []


async def test_probe_deletes_the_topics_that_it_created() -> None:
    with BrokerThread() as broker:
        await run_selected(broker, ["records/", "cluster/"])
        target = Target(parse_upstream(broker.bootstrap), 10)
        await target.learn_versions()
        async with target.connection() as connection:
            metadata = await target.request(connection, "Metadata", 9, topics=None)
    assert [topic["name"] for topic in metadata.body["topics"] if not topic["is_internal"]] == []


@pytest.mark.parametrize(
    ("quirk", "id_prefixes", "expected"),
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
async def test_quirk_fails_exactly_the_expected_checks(quirk: str, id_prefixes: list[str], expected: set[str]) -> None:
    with BrokerThread(quirks=quirk.split()) as broker:
        results_by_id = await run_selected(broker, id_prefixes, timeout_s=4)
    assert set(failures(results_by_id)) == expected, failures(results_by_id)


@pytest.mark.parametrize(
    ("quirk", "expected"),
    [
        ("DescribeAcls:versions:1:3", set()),
        ("DescribeAcls:value:resources[].acls[].host:x", {"acls/round-trip", "acls/prefixed"}),
    ],
)
async def test_acl_checks_fail_for_a_wrong_host(quirk: str, expected: set[str]) -> None:
    with BrokerThread(quirks=[quirk], acls=True, super_users=("User:ANONYMOUS",)) as broker:
        results_by_id = await run_selected(broker, ["acls/"], timeout_s=4)
    assert set(failures(results_by_id)) == expected, failures(results_by_id)
    assert len(results_by_id) == 3
    assert "skip" not in {check_result.outcome for check_result in results_by_id.values()}


async def test_check_fails_if_an_unknown_resource_type_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.broker.apis.describe_acls.close_on_unknown_code", lambda *_: False)
    with BrokerThread(acls=True, super_users=("User:ANONYMOUS",)) as broker:
        results_by_id = await run_selected(broker, ["acls/unknown"])
    assert set(failures(results_by_id)) == {"acls/unknown-resource-type"}


async def test_check_fails_if_a_follower_serves_a_fetch() -> None:
    with BrokerThread(brokers=2, quirks=["Fetch:error:NONE"]) as broker:
        results_by_id = await run_selected(broker, ["offsets/not-leader"])
    assert set(failures(results_by_id)) == {"offsets/not-leader"}


async def test_check_result_is_that_of_its_first_failed_task() -> None:
    async def fail(_: Target) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail_check())

    async def fail_check() -> None:
        raise CheckFailed("the broker is wrong")

    target = Target(parse_upstream("localhost:1"), 1)
    [check_result] = [result async for result in run_checks(target, [Check("x", "x", "", ("",), fail)], writes=True)]
    assert (check_result.outcome, check_result.sentence) == ("fail", "the broker is wrong")


def test_check_ids_are_stable_and_unique() -> None:
    all_checks: Sequence[Check] = checks()
    assert len({check.id for check in all_checks}) == len(all_checks)
    assert {"Metadata/v1/3", "framing/pipelined", "versions/ranges", "records/zstd", "groups/two-members"} <= {
        check.id for check in all_checks
    }
    assert all(check.title and check.page and check.sources for check in all_checks)


@pytest.mark.parametrize("reporting_check", ["kills", "ListGroups/v1/2"])
async def test_dead_broker_ends_the_run(reporting_check: str) -> None:
    """Either the check that killed the broker or the next check reports that the broker is dead."""
    broker = BrokerThread()

    async def kill(target: Target) -> None:
        async with target.connection() as connection:
            await target.request(connection, "Metadata", 9)
        broker.stop_node(1)
        if reporting_check == "kills":
            raise CheckFailed("no response")

    with broker:
        target = Target(parse_upstream(broker.bootstrap), 10)
        await target.learn_versions()
        selected = [check for check in checks() if check.id.startswith("ListGroups/v1")]
        selected.insert(1, Check("kills", "it kills the broker", "", ("",), kill))
        results_by_id = {
            result.check.id: result async for result in run_checks(target, selected, writes=False, at_once=1)
        }
    outcomes = [result.outcome for result in results_by_id.values()]
    assert outcomes == ["pass", *(["fail", "skip"] if reporting_check == "kills" else ["pass", "fail"]), "skip"]
    assert results_by_id[reporting_check].sentence.endswith(
        "; the broker no longer accepts connections; sent last: Metadata v9 by kills; to run the rest, restart it and "
        "pass --skip kills"
    )
    assert [explanation.message.api for explanation in results_by_id[reporting_check].evidence] == ["Metadata"]
    assert results_by_id["ListGroups/v1/3"].sentence == "the broker no longer accepts connections"


async def test_dead_broker_is_reported_while_several_checks_run() -> None:
    broker = BrokerThread()
    both_sent = asyncio.Barrier(2)

    async def kill(target: Target) -> None:
        async with target.connection() as connection:
            await target.request(connection, "Metadata", 9)
            await both_sent.wait()
            broker.stop_node(1)
            await target.request(connection, "ListGroups", 4)

    with broker:
        target = Target(parse_upstream(broker.bootstrap), 10)
        await target.learn_versions()
        selected = [Check(name, "", "", ("",), kill) for name in ("one", "two")]
        check_results = [result async for result in run_checks(target, selected, writes=False)]
    [sentence] = [
        check_result.sentence
        for check_result in check_results
        if "no longer accepts" in check_result.sentence and "sent last" in check_result.sentence
    ]
    assert sentence.endswith("restart it and --at-once 1 finds the check that causes it")
    assert "ListGroups v4 by one" in sentence
    assert "ListGroups v4 by two" in sentence
