"""L034: several edits explain a frame equally well."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis import wording
from dissectors.diagnosis.diagnose import right_layout
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Below this confidence, the alternatives are reported.
_CERTAIN = 0.95


@rule(
    "L034",
    severity=Severity.INFO,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def ambiguous_diagnosis(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Reports that several layout errors explain a frame equally well, and lists them.

    ## Why it matters
    The first one listed may be wrong: the bytes alone cannot tell, for example if all values are zero.

    ## Usual cause
    A short or empty response. Inspect a response with more content of the same API and version.

    ## Example
    ```story
    > Heartbeat v4 {"group_id": "g"}
    # a byte is missing: the header's tag buffer, or the body's
    < hex 0000000b 00000001 00000000 000000
    ```

    ## Look-alikes
    ```story
    > Heartbeat v4 {"group_id": "g"}
    < {"error_code": 27}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    """
    message = event.message
    diagnosis = message.diagnosis if message is not None else None
    if message is None or diagnosis is None or diagnosis.confidence >= _CERTAIN or not diagnosis.rivals:
        return
    correct_layout = right_layout(message)
    if correct_layout is None:
        return
    alternatives = "; or ".join(
        f"{wording.sentence(rival.edit, correct_layout)} ({rival.confidence:.0%})" for rival in diagnosis.rivals[:3]
    )
    yield Problem(
        f"{diagnosis.sentence} is only {diagnosis.confidence:.0%} likely; alternatives: {alternatives}",
        diagnosis.start,
        diagnosis.end,
        diagnosis.path or None,
        "inspect a frame of the same API and version with more content",
        blame="client" if message.is_request else "broker",
    )
