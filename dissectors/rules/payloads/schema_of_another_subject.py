"""P002: a schema of another topic."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import record_problem, schema_name
from dissectors.trackers.schema_uses import SchemaUses
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.subjects import has_foreign_subject


@rule("P002", severity=Severity.WARNING, events=(RecordsDecoded,), needs=(SchemaUses,), since="0.1")
def schema_of_another_subject(event: RecordsDecoded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that records have schemas of their own topic if others in the topic do.

    Subjects are compared with `TOPIC-key` and `TOPIC-value`. A topic whose name contains the other topic's name, or is
    contained in it, may have its records, like a dead letter queue or a mirrored topic.

    ## Why it matters
    The record decodes, but not as the topic's consumers expect: fields are missing or have another meaning.

    ## Usual cause
    A gateway or a producer keeps one schema id for several topics, or the ids of two topics are swapped in a
    configuration.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    schema 18 payments-value {"type": "record", "name": "Payment", "fields": [{"name": "sum", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000012 22"}}]}]}]}]}
    ```

    ## Look-alikes
    Subjects named after records, and a topic with records that failed elsewhere:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    schema 18 shop.Payment {"type": "record", "name": "shop.Payment", "fields": [{"name": "sum", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000012 22"}}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders-retry", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}},
      {"value": {"hex": "00 00000011 22"}}]}]}]}]}
    ```

    ## Sources
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    for part in event.parts:
        schemas = connection.run.state(SchemaUses).for_part(part)
        if part.topic is None or not schemas.has_own_subject or not has_foreign_subject(part):
            continue
        subject = part.value.subject
        yield record_problem(
            event,
            part,
            f"{schema_name(part)} belongs to {subject}, but other records of the topic have a schema of "
            f"{part.topic}-{part.part}",
            hint="compare the record with its schema: it may have been encoded for another topic",
            cause=part.value.schema,
            expected=f"{part.topic}-{part.part}",
            got=subject,
        )
