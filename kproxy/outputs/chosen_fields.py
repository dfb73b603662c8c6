"""Writes chosen fields of lines: tab-separated, or as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from kproxy.filters import Filter
from kproxy.inspection.needs import Needs, needs_of
from kproxy.outputs.output import Output
from kproxy.trace.encoding import ColumnReader, encode_json
from kproxy.trace.formatting import safe
from kproxy.trace.lines import FindingLine, Line, StallLine

_MAX_ROWS = 256  # written together


class ChosenFields(Output):
    """Writes the chosen fields of each line that has any of them. `names` are dotted paths in a trace line.

    Lines of findings and stalls are left out unless a field or the filter asks for ``kind`` or for something that only
    these lines have. Without them, the inspector need not check the frames.
    """

    def __init__(self, file: TextIO, line_filter: Filter | None, names: list[str], *, json: bool) -> None:
        super().__init__(file, line_filter)
        self._names = tuple(dict.fromkeys(names))
        columns = dict.fromkeys(name.partition(".")[0] for name in names)
        self._read_columns = ColumnReader(columns)
        self._has_paths = any("." in name for name in names)
        self._json = json
        self._rows: list[str] = []
        self._needs = needs_of(columns.keys() | (() if line_filter is None else line_filter.needed_columns))

    @property
    def needs(self) -> Needs:
        return self._needs

    def _show(self, line: Line) -> None:
        if not self._needs.findings and isinstance(line, FindingLine | StallLine):
            return
        values = self._read_columns(line)
        if self._has_paths:
            values = {name: value for name in self._names if (value := _value_at(values, name)) is not None}
        if not values:
            return
        if self._json:
            in_order = {name: values[name] for name in self._names if name in values}
            self._file.buffer.write(encode_json(in_order) + b"\n")
            return
        self._rows.append("\t".join([_cell_text(values.get(name)) for name in self._names]))
        if len(self._rows) >= _MAX_ROWS:
            self._write_rows()

    def _write_rows(self) -> None:
        if self._rows:
            self._file.write("\n".join(self._rows) + "\n")
            self._rows.clear()

    def flush(self) -> None:
        self._write_rows()
        super().flush()


def _value_at(line: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path in a line, e.g. ``body.topics``; for arrays, the list of the elements' values."""
    value: Any = line
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list):
            value = [
                element.get(part) for element in value if isinstance(element, Mapping) and element.get(part) is not None
            ]
        else:
            return None
    return None if value == [] else value


def _cell_text(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return value if value.isprintable() else safe(value)
    if kind is int:
        return str(value)
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(element, str | int) for element in value):
        return ",".join(safe(str(element)) for element in value)
    return encode_json(value).decode()
