"""P010: a schema that cannot read the records of an earlier schema of its subject."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import record_problem
from dissectors.trackers.schema_uses import SchemaUses
from dissectors.trackers.state import ConnectionState
from dissectors.values.compatibility import conflict


@rule("P010", severity=Severity.ERROR, events=(RecordsDecoded,), needs=(SchemaUses,), since="0.1")
def incompatible_schemas(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the schemas of a topic's records are compatible with each other.

    If only consumers with the new schema cannot read old records, the severity is info: FORWARD compatibility allows
    that.

    ## Why it matters
    Records of both schemas are in the topic at the same time. A consumer with either schema cannot read all of them.

    ## Usual cause
    The subject's compatibility is NONE, or the registry compared the schema with the last version alone.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    schema 18 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}}, {"value": {"hex": "00 00000012 0261"}}]}]}]}]}
    ```

    ## Look-alikes
    A wider number, a new field with a default, and another record type in the same topic:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [
      {"name": "id", "type": "int"}, {"name": "x", "type": "int"}]}
    schema 18 orders-value {"type": "record", "name": "Order", "fields": [
      {"name": "id", "type": "long"}, {"name": "n", "type": ["null", "string"], "default": null}]}
    schema 19 orders-value {"type": "record", "name": "Note", "fields": [{"name": "text", "type": "string"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22 02"}}, {"value": {"hex": "00 00000012 22 00"}},
      {"value": {"hex": "00 00000013 0261"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/schema-evolution.html
    https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
    """
    for part, earlier_schemas in connection.run.state(SchemaUses).new:
        if part.schema is None or part.value.schema is None:
            continue
        for key, schema in earlier_schemas.items():
            if schema.subject != part.schema.subject or key.form != part.value.schema.form:
                continue
            pair = [(key.value, schema), (part.value.schema.value, part.schema)]
            if key.form in ("id", "global_id", "content_id"):  # other forms do not tell which schema is newer
                pair.sort(key=lambda item: item[0])
            (old_id, writer), (new_id, reader) = pair
            if (reason := conflict(reader=reader, writer=writer)) is None:
                continue
            is_masked = part.record is None or part.record.masked
            yield record_problem(
                event,
                part,
                f"a consumer with schema {key.form} {new_id} cannot read records with {old_id}"
                + ("" if is_masked else f": {reason}"),
                hint="give new fields a default, keep the types of old ones, or use a new topic",
                severity=Severity.INFO if conflict(reader=writer, writer=reader) is None else None,
                cause=(old_id, new_id),
            )
