"""The records that members of share groups hold: which, delivered how often, and until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.trackers.share_acquisitions import AcknowledgeType, AcquiredPartition, Acquisition
from kproxy.trace.lines import FRAME_LINES, CloseLine, GapLine, Line, RequestLine, ResponseLine

_MAX_GROUPS: Final = 500
_MAX_PARTITIONS: Final = 1_000
_MS: Final = 1_000_000

#: What may be missing in a frame of these that was not decoded.
_APIS: Final = ("ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat")
_RENEW: Final = AcknowledgeType.RENEW.name.lower()
_TopicPartition: TypeAlias = tuple[str, int]


class HeldRecords(NamedTuple):
    """Records `first` to `last` of a partition that a member has acquired, for the `deliveries`-th time.

    The lock runs out at `until` (ns), None if that is unknown. `gone`: the connection of the member has ended.
    """

    topic: str
    partition: int
    first: int
    last: int
    deliveries: int
    until: int | None
    gone: bool


@dataclass(slots=True)
class _Share:
    """A share group: what its members hold, and how many records it acknowledged, by the name of the type."""

    partitions: BoundedDict[_TopicPartition, AcquiredPartition] = field(
        default_factory=lambda: BoundedDict(_MAX_PARTITIONS)
    )
    counts: dict[str, int] = field(default_factory=dict)


class SharesOverview:
    """Collects share groups from the lines of a trace. After lost frames, nothing is known to be held."""

    def __init__(self) -> None:
        self._groups: BoundedDict[str, _Share] = BoundedDict(_MAX_GROUPS)

    def observe(self, line: Line, at: int) -> None:
        """Apply the next line: its time (ns)."""
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
                    self._records(line, at)
            elif line.api == "ShareGroupHeartbeat" and (line.generation_id or 0) < 0:
                self._leave(line)
        elif isinstance(line, GapLine):
            self._forget()
        elif isinstance(line, CloseLine):
            self._close(line.connection_id)

    def held(self, group: str, now: int) -> dict[str, list[HeldRecords]]:
        """Return the records that each member of a group, by its id, holds at time `now` (ns)."""
        records_by_member: dict[str, list[HeldRecords]] = {}
        share = self._groups.get(group)
        for (topic, number), partition in share.partitions.items() if share is not None else ():
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

    def acknowledged(self, group: str) -> dict[str, int]:
        """Return how many records of a group were acknowledged, by type: accept, release, reject, renew, gap."""
        share = self._groups.get(group)
        return {} if share is None else dict(share.counts)

    def _records(self, line: ResponseLine, at: int) -> None:
        share = self._groups.touch(line.group_id or "", _Share)
        lock = line.lock_ms
        until = None if lock is None else at + lock * _MS
        member = line.member_id or ""
        for acknowledged_entry in line.acknowledged:
            share.counts[acknowledged_entry.type] = (
                share.counts.get(acknowledged_entry.type, 0) + acknowledged_entry.last - acknowledged_entry.first + 1
            )
            partition = share.partitions.get((acknowledged_entry.topic, acknowledged_entry.partition))
            if partition is None:
                continue
            acquisitions = partition.take(acknowledged_entry.first, acknowledged_entry.last)
            if acknowledged_entry.type == _RENEW:
                for renewed in acquisitions:
                    renewed.until = until or renewed.until
                partition.held += acquisitions
        for new in line.acquired:
            partition = share.partitions.touch((new.topic, new.partition), AcquiredPartition)
            partition.take(new.first, new.last)
            client = line.client_id or ""
            partition.held.append(
                Acquisition(new.first, new.last, member, client, line.connection_id, new.deliveries, at, until)
            )

    def _leave(self, line: RequestLine) -> None:
        """A member leaves its group: the broker releases what it holds."""
        if (share := self._groups.get(line.group_id or "")) is not None:
            for partition in share.partitions.values():
                partition.held = [acquisition for acquisition in partition.held if acquisition.member != line.member_id]

    def _close(self, connection_id: str) -> None:
        for share in self._groups.values():
            for partition in share.partitions.values():
                for acquisition in partition.held:
                    if acquisition.connection_id == connection_id:
                        acquisition.gone = True

    def _forget(self) -> None:
        for share in self._groups.values():
            share.partitions.clear()
