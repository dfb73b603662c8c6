"""The checks pass at the built-in broker of each release, and exactly the right ones fail at a broken one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.probe.check import Check, CheckResult, checks
from kproxy.probe.run import run_checks
from kproxy.probe.target import Target
from kproxy.proxy.address import parse_upstream


async def results(
    broker: BrokerThread, only: Sequence[str] = (), within: float = 10, *, writes: bool = True
) -> dict[str, CheckResult]:
    """The results by id; `only` are beginnings of ids."""
    target = Target(parse_upstream(broker.bootstrap.partition(",")[0]), within)
    await target.learn_versions()
    selected = [each for each in checks() if not only or each.id.startswith(tuple(only))]
    return {result.check.id: result async for result in run_checks(target, selected, writes=writes)}


def failures(found: dict[str, CheckResult]) -> dict[str, str]:
    return {name: result.sentence for name, result in found.items() if result.outcome == "fail"}


@pytest.mark.parametrize(("release", "least"), [("0.10.0", 70), ("1.1", 240), ("2.8", 600), ("4.4", 780)])
async def test_no_check_fails_at_a_right_broker(release: str, least: int) -> None:
    with BrokerThread(release=release, brokers=2) as broker:
        found = await results(broker)
    assert failures(found) == {}
    assert sum(each.outcome == "pass" for each in found.values()) >= least


async def test_without_write_nothing_is_created() -> None:
    with BrokerThread() as broker:
        found = await results(broker, writes=False)
        async with Target(parse_upstream(broker.bootstrap), 10).connection() as connection:
            target = Target(parse_upstream(broker.bootstrap), 10)
            await target.learn_versions()
            topics = await target.ask(connection, "Metadata", 9, topics=None)
            groups = await target.ask(connection, "ListGroups", 4)
    assert failures(found) == {}
    assert {each.sentence for name, each in found.items() if name.startswith("producers/")} == {
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
    assert [each["name"] for each in answer.body["topics"] if not each["is_internal"]] == []


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
        ("JoinGroup:error:NONE", ["groups/"],
         {"groups/empty-group-id", "groups/member-id-required", "groups/two-members"}),
        ("SyncGroup:value:assignment:x", ["groups/two", "groups/committed"], {"groups/two-members"}),
        ("OffsetFetch:value:topics[].partitions[].metadata:other", ["groups/"], {"groups/committed-offsets"}),
        ("ConsumerGroupHeartbeat:value:assignment:null", ["groups/"], {"groups/consumer-protocol"}),
        ("Produce:error:MESSAGE_TOO_LARGE", ["limits/"], {"limits/longest-name", "limits/large-record"}),
        ("CreateTopics:error:TOPIC_AUTHORIZATION_FAILED", ["limits/"], {"limits/invalid-name", "limits/longest-name"}),
        ("DescribeGroups:value:groups[].group_id:other", ["limits/"], {"limits/text"}),
        ("Fetch:value:responses[].partitions[].last_stable_offset:4", ["producers/"], {"producers/transactions"}),
    ],
)  # fmt: skip
async def test_a_quirk_fails_exactly_its_checks(quirk: str, only: list[str], failing: set[str]) -> None:
    with BrokerThread(quirks=[quirk]) as broker:
        found = await results(broker, only, within=1)
    assert set(failures(found)) == failing, failures(found)


def test_ids_are_stable_and_unique() -> None:
    every: Sequence[Check] = checks()
    assert len({each.id for each in every}) == len(every)
    assert {"Metadata/v1/3", "framing/pipelined", "versions/ranges", "records/zstd", "groups/two-members"} <= {
        each.id for each in every
    }
    assert all(each.title and each.sources for each in every)


async def test_a_broker_that_dies_ends_the_run() -> None:
    broker = BrokerThread()

    async def kill(_: Target) -> None:
        broker.stop_node(1)

    with broker:
        target = Target(parse_upstream(broker.bootstrap), 10)
        await target.learn_versions()
        selected = [each for each in checks() if each.id.startswith("ListGroups/v1")]
        selected.insert(1, Check("kills", "it kills the broker", "", ("",), kill))
        found = [each async for each in run_checks(target, selected, writes=False, at_once=1)]
    outcomes = [(each.check.id, each.outcome) for each in found]
    assert outcomes == [
        ("ListGroups/v1/1", "pass"), ("kills", "pass"), ("ListGroups/v1/2", "fail"), ("ListGroups/v1/3", "skip"),
    ]  # fmt: skip
    assert found[2].sentence.endswith("these checks ran at that time: ListGroups/v1/2")
    assert found[3].sentence == "the broker no longer accepts connections"
