"""L028: a subscription that lacks fields of its version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.embedded import consumer
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.helpers.group_payloads import Deviations
from dissectors.rules.helpers.layout_findings import add_payload_diagnosis
from dissectors.rules.helpers.payload_problems import payload_error
from dissectors.trackers.state import ConnectionState


@rule(
    "L028",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=("JoinGroup",),
    since="0.1",
    blame="client",
)
def embedded_subscription_mismatch(event: RequestReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a consumer's subscription in JoinGroup has every field of its stated version.

    ## Why it matters
    The broker does not read it but passes it to the group leader, which may be another client. If that client parses
    strictly, it fails, and the whole group rebalances endlessly, far from the member that wrote it.

    ## Usual cause
    Version 1 written without ``owned_partitions`` (KIP-429), as in kafka-go and sarama-cluster. Lenient readers
    (Sarama) hide the mistake until another kind of client joins the group.

    ## Example
    ```story
    > JoinGroup v2 {"group_id": "g", "protocol_type": "consumer", "protocols":
      [{"name": "range", "metadata": "00 01 00 00 00 01 00 01 61 00 00 00 00"}]}    # ends after user_data
    ```
    ```story
    > JoinGroup v2 {"group_id": "g", "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": ""}]}
    ```

    ## Look-alikes
    ```story
    > JoinGroup v2 {"group_id": "g", "protocol_type": "consumer", "protocols":
      [{"name": "range", "metadata": "00 00 00 00 00 01 00 01 61 00 00 00 00"}]}    # version 0 has no more fields
    > JoinGroup v5 {"group_id": "g", "protocol_type": "consumer", "protocols":
      [{"name": "range", "metadata": {"type": "ConsumerProtocolSubscription", "version": 3,
        "data": {"topics": ["a"]}}}]}
    > JoinGroup v5 {"group_id": "c", "protocol_type": "connect", "protocols": [{"name": "eager", "metadata": "00 01"}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-429
    https://github.com/segmentio/kafka-go/issues/1156
    https://github.com/IBM/sarama/pull/2111
    """
    message = event.message
    body = message.body
    if body.get("protocol_type") != "consumer":
        return
    group = body.get("group_id", "")
    deviations = Deviations(message)
    for index, protocol in enumerate(body.get("protocols") or ()):
        data = protocol.get("metadata") or b""
        if error := payload_error(data, consumer.subscription):
            problem = Problem(
                f"the subscription for {protocol.get('name')!r} that a member sends to group {group!r} {error}",
                **locate(message, "protocols", index, "metadata"),
                hint="write all fields of the subscription's version, or version 0: the leader may fail to read it",
                cause=group,
            )
            yield add_payload_diagnosis(problem, deviations.diagnose_at("protocols", index, "metadata"))
