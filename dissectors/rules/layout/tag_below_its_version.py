"""L015: a tagged field that only a later version has."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis import certain_diagnosis
from dissectors.diagnosis.tags import tag_of_other_version
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.tag_buffers import structs_with_tags
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule("L015", severity=Severity.ERROR, events=(RequestReceived, ResponseReceived), only=FrameFlags.TAGGED, since="0.1")
def tag_below_its_version(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that no tagged field is written in a version that does not have it yet.

    ## Why it matters
    Kafka's own classes skip unknown tags, but refuse a known tag in the wrong version ("Tag 1 is not valid for version
    3"). Others read its value into a field that should not exist.

    ## Usual cause
    A client library that writes a tagged field whenever its value is set, regardless of the version.

    ## Example
    ```story
    # tag 1 is replica_state, added in version 15
    > Fetch v12 {"_tags": [[1, "00 00 00 01 00 00 00 00 00 00 00 01 00"]]}
    ```

    ## Look-alikes
    ```story
    > Fetch v15 {"replica_state": {"replica_id": 1, "replica_epoch": 1}}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/redpanda-data/redpanda/issues/31663
    """
    message = event.message
    if message is None:
        return
    for path, _layout, row in structs_with_tags(message):
        for tag, _data in row.get("_tags", ()):
            tagged_field = tag_of_other_version(message, path, tag)
            if tagged_field is None:
                continue
            location = locate(message, *path, "_tags", f"tag {tag}")
            origin = f"{tagged_field.name}, added in version {tagged_field.version}"
            sentence = f"{message.api} v{message.version} carries tag {tag}: {origin}"
            hint = f"do not write {tagged_field.name} below version {tagged_field.version}"
            yield Problem(
                sentence,
                **location,
                hint=hint,
                blame="client" if message.is_request else "broker",
                diagnosis=certain_diagnosis(
                    tagged_field.edit, location["path"], location["start"], location["end"], sentence, hint
                ),
            )
