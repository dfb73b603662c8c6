"""Problems of family L, from the diagnosis of a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis import Diagnosis, certain
from dissectors.diagnosis.diagnose import LIKELY
from dissectors.edits import Edit
from dissectors.findings import Problem, Severity


def layout_problems(
    event: RequestReceived | ResponseReceived, *kinds: str, only: Callable[[Edit], bool] = lambda edit: True
) -> Iterator[Problem]:
    """The problem of a frame whose diagnosis begins with an edit of one of these kinds.

    It is a warning where the frame is surely broken, but how is a guess.
    """
    message = event.message
    diagnosis = message.diagnosis if message is not None else None
    if message is None or diagnosis is None or diagnosis.edit.kind not in kinds or not only(diagnosis.edit):
        return
    yield Problem(
        diagnosis.sentence,
        diagnosis.start,
        diagnosis.end,
        diagnosis.path or None,
        diagnosis.hint,
        blame="client" if message.is_request else "broker",
        severity=None if diagnosis.confidence >= LIKELY else Severity.WARNING,
        **_sizes(len(message.frame) - 4, diagnosis),
        diagnosis=diagnosis,
    )


def _sizes(size: int, diagnosis: Diagnosis) -> dict[str, str]:
    """How long the frame should be and is, without its length prefix, where that says something."""
    if not diagnosis.surplus:
        return {}
    return {"expected": f"{size - diagnosis.surplus} bytes", "got": f"{size} bytes"}


def of_records(edit: Edit) -> bool:
    """Whether an edit is of a field of record data."""
    return edit.field.rpartition(".")[2].removesuffix("[]") in ("records", "unaligned_records")


def diagnosed(problem: Problem, edit: Edit | None) -> Problem:
    """A problem that says by which edit the bytes were written, if that is known; it needs no search."""
    if edit is None or problem.start is None or problem.end is None:
        return problem
    found = certain(edit, problem.path or "", problem.start, problem.end, problem.message, problem.hint or "")
    return replace(problem, diagnosis=found)
