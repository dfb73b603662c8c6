"""Escapes untrusted text (file names, topics, client ids, messages) for generated text: one function per language.

Everything that writes a file or output uses these functions, so that foreign text cannot end a string, run as code, or
move a cursor.
HTML and XML are built as trees with `xml.etree`, which escapes markup; `terminal` replaces the characters that XML
does not allow.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from dissectors.plain_text import printable_text

#: Characters that JSON allows, but that act on a terminal or change the order of what people see: DEL, C1 controls,
#: direction marks and overrides, line separators, zero-width characters. JSON escapes C0 controls anyway.
_ACTIVE: Final = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


#: Returns `text` as one line that has no effect on a terminal.
terminal = printable_text


def terminal_lines(text: str) -> str:
    """Return `text` escaped as by `terminal`, but keep its newlines."""
    return text if text.isprintable() else "\n".join(map(terminal, text.split("\n")))


def python_comment(text: str) -> str:
    """Return `text` as one line of ASCII for a Python comment."""
    return text.encode("unicode_escape").decode("ascii")


def python_docstring(text: str) -> str:
    '''Return `text` escaped for a Python string between ``"""``, so that the string evaluates to `text`.'''
    return python_comment(text).replace('"', '\\"')


def shell_word(text: str) -> str:
    """Return `text` as one word for a POSIX shell, safe to show and to paste.

    The form ``$'...'``, which bash, zsh and ksh read, is used only for text that a terminal would not show.
    """
    if text.isprintable():
        return shlex.quote(text)
    raw = text.encode("utf-8", "surrogateescape" if _is_file_name(text) else "surrogatepass")
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\{b:03o}" for b in raw) + "'"


def _is_file_name(text: str) -> bool:
    """Whether all surrogates in the text stand for undecodable bytes, as in Python's file names."""
    return all(not 0xD800 <= ord(c) <= 0xDFFF or 0xDC80 <= ord(c) <= 0xDCFF for c in text)


def markdown_code(text: str) -> str:
    """Return `text` as a Markdown code span; its fence is longer than any run of backticks inside."""
    text = terminal(text)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def json_text(encoded: bytes) -> bytes:
    r"""Return equivalent JSON in which characters that act on a terminal are escaped (``\u009b``)."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded.decode()).encode()
