"""Captures and piped input: a child process converts them to trace lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from kproxy.browse.rows.store import Spool
from kproxy.browse.sources.source import Source, SourcePhase
from kproxy.errors import CLEAN, FINDINGS, NOTHING

_CHUNK = 1 << 20


class DissectedSource(Source):
    """The output of ``kproxy dissect`` for some files.

    Args:
        name: The name shown to the user.
        arguments: Files and options for that command.
        stdin: Descriptor for the child's standard input, if it reads it; closed here once the child has it.
    """

    def __init__(self, name: str, arguments: Sequence[str], *, stdin: int | None = None) -> None:
        super().__init__(name, Spool())
        self._arguments = arguments
        self._stdin = stdin
        if stdin is not None:
            self.phase = SourcePhase.LIVE
            self.is_stream = True

    @property
    def empty_message(self) -> str:
        """See `Source`."""
        return "Waiting for packets on standard input." if self.live else super().empty_message

    def _progress(self) -> None:
        """Return None: the child does not report progress."""

    async def run(self) -> None:
        """See `Source`."""
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kproxy", "dissect", "--json", "--frames", "--fail-on=never", *self._arguments,
            stdin=asyncio.subprocess.DEVNULL if self._stdin is None else self._stdin,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=_CHUNK,
        )  # fmt: skip
        if self._stdin is not None:
            os.close(self._stdin)  # else the writer would not notice when the child ends
        assert child.stdout is not None
        assert child.stderr is not None
        spool = self.store
        assert isinstance(spool, Spool)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read_messages(child.stderr))
                while data := await child.stdout.read(_CHUNK):
                    try:
                        spool.append(data)
                    except OSError as error:
                        self.sentence = f"some data is missing: out of disk space ({error.strerror})"
                        child.kill()
                        break
            status = await child.wait()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        self.phase = SourcePhase.ENDED
        if status not in (CLEAN, FINDINGS, NOTHING) and not self.sentence:
            self.sentence = self.messages[-1] if self.messages else f"kproxy dissect ended with status {status}"

    async def _read_messages(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.messages.append(line.decode(errors="replace").strip().removeprefix("kproxy: "))
