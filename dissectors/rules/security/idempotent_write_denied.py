"""X015: an idempotent producer without permission for idempotent writes."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.rules.security.acl_denied import is_idempotent_write, principal_or_client
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState

_THRESHOLD = 3


class _Denials(Recurrence):
    """Counts denials by server and client."""


@rule(
    "X015",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("InitProducerId",),
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def idempotent_write_denied(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a producer that is idempotent by default has permission for it.

    ## Why it matters
    The producer cannot send a single record, because CLUSTER_AUTHORIZATION_FAILED is fatal. It often worked until the
    client was upgraded. From the third time on, this is an error.

    ## Usual cause
    Since Kafka 3.0 (KIP-679), clients set enable.idempotence=true by default. Brokers before 2.8, and some compatible
    servers, require IDEMPOTENT_WRITE on the cluster for it. Newer brokers accept WRITE on any topic; there, the
    principal has no write permission at all.

    ## Example
    ```story
    > InitProducerId v4 {"transactional_id": null}
    < {"error_code": 31, "producer_id": -1}
    ```

    ## Look-alikes
    ```story
    > InitProducerId v4 {"transactional_id": null}
    < {"producer_id": 4000}
    2> InitProducerId v4 {"transactional_id": "t"}
    2< {"error_code": 53, "producer_id": -1}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#upgrade_300_notable
    https://github.com/strimzi/strimzi-kafka-operator/issues/9261
    https://github.com/redpanda-data/redpanda/issues/3366
    """
    message = event.message
    if message is None or not is_idempotent_write(event, message.body.get("error_code")):
        return
    times = connection.run.state(_Denials).count((connection.server, connection.client_id), event.at)
    repeated = times >= _THRESHOLD
    yield Problem(
        f"{principal_or_client(connection)} is not allowed idempotent writes, the default of clients since 3.0: "
        "InitProducerId returned CLUSTER_AUTHORIZATION_FAILED" + (f" ({times} times)" if repeated else ""),
        severity=Severity.ERROR if repeated else None,
        hint="grant IDEMPOTENT_WRITE on the cluster (WRITE on a topic from 2.8), or set enable.idempotence=false",
        cause="again" if repeated else "",
        **locate(message, "error_code"),
    )
