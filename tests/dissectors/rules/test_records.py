"""The rules of record data: spans, once per cause, what is looked into, and severities that depend on the past."""

from __future__ import annotations

import json
from typing import Any

import google_crc32c
import pytest

from dissectors.messages.message import api_layouts
from dissectors.records import encode as encode_batches
from dissectors.records.compression import CODECS, compress
from dissectors.records.layout_departures import write_departed
from dissectors.records.layout_variants import ENCODINGS
from dissectors.trackers.record_data import FIRST_BATCHES, MAX_TOPICS, THEN_ONE_IN, BatchSampler
from dissectors.wire.encode import encode
from kproxy.inspection.explain import explain
from tests.kproxy.capture_results import DATA, findings_of
from tests.kproxy.frames import framed
from tests.kproxy.stories import findings, prepared

TIME = 1_767_225_600_000
BATCH = {
    "records": [
        {"timestamp": TIME, "key": b"key", "value": b"value of some length"},
        {"timestamp": TIME + 5, "key": None, "value": b"v" * 70, "headers": [{"key": "h", "value": b"x"}]},
    ]
}
ASKED = '> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}\n'


def produce(data: str) -> str:
    """A story of one Produce with record data as hex or as batches in JSON."""
    return f'> Produce v9 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{{"records": {data}}}]}}]}}\n'


def fetched(data: str) -> str:
    """A story of one Fetch."""
    return (
        ASKED + f'< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 9, "records": {data}}}]}}]}}\n'
    )


def family(story: str) -> list[str]:
    return [finding.code for finding in findings(story) if finding.code.startswith("R")]


@pytest.mark.parametrize("client", ["java", "kafkajs", "librdkafka"])
def test_int32_lengths_in_a_real_conversation_are_told_once_and_alone(client: str) -> None:
    path = DATA / "bugs" / f"batch-int32-length--{client}.pcap.gz"
    [finding] = [finding for _, finding in findings_of(path) if finding.code.startswith("R")]
    assert (finding.code, finding.blame) == ("R007", "broker")
    assert "int32" in finding.message
    assert finding.path == "responses[0].partitions[0].records[0].records[0].length"
    assert finding.span == (132, 136)


@pytest.mark.parametrize("written", list(ENCODINGS))
def test_each_way_is_told_alone(written: str) -> None:
    data = write_departed(BATCH, written).hex()
    [finding] = [finding for finding in findings(produce(f'"{data}"')) if finding.code.startswith("R")]
    assert finding.code == "R007"
    assert ENCODINGS[written].sentence in finding.message
    assert finding.blame == "client"


def test_a_way_is_told_once_for_each_topic() -> None:
    data = write_departed(BATCH, "record_length_int32").hex()
    other = produce(f'"{data}"').replace('"t"', '"u"')
    assert family(3 * produce(f'"{data}"') + 2 * other) == ["R007", "R007"]


def test_the_span_of_a_lone_frame_covers_the_field() -> None:
    known = api_layouts(1, 12)
    assert known is not None
    data = write_departed(BATCH, "record_length_int32").hex()
    body = {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": data}]}]}
    frame = framed(encode(known.response_header, {"correlation_id": 1})
                   + encode(known.response, prepared(known.response, body)))  # fmt: skip
    [finding] = [finding for finding in explain(frame, answered=(1, 12)).findings if finding.code.startswith("R")]
    assert finding.severity == "error"
    assert frame[finding.problem.start : finding.problem.end] == bytes.fromhex("0000001d")


@pytest.mark.parametrize(
    "batch",
    [
        '{"is_control": true, "records": [{"key": "ab"}]}',
        '{"base_offset": 7, "records": [{}]}',
        '{"magic": 1, "records": [{}]}',
        '{"crc": 1, "crc_valid": false, "records": [{}]}',
        '{"last_offset_delta": 4, "records": [{}]}',
    ],
)
def test_a_lone_frame_may_come_out_of_a_log(batch: str) -> None:
    assert len(family(produce(f"[{batch}]"))) == 1
    known = api_layouts(0, 9)
    assert known is not None
    body: dict[str, Any] = {"topic_data": [{"name": "t", "partition_data": [{"records": json.loads(f"[{batch}]")}]}]}
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 1, "client_id": "a"}
    frame = framed(encode(known.request_header, header) + encode(known.request, prepared(known.request, body)))
    [finding] = [finding for finding in explain(frame).findings if finding.code.startswith("R")]
    assert finding.severity == "info"


