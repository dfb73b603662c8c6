"""Fetch sessions: requests and responses only contain what has changed since the last one (KIP-227).

Source: Kafka's FetchSession.scala.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.fetching.partition_request import Key, PartitionRequest

if TYPE_CHECKING:
    from kproxy.broker.cluster import BrokerNode, Cluster

_NEW_SESSION: Final = 0  # the session epoch that starts a session
_SESSIONLESS: Final = -1  # the session epoch of requests without a session
_NO_SESSION: Final = 0
_MAX_INT32: Final = 2**31 - 1
#: Kafka's max.incremental.fetch.session.cache.slots and min.incremental.fetch.session.eviction.ms.
SLOTS: Final = 1000
EVICTABLE_AFTER_MS: Final = 120_000


@dataclass(slots=True)
class _SessionPartition:
    """A partition in a session, with its last request and its last response."""

    requested: PartitionRequest
    high_watermark: int = -1
    log_start_offset: int = -1

    def update(self, result: Mapping[str, Any], *, has_records: bool) -> bool:
        """Return whether the result must be sent, and record it as sent."""
        has_failed = bool(result["error_code"])
        log_start_offset = result["log_start_offset"]
        high_watermark = -1 if has_failed else result["high_watermark"]
        has_changed = (
            has_failed
            or has_records
            or (high_watermark, log_start_offset) != (self.high_watermark, self.log_start_offset)
        )
        self.high_watermark, self.log_start_offset = high_watermark, log_start_offset
        return has_changed


@dataclass(slots=True)
class _Session:
    """A session; `epoch` is the epoch expected in the next request."""

    id: int
    by_topic_id: bool
    partitions: dict[Key, _SessionPartition]
    epoch: int
    used_at: int


class FetchContext:
    """One Fetch: its partitions, from the request or its session, and which results to send."""

    def __init__(self, requested: Collection[PartitionRequest], session: _Session | None, *, full: bool) -> None:
        self.requested = requested
        self._session = session
        self._full = full
        self._epoch = session.epoch if session is not None else 0

    @property
    def session_id(self) -> int:
        """The session id for the response; 0 for none."""
        return self._session.id if self._session is not None else _NO_SESSION

    def changed_results(self, results: Iterable[tuple[Key, Mapping[str, Any], bool]]) -> set[Key]:
        """Return the partitions to send; partitions with records move to the end for the next request.

        Args:
            results: The result of every partition, and whether it has records.

        Raises:
            ApiError: INVALID_FETCH_SESSION_EPOCH: the session has advanced in the meantime.
        """
        session, sent_keys = self._session, set()
        if session is None:
            return {key for key, _, _ in results}
        if session.epoch != self._epoch:
            raise ApiError(Error.INVALID_FETCH_SESSION_EPOCH)
        for key, result, has_records in results:
            partition = session.partitions[key]
            if partition.update(result, has_records=has_records) or self._full:
                sent_keys.add(key)
            if has_records and not self._full:
                session.partitions[key] = session.partitions.pop(key)
        return sent_keys


class Sessions:
    """The fetch sessions of one broker: at most a thousand. Sessions unused for two minutes can be evicted."""

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}  # least recently used first

    def begin(
        self,
        session_id: int,
        epoch: int,
        requested: Mapping[Key, PartitionRequest],
        forgotten: Iterable[Key],
        now_ms: int,
        *,
        by_topic_id: bool,
    ) -> FetchContext:
        """Start processing a request.

        Args:
            session_id: The session id in the request; 0 for none.
            epoch: The session epoch in the request: 0 starts a session, -1 closes it.
            requested: The partitions in the request.
            forgotten: The partitions to remove from the session.
            now_ms: The current time.
            by_topic_id: Whether the request's version identifies topics by id.

        Raises:
            ApiError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if epoch in (_NEW_SESSION, _SESSIONLESS):
            self._sessions.pop(session_id, None)
            session = self._create(requested, now_ms, by_topic_id=by_topic_id) if epoch == _NEW_SESSION else None
            return FetchContext(requested.values(), session, full=True)
        current_session = self._sessions.get(session_id)
        if current_session is None:
            raise ApiError(Error.FETCH_SESSION_ID_NOT_FOUND)
        if current_session.epoch != epoch:
            raise ApiError(Error.INVALID_FETCH_SESSION_EPOCH)
        if current_session.by_topic_id != by_topic_id:
            raise ApiError(Error.FETCH_SESSION_TOPIC_ID_ERROR)
        for key, request in requested.items():
            if key in current_session.partitions:
                current_session.partitions[key].requested = request
            else:
                current_session.partitions[key] = _SessionPartition(request)
        for key in forgotten:
            current_session.partitions.pop(key, None)
        del self._sessions[session_id]
        if not current_session.partitions:
            return FetchContext((), None, full=True)
        self._sessions[session_id] = current_session
        current_session.used_at, current_session.epoch = now_ms, _next_epoch(epoch)
        return FetchContext(
            [partition.requested for partition in current_session.partitions.values()], current_session, full=False
        )

    def _create(self, requested: Mapping[Key, PartitionRequest], now_ms: int, *, by_topic_id: bool) -> _Session | None:
        """Create a session and return it; None if there is no room for one."""
        if len(self._sessions) >= SLOTS:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_at <= EVICTABLE_AFTER_MS:
                return None
            del self._sessions[oldest.id]
        session_id = _NO_SESSION
        while session_id == _NO_SESSION or session_id in self._sessions:
            session_id = random.randint(1, _MAX_INT32)  # noqa: S311 - as in Kafka, it protects nothing
        partitions = {key: _SessionPartition(request) for key, request in requested.items()}
        session = _Session(session_id, by_topic_id, partitions, _next_epoch(_NEW_SESSION), now_ms)
        self._sessions[session_id] = session
        return session


class FetchSessions:
    """The sessions of all brokers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._by_node: dict[int, Sessions] = {}

    def for_node(self, node: BrokerNode) -> Sessions:
        """Return the sessions of one broker."""
        return self._by_node.setdefault(node.id, Sessions())


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == _MAX_INT32 else epoch + 1
