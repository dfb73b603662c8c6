"""ShareAcquisitions: which member of a share group has acquired which records, until when, and what became of them.

Sources: KIP-932, KIP-1222, Kafka's SharePartition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from dissectors.bounded import MAX_NAME_LENGTH, BoundedDict
from dissectors.connections.events import ConnectionEnded, ResponseReceived
from dissectors.limits import Limit
from dissectors.trackers import tracker
from dissectors.trackers.losses import LossCheck, Losses
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import client_address_label
from dissectors.trackers.triggers import FrameFlags, Trigger

#: Kafka's default of share.delivery.count.limit.
DELIVERIES: Final = Limit("deliveries", 5, "deliveries", "records have been delivered so often, and never again")

APIS: Final = ("ShareFetch", "ShareAcknowledge")

_MAX_PARTITIONS = 1_000
_MAX_SESSIONS = 10_000
_MAX_HELD = 100
_MAX_ENDED = 50
_MAX_PENDING = 20

#: The most ranges to follow for a partition in one frame. With more acknowledgements, its records are forgotten.
_MAX_RANGES = 50
_ALL_OFFSETS = 1 << 63
_UNKNOWN = -1

_MS = 1_000_000
_FINAL_EPOCH = -1
#: The bodies of a request and its response.
_Bodies: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]

_IRREGULAR = FrameFlags.IRREGULAR.value


class AcknowledgeType(IntEnum):
    """What a member does with a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_TYPES: Final[Mapping[int, AcknowledgeType]] = {
    acknowledge_type.value: acknowledge_type for acknowledge_type in AcknowledgeType
}


@dataclass(slots=True, eq=False)
class Acquisition:
    """Records `first` to `last` that a member acquired at `at` (ns) for the `deliveries`-th time.

    Its lock runs out at `until` (ns); None if that is unknown. `client` is the member's name. `gone`: the connection
    that acquired them has ended.
    """

    first: int
    last: int
    member: str
    client: str
    connection_id: str
    deliveries: int
    at: int
    until: int | None
    gone: bool = False

    def covers(self, first: int, last: int) -> bool:
        """Whether it includes any record of a range."""
        return self.first <= last and first <= self.last


class EndedAcquisition(NamedTuple):
    """An acquisition that ended at `at` (ns), by an acknowledgement, or because its lock ran out (None)."""

    acquisition: Acquisition
    by: AcknowledgeType | None
    at: int


class AcknowledgedRange(NamedTuple):
    """Records of a partition that a request acknowledges in the same way."""

    topic_partition: TopicPartition
    first: int
    last: int
    type: int


class Redelivery(NamedTuple):
    """Records that a member got although another acquisition of them was not acknowledged."""

    topic_partition: TopicPartition
    before: Acquisition
    latest: Acquisition


@dataclass(slots=True)
class AcquiredPartition:
    """The records of a partition that members of a group hold, and the latest acquisitions that ended.

    `pending` are the acquisitions that were released, or whose lock ran out, after so many deliveries that the broker
    may archive the records.
    """

    held: list[Acquisition] = field(default_factory=list)
    ended: deque[EndedAcquisition] = field(default_factory=lambda: deque(maxlen=_MAX_ENDED))
    pending: list[EndedAcquisition] = field(default_factory=list)
    members: BoundedDict[str, None] = field(default_factory=lambda: BoundedDict(_MAX_ENDED))

    def take(self, first: int, last: int) -> list[Acquisition]:
        """Remove a range from the held records; return the removed acquisitions."""
        removed: list[Acquisition] = []
        acquisitions: list[Acquisition] = []
        for acquisition in self.held:
            if acquisition.first > last or first > acquisition.last:
                acquisitions.append(acquisition)
                continue
            if first <= acquisition.first and acquisition.last <= last:
                removed.append(acquisition)
                continue
            removed.append(replace(acquisition, first=max(first, acquisition.first), last=min(last, acquisition.last)))
            if acquisition.first < first:
                acquisitions.append(replace(acquisition, last=first - 1))
            if last < acquisition.last:
                acquisitions.append(replace(acquisition, first=last + 1))
        self.held = acquisitions[-_MAX_HELD:]
        return removed

    def end(self, acquisitions: Iterable[Acquisition], kind: AcknowledgeType | None, at: int) -> None:
        """Record how acquisitions have ended."""
        self.ended.extend(EndedAcquisition(acquisition, kind, at) for acquisition in acquisitions)


