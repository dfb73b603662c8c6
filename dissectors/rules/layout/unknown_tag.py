"""L014: a tagged field that the schemas do not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis.tags import tag_of_other_version
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.tag_buffers import structs_with_tags
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@dataclass(slots=True)
class _ReportedTags:
    """Tags that were reported in this run: a peer that sends a tag sends it in every message."""

    tags: BoundedDict[tuple[int, bool, int], None] = field(default_factory=lambda: BoundedDict(1000))


@rule("L014", severity=Severity.INFO, events=(RequestReceived, ResponseReceived), only=FrameFlags.TAGGED, since="0.1")
def unknown_tag(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports a tagged field that no Kafka release known to kproxy has.

    ## Why it matters
    Unknown tags are allowed: readers skip them by their size (KIP-482). But some released readers fail on them, so
    this helps if a peer "suddenly" cannot read a response.

    ## Usual cause
    A peer newer than kproxy's schemas, or a vendor-specific field.

    ## Example
    ```story
    > Metadata v9 {"topics": []}
    < {"brokers": [], "topics": [], "_tags": [[77, "00 01"]]}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}], "finalized_features_epoch": 7}    # tag 1 is known
    # tag 1 exists from version 15 on: L015
    > Fetch v12 {"_tags": [[1, "00 00 00 01 00 00 00 00 00 00 00 01 00"]]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/IBM/sarama/issues/2107
    """
    message = event.message
    assert message is not None  # the rule gets only frames that decode
    for path, _, row in structs_with_tags(message):
        for tag, data in row.get("_tags", ()):
            reported = connection.run.state(_ReportedTags).tags
            if (key := (message.api_key, message.is_request, tag)) in reported or tag_of_other_version(
                message, path, tag
            ):
                continue
            reported[key] = None
            yield Problem(
                f"{message.api} v{message.version} carries tag {tag} ({count_text(len(data), 'byte')}), "
                "which no Kafka release known to kproxy has; readers must skip it",
                **locate(message, *path, "_tags", f"tag {tag}"),
                hint="this is harmless unless a peer fails on it: kproxy schemas import RELEASE adds a newer Kafka",
                cause=str(tag),
            )
