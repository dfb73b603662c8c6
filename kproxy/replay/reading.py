"""Reads the steps of a replay from a trace or a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from kproxy.capture import Capture
from kproxy.capture.lines import CaptureLines, stem_of
from kproxy.errors import UserError
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.needs import Needs
from kproxy.trace.lines import Detail, Line
from kproxy.trace.reader import open_trace


def read_lines(
    path: Path,
    warn: Callable[[str], None],
    flow_ids: Iterator[int] | None = None,
    *,
    ports: frozenset[int] = frozenset(),
    keylog: str | None = None,
) -> Iterator[Line]:
    """The lines of a trace, or those that a proxy with ``--detail raw`` would have written for a capture.

    Args:
        path: The file.
        warn: Called with a sentence for each part that cannot be read.
        flow_ids: Numbers of the TCP connections of captures. Files that share it have distinct connection ids.
        ports: Kafka's ports in a capture; by default, Kafka is detected by content.
        keylog: The path of a key log to decrypt the TLS of a capture.

    Raises:
        UserError: The file cannot be read, or is neither.
    """
    try:
        with path.open("rb") as file:
            opened = open_trace(file, str(path), warn)
            if opened.lines is not None:
                yield from opened.lines
                return
            inspector = Inspector(stem_of(path.name), Detail.RAW, needs=Needs(findings=False))
            with Capture(opened.source, str(path), owned=False) as capture:
                yield from CaptureLines(capture, inspector, ports=ports, keylog=keylog, flow_ids=flow_ids)
            if capture.truncated:
                warn(f"{path}: {capture.truncated}; everything before that point was read")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
