"""E003: a request that was refused as invalid, explained by the validation of Kafka's own handlers."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.refusals.validation import Violation, violations
from dissectors.rules import rule
from dissectors.rules.helpers.refused import (
    ReturnedError,
    broker_text,
    client_name,
    drop_partition,
    one_line,
    refusals,
    target_text,
    targets_text,
)
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MAX_VIOLATIONS = 4
_MAX_TEXT = 300


@rule(
    "E003",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    only=FrameFlags.REFUSED,
    since="0.1",
    blame="client",
)
def invalid_request(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks what is wrong with a request that a broker refused as invalid (INVALID_REQUEST, INVALID_PARTITIONS, ...).

    ## Why it matters
    The error code does not name the field, and many versions of the protocol have no message for it. This rule applies
    the validation of Kafka's handlers to the request that was refused, and names the fields. If it finds nothing, E001
    reports the error.

    ## Usual cause
    A client whose author took a default for valid: a field that may be null but not in the first request, counts next
    to an assignment, or acknowledgements before there is a session.

    ## Example
    A member that joins with epoch 0 must send all fields:
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_epoch": 0, "rebalance_timeout_ms": -1,
      "subscribed_topic_names": null, "topic_partitions": null}
    < {"error_code": 42}
    ```
    ```story
    > CreateTopics v5 {"topics": [{"name": "orders", "num_partitions": 1, "replication_factor": -1, "assignments": [
      {"partition_index": 0, "broker_ids": [1]}]}]}
    < {"topics": [{"name": "orders", "error_code": 42}]}
    ```

    ## Look-alikes
    ```story
    > ConsumerGroupHeartbeat v0 {"group_id": "orders", "member_epoch": 0, "rebalance_timeout_ms": 300000,
      "subscribed_topic_names": ["orders"], "topic_partitions": []}
    < {"error_code": 42}
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/5541
    https://github.com/tulios/kafkajs/issues/1162
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-848%3A+The+Next+Generation+of+the+Consumer+Rebalance+Protocol
    """
    reported: set[tuple[str, ...]] = set()
    for refusal, error_violations in explain_errors(event, refusals(event)):
        texts = tuple(violation.text for violation in error_violations)
        if error_violations and texts not in reported:
            reported.add(texts)
            yield _problem(event, refusal, error_violations, connection)


def explain_errors(
    event: ResponseReceived, refused: list[ReturnedError]
) -> list[tuple[ReturnedError, list[Violation]]]:
    """Return a response's errors, each with the violations that explain it. If both name a topic, it is the same."""
    if event.request is None or event.request_body is None:
        return [(error, []) for error in refused]
    message = event.request.message
    by_code: dict[int, dict[str, list[Violation]]] = {}
    for code in {error.code for error in refused}:
        by_code[code] = {}
        for violation in violations(message.api, message.body, message.version, code):
            by_code[code].setdefault(violation.target, []).append(violation)
    explanations = []
    for error in refused:
        violations_by_target = by_code[error.code]
        names = (
            [name for _, name in error.target if name in violations_by_target]
            if error.target
            else list(violations_by_target)
        )
        error_violations = [
            *violations_by_target.get("", ()),
            *(violation for name in names if name for violation in violations_by_target[name]),
        ]
        explanations.append((error, error_violations))
    return explanations


def _problem(
    event: ResponseReceived, refusal: ReturnedError, error_violations: list[Violation], connection: ConnectionState
) -> Problem:
    assert event.message is not None
    premise = f"{error_violations[0].premise}, but " if error_violations[0].premise else ""
    if len(texts := [violation.text for violation in error_violations]) > _MAX_VIOLATIONS:
        texts = [*texts[:_MAX_VIOLATIONS], f"{len(texts) - _MAX_VIOLATIONS} more"]
    return Problem(
        f"{event.message.api} of {client_name(connection)} was refused with {refusal.name}"
        f"{targets_text([refusal.target], connection)}: "
        f"{one_line(premise + ', '.join(texts), _MAX_TEXT)}{broker_text(event, refusal)}",
        **locate(event.message, *refusal.path),
        hint="; ".join(dict.fromkeys(violation.change for violation in error_violations[:_MAX_VIOLATIONS])),
        cause=f"{refusal.name} {target_text(drop_partition(refusal.target), connection)}",
    )
