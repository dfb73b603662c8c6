"""A journal in memory that several clusters can use in turn."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.broker.journal import Value


class MemoryJournal:
    """Keeps the tables in memory."""

    is_stored = True

    def __init__(self) -> None:
        self.changes = 0
        self.tables: dict[str, dict[str, Value]] = {}

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        return iter(list(self.tables.get(table, {}).items()))

    def put(self, table: str, key: str, value: Value | None) -> None:
        self.changes += 1
        self.tables.setdefault(table, {}).pop(key, None)
        if value is not None:
            self.tables[table][key] = value

    async def synced(self) -> None: ...
