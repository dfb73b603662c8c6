"""A cause of findings: the first of the most severe ones, how often and where they occur, and whether it is ongoing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kproxy.trace.lines import FindingEntry


@dataclass(frozen=True, slots=True)
class FindingLocation:
    """The place of a finding. `offset` is that of its frame in its direction of the connection."""

    file: str
    connection_id: str
    ts: str
    client: str | None = None
    server: str | None = None
    direction: str | None = None
    api: str | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    offset: int | None = None


@dataclass(slots=True)
class ConnectionFindings:
    """The findings of a cause on one connection."""

    client: str | None
    server: str | None
    count: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Cause:
    """Findings with the same cause, represented by the first of the most severe ones.

    Attributes:
        first_row: The row of the first finding in the index of its trace, if there is an index.
        count: The number of findings, including repeats.
        listed: The number of findings in lines, without repeats; `served` counts those in requests that succeeded.
        connections: The findings by connection, in order of first occurrence; `elsewhere` counts those on connections
            that are not kept.
        groups: The consumer groups that its findings are about.
        requests: The requests, by API and version, that its findings without a frame are about.
        sentences: Further messages, which name other topics or groups.
        unassigned: The number of repeats of the same rule that may have this cause or another one.
        lasting: The number of requests and groups that it stops now, or stopped when the observation ended.
        explained_by: The cause of which this one is a consequence.
        rank: The position in the ranked list.
    """

    key: bytes
    finding: FindingEntry
    place: FindingLocation
    first_row: int
    first_ts: str
    last_ts: str
    count: int = 0
    listed: int = 0
    served: int = 0
    connections: dict[str, ConnectionFindings] = field(default_factory=dict)
    elsewhere: int = 0
    groups: set[str] = field(default_factory=set)
    requests: set[tuple[str, int | None]] = field(default_factory=set)
    files: Counter[str] = field(default_factory=Counter)
    sentences: dict[str, None] = field(default_factory=dict)
    unassigned: int = 0
    lasting: int = 0
    consequences: list[Cause] = field(default_factory=list)
    explained_by: Cause | None = None
    rank: int = 0

    def __repr__(self) -> str:
        return f"<{self.severity} {self.code} {self.name}: {self.message} ({self.seen})>"

    @property
    def code(self) -> str:
        """The code of the rule, e.g. ``C001``."""
        return self.finding.code

    @property
    def name(self) -> str:
        """The name of the rule, e.g. ``unmatched-correlation-id``."""
        return self.finding.name

    @property
    def severity(self) -> str:
        """``info``, ``warning`` or ``error``."""
        return self.finding.severity

    @property
    def message(self) -> str:
        """One sentence that tells what was observed, and what was expected."""
        return self.finding.message

    @property
    def path(self) -> str | None:
        """The field, e.g. ``brokers[1].port``; None if it is not about one."""
        return self.finding.path

    @property
    def hint(self) -> str | None:
        """What to do about it."""
        return self.finding.hint

    @property
    def is_harmless(self) -> bool:
        """Whether all of its findings are in requests that succeeded."""
        return self.served == self.listed

    @property
    def lasts(self) -> bool:
        """Whether it, or a consequence of it, stops something now, or stopped something when the observation ended."""
        return bool(self.lasting) or any(consequence.lasting for consequence in self.consequences)

    @property
    def seen(self) -> str:
        """How often and where it was found, and whether it is ongoing: ``12 times on 3 connections, it lasts``."""
        connections_text = f"{len(self.connections):,} connection{'s' * (len(self.connections) != 1)}"
        text = "once" if self.count == 1 else f"{self.count:,} times on {connections_text}"
        if self.lasts:
            text += ", it lasts"
        if self.unassigned:
            text += f"; {self.unassigned:,} more of {self.finding.code}, from this cause or another"
        return text

    def meets(self, other: Cause) -> bool:
        """Whether both were found on the same connection or in the same group."""
        shares_connection = not self.connections.keys().isdisjoint(other.connections.keys())
        return shares_connection or not self.groups.isdisjoint(other.groups)
