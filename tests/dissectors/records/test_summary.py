"""What the headers alone say."""

from typing import Any

from dissectors.records import decode, encode, summarize
from dissectors.records.summary import RecordsSummary


def test_agrees_with_kafka_on_what_headers_can_say(row: dict[str, Any]) -> None:
    summary = summarize(memoryview(row["data"]))
    batches = row["batches"]
    assert summary == RecordsSummary(
        batches=len(batches),
        records=sum(batch.get("count", 1) for batch in batches),
        complete_bytes=sum(batch["size"] for batch in batches),
        trailing_bytes=row["trailing"],
        magics=tuple(dict.fromkeys(batch["magic"] for batch in batches)),
        compressions=tuple(dict.fromkeys(batch["compression"] for batch in batches)),
        max_timestamp=max((batch["maxTimestamp"] for batch in batches), default=-1),
        is_transactional=any(batch["isTransactional"] for batch in batches),
        is_control=any(batch["isControl"] for batch in batches),
        error=None,
    )


def test_a_wrapper_counts_as_the_one_message_that_can_be_seen() -> None:
    data = encode([{"magic": 1, "compression": "gzip", "records": [{"value": b"v"}] * 9}])
    assert summarize(data).records == 1
    assert len(decode(data)[0]["records"]) == 9


def test_a_negative_count_does_not_spoil_the_sum() -> None:
    good = encode([{"records": [{"value": b"v"}] * 3}])
    bad = good[:57] + b"\xff\xff\xff\xff" + good[61:]
    summary = summarize(good + bad)
    assert (summary.batches, summary.records) == (2, 3)
    assert summary.error == "batch 1: records_count is -1"
