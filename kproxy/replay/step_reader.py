"""Reads the steps of a replay from a trace or a capture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kproxy.capture.recordings import read_recording
from kproxy.errors import UserError
from kproxy.replay.steps import NO_BYTES, Step, build_steps
from kproxy.trace.lines import Detail, Line


def read_steps(
    path: Path,
    warn: Callable[[str], None],
    is_wanted: Callable[[Line], bool] | None = None,
    *,
    ports: frozenset[int] = frozenset(),
    keylog: str | None = None,
    report_damage: Callable[[str], None] | None = None,
) -> list[Step]:
    """Return the steps in a trace, a capture, or a directory of them.

    Args:
        path: See `kproxy.capture.recordings.read_recording`, also for the arguments other than `is_wanted`.
        warn: See there.
        is_wanted: Returns whether to send the request of a line; None sends all.
        ports: See there.
        keylog: See there.
        report_damage: See there.

    Raises:
        UserError: The input cannot be read, is damaged, or is a trace without the bytes of requests.
    """
    try:
        lines = read_recording(
            path, Detail.RAW, warn, ports=ports, keylog=keylog, findings=False, report_damage=report_damage
        )
        steps = build_steps(lines, is_wanted)
    except ValueError as error:  # base64 or a time
        raise UserError(f"{path}: a line is damaged: {error}") from None
    exchanges = [step.exchange for step in steps if step.exchange is not None]
    if exchanges and all(exchange.left_out == NO_BYTES for exchange in exchanges):
        raise UserError(f"{path}: the trace has no bytes of requests: record it with --detail raw")
    return steps
