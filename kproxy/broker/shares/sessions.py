"""Share sessions: a member sends the partitions that it fetches from a broker only once (KIP-932).

Source: Kafka's SharePartitionManager, ShareSessionCache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.shares.settings import ShareSettings

if TYPE_CHECKING:
    from kproxy.broker.cluster import BrokerNode, Cluster

#: The epochs that begin and end a session.
BEGIN: Final = 0
END: Final = -1

_MAX_INT32: Final = 2**31 - 1
_MAX_PARTITIONS: Final = 200_000  # in all sessions of a broker


@dataclass(slots=True, eq=False)
class ShareSession:
    """A share session.

    Attributes:
        epoch: The epoch expected in the next request.
        partitions: The partitions to fetch, and whether to send the result of each even without records.
        ended: Whether the session has ended.
    """

    epoch: int
    partitions: dict[TopicIdPartition, bool]
    ended: bool = False

    def must_send(self, partition: TopicIdPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the result of a partition must be sent, and record it as sent."""
        if partition not in self.partitions:
            return True
        is_due = self.partitions[partition]
        self.partitions[partition] = has_error
        if has_records:
            self.partitions[partition] = self.partitions.pop(partition)
        return is_due or has_records or has_error


class ShareConnection:
    """The share session of a connection; `on_close` is called when the connection closes."""

    def __init__(self) -> None:
        self.on_close: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Call `on_close`."""
        self.on_close()


class ShareSessions:
    """The share sessions of one broker, by group and member."""

    def __init__(self, settings: ShareSettings) -> None:
        self._settings = settings
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def fetch(
        self,
        key: tuple[str, str],
        epoch: int,
        requested: Iterable[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
        *,
        has_acknowledgements: bool,
    ) -> ShareSession:
        """Start processing a ShareFetch.

        Args:
            key: The group and member ids.
            epoch: The epoch in the request: 0 begins a session, -1 ends it.
            requested: The partitions in the request.
            forgotten: The partitions to remove from the session.
            has_acknowledgements: Whether the request contains acknowledgements.

        Raises:
            ApiError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED,
                INVALID_REQUEST.
        """
        if epoch == BEGIN:
            if has_acknowledgements:
                raise ApiError(Error.INVALID_REQUEST)
            if key in self._sessions:
                self.end(key, self._sessions[key])
            if len(self._sessions) >= self._settings.sessions:
                raise ApiError(Error.SHARE_SESSION_LIMIT_REACHED)
            session = ShareSession(1, dict.fromkeys(requested, True))
            self._check_capacity(len(session.partitions))
            self._sessions[key] = session
            return session
        session = self.acknowledge(key, epoch)
        if epoch != END:
            new_partitions = [partition for partition in requested if partition not in session.partitions]
            if new_partitions:
                self._check_capacity(len(new_partitions))
            session.partitions.update(dict.fromkeys(new_partitions, True))
            for partition in forgotten:
                session.partitions.pop(partition, None)
        return session

    def acknowledge(self, key: tuple[str, str], epoch: int) -> ShareSession:
        """Start processing a ShareAcknowledge, or a ShareFetch that does not start a session.

        Raises:
            ApiError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == BEGIN:
            raise ApiError(Error.INVALID_SHARE_SESSION_EPOCH)
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(Error.SHARE_SESSION_NOT_FOUND)
        if epoch == END:
            return session
        if session.epoch != epoch:
            raise ApiError(Error.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _MAX_INT32 else epoch + 1
        return session

    def end(self, key: tuple[str, str], session: ShareSession) -> bool:
        """Remove a session; return whether it existed."""
        if self._sessions.get(key) is not session:
            return False
        del self._sessions[key]
        session.ended = True
        return True

    def _check_capacity(self, count: int) -> None:
        if sum(len(session.partitions) for session in self._sessions.values()) + count > _MAX_PARTITIONS:
            raise ApiError(Error.SHARE_SESSION_LIMIT_REACHED)


class AllShareSessions:
    """The share sessions of all brokers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._settings = cluster.part(ShareSettings)
        self._by_node: dict[int, ShareSessions] = {}

    def for_node(self, node: BrokerNode) -> ShareSessions:
        """Return the sessions of one broker."""
        return self._by_node.setdefault(node.id, ShareSessions(self._settings))