def test_a_wrong_crc_keeps_what_follows_from_it_quiet() -> None:
    data = bytearray(write_departed(BATCH, "record_length_int32"))
    data[70] ^= 1
    assert family(produce(f'"{data.hex()}"')) == ["R001"]


def test_a_record_that_is_too_large_is_an_error_when_it_comes_again() -> None:
    sent = produce('[{"records": [{"value": "a"}]}]')
    refused = '< {"responses": [{"name": "t", "partition_responses": [{"error_code": 10, "base_offset": -1}]}]}\n'
    assert [str(finding.severity) for finding in findings(5 * (sent + refused), "R021")] == ["info", "error"]
    several = produce('[{"records": [{"value": "a"}, {"value": "b"}]}]')
    assert [str(finding.severity) for finding in findings(5 * (several + refused), "R021")] == ["info"]


def test_batches_after_the_first_are_looked_into_now_and_then() -> None:
    sampler = BatchSampler()
    chosen = [sampler.selects(True, "t", 1) for _ in range(2 * THEN_ONE_IN)]
    assert all(chosen[:FIRST_BATCHES])
    assert sum(chosen) == FIRST_BATCHES + 2
    assert sampler.selects(False, "t", 1)
    assert not sampler.selects(True, "u", 1_000_000)


def test_topics_beyond_a_bound_are_counted_together() -> None:
    sampler = BatchSampler()
    for number in range(10_000):
        sampler.selects(True, f"topic-{number}", 1)
    assert len(sampler.batches) <= MAX_TOPICS + 1


def test_headers_and_crcs_are_looked_at_always() -> None:
    good = produce('[{"records": [{"value": "a"}]}]')
    bad = produce('[{"crc": 1, "crc_valid": false, "records": [{"value": "a"}]}]')
    assert family(20 * good + bad) == ["R001"]
    assert family(20 * good + produce('[{"last_offset_delta": 0, "records": [{}, {}]}]')) == ["R006"]


def test_old_formats_in_a_new_fetch_are_right() -> None:
    wrapper = '{"magic": 1, "base_offset": 1, "compression": "gzip", "records": [{"value": "a"}]}'
    assert not family(fetched('[{"magic": 0, "records": [{"value": "a"}]}, ' + wrapper + "]"))


def test_a_control_batch_and_log_append_time_in_a_fetch_are_right() -> None:
    commit = '{"is_control": true, "is_transactional": true, "producer_id": 1, "records": [{"key": "\\u0000\\u0000"}]}'
    times = '"timestamp_type": "LogAppendTime", "base_timestamp": 5, "max_timestamp": 9'
    assert not family(fetched(f'[{commit}, {{"base_offset": 1, {times}, "records": [{{}}]}}]'))


def test_a_rewritten_batch_is_told_only_soon_after_it_was_produced() -> None:
    sent = produce('[{"records": [{"value": "a"}]}]')
    taken = '< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 0}]}]}\n'
    other = fetched('[{"records": [{"value": "b"}]}]')
    assert family(sent + taken + other) == ["R003"]
    assert not family(sent + taken + "+11s\n" + other)


def test_a_fetch_may_begin_behind_a_batch_that_was_seen_long_ago() -> None:
    seen = fetched('[{"records": [{"value": "a"}, {"value": "b"}]}]')
    asked = ASKED.replace('{"partition": 0}', '{"partition": 0, "fetch_offset": 1}')
    behind = asked + fetched('[{"base_offset": 2, "records": [{"value": "c"}]}]').removeprefix(ASKED)
    assert family(seen + behind) == ["R017"]
    assert not family(seen + "+11s\n" + behind)


