"""Save the visible rows as a trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kproxy.browse.rows.index import RowState
from kproxy.browse.session import BrowseSession, Note
from kproxy.trace.encoding import encode_line, parse_line

_SLICE = 2000
_WRITE_BYTES = 1 << 20


def save(session: BrowseSession, path: Path) -> Iterator[int]:
    """Write the visible rows, with their notes and the open and close events of their connections.

    Lines keep their original order. From time to time, yields the number of rows written so far; the last number is the
    total. If writing fails, the incomplete file is removed.

    Raises:
        OSError: The file already exists or cannot be written.
    """
    path = path.expanduser()
    rows = _rows_to_save(session)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    finished = False
    try:
        out = bytearray()
        for count, line in enumerate(_lines(session, rows), 1):
            out += line
            if len(out) > _WRITE_BYTES:
                _write(fd, out)
            if not count % _SLICE:
                yield min(count, len(rows))
        _write(fd, out)
        finished = True
    finally:
        os.close(fd)
        if not finished:
            path.unlink(missing_ok=True)
    yield len(rows)


def _rows_to_save(session: BrowseSession) -> set[int]:
    """Return the visible rows plus the open and close events of their connections."""
    index, visible = session.index, session.visible
    rows = {visible[position] for position in range(len(visible))}
    connections = {index.connection[row - index.first] for row in rows}
    for entry, state in enumerate(index.state):
        if state == RowState.EVENT and index.connection_events[entry] and index.connection[entry] in connections:
            rows.add(entry + index.first)
    return rows


def _lines(session: BrowseSession, rows: set[int]) -> Iterator[bytes]:
    """Yield the lines of these rows in the order in which the store holds them."""
    index = session.index
    locations = sorted(
        (index.locations[side][row - index.first], index.sizes[side][row - index.first], row)
        for row in rows
        for side in (0, 1)
        if row >= index.first and index.locations[side][row - index.first] >= 0
    )
    for location, size, row in locations:
        raw = session.source.store.read(location, size)
        note = session.notes.get(row)
        if note is not None:  # an empty one if the user has removed it
            yield _add_note(raw, note)
        elif raw:  # else the store has discarded it
            yield raw + b"\n"


def _add_note(raw: bytes, note: Note) -> bytes:
    """Return a line with its note added; a line that cannot be parsed is returned unchanged."""
    try:
        return encode_line(msgspec.structs.replace(parse_line(raw), note=note.text or None, marked=note.marked))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw + b"\n" if raw else b""


def _write(fd: int, out: bytearray) -> None:
    view = memoryview(bytes(out))
    out.clear()
    while view:
        view = view[os.write(fd, view) :]
