"""E001: a broker refused a request with an error that does not go away by itself."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.refusals import UNKNOWN, Nature
from dissectors.rules import rule
from dissectors.rules.helpers.refused import (
    ReturnedError,
    broker_text,
    client_name,
    drop_partition,
    refusals,
    target_text,
    targets_text,
    values_text,
)
from dissectors.rules.refusals.invalid_request import explain_errors
from dissectors.rules.refusals.owners import has_owner_reported
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "E001",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    only=FrameFlags.REFUSED,
    since="0.1",
)
def request_refused(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a broker does not refuse a request with an error that does not go away by itself.

    ## Why it matters
    The same request gets the same error until somebody changes something. Some clients retry nevertheless, others drop
    the records or stop. It is an error if records are lost or a client cannot work, a warning if one call failed, and
    info if there is nothing to do. Retriable errors are reported if they repeat (E002).

    ## Usual cause
    The message says what the error means for this API, who usually has to change something, and what the broker says
    in `error_message`.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"key": "k", "value": "v"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 87, "base_offset": -1,
      "record_errors": [{"batch_index": 0, "batch_index_error_message": "timestamp is out of range"}]}]}]}
    ```
    ```story
    > JoinGroup v5 {"group_id": "billing", "session_timeout_ms": 1000}
    < {"error_code": 26}
    ```

    ## Look-alikes
    An error after which clients retry, and one that another rule explains (X014):
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"key": "k", "value": "v"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 6, "base_offset": -1}]}]}
    > Metadata v9 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "error_code": 29}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/protocol/Errors.java
    """
    if event.message is None or event.request is None:
        return
    final_errors = [
        refusal
        for refusal in refusals(event)
        if refusal.judgement.nature is Nature.FINAL and refusal.judgement is not UNKNOWN
    ]
    by_error: dict[int, list[ReturnedError]] = {}
    for refusal, explanation in explain_errors(event, final_errors):
        if not explanation:
            by_error.setdefault(refusal.code, []).append(refusal)
    for errors in by_error.values():
        if not has_owner_reported(errors[0], connection, since=event.request.at):
            yield _problem(event, errors, connection)


def _problem(event: ResponseReceived, errors: list[ReturnedError], connection: ConnectionState) -> Problem:
    assert event.message is not None
    first = errors[0]
    return Problem(
        f"{event.message.api} of {client_name(connection)} was refused with {first.name}"
        f"{targets_text([error.target for error in errors], connection)}{values_text(event, first)}: "
        f"{first.judgement.meaning}{broker_text(event, first)}",
        **locate(event.message, *first.path),
        hint=first.judgement.change,
        blame=first.judgement.blame,
        severity=Severity(first.judgement.harm.value),
        cause=f"{first.name} {target_text(drop_partition(first.target), connection)}",
    )
