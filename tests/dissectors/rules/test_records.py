"""Rules about record data: spans, one finding per cause, sampling, and severities that depend on earlier frames."""

from __future__ import annotations

import json
from typing import Any

import google_crc32c
import pytest

from dissectors.messages.message import api_layouts
from dissectors.records import encode as encode_batches
from dissectors.records.compression import CODECS, compress
from dissectors.records.layout_deviations import write_deviating_batch
from dissectors.records.layout_variants import ENCODINGS
from dissectors.trackers.record_data import FIRST_BATCHES, MAX_TOPICS, SAMPLING_INTERVAL, BatchSampler
from dissectors.wire.encode import encode
from kproxy.inspection.explain import explain
from tests.kproxy.capture_results import DATA, findings_of
from tests.kproxy.frames import with_length_prefix
from tests.kproxy.stories import findings, to_encodable

TIME = 1_767_225_600_000
BATCH = {
    "records": [
        {"timestamp": TIME, "key": b"key", "value": b"value of some length"},
        {"timestamp": TIME + 5, "key": None, "value": b"v" * 70, "headers": [{"key": "h", "value": b"x"}]},
    ]
}
FETCH_REQUEST = '> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}\n'


def produce_data(data: str) -> str:
    """Return a story of one Produce whose record data is given as hex or as batches in JSON."""
    return f'> Produce v9 {{"acks": -1, "topic_data": [{{"name": "t", "partition_data": [{{"records": {data}}}]}}]}}\n'


def fetch_data(data: str) -> str:
    """Return a story of one Fetch whose record data is given as hex or as batches in JSON."""
    return (
        FETCH_REQUEST
        + f'< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 9, "records": {data}}}]}}]}}\n'
    )


def record_codes(story: str) -> list[str]:
    return [finding.code for finding in findings(story) if finding.code.startswith("R")]


@pytest.mark.parametrize("client", ["java", "kafkajs", "librdkafka"])
def test_int32_lengths_in_a_capture_are_reported_once(client: str) -> None:
    path = DATA / "bugs" / f"batch-int32-length--{client}.pcap.gz"
    [finding] = [finding for _, finding in findings_of(path) if finding.code.startswith("R")]
    assert (finding.code, finding.blame) == ("R007", "broker")
    assert "int32" in finding.message
    assert finding.path == "responses[0].partitions[0].records[0].records[0].length"
    assert finding.span == (132, 136)


@pytest.mark.parametrize("written", list(ENCODINGS))
def test_each_wrong_record_encoding_has_exactly_one_finding(written: str) -> None:
    data = write_deviating_batch(BATCH, written).hex()
    [finding] = [finding for finding in findings(produce_data(f'"{data}"')) if finding.code.startswith("R")]
    assert finding.code == "R007"
    assert ENCODINGS[written].sentence in finding.message
    assert finding.blame == "client"


def test_record_encoding_is_reported_once_per_topic() -> None:
    data = write_deviating_batch(BATCH, "record_length_int32").hex()
    other_topic = produce_data(f'"{data}"').replace('"t"', '"u"')
    assert record_codes(3 * produce_data(f'"{data}"') + 2 * other_topic) == ["R007", "R007"]


def test_span_of_a_single_frame_covers_the_field() -> None:
    layouts = api_layouts(1, 12)
    assert layouts is not None
    data = write_deviating_batch(BATCH, "record_length_int32").hex()
    body = {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": data}]}]}
    frame = with_length_prefix(encode(layouts.response_header, {"correlation_id": 1})
                   + encode(layouts.response, to_encodable(layouts.response, body)))  # fmt: skip
    [finding] = [
        finding for finding in explain(frame, answered_request=(1, 12)).findings if finding.code.startswith("R")
    ]
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
def test_faults_of_a_single_frame_are_reported_as_information(batch: str) -> None:
    assert len(record_codes(produce_data(f"[{batch}]"))) == 1
    layouts = api_layouts(0, 9)
    assert layouts is not None
    body: dict[str, Any] = {"topic_data": [{"name": "t", "partition_data": [{"records": json.loads(f"[{batch}]")}]}]}
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 1, "client_id": "a"}
    frame = with_length_prefix(
        encode(layouts.request_header, header) + encode(layouts.request, to_encodable(layouts.request, body))
    )
    [finding] = [finding for finding in explain(frame).findings if finding.code.startswith("R")]
    assert finding.severity == "info"


def test_invalid_crc_suppresses_other_findings() -> None:
    data = bytearray(write_deviating_batch(BATCH, "record_length_int32"))
    data[70] ^= 1
    assert record_codes(produce_data(f'"{data.hex()}"')) == ["R001"]


