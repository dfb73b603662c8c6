"""FIELD=VALUE arguments set the values of a request; a mistake yields an error of one sentence."""

from __future__ import annotations

import pytest

from dissectors import records
from dissectors.wire.layout import layout
from kproxy.client.assignments import assign, from_json
from kproxy.errors import UserError


def assign_all(api: str, version: int, *assignments: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for assignment in assignments:
        assign(layout(f"{api}Request", version), values, assignment)
    return values


@pytest.mark.parametrize(
    ("api", "version", "texts", "expected"),
    [
        ("Metadata", 9, ["topics=a,b"], {"topics": [{"name": "a"}, {"name": "b"}]}),
        ("Metadata", 9, ["topics="], {"topics": []}),
        ("Metadata", 9, ["topics=null"], {"topics": None}),
        ("Metadata", 9, ["allow_auto_topic_creation=false"], {"allow_auto_topic_creation": False}),
        ("Metadata", 12, ['topics=[{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "name": null}]'],
         {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "name": None}]}),
        ("Metadata", 12, ["topics.topic_id=00000000-0000-0000-0000-000000000001"],
         {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]}),
        ("Fetch", 11, ["topics=a", "topics.partitions=0,1", "topics[0].partitions[1].fetch_offset=0x10"],
         {"topics": [{"topic": "a", "partitions": [{"partition": 0}, {"partition": 1, "fetch_offset": 16}]}]}),
        ("Fetch", 11, ["topics=a,b", "topics.partitions=7"],  # sets the field in every element
         {"topics": [{"topic": name, "partitions": [{"partition": 7}]} for name in "ab"]}),
        ("DescribeConfigs", 4, ["resources=orders", "resources.resource_type=2"],
         {"resources": [{"resource_name": "orders", "resource_type": 2}]}),
        ("FindCoordinator", 4, ["coordinator_keys=g,h", "coordinator_keys[1]=i"], {"coordinator_keys": ["g", "i"]}),
        ("Fetch", 17, ["replica_state.replica_id=3"], {"replica_state": {"replica_id": 3}}),
        ("SaslAuthenticate", 2, ["auth_bytes=hex:00 61 00"], {"auth_bytes": b"\0a\0"}),
        ("SaslAuthenticate", 2, ["auth_bytes=base64:AGE="], {"auth_bytes": b"\0a"}),
        ("SaslAuthenticate", 2, ["auth_bytes=a=b"], {"auth_bytes": b"a=b"}),
        ("AlterClientQuotas", 1, ["entries.ops.value=1.5"], {"entries": [{"ops": [{"value": 1.5}]}]}),
    ],
)  # fmt: skip
def test_assigns_values_by_path(api: str, version: int, texts: list[str], expected: object) -> None:
    assert assign_all(api, version, *texts) == expected


@pytest.mark.parametrize(
    ("api", "text", "sentence"),
    [
        ("Metadata", "topics", "'topics' is not FIELD=VALUE"),
        ("Metadata", "topics[x]=a", r"'topics\[x\]' is not a field path"),
        ("Metadata", "topik=a", "no field topik in this version; did you mean topics"),
        ("Metadata", "topics=[1", "topics: invalid JSON"),
        ("Metadata", 'topics={"name": "a"}', "topics takes an array"),
        ("Metadata", "topics.name.x=a", "name is string and has no fields"),
        ("Metadata", "allow_auto_topic_creation=maybe", "takes true or false, not 'maybe'"),
        ("Metadata", "allow_auto_topic_creation=null", "cannot be null; .* --edit null_in_non_nullable"),
        ("Metadata", "allow_auto_topic_creation[0]=1", "is not an array"),
        ("Metadata", "topics.topic_id=short", "takes a UUID"),
        ("Produce", "acks=x", "takes a whole number, not 'x'"),
        ("Produce", "topic_data.partition_data.records=hex:0g", "takes text, hex:0a0b, base64:Cgs= or JSON"),
        ("Produce", 'topic_data.partition_data.records={"valeu": 1}', "key, value, headers and timestamp, not valeu"),
        ("Produce", 'topic_data.partition_data.records={"timestamp": "x"}', "in milliseconds since 1970, not"),
        ("Produce", f'topic_data.partition_data.records={{"timestamp": {1 << 70}}}', "records: "),
        ("Produce", 'topic_data.partition_data.records={"headers": [1]}', "headers are an object"),
    ],
)
def test_reports_a_mistake_in_one_sentence(api: str, text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as raised:
        assign_all(api, 12, text)
    assert "\n" not in str(raised.value)


def test_records_become_a_batch() -> None:
    path = "topic_data.partition_data.records"
    values = assign_all("Produce", 9, f'{path}=[{{"key": "k", "value": {{"a": 1}}, "headers": {{"h": null}}}}, "text"]')
    [batch] = records.decode(values["topic_data"][0]["partition_data"][0]["records"])  # type: ignore[index]
    assert batch["crc_valid"] is True
    assert [(record["key"], record["value"]) for record in batch["records"]] == [(b"k", b'{"a":1}'), (None, b"text")]
    assert batch["records"][0]["headers"] == [{"key": "h", "value": None}]
    assert batch["records"][0]["timestamp"] > 1_700_000_000_000


def test_all_fields_of_json_are_checked() -> None:
    metadata = layout("MetadataRequest", 12)
    assert from_json(metadata, {"topics": ["a"]}) == {"topics": [{"name": "a"}]}
    with pytest.raises(UserError, match=r"topics\[0\]\.nam: .* did you mean name"):
        from_json(metadata, {"topics": [{"nam": "a"}]})
    with pytest.raises(UserError, match=r"topics\[0\]\.name takes text, not 1"):
        from_json(metadata, {"topics": [{"name": 1}]})
    with pytest.raises(UserError, match=r"allow_auto_topic_creation takes true or false"):
        from_json(metadata, {"allow_auto_topic_creation": 5})
