"""P006: bytes after an Avro value."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import parts_with_problem, problem_text, record_problem, schema_name
from dissectors.trackers.state import ConnectionState
from dissectors.values import ProblemKind


@rule("P006", severity=Severity.ERROR, events=(RecordsDecoded,), since="0.1")
def leftover_bytes(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that an Avro value ends with its last field.

    ## Why it matters
    The value was probably not written with the schema that its id names, so its fields may be wrong as well. Consumers
    ignore the extra bytes, so nobody notices.

    ## Usual cause
    A producer that encodes with a newer schema but writes the id of the old one, or a gateway that appends bytes.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22 04"}}]}]}]}]}
    ```

    ## Look-alikes
    A value of several bytes, and one without any:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"},
      {"name": "n", "type": "string"}]}
    schema 18 orders-value {"type": "record", "name": "Nothing", "fields": []}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22 0261"}},
      {"value": {"hex": "00 00000012"}}]}]}]}]}
    ```

    ## Sources
    https://avro.apache.org/docs/1.12.0/specification/#data-serialization-and-deserialization
    """
    for part in parts_with_problem(event, ProblemKind.LEFTOVER):
        yield record_problem(
            event,
            part,
            f"{schema_name(part)}: {problem_text(part)}",
            hint="encode the value with the schema whose id it has",
            cause=part.value.schema,
        )
