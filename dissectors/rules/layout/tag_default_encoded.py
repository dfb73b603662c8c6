"""L018: a tagged field that is written with its default value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.tag_buffers import is_default, structs_with_tags
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@dataclass(slots=True)
class _ReportedFields:
    """Fields that were reported in this run: a peer that writes a default writes it in every message."""

    fields: BoundedDict[tuple[int, bool, str], None] = field(default_factory=lambda: BoundedDict(1000))


@rule("L018", severity=Severity.INFO, events=(RequestReceived, ResponseReceived), only=FrameFlags.TAGGED, since="0.1")
def tag_default_encoded(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a tagged field was written although it has its default value.

    ## Why it matters
    Nothing breaks, but the field costs bytes in every element, and Kafka itself omits it. A reader that treats
    presence as a signal (for example a current leader of -1) acts on it.

    ## Usual cause
    A handwritten encoder that writes every tagged field it knows.

    ## Example
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}], "finalized_features_epoch": -1}
    ```
    ```story
    > Fetch v12 {"topics": [{"topic": "a", "partitions": [{}]}]}
    < {"responses": [{"topic": "a", "partitions": [{"current_leader": {"leader_id": -1, "leader_epoch": -1}}]}]}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}], "finalized_features_epoch": 0}
    > Fetch v12 {"topics": [{"topic": "a", "partitions": [{}]}]}
    < {"responses": [{"topic": "a", "partitions": [{"current_leader": {"leader_id": 1, "leader_epoch": -1}}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/redpanda-data/redpanda/issues/11443
    """
    message = event.message
    assert message is not None  # the rule gets only frames that decode
    for path, layout, row in structs_with_tags(message):
        for tagged_field in layout.tagged:
            if tagged_field.name not in row or not is_default(tagged_field, row[tagged_field.name]):
                continue
            reported = connection.run.state(_ReportedFields).fields
            if (key := (message.api_key, message.is_request, tagged_field.name)) in reported:
                continue
            reported[key] = None
            yield Problem(
                f"{message.api} v{message.version} writes the tagged field {tagged_field.name} with its default value, "
                "which should be omitted",
                **locate(message, *path, "_tags", tagged_field.name),
                hint="write a tagged field only if its value differs from the default",
                blame="client" if message.is_request else "broker",
            )
