"""The output of ``kproxy dissect --html``: lines are spooled, and written as one page at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from kproxy.browse.rows.store import Spool
from kproxy.browse.session import BrowseSession
from kproxy.browse.sources.source import Source
from kproxy.errors import UserError
from kproxy.filters import Filter
from kproxy.html.assemble import application_page
from kproxy.html.contents import contents
from kproxy.outputs.output import Output
from kproxy.trace.encoding import append_line
from kproxy.trace.formatting import safe
from kproxy.trace.lines import Detail, Line

#: Bytes written to the spool at once.
_BUFFER = 1 << 20


class _CompleteLines(Source):
    """A source of lines that are already complete."""

    async def run(self) -> None:
        """Do nothing."""


class HtmlOutput(Output):
    """Collects all lines; an exchange is included if the filter matches its request and response together.

    Raises:
        UserError: The file is a terminal or, later, the disk is full.
    """

    def __init__(self, file: TextIO, chosen: Filter | None) -> None:
        if file.isatty():
            raise UserError(
                "--html writes HTML to standard output: redirect it, e.g. kproxy dissect --html FILE > page.html"
            )
        super().__init__(file, chosen)
        self._spool = Spool()
        self._names: list[str] = []
        self._notes: list[str] = []
        self._path = ""
        self._pending = bytearray()

    def detail(self, requested: Detail) -> Detail:
        """Return the highest detail that may be shown, regardless of what was requested."""
        return Detail.RAW

    def begin(self, name: str) -> None:
        """Start the input `name`; its directory is not disclosed."""
        self._path = name
        self._names.append(safe(Path(name).name))

    def note(self, sentence: str) -> None:
        """Add a note for the readers of the page."""
        self._notes.append(safe(sentence).replace(safe(self._path), self._names[-1]))

    def _put(self, line: Line) -> bool:
        append_line(line, self._pending)
        if len(self._pending) >= _BUFFER:
            self._spill()
        return super()._put(line)

    def _show(self, line: Line) -> None:
        """Do nothing: `_put` stores the line until the end."""

    def _spill(self) -> None:
        try:
            self._spool.append(bytes(self._pending))
        except OSError as error:
            raise UserError(f"cannot store the frames temporarily: {error.strerror}") from None
        self._pending.clear()

    def close(self) -> None:
        """Write the page."""
        self._spill()
        source = _CompleteLines(", ".join(self._names[:3]), self._spool)
        session = BrowseSession(source)
        session.visible.choose(self._filter)
        _ = session.matching  # from now on, overviews of the matching rows are kept
        try:
            while session.work(0.5):
                _show_progress(f"counting: {source.percent()} %")
            page_data = contents(session, self._names, _report_progress)
        finally:
            source.close()
        self.warnings = page_data["notes"]
        page_data["notes"] = [*self._notes, *self.warnings]
        self._file.buffer.write(application_page(f"kproxy: {source.name}", page_data).encode())
        super().close()


def page_of_lines(name: str, lines: Iterable[bytes]) -> bytes:
    """Return a page with the lines of a trace, given with their newlines; `name` is that of their source."""
    spool = Spool()
    spool.append(b"".join(lines))
    source = _CompleteLines(name, spool)
    session = BrowseSession(source)
    try:
        while session.work(0.5):
            pass
        return application_page(f"kproxy: {name}", contents(session, [safe(name)])).encode()
    finally:
        source.close()


def _report_progress(done_count: int, total: int) -> None:
    _show_progress(f"writing the page: {done_count:,} of {total:,} rows", end="\r" if done_count < total else "\n")


def _show_progress(text: str, end: str = "\r") -> None:
    """Show the progress on a terminal, where a long wait would otherwise be silent."""
    if sys.stderr.isatty():
        sys.stderr.write(f"kproxy: {text}{end}")
        sys.stderr.flush()
