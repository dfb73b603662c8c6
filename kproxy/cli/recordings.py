"""The lines of recordings that a command reads as a whole: traces, captures, and directories of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from kproxy.capture import Capture
from kproxy.capture.inputs import NO_INPUT, input_files
from kproxy.capture.lines import CaptureLines, stem_of
from kproxy.errors import UserError
from kproxy.inspection.inspector import Inspector
from kproxy.outputs.stderr import warn
from kproxy.trace.lines import Detail, Line
from kproxy.trace.reader import open_trace


def lines_of(name: str, args: argparse.Namespace, detail: Detail) -> Iterator[Line]:
    """The lines of a file or of those in a directory, those of captures at this detail.

    Args:
        name: The path.
        args: With the options of `kproxy.cli.options.add_capture`.
        detail: Traces have the one that they were written at.

    Raises:
        UserError: While iterating: a file cannot be read.
    """
    path = Path(name)
    files = input_files(path) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{name}: {NO_INPUT} in this directory")
    for each in files:
        try:
            with each.open("rb") as file:
                opened = open_trace(file, str(each), warn)
                if opened.lines is not None:
                    yield from opened.lines
                    continue
                with Capture(opened.source, str(each), owned=False) as capture:
                    inspector = Inspector(stem_of(str(each)), detail)
                    yield from CaptureLines(capture, inspector, ports=frozenset(args.port), keylog=args.keylog)
                if capture.truncated:
                    warn(f"{each}: {capture.truncated}; everything before that point was read")
        except OSError as error:
            raise UserError(f"{each}: {error.strerror or error}") from None
