"""Reads the steps of a replay from a trace or a capture."""

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
from kproxy.replay.captured import NO_BYTES, Step, steps_of
from kproxy.trace.lines import Detail, Line
from kproxy.trace.reader import open_trace


def read_steps(
    path: Path,
    warn: Callable[[str], None],
    wanted: Callable[[Line], bool] | None = None,
    *,
    ports: frozenset[int] = frozenset(),
    keylog: str | None = None,
) -> list[Step]:
    """The steps of a trace, a capture, or a directory of these.

    Args:
        path: The file or directory.
        warn: Called with a sentence for each part that cannot be read.
        wanted: Whether to send the request of this line; None sends all.
        ports: Kafka's ports in a capture; by default, Kafka is detected by content.
        keylog: The path of a key log to decrypt the TLS of a capture.

    Raises:
        UserError: It cannot be read, is damaged, or is a trace without the bytes of requests.
    """
    files = input_files(path) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path}: {NO_INPUT} in this directory")
    numbers = itertools.count()
    read = [read_lines(each, warn, numbers, ports=ports, keylog=keylog) for each in files]
    try:
        steps = steps_of((line for lines in read for line in lines), wanted)
    except ValueError as error:  # base64 or a time
        raise UserError(f"{path}: a line is damaged: {error}") from None
    exchanges = [step.exchange for step in steps if step.exchange is not None]
    if exchanges and all(each.left_out == NO_BYTES for each in exchanges):
        raise UserError(f"{path}: the trace has no bytes of requests: record it with --detail raw")
    return steps


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
