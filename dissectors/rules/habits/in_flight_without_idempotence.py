"""H004: many Produce requests for one partition in flight, without idempotence."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.connection import PRODUCE
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

REQUESTS = Limit("requests", 6, "requests", "so many Produce requests for a partition are in flight at once", 6)


class _ReportState:
    """Whether the connection has been reported or belongs to an idempotent producer."""

    is_done = False


@rule(
    "H004",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    limits=(REQUESTS,),
    since="0.1",
    blame="client",
)
def in_flight_without_idempotence(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports producers without idempotence that have many requests for one partition in flight.

    ## Why it matters
    If one of them fails and is sent again, its records come after those of all the others: the order of a key's records
    is lost. H005 reports when that has happened.

    ## Usual cause
    `max.in.flight.requests.per.connection` at its default (5 in Java, 1,000,000 in librdkafka) and
    `enable.idempotence=false`. C010 covers idempotent producers, which may have five.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"records": [{"records": [{"value": "1"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"records": [{"records": [{"value": "2"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"records": [{"records": [{"value": "3"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"records": [{"records": [{"value": "4"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"records": [{"records": [{"value": "5"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"records": [{"records": [{"value": "6"}]}]}]}]}
    ```

    ## Look-alikes
    The same number of requests for several partitions:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 0, "records": [{"records": [{"value": "1"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 1, "records": [{"records": [{"value": "2"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 2, "records": [{"records": [{"value": "3"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 0, "records": [{"records": [{"value": "4"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 1, "records": [{"records": [{"value": "5"}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 2, "records": [{"records": [{"value": "6"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_max.in.flight.requests.per.connection
    """
    report_state, waiting = connection.state(_ReportState), connection.state(InFlight).waiting
    limit = connection.run.limit(REQUESTS)
    if report_state.is_done or len(waiting) < limit:
        return
    request_counts: dict[tuple[str, int | None], int] = {}
    for request in waiting.values():
        if request.message.api_key == PRODUCE:
            for topic in topic_records(request.message)[:1]:
                for records in topic.partitions[:1]:
                    if records.batch is not None and records.batch.producer_id >= 0:
                        report_state.is_done = True
                        return
                    topic_partition = topic.key, records.partition
                    request_counts[topic_partition] = request_counts.get(topic_partition, 0) + 1
    topic_partition, count = max(request_counts.items(), key=lambda item: item[1], default=(("", 0), 0))
    if count >= limit:
        report_state.is_done = True
        yield Problem(
            f"{client_label(connection)} has {count} Produce requests for "
            f"{label((topic_partition[0], topic_partition[1] or 0), connection)} in"
            " flight without idempotence: one that fails and is repeated changes the order of the records",
            hint="set enable.idempotence=true, or max.in.flight.requests.per.connection=1",
            cause="in flight",
        )
