"""Findings as rows: rules, their root causes, the connections of each cause."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kproxy.trace.lines import FindingEntry


@dataclass(frozen=True, slots=True)
class CauseConnection:
    """A root cause on one connection: count, addresses, first and last occurrence (ns, rows of the index).

    If another connection reported the cause and this one only counted repeats, the place is this connection's end.
    """

    connection_id: str
    client: str | None
    server: str | None
    count: int
    first_row: int
    last_row: int
    first_at: int
    last_at: int


@dataclass(frozen=True, slots=True)
class CauseRows:
    """A root cause over all connections. `finding` is its first finding, in a frame of `direction`.

    `count` includes repeats that can only be of this cause; `unassigned` repeats are of this cause or another one of
    its rule. `harmless`: each request with the finding got a response without an error. `sentences` are further
    messages, which name other topics or groups. `places` are in order of first occurrence; `elsewhere` is how many of
    `count` are on connections that are not listed. `groups` are the consumer groups that it is about. `explained_by` is
    the code of the cause of which it is a consequence.
    """

    finding: FindingEntry
    api: str | None
    api_version: int | None
    direction: str | None
    count: int
    unassigned: int
    harmless: bool
    sentences: tuple[str, ...]
    places: tuple[CauseConnection, ...]
    groups: frozenset[str]
    elsewhere: int
    first_row: int
    last_row: int
    first_at: int
    last_at: int
    explained_by: str | None = None

    @property
    def scope(self) -> Collection[str]:
        """The connections and groups with findings of this cause."""
        return {*self.groups, *(place.connection_id for place in self.places)}


@dataclass(frozen=True, slots=True)
class RuleRows:
    """A rule with its root causes, most severe first; `severity` is that of the most severe cause.

    `unassigned` findings are repeats that may be of any cause. A rule without causes has repeats only, because the
    start of the trace, with the reported findings, is missing. The rule's page: `kproxy.outputs.rulebook`.
    """

    code: str
    name: str
    severity: str
    count: int
    unassigned: int
    causes: tuple[CauseRows, ...]
