"""P004: keys or values without the schema id that others in their topic have."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import broken_prefix, record_problem, schema_list
from dissectors.trackers.schema_uses import SchemaUses
from dissectors.trackers.state import ConnectionState
from dissectors.values.streams_topics import FORMAT


@rule("P004", severity=Severity.ERROR, events=(RecordsDecoded,), needs=(SchemaUses,), since="0.1")
def schema_id_lost(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that keys and values have a schema id if others in their topic do.

    At least three records of the topic must have decoded with the schema whose id they have. Nulls and empty values do
    not count.

    ## Why it matters
    Deserializers that expect the id refuse the record ("Unknown magic byte"), and most consumers stop at it.

    ## Usual cause
    A producer without the topic's serializer, a gateway that removes the prefix, or one that writes it in another
    form: in little-endian order, without the zero byte, or as base64.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "22"}}]}]}]}]}
    ```

    ## Look-alikes
    Tombstones; keys without a schema beside values with one; a topic in which only a few records seem to have a prefix:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}, "key": {"hex": "61"}},
      {"value": {"hex": "00 00000011 22"}, "key": {"hex": "62"}},
      {"value": {"hex": "00 00000011 22"}, "key": {"hex": "63"}},
      {"value": null, "key": {"hex": "61"}},
      {"value": {"hex": "00 00000011 22"}, "key": {"hex": "64"}}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "other", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "22"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    for part in event.parts:
        schemas = connection.run.state(SchemaUses).for_part(part)
        if part.value.schema is not None or part.value.format in ("empty", FORMAT) or not schemas.is_established:
            continue
        prefix_fault = broken_prefix(part.data, schemas)
        yield record_problem(
            event,
            part,
            f"no schema id, but other records of the topic have {schema_list(schemas.used)}"
            + (f": {prefix_fault}" if prefix_fault else ""),
            hint="write it with the serializer of the topic's other producers, or to another topic",
            expected="a zero byte, then a 4-byte schema id",
        )
