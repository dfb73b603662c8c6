"""V007: a version that the server advertises but does not serve."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, ResponseReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import UNSUPPORTED_VERSION, Message
from dissectors.rules import rule
from dissectors.rules.version_negotiation.unsupported_version_elsewhere import SERVED_BY_PLUGINS
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import PRE_LOGIN_APIS, Ranges, Versions, closing_request, range_text

#: Reported after a server has closed this many connections on a version.
THRESHOLD = 3


class _Closes:
    """How often a server closed a connection on an API's version, and when it last did (ns)."""

    def __init__(self) -> None:
        self.by_version: BoundedDict[tuple[str, int, int], tuple[int, int]] = BoundedDict(10_000)


@rule(
    "V007",
    severity=Severity.ERROR,
    events=(ResponseReceived, ConnectionEnded),
    only=FrameFlags.REFUSED,
    needs=(Authentication, Versions),
    since="0.1",
    blame="broker",
)
def advertised_not_served(event: ResponseReceived | ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a server serves the versions that it advertises.

    Reported if the server answers an advertised version with UNSUPPORTED_VERSION, or if it closes three connections
    right after the same API and version, answers other requests in between, and never answers that version. A single
    restart or a broker that is down does not match, nor does a connection closed for lack of SASL.

    ## Why it matters
    Clients trust the ApiVersions response. With no other version to try, they fail or reconnect forever.

    ## Usual cause
    A service or proxy that advertises what it forwards or plans to support instead of what it can decode, or a
    disabled feature such as the new group protocol, for which Kafka answers UNSUPPORTED_VERSION too.

    ## Example
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 26, "max_version": 3}, {"api_key": 18, "max_version": 3}]}
    > EndTxn v3 {"transactional_id": "t"}
    < {"error_code": 35}
    ```
    ```story
    > Metadata v1 {}
    < {}
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 26, "max_version": 3}]}
    > EndTxn v3 {"transactional_id": "t"}
    close by=server
    2> ApiVersions v0 {}
    2< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 26, "max_version": 3}]}
    2> EndTxn v3 {"transactional_id": "t"}
    2 close by=server
    3> ApiVersions v0 {}
    3< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 26, "max_version": 3}]}
    3> EndTxn v3 {"transactional_id": "t"}
    3 close by=server
    ```

    ## Look-alikes
    A broker that goes down closes all connections at once, with their requests in flight:
    ```story
    > Metadata v1 {}
    < {}
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 11, "max_version": 9}]}
    > JoinGroup v5 {"group_id": "g"}
    2> JoinGroup v5 {"group_id": "g"}
    3> JoinGroup v5 {"group_id": "g"}
    close by=server
    2 close by=server
    3 close by=server
    ```
    A listener that requires SASL first:
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 17, "max_version": 1}]}
    > Metadata v1 {}
    close by=server
    2> ApiVersions v0 {}
    2< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 17, "max_version": 1}]}
    2> Metadata v1 {}
    2 close by=server
    3> ApiVersions v0 {}
    3< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 17, "max_version": 1}]}
    3> Metadata v1 {}
    3 close by=server
    ```

    ## Sources
    https://github.com/streamnative/kop/issues/1059
    https://github.com/twmb/franz-go/issues/1017
    https://github.com/grepplabs/kafka-proxy/issues/194
    """
    if isinstance(event, ResponseReceived):
        message = event.message
        if (
            message is not None
            and message.body.get("error_code") == UNSUPPORTED_VERSION
            and event.request_body is not None
        ):
            ranges = connection.state(Versions).ranges(connection)
            if ranges and _is_advertised(ranges, message) and message.api not in SERVED_BY_PLUGINS:
                yield Problem(
                    f"{connection.server} answers {message.api} v{message.version} with UNSUPPORTED_VERSION although"
                    f" it advertises {range_text(ranges[message.api_key])}",
                    **locate(message, "error_code"),
                    hint="check whether the feature is disabled on the broker; otherwise advertise only what is served",
                )
        return
    request = closing_request(event, connection)
    if request is None or request.message.layout is None:
        return
    message, versions = request.message, connection.state(Versions)
    ranges, server = versions.ranges(connection), versions.server(connection)
    if not ranges or not _is_advertised(ranges, message) or (message.api_key, message.version) in server.answered:
        return
    if not server.serves_without_sasl and connection.sasl_mechanism is None:
        return
    if connection.state(Authentication).refusal is not None:
        return  # the login failed (X008), and the client has not noticed
    closes = connection.run.state(_Closes).by_version
    key = (connection.server, message.api_key, message.version)
    count, last = closes.get(key, (0, -1))
    if server.answered_at <= last:  # the server has answered nothing since the last close
        return
    closes[key] = (count + 1, event.at)
    if count + 1 >= THRESHOLD:
        yield Problem(
            f"{connection.server} closes the connection on {message.api} v{message.version} each time although it"
            f" advertises {range_text(ranges[message.api_key])}",
            hint="check the broker's log for the reason; a server must advertise only what it serves",
            cause=f"{message.api} v{message.version}",
            request=ConcernedRequest.of(request),
        )


def _is_advertised(ranges: Ranges, message: Message) -> bool:
    lowest, highest = ranges.get(message.api_key, (0, -1))
    return lowest <= message.version <= highest and message.api_key not in PRE_LOGIN_APIS
