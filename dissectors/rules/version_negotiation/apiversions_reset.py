"""V005: a server that closes the connection on an unknown ApiVersions version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, ResponseReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import API_VERSIONS, Versions, closing_request


@dataclass(slots=True)
class _Close:
    """A version on which the server closed a connection. `lower`: a lower version that was answered since then."""

    lower: int | None = None


class _Closes:
    def __init__(self) -> None:
        self.by_server: BoundedDict[str, BoundedDict[int, _Close]] = BoundedDict(1_000)


@rule(
    "V005",
    severity=Severity.ERROR,
    events=(ResponseReceived, ConnectionEnded),
    apis=("ApiVersions",),
    broken=True,
    needs=(Versions,),
    since="0.1",
    blame="broker",
)
def apiversions_reset(event: ResponseReceived | ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a server answers an unknown ApiVersions version instead of closing the connection.

    Reported after two connections were closed right after the same version, which was never answered, while a lower
    version was answered in between. A broker restart does not match.

    ## Why it matters
    KIP-511 requires an UNSUPPORTED_VERSION response that lists the served versions. If the connection just closes, a
    client cannot tell this from a network fault: it retries the same version, or guesses.

    ## Usual cause
    A service that implements Kafka's protocol and meets a newer client (ApiVersions v4 came with Kafka 3.9).

    ## Example
    ```story
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    close by=server how=reset
    2> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    2< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    3> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    3 close by=server how=reset
    ```

    ## Look-alikes
    A restart loses the request in flight once; later the version is answered:
    ```story
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    close by=server how=reset
    2> ApiVersions v3 {"client_software_name": "old", "client_software_version": "1"}
    2< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 4}]}
    3> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    3< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 4}]}
    4> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    4 close by=server how=reset
    ```
    A load balancer without a server behind it:
    ```story
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    close by=server how=reset
    2> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    2 close by=server how=reset
    ```

    ## Sources
    https://github.com/twmb/franz-go/pull/1022
    https://github.com/dpkp/kafka-python/issues/2602
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-511%3A+Collect+and+Expose+Client%27s+Name+and+Version+in+the+Brokers
    """
    by_server = connection.run.state(_Closes).by_server
    if isinstance(event, ResponseReceived):
        if (closes := by_server.get(connection.server)) and event.request is not None:
            answered_version = event.request.message.version
            closes.pop(answered_version, None)
            for version, close in closes.items():
                if answered_version < version:
                    close.lower = answered_version
        return
    request = closing_request(event, connection)
    versions = connection.state(Versions)
    if request is None or request.message.api_key != API_VERSIONS or versions.answers:
        return
    version = request.message.version
    if (API_VERSIONS, version) in versions.server(connection).answered:
        return
    close = by_server.touch(connection.server, lambda: BoundedDict(10)).touch(version, _Close)
    if close.lower is not None:
        yield Problem(
            f"{connection.server} closes the connection on ApiVersions v{version} instead of answering"
            f" UNSUPPORTED_VERSION; it answers v{close.lower}",
            hint=f"make the client use ApiVersions v{close.lower} or below (e.g. a lower maximum version), or upgrade"
            " the server",
            cause=f"v{version}",
            request=ConcernedRequest.of(request),
        )
