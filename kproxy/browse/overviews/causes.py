"""What is wrong: rules, their causes, the connections that these are on."""

from __future__ import annotations

from dataclasses import dataclass

from kproxy.trace.lines import FindingEntry


@dataclass(frozen=True, slots=True)
class CauseConnection:
    """A cause on a connection: how often, and from where to where; times in ns, rows of the index.

    Where all of them were only counted, because another connection had told the cause, the place is the connection's
    end.
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
    """What is wrong in the same way, wherever it is. `finding` is the first of it, in frames of `direction`.

    `count` includes those that were only counted, as far as they can be of no other cause; `unassigned` are of this
    cause or another of its rule. `harmless`: each was in a request that was answered without an error. `sentences` are
    further ones, which name other topics or groups. `places` are in the order in which they were seen, `elsewhere` is
    how many of `count` are on connections that are not listed.
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
    elsewhere: int
    first_row: int
    last_row: int
    first_at: int
    last_at: int


@dataclass(frozen=True, slots=True)
class RuleRows:
    """A rule with the causes that it found, the worst first; `severity` is that of the worst.

    `unassigned` findings were only counted, and may be of any cause; of a rule without causes the beginning of the
    trace, which told them, is missing. The rule's page: `kproxy.outputs.rulebook`.
    """

    code: str
    name: str
    severity: str
    count: int
    unassigned: int
    causes: tuple[CauseRows, ...]
