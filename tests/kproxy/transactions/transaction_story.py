"""A story of transactions: one producer commits and is fenced, one aborts, one stays open, one was not observed."""

from __future__ import annotations


def init(name: str, producer_id: int, epoch: int, connection: int) -> str:
    return f"""
{connection}> as {name}-client InitProducerId v4 {{"transactional_id": "{name}", "transaction_timeout_ms": 60000}}
{connection}< {{"producer_id": {producer_id}, "producer_epoch": {epoch}}}
"""


def begin(name: str, producer_id: int, epoch: int, connection: int, partition: int = 0) -> str:
    return f"""
{connection}> as {name}-client AddPartitionsToTxn v3 {{"v3_and_below_transactional_id": "{name}",
   "v3_and_below_producer_id": {producer_id}, "v3_and_below_producer_epoch": {epoch},
   "v3_and_below_topics": [{{"name": "t", "partitions": [{partition}]}}]}}
{connection}< {{"results_by_topic_v3_and_below": [{{"name": "t", "results_by_partition": [
   {{"partition_index": {partition}}}]}}]}}
"""


def end(name: str, producer_id: int, epoch: int, connection: int, *, committed: bool = True, error: int = 0) -> str:
    return f"""
{connection}> as {name}-client EndTxn v3 {{"transactional_id": "{name}", "producer_id": {producer_id},
   "producer_epoch": {epoch}, "committed": {str(committed).lower()}}}
{connection}< {{"error_code": {error}}}
"""


def write(name: str, producer_id: int, epoch: int, connection: int, partition: int = 0) -> str:
    """Return a Produce exchange in transaction version 2, where the first batch of an epoch starts a transaction."""
    return f"""
{connection}> as {name}-client Produce v12 {{"transactional_id": "{name}", "acks": -1, "topic_data": [{{"name": "t",
   "partition_data": [{{"index": {partition}, "records": [{batch(producer_id, epoch)}]}}]}}]}}
{connection}< {{"responses": [{{"name": "t", "partition_responses": [{{"index": {partition}, "base_offset": 5}}]}}]}}
"""


def batch(producer_id: int, epoch: int, offset: int = 0, *, marker: str = "") -> str:
    content = (
        '"is_control": true, "records": [{"key": {"hex": "0000000' + marker + '"}}]' if marker else '"records": [{}]'
    )
    return (
        f'{{"base_offset": {offset}, "is_transactional": true, "producer_id": {producer_id}, '
        f'"producer_epoch": {epoch}, "base_sequence": 0, {content}}}'
    )


def read(stable: int, end_offset: int, *batches: str, partition: int = 0) -> str:
    """Return a Fetch exchange of a read_uncommitted consumer on connection 9."""
    return f"""
9> as reader Fetch v11 {{"topics": [{{"topic": "t", "partitions": [{{"partition": {partition}, "fetch_offset": 5}}]}}]}}
9< {{"responses": [{{"topic": "t", "partitions": [{{"partition_index": {partition}, "high_watermark": {end_offset},
   "last_stable_offset": {stable}, "records": [{", ".join(batches)}]}}]}}]}}
"""


#: `pay` commits twice and is then fenced, `audit` aborts, `stuck` stays open, producer 4 was never observed.
STORY = (
    init("pay", 1, 0, 1) + begin("pay", 1, 0, 1) + "+2s\n" + end("pay", 1, 0, 1)
    + begin("pay", 1, 0, 1) + "+1s\n" + end("pay", 1, 0, 1)
    + init("audit", 2, 0, 2) + begin("audit", 2, 0, 2, 1) + end("audit", 2, 0, 2, committed=False)
    + begin("pay", 1, 0, 1) + init("pay", 1, 1, 3)
    + init("stuck", 3, 0, 4) + write("stuck", 3, 0, 4) + read(5, 6, batch(3, 0, 5)) + "4 close\n"
    + read(7, 9, batch(4, 8, 7), partition=1) + "+25s\n" + read(5, 9)
)  # fmt: skip
