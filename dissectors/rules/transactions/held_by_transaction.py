"""T001: a read_committed consumer that waits for a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, DeadlinePassed, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.formats import counted
from dissectors.rules import rule
from dissectors.rules.helpers.transaction_texts import is_idle, producer_text, state_text
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetches import Fetches, held_partitions, is_follower, is_read_committed
from dissectors.trackers.partitions import TopicPartition, label, topic_of
from dissectors.trackers.producers import Producers
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import Transactions
from dissectors.trackers.triggers import FrameFlags, Trigger

_CODE = "T001"
_MOST_PARTITIONS = 1_000

#: The last stable offset stands still for so long; and from then on, the times between checks.
_STILL = 20 * SECOND
#: A consumer that was not answered within this time does not wait.
_RECENT = 10 * SECOND
#: Coordinators look for transactions to abort every 10 s.
_ABORTED_WITHIN = 20 * SECOND


class _Held(NamedTuple):
    """A partition at whose last stable offset a consumer waits, with the high watermarks then and now."""

    stable: int
    first_end: int
    end: int
    since: int
    seen_at: int


class _HeldPartitions:
    """The partitions at which consumers wait, by connection."""

    def __init__(self) -> None:
        self.by_connection: BoundedDict[str, dict[TopicPartition, _Held]] = BoundedDict(_MOST_PARTITIONS)


@rule(
    _CODE,
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.HELD,
    also=(Trigger((DeadlinePassed, ConnectionEnded)),),
    needs=(Fetches, Producers, Transactions),
    since="0.1",
    blame="client",
)
def held_by_transaction(
    event: ResponseReceived | DeadlinePassed | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that no open transaction holds up the consumers that read committed records.

    ## Why it matters
    With isolation.level read_committed, a consumer gets no record above the last stable offset: the begin of the oldest
    open transaction of the partition. It waits without an error while its lag grows, for the records of others, too.
    The finding names the producer that holds the offset, if its transaction was observed; it is of severity info while
    that producer is active.

    ## Usual cause
    A producer that crashed, hangs, or forgot to commit: the coordinator aborts its transaction after
    transaction.timeout.ms. Or a hanging transaction, of which the coordinator does not know (KIP-664): it is never
    aborted; `kafka-transactions.sh find-hanging` and `abort` end it.

    ## Example
    ```story
    2> InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 600000}
    2< {"producer_id": 9001, "producer_epoch": 0}
    2> AddPartitionsToTxn v1 {"v3_and_below_transactional_id": "pay-1", "v3_and_below_producer_id": 9001,
       "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
    2< {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": [{"partition_index": 0}]}]}
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    +18s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 5, "records": ""}]}]}
    +3s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    ```

    ## Looks alike
    The transaction ends:
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    +18s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 7, "records": ""}]}]}
    +3s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "last_stable_offset": 9, "records": ""}]}]}
    +30s
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 9}]}]}
    ```
    The consumer has gone, or reads all records:
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    close
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    2< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": ""}]}]}
    +30s
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 7}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-664%3A+Provide+tooling+to+detect+and+abort+hanging+transactions
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    """
    state = connection.run.state(_HeldPartitions).by_connection
    if isinstance(event, ConnectionEnded):
        for place in state.pop(connection.connection_id, {}):
            connection.met(_CODE, (connection.connection_id, place))
    elif isinstance(event, DeadlinePassed):
        held = state.get(connection.connection_id, {}).get(event.about)
        if held is not None and event.at - held.seen_at < _RECENT:
            problem, again = _problem(event.about, held, event.at, connection)
            if again is not None:
                connection.expect(_CODE, (connection.connection_id, event.about), by=again, about=event.about)
            yield problem
    else:
        _update(event, connection, state)
    if state:
        connection.run.subscribe(_CODE)
    else:
        connection.run.unsubscribe(_CODE)


def _update(
    event: ResponseReceived, connection: ConnectionState, state: BoundedDict[str, dict[TopicPartition, _Held]]
) -> None:
    """Compare the partitions of a response with those at which the consumer has waited before."""
    message, asked, key = event.message, event.request_body, connection.connection_id
    if message is None or asked is None or is_follower(asked) or not is_read_committed(asked):
        return
    before = state.pop(key, {})
    now = {place: each for place, each in held_partitions(message.body) if each.get("last_stable_offset", -1) >= 0}
    offsets = connection.state(Fetches).offsets(event.request)
    held: dict[TopicPartition, _Held] = {}
    answered = {(topic_of(topic), each.get("partition_index", 0)) for topic in message.body.get("responses") or ()
                for each in topic.get("partitions") or ()} if before else ()  # fmt: skip
    for place, each in before.items():
        if place in offsets and place not in answered:  # a session leaves out what has not changed
            held[place] = each._replace(seen_at=event.at)
        elif place not in now or now[place]["last_stable_offset"] != each.stable:
            connection.met(_CODE, (key, place))
    for place, row in now.items():
        stable, end = row["last_stable_offset"], row.get("high_watermark", -1)
        known = before.get(place)
        if offsets.get(place) != stable:
            connection.met(_CODE, (key, place))
        elif known is not None and known.stable == stable:
            held[place] = known._replace(end=end, seen_at=event.at)
        elif len(held) < _MOST_PARTITIONS:
            held[place] = _Held(stable, end, end, event.at, event.at)
            connection.expect(_CODE, (key, place), by=event.at + _STILL, about=place)
    if held:
        state[key] = held


def _problem(place: TopicPartition, held: _Held, at: int, connection: ConnectionState) -> tuple[Problem, int | None]:
    """What holds a partition, and when to check again."""
    where, lag = label(place, connection), held.end - held.stable
    text = (
        f"{where}: read_committed consumers wait at {held.stable} with {counted(lag, 'more record')} up to the high "
        f"watermark {held.end}; the last stable offset has not moved for {duration(at - held.since)}"
    )
    holders = connection.run.state(Transactions).holders(place, connection)
    if not holders:
        problem = Problem(
            f"{text}: a transaction holds it whose producer was not observed here",
            hint="find the producer with kafka-transactions.sh describe-producers, or find-hanging if its coordinator "
            "does not know the transaction; abort ends a hanging one",
            once_per=(where, held.stable),
        )
        return problem, None
    holder = holders[0]
    expires = holder.expires_at
    overdue = expires is not None and at >= expires + _ABORTED_WITHIN
    if overdue:
        hint = (
            "the coordinator should have aborted it: check it with kafka-transactions.sh find-hanging, and end it with "
            "abort"
        )
    elif is_idle(holder, at, connection):
        hint = (
            "make the producer commit or abort; if it has gone, start it again with the same transactional.id, "
            "which aborts the transaction, or lower transaction.timeout.ms"
        )
    else:
        hint = "commit more often: consumers that read committed records get them only then"
    problem = Problem(
        f"{text}: the transaction of {producer_text(holder)} holds it; it {state_text(holder, at, connection)}",
        hint=hint,
        severity=Severity.WARNING if overdue or is_idle(holder, at, connection) else Severity.INFO,
        blame="broker" if overdue else "client",
        once_per=(where, held.stable, holder.name, overdue, is_idle(holder, at, connection)),
    )
    return problem, None if overdue else at + _STILL
