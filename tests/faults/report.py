"""The table of results: counts by kind of fault and by client, and the first report of each failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tests.faults.run import Outcome

_RESULTS: Final = ("first", "later", "never", "unreached")
_MAX_CELL_CHARACTERS: Final = 300


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table as Markdown."""
    return "\n".join(_rows(outcomes)) + "\n"


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return the counts of results, such as ``first 180, later 4, never 16, quiet 31``."""
    counts = Counter(outcome.result for outcome in outcomes)
    return ", ".join(f"{name} {counts[name]}" for name in (*_RESULTS, "quiet", "alarm") if counts[name])


def _rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    faults = [outcome for outcome in outcomes if outcome.scenario.api]
    yield from _count_rows("fault", faults, lambda outcome: outcome.scenario.kind)
    yield from _count_rows("client", faults, lambda outcome: outcome.scenario.client)
    for result in ("never", "later", "unreached"):
        faults_with_result = [fault for fault in faults if fault.result == result]
        if faults_with_result:
            yield from (
                "",
                f"## {result.capitalize()}: {len(faults_with_result)}",
                "",
                "| scenario | lacks | said first |",
                "|---|---|---|",
            )
            yield from (_row(outcome) for outcome in faults_with_result)
    runs_without_fault = [outcome for outcome in outcomes if not outcome.scenario.api]
    if runs_without_fault:
        alarms = [outcome for outcome in runs_without_fault if outcome.result == "alarm"]
        yield from (
            "",
            f"## Right runs: {len(runs_without_fault)}, with an alarm: {len(alarms)}",
            "",
            "| run | said |",
            "|---|---|",
        )
        yield from (f"| {alarm.scenario.name} | {_cell(alarm.first)} |" for alarm in alarms)


def _count_rows(title: str, outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> Iterator[str]:
    yield from ("", f"| {title} | " + " | ".join(_RESULTS) + " |", "|---" * (1 + len(_RESULTS)) + "|")
    for name in [*dict.fromkeys(map(key, outcomes)), "all"]:
        counts = Counter(outcome.result for outcome in outcomes if name in ("all", key(outcome)))
        yield f"| {name} | " + " | ".join(str(counts[result]) for result in _RESULTS) + " |"


def _row(outcome: Outcome) -> str:
    return f"| {outcome.scenario.name} | {', '.join(outcome.lacks)} | {_cell(outcome.first) or 'nothing'} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:_MAX_CELL_CHARACTERS]
