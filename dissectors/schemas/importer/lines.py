"""Merge new rows of release lines into the data, and report the changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dissectors.schemas.importer.data import dump, one_item_per_line

LINES = "lines.json"

Row = Mapping[str, Any]

#: The last line that needs ZooKeeper in production (KIP-833).
_LAST_WITH_ZOOKEEPER = (3, 2)


def numbers(release: str) -> tuple[int, ...]:
    """Return ``4.4.0`` as (4, 4, 0)."""
    return tuple(map(int, re.findall(r"\d+", release)))


def listener(release: str) -> str:
    """Return the listener, in Kafka's terms, that clients of a release use in a typical cluster."""
    return "zk_broker" if numbers(release)[:2] <= _LAST_WITH_ZOOKEEPER else "broker"


def row(release: str, printed: Mapping[str, Any]) -> Row:
    """Build the row of a release line from the output of ``Served.java``."""
    line = ".".join(release.split(".")[: 3 if release.startswith("0.") else 2])
    apis = {key: printed["apis"][key] for key in sorted(printed["apis"], key=int)}
    return {"line": line, "release": release, "listener": listener(release), **printed, "apis": apis}


def parse(content: bytes) -> list[Row]:
    """Parse the rows of the data file, oldest line first; an empty file has none."""
    rows: list[Row] = json.loads(content or b"[]")
    return rows


def merge_rows(present: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Return the present rows merged with new rows, which replace rows of the same line."""
    by_line = {row["line"]: row for row in (*present, *rows)}
    return [by_line[line] for line in sorted(by_line, key=numbers)]


def content(rows: Sequence[Row]) -> bytes:
    """Return the content of the data file; equal rows give equal bytes."""
    return one_item_per_line("[]", map(dump, rows))


def changes(present: Sequence[Row], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the changes as lines to review: ``+`` added, ``~`` changed."""
    before = {row["line"]: row for row in present}
    for after in rows:
        line = after["line"]
        if line not in before:
            yield f"+ line {line} as of {after['release']} ({len(after['apis'])} APIs, {after['listener']})"
            continue
        for key in ("release", "listener"):
            if before[line][key] != after[key]:
                yield f"~ line {line}: {key} {before[line][key]} -> {after[key]}"
        for table in ("apis", "served", "features"):
            old, new = before[line][table], after[table]
            for name in sorted(old.keys() | new.keys()):
                if old.get(name) != new.get(name):
                    yield f"~ line {line}: {table} {name} {old.get(name, 'none')} -> {new.get(name, 'none')}"
