"""Facts about transactions in messages: markers, held partitions, producers."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.messages.message import Message, read_request, read_response
from dissectors.messages.transaction_facts import HeldPartition, TransactionMarker, partition_ends, producer_of
from dissectors.records import encode
from tests.kproxy.frames import request, response

COMMIT, ABORT, LEADER_CHANGE = (bytes((0, 0, 0, kind)) for kind in (1, 0, 2))


def batch(offset: int, producer_id: int = 9, *, control: bytes | None = None, transactional: bool = True) -> bytes:
    key = {} if control is None else {"key": control}
    return encode(
        [
            {
                "base_offset": offset, "is_transactional": transactional, "is_control": control is not None,
                "producer_id": producer_id, "producer_epoch": 3, "records": [{"value": b"v"} | key],
            }
        ]
    )  # fmt: skip


def fetch_response(records: bytes, stable: int, end: int) -> Message:
    row: dict[str, Any] = {"high_watermark": end, "last_stable_offset": stable, "records": records}
    return read_response(response("Fetch", 11, {"responses": [{"topic": "t", "partitions": [row]}]}), 1, 11)


def test_markers_are_read_between_batches() -> None:
    data = (
        batch(5) + batch(6, 8) + batch(7, control=COMMIT) + batch(8, 8, control=ABORT) + batch(9, control=LEADER_CHANGE)
    )
    ends = partition_ends(fetch_response(data, 10, 10))
    assert ends.markers == [TransactionMarker("t", 0, 9, 3, True, 7), TransactionMarker("t", 0, 8, 3, False, 8)]
    assert ends.held == []


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_truncated_marker_is_ignored(cut: int) -> None:
    assert partition_ends(fetch_response((batch(5) + batch(7, control=COMMIT))[:-cut], 8, 8)).markers == []


def test_malformed_control_records_are_not_markers() -> None:
    short, torn = batch(5, control=b"\0\0"), bytearray(batch(5, control=COMMIT))
    torn[61] = torn[62] = torn[63] = torn[64] = torn[65] = 0xFF  # a length of more than 32 bits
    assert partition_ends(fetch_response(short + bytes(torn), 9, 9)).markers == []
    assert partition_ends(read_request(request("Metadata", 1, {"topics": []}))) == ([], [])


def test_batch_at_the_last_stable_offset_names_the_producer() -> None:
    data = batch(5, -1, transactional=False) + batch(6, 8) + batch(7, 9)
    assert partition_ends(fetch_response(data, 6, 9)).held == [HeldPartition("t", 0, 6, 9, 8, 3, brought=True)]
    assert partition_ends(fetch_response(batch(7, 9), 6, 9)).held == [HeldPartition("t", 0, 6, 9, brought=True)]
    assert partition_ends(fetch_response(b"", 6, 9)).held == [HeldPartition("t", 0, 6, 9)]
    assert partition_ends(fetch_response(data, 9, 9)).held == []


def test_markers_are_read_from_write_txn_markers() -> None:
    marker = {
        "producer_id": 9, "producer_epoch": 3, "transaction_result": True,
        "topics": [{"name": "t", "partition_indexes": [1, 2]}],
    }  # fmt: skip
    message = read_request(request("WriteTxnMarkers", 1, {"markers": [marker]}))
    assert partition_ends(message).markers == [
        TransactionMarker("t", 1, 9, 3, True),
        TransactionMarker("t", 2, 9, 3, True),
    ]


def test_request_with_one_transaction_has_a_producer() -> None:
    end_txn = {"transactional_id": "pay", "producer_id": 9, "producer_epoch": 3}
    assert producer_of(read_request(request("EndTxn", 3, end_txn))) == (9, 3)
    several = [{"transactional_id": "pay", "producer_id": 9, "producer_epoch": 3, "topics": []}]
    assert producer_of(read_request(request("AddPartitionsToTxn", 4, {"transactions": several}))) == (9, 3)
    assert producer_of(read_request(request("AddPartitionsToTxn", 4, {"transactions": 2 * several}))) is None
    rows = [{"index": 0, "records": batch(0)}]
    produce = {"transactional_id": "pay", "topic_data": [{"name": "t", "partition_data": rows}]}
    assert producer_of(read_request(request("Produce", 9, produce))) == (9, 3)
    assert producer_of(read_request(request("InitProducerId", 4, {"transactional_id": "pay"}))) is None
