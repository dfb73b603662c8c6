"""How rules name a transactional producer and the state of its transaction."""

from __future__ import annotations

from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.producers import Producers
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import TransactionalProducer

#: A producer with an open transaction that has sent nothing for this long (ns) is idle.
_IDLE_AFTER = 10 * SECOND


def producer_text(producer: TransactionalProducer) -> str:
    """Return a producer with its ids: ``transactional id 'pay' (producer 9001, epoch 0, app at 10.0.0.1:5000)``."""
    return (
        f"transactional id {producer.name!r} (producer {producer.producer_id}, epoch {producer.epoch}, "
        f"{producer.client})"
    )


def last_activity(producer: TransactionalProducer, connection: ConnectionState) -> int:
    """Return when a producer last sent a request or a batch (ns)."""
    return max(producer.last_at, connection.run.state(Producers).last_sent(producer.producer_id))


def is_idle(producer: TransactionalProducer, at: int, connection: ConnectionState) -> bool:
    """Return whether a producer is gone or has sent nothing for a while."""
    return producer.gone_at is not None or at - last_activity(producer, connection) >= _IDLE_AFTER


def state_text(producer: TransactionalProducer, at: int, connection: ConnectionState) -> str:
    """Return a clause that says how long a transaction has been open and what its producer is doing."""
    begun_at = producer.begun_at or at
    timeout_text = f" of a timeout of {duration(producer.timeout_ms * 1_000_000)}" if producer.timeout_ms else ""
    text = f"has been open for {duration(at - begun_at)}{timeout_text}"
    if producer.asked is not None:
        text += f", and its EndTxn ({'commit' if producer.asked else 'abort'}) has no response"
    if producer.gone_at is not None:
        return f"{text}, and its producer's connections ended {duration(at - producer.gone_at)} ago"
    silence = at - last_activity(producer, connection)
    if silence >= _IDLE_AFTER:
        return f"{text}, and its producer has sent nothing for {duration(silence)}"
    return f"{text}; its producer is active"
