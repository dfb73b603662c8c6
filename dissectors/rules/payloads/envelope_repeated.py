"""P005: a schema id that is written twice."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.records.schema_ids import is_repeated
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import record_problem
from dissectors.trackers.state import ConnectionState


@rule("P005", severity=Severity.ERROR, events=(RecordsDecoded,), since="0.1")
def envelope_repeated(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the schema id before a key or value is written only once.

    ## Why it matters
    Consumers take the second id for the beginning of the value: decoding fails, or gives wrong fields.

    ## Usual cause
    A gateway, a connector or a test passes bytes that are already serialized to a serializer again.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 00 00000011 22"}}]}]}]}]}
    ```

    ## Look-alikes
    Values with repeated bytes that decode nevertheless:
    ```story
    schema 17 orders-value "bytes"
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 0a 0000000011"}},
      {"value": {"hex": "00 00000011 0c 000000001100"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    for part in event.parts:
        if part.schema is not None and part.value.problem is not None and is_repeated(part.data):
            yield record_problem(
                event,
                part,
                f"the prefix with schema {part.value.schema} is written twice",
                hint="pass the value itself to the serializer, or its bytes on without another one",
                cause=part.value.schema,
            )
