"""Read base64, and quoted strings of hex or base64."""

from __future__ import annotations

import base64
import binascii
import re

_QUOTED = re.compile(r"(?P<quote>['\"`])(?P<text>[0-9a-zA-Z+/=_:\s-]{8,})(?P=quote)")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_HEX = re.compile(r"[0-9a-fA-F\s:-]+")


def quoted_text(text: str) -> str | None:
    """Return the first quoted string that is hex or base64, e.g. in `bytes.fromhex("0000")`; None if there is none."""
    for match in _QUOTED.finditer(text):
        if _HEX.fullmatch(match["text"]) or read_base64(match["text"]) is not None:
            return match["text"]
    return None


def read_base64(text: str) -> bytes | None:
    """Read base64, standard or URL-safe, padded or not, possibly wrapped; return None if the text is not base64.

    Frames below 1 MiB begin with 12 zero bits, and so with AA. Other text is base64 only if it has padding or one of
    its marks: hex with a typo must not be mistaken for base64.
    """
    joined = "".join(text.split("\n")).strip()
    if not _BASE64.fullmatch(joined) or re.fullmatch(r"[0-9a-fA-F-]+", joined):
        return None
    if not (joined.startswith("AA") or joined.endswith("=") or "+" in joined or "/" in joined):
        return None
    joined = joined.rstrip("=")
    try:
        return base64.b64decode((joined + "=" * (-len(joined) % 4)).translate(_STANDARD), validate=True)
    except binascii.Error:
        return None


_STANDARD = str.maketrans("-_", "+/")
