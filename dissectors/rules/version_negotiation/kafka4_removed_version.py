"""V011: a version that Kafka 4 no longer serves."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.schemas import removed_versions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import Versions, client_text


@rule(
    "V011",
    severity=Severity.INFO,
    events=(RequestReceived,),
    only=FrameFlags.FIRST,
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def kafka4_removed_version(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports, once per client software and API, that a client uses an API version that Kafka 4 refuses.

    These are the versions that an older release in kproxy's data serves and the newest does not; the list is derived,
    not handwritten. JoinGroup v0 and v1, which Kafka 4.0.1 restored for librdkafka, are therefore not among them.

    The severity is info, because nothing is wrong with the current broker. If the server does not advertise the
    version, V002 reports an error. V012 covers Produce v0-v2, which Kafka 4 advertises but does not serve.

    ## Why it matters
    After an upgrade to Kafka 4, the broker closes each connection that sends such a request, without a response. This
    finding shows which clients to upgrade first.

    ## Usual cause
    A client from before Kafka 2.1, or one pinned to an old version (``broker.version.fallback``, sarama's
    ``Config.Version``, ``api_version``).

    ## Example
    ```story
    > as old Fetch v2 {}
    ```
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 0, "max_version": 11}, {"api_key": 1, "max_version": 17}, {"api_key": 18}]}
    > Produce v2 {"acks": 1}
    ```

    ## Look-alikes
    ```story
    > Fetch v4 {}
    > JoinGroup v0 {"group_id": "g"}
    ```
    The server does not serve the version (V002):
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "min_version": 4, "max_version": 17}, {"api_key": 18}]}
    > Fetch v2 {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-896%3A+Remove+old+client+protocol+API+versions+in+Kafka+4.0
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-724%3A+Drop+support+for+message+formats+v0+and+v1
    https://github.com/apache/kafka/pull/20116
    https://github.com/apache/kafka/pull/18291
    """
    message = event.message
    key, version = message.api_key, message.version
    if not removed_versions.is_removed(key, version):
        return
    ranges = connection.state(Versions).ranges(connection)
    if ranges and (
        not removed_versions.advertises(ranges, key, version)
        or removed_versions.is_advertised_only(key, version, ranges)
    ):
        return
    software = client_text(connection)
    lowest = removed_versions.lowest_served()[key]
    support_text = f"it serves {message.api} from v{lowest} on" if lowest is not None else f"it has no {message.api}"
    yield Problem(
        f"{software} uses {message.api} v{version}, which Kafka {removed_versions.newest_release()} refuses: "
        f"{support_text}",
        6,
        8,
        "header.request_api_version",
        hint="upgrade the client, or remove the setting that pins its version, before you upgrade the brokers "
        "to Kafka 4",
        expected=f"v{lowest} or later" if lowest is not None else None,
        got=f"v{version}",
        once_per=(software, key),
    )
