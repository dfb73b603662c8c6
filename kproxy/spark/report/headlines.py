"""Headlines for operators, one sentence per problem: what fails, then what is slow, then what will break."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.spark.report.contents import Figures
from kproxy.spark.report.statements import STATEMENT_READERS, Stage, to_datetime

_LEVELS: Final = ("error", "warning", "info")
#: How Kafka writes the names of errors.
_ERROR_NAME: Final = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


@dataclass(frozen=True, slots=True)
class Headline:
    """A sentence, its level (error, warning, info), and its section or table.

    Attributes:
        title: A few words.
        stage: The effect of the problem.
        clients, times: How many clients or groups have the problem, and how often.
        rows: Values by column; the headline is about the rows of the table with these values.
        filter: A filter that finds its frames; empty if there is none.
    """

    level: str
    text: str
    about: str
    title: str = ""
    stage: Stage = Stage.DEGRADES
    clients: int = 0
    times: int = 0
    rows: Mapping[str, Any] = field(default_factory=dict)
    filter: str = ""


def headlines(figures: Figures) -> list[Headline]:
    """Return the headlines of a report, most urgent first; if there are none, one that says so."""
    facts = figures.facts
    collected = [
        Headline(
            statement.level,
            statement.text
            + statement.before
            + _time_range_text(statement.begin or facts.first_us or 0, statement.end or facts.last_us or 0)
            + ".",
            about,
            statement.title,
            statement.stage,
            statement.clients,
            statement.times,
            dict(statement.rows),
            statement.filter,
        )
        for about, read_statements in STATEMENT_READERS.items()
        if about in figures.tables
        for statement in read_statements(figures.tables[about].records())
    ]
    return [*_without_repeats(sorted(collected, key=urgency))] or [
        Headline("info", "No problems found.", "latency", "No problems found")
    ]


def _without_repeats(sorted_headlines: list[Headline]) -> Iterator[Headline]:
    """Leave out headlines that repeat the error of a more urgent one: one cause, one headline."""
    reported: set[tuple[Stage, str]] = {
        (headline.stage, name)
        for headline in sorted_headlines
        if headline.about == "findings"  # they explain the error
        for name in _ERROR_NAME.findall(headline.text)
    }
    for headline in sorted_headlines:
        if headline.about in ("errors", "rules"):
            names = _ERROR_NAME.findall(headline.text)
            if any((stage, name) in reported for name in names for stage in list(Stage)[: _rank(headline.stage) + 1]):
                continue
            reported.update((headline.stage, name) for name in names)
        yield headline


def urgency(headline: Headline) -> tuple[int, int, int, int]:
    """Return the sort key of a headline: by stage (fails, degrades, will break), then by severity and impact."""
    return _rank(headline.stage), _LEVELS.index(headline.level), -headline.clients, -headline.times


def _rank(stage: Stage) -> int:
    return list(Stage).index(stage)


def _time_range_text(begin: int, end: int) -> str:
    """Return a time range as ``2026-11-21 13:00-14:00 UTC``, or with both dates."""
    first, last = f"{to_datetime(begin):%Y-%m-%d %H:%M}", f"{to_datetime(end):%Y-%m-%d %H:%M}"
    if first == last:
        return f"{first} UTC"
    return f"{first}-{last[11:]} UTC" if first[:10] == last[:10] else f"{first} to {last} UTC"
