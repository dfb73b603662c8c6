"""Reads whole recordings: a trace, a capture, or a directory of traces and captures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from kproxy.capture import Capture
from kproxy.capture.inputs import NO_INPUT, input_files
from kproxy.capture.lines import CaptureLines, stem_of
from kproxy.errors import UserError
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.needs import Needs
from kproxy.trace.lines import Detail, Line
from kproxy.trace.reader import open_trace


def read_recording(
    path: Path,
    detail: Detail,
    warn: Callable[[str], None],
    *,
    ports: frozenset[int] = frozenset(),
    keylog: str | None = None,
    findings: bool = True,
    report_damage: Callable[[str], None] | None = None,
) -> Iterator[Line]:
    """Yield the lines of traces unchanged, and for captures the lines that a proxy would have written.

    Args:
        path: A file or a directory. Captures in a directory have distinct connection ids.
        detail: The detail of the lines of captures.
        warn: Called with a sentence for each part that cannot be read.
        ports: Kafka's ports in a capture; by default, Kafka is detected by content.
        keylog: The path of a key log to decrypt the TLS of a capture.
        findings: Whether captures are examined for findings.
        report_damage: Called instead of `warn` if lines of a trace are lost, except at the end of a killed run.

    Raises:
        UserError: While iterating: there is no file, or one cannot be read.
    """
    files = input_files(path) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path}: {NO_INPUT} in this directory")
    flow_ids = itertools.count()
    for file_path in files:
        try:
            with file_path.open("rb") as file:
                opened = open_trace(file, str(file_path), warn, report_damage)
                if opened.lines is not None:
                    yield from opened.lines
                    continue
                inspector = Inspector(stem_of(file_path.name), detail, needs=Needs(findings=findings))
                with Capture(opened.source, str(file_path), owned=False) as capture:
                    yield from CaptureLines(capture, inspector, ports=ports, keylog=keylog, flow_ids=flow_ids)
                if capture.truncated:
                    warn(f"{file_path}: {capture.truncated}; everything before that point was read")
        except OSError as error:
            raise UserError(f"{file_path}: {error.strerror or error}") from None
