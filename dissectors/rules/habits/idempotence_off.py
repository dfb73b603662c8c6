"""H003: a producer that requests all acknowledgements but does not enable idempotence."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.produce_habits import ACKS_ALL, ProduceHabits
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import Versions

_ALL = -1


@rule(
    "H003",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(ProduceHabits, Versions),
    limits=(ACKS_ALL,),
    since="0.1",
    blame="client",
)
def idempotence_off(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports producers with acks=all but without a producer id: a retry may write records twice, or out of order.

    ## Why it matters
    If a response is lost, the producer sends the batch again. With a producer id and sequence numbers, the broker
    recognizes the repeated batch; without them, it is written a second time, perhaps after later batches.

    ## Usual cause
    `enable.idempotence=false`, the default of librdkafka, of Sarama and of Java clients before Kafka 3.0. Idempotence
    has no measurable cost. It is reported only if the broker offers producer ids (InitProducerId).

    ## Example
    ```story
    rule H003:requests=2
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 0, "max_version": 9}, {"api_key": 18, "max_version": 3},
      {"api_key": 22, "max_version": 4}]}
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "1"}]}]}]}]}
    < {"responses": []}
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "t", "partition_data": [{"records": [{"records": [{"value": "2"}]}]}]}]}
    < {"responses": []}
    ```

    ## Look-alikes
    ```story
    rule H003:requests=2
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 0, "max_version": 9}, {"api_key": 18, "max_version": 3},
      {"api_key": 22, "max_version": 4}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "1"}]}]}]}]}
    < {"responses": []}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"producer_id": 7, "producer_epoch": 0, "base_sequence": 1, "records": [{"value": "2"}]}]}]}]}
    < {"responses": []}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_enable.idempotence
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    """
    habits = connection.state(ProduceHabits)
    if (
        habits.sent != connection.run.limit(ACKS_ALL)
        or habits.producer_id >= 0
        or event.message.body.get("acks") != _ALL
    ):
        return
    ranges = connection.state(Versions).ranges(connection)
    if ranges is not None and ApiKey.INIT_PRODUCER_ID in ranges:
        yield Problem(
            f"{client_label(connection)} sent {habits.sent} Produce requests with acks=all on one connection, but "
            "without a producer id: a retry writes records twice or out of order",
            hint="set enable.idempotence=true in the producer",
            cause="idempotence",
        )
