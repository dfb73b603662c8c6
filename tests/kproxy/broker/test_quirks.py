"""Each quirk, inspected by kproxy itself, produces exactly its findings."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.records.encode import encode
from kproxy.broker.quirks import SETS, QuirkError, parse
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from tests.kproxy.broker.broker_watch import Step, watch_steps
from tests.kproxy.broker.socket_client import broker_client
from tests.serialized import ORDER, sample_registry

RECORDS = encode([{"records": [{"timestamp": 1_700_000_000_000, "key": b"k", "value": b"v1"}, {"value": b"v2"}]}])
SUBSCRIPTION = bytes.fromhex("0000 00000001 0006 6f7264657273 ffffffff")


def api_versions(version: int) -> Step:
    return Step("ApiVersions", version, {"client_software_name": "scripted", "client_software_version": "1"})


def metadata(version: int) -> Step:
    return Step("Metadata", version, {"topics": [{"name": "orders"}], "allow_auto_topic_creation": True})


def produce(version: int) -> Step:
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": RECORDS}]}]
    return Step("Produce", version, {"acks": -1, "timeout_ms": 1000, "topic_data": data})


def fetch(version: int) -> Step:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}
    return Step(
        "Fetch",
        version,
        {
            "replica_id": -1,
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "topics": [{"topic": "orders", "partitions": [partition]}],
        },
    )


def join(version: int) -> Step:
    return Step(
        "JoinGroup",
        version,
        {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        },
    )


def find_coordinator(version: int) -> Step:
    return Step("FindCoordinator", version, {"key": "g"})


def list_offsets(version: int) -> Step:
    partition = {"partition_index": 0, "timestamp": -1}
    return Step("ListOffsets", version, {"replica_id": -1, "topics": [{"name": "orders", "partitions": [partition]}]})


def commit(version: int) -> Step:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return Step("OffsetCommit", version, {"group_id": "h", "topics": [{"name": "orders", "partitions": [partition]}]})


THROTTLE_IN_V0 = ("L005", "throttle_time_ms", "field_from_version")
JOIN = ("L003", "throttle_time_ms", "field_moved")
COORDINATOR = ("L006", "throttle_time_ms", "body_version")
PRODUCE = ("L003", "throttle_time_ms", "field_moved")
RECORD = ("R007", "responses[0].partitions[0].records[0].records[0].length", "record_encoding")
CHANGED = ("R003", "responses[0].partitions[0].records[0].crc", None)

EXPECTED: dict[str, tuple[list[Step], list[tuple[str, str | None, str | None]]]] = {
    "apiversions-v0-throttle": ([api_versions(0), api_versions(2), metadata(5)], [THROTTLE_IN_V0]),
    "apiversions-v3-nonflex": ([api_versions(3), api_versions(0)], [("L010", "api_keys", "flexibility")]),
    "apiversions-header-v1": ([api_versions(3), api_versions(0)], [("L008", "header._tags", "header_version")]),
    "metadata-throttle-first": (
        [metadata(0), metadata(2)],
        [("L005", "throttle_time_ms", "field_from_version")] * 2,
    ),
    "metadata-v0-v1fields": ([metadata(0)], [("L006", "brokers[0].rack", "body_version")]),
    "findcoordinator-v0-v1fields": ([find_coordinator(0)], [COORDINATOR]),
    "joingroup-v2-throttle-end": ([join(2)], [JOIN]),
    "joingroup-v2-throttle-dup": ([join(2)], [("L035", "throttle_time_ms", "field_duplicated")]),
    "produce-throttle-first": ([produce(7)], [PRODUCE]),
    "batch-int32-length": ([produce(7), fetch(11)], [CHANGED, RECORD]),
    "advertised-mismatch": ([metadata(5), find_coordinator(0)], []),  # unreachable addresses show up only later
    "corrid-wrong": ([find_coordinator(0), metadata(5)], [("C001", "header.correlation_id", None)]),
    "flex-header-missing": ([metadata(8), metadata(9)], [("L008", "header._tags", "header_version")]),
    "go-gateway": (
        [api_versions(0), metadata(0), metadata(1)],
        [THROTTLE_IN_V0, ("L006", "brokers[0].rack", "body_version")],
    ),
    "old-gateway": (
        [find_coordinator(0), join(2), list_offsets(2)],
        [COORDINATOR, JOIN, ("L006", "throttle_time_ms", "body_version")],
    ),
    "rust-server": (
        [produce(7), fetch(11), commit(2)],
        [PRODUCE, RECORD, ("L007", "topics", "generic_error_body")],
    ),
}


async def run_steps(quirks: list[str], steps: list[Step]) -> list[tuple[str, str | None, str | None]]:
    handshake = [] if steps[0].api == "ApiVersions" else [api_versions(2)]
    findings = await watch_steps(quirks, [*handshake, *steps], topics={"orders": 1})
    edits = [getattr(finding, "edit", None) for finding in findings]
    return [
        (finding.code, getattr(finding, "path", None), edit.kind if edit else None)
        for finding, edit in zip(findings, edits, strict=True)
    ]


def test_every_quirk_set_is_tested() -> None:
    assert EXPECTED.keys() == SETS.keys()


@pytest.mark.parametrize("name", EXPECTED)
async def test_quirk_set_produces_exactly_its_findings(name: str) -> None:
    steps, expected = EXPECTED[name]
    assert await run_steps([name], steps) == expected


@pytest.mark.parametrize("name", EXPECTED)
async def test_there_are_no_findings_without_the_quirk_set(name: str) -> None:
    steps, _ = EXPECTED[name]
    assert [finding for finding in await run_steps([], steps) if finding[0] != "V017"] == []


@pytest.mark.parametrize(
    ("quirk", "step", "code", "kind"),
    [
        ("Heartbeat:missing:throttle_time_ms", None, "L004", "field_missing"),
        ("Metadata:9:tag_buffer_missing:topics[]._tags", metadata(9), "L012", "tag_buffer_missing"),
        ("Metadata:9+:length_off_by_one:topics:-1", metadata(9), "L011", "length_off_by_one"),
        ("Metadata:9+:length_off_by_one:*strings:-1", metadata(9), "L011", "length_off_by_one"),
        ("Metadata:9+:length_encoding:*arrays:fixed", metadata(9), "L010", "length_encoding"),
        ("Metadata:5:length_encoding:*strings:int32", metadata(5), "L010", "length_encoding"),
        ("Metadata:5:length_encoding:brokers[].host:int32", metadata(5), "L010", "length_encoding"),
        ("FindCoordinator:duplicated_prefix:correlation_id", find_coordinator(2), "L030", "duplicated_prefix"),
        ("ApiVersions:3:tag_size:_tags:1:2", api_versions(3), "L017", "tag_size"),
        ("ApiVersions:3:tag_size:_tags:1:-1", api_versions(3), "L017", "tag_size"),
        ("Metadata:5:truncated:7", metadata(5), "L002", "truncated"),
        (
            'Metadata:5:{"kind":"field_missing","field":"topics[].is_internal","detail":{"where":2}}',
            metadata(5), "L004", "field_missing",
        ),
    ],
)  # fmt: skip
async def test_any_edit_can_be_a_quirk(quirk: str, step: Step | None, code: str, kind: str) -> None:
    step = step or Step("Heartbeat", 1, {"group_id": "g", "member_id": "m"})
    assert [(found_code, found_kind) for found_code, _, found_kind in await run_steps([quirk], [step])] == [
        (code, kind)
    ]


@pytest.mark.parametrize(
    ("quirk", "changes"),
    [
        ("Fetch:loses:schema_ids", ["its envelope with schema id 2 is missing; its other bytes are the same"]),
        ("Fetch:11+:loses:headers", ["the header trace is missing"]),
        ("Fetch:0-10:loses:headers", []),
    ],
)
async def test_quirk_drops_schema_ids_or_headers_of_records(quirk: str, changes: list[str]) -> None:
    headers = [{"key": "trace", "value": b"1"}]
    records = [{"timestamp": 1_700_000_000_000, "value": value, "headers": headers} for value in (None, ORDER)]
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": encode([{"records": records}])}]}]
    steps = [api_versions(2), Step("Produce", 9, {"acks": -1, "timeout_ms": 1000, "topic_data": data}), fetch(11)]
    values = RecordValues(sample_registry(), Masks(()))
    findings = await watch_steps([quirk], steps, topics={"orders": 1}, record_values=values)
    texts = [finding.message.split(" is not as it was produced: ")[1] for finding in findings if finding.code == "P011"]
    assert [text.split(" (produced")[0] for text in texts] == changes


async def test_error_quirk_sets_the_partition_error_and_appends_nothing() -> None:
    quirk = "Produce:error:NOT_LEADER_OR_FOLLOWER,times=1"
    async with broker_client(topics={"orders": 1}, quirks=[quirk]) as client:
        first = await client("Produce", 7, produce(7).body)
        second = await client("Produce", 7, produce(7).body)
    assert first["responses"][0]["partition_responses"][0]["error_code"] == 6
    assert second["responses"][0]["partition_responses"][0]["error_code"] == 0
    assert second["responses"][0]["partition_responses"][0]["base_offset"] == 0


async def test_value_quirk_can_empty_an_array() -> None:
    async with broker_client(topics={"orders": 1}, quirks=["Metadata:value:topics:[]"]) as client:
        metadata_of_orders = await client("Metadata", 5, {"topics": [{"name": "orders"}]})
    assert metadata_of_orders["topics"] == []
    assert metadata_of_orders["brokers"]


async def test_error_quirk_finds_error_fields_with_other_names() -> None:
    quirks = ["CreateTopics:error:POLICY_VIOLATION", "AddPartitionsToTxn:error:CONCURRENT_TRANSACTIONS"]
    topic = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    addition = {"v3_and_below_transactional_id": "t", "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
             "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]}  # fmt: skip
    async with broker_client(topics={"orders": 1}, quirks=quirks) as client:
        created = await client("CreateTopics", 4, {"topics": [topic], "timeout_ms": 1000})
        partitions = await client("AddPartitionsToTxn", 0, addition)
    assert [topic["error_code"] for topic in created["topics"]] == [44]
    [result] = partitions["results_by_topic_v3_and_below"]
    assert [partition["partition_error_code"] for partition in result["results_by_partition"]] == [51]


async def test_conditions_select_the_affected_responses() -> None:
    quirk = "Metadata:error:UNKNOWN_SERVER_ERROR,client=test,topic=orders"
    async with broker_client(topics={"orders": 1, "bills": 1}, quirks=[quirk]) as client:
        other = client.second_client()
        affected_response = await client("Metadata", 5, {"topics": [{"name": "orders"}]})
        other_topic = await client("Metadata", 5, {"topics": [{"name": "bills"}]})
        other_client = await other("Metadata", 5, {"topics": [{"name": "orders"}]})
        await other.hang_up()

    def codes(body: Any) -> list[int]:
        return [partition["error_code"] for topic in body["topics"] for partition in topic["partitions"]]

    assert codes(affected_response) == [-1]
    assert codes(other_topic) == codes(other_client) == [0]


@pytest.mark.parametrize(
    ("quirk", "codes"), [("Metadata:close", ["X006"]), ("Metadata:cut:9", ["M003"]), ("Metadata:drop", ["C004"])]
)
async def test_close_cut_and_drop_quirks_are_found(quirk: str, codes: list[str]) -> None:
    step = metadata(5)._replace(answered=not quirk.endswith(":drop"))
    assert [code for code, _, _ in await run_steps([quirk], [step])] == codes


def test_probability_quirk_affects_a_share_of_the_responses() -> None:
    [quirk] = parse("Fetch:drop,probability=0.5")
    dice = iter([0.4, 0.6, 0.2])
    quirk.chance = lambda: next(dice)
    assert [quirk.applies_to("Fetch", 11, "c", {}) for _ in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "unknown quirk 'nonsense'; kproxy quirks lists them"),
        ("go-gatway", "unknown quirk 'go-gatway'; did you mean 'go-gateway'?"),
        ("Fech:drop", "quirk 'Fech:drop': unknown API 'Fech'; did you mean 'Fetch'?"),
        ("Fetch:dely:5", "unknown kind 'dely'; did you mean 'delay'?"),
        ("Fetch:error:NOT_LEADER", "unknown error 'NOT_LEADER'; did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        ("Foo:drop", "quirk 'Foo:drop': unknown API 'Foo'"),
        (
            "Fetch:moved:nope:last",
            "quirk 'Fetch:moved:nope:last': FetchResponse has no nope; the fields of FetchResponse are",
        ),
        ("Fetch:moved:throttle_ms:last", "FetchResponse has no throttle_ms; did you mean throttle_time_ms?"),
        ("Fetch:missing:responses.partition.aborted", "has no responses.partition.aborted; did you mean partitions?"),
        ("Fetch:moved:responses", "field_moved takes FIELD:PLACE, not responses"),
        ("Fetch:error:NOPE", "unknown error 'NOPE'"),
        ("Fetch:drop,probability=2", "probability=2 must be above 0 and at most 1"),
        ("Fetch:drop,times=0", "times=0 is not a positive number"),
        ("Fetch:explode", "unknown kind 'explode'; use one of error, value"),
        ('Fetch:{"kind"', "invalid JSON"),
    ],
)
def test_rejects_an_invalid_quirk(text: str, message: str) -> None:
    with pytest.raises(QuirkError) as caught:
        parse(text)
    assert message in str(caught.value)
