"""Selects the findings to show, and the findings that make a command fail: `--select`, `--ignore`, `--fail-on`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kproxy.errors import UserError
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import FRAME_LINES, CloseLine, FindingLine, Line, RequestLine, ResponseLine


class Selection:
    """The findings to show and to fail on.

    Args:
        select: Codes, code prefixes or rule names, separated by commas. Empty means all.
        ignore: Codes, prefixes or names to hide. It takes precedence over `select`.
        fail_on: ``info``, ``warning``, ``error`` or ``never``.

    Raises:
        UserError: A code or name is unknown.
    """

    def __init__(self, select: Iterable[str] = (), ignore: Iterable[str] = (), fail_on: str = "error") -> None:
        self._select, self._ignore = _prefixes("--select", select), _prefixes("--ignore", ignore)
        self._min_failing_rank = RANK.get(fail_on, len(RANK))

    def shows(self, code: str) -> bool:
        """Whether findings of this code are shown."""
        return code.startswith(self._select or "") and not code.startswith(self._ignore)

    def fails(self, severity: str) -> bool:
        """Whether a finding of this severity makes the command fail."""
        return RANK.get(severity, 0) >= self._min_failing_rank

    def fails_for(self, line: Line) -> bool:
        """Whether a finding of this line makes the command fail."""
        if isinstance(line, FRAME_LINES):
            return bool(line.findings) and any(self.fails(finding.severity) for finding in line.findings)
        return isinstance(line, FindingLine) and self.fails(line.severity)

    def filter(self, lines: Sequence[Line]) -> Sequence[Line]:
        """Return the lines with only the selected findings, as `select` does for one line."""
        if not self._select and not self._ignore:
            return lines
        return [selected for line in lines if (selected := self.select(line)) is not None]

    def select(self, line: Line) -> Line | None:
        """Return the line with only the selected findings; None if it is a finding that is not selected."""
        if not self._select and not self._ignore:
            return line
        if isinstance(line, FindingLine):
            return line if self.shows(line.code) else None
        if isinstance(line, RequestLine | ResponseLine) and (line.findings or line.repeats):
            return msgspec.structs.replace(
                line,
                findings=[finding for finding in line.findings if self.shows(finding.code)],
                repeats=[repeat for repeat in line.repeats if self.shows(repeat.code)],
            )
        if isinstance(line, CloseLine) and line.repeated:
            return msgspec.structs.replace(
                line, repeated=[repeat for repeat in line.repeated if self.shows(repeat.code)]
            )
        return line


def _prefixes(option: str, texts: Iterable[str]) -> tuple[str, ...]:
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        return ()
    from kproxy.outputs import rulebook  # it imports all rules

    prefixes = []
    for name in names:
        prefix = rulebook.code_prefix(name)
        if prefix is None:
            raise UserError(f"{option} {name}: {rulebook.unknown_rule_message(name)}")
        prefixes.append(prefix)
    return tuple(prefixes)
