"""Findings as text, for messages of failed tests."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from kproxy.outputs.reports.text import rows
from kproxy.outputs.text import painter
from kproxy.verdict.cause import Cause


def report(findings: Iterable[Cause]) -> str:
    """Each finding as `kproxy dissect --findings` prints it: message, place, hint, count; an empty text for none."""
    paint = painter(StringIO())
    return "\n\n".join("\n".join(map(paint, rows(cause))) for cause in findings)
