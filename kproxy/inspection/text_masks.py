"""`--mask-text`: text that never appears in an output, by regular expressions.

The text can come from anyone, so the expressions are RE2's, whose searches take linear time. Each match is followed by
another search, so the number of matches and the work are limited. Needs the extra ``payloads``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import re2

from kproxy.errors import UserError
from kproxy.trace.record_values import MASKED

#: A text with more matches is masked completely: each costs microseconds.
_MAX_MATCHES: Final = 1000
#: The maximum total of bytes after each match in a value, as a search may read all remaining bytes. Beyond it, texts
#: with a match are masked completely.
_MAX_STEPS: Final = 32 << 20
#: An expression with an empty match in one of these is useless: there is no text to mask.
_SAMPLES: Final = (b"", b"a", b"ab", b"a b", b"1")


class TextMasks:
    """Regular expressions in RE2's syntax. Each match in a text is masked.

    Raises:
        UserError: An expression is invalid, or has an empty match.
    """

    def __init__(self, expressions: Iterable[str]) -> None:
        self._expressions = [_compile(expression) for expression in expressions]

    def mask_text(self, text: str) -> str:
        """Return the text with ``(masked)`` in place of each match; matches that touch or overlap count as one."""
        return _ValueMasker(self._expressions).mask_text(text)

    def mask_tree(self, data: Any) -> Any:
        """Return a copy of the tree with all its text masked, including the names of fields.

        A number with a match becomes ``(masked)``, and so do bytes: the text in them is not known. If the names
        of several fields become equal, the last field remains.
        """
        return _ValueMasker(self._expressions).mask_tree(data)


class _ValueMasker:
    """Masks the texts of one value."""

    def __init__(self, expressions: Sequence[Any]) -> None:
        self._expressions = expressions
        self._work_left = _MAX_STEPS

    def mask_text(self, text: str) -> str:
        data = text.encode(errors="replace")  # lone surrogates
        spans = self._spans(data)
        if spans is None:
            return MASKED
        if not spans:
            return text
        masked, end = "", 0
        for start, stop in sorted(spans):
            if not masked or start > end:
                masked += data[end:start].decode(errors="replace") + MASKED
            end = max(end, stop)
        return masked + data[end:].decode(errors="replace")

    def mask_tree(self, data: Any) -> Any:
        if isinstance(data, str):
            return self.mask_text(data)
        if isinstance(data, dict):
            return {self.mask_text(name): self.mask_tree(inner) for name, inner in data.items()}
        if isinstance(data, list):
            return [self.mask_tree(element) for element in data]
        if data is None or isinstance(data, bool):
            return data
        if isinstance(data, int | float):
            return data if self.mask_text(str(data)) == str(data) else MASKED
        return MASKED

    def _spans(self, data: bytes) -> list[tuple[int, int]] | None:
        """Return the spans of the matches; None if they are too many or too much work, or if one is empty."""
        spans: list[tuple[int, int]] = []
        for expression in self._expressions:
            for match in expression.finditer(data):
                start, end = match.span()
                self._work_left -= len(data) - end
                if start == end or len(spans) == _MAX_MATCHES or self._work_left < 0:
                    return None
                spans.append((start, end))
        return spans


def _compile(expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # to standard error
    try:
        compiled = re2.compile(expression.encode(), options)
    except UnicodeEncodeError:
        raise UserError("--mask-text: the expression is not text in UTF-8") from None
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise UserError(f"--mask-text {expression}: {reason}; pass a regular expression in RE2's syntax") from None
    if any(match.start() == match.end() for sample in _SAMPLES for match in compiled.finditer(sample)):
        raise UserError(f"--mask-text {expression}: it matches the empty text; pass one that needs a character")
    return compiled
