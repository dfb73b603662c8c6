"""V005: a server that closes the connection on a new version of ApiVersions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import API_VERSIONS, Versions, closing_request


@dataclass(slots=True)
class _Cut:
    """The server closed a connection on a version; `lower` is one below it that it has answered since."""

    lower: int | None = None


class _Cuts:
    def __init__(self) -> None:
        self.by_server: BoundedDict[str, BoundedDict[int, _Cut]] = BoundedDict(1_000)


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

    ## Looks alike
    A restart: what was in flight is lost once, later it is answered.
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
    A server that is not there, behind a load balancer that is:
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
    of_server = connection.run.state(_Cuts).by_server
    if isinstance(event, ResponseReceived):
        if (cuts := of_server.get(connection.server)) and event.request is not None:
            answered = event.request.message.version
            cuts.pop(answered, None)
            for version, cut in cuts.items():
                if answered < version:
                    cut.lower = answered
        return
    request = closing_request(event, connection)
    versions = connection.state(Versions)
    if request is None or request.message.api_key != API_VERSIONS or versions.answers:
        return
    version = request.message.version
    if (API_VERSIONS, version) in versions.server(connection).answered:
        return
    cut = of_server.touch(connection.server, lambda: BoundedDict(10)).touch(version, _Cut)
    if cut.lower is not None:
        yield Problem(
            f"{connection.server} closes the connection on ApiVersions v{version} instead of answering"
            f" UNSUPPORTED_VERSION; it answers v{cut.lower}",
            hint=f"make the client use ApiVersions v{cut.lower} or below (e.g. a lower maximum version), or upgrade"
            " the server",
            cause=f"v{version}",
        )
