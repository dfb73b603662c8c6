"""Problems of family L, built from the diagnosis of a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypedDict

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis import Diagnosis, certain_diagnosis
from dissectors.diagnosis.cast_lengths import find_cast_length
from dissectors.diagnosis.diagnose import LIKELY_CONFIDENCE
from dissectors.diagnosis.payloads import PayloadDiagnosis
from dissectors.edits import Edit
from dissectors.findings import Problem, Severity


def layout_problems(
    event: RequestReceived | ResponseReceived, *kinds: str, accepts_edit: Callable[[Edit], bool] = lambda edit: True
) -> Iterator[Problem]:
    """Yield the problem of a frame whose best diagnosis is an edit of one of these kinds.

    It is a warning if the frame is certainly malformed but the diagnosis is unlikely to be the right one.
    """
    message = event.message
    diagnosis = message.diagnosis if message is not None else None
    if message is None or diagnosis is None or diagnosis.edit.kind not in kinds or not accepts_edit(diagnosis.edit):
        return
    if find_cast_length(message) is not None:
        return  # L042
    yield Problem(
        diagnosis.sentence,
        diagnosis.start,
        diagnosis.end,
        diagnosis.path or None,
        diagnosis.hint,
        blame="client" if message.is_request else "broker",
        severity=None if diagnosis.confidence >= LIKELY_CONFIDENCE else Severity.WARNING,
        **_sizes(len(message.frame) - 4, diagnosis),
        diagnosis=diagnosis,
    )


class _Sizes(TypedDict, total=False):
    expected: str
    got: str


def _sizes(size: int, diagnosis: Diagnosis) -> _Sizes:
    """Return the expected and actual frame sizes without the length prefix, or an empty dict if they are equal."""
    if not diagnosis.surplus:
        return {}
    return {"expected": f"{size - diagnosis.surplus} bytes", "got": f"{size} bytes"}


def is_records_edit(edit: Edit) -> bool:
    """Return whether an edit applies to a records field."""
    return edit.field.rpartition(".")[2].removesuffix("[]") in ("records", "unaligned_records")


def add_diagnosis(problem: Problem, edit: Edit | None) -> Problem:
    """Return the problem, with a definite diagnosis if the edit that produced the bytes is known."""
    if edit is None or problem.start is None or problem.end is None:
        return problem
    diagnosis = certain_diagnosis(
        edit, problem.path or "", problem.start, problem.end, problem.message, problem.hint or ""
    )
    return replace(problem, diagnosis=diagnosis)


def add_payload_diagnosis(problem: Problem, payload_diagnosis: PayloadDiagnosis | None) -> Problem:
    """Return the problem, with the diagnosis of a payload if there is one."""
    diagnosed_problem = add_diagnosis(problem, payload_diagnosis.edit if payload_diagnosis else None)
    if payload_diagnosis is None or diagnosed_problem.diagnosis is None:
        return problem
    diagnosis = replace(
        diagnosed_problem.diagnosis,
        confidence=payload_diagnosis.confidence,
        also=payload_diagnosis.also,
        rivals=payload_diagnosis.rivals,
    )
    return replace(diagnosed_problem, diagnosis=diagnosis)
