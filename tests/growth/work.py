"""Measure the work that kproxy does for a frame by the Python lines that it runs, which are the same on any machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import dissectors
import kproxy
from dissectors.connections.events import Direction
from kproxy.inspection.explain import explain
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Detail

_PACKAGES = tuple(str(Path(str(package.__file__)).parent) for package in (dissectors, kproxy))
_COMPILED = "<"  # the first character of the file names of generated decoders


def inspect(request: bytes, response: bytes, detail: Detail = Detail.FULL) -> None:
    """Inspect an exchange as the inspector behind a relay does."""
    inspector = Inspector("growth", detail)
    inspector.open(1, "10.0.0.9:50001", "10.0.0.1:9092", at=0)
    inspector.receive_data(1, Direction.REQUEST, request, at=1)
    inspector.receive_data(1, Direction.RESPONSE, response, at=2)
    for _ in inspector.close_all(at=3, how="fin"):
        pass


def explain_exchange(request: bytes, response: bytes, *, is_request: bool) -> None:
    """Explain one frame of an exchange, as `kproxy explain` does."""
    if is_request:
        explain(request)
    else:
        explain(response, request=request)


def count_lines(function: Callable[[], Any]) -> int:
    """Return the number of kproxy's lines that a call runs."""
    line_count = 0

    def trace_call(frame: FrameType, _event: str, _argument: object) -> Any:
        name = frame.f_code.co_filename
        return trace_line if name.startswith(_PACKAGES) or name.startswith(_COMPILED) else None

    def trace_line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal line_count
        if event == "line":
            line_count += 1
        return trace_line

    old_trace = sys.gettrace()
    sys.settrace(trace_call)
    try:
        function()
    finally:
        sys.settrace(old_trace)
    return line_count
