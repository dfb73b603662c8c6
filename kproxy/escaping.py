"""Text from outside (file names, topics, client ids, messages) inside a generated text: one function per language.

Every writer of a file or output uses these, so that nobody else's text ends a string, runs as code, or moves a cursor.
HTML and XML are built as trees with `xml.etree`, which escapes markup; `terminal` replaces the characters that XML
does not allow.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from dissectors.plain_text import printable_text

#: Characters of JSON that act on a terminal or change the order of what people see: DEL, C1 controls, marks and
#: overrides of direction, separators of lines, zero-width characters. JSON escapes C0 controls anyway.
_ACTIVE: Final = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


#: `text` as one line of a terminal, without effects.
terminal = printable_text


def terminal_lines(text: str) -> str:
    """As `terminal`, but newlines stay."""
    return text if text.isprintable() else "\n".join(map(terminal, text.split("\n")))


def python_comment(text: str) -> str:
    """`text` inside a comment of Python: ASCII, on one line."""
    return text.encode("unicode_escape").decode("ascii")


def python_docstring(text: str) -> str:
    '''`text` inside a string of Python between ``"""``, which evaluates to it.'''
    return python_comment(text).replace('"', '\\"')


def shell_word(text: str) -> str:
    """`text` as one word of a POSIX shell that can be shown and pasted.

    Bash, zsh and ksh read the form ``$'...'``, which is used only for what a terminal would not show.
    """
    if text.isprintable():
        return shlex.quote(text)
    raw = text.encode("utf-8", "surrogateescape" if _is_file_name(text) else "surrogatepass")
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\{b:03o}" for b in raw) + "'"


def _is_file_name(text: str) -> bool:
    return all(not 0xD800 <= ord(c) <= 0xDFFF or 0xDC80 <= ord(c) <= 0xDCFF for c in text)


def markdown_code(text: str) -> str:
    """`text` as a code span of Markdown, in which nothing is markup; the fence is longer than any run inside."""
    text = terminal(text)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def json_text(encoded: bytes) -> bytes:
    r"""JSON whose strings have no character that acts on a terminal; it is equal after parsing (``\u009b``)."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded.decode()).encode()
