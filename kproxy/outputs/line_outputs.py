"""Selects the output of lines: text, JSON lines, chosen fields, or a report of findings.

Imports that only some outputs need (rich, XML, the filter language) are inside functions, so that commands start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO

from kproxy.errors import UserError
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.output import Output
from kproxy.trace.encoding import append_line, as_mapping, encode_json
from kproxy.trace.formatting import safe
from kproxy.trace.lines import KINDS, Line

if TYPE_CHECKING:
    from kproxy.filters import Filter


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How lines are shown.

    `report` is the format of a report of findings. Without it, `fields` are the fields to show of each line. `json`
    applies to lines and fields, `verbose` and `quiet` apply to text. With `headings`, text names each input and day.
    """

    filter: Filter | None = None
    json: bool = False
    verbose: bool = False
    quiet: bool = False
    headings: bool = False
    fields: tuple[str, ...] = ()
    report: Literal["text", "json", "sarif", "junit"] | None = None


class _Json(Output):
    """Writes lines as in the trace, in chunks of 64 KiB."""

    def __init__(self, file: TextIO, line_filter: Filter | None) -> None:
        super().__init__(file, line_filter)
        self._pending = bytearray()

    def _show(self, line: Line, mapping: Mapping[str, Any] | None) -> None:
        append_line(line, self._pending)
        if len(self._pending) >= 1 << 16:
            self.flush()

    def flush(self) -> None:
        self._file.buffer.write(self._pending)
        self._pending.clear()
        super().flush()


class _Fields(Output):
    """Writes the chosen fields of each line that has any of them: tab-separated, or as JSON objects."""

    def __init__(self, file: TextIO, line_filter: Filter | None, names: list[str], *, json: bool) -> None:
        super().__init__(file, line_filter)
        self._names = names
        self._json = json

    def _show(self, line: Line, mapping: Mapping[str, Any] | None) -> None:
        whole = mapping or as_mapping(line)
        values = {name: value(whole, name) for name in self._names}
        if all(found is None for found in values.values()):
            return
        if self._json:
            present = {name: found for name, found in values.items() if found is not None}
            self._file.buffer.write(encode_json(present) + b"\n")
        else:
            self._file.write("\t".join(_cell(found) for found in values.values()) + "\n")


def value(line: Mapping[str, Any], name: str) -> Any:
    """The value at a dotted path of a line, e.g. ``body.topics``; in arrays, the list of the elements' values."""
    found: Any = line
    for part in name.split("."):
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list):
            found = [each.get(part) for each in found if isinstance(each, Mapping) and each.get(part) is not None]
        else:
            return None
    return None if found == [] else found


def _cell(found: Any) -> str:
    if found is None:
        return ""
    if isinstance(found, str):
        return safe(found)
    if isinstance(found, list) and all(isinstance(each, str | int) for each in found):
        return ",".join(safe(str(each)) for each in found)
    return encode_json(found).decode()


def output_for(options: OutputOptions, file: TextIO, selection: Selection) -> Output:
    """The output for these options.

    Raises:
        UserError: A field does not exist.
    """
    if options.report:
        from kproxy.outputs.reports import Report

        return Report(file, options.filter, options.report, selection)
    if options.fields:
        names = [_path(name) for name in options.fields]
        for name in names:
            if name.split(".")[0] not in known_fields():
                raise UserError(f"unknown field {name!r}; the trace has {', '.join(sorted(known_fields()))}")
        return _Fields(file, options.filter, names, json=options.json)
    if options.json:
        return _Json(file, options.filter)
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


def _path(name: str) -> str:
    """The path of a field that is given by its name in the filter language, or by its path."""
    from kproxy.filters.fields import BY_NAME

    field = BY_NAME.get(name)
    if field is not None and not field.many and len(field.columns) == 1:
        return next(iter(field.columns))
    return _IN_ARRAYS.get(name, name)


def known_fields() -> frozenset[str]:
    """All column names of trace lines."""
    return frozenset({"kind", *(name for kind in KINDS.values() for name in kind.__struct_fields__)})


def filter_for(text: str | None) -> Filter | None:
    """Parse a filter; None for an empty one.

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
