"""E004: an error code that no Kafka release defines."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.refusals import UNKNOWN
from dissectors.rules import rule
from dissectors.rules.helpers.refused import broker_text, client_name, refusals, targets_text
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule("E004", severity=Severity.ERROR, events=(ResponseReceived,), only=FrameFlags.REFUSED, since="0.1", blame="broker")
def unknown_error_code(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a broker returns only error codes that Kafka defines.

    ## Why it matters
    Clients treat an unknown code as UNKNOWN_SERVER_ERROR, which most do not retry; some fail to decode the response.

    ## Usual cause
    A broker or gateway with codes of its own, or one that writes another number into the field, e.g. an HTTP status.

    ## Example
    ```story
    > Heartbeat v4 {"group_id": "g", "member_id": "m"}
    < {"error_code": 503}
    ```

    ## Look-alikes
    ```story
    > Heartbeat v4 {"group_id": "g", "member_id": "m"}
    < {"error_code": 27}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    """
    message = event.message
    reported = set()
    for refusal in refusals(event):
        if refusal.judgement is UNKNOWN and message is not None and refusal.code not in reported:
            reported.add(refusal.code)
            yield Problem(
                f"{message.api} of {client_name(connection)} was refused with error code {refusal.code}"
                f"{targets_text([refusal.target], connection)}: {UNKNOWN.meaning}{broker_text(event, refusal)}",
                **locate(message, *refusal.path),
                hint=UNKNOWN.change,
                got=str(refusal.code),
                cause=str(refusal.code),
            )
