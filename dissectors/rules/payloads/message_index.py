"""P007: Protobuf message indexes that lead to no message."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import parts_with_problem, problem_text, record_problem, schema_name
from dissectors.trackers.state import ConnectionState
from dissectors.values import ProblemKind


@rule("P007", severity=Severity.ERROR, events=(RecordsDecoded,), since="0.1")
def message_index(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the message indexes before a Protobuf value lead to a message of its schema.

    ## Why it matters
    The indexes say which message of the schema the bytes encode. Consumers fail, or parse the bytes as another message.

    ## Usual cause
    A writer that leaves them out, counts from 1, writes fixed-width integers or plain varints instead of zigzag ones,
    or a gateway that removes them with the id and writes the id alone.

    ## Example
    ```story
    schema 17 orders-value PROTOBUF syntax = "proto3";
      message Order { int64 id = 1; } message Note { string text = 1; }
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 02 04 08 05"}}]}]}]}]}
    ```

    ## Look-alikes
    The first message in its short form and in its long one, and the second message:
    ```story
    schema 17 orders-value PROTOBUF syntax = "proto3";
      message Order { int64 id = 1; } message Note { string text = 1; }
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 00 08 05"}}, {"value": {"hex": "00 00000011 02 00 08 05"}},
      {"value": {"hex": "00 00000011 02 02 0a 01 61"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    for part in parts_with_problem(event, ProblemKind.MESSAGE_INDEX):
        yield record_problem(
            event,
            part,
            f"{schema_name(part)}: {problem_text(part)}",
            hint="write the count and the indexes as zigzag varints, or a zero byte for the first message",
            cause=part.value.schema,
        )