def test_too_large_record_is_an_error_when_it_is_repeated() -> None:
    single_record = produce_data('[{"records": [{"value": "a"}]}]')
    refused = '< {"responses": [{"name": "t", "partition_responses": [{"error_code": 10, "base_offset": -1}]}]}\n'
    assert [str(finding.severity) for finding in findings(5 * (single_record + refused), "R021")] == ["info", "error"]
    two_records = produce_data('[{"records": [{"value": "a"}, {"value": "b"}]}]')
    assert [str(finding.severity) for finding in findings(5 * (two_records + refused), "R021")] == ["info"]


def test_later_batches_are_sampled() -> None:
    sampler = BatchSampler()
    selections = [sampler.selects(True, "t", 1) for _ in range(2 * SAMPLING_INTERVAL)]
    assert all(selections[:FIRST_BATCHES])
    assert sum(selections) == FIRST_BATCHES + 2
    assert sampler.selects(False, "t", 1)
    assert not sampler.selects(True, "u", 1_000_000)


def test_sampling_does_not_depend_on_the_grouping_of_batches() -> None:
    single, together = BatchSampler(), BatchSampler()
    for _ in range(SAMPLING_INTERVAL):
        selections = [single.selects(False, "t") for _ in range(3)]
        if together.skips(False, "t", 3):
            assert not any(selections)
        else:
            assert [together.selects(False, "t") for _ in range(3)] == selections
    assert together.batches == single.batches


@pytest.mark.parametrize(
    ("base_offset", "flipped_bit", "code"),
    [(1, 0, None), (1, 1, "R001"), (0, 0, "R016")],
    ids=["valid", "CRC", "offset"],
)
def test_headers_of_batches_that_are_not_sampled_are_checked(
    base_offset: int, flipped_bit: int, code: str | None
) -> None:
    first, second = ({"base_offset": offset, "records": [{"value": b"a"}]} for offset in (0, 1))
    sampled = FIRST_BATCHES * fetch_data(f'"{encode_batches([first, second]).hex()}"')
    data = bytearray(encode_batches([first, second | {"base_offset": base_offset}]))
    data[-1] ^= flipped_bit
    assert record_codes(sampled + fetch_data(f'"{data.hex()}"')) == [code] * bool(code)


def test_number_of_sampled_topics_is_limited() -> None:
    sampler = BatchSampler()
    for number in range(10_000):
        sampler.selects(True, f"topic-{number}", 1)
    assert len(sampler.batches) <= MAX_TOPICS + 1


def test_batch_headers_and_crcs_are_checked_in_every_batch() -> None:
    valid_produce = produce_data('[{"records": [{"value": "a"}]}]')
    invalid_produce = produce_data('[{"crc": 1, "crc_valid": false, "records": [{"value": "a"}]}]')
    assert record_codes(20 * valid_produce + invalid_produce) == ["R001"]
    assert record_codes(20 * valid_produce + produce_data('[{"last_offset_delta": 0, "records": [{}, {}]}]')) == [
        "R006"
    ]


def test_old_formats_in_a_new_fetch_are_accepted() -> None:
    wrapper = '{"magic": 1, "base_offset": 1, "compression": "gzip", "records": [{"value": "a"}]}'
    assert not record_codes(fetch_data('[{"magic": 0, "records": [{"value": "a"}]}, ' + wrapper + "]"))


def test_control_batch_and_append_time_are_accepted() -> None:
    commit = '{"is_control": true, "is_transactional": true, "producer_id": 1, "records": [{"key": "\\u0000\\u0000"}]}'
    append_time_fields = '"timestamp_type": "LogAppendTime", "base_timestamp": 5, "max_timestamp": 9'
    assert not record_codes(fetch_data(f'[{commit}, {{"base_offset": 1, {append_time_fields}, "records": [{{}}]}}]'))


def test_rewritten_batch_is_reported_only_shortly_after_it_was_produced() -> None:
    produced = produce_data('[{"records": [{"value": "a"}]}]')
    accepted = '< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 0}]}]}\n'
    changed_fetch = fetch_data('[{"records": [{"value": "b"}]}]')
    assert record_codes(produced + accepted + changed_fetch) == ["R003"]
    assert not record_codes(produced + accepted + "+11s\n" + changed_fetch)


def test_fetch_that_skips_a_record_is_reported_only_soon_after_the_previous() -> None:
    first_fetch = fetch_data('[{"records": [{"value": "a"}, {"value": "b"}]}]')
    second_request = FETCH_REQUEST.replace('{"partition": 0}', '{"partition": 0, "fetch_offset": 1}')
    second_fetch = second_request + fetch_data('[{"base_offset": 2, "records": [{"value": "c"}]}]').removeprefix(
        FETCH_REQUEST
    )
    assert record_codes(first_fetch + second_fetch) == ["R017"]
    assert not record_codes(first_fetch + "+11s\n" + second_fetch)


