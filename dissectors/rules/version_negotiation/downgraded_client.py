"""V017: a client that uses much older versions than its server supports."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.schemas import removed_versions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import Versions, client_text

#: API -> (first version with a feature that matters, the feature).
FEATURES = {
    "Produce": (7, "zstd (KIP-110)"),
    "Fetch": (10, "zstd (KIP-110)"),
}


@rule(
    "V017",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=tuple(FEATURES),
    only=FrameFlags.FIRST,
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def downgraded_client(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a client uses Produce or Fetch versions from before Kafka 2.1 though its server has later ones.

    Reported once per client software and API. V011 covers versions so old that Kafka 4 refuses them.

    ## Why it matters
    The client misses later features: zstd, which older versions refuse, and above all fetch sessions (Fetch v7),
    without which each Fetch lists every partition.

    ## Usual cause
    A version pinned in the client's configuration (sarama's ``Config.Version``, ``api_version``), often copied from an
    old example, or a client that supports nothing newer.

    ## Example
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 17}, {"api_key": 18, "max_version": 4}]}
    > Fetch v5 {}
    ```

    ## Look-alikes
    The server has no later version:
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 5}, {"api_key": 18, "max_version": 0}]}
    > Fetch v5 {}
    ```
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 17}, {"api_key": 18, "max_version": 4}]}
    > Fetch v11 {}
    ```

    ## Sources
    https://github.com/IBM/sarama/issues/2633
    https://github.com/IBM/sarama/issues/3209
    https://github.com/dpkp/kafka-python/issues/2187
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-110%3A+Add+Codec+for+ZStandard+Compression
    """
    message = event.message
    minimum, feature = FEATURES[message.api]
    if message.version >= minimum or removed_versions.is_removed(message.api_key, message.version):
        return
    ranges = connection.state(Versions).ranges(connection)
    served = ranges.get(message.api_key) if ranges else None
    if served is None or served[1] < minimum or message.version < served[0]:
        return
    software = client_text(connection)
    yield Problem(
        f"{software} uses {message.api} v{message.version} although {connection.server} serves up to"
        f" v{served[1]}; it misses {feature}, which needs v{minimum}",
        6,
        8,
        "header.request_api_version",
        hint="remove the setting that pins the client's version, or upgrade the client",
        expected=f"v{minimum} or later",
        got=f"v{message.version}",
        once_per=(software, message.api_key),
    )
