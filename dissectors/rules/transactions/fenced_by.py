"""T003: a producer that was fenced by another one with the same transactional id."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.summary import errors, transactional_id
from dissectors.messages.transaction_facts import APIS, producer_of
from dissectors.rules import rule
from dissectors.schemas import error_name
from dissectors.schemas.codes import Error
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OpenTransactions, client_address_label
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key
from dissectors.wire.paths import parts

_FENCING_ERRORS = (Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED)


@rule(
    "T003",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Produce", *APIS),
    only=FrameFlags.REFUSED,
    needs=(OpenTransactions,),
    since="0.1",
    blame="client",
)
def fenced_by(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports which producer has fenced another one with the same transactional id.

    ## Why it matters
    A transactional id belongs to one producer at a time: InitProducerId from the next producer fences the previous one,
    whose transaction is aborted and which can no longer write. Two producers at the same time fence each other in turn.

    ## Usual cause
    Two instances with the same transactional.id: a copied configuration, a deployment that scaled out, or an old
    process that was thought to be dead. For the last case, fencing is what transactional ids are for.

    ## Example
    ```story
    > as one InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 0}
    2> as other InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    2< {"producer_id": 4000, "producer_epoch": 1}
    > as one AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 0, "group_id": "g"}
    < {"error_code": 47}
    ```

    ## Look-alikes
    A producer that gets a new epoch for itself while a request is in flight:
    ```story
    open 1 client=10.0.0.9:50000
    open 2 client=10.0.0.9:50001
    > InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    < {"producer_id": 4000, "producer_epoch": 0}
    > AddOffsetsToTxn v1 {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 0, "group_id": "g"}
    2> InitProducerId v1 {"transactional_id": "pay", "transaction_timeout_ms": 60000}
    2< {"producer_id": 4000, "producer_epoch": 1}
    < {"error_code": 47}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-588%3A+Allow+producers+to+recover+gracefully+from+transaction+timeouts
    """
    message, request = event.message, event.request
    if message is None or request is None:
        return
    fencing_error = next((error for error in errors(message) if error.code in _FENCING_ERRORS), None)
    name = transactional_id(request.message) or request.message.body.get("transactional_id")
    if fencing_error is None or not name:
        return
    owner, id_and_epoch = connection.run.state(OpenTransactions).producers.get(name), producer_of(request.message)
    if owner is None or owner.initialized_at is None or id_and_epoch is None:
        return
    producer_id, producer_epoch = id_and_epoch
    if producer_id == owner.producer_id and producer_epoch >= owner.epoch:
        return
    if owner.key == client_key(connection) and (
        request.at < owner.initialized_at or connection.connection_id in owner.connections
    ):
        return  # the same producer, which has a new epoch
    yield Problem(
        f"{client_address_label(connection)} with transactional id {name!r} (producer {producer_id}, epoch "
        f"{producer_epoch}) was fenced: {message.api} was refused with {error_name(fencing_error.code)}, because "
        f"{owner.client} had called InitProducerId for the same id {duration(event.at - owner.initialized_at)} before "
        f"and got epoch {owner.epoch}",
        **locate(message, *parts(fencing_error.path)),
        hint="give each instance its own transactional.id, unless the fenced one should have stopped; a fenced one "
        "must be closed",
        cause=name,
        once_per=name,
    )
