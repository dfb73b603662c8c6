"""L037: a payload of a group protocol that does not have the layout of its version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis.diagnose import LIKELY_CONFIDENCE
from dissectors.embedded import consumer
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.helpers.group_payloads import (
    GroupPayload,
    group_payloads,
    payload_deviation,
    payloads_with_same_edit,
)
from dissectors.rules.helpers.layout_findings import add_payload_diagnosis
from dissectors.rules.helpers.payload_problems import payload_error
from dissectors.trackers.state import ConnectionState

_MAX_GROUPS = 10_000
_MAX_REPORTED = 1_000


class _Groups:
    """Each group's protocol type, and the payloads that have already been reported."""

    def __init__(self) -> None:
        self.protocol_types: BoundedDict[str, str] = BoundedDict(_MAX_GROUPS)
        self.reported: BoundedDict[bytes, None] = BoundedDict(_MAX_REPORTED)


@rule(
    "L037",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("JoinGroup", "SyncGroup", "DescribeGroups"),
    since="0.1",
    blame="client",
)
def embedded_payload_layout(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that the payloads of group protocols have the layout of their version.

    It checks the payloads of consumers, Kafka Connect and Kafka Streams, in requests and in responses. L028 and L029
    report consumer payloads in JoinGroup and SyncGroup that end too early.

    ## Why it matters
    Brokers do not read these bytes. The leader of the group reads the subscriptions, and each member its assignment: a
    payload in another layout fails far from the client that wrote it, or is read as other topics and partitions.

    ## Usual cause
    The version is missing, or is not the one whose fields follow, or lengths have the encoding or the width of another
    protocol.

    ## Example
    The version of a subscription is missing:
    ```story
    > DescribeGroups v0 {"groups": ["g"]}
    < {"groups": [{"group_id": "g", "group_state": "Stable", "protocol_type": "consumer", "protocol_data": "range",
      "members": [{"member_id": "m-1", "client_id": "c", "client_host": "/10.0.0.1",
        "member_metadata": "00 00 00 01 00 06 6f 72 64 65 72 73 00 00 00 00",
        "member_assignment": "00 00 00 00 00 00 00 00 00 00"}]}]}
    ```

    ## Look-alikes
    ```story
    > DescribeGroups v0 {"groups": ["g"]}
    < {"groups": [{"group_id": "g", "group_state": "Stable", "protocol_type": "consumer", "protocol_data": "range",
      "members": [{"member_id": "m-1", "client_id": "c", "client_host": "/10.0.0.1",
        "member_metadata": "00 00 00 00 00 01 00 06 6f 72 64 65 72 73 00 00 00 00",
        "member_assignment": "00 00 00 00 00 00 00 00 00 00"}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-429
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-415
    https://github.com/segmentio/kafka-go/issues/1156
    """
    message = event.message
    if message is None:
        return
    groups = connection.run.state(_Groups)
    body = (event.request_body or {}) if isinstance(event, ResponseReceived) else message.body
    group = body.get("group_id", "")
    if message.is_request and message.api == "JoinGroup":
        groups.protocol_types[group] = body.get("protocol_type", "")
    protocol_type = body.get("protocol_type") or groups.protocol_types.get(group)
    payloads = group_payloads(message, protocol_type)
    for payload in payloads:
        if payload.data in groups.reported:
            continue  # the broker passes on what a client sent
        if _is_reported_elsewhere(event, payload, protocol_type):
            groups.reported[payload.data] = None
            continue
        if (diagnosis := payload_deviation(message, payload)) is None:
            continue
        similar_payloads = [payload, *payloads_with_same_edit(payloads, diagnosis.edit)]
        for similar_payload in similar_payloads:
            groups.reported[similar_payload.data] = None
        count_note = f", in {len(similar_payloads)} payloads of this frame" if len(similar_payloads) > 1 else ""
        problem = Problem(
            f"{message.api} v{message.version}: {diagnosis.edit}{count_note}",
            **locate(message, *payload.path),
            hint="write the version first, and every field of that version: members of the group parse these bytes",
            severity=None if diagnosis.confidence >= LIKELY_CONFIDENCE else Severity.WARNING,
            cause=group,
        )
        yield add_payload_diagnosis(problem, diagnosis)
        return


def _is_reported_elsewhere(
    event: RequestReceived | ResponseReceived, payload: GroupPayload, protocol_type: str | None
) -> bool:
    """Return whether L028 or L029 reports the payload."""
    assert event.message is not None
    if protocol_type != "consumer":
        return False
    if event.message.api == "JoinGroup":
        return event.message.is_request and payload_error(payload.data, consumer.subscription) is not None
    if event.message.api == "SyncGroup":
        return event.message.body.get("error_code", 0) == 0 and payload_error(
            payload.data, consumer.assignment
        ) is not None  # fmt: skip
    return False
