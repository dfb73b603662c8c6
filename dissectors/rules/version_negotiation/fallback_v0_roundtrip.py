"""V006: a server that refuses an ApiVersions version without listing those that it serves."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.message import UNSUPPORTED_VERSION
from dissectors.rules import rule
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import Versions, client_key

#: Reported after this many connections of a client to a server.
THRESHOLD = 3


class _Refusals(Recurrence):
    """Counts refusals by server and client."""

    within = 86_400 * SECOND  # connections may last for hours


@rule(
    "V006",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("ApiVersions",),
    needs=(Versions,),
    since="0.1",
    blame="broker",
)
def fallback_v0_roundtrip(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that each connection of a client begins with an ApiVersions refusal that lists no versions.

    A refusal that gives the range of ApiVersions costs one extra request; after this one, the client can only fall
    back to version 0.

    ## Why it matters
    It costs one more round trip per connection, and the client never sends its software name (version 3 has it). Some
    clients could not read the empty or null list.

    ## Usual cause
    Kafka before 2.4, or a server that imitates it.

    ## Example
    ```story
    open 1 client=10.0.0.7:50001
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35}
    open 2 client=10.0.0.7:50002
    2> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    2< as ApiVersions v0 {"error_code": 35}
    open 3 client=10.0.0.7:50003
    3> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    3< as ApiVersions v0 {"error_code": 35}
    ```

    ## Look-alikes
    ```story
    open 1 client=10.0.0.7:50001
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    open 2 client=10.0.0.7:50002
    2> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    2< as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    open 3 client=10.0.0.7:50003
    3> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    3< as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/3057
    https://github.com/confluentinc/librdkafka/issues/3643
    https://github.com/streamnative/kop/issues/166
    """
    message = event.message
    if message is None or message.body["error_code"] != UNSUPPORTED_VERSION or message.body["api_keys"]:
        return
    if connection.state(Versions).answers > 1:  # each connection counts once
        return
    key = (connection.server, client_key(connection))
    if connection.run.state(_Refusals).count(key, event.at) >= THRESHOLD:
        yield Problem(
            f"{connection.server} refuses ApiVersions v{message.version} of client {connection.client_id!r}"
            " on every connection without naming the versions it serves",
            hint="include the range of ApiVersions in the refusal (KIP-511), or make the client start with a "
            "lower version",
            cause=connection.client_id or "",
        )
