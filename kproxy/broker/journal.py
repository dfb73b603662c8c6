"""What outlives a restart: small tables of JSON values, kept by a journal, or by nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

#: A value that JSON has; None where an entry is gone.
Value: TypeAlias = Mapping[str, Any]


class Journal(Protocol):
    """Keeps the entries of tables. Who owns a table reads it once, when it is made, and then only writes."""

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        """What the table had when the broker was last stopped, by key."""

    def put(self, table: str, key: str, value: Value | None) -> None:
        """Keep an entry, or with None forget it; never waits."""

    async def synced(self) -> None:
        """Return when what was put so far is as safe as was asked for: on the disk, with fsync."""


class Forgetful:
    """Keeps nothing: the broker's memory is all there is."""

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        """Nothing."""
        return iter(())

    def put(self, table: str, key: str, value: Value | None) -> None:
        """Forget it."""

    async def synced(self) -> None:
        """Nothing to wait for."""
