"""Selects the output of lines: text, JSON lines, chosen fields, or a report of findings.

Imports that only some outputs need (rich, XML, the filter language) are inside functions, so that commands start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

from kproxy.errors import UserError
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.output import Output
from kproxy.trace.encoding import append_line, append_lines
from kproxy.trace.lines import KINDS, Line

if TYPE_CHECKING:
    from kproxy.filters import Filter


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How lines are shown.

    `report` is the format of a report of findings. Without it, `fields` are the fields to show of each line. `json`
    applies to lines and fields; the other options apply to text. With `payloads`, text has a row for each decoded
    record; with `local_time`, local times; with `headings`, the name of each input and each day.
    """

    filter: Filter | None = None
    json: bool = False
    verbose: bool = False
    quiet: bool = False
    payloads: bool = False
    local_time: bool = False
    headings: bool = False
    fields: tuple[str, ...] = ()
    report: Literal["text", "json", "sarif", "junit"] | None = None

    @property
    def shows_bodies(self) -> bool:
        """Whether text shows the bodies of frames, or their records."""
        return (self.verbose or self.payloads) and not self.quiet


class _JsonOutput(Output):
    """Writes lines as in the trace, in chunks of 64 KiB. `encode`, if given, may reuse encoded lines."""

    def __init__(self, file: TextIO, line_filter: Filter | None, encode: Callable[[Line], bytes] | None) -> None:
        super().__init__(file, line_filter)
        self._encode = encode
        self._pending = bytearray()

    def write_all(self, lines: Sequence[Line]) -> Sequence[Line]:
        if self._filter is not None:
            return super().write_all(lines)
        size = len(self._pending)
        try:
            append_lines(lines, self._pending)
        except Exception:  # noqa: BLE001  # a bug: find the line that triggers it, and write the others
            del self._pending[size:]
            return super().write_all(lines)
        self.analysed.add_all(lines)
        self._write_if_full()
        return lines

    def _show(self, line: Line) -> None:
        if self._encode is None:
            append_line(line, self._pending)
        else:
            self._pending += self._encode(line)
        self._write_if_full()

    def _write_if_full(self) -> None:
        if len(self._pending) >= 1 << 16:
            self.flush()

    def flush(self) -> None:
        self._file.buffer.write(self._pending)
        self._pending.clear()
        super().flush()


def output_for(
    options: OutputOptions, file: TextIO, selection: Selection, encode: Callable[[Line], bytes] | None = None
) -> Output:
    """Return the output for these options. `encode` encodes lines if they are also encoded for other consumers.

    Raises:
        UserError: A field does not exist.
    """
    if options.report:
        from kproxy.outputs.reports import Report

        return Report(file, options.filter, options.report, selection)
    if options.fields:
        names = [_field_path(name) for name in options.fields]
        for name in names:
            if name.split(".")[0] not in known_fields():
                raise UserError(f"unknown field {name!r}; the trace has {', '.join(sorted(known_fields()))}")
        from kproxy.outputs.chosen_fields import ChosenFields

        return ChosenFields(file, options.filter, names, json=options.json)
    if options.json:
        return _JsonOutput(file, options.filter, encode)
    from kproxy.outputs.text_lines import TextLines

    return TextLines(file, options)


#: Fields of the filter language that are inside an array of a trace line.
_IN_ARRAYS = {
    "topic": "topics.topic",
    "partition": "topics.partitions",
    "error": "errors.name",
    "finding": "findings.code",
    "severity": "findings.severity",
}


def _field_path(name: str) -> str:
    """Return the path of a field, given its name in the filter language or its path."""
    from kproxy.filters.fields import BY_NAME

    field = BY_NAME.get(name)
    if field is not None and not field.many and len(field.columns) == 1:
        return next(iter(field.columns))
    return _IN_ARRAYS.get(name, name)


def known_fields() -> frozenset[str]:
    """Return all column names of trace lines."""
    return frozenset({"kind", *(name for kind in KINDS.values() for name in kind.__struct_fields__)})


def filter_for(text: str | None) -> Filter | None:
    """Parse a filter; return None for an empty one.

    Raises:
        UserError: The filter is invalid.
    """
    if not text:
        return None
    from kproxy.filters import FilterError, parse

    try:
        return parse(text)
    except FilterError as error:
        raise UserError(f"filter: {error}") from None
