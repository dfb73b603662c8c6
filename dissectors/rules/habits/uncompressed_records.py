"""R029: a producer that does not compress records that would compress well."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.produce_habits import BYTES, ProduceHabits
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

SAVED = Limit("saved", 60, "%", "and samples of them shrink by at least this share")


@rule(
    "R029",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(ProduceHabits,),
    limits=(BYTES, SAVED),
    since="0.1",
    blame="client",
)
def uncompressed_records(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports producers that send uncompressed batches that would compress well.

    ## Why it matters
    Brokers store and replicate batches as the producer compressed them, and consumers receive them in that form:
    without compression, network and disks carry several times as much data as necessary.

    ## Usual cause
    `compression.type=none`, the default of most clients. kproxy measures the savings by compressing parts of some
    batches of a connection, at most 16 KiB each. The broker may compress instead (`compression.type` of the topic),
    which costs it CPU.

    ## Example
    ```story
    rule R029:bytes=400
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": {"repeat": "v", "times": 1000}}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": {"repeat": "v", "times": 1000}}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": {"repeat": "v", "times": 1000}}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": {"repeat": "v", "times": 1000}}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": {"repeat": "v", "times": 1000}}]}]}]}]}
    ```

    ## Look-alikes
    Records that do not compress, because they are short, encrypted, or compressed themselves:
    ```story
    rule R029:bytes=400
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "Zx7#k1!pW0x"}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "a9Vb2&mLr5d"}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "T4y8)oEc6Hj"}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "N3s;uXf0iGz"}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "D1w~KqPbM7v"}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "R8t%eJa2YhC"}]}]}]}]}
    > Produce v9 {"acks": 1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "B5n^gUo9SiL"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_compression.type
    """
    sizes = connection.state(ProduceHabits).uncompressed
    if sizes is None:
        return
    share = 100 * sizes.after / sizes.before
    if 100 - share >= connection.run.limit(SAVED):
        yield Problem(
            f"{client_label(connection)} sent {sizes.sent:,} bytes of uncompressed batches: a sample of"
            f" {sizes.before:,} bytes shrinks to {share:.0f} % with zlib",
            hint="set compression.type to lz4, zstd or snappy in the producer",
            cause="uncompressed",
        )