@dataclass(slots=True)
class SessionEpoch:
    """The share session of a member on a connection: its last epoch that succeeded, -1 if it was closed, and when."""

    epoch: int
    at: int
    client: str


@tracker(
    events=(ResponseReceived,),
    apis=APIS,
    also=(Trigger((ConnectionEnded,)),),
    needs=(Losses,),
)
class ShareAcquisitions:
    """The acquired records of all share groups of a run, and their share sessions.

    `redelivered` and `archived` are about the latest response, which is flagged as irregular if there are any.
    """

    def __init__(self) -> None:
        self.partitions: BoundedDict[tuple[str, TopicPartition], AcquiredPartition] = BoundedDict(_MAX_PARTITIONS)
        self.sessions: BoundedDict[tuple[str, str, str], SessionEpoch] = BoundedDict(_MAX_SESSIONS)
        self.redelivered: list[Redelivery] = []
        self.archived: list[tuple[TopicPartition, EndedAcquisition]] = []
        self.max_deliveries: BoundedDict[str, int] = BoundedDict(_MAX_PARTITIONS)
        self._pending: set[tuple[str, TopicPartition]] = set()
        self._losses = LossCheck()
        # Connections on which records were acquired.
        self._connections: BoundedDict[str, None] = BoundedDict(_MAX_SESSIONS)

    def observe(self, event: ResponseReceived | ConnectionEnded, connection: ConnectionState) -> None:
        """Observe a response, or the end of a connection."""
        if self._losses.is_outdated(connection):
            self.partitions.clear()  # the lost frames may have acquired or acknowledged anything
            self._pending.clear()
        if isinstance(event, ConnectionEnded):
            self._mark_connection_ended(connection)
            return
        if self.redelivered or self.archived:
            self.redelivered, self.archived = [], []
        message, request = event.message, event.request
        if message is None or request is None or message.body.get("error_code"):
            return
        request_body = request.message.body
        group, member = group_member_of(request_body)
        epoch = request_body.get("share_session_epoch", 0)
        key = connection.connection_id, group, member
        session = self.sessions.touch(key, lambda: SessionEpoch(epoch, event.at, client_address_label(connection)))
        session.epoch, session.at = epoch, event.at
        self._observe_acknowledgements((request_body, message.body), event.at, connection)
        if message.api == "ShareFetch":
            self._observe_acquired((request_body, message.body), (request.at, event.at), connection)
        if epoch == _FINAL_EPOCH:
            self._release_member(group, member)
        if self.redelivered or self.archived:
            connection.flags |= _IRREGULAR

    def _mark_connection_ended(self, connection: ConnectionState) -> None:
        connection_id = connection.connection_id
        if connection_id not in self._connections:
            return
        del self._connections[connection_id]
        for partition in self.partitions.values():
            for acquisition in partition.held:
                if acquisition.connection_id == connection_id:
                    acquisition.gone = True

    def _release_member(self, group: str, member: str) -> None:
        """Drop the acquisitions of a member that has ended its session: the broker releases them."""
        for (owner, _), partition in self.partitions.items():
            if owner == group:
                partition.held = [acquisition for acquisition in partition.held if acquisition.member != member]

    def _observe_acknowledgements(self, bodies: _Bodies, at: int, connection: ConnectionState) -> None:
        request_body, body = bodies
        refused_partitions, lock_ms = acknowledge_errors(body), body.get("acquisition_lock_timeout_ms") or 0
        group, member = group_member_of(request_body)
        for acknowledgement in acknowledgements(request_body):
            key = group, acknowledgement.topic_partition
            partition = self.partitions.get(key)
            if partition is None or acknowledgement.topic_partition in refused_partitions:
                continue
            removed = partition.take(acknowledgement.first, acknowledgement.last)
            if (kind := _TYPES.get(acknowledgement.type)) is None:
                partition.ended.clear()
                partition.pending.clear()
                continue
            if kind is AcknowledgeType.RENEW:
                for renewed in removed:
                    if renewed.member == member and lock_ms:
                        renewed.until = at + lock_ms * _MS
                partition.held += removed
                continue
            partition.end(removed, kind, at)
            if kind is AcknowledgeType.RELEASE:
                self._add_pending(key, removed, at, connection)

    def _add_pending(
        self, key: tuple[str, TopicPartition], acquisitions: Iterable[Acquisition], at: int, connection: ConnectionState
    ) -> None:
        limit = self._delivery_limit(key[0], connection)
        pending = self.partitions[key].pending
        kind = AcknowledgeType.RELEASE
        pending += [
            EndedAcquisition(acquisition, kind, at) for acquisition in acquisitions if acquisition.deliveries >= limit
        ]
        del pending[:-_MAX_PENDING]
        if pending:
            self._pending.add(key)

    def _delivery_limit(self, group: str, connection: ConnectionState) -> float:
        """Return the number of deliveries after which a group's records may be archived: at least the most observed."""
        return max(connection.run.limit(DELIVERIES), self.max_deliveries.get(group, 0))

    def _observe_acquired(self, bodies: _Bodies, times: tuple[int, int], connection: ConnectionState) -> None:
        (request_body, body), (requested_at, at) = bodies, times
        group, member = group_member_of(request_body)
        lock_ms = body.get("acquisition_lock_timeout_ms") or 0
        until = at + lock_ms * _MS if lock_ms else None
        client = client_address_label(connection)
        self._connections[connection.connection_id] = None
        highest: dict[TopicPartition, int] = {}
        for topic in body.get("responses") or ():
            for row in topic.get("partitions") or ():
                if not (ranges := row.get("acquired_records")):
                    continue
                topic_partition = topic.get("topic_id") or "", row.get("partition_index", 0)
                partition = self.partitions.touch((group, topic_partition), AcquiredPartition)
                partition.members[member] = None
                for record_range in ranges[:_MAX_RANGES]:
                    first, last = record_range.get("first_offset", 0), record_range.get("last_offset", 0)
                    deliveries = record_range.get("delivery_count", 1)
                    acquisition = Acquisition(
                        first, last, member, client, connection.connection_id, deliveries, at, until
                    )
                    self._add_acquisition(topic_partition, partition, acquisition)
                    highest[topic_partition] = max(highest.get(topic_partition, -1), last)
                    if deliveries > self.max_deliveries.get(group, 0):
                        self.max_deliveries[group] = deliveries
                    if deliveries >= self._delivery_limit(group, connection):
                        self._pending.add((group, topic_partition))
        if self._pending:
            self._add_archived(requested_at, (group, member), highest, connection)

    def _add_acquisition(
        self, topic_partition: TopicPartition, partition: AcquiredPartition, new_acquisition: Acquisition
    ) -> None:
        replaced = partition.take(new_acquisition.first, new_acquisition.last)
        partition.end(replaced, None, new_acquisition.at)
        for acquisition in replaced:
            if new_acquisition.deliveries > acquisition.deliveries and not acquisition.gone:
                self.redelivered.append(Redelivery(topic_partition, acquisition, new_acquisition))
        partition.held.append(new_acquisition)
        if partition.pending:  # it was not archived after all
            partition.pending = [
                acquisition
                for acquisition in partition.pending
                if not acquisition.acquisition.covers(new_acquisition.first, new_acquisition.last)
            ]

    def _add_archived(
        self,
        requested_at: int,
        group_member: tuple[str, str],
        highest: Mapping[TopicPartition, int],
        connection: ConnectionState,
    ) -> None:
        """Add to `archived` the records that this response should have had: brokers deliver the lowest offsets first.

        `group_member` is the group and the member that sent the request at `requested_at`, and `highest` is the highest
        offset acquired in each partition.
        """
        limit = self._delivery_limit(group_member[0], connection)
        for key in [pending_key for pending_key in self._pending if pending_key[0] == group_member[0]]:
            partition, topic_partition = self.partitions.get(key), key[1]
            at_limit = (
                [acquisition for acquisition in partition.held if acquisition.deliveries >= limit]
                if partition is not None
                else []
            )
            if partition is None or not (partition.pending or at_limit):
                self._pending.discard(key)
                continue
            if group_member[1] not in partition.members or (highest and topic_partition not in highest):
                continue  # it may not have asked for this partition, or others filled the response
            for acquisition in at_limit:
                if acquisition.until is not None and acquisition.until <= requested_at:
                    ended = partition.take(acquisition.first, acquisition.last)
                    partition.end(ended, None, acquisition.until)
                    partition.pending.append(EndedAcquisition(acquisition, None, acquisition.until))
            highest_offset = highest.get(topic_partition)
            archived = [
                acquisition
                for acquisition in partition.pending
                if requested_at >= acquisition.at
                and (highest_offset is None or highest_offset > acquisition.acquisition.last)
            ]
            self.archived += ((topic_partition, acquisition) for acquisition in archived)
            partition.pending = [acquisition for acquisition in partition.pending if acquisition not in archived]


