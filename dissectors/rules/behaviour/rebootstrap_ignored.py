"""S079: a client that keeps its connections after REBOOTSTRAP_REQUIRED."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.schemas.codes import Error
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

REBOOTSTRAP_REQUIRED = Error.REBOOTSTRAP_REQUIRED

#: A client has this long to close the connection.
GRACE = Limit("grace", 5, "s", "the client uses the connection so long after the error", 0.1)

_HINT = (
    "the client must close its connections, resolve bootstrap.servers again and connect to those: upgrade it, "
    "and check that its metadata.recovery.strategy is rebootstrap"
)
_MAX_CLIENTS = 10_000


class _Rebootstraps(BoundedDict[str, tuple[int, str]]):
    """When each connection got the error (ns), and the API whose response had it."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "S079",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived, ConnectionEnded),
    only=FrameFlags.REFUSED,
    limits=(GRACE,),
    since="0.1",
    blame="client",
)
def rebootstrap_ignored(
    event: RequestReceived | ResponseReceived | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that a client leaves the brokers that it knows after REBOOTSTRAP_REQUIRED.

    Metadata has the error from version 13 on (KIP-1102): proxies and services send it when they move a client to other
    brokers; Kafka's own brokers do not. ApiVersions has it from version 5 on (KIP-1242): the address leads to another
    broker, or another cluster, than the client expects.

    ## Why it matters
    The brokers that the client knows are about to go, or belong to another cluster. A client that stays keeps using the
    old leaders, stops working when they are gone, and does not find the new ones.

    ## Usual cause
    `metadata.recovery.strategy=none`; a client that adds its bootstrap servers to the brokers that it knows, but keeps
    its connections (librdkafka, issue 5605); one that does not know the error and retries Metadata.

    ## Example
    ```story
    > Metadata v13 {"topics": null}
    < {"error_code": 129}
    +6s
    > Produce v9 {"acks": 1, "topic_data": []}
    ```

    ## Look-alikes
    A client that reconnects to its bootstrap server:
    ```story
    > Metadata v13 {"topics": null}
    > Produce v9 {"acks": 1, "topic_data": []}
    < {"error_code": 129}
    < {"responses": []}
    close by=client
    +6s
    2> Metadata v13 {"topics": null}
    2< {"brokers": []}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1102%3A+Enable+clients+to+rebootstrap+based+on+timeout+or+error+code
    https://github.com/apache/kafka/pull/17720
    https://github.com/confluentinc/librdkafka/issues/5605
    https://github.com/twmb/franz-go/pull/1445
    """
    rebootstraps = connection.run.state(_Rebootstraps)
    key = connection.connection_id
    if isinstance(event, ResponseReceived):
        message = event.message
        if message is not None and message.body.get("error_code") == REBOOTSTRAP_REQUIRED and key not in rebootstraps:
            rebootstraps[key] = event.at, message.api
            connection.run.subscribe("S079")
        return
    if key not in rebootstraps:
        return
    error_at, api = rebootstraps[key]
    if isinstance(event, RequestReceived):
        if event.at - error_at < connection.run.limit(GRACE) * SECOND:
            return
        yield Problem(
            f"{client_label(connection)} sends {event.message.api} to {connection.server} "
            f"{(event.at - error_at) / SECOND:.1f} s "
            f"after the {api} response with REBOOTSTRAP_REQUIRED, on the same connection",
            hint=_HINT,
            expected="new connections to the bootstrap servers",
            got=f"{event.message.api} on the old connection",
            cause=connection.client_id or "",
        )
    del rebootstraps[key]
    if not rebootstraps:
        connection.run.unsubscribe("S079")
