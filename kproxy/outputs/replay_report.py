"""The outcome of `kproxy replay` as text and JSON lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, TextIO

from dissectors import schemas
from dissectors.wire.paths import parts, schema_path
from kproxy.comparison.bodies import DifferenceKind, FieldDifference
from kproxy.outputs.text import Piece, painter
from kproxy.replay.exchange import ReplayedExchange, ReplayOutcome
from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import safe

_MAX_VALUE: Final = 60
_ONLY: Final = {DifferenceKind.ONLY_IN_A: "only in the capture", DifferenceKind.ONLY_IN_B: "only in the live response"}


@dataclass(slots=True)
class _RepeatedDifference:
    """The first of several differences of the same kind in the same field, and their number."""

    first: list[Piece]
    where: str
    count: int = 0


class ReplayReport:
    """Counts outcomes and prints them. Repeated differences in a field are printed once, with their number.

    Args:
        file: Standard output.
        as_json: Whether to print JSON lines instead of text.
    """

    def __init__(self, file: TextIO, *, as_json: bool) -> None:
        self._file, self._as_json = file, as_json
        self._paint = painter(file)
        self._repeated_differences: dict[tuple[str, ...], _RepeatedDifference] = {}
        self._left_out_counts: Counter[tuple[str, str]] = Counter()
        self.counts: Counter[ReplayOutcome] = Counter()

    @property
    def sent(self) -> int:
        """The number of requests that were not left out."""
        return self.counts.total() - self.counts[ReplayOutcome.LEFT_OUT]

    def add(self, result: ReplayedExchange) -> None:
        """Count one result; print it immediately if the report is JSON."""
        self.counts[result.outcome] += 1
        if self._as_json:
            self._file.write(encode_json(result_json(result)).decode() + "\n")
        elif result.outcome is ReplayOutcome.LEFT_OUT:
            self._left_out_counts[result.captured.name, result.sentence] += 1
        elif result.outcome is ReplayOutcome.DIFFERENT:
            self._add_differences(result)

    def end(self) -> None:
        """Print the differences, what was left out, and the summary."""
        if self._as_json:
            summary = {outcome.value: self.counts[outcome] for outcome in ReplayOutcome}
            self._file.write(encode_json({"summary": summary}).decode() + "\n")
            return
        for repeated in self._repeated_differences.values():
            more_text = f", and {repeated.count - 1} more" if repeated.count > 1 else ""
            self._file.write(self._paint([*repeated.first, (f"  ({repeated.where}{more_text})", "dim")]) + "\n")
        for (name, sentence), count in self._left_out_counts.items():
            self._file.write(self._paint([("left out: ", "dim"), (f"{count} {name}: {safe(sentence)}", "")]) + "\n")
        equal, different, not_compared, left_out = (self.counts[outcome] for outcome in ReplayOutcome)
        self._file.write(
            f"requests: {self.sent} sent, {left_out} left out; "
            f"responses: {equal} equal, {different} different, {not_compared} not compared\n"
        )

    def _add_differences(self, result: ReplayedExchange) -> None:
        name = result.captured.name
        location = f"request {result.captured.number} of {safe(result.captured.connection_id)}"
        keys_and_texts = [((name, result.sentence), f": {result.sentence}")] if result.sentence else []
        for difference in result.differences:
            codes = (str(difference.a), str(difference.b)) if difference.why is DifferenceKind.ERROR_CODE else ()
            keys_and_texts.append(
                (
                    (name, schema_path(parts(difference.path)), difference.why, *codes),
                    f" {difference.path}: {_sides_text(difference)}",
                )
            )
        for key, text in keys_and_texts:
            first = [(name, "name"), (safe(text), "")]
            self._repeated_differences.setdefault(key, _RepeatedDifference(first, location)).count += 1


def result_json(result: ReplayedExchange) -> dict[str, Any]:
    """Return a result as an object: the request, the outcome, and how the live and the captured response differ."""
    line = result.captured.line
    return {
        "connection_id": line.connection_id, "request": result.captured.number, "api": line.api,
        "api_version": line.api_version, "correlation_id": line.correlation_id, "outcome": result.outcome.value,
        "sentence": result.sentence,
        "differences": [
            {"path": difference.path, "why": _ONLY.get(difference.why, difference.why.value), "captured": difference.a,
             "live": difference.b}
            for difference in result.differences
        ],
    }  # fmt: skip


def _sides_text(difference: FieldDifference) -> str:
    if (only := _ONLY.get(difference.why)) is not None:
        return f"{only}: {_value_text(difference.a if difference.why is DifferenceKind.ONLY_IN_A else difference.b)}"
    captured, live = _value_text(difference.a), _value_text(difference.b)
    if difference.why is DifferenceKind.ERROR_CODE:
        captured, live = (schemas.error_name(code) or str(code) for code in (difference.a, difference.b))
    return f"captured {captured}, live {live}"


def _value_text(value: Any) -> str:
    text = encode_json(value).decode()
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
