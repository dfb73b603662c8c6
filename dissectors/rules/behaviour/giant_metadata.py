"""S010: a client that repeatedly fetches Metadata of all topics, 1 MB or more each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

GIANT = Limit("bytes", 1 << 20, "bytes", "Metadata responses about all topics have at least so many bytes")
TIMES = Limit("responses", 3, "responses", "so many of them to a client")
#: Clients refresh every five or ten minutes anyway.
WITHIN = Limit("within", 1800, "s", "within this time")

MAX_CLIENTS = 1_000


@dataclass(slots=True)
class _ResponseCount:
    since: int
    count: int = 0


@dataclass(slots=True)
class _GiantResponses:
    """Giant responses per client (host and client id)."""

    by_client: BoundedDict[tuple[str, str | None], _ResponseCount] = field(
        default_factory=lambda: BoundedDict(MAX_CLIENTS)
    )


@rule(
    "S010",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Metadata",),
    limits=(
        GIANT,
        TIMES,
        WITHIN,
    ),
    since="0.1",
    blame="client",
)
def giant_metadata(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client does not repeatedly fetch Metadata of all topics if that exceeds 1 MB each time.

    ## Why it matters
    The broker builds the response and the client parses it at every refresh and after many errors, and in all instances
    at once when a broker goes down. This has taken down brokers and kept clients from starting.

    ## Usual cause
    A client that requests all Metadata by default but uses only a few topics: Sarama's `Metadata.Full`, librdkafka
    with `topic.metadata.refresh.sparse=false`, a consumer that subscribes by pattern, or a monitor that polls.

    ## Example
    ```story
    > Metadata v1 {"topics": null}
    < {"topics": {"repeat": [{"name": {"repeat": "n", "times": 240}}], "times": 4500}}
    +5m
    > Metadata v1 {"topics": null}
    < {"topics": {"repeat": [{"name": {"repeat": "n", "times": 240}}], "times": 4500}}
    +5m
    > Metadata v1 {"topics": null}
    < {"topics": {"repeat": [{"name": {"repeat": "n", "times": 240}}], "times": 4500}}
    ```

    ## Look-alikes
    The client requests all topics once:
    ```story
    > Metadata v1 {"topics": null}
    < {"topics": {"repeat": [{"name": {"repeat": "n", "times": 240}}], "times": 4500}}
    > Metadata v1 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders"}]}
    > Metadata v1 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders"}]}
    ```

    ## Sources
    https://github.com/linkedin/kafka/issues/251
    https://github.com/cockroachdb/cockroach/issues/114740
    https://github.com/IBM/sarama/issues/274
    """
    message = event.message
    if (
        event.size < connection.run.limit(GIANT)
        or message is None
        or event.request is None
        or event.request_body is None
    ):
        return
    requested = event.request_body.get("topics")
    # version 0 has no null: there, an empty list requests all topics
    if requested is not None and (requested or message.version > 0):
        return
    client_id = event.request.message.client_id
    responses = connection.run.state(_GiantResponses).by_client.touch(
        (host_of(connection.client), client_id), lambda: _ResponseCount(event.at)
    )
    if event.at - responses.since > connection.run.limit(WITHIN) * SECOND:
        responses.since, responses.count = event.at, 0
    responses.count += 1
    if responses.count >= connection.run.limit(TIMES):
        yield Problem(
            f"client {client_id!r} requested Metadata of all {len(message.body['topics'])} topics {responses.count} "
            f"times in {(event.at - responses.since) / 1e9:.0f} s, which is {event.size / 1e6:.1f} MB each time",
            path="topics",
            hint="make the client request only the topics it uses: Metadata.Full=false (Sarama), "
            "topic.metadata.refresh.sparse=true (librdkafka)",
        )