KEYLESS = produce('[{"records": [{"value": "a"}]}]')
TAKEN = '< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 0}]}]}\n'
DESCRIBED = """
> DescribeConfigs v1 {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": null}]}
< {"results": [{"resource_type": 2, "resource_name": "t", "configs": [
  {"name": "cleanup.policy", "value": "compact,delete"}]}]}
"""
ALTERED = """
> IncrementalAlterConfigs v1 {"resources": [{"resource_type": 2, "resource_name": "t", "configs": [
  {"name": "cleanup.policy", "config_operation": %d, "value": "%s"}]}]}
< {"responses": [{"error_code": %d, "resource_type": 2, "resource_name": "t"}]}
"""


@pytest.mark.parametrize("known", [DESCRIBED, ALTERED % (0, "compact", 0)])
def test_a_compacted_topic_is_known_from_what_was_said_of_its_configs(known: str) -> None:
    assert family(known + 20 * (KEYLESS + TAKEN)) == ["R022"]
    keyed = produce('[{"records": [{"key": "k", "value": "a"}]}]')
    assert not family(known + keyed + TAKEN)


@pytest.mark.parametrize(
    "unknown",
    [
        ALTERED % (0, "compact", 37),
        ALTERED % (2, "compact", 0),
        DESCRIBED.replace("compact,", ""),
        DESCRIBED + ALTERED % (0, "delete", 0),
    ],
)
def test_a_policy_that_was_not_set_or_is_not_known_is_none(unknown: str) -> None:
    assert not family(unknown + KEYLESS + TAKEN)


def test_a_format_that_does_not_exist() -> None:
    [finding] = findings(fetched('"0000000000000000 00000010 00000000 07 00000000 0000000000000000000000"'), "R008")
    assert finding.path == "responses[0].partitions[0].records[0].magic"


def test_a_committed_transaction_is_visible() -> None:
    batch = '"is_transactional": true, "producer_id": 5, "records"'
    marker = '{"base_offset": 1, "is_control": true, %s: [{"offset": 1, "key": "\\u0000\\u0000\\u0000\\u000%d"}]}'
    asked = '> Fetch v12 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{}]}]}\n'
    for outcome, codes in ((0, ["R025"]), (1, [])):
        data = f"[{{{batch}: [{{}}]}}, {marker % (batch, outcome)}]"
        assert family(asked + fetched(data).removeprefix(ASKED)) == codes


def test_a_negative_timestamp_and_one_that_is_far_ahead() -> None:
    ahead = TIME + 3 * 86_400_000
    for timestamp, words in ((-5, "is negative"), (ahead, "in the future"), (TIME * 10**6, "nanoseconds")):
        [finding] = findings(produce(f'[{{"records": [{{"timestamp": {timestamp}}}]}}]'), "R018")
        assert words in finding.message


def test_deltas_of_more_than_32_bits_are_information() -> None:
    story = fetched(f'[{{"base_timestamp": 0, "max_timestamp": {TIME}, "records": [{{"timestamp": {TIME}}}]}}]')
    assert [(finding.code, finding.severity) for finding in findings(story) if finding.code.startswith("R")] == [
        ("R018", "info")
    ]


@pytest.mark.parametrize(("codec", "again"), [(1, 1), (4, 4), (1, 4), (3, 1)])
def test_records_that_are_compressed_twice(codec: int, again: int) -> None:
    plain = encode_batches([BATCH])
    header, data = bytearray(plain[:61]), compress(codec, compress(again, plain[61:]))
    header[8:12] = (49 + len(data)).to_bytes(4)
    header[21:23] = codec.to_bytes(2)
    header[17:21] = google_crc32c.value(bytes(header[21:]) + data).to_bytes(4)
    [finding] = [each for each in findings(produce(f'"{(bytes(header) + data).hex()}"')) if each.code.startswith("R")]
    assert finding.code == "R011"
    assert "the records are compressed twice: after " in finding.message
    assert finding.message.endswith(f"which is {CODECS[again]}")
    assert (finding.hint or "").startswith("compress the records once")
