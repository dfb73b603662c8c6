"""Findings as text, for the messages of failed tests."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from kproxy.outputs.reports.text import rows
from kproxy.outputs.text import painter
from kproxy.verdict.cause import Cause


def report(findings: Iterable[Cause]) -> str:
    """Format each finding as `kproxy dissect --findings` does: message, place, hint, count; return "" for none."""
    paint = painter(StringIO())
    return "\n\n".join("\n".join(map(paint, rows(cause))) for cause in findings)
