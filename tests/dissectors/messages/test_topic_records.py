"""Record data and fetch offsets, which are read only once, however many rules use them."""

from dissectors.messages.message import read_request
from dissectors.messages.topic_records import fetch_offsets, first_batch, topic_records
from dissectors.records import encode
from tests.kproxy.frames import request

BATCH = encode([{"base_sequence": 7, "producer_id": 9, "records": [{"value": b"a"}, {"value": b"b"}]}])
OLD_MESSAGE = bytes(8) + (100).to_bytes(4, "big") + bytes(4) + b"\1" + bytes(95)  # a message of format 1


def test_each_partition_has_the_header_of_its_first_batch() -> None:
    rows = [{"index": 4, "records": BATCH}, {"index": 5, "records": None}, {"index": 6, "records": OLD_MESSAGE}]
    message = read_request(request("Produce", 9, {"topic_data": [{"name": "orders", "partition_data": rows}]}))
    [topic] = topic_records(message)
    assert topic.key == "orders"
    assert [partition.partition for partition in topic.partitions] == [4, 5, 6]
    first_partition, null_partition, old_partition = topic.partitions
    assert first_partition.batch is not None
    assert (
        first_partition.batch.producer_id,
        first_partition.batch.base_sequence,
        first_partition.batch.next_sequence,
    ) == (9, 7, 9)
    assert (null_partition.data, null_partition.batch) == (None, None)
    assert old_partition.data is not None
    assert len(old_partition.data) > 100
    assert old_partition.batch is None
    assert topic_records(message) is topic_records(message)


def test_truncated_header_is_not_a_batch() -> None:
    assert first_batch(BATCH[:60]) is None
    assert first_batch(BATCH[:61]) is not None


def test_fetch_offsets_are_keyed_by_topic_and_partition() -> None:
    rows = [{"partition": 1, "fetch_offset": 10}, {"partition": 2, "fetch_offset": 20}]
    message = read_request(request("Fetch", 11, {"topics": [{"topic": "orders", "partitions": rows}]}))
    assert fetch_offsets(message) == {("orders", 1): 10, ("orders", 2): 20}
    assert fetch_offsets(read_request(request("Metadata", 1, {"topics": None}))) == {}
