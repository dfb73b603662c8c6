"""P003: a value with the schema of keys, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import record_problem, schema_name
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.subjects import has_swapped_subject


@rule("P003", severity=Severity.ERROR, events=(RecordsDecoded,), since="0.1")
def key_value_schemas_swapped(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that keys have a schema for keys, and values a schema for values.

    ## Why it matters
    Consumers decode the key as a value and the value as a key: they fail, or read wrong fields. Partitioning and
    compaction by key are wrong too.

    ## Usual cause
    A producer or gateway passes key and value in the wrong order, or uses one serializer for both with `isKey` set
    wrong.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    schema 18 orders-key {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000012 22"}, "key": {"hex": "00 00000011 22"}}]}]}]}]}
    ```

    ## Look-alikes
    A schema that is registered for both, and one without a name, which any subject may have:
    ```story
    schema 17 orders-key,orders-value {"type": "record", "name": "Id", "fields": [{"name": "id", "type": "long"}]}
    schema 18 orders-key "string"
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000012 0261"}, "key": {"hex": "00 00000011 22"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    for part in event.parts:
        if has_swapped_subject(part):
            other_part = "value" if part.part == "key" else "key"
            yield record_problem(
                event,
                part,
                f"{schema_name(part)} belongs to {part.value.subject}: it is for the {other_part}",
                hint="pass key and value, and the serializers of both, in the right order",
                cause=part.value.schema,
                expected=f"{part.topic}-{part.part}",
                got=part.value.subject,
            )
