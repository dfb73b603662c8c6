"""P009: JSON that violates its schema."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import parts_with_problem, problem_text, record_problem, schema_name
from dissectors.trackers.state import ConnectionState
from dissectors.values import ProblemKind


@rule("P009", severity=Severity.ERROR, events=(RecordsDecoded,), since="0.1")
def json_schema_violation(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that JSON values are valid against the JSON Schema that they name.

    ## Why it matters
    Consumers that validate refuse the record. Others find missing or wrong fields.

    ## Usual cause
    A producer that does not validate, or that changed the value but not the schema.

    ## Example
    ```story
    schema 17 orders-value JSON {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 7b7d"}}]}]}]}]}
    ```

    ## Look-alikes
    Additional properties, which schemas allow unless they say otherwise:
    ```story
    schema 17 orders-value JSON {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 7b226964223a352c226e223a317d"}}]}]}]}]}
    ```

    ## Sources
    https://json-schema.org/draft/2020-12/json-schema-validation
    """
    for part in parts_with_problem(event, ProblemKind.VIOLATION):
        yield record_problem(
            event,
            part,
            f"{schema_name(part)}: {problem_text(part)}",
            hint="validate values in the producer, or register the schema that they have",
            cause=part.value.schema,
        )
