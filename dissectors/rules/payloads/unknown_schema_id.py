"""P001: an id of a schema that nobody registered."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import (
    broken_prefix,
    parts_with_problem,
    problem_text,
    record_problem,
    schema_list,
)
from dissectors.trackers.schema_uses import MIN_RECORDS, SchemaUses
from dissectors.trackers.state import ConnectionState
from dissectors.values import ProblemKind


@rule("P001", severity=Severity.ERROR, events=(RecordsDecoded,), needs=(SchemaUses,), since="0.1")
def unknown_schema_id(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the schema ids in keys and values are registered.

    Nothing marks a prefix as such, so on a topic without a known id, three records must have the same unknown id, and
    the severity is warning. A directory given by `--schemas` may lack registered schemas: the severity is then info,
    and the rule applies only to a topic with three records whose ids are in the directory.

    ## Why it matters
    Consumers fetch the schema with the id. Without it they cannot decode the record, and most stop at it.

    ## Usual cause
    The producer and the consumers use different registries, the schema was deleted, the registry was restored from an
    old backup, or a gateway copied the id wrongly.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000012 22"}}]}]}]}]}
    ```

    ## Look-alikes
    Eight-byte numbers whose first five bytes look like a prefix:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 000001 9b76daa8"}},
      {"value": {"hex": "00 000001 9b76dab0"}},
      {"value": {"hex": "00 000001 9b76dac0"}}]}]}]}]}
    ```

    A single record that may begin with a zero byte by chance:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000012 22"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    yield from _unlisted_problems(event, connection)
    for part in parts_with_problem(event, ProblemKind.NOT_REGISTERED):
        schemas = connection.run.state(SchemaUses).for_part(part)
        key = part.value.schema
        is_certain = schemas.is_established or not part.value.is_guess
        if key is None or not (is_certain or schemas.unregistered.get(key, 0) >= MIN_RECORDS):
            continue
        prefix_fault = broken_prefix(part.data, schemas)
        used_text = f"; other records of the topic have {schema_list(schemas.used)}" if schemas.used else ""
        yield record_problem(
            event,
            part,
            f"nobody registered the schema with {key}{used_text}" + (f": {prefix_fault}" if prefix_fault else ""),
            hint="compare the registry of the producer with that of the consumers, and register the schema again",
            severity=None if is_certain else Severity.WARNING,
            cause=key,
            expected="the id of a registered schema",
            got=str(key),
        )


def _unlisted_problems(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    for part in parts_with_problem(event, ProblemKind.NOT_LISTED):
        schemas = connection.run.state(SchemaUses).for_part(part)
        if schemas.is_established:
            prefix_fault = broken_prefix(part.data, schemas)
            yield record_problem(
                event,
                part,
                f"{problem_text(part)}; other records of the topic have {schema_list(schemas.used)}"
                + (f": {prefix_fault}" if prefix_fault else ""),
                hint="put the schema into the directory; if the registry does not have it, the producer's id is wrong",
                severity=None if prefix_fault else Severity.INFO,
                cause=part.value.schema,
                got=str(part.value.schema),
            )
