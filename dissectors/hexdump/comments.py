"""Comments in pasted hex and arrays."""

from __future__ import annotations

import re

from dissectors.hexdump.errors import error_at

# The first alternative is the text column of Wireshark's C arrays: up to eight characters, perhaps '*/' or '//'.
_COMMENT = re.compile(r"/\* .{1,8} \*/[ \t]*$|/\*[\s\S]*?(?:\*/|\Z)|(?:#|//).*$", re.M)


def blank_comments(text: str) -> str:
    """Return the text with blanks in place of comments, so that positions do not change."""
    return _COMMENT.sub(_blank_comment, text)


def _blank_comment(match: re.Match[str]) -> str:
    if match[0].startswith("/*") and not match[0].rstrip().endswith("*/"):
        raise error_at(match.string, match.start(), "this comment is not closed: add */")
    return re.sub(r"[^\n]", " ", match[0])
