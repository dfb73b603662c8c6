"""V019: a client that does not repeat ApiVersions with a version that the server has."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.version_refusals import VersionRefusals
from dissectors.trackers.versions import client_key, client_text, range_text

#: Reported after this many connections: a client may fall back to another version on its next connection.
THRESHOLD = 3


class _IgnoredRefusals(Recurrence):
    """Counts connections that ended after the refusal, by client and server."""


@rule(
    "V019",
    severity=Severity.ERROR,
    events=(ConnectionEnded,),
    needs=(VersionRefusals,),
    since="0.1",
    blame="client",
)
def api_versions_not_repeated(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client repeats ApiVersions after UNSUPPORTED_VERSION, with a version that the server has.

    ## Why it matters
    The client closes the connection and tries again with the same version. It never gets to its first real request, and
    reports the broker as unavailable or too old, although both have common versions.

    ## Usual cause
    A client that takes the refusal for the whole list of APIs. With UNSUPPORTED_VERSION, the response is written as
    version 0 and names only ApiVersions itself, with the versions that the server has (KIP-511); older brokers name
    nothing, and then version 0 is right. The client must send ApiVersions again with one of them.

    ## Example
    ```story
    > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    close by=client how=fin
    > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    close by=client how=fin
    > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    close by=client how=fin
    ```

    ## Look-alikes
    A client that repeats it each time:
    ```story
    > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}, {"api_key": 3, "max_version": 9}]}
    close by=client how=fin
    > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}, {"api_key": 3, "max_version": 9}]}
    close by=client how=fin
    > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}, {"api_key": 3, "max_version": 9}]}
    close by=client how=fin
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-511%3A+Collect+and+Expose+Client%27s+Name+and+Version+in+the+Brokers
    https://github.com/twmb/franz-go/issues/1011
    """
    refusal = connection.state(VersionRefusals).ignored_refusal(connection)
    if refusal is None or event.by == "server" or event.unanswered:
        return
    key = client_key(connection), connection.server, refusal.version
    times = connection.run.state(_IgnoredRefusals).count(key, event.at)
    if times < THRESHOLD:
        return
    highest, served = refusal.served[1], range_text(refusal.served)
    yield Problem(
        f"{connection.server} refuses ApiVersions v{refusal.version} and serves {served}: {client_text(connection)} "
        f"must repeat ApiVersions with v{highest}, but closed the connection instead, {times} times",
        hint="fix or upgrade the client: this response names only ApiVersions, it is not the list of what the broker "
        f"serves (KIP-511); send ApiVersions v{highest} on the same connection",
        once_per=key,
        request=refusal.request,
    )
