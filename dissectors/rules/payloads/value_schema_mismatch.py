"""P008: bytes that do not fit the schema that they name."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import parts_with_problem, problem_text, record_problem, schema_name
from dissectors.trackers.state import ConnectionState
from dissectors.values import ProblemKind


@rule("P008", severity=Severity.ERROR, events=(RecordsDecoded,), since="0.1")
def value_schema_mismatch(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that keys and values fit the schema that they name.

    Fields that the Protobuf message does not define are reported only if the value has no others, or if the bytes fit
    another message of the schema: Protobuf keeps unknown fields when a message is passed on.

    ## Why it matters
    Consumers cannot decode the record, or decode the wrong fields.

    ## Usual cause
    The value was written with another schema, as another message of the schema, in another format (JSON under the id
    of an Avro schema), or it was cut off.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 ff"}}]}]}]}]}
    ```

    ## Look-alikes
    An Avro union, and a Protobuf message whose reader knows fewer fields than its writer:
    ```story
    schema 16 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": ["null", "long"]}]}
    schema 17 orders-value PROTOBUF syntax = "proto3";
      message Order { int64 id = 1; } message Note { string text = 1; }
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000010 02 22"}}, {"value": {"hex": "00 00000011 00 08 05 10 01"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    https://protobuf.dev/programming-guides/proto3/#unknowns
    """
    for part in parts_with_problem(event, ProblemKind.DOES_NOT_FIT):
        yield record_problem(
            event,
            part,
            f"{schema_name(part)}: {problem_text(part)}",
            hint="compare the schema that the producer uses with the one that the id names",
            cause=part.value.schema,
        )
