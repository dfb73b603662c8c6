"""`--mask-text`: text that never appears in an output, by regular expressions.

The text comes from anyone, so the expressions are RE2's: they take linear time. Needs the extra ``payloads``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import re2

from kproxy.errors import UserError
from kproxy.trace.record_values import MASKED

#: A text with more matches is masked completely: each costs microseconds.
_MOST_MATCHES: Final = 1000


class TextMasks:
    """Regular expressions in RE2's syntax. Each match in a text is masked.

    Raises:
        UserError: An expression is invalid, or matches the empty text.
    """

    def __init__(self, expressions: Iterable[str]) -> None:
        self._expressions = [_compiled(each) for each in expressions]

    def text(self, text: str) -> str:
        """The text with ``(masked)`` in place of each match; matches that touch or overlap count as one."""
        data = text.encode(errors="replace")  # lone surrogates
        spans = sorted(self._spans(data))
        if not spans:
            return text
        if len(spans) > _MOST_MATCHES:
            return MASKED
        made, end = "", 0
        for start, stop in spans:
            if not made or start > end:
                made += data[end:start].decode(errors="replace") + MASKED
            end = max(end, stop)
        return made + data[end:].decode(errors="replace")

    def tree(self, data: Any) -> Any:
        """A copy of the tree with all its text masked, also the names of fields.

        A number with a match becomes ``(masked)``, and so do bytes: nobody knows which text is in them. Of fields whose
        names become equal, the last remains.
        """
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, dict):
            return {self.text(name): self.tree(each) for name, each in data.items()}
        if isinstance(data, list):
            return [self.tree(each) for each in data]
        if data is None or isinstance(data, bool):
            return data
        if isinstance(data, int | float):
            return data if self.text(str(data)) == str(data) else MASKED
        return MASKED

    def _spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        for expression in self._expressions:
            found = (match.span() for match in expression.finditer(data))
            yield from islice((span for span in found if span[0] < span[1]), _MOST_MATCHES + 1)


def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # to standard error
    try:
        compiled = re2.compile(expression.encode(), options)
    except UnicodeEncodeError:
        raise UserError("--mask-text: the expression is not text in UTF-8") from None
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise UserError(f"--mask-text {expression}: {reason}; pass a regular expression in RE2's syntax") from None
    if compiled.search(b"") is not None:
        raise UserError(f"--mask-text {expression}: it matches the empty text; pass one that needs a character")
    return compiled
