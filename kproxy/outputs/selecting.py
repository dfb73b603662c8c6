"""The output that a command's options ask for: text, JSON lines or chosen fields, filtered."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from dissectors.failures import Failure
from kproxy.cli.errors import CommandError
from kproxy.filters import Filter, FilterError, parse
from kproxy.filters.fields import BY_NAME
from kproxy.inspection.event_lines import failure_line
from kproxy.outputs.coverage import AnalysedInputs
from kproxy.outputs.selection import Selection
from kproxy.outputs.stderr import warn
from kproxy.outputs.text import TextOutput, safe
from kproxy.trace.encoding import append_line, as_mapping, encode_json
from kproxy.trace.lines import Detail, Line

if TYPE_CHECKING:
    from kproxy.inspection.inspector import WaitingResponse


class Output(ABC):
    """Takes lines; those that do not match the filter are passed over.

    `warnings` are sentences about what was left out, known when it is closed.
    """

    warnings: Sequence[str] = ()

    def __init__(self, file: TextIO, chosen: Filter | None) -> None:
        self._file = file
        self._filter = chosen
        self.analysed = AnalysedInputs()
        self.failures: Counter[Failure] = Counter()

    def detail(self, asked: Detail) -> Detail:
        """How much of each frame this output needs."""
        return asked

    def begin(self, name: str) -> None:  # noqa: B027  # most have nothing to do
        """What is written next is of the input `name`."""

    def note(self, sentence: str) -> None:  # noqa: B027  # most have nothing to do
        """The user is told this of the input."""

    def still_waiting(self, waiting: WaitingResponse, ts: str) -> None:  # noqa: B027  # of use to a person who watches
        """At `ts`, a request that is still without a response."""

    def write(self, line: Line) -> bool:
        """Write a line if it matches; whether it did.

        A bug in kproxy that this line provokes is reported in its place, each once; `failures` counts them.
        """
        self.analysed.add(line)
        try:
            return self._put(line)
        except (OSError, CommandError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug: the other lines are still worth showing
            failure = Failure.of("showing a line", error)
        self.failures[failure] += 1
        if self.failures[failure] == 1:
            warn(f"{failure}; this is a bug in kproxy; the other lines are still shown")
            self._put(failure_line(line, failure))
        return True

    def _put(self, line: Line) -> bool:
        mapping = None
        if self._filter is not None and not self._filter.matches(mapping := as_mapping(line)):
            return False
        self._show(line, mapping)
        return True

    @abstractmethod
    def _show(self, line: Line, mapping: Mapping[str, Any] | None) -> None: ...

    def flush(self) -> None:
        """Hand over what is ready: nothing more may come for a while."""
        self._file.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()


class _Text(Output):
    def __init__(self, file: TextIO, chosen: Filter | None, args: argparse.Namespace) -> None:
        super().__init__(file, chosen)
        self._verbose = args.verbose
        self._text = TextOutput(file, quiet=args.quiet, verbose=args.verbose)

    def detail(self, asked: Detail) -> Detail:
        return Detail.FULL if self._verbose and asked is Detail.SUMMARY else asked

    def still_waiting(self, waiting: WaitingResponse, ts: str) -> None:
        if self._filter is None or self._filter.matches(as_mapping(waiting.request)):
            self._text.still_waiting(waiting, ts)

    def _show(self, line: Line, mapping: Mapping[str, Any] | None) -> None:
        self._text.write(line)


class _Json(Output):
    """Lines as the trace has them, gathered into writes of a page or more."""

    def __init__(self, file: TextIO, chosen: Filter | None) -> None:
        super().__init__(file, chosen)
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
    """The chosen fields of each line that has any of them: tab-separated, or as JSON objects."""

    def __init__(self, file: TextIO, chosen: Filter | None, names: list[str], *, json: bool) -> None:
        super().__init__(file, chosen)
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
    """The value at a dotted path of a line (``body.topics``, ``topics.topic``); through arrays, the values of each."""
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


def output_for(args: argparse.Namespace, file: TextIO, selection: Selection) -> Output:
    """The output for ``--json``, ``--fields``, ``--findings``, ``--html``, ``-f``, ``-v`` and ``-q``.

    Raises:
        CommandError: A filter or field that is none, or options that do not go together.
    """
    chosen = filter_for(args.filter)
    if args.html:
        from kproxy.html.page import HtmlOutput

        if other := next((name for name in ("json", "fields", "findings", "format") if getattr(args, name)), None):
            raise CommandError(f"use --html or --{other}, not both")
        return HtmlOutput(file, chosen)
    if args.findings:
        from kproxy.outputs.reports import Report

        if args.fields:
            raise CommandError("use --findings or --fields, not both")
        if args.json and args.format not in (None, "json"):
            raise CommandError(f"use --json or --format {args.format}, not both")
        return Report(file, chosen, args.format or ("json" if args.json else "text"), selection)
    if args.format:
        raise CommandError(f"--format {args.format} needs --findings")
    if args.fields:
        names = [_path(name.strip()) for name in args.fields.split(",") if name.strip()]
        for name in names:
            if name.split(".")[0] not in known_fields():
                raise CommandError(f"unknown field {name!r}; use one of {', '.join(sorted(known_fields()))}")
        return _Fields(file, chosen, names, json=args.json)
    return _Json(file, chosen) if args.json else _Text(file, chosen, args)


#: Fields of the filter language that lie inside an array of the trace.
_INSIDE = {
    "topic": "topics.topic",
    "partition": "topics.partitions",
    "error": "errors.name",
    "finding": "findings.code",
    "severity": "findings.severity",
}


def _path(name: str) -> str:
    """Where a field lies that is given by a name of the filter language, or by its own."""
    field = BY_NAME.get(name)
    if field is not None and not field.many and len(field.columns) == 1:
        return next(iter(field.columns))
    return _INSIDE.get(name, name)


def known_fields() -> frozenset[str]:
    """Every name that a line of the trace can have."""
    from kproxy.trace.lines import KINDS

    return frozenset({"kind", *(name for kind in KINDS.values() for name in kind.__struct_fields__)})


def filter_for(text: str | None) -> Filter | None:
    """Parse a filter, None for none.

    Raises:
        CommandError: With the sentence of the filter's error.
    """
    if not text:
        return None
    try:
        return parse(text)
    except FilterError as error:
        raise CommandError(f"filter: {error}") from None
