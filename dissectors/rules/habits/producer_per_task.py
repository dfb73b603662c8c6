"""H001: a client that gets one producer id after another because it creates a producer for each task."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import client_key

PRODUCERS = Limit("producers", 20, "producers", "a client gets so many new producer ids without a transactional id", 2)
WITHIN = Limit("within", 300, "s", "within this time")

_MAX_CLIENTS = 10_000


class _NewIds:
    """The number of new producer ids that a client has got since `since` (ns)."""

    def __init__(self) -> None:
        self.count = self.since = 0


class _NewIdsByClient(BoundedDict[tuple[str, str | None], _NewIds]):
    """The new producer ids of each client."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "H001",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("InitProducerId",),
    limits=(PRODUCERS, WITHIN),
    since="0.1",
    blame="client",
)
def producer_per_task(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a program keeps its producer: a new one for each task is slow, and leaks if it is not closed.

    ## Why it matters
    Each producer has its own buffers (32 MB in Java), thread and connections, and needs several round trips before its
    first record. The broker remembers each producer id for a day (`producer.id.expiration.ms`).

    ## Usual cause
    A producer that is created in a function that handles one request or message. Producers that are never closed keep
    their memory and connections (H007). C018 detects the same habit by the connections that end.

    ## Example
    ```story
    rule H001:producers=3
    1> InitProducerId v4 {"transactional_id": null}
    1< {"producer_id": 1}
    2> InitProducerId v4 {"transactional_id": null}
    2< {"producer_id": 2}
    open 3 client=10.0.0.101:50009
    3> InitProducerId v4 {"transactional_id": null}
    3< {"producer_id": 3}
    open 4 client=10.0.0.101:50010
    4> InitProducerId v4 {"transactional_id": null}
    4< {"producer_id": 4}
    ```

    ## Look-alikes
    Transactional producers get an epoch with the same call, and one that recovers from an error sends its old id:
    ```story
    rule H001:producers=3
    > InitProducerId v4 {"transactional_id": "pay-1"}
    < {"producer_id": 1}
    > InitProducerId v4 {"transactional_id": null, "producer_id": 1, "producer_epoch": 0}
    < {"producer_id": 1, "producer_epoch": 1}
    > InitProducerId v4 {"transactional_id": null, "producer_id": 1, "producer_epoch": 1}
    < {"producer_id": 1, "producer_epoch": 2}
    > InitProducerId v4 {"transactional_id": null, "producer_id": 1, "producer_epoch": 2}
    < {"producer_id": 1, "producer_epoch": 3}
    ```

    ## Sources
    https://kafka.apache.org/43/javadoc/org/apache/kafka/clients/producer/KafkaProducer.html
    """
    request_body, message, run = event.request_body, event.message, connection.run
    if request_body is None or message is None or message.body.get("error_code"):
        return
    if request_body.get("transactional_id") is not None or request_body.get("producer_id", -1) >= 0:
        return
    new_ids = run.state(_NewIdsByClient).touch(client_key(connection), _NewIds)
    if new_ids.count == 0 or event.at - new_ids.since > run.limit(WITHIN) * SECOND:
        new_ids.count, new_ids.since = 0, event.at
    new_ids.count += 1
    if new_ids.count >= run.limit(PRODUCERS):
        count, new_ids.count = new_ids.count, 0
        yield Problem(
            f"{client_label(connection)} created {count} producers within {duration(event.at - new_ids.since)}: so "
            "many new producer ids it got",
            hint="create one producer per process, and share it: it is thread-safe; close those that you no longer use",
            cause=str(client_key(connection)),
        )
