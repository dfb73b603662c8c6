"""State that survives a restart: small tables of JSON values, stored by a journal or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

#: The JSON value of an entry; None in its place means that the entry is deleted.
Value: TypeAlias = Mapping[str, Any]


class Journal(Protocol):
    """Stores the entries of tables. The owner of a table reads it once, when it is created, and then only writes.

    Attributes:
        changes: How often `put` has been called.
    """

    changes: int

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        """Return the keys and values of a table's stored entries."""

    def put(self, table: str, key: str, value: Value | None) -> None:
        """Store an entry, or delete it if the value is None; never blocks."""

    @property
    def is_stored(self) -> bool:
        """Whether all entries have been handed to the operating system; false if the disk is full."""

    async def wait_until_synced(self) -> None:
        """Wait until all entries are as durable as configured: with fsync, until they are on disk."""


class NullJournal:
    """A journal that stores nothing: state is in memory only."""

    changes = 0

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        """Return no entries."""
        return iter(())

    def put(self, table: str, key: str, value: Value | None) -> None:
        """Do nothing."""

    @property
    def is_stored(self) -> bool:
        """Always true."""
        return True

    async def wait_until_synced(self) -> None:
        """Return immediately."""
