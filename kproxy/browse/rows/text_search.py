"""Plain text search: rows whose lines contain a text, ignoring case. What is not a filter is searched as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from kproxy.filters import Filter, FilterError, parse
from kproxy.trace.encoding import encode_json

#: Signs that only a filter has; without any of these, and not a filter, it is a text.
_OPERATOR = re.compile(r"[=<>~!&|()]")
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextSearch:
    """Searches the facts, findings and decoded records of lines; not the bytes of frames, which are base64."""

    text: str

    def is_in(self, raw: bytes) -> bool:
        """Whether a trace line, as JSON, contains the text."""
        wanted = encode_json(self.text)[1:-1].decode().lower()
        text = raw.decode("utf-8", "replace").lower()
        if wanted not in text:
            return False
        if '"frame"' not in text:
            return True
        try:
            line = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        line.pop("frame", None)
        return wanted in encode_json(line).decode("utf-8", "replace").lower()

    def __str__(self) -> str:
        return f'"{self.text}"'


def filter_or_text(text: str) -> Filter | TextSearch | None:
    """Parse what a user typed: ``api=Fetch`` is a filter, ``orders`` and ``"not found"`` are searched as text.

    Returns:
        None for an empty text, which shows all rows.

    Raises:
        FilterError: It is an invalid filter.
    """
    text = text.strip()
    if not text:
        return None
    if quoted := _QUOTED.fullmatch(text):
        return TextSearch(quoted[2])
    try:
        return parse(text)
    except FilterError:
        if _OPERATOR.search(text):
            raise
        return TextSearch(text)
