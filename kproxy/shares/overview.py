"""The records that members of share groups hold: which ones, how often they were delivered, and until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.trackers.share_acquisitions import AcknowledgeType, AcquiredPartition, Acquisition
from kproxy.trace.lines import FRAME_LINES, CloseLine, GapLine, Line, RequestLine, ResponseLine

_MAX_GROUPS: Final = 500
_MAX_PARTITIONS: Final = 1_000
_MS: Final = 1_000_000

#: The APIs whose frames, if they are not decoded, may change which records are held.
_APIS: Final = ("ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat")
_RENEW: Final = AcknowledgeType.RENEW.name.lower()
_TopicPartition: TypeAlias = tuple[str, int]


class HeldRecords(NamedTuple):
    """Records `first` to `last` of a partition that a member has acquired, for the `deliveries`-th time.

    The lock expires at `until` (ns), None if unknown. `gone` tells whether the connection of the member has ended.
    """

    topic: str
    partition: int
    first: int
    last: int
    deliveries: int
    until: int | None
    gone: bool


@dataclass(slots=True)
class _ShareGroup:
    """A share group: the records that its members hold, and how many they acknowledged, by the type's name."""

    partitions: BoundedDict[_TopicPartition, AcquiredPartition] = field(
        default_factory=lambda: BoundedDict(_MAX_PARTITIONS)
    )
    counts: dict[str, int] = field(default_factory=dict)


class SharesOverview:
    """Collects share groups from the lines of a trace. After lost frames, no records are known to be held."""

    def __init__(self) -> None:
        self._groups: BoundedDict[str, _ShareGroup] = BoundedDict(_MAX_GROUPS)

    def observe(self, line: Line, at: int) -> None:
        """Apply the next line, given its time (ns)."""
        if not self._groups and not (isinstance(line, ResponseLine) and line.acquired):
            return
        if isinstance(line, FRAME_LINES):
            if line.not_decoded is not None:
                if line.api is None or line.api in _APIS:
                    self._forget()
            elif line.group_id is None:
                return
            elif isinstance(line, ResponseLine):
                if line.acquired or line.acknowledged:
                    self._apply_response(line, at)
            elif line.api == "ShareGroupHeartbeat" and (line.generation_id or 0) < 0:
                self._release_member(line)
        elif isinstance(line, GapLine):
            self._forget()
        elif isinstance(line, CloseLine):
            self._close(line.connection_id)

    def held_records(self, group: str, now: int) -> dict[str, list[HeldRecords]]:
        """Return the records that the members of a group hold at time `now` (ns), by member id."""
        records_by_member: dict[str, list[HeldRecords]] = {}
        share_group = self._groups.get(group)
        for (topic, number), partition in share_group.partitions.items() if share_group is not None else ():
            for acquisition in partition.held:
                if acquisition.until is None or acquisition.until > now:
                    records = HeldRecords(
                        topic,
                        number,
                        acquisition.first,
                        acquisition.last,
                        acquisition.deliveries,
                        acquisition.until,
                        acquisition.gone,
                    )
                    records_by_member.setdefault(acquisition.member, []).append(records)
        for rows in records_by_member.values():
            rows.sort()
        return records_by_member

    def acknowledged_counts(self, group: str) -> dict[str, int]:
        """Return how many records a group acknowledged, by type: accept, release, reject, renew, gap."""
        share_group = self._groups.get(group)
        return {} if share_group is None else dict(share_group.counts)

    def _apply_response(self, line: ResponseLine, at: int) -> None:
        share_group = self._groups.touch(line.group_id or "", _ShareGroup)
        lock_ms = line.lock_ms
        until = None if lock_ms is None else at + lock_ms * _MS
        member = line.member_id or ""
        for acknowledgement in line.acknowledged:
            share_group.counts[acknowledgement.type] = (
                share_group.counts.get(acknowledgement.type, 0) + acknowledgement.last - acknowledgement.first + 1
            )
            partition = share_group.partitions.get((acknowledgement.topic, acknowledgement.partition))
            if partition is None:
                continue
            acquisitions = partition.take(acknowledgement.first, acknowledgement.last)
            if acknowledgement.type == _RENEW:
                for renewed in acquisitions:
                    renewed.until = until or renewed.until
                partition.held += acquisitions
        for acquired in line.acquired:
            partition = share_group.partitions.touch((acquired.topic, acquired.partition), AcquiredPartition)
            partition.take(acquired.first, acquired.last)
            client = line.client_id or ""
            partition.held.append(
                Acquisition(
                    acquired.first, acquired.last, member, client, line.connection_id, acquired.deliveries, at, until
                )
            )

    def _release_member(self, line: RequestLine) -> None:
        """Forget the records of a member that leaves its group: the broker releases them."""
        if (share_group := self._groups.get(line.group_id or "")) is not None:
            for partition in share_group.partitions.values():
                partition.held = [acquisition for acquisition in partition.held if acquisition.member != line.member_id]

    def _close(self, connection_id: str) -> None:
        for share_group in self._groups.values():
            for partition in share_group.partitions.values():
                for acquisition in partition.held:
                    if acquisition.connection_id == connection_id:
                        acquisition.gone = True

    def _forget(self) -> None:
        for share_group in self._groups.values():
            share_group.partitions.clear()
