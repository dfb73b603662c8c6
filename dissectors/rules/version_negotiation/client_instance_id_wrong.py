"""V021: a client instance id that brokers refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import ProblemLocation, locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.layout import Layout
from dissectors.wire.primitives import RESERVED_UUIDS

_FIELD: Final = "client_instance_id"
_HINT: Final = "create one random UUID per client, and put it into the first request header of each connection"


@rule(
    "V021",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    only=FrameFlags.TAGGED | FrameFlags.FIRST,
    since="0.1",
    blame="client",
)
def client_instance_id_wrong(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks the client instance id in request header v3 (KIP-1313).

    If the first request of a connection has header v3, it names the client's instance, with a UUID that is not
    reserved; later requests leave it out or repeat it. No Kafka release has such requests yet: kproxy checks those of
    the releases that were imported into its schemas.

    ## Why it matters
    Brokers refuse the request with INVALID_REQUEST. Where they do not, logs and quotas take two clients for one.

    ## Usual cause
    A client that leaves the id at its default (zero), creates an id per request instead of one in its constructor, or
    shares a connection between several clients.

    ## Example
    ```story
    > OffsetDelete v1 {"group_id": "g"}
    ```
    ```story
    > as app@AAAAAAAAAAAAAAAAAAAAAQ OffsetDelete v1 {"group_id": "g"}
    ```
    ```story
    > as app@q83vASNFZ4mrze8BI0VniQ OffsetDelete v1 {"group_id": "g"}
    > as null@3q2-78r-ur7erb7vyv66vg OffsetDelete v1 {"group_id": "g"}
    ```

    ## Look-alikes
    ```story
    > as app@q83vASNFZ4mrze8BI0VniQ OffsetDelete v1 {"group_id": "g"}
    > as null OffsetDelete v1 {"group_id": "g"}
    > as null@q83vASNFZ4mrze8BI0VniQ OffsetDelete v1 {"group_id": "g"}
    ```
    A connection that begins with an older header:
    ```story
    > ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": []}
    > OffsetDelete v1 {"group_id": "g"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-1313%3A+Client+instance+ID+in+all+request+headers
    https://github.com/apache/kafka/pull/23544
    https://github.com/kroxylicious/kroxylicious/issues/4604
    """
    message = event.message
    if not _may_have_instance_id(message.header_layout):
        return
    instance_id: str | None = message.header.get(_FIELD)
    if instance_id is None:
        # A PROXY header may come first, but a request at another offset may also be a later one.
        if event.offset == 0 and not connection.midstream and not connection.resumed:
            problem = "the first request of the connection has header v3 without a client instance id"
            yield Problem(problem, hint=_HINT, cause="none")
    elif instance_id in RESERVED_UUIDS:
        problem = f"the client instance id {instance_id} is reserved: brokers refuse it with INVALID_REQUEST"
        yield Problem(problem, **_id_location(event), hint=_HINT, cause="reserved")
    elif (initial_id := message.client_instance_id) is not None and instance_id != initial_id:
        problem = f"the client instance id {instance_id} differs from {initial_id}, with which the connection began"
        yield Problem(problem, **_id_location(event), hint="keep one id for the life of the client", cause="other")


def _may_have_instance_id(header: Layout) -> bool:
    return any(field.name == _FIELD for field in header.tagged)


def _id_location(event: RequestReceived) -> ProblemLocation:
    return locate(event.message, "header", "_tags", _FIELD)
