"""What is shown as a trace of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kproxy.browse.rows.index import RowState
from kproxy.browse.session import BrowseSession, Note
from kproxy.trace.encoding import encode_line, parse_line

_SLICE = 2000
_AT_ONCE = 1 << 20


def save(session: BrowseSession, path: Path) -> Iterator[int]:
    """Write the rows that are shown, with their notes, and where connections of theirs begin and end.

    The lines stand in the order in which they came. Yields now and then how many rows are written; the number at the
    end is that of all. A file that was begun and could not be finished is removed.

    Raises:
        OSError: It exists already, or cannot be written.
    """
    path = path.expanduser()
    rows = _with_their_ends(session)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    done = False
    try:
        out = bytearray()
        for count, row in enumerate(_lines(session, rows), 1):
            out += row
            if len(out) > _AT_ONCE:
                _write(file, out)
            if not count % _SLICE:
                yield min(count, len(rows))
        _write(file, out)
        done = True
    finally:
        os.close(file)
        if not done:
            path.unlink(missing_ok=True)
    yield len(rows)


def _with_their_ends(session: BrowseSession) -> set[int]:
    """The rows that are shown, and the events of their connections that open and close them."""
    index, shown = session.index, session.shown
    rows = {shown[position] for position in range(len(shown))}
    connections = {index.connection[row - index.first] for row in rows}
    for entry, state in enumerate(index.state):
        if state == RowState.EVENT and index.ends[entry] and index.connection[entry] in connections:
            rows.add(entry + index.first)
    return rows


def _lines(session: BrowseSession, rows: set[int]) -> Iterator[bytes]:
    """The lines of these rows, in order of where they lie."""
    index = session.index
    places = sorted(
        (index.places[side][row - index.first], index.sizes[side][row - index.first], row)
        for row in rows
        for side in (0, 1)
        if row >= index.first and index.places[side][row - index.first] >= 0
    )
    for place, size, row in places:
        raw = session.source.store.read(place, size)
        note = session.notes.get(row)
        if note is not None and (note.text or note.marked):
            yield _noted(raw, note)
        elif raw:  # else it is no longer kept
            yield raw + b"\n"


def _noted(raw: bytes, note: Note) -> bytes:
    """A line with its note; one that cannot be read to its end as it is."""
    try:
        return encode_line(msgspec.structs.replace(parse_line(raw), note=note.text or None, marked=note.marked))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw + b"\n" if raw else b""


def _write(file: int, out: bytearray) -> None:
    view = memoryview(bytes(out))
    out.clear()
    while view:
        view = view[os.write(file, view) :]