KEYLESS_PRODUCE = produce_data('[{"records": [{"value": "a"}]}]')
ACCEPTED = '< {"responses": [{"name": "t", "partition_responses": [{"base_offset": 0}]}]}\n'
DESCRIBE_CONFIGS = """
> DescribeConfigs v1 {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": null}]}
< {"results": [{"resource_type": 2, "resource_name": "t", "configs": [
  {"name": "cleanup.policy", "value": "compact,delete"}]}]}
"""
ALTER_CONFIGS = """
> IncrementalAlterConfigs v1 {"resources": [{"resource_type": 2, "resource_name": "t", "configs": [
  {"name": "cleanup.policy", "config_operation": %d, "value": "%s"}]}]}
< {"responses": [{"error_code": %d, "resource_type": 2, "resource_name": "t"}]}
"""


@pytest.mark.parametrize("config_exchange", [DESCRIBE_CONFIGS, ALTER_CONFIGS % (0, "compact", 0)])
def test_missing_key_is_reported_if_the_topic_is_known_as_compacted(config_exchange: str) -> None:
    assert record_codes(config_exchange + 20 * (KEYLESS_PRODUCE + ACCEPTED)) == ["R022"]
    keyed = produce_data('[{"records": [{"key": "k", "value": "a"}]}]')
    assert not record_codes(config_exchange + keyed + ACCEPTED)


@pytest.mark.parametrize(
    "config_exchange",
    [
        ALTER_CONFIGS % (0, "compact", 37),
        ALTER_CONFIGS % (2, "compact", 0),
        DESCRIBE_CONFIGS.replace("compact,", ""),
        DESCRIBE_CONFIGS + ALTER_CONFIGS % (0, "delete", 0),
    ],
)
def test_missing_key_is_accepted_if_the_topic_is_not_compacted(config_exchange: str) -> None:
    assert not record_codes(config_exchange + KEYLESS_PRODUCE + ACCEPTED)


def test_unknown_record_format_is_reported() -> None:
    [finding] = findings(fetch_data('"0000000000000000 00000010 00000000 07 00000000 0000000000000000000000"'), "R008")
    assert finding.path == "responses[0].partitions[0].records[0].magic"


def test_aborted_transaction_in_a_committed_read_is_reported() -> None:
    batch = '"is_transactional": true, "producer_id": 5, "records"'
    marker = '{"base_offset": 1, "is_control": true, %s: [{"offset": 1, "key": "\\u0000\\u0000\\u0000\\u000%d"}]}'
    request = '> Fetch v12 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{}]}]}\n'
    for marker_type, codes in ((0, ["R025"]), (1, [])):
        data = f"[{{{batch}: [{{}}]}}, {marker % (batch, marker_type)}]"
        assert record_codes(request + fetch_data(data).removeprefix(FETCH_REQUEST)) == codes


def test_implausible_timestamps_are_described() -> None:
    future = TIME + 3 * 86_400_000
    for timestamp, description in ((-5, "is negative"), (future, "in the future"), (TIME * 10**6, "nanoseconds")):
        [finding] = findings(produce_data(f'[{{"records": [{{"timestamp": {timestamp}}}]}}]'), "R018")
        assert description in finding.message


def test_timestamp_deltas_beyond_32_bits_are_reported_as_information() -> None:
    story = fetch_data(f'[{{"base_timestamp": 0, "max_timestamp": {TIME}, "records": [{{"timestamp": {TIME}}}]}}]')
    assert [(finding.code, finding.severity) for finding in findings(story) if finding.code.startswith("R")] == [
        ("R018", "info")
    ]


@pytest.mark.parametrize(("codec", "outer_codec"), [(1, 1), (4, 4), (1, 4), (3, 1)])
def test_records_compressed_twice_are_reported(codec: int, outer_codec: int) -> None:
    uncompressed = encode_batches([BATCH])
    header, data = bytearray(uncompressed[:61]), compress(codec, compress(outer_codec, uncompressed[61:]))
    header[8:12] = (49 + len(data)).to_bytes(4)
    header[21:23] = codec.to_bytes(2)
    header[17:21] = google_crc32c.value(bytes(header[21:]) + data).to_bytes(4)
    [finding] = [
        reported
        for reported in findings(produce_data(f'"{(bytes(header) + data).hex()}"'))
        if reported.code.startswith("R")
    ]
    assert finding.code == "R011"
    assert "the records are compressed twice: after " in finding.message
    assert finding.message.endswith(f"which is {CODECS[outer_codec]}")
    assert (finding.hint or "").startswith("compress the records once")