def group_member_of(request_body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the group and the member in a request, shortened as they are stored here."""
    return (request_body.get("group_id") or "")[:MAX_NAME_LENGTH], (request_body.get("member_id") or "")[
        :MAX_NAME_LENGTH
    ]


def acknowledge_errors(body: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the partitions whose acknowledgements a response refuses, with their error codes."""
    refused = {}
    for topic in body.get("responses") or ():
        for row in topic.get("partitions") or ():
            code = row.get("acknowledge_error_code") if "acknowledge_error_code" in row else row.get("error_code")
            if code:
                refused[topic.get("topic_id") or "", row.get("partition_index", 0)] = code
    return refused


def acknowledgements(request_body: Mapping[str, Any]) -> Iterator[AcknowledgedRange]:
    """Yield the acknowledgements in a request, as ranges with one type.

    A partition with too many ranges yields a single range that covers everything.
    """
    for topic in request_body.get("topics") or ():
        for row in topic.get("partitions") or ():
            if batches := row.get("acknowledgement_batches"):
                topic_partition = topic.get("topic_id") or "", row.get("partition_index", 0)
                merged = _merge_ranges(
                    acknowledgement for batch in batches for acknowledgement in _ranges(topic_partition, batch)
                )
                yield from (
                    merged
                    if len(merged) <= _MAX_RANGES
                    else [AcknowledgedRange(topic_partition, 0, _ALL_OFFSETS, _UNKNOWN)]
                )


def _ranges(topic_partition: TopicPartition, batch: Mapping[str, Any]) -> Iterator[AcknowledgedRange]:
    first, last = batch.get("first_offset", 0), batch.get("last_offset", 0)
    types: Sequence[int] = batch.get("acknowledge_types") or ()
    if types and types.count(types[0]) == len(types):
        yield AcknowledgedRange(topic_partition, first, last, types[0])
    else:
        for offset, kind in enumerate(types[: last - first + 1], first):
            yield AcknowledgedRange(topic_partition, offset, offset, kind)


def _merge_ranges(ranges: Iterable[AcknowledgedRange]) -> list[AcknowledgedRange]:
    """Merge adjacent ranges of one type; stop when there is one range more than the limit."""
    merged: list[AcknowledgedRange] = []
    for acknowledgement in ranges:
        if merged and acknowledgement.type == merged[-1].type and acknowledgement.first == merged[-1].last + 1:
            merged[-1] = merged[-1]._replace(last=acknowledgement.last)
        elif len(merged) > _MAX_RANGES:
            break
        else:
            merged.append(acknowledgement)
    return merged
