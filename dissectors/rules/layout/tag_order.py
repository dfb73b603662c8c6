"""L016: tags that are not in ascending order."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis import certain_diagnosis
from dissectors.edits import Edit
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.decode_warnings import sender_of, warning_location, warnings_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.paths import schema_path


@rule(
    "L016",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def tag_order(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that tags in a tag buffer are unique and in ascending order.

    ## Why it matters
    Kafka's own classes refuse a tag that is not greater than the previous one ("Invalid or out-of-order tag").

    ## Usual cause
    Tagged fields are written in hash table order, or in source order.

    ## Example
    ```story
    # two tags of FetchRequest v15, 1 before 0
    > hex 0000003a 0001000f 00000001 00036170 70000000 00000000 00007fff ffff0000 000000ff
          ffffff01 01010201 0d000000 01000000 00000000 01000002 0263
    ```

    ## Look-alikes
    ```story
    > Fetch v15 {"cluster_id": "c", "replica_state": {"replica_id": 1, "replica_epoch": 1}}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/dpkp/kafka-python/issues/2725
    """
    message = event.message
    if message is None:
        return
    for warning in warnings_of(message, "tag_order"):
        location = warning_location(message, warning)
        sentence = f"{message.api} v{message.version}: {warning.message}; tags must ascend"
        hint = "write tags in ascending order, each once"
        edit = Edit.of("tag_order", schema_path(warning.path), tag=int(warning.message.split()[1]))
        yield Problem(
            sentence, **location, hint=hint, blame=sender_of(message),
            diagnosis=certain_diagnosis(edit, location["path"], location["start"], location["end"], sentence, hint),
        )  # fmt: skip
